package pgproxy_test

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pgqueue/pgqueue/internal/pgproxy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// message is one protocol message of the server's side.
func message(kind byte, body string) []byte {
	m := binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(body)+4))
	return append(m, body...)
}

// session is a client's connection through a proxy and the server's end of it.
type session struct {
	t              *testing.T
	client, server net.Conn
}

// open makes a server, a proxy in front of it, and returns a function that opens sessions.
func open(t *testing.T) (*pgproxy.Proxy, func() session) {
	t.Helper()
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	proxy, err := pgproxy.Start("tcp", server.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		proxy.Close()
		_ = server.Close()
	})
	return proxy, func() session {
		client, err := net.DialTCP("tcp", nil, &net.TCPAddr{IP: net.ParseIP(proxy.Host()), Port: int(proxy.Port())})
		if err != nil {
			t.Fatal(err)
		}
		backend, err := server.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = client.Close(); _ = backend.Close() })
		s := session{t, client, backend}
		s.write(client, []byte{0, 0, 0, 8, 4, 210, 22, 47}) // SSLRequest
		s.want(client, "N")
		start := []byte{0, 0, 0, 12, 0, 3, 0, 0, 'u', 0, 'x', 0}
		s.write(client, start)
		s.want(backend, string(start))
		return s
	}
}

func (s session) write(to net.Conn, data []byte) {
	s.t.Helper()
	if _, err := to.Write(data); err != nil {
		s.t.Fatal(err)
	}
}

func (s session) want(from net.Conn, text string) {
	s.t.Helper()
	_ = from.SetReadDeadline(time.Now().Add(30 * time.Second))
	got := make([]byte, len(text))
	if _, err := io.ReadFull(from, got); err != nil || string(got) != text {
		s.t.Fatalf("read %q, %v, want %q", got, err, text)
	}
}

// silent requires that nothing arrives, nor the end, for as long as a test can wait for nothing.
func (s session) silent(from net.Conn) {
	s.t.Helper()
	_ = from.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	if n, err := from.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		s.t.Fatalf("read %d bytes, %v, want nothing", n, err)
	}
}

func (s session) gone(conn net.Conn) {
	s.t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(30 * time.Second))
	if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		s.t.Fatalf("read: %v, want the end of the connection", err)
	}
}

func TestSwallow(t *testing.T) {
	proxy, dial := open(t)
	s := dial()
	note, ready := message('A', "pid channel payload"), message('Z', "I")
	s.write(s.server, append(append([]byte(nil), note...), ready...))
	s.want(s.client, string(note)+string(ready))
	proxy.SwallowNotifications(true)
	s.write(s.server, append(append([]byte(nil), note...), ready...))
	s.want(s.client, string(ready))
	if proxy.Swallowed() != 1 {
		t.Errorf("swallowed %d", proxy.Swallowed())
	}
}

func TestStallAndResume(t *testing.T) {
	proxy, dial := open(t)
	s := dial()
	proxy.Stall()
	s.write(s.client, []byte("question"))
	s.write(s.server, message('Z', "I"))
	s.silent(s.server)
	s.silent(s.client)
	proxy.Resume()
	s.want(s.server, "question")
	s.want(s.client, string(message('Z', "I")))
}

func TestHalfOpen(t *testing.T) {
	proxy, dial := open(t)
	s := dial()
	proxy.HalfOpen()
	s.gone(s.server)
	s.write(s.client, []byte("anybody there"))
	s.silent(s.client)
	s.write(s.client, []byte("still nobody"))
	fresh := dial()
	fresh.write(fresh.client, []byte("hello"))
	fresh.want(fresh.server, "hello")
	if proxy.Open() != 2 || proxy.Accepted() != 2 {
		t.Errorf("%d open, %d accepted", proxy.Open(), proxy.Accepted())
	}
}

func TestCutAndRefuse(t *testing.T) {
	proxy, dial := open(t)
	s := dial()
	proxy.Stall() // must not hold a cut back
	proxy.Cut()
	s.gone(s.client)
	s.gone(s.server)
	proxy.Resume()
	proxy.Refuse(true)
	refused, err := net.DialTCP("tcp", nil, &net.TCPAddr{IP: net.ParseIP(proxy.Host()), Port: int(proxy.Port())})
	if err == nil {
		s.gone(refused)
		_ = refused.Close()
	}
	proxy.Refuse(false)
	dial()
}

// A connection that was being made when the proxy began to refuse does not outlive the Cut behind it.
func TestNothingSurvivesRefuseAndCut(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	go func() { // keeps what comes open, as a server does
		for {
			conn, err := server.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
		}
	}()
	for round := range 200 {
		proxy, err := pgproxy.Start("tcp", server.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		address := &net.TCPAddr{IP: net.ParseIP(proxy.Host()), Port: int(proxy.Port())}
		var clients []net.Conn
		for range 8 {
			client, err := net.DialTCP("tcp", nil, address)
			if err != nil {
				t.Fatal(err)
			}
			clients = append(clients, client)
		}
		proxy.Refuse(true)
		proxy.Cut()
		for n, client := range clients {
			_ = client.SetReadDeadline(time.Now().Add(5 * time.Second))
			if _, err := client.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatalf("round %d: connection %d outlives Refuse and Cut", round, n)
			}
			_ = client.Close()
		}
		proxy.Close()
	}
}
