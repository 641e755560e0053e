package runner

import (
	"context"
	"sync"
	"time"
)

// taskContext is the context of one attempt, or of a batch. It has a deadline without a timer, at which the watcher ends
// it: a timer for each task would cost more than the rest of the runner. For the same reason the context that can be
// waited for is made when somebody asks for it: most handlers of short tasks never do.
type taskContext struct {
	context.Context // what can be waited for; nil: not made yet
	deadline        time.Time
	values          context.Context // never cancelled; its parent, where Context is made late

	mu     sync.Mutex // guards what follows, and the making of Context; not used where that is there from the start
	cancel context.CancelCauseFunc
	ended  bool
	cause  error
}

// made returns the context that can be waited for.
func (c *taskContext) made() context.Context {
	if c.values == nil {
		return c.Context
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Context == nil {
		c.Context, c.cancel = context.WithCancelCause(c.values)
		if c.ended {
			c.cancel(c.cause)
		}
	}
	return c.Context
}

// end cancels a context that was made late, or will be. Only the first cause counts.
func (c *taskContext) end(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	c.ended, c.cause = true, cause
	if c.cancel != nil {
		c.cancel(cause)
	}
}

// running says that a context made late has not ended.
func (c *taskContext) running() bool {
	if c.values == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.ended
}

// Deadline implements [context.Context].
func (c *taskContext) Deadline() (time.Time, bool) { return c.deadline, !c.deadline.IsZero() }

// Done implements [context.Context].
func (c *taskContext) Done() <-chan struct{} { return c.made().Done() }

// Err answers as a context with a deadline of its own would.
func (c *taskContext) Err() error {
	if c.running() {
		return nil
	}
	made := c.made()
	err := made.Err()
	if err != nil && context.Cause(made) == ErrDeadline {
		return context.DeadlineExceeded
	}
	return err
}

// Value implements [context.Context]. What package context looks for to find the cause is a value too, known only to the
// context that was made.
func (c *taskContext) Value(key any) any {
	if c.values != nil {
		if value := c.values.Value(key); value != nil {
			return value
		}
	}
	return c.made().Value(key)
}
