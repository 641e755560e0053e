package runner

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"
)

type contextKey struct{}

// A context that is made when it is asked for must not be told from one that was there all the time.
func TestTaskContextMadeLate(t *testing.T) {
	t.Parallel()
	cause := errors.New("a cause")
	base := context.WithoutCancel(context.WithValue(t.Context(), contextKey{}, "value"))
	for name, ask := range map[string]func(context.Context){
		"nobody asked":         func(context.Context) {},
		"asked whether ended":  func(c context.Context) { _ = c.Err() },
		"waited for":           func(c context.Context) { c.Done() },
		"asked for the cause":  func(c context.Context) { _ = context.Cause(c) },
		"asked for a value":    func(c context.Context) { c.Value("none") },
		"asked for the values": func(c context.Context) { c.Value(contextKey{}) },
	} {
		c := &taskContext{values: base}
		ask(c)
		if c.Err() != nil || context.Cause(c) != nil || c.Value(contextKey{}) != "value" {
			t.Errorf("%s: Err %v, Cause %v, value %v before the end", name, c.Err(), context.Cause(c), c.Value(contextKey{}))
		}
		c = &taskContext{values: base}
		ask(c)
		c.end(cause)
		c.end(ErrStopping)
		if c.Err() != context.Canceled || context.Cause(c) != cause {
			t.Errorf("%s: Err %v, Cause %v after the end", name, c.Err(), context.Cause(c))
		}
		select {
		case <-c.Done():
		default:
			t.Errorf("%s: Done is open after the end", name)
		}
		c = &taskContext{values: base, deadline: time.Now()}
		ask(c)
		c.end(ErrDeadline)
		if c.Err() != context.DeadlineExceeded || context.Cause(c) != ErrDeadline {
			t.Errorf("%s: Err %v, Cause %v after the deadline", name, c.Err(), context.Cause(c))
		}
	}
}

func TestTaskContextEndsItsChildren(t *testing.T) {
	t.Parallel()
	c := &taskContext{values: context.WithoutCancel(t.Context())}
	before, cancel := context.WithCancel(c)
	defer cancel()
	c.end(ErrLeaseLost)
	<-before.Done()
	after, cancel := context.WithCancel(c)
	defer cancel()
	<-after.Done()
	for _, child := range []context.Context{before, after} {
		if context.Cause(child) != ErrLeaseLost {
			t.Errorf("the cause of a child is %v, want %v", context.Cause(child), ErrLeaseLost)
		}
	}
}

// The watcher ends a context while its handler asks for it: under the race detector.
func TestTaskContextIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	for range 200 {
		c := &taskContext{values: context.WithoutCancel(t.Context())}
		var group sync.WaitGroup
		for _, use := range []func(){
			func() { c.end(ErrStopping) }, func() { <-c.Done() }, func() { _ = c.Err() }, func() { c.Value(contextKey{}) },
		} {
			group.Go(use)
		}
		group.Wait()
		if context.Cause(c) != ErrStopping {
			t.Fatalf("the cause is %v, want %v", context.Cause(c), ErrStopping)
		}
	}
}
