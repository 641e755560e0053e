package integration

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// orderGoOn is the line that makes the held jobs of a child go on, those that it will start later too.
const orderGoOn = "go on"

// child is a worker program in a process of its own. It is killed at the end of the test, if it still runs.
type child struct {
	t     *testing.T
	cmd   *exec.Cmd
	pid   int
	stdin io.WriteCloser
	log   *logTail
	ended chan struct{} // closed when the process is gone and all of its events have been read

	mu     sync.Mutex
	events []event
	more   chan struct{} // closed and replaced at each event
}

// startChild starts the program.
func startChild(t *testing.T, p program) *child {
	t.Helper()
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := &child{t: t, log: &logTail{}, ended: make(chan struct{}), more: make(chan struct{})}
	c.cmd = exec.Command(executable)
	c.cmd.Env = append(os.Environ(), programVariable+"="+string(text))
	c.cmd.Stderr = c.log
	dieWithParent(c.cmd)
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	started := make(chan error, 1)
	go c.attend(stdout, started)
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	c.pid = c.cmd.Process.Pid
	t.Cleanup(c.bury)
	return c
}

// attend starts the process, reads what it says, and waits for its end. It keeps its thread all the while: on Linux the
// child dies with the thread that started it.
func (c *child) attend(stdout io.Reader, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(c.ended)
	err := c.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			e = event{What: "unreadable", Err: lines.Text()}
		}
		c.mu.Lock()
		c.events = append(c.events, e)
		close(c.more)
		c.more = make(chan struct{})
		c.mu.Unlock()
	}
	_ = c.cmd.Wait() // its state says how
}

// bury makes sure that the process is gone, and shows what it did if the test has failed.
func (c *child) bury() {
	_ = c.cmd.Process.Kill() // fails only if it has ended
	<-c.ended
	if strings.Contains(c.log.String(), "DATA RACE") {
		c.t.Errorf("a data race in process %d", c.pid)
	}
	if c.t.Failed() {
		c.t.Logf("process %d (%s):\n%s\n%s", c.pid, c.cmd.ProcessState, c.story(), c.log)
	}
}

// story is what the process said.
func (c *child) story() string {
	var text strings.Builder
	for _, e := range c.all(func(event) bool { return true }) {
		line, _ := json.Marshal(e)
		fmt.Fprintf(&text, "  %s\n", line)
	}
	return text.String()
}

// all returns the events so far that match.
func (c *child) all(match func(event) bool) []event {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.matching(match)
}

// matching is all with the lock held.
func (c *child) matching(match func(event) bool) (found []event) {
	for _, e := range c.events {
		if match(e) {
			found = append(found, e)
		}
	}
	return found
}

// await waits until n events match, earlier ones included, and returns them. It fails the test when the process ends
// before that.
func (c *child) await(what string, n int, match func(event) bool) []event {
	c.t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		c.mu.Lock()
		found, more := c.matching(match), c.more
		c.mu.Unlock()
		if len(found) >= n {
			return found
		}
		select {
		case <-more:
		case <-c.ended:
			if found := c.all(match); len(found) >= n {
				return found
			}
			c.t.Fatalf("process %d ended (%s) before: %s", c.pid, c.cmd.ProcessState, what)
		case <-timer.C:
			c.t.Fatalf("process %d, not within %s: %s (%d of %d)", c.pid, patience, what, len(found), n)
		}
	}
}

// goOn lets the held jobs of the process go on. One that has ended already needs no telling.
func (c *child) goOn() {
	_, _ = io.WriteString(c.stdin, orderGoOn+"\n")
}

// kill ends the process with SIGKILL and waits until it is gone.
func (c *child) kill() {
	c.t.Helper()
	if err := c.cmd.Process.Kill(); err != nil {
		c.t.Fatalf("kill process %d: %v", c.pid, err)
	}
	<-c.ended
}

// exit waits until the process has ended by itself and requires the exit code.
func (c *child) exit(code int) {
	c.t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-c.ended:
	case <-timer.C:
		c.t.Fatalf("process %d did not end within %s", c.pid, patience)
	}
	if got := c.cmd.ProcessState.ExitCode(); got != code {
		c.t.Fatalf("process %d: %s, want exit code %d", c.pid, c.cmd.ProcessState, code)
	}
}

// logTail keeps the last of what a process logs.
type logTail struct {
	mu    sync.Mutex
	bytes []byte
}

const logLimit = 16 << 10

func (l *logTail) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bytes = append(l.bytes, text...)
	if over := len(l.bytes) - logLimit; over > 0 {
		l.bytes = append(l.bytes[:0], l.bytes[over:]...)
	}
	return len(text), nil
}

func (l *logTail) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.bytes)
}
