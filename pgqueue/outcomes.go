package pgqueue

import (
	"time"

	"github.com/pgqueue/pgqueue/runner"
)

// unknownKindDelay is how long a job of a kind without a handler here is left to others.
const unknownKindDelay = 10 * time.Second

// Permanent marks err as one that trying again cannot mend: the job ends as failed. nil stays nil.
func Permanent(err error) error { return runner.Permanent(err) }

// RetryAfter fails the attempt with err and has the job run again no sooner than d from now, on the database's clock. With a nil
// err it is nil, which means success.
func RetryAfter(d time.Duration, err error) error { return runner.RetryAfter(d, err) }

// Snooze has the job run again d from now and spends nothing of its budget.
func Snooze(d time.Duration) error { return runner.SnoozeFor(d) }

// Pause snoozes the job for d and stops the claims of this queue in this process for as long, because what the jobs
// depend on is down.
func Pause(d time.Duration) error { return runner.Pause(d) }

// Cancel ends the job as cancelled, for the reason err.
func Cancel(err error) error { return runner.CancelWith(err) }

// Coded gives err a short code for machines, which is stored with the failed attempt.
func Coded(code string, err error) error { return runner.Coded(code, err) }
