package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// workerProcesses is how many processes share the work.
const workerProcesses = 2

// workerProcess is a child of this process that runs a worker.
type workerProcess struct {
	pid   int
	id    string // the worker's, as pgqueue writes it to claimed_by
	stdin io.Closer
	log   *tail
	cmd   *exec.Cmd
	ended chan struct{} // closed when the process is gone
	err   error         // how it ended; read after ended
}

// startTimeout bounds how long a worker process may take to say its id.
const startTimeout = 30 * time.Second

// startWorker starts this program again as a worker and waits until it has made its worker.
func startWorker(ctx context.Context, opts options) (*workerProcess, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the own program: %w", err)
	}
	id := &lineWriter{line: make(chan string, 1)}
	p := &workerProcess{log: &tail{limit: 8 << 10}, ended: make(chan struct{})}
	p.cmd = exec.Command(program, workerCommand, "-root", opts.root, "-lease", opts.lease.String(), "-pause", opts.pause.String())
	p.cmd.Env = append(os.Environ(), "DATABASE_URL="+opts.databaseURL) // not an argument: those can be read by all users
	p.cmd.Stdout, p.cmd.Stderr = id, p.log
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start a worker: %w", err)
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a worker: %w", err)
	}
	p.pid = p.cmd.Process.Pid
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	select {
	case p.id = <-id.line:
		return p, nil
	case <-p.ended:
		return nil, p.failure()
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-time.After(startTimeout):
		err = fmt.Errorf("start a worker: process %d said nothing for %s%s", p.pid, startTimeout, p.log)
	}
	p.kill()
	return nil, err
}

// kill ends the process with SIGKILL (TerminateProcess on Windows), which it cannot notice, and waits until it is gone.
func (p *workerProcess) kill() {
	_ = p.cmd.Process.Kill() // fails only if it has ended already
	<-p.ended
}

// stopTimeout bounds how long a worker may take to stop when asked.
const stopTimeout = 40 * time.Second

// stop asks the worker to stop and waits until the process is gone. It does nothing to one that has ended.
func (p *workerProcess) stop() error {
	_ = p.stdin.Close() // a second Close is harmless
	select {
	case <-p.ended:
		if p.err != nil {
			return p.failure()
		}
		return nil
	case <-time.After(stopTimeout):
		p.kill()
		return fmt.Errorf("worker process %d did not stop within %s and was killed%s", p.pid, stopTimeout, p.log)
	}
}

// running tells whether the process has not ended.
func (p *workerProcess) running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// failure describes how the process ended, with the last of what it logged.
func (p *workerProcess) failure() error {
	how := "with exit code 0"
	if p.err != nil {
		how = p.err.Error()
	}
	return fmt.Errorf("worker process %d ended on its own: %s%s", p.pid, how, p.log)
}

// stopWorkers stops all of them side by side, but for the one that was killed.
func stopWorkers(workers []*workerProcess, killed *casualty) error {
	errs := make([]error, len(workers))
	var group sync.WaitGroup
	for i, worker := range workers {
		if !killed.is(worker) {
			group.Go(func() { errs[i] = worker.stop() })
		}
	}
	group.Wait()
	return errors.Join(errs...)
}

// lineWriter sends the first line written to it, and drops the rest.
type lineWriter struct {
	line   chan string
	buffer bytes.Buffer
	sent   bool
}

func (w *lineWriter) Write(text []byte) (int, error) {
	if !w.sent {
		w.buffer.Write(text)
		if line, _, found := strings.Cut(w.buffer.String(), "\n"); found {
			w.sent = true
			w.line <- strings.TrimSpace(line)
		}
	}
	return len(text), nil
}

// tail keeps the last bytes of a log. It is safe for concurrent use.
type tail struct {
	limit int

	mutex sync.Mutex
	bytes []byte
}

func (t *tail) Write(text []byte) (int, error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.bytes = append(t.bytes, text...)
	if over := len(t.bytes) - t.limit; over > 0 {
		t.bytes = append(t.bytes[:0], t.bytes[over:]...)
	}
	return len(text), nil
}

// String returns the log, indented on lines of its own, or nothing.
func (t *tail) String() string {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	text := strings.TrimSpace(string(t.bytes))
	if text == "" {
		return ""
	}
	return "; its log ends:\n    " + strings.ReplaceAll(text, "\n", "\n    ")
}
