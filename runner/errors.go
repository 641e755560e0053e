package runner

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Codes of failures that the runner itself records.
const (
	CodeError        = "error"            // a plain error
	CodeTimeout      = "timeout"          // the deadline passed
	CodePanic        = "panic"            // the handler panicked or called runtime.Goexit
	CodeNoResult     = "no_result"        // the batch handler returned a wrong number of results
	CodeUndecodable  = "undecodable"      // the payload could not be decoded
	CodeNotCommitted = "tx_not_committed" // the handler settled the task in a transaction that did not commit
)

// Causes with which a handler's context ends; see [context.Cause].
var (
	// ErrLeaseLost means that the claim no longer stands, or that nobody could say so in time: another runner may
	// have the task. An error returned because of it spends nothing.
	ErrLeaseLost = errors.New("runner: lease lost")
	// ErrDeadline means that the attempt ran past its deadline. It matches [context.DeadlineExceeded].
	ErrDeadline error = deadlineError{}
	// ErrStopping means that the runner stops and will not wait longer. An error returned because of it spends nothing,
	// except in package outbox where the table has no column for failures: there the claim was counted.
	ErrStopping = errors.New("runner: stopping")
	// ErrCancelled means that somebody asked for the task to be cancelled.
	ErrCancelled = errors.New("runner: cancellation requested")
)

type deadlineError struct{}

func (deadlineError) Error() string        { return "runner: deadline of the attempt exceeded" }
func (deadlineError) Timeout() bool        { return true }
func (deadlineError) Is(target error) bool { return target == context.DeadlineExceeded }

// ErrPaused is returned by Claim or NextDue of a [Queue] that somebody has paused for everybody: nothing was leased. It is
// an answer and no failure. The runner releases what it has not started, says so in [Status], and asks again when it is
// woken or polls.
var ErrPaused = errors.New("runner: the queue is paused")

// ErrRunning is returned by [Runner.Run] and [Runner.Drain] of a runner that is running already.
var ErrRunning = errors.New("runner: already running")

var (
	// ErrSettled is returned by a handler to say that a transaction of its own completed the task and has committed.
	// Nothing is reported.
	ErrSettled = errors.New("runner: settled by the handler")
	// ErrConfirm is returned by a handler to say that it completed the task in a transaction of which it does not know
	// the end. The queue is asked; if the claim still stands, the attempt has failed with [CodeNotCommitted].
	ErrConfirm = errors.New("runner: settled in a transaction that may not have committed")
)

type will uint8

const (
	willFail will = iota + 1
	willRetryAfter
	willSnooze
	willPause
	willCancel
)

// decided is an error that says what is to become of the task. The outermost one in a chain counts, and the first
// in a join.
type decided struct {
	will  will
	delay time.Duration
	err   error // may be nil
}

func (d *decided) Error() string {
	var text string
	switch d.will {
	case willFail:
		text = "permanent"
	case willRetryAfter:
		text = "retry after " + d.delay.String()
	case willSnooze:
		text = "snooze for " + d.delay.String()
	case willPause:
		text = "pause for " + d.delay.String()
	case willCancel:
		text = "cancel"
	}
	if d.err != nil {
		text += ": " + d.err.Error()
	}
	return text
}

func (d *decided) Unwrap() error { return d.err }

// Permanent marks err as one that trying again will not cure: the task fails for good. Permanent(nil) is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &decided{will: willFail, err: err}
}

// RetryAfter marks err as a failed attempt after which the task waits for d instead of the backoff's delay. With d zero
// or negative the backoff decides; more than about ten years is cut to that. RetryAfter(d, nil) is nil.
func RetryAfter(d time.Duration, err error) error {
	if err == nil {
		return nil
	}
	return &decided{will: willRetryAfter, delay: clampDelay(d), err: err}
}

// SnoozeFor makes the task due again after d without spending an attempt of its budget. Zero, and anything negative,
// means due now, behind whatever is due already; more than about ten years is cut to that.
//
// (The name [Snooze] is the [Decision]'s; package pgqueue calls this function Snooze.)
func SnoozeFor(d time.Duration) error { return &decided{will: willSnooze, delay: clampDelay(d)} }

// Pause is [SnoozeFor] that also stops this runner from claiming anything for d: something that all tasks need is
// down. Tasks that were claimed and have not started are released; running ones go on.
func Pause(d time.Duration) error { return &decided{will: willPause, delay: clampDelay(d)} }

// CancelWith ends the task as cancelled. The reason may be nil.
//
// (The name [Cancel] is the [Decision]'s; package pgqueue calls this function Cancel.)
func CancelWith(reason error) error { return &decided{will: willCancel, err: reason} }

// coded carries a code for machines.
type coded struct {
	code string
	err  error
}

func (c *coded) Error() string { return c.err.Error() }
func (c *coded) Unwrap() error { return c.err }

// Coded gives err a code, which is stored with the failure: short, without personal data, such as "parse_error". It is
// cut to 64 bytes; an empty one counts as [CodeError]. Coded(code, nil) is nil.
func Coded(code string, err error) error {
	if err == nil {
		return nil
	}
	return &coded{code: code, err: err}
}

// safe marks a text as fit to be stored.
type safe struct{ err error }

func (s *safe) Error() string { return s.err.Error() }
func (s *safe) Unwrap() error { return s.err }

// Safe marks the text of err, all of it, as safe to store: it has no secrets and no personal data. What wraps it is not
// stored. The text is cut to 2 kB. Safe(nil) is nil.
func Safe(err error) error {
	if err == nil {
		return nil
	}
	return &safe{err: err}
}

// Safef is Safe(fmt.Errorf(format, args...)).
func Safef(format string, args ...any) error { return &safe{err: fmt.Errorf(format, args...)} }
