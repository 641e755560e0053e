package pgqueue

import (
	"context"
	"errors"
	"fmt"

	"github.com/pgqueue/pgqueue/pgqueue/internal/jobstore"
)

const maxReasonBytes = 1024

var (
	// ErrNotFound means that no job of this number is in a state in which the wish could be fulfilled: there is none, or no longer
	// one, or it has ended, see [ErrJobEnded].
	ErrNotFound = errors.New("there is no such job")
	// ErrJobEnded is returned in place of [ErrNotFound], which it is too for errors.Is, by what changes single jobs, for a job that has
	// ended and can be changed no more in that way. The error says how it ended. Where the role may not read the tables, as an operator
	// who is no viewer, it is ErrNotFound alone.
	ErrJobEnded error = endedError{}
	// ErrJobLive is returned by [Client.Retry] for a job that has not ended.
	ErrJobLive = errors.New("the job is live")
)

// endedError is ErrJobEnded.
type endedError struct{}

func (endedError) Error() string        { return "the job has ended" }
func (endedError) Is(target error) bool { return target == ErrNotFound }

// notFound is the error about a job that something could not be done to because there is none, or none any more, such as could be
// changed.
func (c *Client) notFound(ctx context.Context, q Querier, doing string, id int64) error {
	state, err := c.store.EndedAs(ctx, q, id)
	switch {
	case err != nil:
		return fmt.Errorf("%s job %d: %w, and whether it has ended could not be read: %w", doing, id, ErrNotFound, err)
	case state == "":
		return fmt.Errorf("%s job %d: %w", doing, id, ErrNotFound)
	default:
		return fmt.Errorf("%s job %d: %w: it is %s", doing, id, ErrJobEnded, state)
	}
}

// KeyTakenError is returned by [Client.Retry] when a newer live job has the key: only one may be live. Nothing was
// changed. Cancel the newer one, or leave the older one where it is.
type KeyTakenError struct {
	ID    int64 // of the job that was to be retried
	Other int64 // of the live job that has its key
}

// Error names both jobs.
func (e *KeyTakenError) Error() string {
	return fmt.Sprintf("retry job %d: the live job %d has its key", e.ID, e.Other)
}

// PauseQueue pauses a queue for every worker, until [Client.ResumeQueue], whatever is restarted meanwhile. What is running
// goes on. Workers notice at once by a hint, and without it within their poll interval (1 s by default): jobs that they
// have claimed and not started are given back then, at no cost, and Status says so. Enqueueing goes on as usual. A queue
// that nobody has used yet may be paused, and one that is paused already gets the new reason, which is for people: at
// most 1,024 bytes, or empty.
//
// It takes effect when q commits, and always sends a NOTIFY, so q cannot be a transaction that PREPARE TRANSACTION ends. A handler that finds a dependency down returns [Pause] instead. The same from SQL:
// SELECT pgqueue.pause('mail', 'the provider is down').
func (c *Client) PauseQueue(ctx context.Context, q Querier, queue, reason string) error {
	if err := checkControl(q, queue); err != nil {
		return fmt.Errorf("pause queue: %w", err)
	}
	if reason != "" {
		if err := checkText("reason", reason, maxReasonBytes); err != nil {
			return fmt.Errorf("pause queue: %w", err)
		}
	}
	return c.schemaError(c.store.Pause(ctx, q, queue, reason))
}

// ResumeQueue ends the pause of a queue and wakes its workers. A queue that is not paused stays as it is. The same from
// SQL: SELECT pgqueue.resume('mail').
func (c *Client) ResumeQueue(ctx context.Context, q Querier, queue string) error {
	if err := checkControl(q, queue); err != nil {
		return fmt.Errorf("resume queue: %w", err)
	}
	return c.schemaError(c.store.Resume(ctx, q, queue))
}

func checkControl(q Querier, queue string) error {
	if err := runsOn(q); err != nil {
		return err
	}
	if err := checkName("queue", queue); err != nil {
		return err
	}
	return nil
}

// runsOn refuses a querier that there is none.
func runsOn(q Querier) error {
	if isNil(q) {
		return invalid("querier", "must not be nil")
	}
	return nil
}

// Retry brings a failed or dead job back from history: it is due now, with a new budget of failures, and everything else as
// it was. Its attempt number goes on rising, so nothing that an old attempt still writes can count.
//
// It returns a [*KeyTakenError] when a newer live job has its key, [ErrJobLive] when the job has not ended (a second retry
// of the same job, say), [ErrJobEnded] when it has succeeded or was cancelled, and [ErrNotFound] when no job has this number. All of
// them leave the transaction usable and the job where it is. The same from SQL: SELECT * FROM pgqueue.retry(17).
func (c *Client) Retry(ctx context.Context, q Querier, id int64) error {
	if err := runsOn(q); err != nil {
		return fmt.Errorf("retry job %d: %w", id, err)
	}
	outcome, other, err := c.store.Retry(ctx, q, id)
	switch {
	case err != nil:
		return c.schemaError(err)
	case outcome == jobstore.Retried:
		return nil
	case outcome == jobstore.KeyTaken:
		return &KeyTakenError{ID: id, Other: other}
	case outcome == jobstore.StillLive:
		return fmt.Errorf("retry job %d: %w", id, ErrJobLive)
	default:
		return c.notFound(ctx, q, "retry", id)
	}
}

// Cancel ends a job. A pending one is cancelled at once, and Cancel returns [JobCancelled]. A running one is asked to stop,
// and Cancel returns [JobRunning]: when q has committed, its handler's context ends with the cause [ErrCancelled], in whatever
// process it runs, within a second while that process listens, and else with the next renewal of its lease. The job is cancelled when the
// handler returns an error; if it returns nil nevertheless, the job has succeeded. A handler that ignores its context goes on, and its
// job and key stay taken until it returns or its lease ends. A new input that is enqueued meanwhile withdraws the request.
//
// [ErrNotFound] means that no live job has this number, and is [ErrJobEnded] where it has ended. Cancel always sends a NOTIFY, so q cannot be a transaction that PREPARE TRANSACTION
// ends. The same from SQL: SELECT pgqueue.cancel(17).
func (c *Client) Cancel(ctx context.Context, q Querier, id int64) (JobState, error) {
	if err := runsOn(q); err != nil {
		return "", fmt.Errorf("cancel job %d: %w", id, err)
	}
	outcome, err := c.store.Cancel(ctx, q, id)
	switch {
	case err != nil:
		return "", c.schemaError(err)
	case outcome == jobstore.CancelledNow:
		return JobCancelled, nil
	case outcome == jobstore.CancelRequested:
		return JobRunning, nil
	default:
		return "", c.notFound(ctx, q, "cancel", id)
	}
}

// SetMaxAttempts changes how many attempts of a job may fail, from 1 to 32,767, and returns the state in which the job is
// then. A pending job of which that many have failed already is [JobDead] at once, so that it neither hides nor runs
// again; a running one is decided by the end of its run; a failed or dead one keeps the number for its [Client.Retry].
// [ErrNotFound] means that no live, failed or dead job has this number, and is [ErrJobEnded] where it has ended otherwise. The same
// from SQL: SELECT pgqueue.set_max_attempts(17, 20).
func (c *Client) SetMaxAttempts(ctx context.Context, q Querier, id int64, n int) (JobState, error) {
	if err := runsOn(q); err != nil {
		return "", fmt.Errorf("set max attempts of job %d: %w", id, err)
	}
	if n < 1 || n > maxMaxAttempts {
		return "", fmt.Errorf("set max attempts of job %d: %w", id,
			invalid("max_attempts", fmt.Sprintf("must be from 1 to %d, is %d", maxMaxAttempts, n)))
	}
	state, err := c.store.SetMaxAttempts(ctx, q, id, n)
	if err != nil {
		return "", c.schemaError(err)
	}
	if state == jobstore.NotFound {
		return "", c.notFound(ctx, q, "set max attempts of", id)
	}
	return JobState(state), nil
}
