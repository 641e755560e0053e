package schedule

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// options are those of the jobs of a row, but for what differs from tick to tick. What a dynamic one does not say is left to the type.
func (r *row) options() []pgqueue.EnqueueOption {
	options := []pgqueue.EnqueueOption{
		pgqueue.OnQueue(r.queue), pgqueue.WithPriority(int(r.priority)), pgqueue.WithMaxAttempts(int(r.maxAttempts)),
	}
	if len(r.tags) > 0 {
		options = append(options, pgqueue.WithTags(r.tags...))
	}
	if r.metadata != "{}" {
		options = append(options, pgqueue.WithMetadata(json.RawMessage(r.metadata)))
	}
	if r.key != nil {
		options = append(options, pgqueue.WithKey(*r.key))
	}
	return append(options, pgqueue.AddMetadata(metadataSchedule, r.name))
}

// job is the job of one tick.
func (r *row) job(args pgqueue.Args, tick time.Time) pgqueue.NewJob {
	options := append(r.options(), pgqueue.AddMetadata(metadataTick, stamp(tick)))
	if r.jitter > 0 {
		options = append(options, pgqueue.WithRunAt(tick.Add(r.jitterOf(tick))))
	}
	return pgqueue.NewJob{Args: args, Options: options}
}

// argsFunc makes arguments.
type argsFunc func(ctx context.Context, tick Tick) (pgqueue.Args, error)

// call is one call of a user's function, on a goroutine of its own, since it may ignore its context: then the transaction goes on without
// it and fails, and the schedule stays in hand until the function has returned.
type call struct {
	done chan struct{} // closed when the function has returned
	args pgqueue.Args
	err  error
}

// makeArgs calls a function. running is not nil where it has not returned when ctx ended.
func makeArgs(ctx context.Context, fn argsFunc, tick Tick) (args pgqueue.Args, running *call, err error) {
	c := &call{done: make(chan struct{})}
	go func() {
		returned := false
		defer close(c.done)
		defer func() {
			if returned {
				return
			}
			if cause := recover(); cause != nil {
				c.err = &panicError{value: cause, stack: debug.Stack()}
			} else {
				c.err = &panicError{value: "runtime.Goexit"}
			}
		}()
		c.args, c.err = fn(ctx, tick)
		returned = true
	}()
	select {
	case <-c.done:
	case <-ctx.Done():
		select {
		case <-c.done: // both: it has returned
		default:
			return nil, c, fmt.Errorf("its function has not returned: %w", context.Cause(ctx))
		}
	}
	if c.err != nil && !errors.Is(c.err, ErrSkip) {
		return nil, nil, &functionError{c.err}
	}
	return c.args, nil, c.err
}

// functionError is an error of a user's function. Its text may hold a secret, so it is neither stored nor logged above debug level.
type functionError struct{ err error }

func (e *functionError) Error() string { return "its function failed: " + e.err.Error() }
func (e *functionError) Unwrap() error { return e.err }

// panicError is a panic.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// enqueue writes the jobs of ticks and answers with their ids, by position; 0 where the function wanted none.
func (a *attempt) enqueue(ctx context.Context, q pgqueue.Querier, r *row, ticks []time.Time) ([]int64, error) {
	ids := make([]int64, len(ticks))
	if !r.dynamic {
		args, err := r.fixedArgs(ctx, a.client)
		if err != nil {
			return nil, err
		}
		jobs := make([]pgqueue.NewJob, len(ticks))
		for i, tick := range ticks {
			jobs[i] = r.job(args, tick)
		}
		if len(jobs) == 1 {
			enqueued, err := a.client.Enqueue(ctx, q, jobs[0].Args, jobs[0].Options...)
			ids[0] = enqueued.ID
			return ids, err
		}
		enqueued, err := a.client.EnqueueMany(ctx, q, jobs)
		for i := range enqueued {
			ids[i] = enqueued[i].ID
		}
		return ids, err
	}
	for i, tick := range ticks {
		args, running, err := makeArgs(ctx, a.functions[r.name], Tick{Schedule: r.name, At: tick.UTC()})
		a.running = running
		switch {
		case errors.Is(err, ErrSkip):
			continue
		case err != nil:
			return nil, err
		case args == nil:
			return nil, fmt.Errorf("%w: return schedule.ErrSkip for no job", errNilArgs)
		}
		job := r.job(args, tick)
		if kind := job.Kind(); kind != r.kind {
			return nil, invalid("kind", fmt.Sprintf("of what the function made is %q, where the schedule has %q", kind, r.kind))
		}
		enqueued, err := a.client.Enqueue(ctx, q, job.Args, job.Options...)
		if err != nil {
			return nil, err
		}
		ids[i] = enqueued.ID
	}
	return ids, nil
}

var errNilArgs = errors.New("its function returned nil")
