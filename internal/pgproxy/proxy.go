// Package pgproxy is a TCP proxy for tests that stands between a client and Postgres and does what networks and poolers
// do: stall, cut, keep a connection half open, and swallow notifications. It knows just enough of the protocol for the
// last. Package listener and the end-to-end tests use it.
package pgproxy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// Codes of the first packet of a connection, in place of a protocol version.
const (
	codeSSL    = 80877103
	codeGSSAPI = 80877104
)

// messageNotification is the type of NotificationResponse.
const messageNotification = 'A'

// Proxy forwards connections on a port of localhost to one Postgres server. Connections are unencrypted: it answers
// no to a client that asks for TLS. Its methods may be called from any goroutine.
type Proxy struct {
	listener net.Listener
	running  sync.WaitGroup

	accepted  atomic.Int64
	swallowed atomic.Int64
	swallow   atomic.Bool
	refuse    atomic.Bool

	mu     sync.Mutex
	closed bool
	target [2]string     // network and address of the server
	gate   chan struct{} // closed while data flows
	open   bool          // whether gate is closed
	links  map[*link]struct{}
}

// link is one forwarded connection.
type link struct {
	client, server net.Conn
	ended          chan struct{} // closed when the client's side is closed
	end            sync.Once
	abandoned      atomic.Bool // half open: the server's side is gone, and the client is not told
}

// Start opens a proxy to the server at address, "host:port" of network "tcp" or a socket's path of network "unix".
func Start(network, address string) (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("pgproxy: %w", err)
	}
	p := &Proxy{
		listener: listener, target: [2]string{network, address},
		gate: make(chan struct{}), open: true, links: map[*link]struct{}{},
	}
	close(p.gate)
	p.running.Add(1)
	go p.accept()
	return p, nil
}

// Host is the address that clients connect to.
func (p *Proxy) Host() string { return p.addr().IP.String() }

// Port is the port that clients connect to.
func (p *Proxy) Port() uint16 { return p.addr().AddrPort().Port() }

func (p *Proxy) addr() *net.TCPAddr {
	addr, _ := p.listener.Addr().(*net.TCPAddr)
	return addr
}

// Stall stops all data in both directions, on connections that exist and on new ones, which are still accepted. Nothing
// is lost: Resume lets it flow.
func (p *Proxy) Stall() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open {
		p.gate, p.open = make(chan struct{}), false
	}
}

// Resume ends a Stall.
func (p *Proxy) Resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.open {
		close(p.gate)
		p.open = true
	}
}

// Retarget makes the proxy forward new connections to another server, named as for Start. Those that exist stay where they are, as
// behind a virtual address that has moved.
func (p *Proxy) Retarget(network, address string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = [2]string{network, address}
}

// SwallowNotifications makes the proxy drop the notifications that the server sends, as a pooler in transaction mode
// does, and pass everything else.
func (p *Proxy) SwallowNotifications(on bool) { p.swallow.Store(on) }

// Refuse makes the proxy close new connections at once, as if no server were there. After Refuse(true) and Cut there is none left.
func (p *Proxy) Refuse(on bool) { p.refuse.Store(on) }

// Cut closes all connections, both sides.
func (p *Proxy) Cut() {
	for _, l := range p.each() {
		l.close()
	}
}

// HalfOpen closes the server's side of all connections without telling the clients: what they send disappears, and
// they hear nothing more. New connections work.
func (p *Proxy) HalfOpen() {
	for _, l := range p.each() {
		l.abandoned.Store(true)
		_ = l.server.Close()
	}
}

// Accepted is how many connections clients have made.
func (p *Proxy) Accepted() int64 { return p.accepted.Load() }

// Swallowed is how many notifications were dropped.
func (p *Proxy) Swallowed() int64 { return p.swallowed.Load() }

// Open is how many connections are open on the client's side.
func (p *Proxy) Open() int { return len(p.each()) }

// Close cuts everything and ends the proxy; nothing of it runs afterwards.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	_ = p.listener.Close()
	p.Cut()
	p.running.Wait()
}

func (p *Proxy) each() []*link {
	p.mu.Lock()
	defer p.mu.Unlock()
	links := make([]*link, 0, len(p.links))
	for l := range p.links {
		links = append(links, l)
	}
	return links
}

func (p *Proxy) accept() {
	defer p.running.Done()
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.accepted.Add(1)
		if p.refuse.Load() {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		target := p.target
		p.mu.Unlock()
		server, err := net.Dial(target[0], target[1])
		if err != nil {
			_ = client.Close()
			continue
		}
		l := &link{client: client, server: server, ended: make(chan struct{})}
		p.mu.Lock()
		if p.closed || p.refuse.Load() { // meanwhile: a Cut behind Refuse has not seen it, and it would outlive both
			ended := p.closed
			p.mu.Unlock()
			l.close()
			if ended {
				return
			}
			continue
		}
		p.links[l] = struct{}{}
		p.running.Add(1)
		p.mu.Unlock()
		go func() {
			defer p.running.Done()
			p.serve(l)
			l.close()
			p.mu.Lock()
			defer p.mu.Unlock()
			delete(p.links, l)
		}()
	}
}

// serve forwards one connection until its client's side is closed.
func (p *Proxy) serve(l *link) {
	if err := p.begin(l); err != nil {
		return
	}
	back := make(chan struct{})
	go func() {
		defer close(back)
		p.toClient(l)
		if !l.abandoned.Load() {
			l.close()
		}
	}()
	p.toServer(l)
	l.close()
	<-back
}

// begin forwards the first packet of a connection, and answers no to what may precede it.
func (p *Proxy) begin(l *link) error {
	for {
		packet := make([]byte, 8)
		if _, err := io.ReadFull(l.client, packet); err != nil {
			return err
		}
		length, code := binary.BigEndian.Uint32(packet), binary.BigEndian.Uint32(packet[4:])
		if code == codeSSL || code == codeGSSAPI {
			p.pass(l)
			if _, err := l.client.Write([]byte{'N'}); err != nil {
				return err
			}
			continue
		}
		if length < 8 || length > 1<<20 {
			return errors.New("pgproxy: not a start of the Postgres protocol")
		}
		rest := make([]byte, length-8)
		if _, err := io.ReadFull(l.client, rest); err != nil {
			return err
		}
		p.pass(l)
		_, err := l.server.Write(append(packet, rest...))
		return err
	}
}

// toServer forwards bytes as they come. A half-open connection swallows them.
func (p *Proxy) toServer(l *link) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := l.client.Read(buffer)
		if err != nil {
			return
		}
		p.pass(l)
		if _, err := l.server.Write(buffer[:n]); err != nil && !l.abandoned.Load() {
			return
		}
	}
}

// toClient forwards message by message, leaving out notifications if so told.
func (p *Proxy) toClient(l *link) {
	header := make([]byte, 5) // a type, and a length that counts itself
	for {
		if _, err := io.ReadFull(l.server, header); err != nil {
			return
		}
		length := binary.BigEndian.Uint32(header[1:])
		if length < 4 || length > 1<<30 {
			return
		}
		message := make([]byte, 1+length)
		copy(message, header)
		if _, err := io.ReadFull(l.server, message[5:]); err != nil {
			return
		}
		p.pass(l)
		if message[0] == messageNotification && p.swallow.Load() {
			p.swallowed.Add(1)
			continue
		}
		if l.abandoned.Load() {
			return
		}
		if _, err := l.client.Write(message); err != nil {
			return
		}
	}
}

// pass waits while the proxy is stalled.
func (p *Proxy) pass(l *link) {
	p.mu.Lock()
	gate := p.gate
	p.mu.Unlock()
	select {
	case <-gate:
	case <-l.ended:
	}
}

func (l *link) close() {
	l.end.Do(func() { close(l.ended) })
	_ = l.client.Close()
	_ = l.server.Close()
}
