package pgserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// ErrStopped is returned by Restart and Resume after Stop.
var ErrStopped = errors.New("pgserver: the server has been stopped")

// longestSocketPath is what fits into a socket address on every system (107 bytes on Linux, 103 on macOS).
const longestSocketPath = 103

// Server is a running PostgreSQL server that this process owns. Its methods may be called from several goroutines; those that
// start or stop it wait for each other.
type Server struct {
	binaries Binaries
	dir      string // holds the data directory, the log, the lock
	throw    bool   // dir goes at Stop
	owner    *os.File
	user     *account
	closed   bool   // the user may not enter a directory above dir by itself
	socket   string // directory of the socket
	ownsSock bool   // the socket directory lies outside dir and goes at Stop
	port     int
	watchdog *watchdog

	changing sync.Mutex // held while the server is started or stopped
	stopped  bool       // by changing

	mu      sync.Mutex
	process *process // by mu; nil or ended while halted
}

// Start starts a server and returns when it takes connections. ctx bounds the start only. The superuser is postgres, the
// encoding UTF8, the locale C.
func Start(ctx context.Context, opts Options) (*Server, error) {
	s, err := start(ctx, opts)
	if err != nil {
		return nil, fmt.Errorf("pgserver: %w", err)
	}
	return s, nil
}

func start(ctx context.Context, opts Options) (*Server, error) {
	user, err := serverUser()
	if err != nil {
		return nil, err
	}
	s := &Server{user: user, throw: opts.DataDir == ""}
	existing := 0
	if !s.throw {
		if existing, err = clusterVersion(opts.DataDir); err != nil {
			return nil, err
		}
		want, err := opts.version()
		if err != nil {
			return nil, err
		}
		if existing != 0 && want != 0 && want != existing {
			return nil, fmt.Errorf("the cluster in %s is of PostgreSQL %d, but %d is asked for", opts.DataDir, existing, want)
		}
		if existing != 0 {
			opts.Version = existing
		}
	}
	if s.binaries, err = Find(ctx, opts); err != nil {
		return nil, err
	}
	if err := user.enters(s.binaries.Dir); err != nil {
		return nil, fmt.Errorf("%s is of no use: %w", s.binaries.program("postgres"), err)
	}
	if s.dir, s.owner, err = home(opts, user); err != nil {
		return nil, err
	}
	if err := s.bringUp(ctx, opts, existing == 0); err != nil {
		return nil, errors.Join(err, s.cleanUp())
	}
	return s, nil
}

// bringUp does everything of Start that leaves something to clean up.
func (s *Server) bringUp(ctx context.Context, opts Options, fresh bool) error {
	if err := s.user.enters(s.dir); err != nil {
		if !canEnterClosed {
			return err
		}
		s.closed = true
	}
	var err error
	if s.watchdog, err = watch(s.dir, s.throw); err != nil {
		return err
	}
	if fresh {
		if err := s.prepare(ctx, opts); err != nil {
			return err
		}
	}
	if err := s.writeSettings(opts); err != nil {
		return err
	}
	if err := os.Remove(s.LogFile()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := s.makeSocketDir(); err != nil {
		return err
	}
	return s.startOnPort(ctx, opts.Port)
}

// startOnPort launches the server, on several ports in turn when any is welcome.
func (s *Server) startOnPort(ctx context.Context, fixed int) error {
	var last error
	for attempt := 1; ; attempt++ {
		port := fixed
		if fixed == 0 {
			var err error
			if port, err = freePort(rand.IntN); err != nil {
				return err
			}
		}
		process, err := s.launch(ctx, port)
		if err == nil {
			if s.port != port { // Port and URL are read without a lock: after Start nobody writes
				s.port = port
			}
			s.setProcess(process)
			return nil
		}
		if attempt >= 20 && !memoryHeld(err) || attempt == 300 || !errors.Is(err, errRetry) {
			if ctx.Err() != nil {
				err = errors.Join(err, last) // the reason of the attempt before says more than that the time is up
			}
			return err
		}
		last = err
		if waitErr := pause(ctx, 100*time.Millisecond); waitErr != nil {
			return errors.Join(waitErr, err)
		}
	}
}

// memoryHeld tells whether backends of a killed server still hold its shared memory. They end by themselves, but on a busy
// machine not at once.
func memoryHeld(err error) bool {
	return strings.Contains(err.Error(), "pre-existing shared memory block")
}

// makeSocketDir makes the directory of the socket, inside the cluster's directory unless that path is too long.
func (s *Server) makeSocketDir() error {
	s.socket = filepath.Join(s.dir, socketDir)
	var err error
	if s.closed || len(filepath.Join(s.socket, ".s.PGSQL.65535")) > longestSocketPath {
		s.ownsSock = true
		base := os.TempDir()
		if s.user.enters(base) != nil || len(base) > longestSocketPath/2 {
			base = "/tmp"
		}
		s.socket, err = os.MkdirTemp(base, "pgqueue-socket-")
	} else if err = os.Mkdir(s.socket, 0o700); errors.Is(err, os.ErrExist) {
		err = nil // of a fixed directory, from an earlier run
	}
	if err != nil {
		return err
	}
	return s.user.give(s.socket)
}

// cleanUp releases what Start has made; the server has ended or was never there.
func (s *Server) cleanUp() error {
	var errs []error
	if s.ownsSock {
		errs = append(errs, os.RemoveAll(s.socket))
	}
	if s.throw {
		errs = append(errs, os.RemoveAll(s.dir))
	}
	s.watchdog.release()
	errs = append(errs, s.owner.Close())
	return errors.Join(errs...)
}

// Stop shuts the server down: connections are ended, transactions rolled back. When ctx ends first, it is shut down
// at once. A throwaway cluster's directory is deleted. A second call returns nil.
func (s *Server) Stop(ctx context.Context) error { return s.stop(ctx, false) }

// StopImmediate is Stop without an orderly shutdown: what a crash of all server processes does.
func (s *Server) StopImmediate(ctx context.Context) error { return s.stop(ctx, true) }

func (s *Server) stop(ctx context.Context, immediate bool) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	if s.stopped {
		return nil
	}
	s.stopped = true
	err := s.halt(ctx, immediate)
	if err := errors.Join(err, s.cleanUp()); err != nil {
		return fmt.Errorf("pgserver: stopping: %w", err)
	}
	return nil
}

// Halt ends the server as Stop or, with immediate, StopImmediate does, but keeps the cluster for Resume. Halting a server that
// has ended is no error.
func (s *Server) Halt(ctx context.Context, immediate bool) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	if s.stopped {
		return ErrStopped
	}
	return s.halt(ctx, immediate)
}

func (s *Server) halt(ctx context.Context, immediate bool) error {
	p := s.current()
	if p == nil {
		return nil
	}
	select {
	case <-p.done:
		return nil
	default:
	}
	signal := s.interrupt
	if immediate {
		signal = s.crash
	}
	if err := signal(p.cmd.Process); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		s.end(p)
		return fmt.Errorf("the server did not stop in time and was ended: %w", context.Cause(ctx))
	}
}

// Resume starts a halted server, or one that somebody killed, on the same port, and returns when it takes connections.
func (s *Server) Resume(ctx context.Context) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	return s.resume(ctx)
}

func (s *Server) resume(ctx context.Context) error {
	if s.stopped {
		return ErrStopped
	}
	if p := s.current(); p != nil {
		select {
		case <-p.done:
		default:
			return nil
		}
	}
	if err := s.startOnPort(ctx, s.port); err != nil {
		return fmt.Errorf("pgserver: starting again: %w", err)
	}
	return nil
}

// Restart is Halt and Resume: the same port, the same data. With immediate the server ends as in a crash and recovers.
func (s *Server) Restart(ctx context.Context, immediate bool) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	if s.stopped {
		return ErrStopped
	}
	if err := s.halt(ctx, immediate); err != nil {
		return fmt.Errorf("pgserver: %w", err)
	}
	return s.resume(ctx)
}

// URL returns the connection string of a database, for example "postgres", over TCP as the superuser.
func (s *Server) URL(dbname string) string {
	location := url.URL{
		Scheme:   "postgres",
		User:     url.User("postgres"),
		Host:     "127.0.0.1:" + strconv.Itoa(s.port),
		Path:     "/" + dbname,
		RawQuery: "sslmode=disable",
	}
	return location.String()
}

// Port is the TCP port on 127.0.0.1. It stays the same across Restart.
func (s *Server) Port() int { return s.port }

// SocketDir is the directory of the server's Unix socket.
func (s *Server) SocketDir() string { return s.socket }

// Dir is the directory of the cluster: it holds "data", the data directory, and the log.
func (s *Server) Dir() string { return s.dir }

// Binaries says what runs.
func (s *Server) Binaries() Binaries { return s.binaries }

// PID is the process id of the server's first process, or of the last one when it is halted.
func (s *Server) PID() int {
	if p := s.current(); p != nil {
		return p.cmd.Process.Pid
	}
	return 0
}

// Done is closed when the present run of the server ends, for whatever reason. After Restart there is another one.
func (s *Server) Done() <-chan struct{} {
	if p := s.current(); p != nil {
		return p.done
	}
	ended := make(chan struct{})
	close(ended)
	return ended
}

// LogFile is the file that the server writes its log to.
func (s *Server) LogFile() string { return filepath.Join(s.dir, logName) }

// Log returns the server's log since Start, empty when it is gone.
func (s *Server) Log() string { return s.logFrom(0) }

func (s *Server) logFrom(offset int64) string {
	file, err := os.Open(s.LogFile())
	if err != nil {
		return ""
	}
	defer file.Close()
	if _, err := file.Seek(offset, io.SeekStart); err != nil {
		return ""
	}
	content, err := io.ReadAll(file)
	if err != nil {
		return ""
	}
	return string(content)
}

func (s *Server) current() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process
}

func (s *Server) setProcess(p *process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.process = p
}
