package main

import (
	"bufio"
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

// process is a child of this process that runs a worker.
type process struct {
	pid   int
	cmd   *exec.Cmd
	stdin io.Closer
	log   *safeBuffer
	ended chan struct{} // closed when the process is gone
	err   error         // how it ended; read after ended
}

const (
	startTimeout = 30 * time.Second
	stopTimeout  = 40 * time.Second
)

// startProcess starts this program again as a worker and waits until it says that it is ready.
func startProcess(ctx context.Context, opts options, database, providers string) (*process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the own program: %w", err)
	}
	p := &process{log: &safeBuffer{}, ended: make(chan struct{})}
	p.cmd = exec.Command(program, append([]string{workerCommand}, opts.args()...)...)
	p.cmd.Env = append(os.Environ(), envDatabase+"="+database, envProviders+"="+providers) // arguments can be read by all users
	p.cmd.Stderr = p.log
	ready, readyWriter := io.Pipe()
	p.cmd.Stdout = readyWriter
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start a worker: %w", err)
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a worker: %w", err)
	}
	p.pid = p.cmd.Process.Pid
	said := make(chan struct{})
	go func() {
		if bufio.NewScanner(ready).Scan() {
			close(said)
		}
		_, _ = io.Copy(io.Discard, ready)
	}()
	go func() {
		p.err = p.cmd.Wait()
		_ = readyWriter.Close()
		close(p.ended)
	}()
	timeout := time.NewTimer(startTimeout)
	defer timeout.Stop()
	select {
	case <-said:
		return p, nil
	case <-p.ended:
		return nil, p.failure()
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-timeout.C:
		err = fmt.Errorf("worker process %d was not ready within %s%s", p.pid, startTimeout, p.log)
	}
	p.kill()
	return nil, err
}

// kill ends the process with SIGKILL (TerminateProcess on Windows), which it cannot notice, and waits until it is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // fails only if it has ended already
	<-p.ended
}

// stop asks the worker to stop and waits until the process is gone. It does nothing to one that has ended.
func (p *process) stop() error {
	_ = p.stdin.Close() // a second Close is harmless
	timeout := time.NewTimer(stopTimeout)
	defer timeout.Stop()
	select {
	case <-p.ended:
		if p.err != nil {
			return p.failure()
		}
		return nil
	case <-timeout.C:
		p.kill()
		return fmt.Errorf("worker process %d did not stop within %s and was killed%s", p.pid, stopTimeout, p.log)
	}
}

// running tells whether the process has not ended.
func (p *process) running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// failure describes how the process ended, with the last of what it logged.
func (p *process) failure() error {
	how := "with exit code 0"
	if p.err != nil {
		how = p.err.Error()
	}
	return fmt.Errorf("worker process %d ended on its own: %s%s", p.pid, how, p.log)
}

// stopAll stops all of them side by side, but for the one that was killed.
func stopAll(processes []*process, killed *process) error {
	errs := make([]error, len(processes))
	var group sync.WaitGroup
	for i, p := range processes {
		if p != killed {
			group.Go(func() { errs[i] = p.stop() })
		}
	}
	group.Wait()
	return errors.Join(errs...)
}

// safeBuffer keeps the last of a log. It is safe for concurrent use.
type safeBuffer struct {
	mutex  sync.Mutex
	buffer bytes.Buffer
}

func (b *safeBuffer) Write(text []byte) (int, error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if b.buffer.Len() > 16<<10 {
		b.buffer.Next(8 << 10)
	}
	return b.buffer.Write(text)
}

// String returns the log, indented on lines of its own, or nothing.
func (b *safeBuffer) String() string {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	text := strings.TrimSpace(b.buffer.String())
	if text == "" {
		return ""
	}
	return "; its log ends:\n    " + strings.ReplaceAll(text, "\n", "\n    ")
}
