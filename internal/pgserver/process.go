package pgserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// process is one run of the server.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended and server.pid is gone
}

// errRetry marks a start that failed for a reason that passes by itself, or with another port.
var errRetry = errors.New("retry")

// launch starts the server on the port and waits until it takes connections.
func (s *Server) launch(ctx context.Context, port int) (*process, error) {
	log, err := os.OpenFile(s.LogFile(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	info, err := log.Stat()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(s.binaries.program("postgres"),
		"-D", filepath.Join(s.dir, dataFolder),
		"-c", "port="+strconv.Itoa(port),
		"-c", "listen_addresses=127.0.0.1",
		"-c", "unix_socket_directories="+s.socket)
	cmd.Env = serverEnv()
	cmd.Dir = filepath.VolumeName(s.dir) + string(filepath.Separator)
	cmd.Stdout, cmd.Stderr = log, log
	s.user.command(cmd, s.closed)
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go s.supervise(p, started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting postgres: %w", err)
	}
	if err := s.ready(ctx, p, port, info.Size()); err != nil {
		s.end(p)
		return nil, err
	}
	return p, nil
}

// supervise starts the server and waits for its end, all on one thread: on Linux the kernel tells the server that its parent
// died when the thread that started it ends, so that this thread must do nothing but wait.
func (s *Server) supervise(p *process, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// A Server that nobody refers to any more, such as one that is to live as long as the process, must not be collected while
	// it runs: its files would be closed, among them the pipe that tells the watchdog that the owner lives.
	defer runtime.KeepAlive(s)
	defer close(p.done)
	if err := p.cmd.Start(); err != nil {
		started <- err
		return
	}
	pidFile := filepath.Join(s.dir, serverPID)
	if err := os.WriteFile(pidFile, []byte(strconv.Itoa(p.cmd.Process.Pid)+"\n"), 0o600); err != nil {
		_ = p.cmd.Process.Kill() // it ended by itself
		_ = p.cmd.Wait()         // its exit code says nothing more
		started <- err
		return
	}
	started <- nil
	_ = p.cmd.Wait()       // the log says why it ended
	_ = os.Remove(pidFile) // gone with the directory
}

// ready waits until the server has taken a connection, or has ended. logStart is where this run's log begins.
func (s *Server) ready(ctx context.Context, p *process, port int, logStart int64) error {
	for {
		// The server itself must say that it is up before the port is asked: until then the port may be of somebody else, who
		// was quicker to take it. "standby" is what a standby without hot_standby says, which takes no connection.
		pid, state := postmasterFile(s.dir)
		if pid == p.cmd.Process.Pid && (state == "standby" || state == "ready" && handshake(ctx, port) == nil) {
			return nil
		}
		select {
		case <-p.done:
			return s.ended(logStart)
		default:
		}
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			return fmt.Errorf("waiting for postgres: %w: %s", err, lastLines(s.logFrom(logStart), 5))
		}
	}
}

// ended says why a server ended during its start.
func (s *Server) ended(logStart int64) error {
	text := s.logFrom(logStart)
	err := fmt.Errorf("postgres ended during its start: %s", lastLines(text, 8))
	for _, passing := range []string{
		"could not create any TCP/IP sockets",         // somebody took the port
		"pre-existing shared memory block",            // a killed server's children are still there
		"lock file \"postmaster.pid\" already exists", // a killed owner's server is still shutting down
	} {
		if strings.Contains(text, passing) {
			return errors.Join(errRetry, err)
		}
	}
	return err
}

// end makes sure that the process is gone: asks it, and after a while kills it.
func (s *Server) end(p *process) {
	for _, stop := range []func(*os.Process) error{s.interrupt, s.crash, (*os.Process).Kill} {
		_ = stop(p.cmd.Process) // it may be gone already
		select {
		case <-p.done:
			return
		case <-time.After(5 * time.Second):
		}
	}
}

// Ports are taken from below the range from which systems give ports to outgoing connections: there, a client that keeps
// reconnecting while the server restarts could be given the server's own port.
const (
	lowestPort  = 15000
	highestPort = 32000
)

// freePort returns a TCP port on which nobody listens at this moment.
func freePort(random func(n int) int) (int, error) {
	for range 100 {
		port := lowestPort + random(highestPort-lowestPort)
		listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			continue
		}
		if err := listener.Close(); err != nil {
			return 0, err
		}
		return port, nil
	}
	return 0, errors.New("found no free TCP port on 127.0.0.1")
}
