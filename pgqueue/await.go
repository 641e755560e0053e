package pgqueue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
)

var (
	// ErrNoHistory is returned by [Client.Await] for a job whose queue keeps nothing of its successes: nobody could tell afterwards
	// that it has succeeded, and with what.
	ErrNoHistory = errors.New("the queue keeps no history, so the end of its jobs cannot be awaited")
	// ErrNoResult is returned by [AwaitResult] for a job that has succeeded without a result.
	ErrNoResult = errors.New("the job has succeeded without a result")
)

// JobFailedError is returned by [AwaitResult] for a job that has ended otherwise than by success.
type JobFailedError struct {
	ID    int64
	State JobState // failed, dead or cancelled
	// Code and Message are those of the last attempt that failed, see [FailedAttempt]; empty where none has.
	Code, Message string
}

// Error names the job, how it ended and the code. The message is left out, as in logs: it is in the field.
func (e *JobFailedError) Error() string {
	if e.Code == "" {
		return fmt.Sprintf("job %d is %s", e.ID, e.State)
	}
	return fmt.Sprintf("job %d is %s, the last attempt with %s", e.ID, e.State, e.Code)
}

// Await waits until a job has ended, in whatever process it runs, and returns it: succeeded, with its result, failed, dead or
// cancelled. A job that has ended already comes back at once. So does a dead one, although somebody may [Client.Retry] it; a job
// that waits for its next attempt has not ended.
//
// It is told by a message from the worker, within milliseconds, and asks the database beside that, for the case that the message is
// lost or nobody sends it: first after 50 ms, then less and less often, down to once a second. All Awaits of a client share one
// connection of their own, which listens, and one statement a round, however many thousands they are; both end when nobody has
// awaited anything for a while, and with [Client.Close]. [WithoutAwaitListener] is for a database behind a pooler that does not let a
// session listen, unless [WithAwaitConn] leads past it; it and [WithoutHints] leave the asking.
//
// The job must be committed. [ErrNotFound] means that there is no such job, or no longer one: it was deleted, or its history is
// older than is kept. [ErrNoHistory] means that its queue keeps no history, [ErrClosed] that the client was closed. When ctx
// ends, the error is ctx's. A database that cannot be reached is waited for; what waiting does not mend, such as missing rights on
// jobs, history and queues, is returned.
//
// A handler that awaits another job holds its slot meanwhile: where all slots of a queue await jobs of that queue, nobody is left to
// run them.
func (c *Client) Await(ctx context.Context, id int64) (*JobStatus, error) {
	if c.closed.Load() {
		return nil, fmt.Errorf("await job %d: %w", id, ErrClosed)
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("await job %d: %w", id, err)
	}
	waits, err := c.awaits.add(id)
	if err != nil {
		return nil, fmt.Errorf("await job %d: %w", id, err)
	}
	select {
	case end := <-waits.end:
		if end.err != nil {
			return nil, fmt.Errorf("await job %d: %w", id, end.err)
		}
		return c.statusOf(ctx, end.record), nil
	case <-ctx.Done():
		last := c.awaits.leave(waits)
		if last != nil {
			return nil, fmt.Errorf("await job %d: %w (the database: %w)", id, ctx.Err(), last)
		}
		return nil, fmt.Errorf("await job %d: %w", id, ctx.Err())
	}
}

// AwaitResult waits for a job as [Client.Await] does, and decodes its result into R, numbers in fields of type any as
// [json.Number], which keeps all digits. A job that has not succeeded is a [*JobFailedError], one without a result [ErrNoResult];
// other errors are those of Await and of encoding/json.
func AwaitResult[R any](ctx context.Context, client *Client, id int64) (R, error) {
	var result R
	if client == nil {
		return result, fmt.Errorf("await the result of job %d: %w", id, invalid("client", "must not be nil"))
	}
	job, err := client.Await(ctx, id)
	if err != nil {
		return result, err
	}
	if job.State != JobSucceeded {
		failed := &JobFailedError{ID: id, State: job.State}
		if n := len(job.Failed); n > 0 {
			failed.Code, failed.Message = job.Failed[n-1].Code, job.Failed[n-1].Message
		}
		return result, failed
	}
	if job.Result == nil {
		return result, fmt.Errorf("await the result of job %d: %w", id, ErrNoResult)
	}
	if sealed, ok := job.Sealed["result"]; ok {
		return result, fmt.Errorf("await the result of job %d: it is %s", id, sealed)
	}
	unmarshal := json.Unmarshal
	if holdsInterface(reflect.TypeFor[R](), map[reflect.Type]bool{}) {
		unmarshal = unmarshalNumbers
	}
	if err := unmarshal(job.Result, &result); err != nil {
		return result, fmt.Errorf("decode the result of job %d: %w", id, err)
	}
	return result, nil
}
