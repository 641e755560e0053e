package pgserver

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// childEnv makes the test binary start a server, print where it is, and wait to be killed.
const childEnv = "PGQUEUE_PGSERVER_TEST_CHILD"

func TestMain(m *testing.M) {
	if kind := os.Getenv(childEnv); kind != "" {
		child(kind)
		return
	}
	os.Exit(m.Run())
}

// child is the owner that gets killed. It prints the server's directory, port and process id, and the watchdog's id. The kind
// "exit" ends by itself, without Stop, when its input ends.
func child(kind string) {
	server, err := Start(context.Background(), Options{ParentDir: os.Getenv("PGQUEUE_PGSERVER_TEST_DIR")})
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	fmt.Println(server.Dir(), server.Port(), server.PID(), watchdogPID(server))
	bufio.NewReader(os.Stdin).ReadByte()
	if kind == "exit" {
		os.Exit(0)
	}
	select {}
}

// owner is a running child.
type owner struct {
	cmd           *exec.Cmd
	dir           string
	port, pid, wd int
}

func startOwner(t *testing.T, kind, parent string) *owner {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+kind, "PGQUEUE_PGSERVER_TEST_DIR="+parent)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); stdin.Close() })
	line, err := bufio.NewReader(stdout).ReadString('\n')
	fields := strings.Fields(line)
	if err != nil || len(fields) != 4 {
		t.Fatalf("the child printed %q: %v", line, err)
	}
	o := &owner{cmd: cmd, dir: fields[0]}
	for i, target := range []*int{&o.port, &o.pid, &o.wd} {
		if *target, err = strconv.Atoi(fields[i+1]); err != nil {
			t.Fatalf("the child printed %q: %v", line, err)
		}
	}
	if kind == "exit" {
		stdin.Close()
		if err := cmd.Wait(); err != nil {
			t.Fatalf("the child ended with %v", err)
		}
	}
	return o
}

func (o *owner) kill(t *testing.T) {
	t.Helper()
	if err := o.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	o.cmd.Wait()
}

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func startServer(t *testing.T, opts Options) *Server {
	t.Helper()
	server, err := Start(testContext(t), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return server
}

// eventually polls what only the operating system knows.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-deadline.C:
			t.Fatalf("not within a minute: %s", what)
		case <-tick.C:
		}
	}
}

func listening(port int) bool {
	conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

func missing(path string) bool {
	_, err := os.Stat(path)
	return os.IsNotExist(err)
}

// query runs one statement through the simple query protocol and returns the columns of its last row.
func query(t *testing.T, port int, sql string) []string {
	t.Helper()
	conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Minute))
	reader := bufio.NewReader(conn)
	conn.Write(startupMessage())
	readUntilReady(t, reader)
	message := append([]byte{'Q', 0, 0, 0, 0}, sql+"\x00"...)
	message[3], message[4] = byte((len(message)-1)>>8), byte(len(message)-1)
	conn.Write(message)
	return readUntilReady(t, reader)
}

func readUntilReady(t *testing.T, reader *bufio.Reader) (row []string) {
	t.Helper()
	for {
		kind, body, err := readMessage(reader)
		if err != nil {
			t.Fatal(err)
		}
		switch kind {
		case 'E':
			t.Fatalf("server: %q", body)
		case 'D':
			row = nil
			for rest := body[2:]; len(rest) > 0; {
				n := int(rest[0])<<24 | int(rest[1])<<16 | int(rest[2])<<8 | int(rest[3])
				row = append(row, string(rest[4:4+n]))
				rest = rest[4+n:]
			}
		case 'Z':
			return row
		}
	}
}

// throwaways lists the throwaway directories in parent.
func throwaways(t *testing.T, parent string) []string {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(parent, throwawayPrefix+"*"))
	if err != nil {
		t.Fatal(err)
	}
	return dirs
}

// openDir returns a directory that the server's user can reach, as t.TempDir for root need not be.
func openDir(t *testing.T) string {
	t.Helper()
	user, err := serverUser()
	if err != nil {
		t.Fatal(err)
	}
	parent, err := parentDir(Options{}, user)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(parent, "pgserver-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	return dir
}
