package runner

import (
	"context"
	"time"
)

// Queue is what a [Runner] drains: a store of tasks that hands out leases and accepts fenced verdicts. P is what a
// handler is given, R is what it may return. pgqueue.jobs is one implementation, the outbox adapter another, and a
// table of your own can be a third; each must pass the suite in package queuetest.
//
// All methods must be safe for concurrent use. A method that returns an error has told the runner nothing: it may or
// may not have taken effect, and the runner repeats it or lets the lease run out.
//
// What a queue can do beyond claiming and reporting it says by implementing [Renewer] or [Scheduler] as well.
type Queue[P, R any] interface {
	// Claim leases up to request.Limit tasks that are due, and never more. An empty answer means that nothing is
	// due now; a short one says nothing. Tasks come in the order in which they should start.
	//
	// A task that was leased but cannot be decoded is returned with Err set, so that it fails alone.
	//
	// A queue that can be paused answers [ErrPaused] meanwhile.
	Claim(ctx context.Context, request ClaimRequest) ([]Task[P], error)

	// Report stores verdicts and answers with one [Outcome] for each, by position. Every verdict is fenced with the
	// token of its claim: one that no longer matches is [Lost] and changes nothing. Report never waits for a row that
	// somebody else has locked; it answers [Busy] for it, and the runner asks again.
	Report(ctx context.Context, verdicts []Verdict[R]) ([]Outcome, error)
}

// Renewer is a [Queue] whose leases can be extended while a handler runs. Without it a lease must cover the longest
// run that the configuration allows, which is checked when the runner is made.
type Renewer interface {
	// Renew extends the leases of tokens to lease from now, on the store's clock, and answers by position. It never
	// waits for a locked row.
	Renew(ctx context.Context, tokens []Token, lease time.Duration) ([]Renewal, error)
}

// Scheduler is a [Queue] that knows when its next task is due, so that an idle runner can ask with a read instead of
// claiming blindly, and wakes for a scheduled task when it is due rather than at the next poll.
type Scheduler interface {
	// NextDue tells how long from now the next task is due; zero or less means now. ok is false when nothing is
	// scheduled at all. Waking for a task that another runner takes is harmless. A queue that can be paused answers
	// [ErrPaused] meanwhile; while a runner holds tasks that it has not started it asks at every poll for that reason.
	NextDue(ctx context.Context) (wait time.Duration, ok bool, err error)
}

// Token identifies one claim of one task. It is opaque to the runner, which only hands it back: the attempt number in
// pgqueue.jobs, a random value in a table of your own. String names the task in logs and errors, for people.
type Token interface {
	String() string
}

// Class is the precedence of a task inside its queue; lower is preferred. See [Config] for how claims rotate over
// the classes so that none starves.
type Class int16

const (
	// ClassFresh is the default class, for work that somebody is waiting for.
	ClassFresh Class = 1
	// ClassCatchUp is for work that should not delay fresh work, such as a backfill.
	ClassCatchUp Class = 4
)

// Task is one leased task.
type Task[P any] struct {
	Token Token
	Kind  string // selects bounds in [Config].Kinds; may be empty where a queue has one kind only
	Class Class

	// Attempt counts the claims of this task, this one included, and in package outbox, where the table has no column for failures,
	// those alone that spent something: it does not rise by a snooze. Failures counts the attempts that failed before,
	// and MaxAttempts says how many may; zero means that the queue does not say.
	Attempt     int
	Failures    int
	MaxAttempts int

	Due     time.Time // when it became due, on the store's clock
	Claimed time.Time // when it was claimed, on the store's clock
	Payload P

	// Err says why Payload could not be decoded. No handler sees such a task: the attempt fails with code
	// [CodeUndecodable].
	Err error

	ctx context.Context // of the attempt
}

// Context is the context of this attempt. A [Handler] has it as an argument already; in a batch it is the one of this task
// alone, which ends also when the batch goes on without it. See [BatchHandler]. It is never nil.
func (t *Task[P]) Context() context.Context {
	if t.ctx == nil {
		return context.Background()
	}
	return t.ctx
}

// ClaimRequest says what a claim wants.
type ClaimRequest struct {
	Limit   int           // at most so many tasks; at least 1
	Classes []Class       // in the order of preference: what the first does not use, the next may borrow
	Kinds   []string      // only these kinds; nil means any kind
	Lease   time.Duration // how long the claim holds without renewal
}

// Decision is what is to become of a claimed task.
type Decision uint8

const (
	// Succeed ends the task as done and stores Result, if there is one, with it.
	Succeed Decision = iota + 1
	// Retry records a failed attempt. The task is due again after Delay, or dead when its budget is spent; the queue
	// decides that, because the budget may have changed meanwhile.
	Retry
	// Fail records a failed attempt and ends the task: trying again is pointless.
	Fail
	// Cancel ends the task as cancelled.
	Cancel
	// Snooze makes the task due again after Delay. Nothing is spent.
	Snooze
	// Release hands the task back as if it had not been claimed, due as before. Nothing is spent.
	Release
	// Confirm asks about a task that its handler settled in a transaction of its own. If the claim still stands, that
	// transaction did not commit, and the attempt has failed with Failure, as with Retry; otherwise it is Succeeded.
	Confirm
)

// Verdict is the end of one claim.
type Verdict[R any] struct {
	Token    Token
	Decision Decision
	Result   *R            // with Succeed; nil means no result
	Delay    time.Duration // with Retry, Snooze and Confirm

	// MaxAttempts, with Retry and Confirm, is a bound of the runner's beside the task's own: the task is dead when so
	// many attempts have failed, even if its budget allows more. Zero means none.
	MaxAttempts int

	// Started says that a handler, or the attempt to decode the payload, has begun. A Release without it hands back a task
	// that nobody has seen.
	Started bool

	Failure *Failure // with Retry, Fail and Confirm; optional with Cancel
}

// Failure is what is stored about an attempt that failed. Both texts are valid UTF-8 without NUL and bounded in size:
// recording a failure must not fail because of its words.
type Failure struct {
	Code    string // short, for machines: "timeout", "panic", "parse_error"
	Message string // what the author of the error marked as safe to store
	// Text is the whole text of the error or panic, where [Config].SealErrorText wants it: for a queue that encrypts it, and for nobody
	// else. It is not logged.
	Text string
}

// Outcome is what became of a verdict.
type Outcome uint8

const (
	// Busy means that somebody has locked the task; the claim still stands and the verdict should be sent again.
	Busy Outcome = iota + 1
	// Lost means that the claim no longer stands: its lease ran out and the task was taken by another, or the task is
	// gone. Nothing was changed.
	Lost
	// Superseded means that the task's input was replaced during the run: it is pending again with the newer one.
	Superseded
	// Ineligible means that the task may no longer be completed at the revision it was claimed at, for a reason of
	// the queue's own; its result was not stored and the claim is closed.
	Ineligible
	// Succeeded means that the task is done and its result is stored.
	Succeeded
	// Retrying means that the attempt failed and the task will run again.
	Retrying
	// Failed means that the task ended because trying again is pointless.
	Failed
	// Dead means that the task ended because its budget of failures is spent.
	Dead
	// Cancelled means that the task ended because somebody wanted it to.
	Cancelled
	// Snoozed means that the task will run again later and nothing was spent.
	Snoozed
	// Released means that the task was handed back and nothing was spent.
	Released
)

// Renewal is the answer to one renewal.
type Renewal uint8

const (
	// Renewed means that the lease now ends one full lease from now.
	Renewed Renewal = iota + 1
	// Refused means that the claim no longer stands: the handler must stop.
	Refused
	// Locked means that somebody else holds the row. Nobody else can claim it either, so the handler goes on.
	Locked
	// CancelRequested means that the lease was renewed and that somebody asked for the task to stop.
	CancelRequested
)
