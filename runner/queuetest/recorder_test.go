package queuetest_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pgqueue/pgqueue/runner/queuetest"
)

// recorder is a testing.TB that takes down failures instead of failing the test around it.
type recorder struct {
	testing.TB // for what is not overridden

	mu       sync.Mutex
	messages []string
	failed   bool
	cleanups []func()
}

func (r *recorder) fail(message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = true
	r.messages = append(r.messages, message)
}

func (r *recorder) Helper()                           {}
func (r *recorder) Log(...any)                        {}
func (r *recorder) Logf(string, ...any)               {}
func (r *recorder) Fail()                             { r.fail("Fail") }
func (r *recorder) FailNow()                          { r.fail("FailNow"); runtime.Goexit() }
func (r *recorder) Error(args ...any)                 { r.fail(fmt.Sprint(args...)) }
func (r *recorder) Errorf(format string, args ...any) { r.fail(fmt.Sprintf(format, args...)) }
func (r *recorder) Fatal(args ...any)                 { r.fail(fmt.Sprint(args...)); runtime.Goexit() }
func (r *recorder) Fatalf(format string, args ...any) {
	r.fail(fmt.Sprintf(format, args...))
	runtime.Goexit()
}

func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

func (r *recorder) Cleanup(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanups = append(r.cleanups, f)
}

// record runs one case and returns what it complained about; empty means that it passed.
func record(t *testing.T, c queuetest.Case[payload, string], h harness) string {
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() { // a goroutine of its own, which Fatal ends
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				r.fail(fmt.Sprint("panic: ", p))
			}
		}()
		c.Run(r, h)
	}()
	<-done
	for _, f := range slices.Backward(r.cleanups) {
		f()
	}
	return strings.Join(r.messages, "; ")
}

func TestRecorderTakesDownFailures(t *testing.T) {
	r := &recorder{TB: t}
	done := make(chan struct{})
	reached := false
	go func() {
		defer close(done)
		r.Errorf("first %d", 1)
		r.Fatalf("second %d", 2)
		reached = true
	}()
	<-done
	if reached || !r.Failed() || !slices.Equal(r.messages, []string{"first 1", "second 2"}) {
		t.Errorf("reached %v, failed %v, messages %q", reached, r.Failed(), r.messages)
	}
}
