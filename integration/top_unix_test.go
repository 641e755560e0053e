//go:build !windows

package integration

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// terminalSession is a program on a terminal of its own.
type terminalSession struct {
	t       *testing.T
	command *exec.Cmd
	file    *os.File
	output  chan []byte
	seen    bytes.Buffer
}

// commandLine builds the command line.
func commandLine(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pgqueue")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", path, "./cmd/pgqueue")
	build.Dir = ".." // the core's module has what the command line needs, this one does not
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the command line: %v\n%s", err, output)
	}
	return path
}

func onTerminal(t *testing.T, db *pgqueuetest.DB, path string, args ...string) *terminalSession {
	t.Helper()
	s := &terminalSession{t: t, command: exec.CommandContext(t.Context(), path, args...), output: make(chan []byte)}
	s.command.Env = append(os.Environ(), "PGQUEUE_DATABASE_URL="+db.URL, "PGQUEUE_SCHEMA="+db.Schema, "TERM=xterm")
	var err error
	if s.file, err = pty.StartWithSize(s.command, &pty.Winsize{Rows: 20, Cols: 100}); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { close(done); s.file.Close() })
	go func() {
		defer close(s.output)
		for {
			part := make([]byte, 4096)
			n, err := s.file.Read(part)
			select {
			case s.output <- part[:n]:
			case <-done:
				return
			}
			if err != nil {
				return // Linux answers EIO when the last program has left the terminal
			}
		}
	}()
	return s
}

// shows waits until the terminal was sent a text, and forgets what came up to it.
func (s *terminalSession) shows(text string) {
	s.t.Helper()
	for !strings.Contains(s.seen.String(), text) {
		s.seen.Write(receive(s.t, s.output, "the terminal shows "+text+"; so far: "+s.seen.String()))
	}
	_, rest, _ := strings.Cut(s.seen.String(), text)
	s.seen.Reset()
	s.seen.WriteString(rest)
}

func (s *terminalSession) types(keys string) {
	s.t.Helper()
	if _, err := s.file.WriteString(keys); err != nil {
		s.t.Fatal(err)
	}
}

// ends waits until the program has ended and everything it wrote was read.
func (s *terminalSession) ends() error {
	s.t.Helper()
	for part := range s.output {
		s.seen.Write(part)
	}
	return s.command.Wait()
}

// On a terminal, top takes the screen, redraws, listens to keys, and gives the screen back, however it ends.
func TestTopOnATerminal(t *testing.T) {
	db := pgqueuetest.New(t)
	client := db.Client(t)
	if _, err := client.Enqueue(t.Context(), db.Pool, pgqueue.Raw{Name: "send"}, pgqueue.OnQueue("mail")); err != nil {
		t.Fatal(err)
	}
	path := commandLine(t)
	const takes, gives = "\x1b[?1049h", "\x1b[?1049l"
	for name, end := range map[string]func(*terminalSession){
		"q":       func(s *terminalSession) { s.types("q") },
		"Ctrl-C":  func(s *terminalSession) { s.types("\x03") },
		"SIGTERM": func(s *terminalSession) { _ = s.command.Process.Signal(syscall.SIGTERM) },
	} {
		t.Run(name, func(t *testing.T) {
			s := onTerminal(t, db, path, "top", "--interval", "500ms")
			s.shows(takes)
			s.shows("mail")
			s.shows("order: lag")
			s.types("s")
			s.shows("order: depth")
			if _, err := client.Enqueue(t.Context(), db.Pool, pgqueue.Raw{Name: "send"}, pgqueue.OnQueue("after-"+name[:1])); err != nil {
				t.Fatal(err)
			}
			s.shows("after-" + name[:1]) // without a key: it looks again by itself
			end(s)
			if err := s.ends(); err != nil {
				t.Errorf("top ended with %v", err)
			}
			if !strings.Contains(s.seen.String(), gives) {
				t.Errorf("the screen was not given back: %q", s.seen.String())
			}
		})
	}
}
