package runner

import (
	"context"
	"time"
)

// Every interface of this file is optional: [New] asks once which of them [Config].Observer implements. Methods are
// called from the runner's own goroutines, several at a time, and must return quickly. One that panics is contained
// and logged, and the runner goes on. [Observers] makes one observer of several, [Runner.Observe] adds one later.
// docs/extending.md says of each when it is called, from which goroutine, and what it may do.

// ClaimObserver is told about every claim.
type ClaimObserver interface{ ClaimDone(ClaimEvent) }

// ClaimEvent describes one call of Claim.
type ClaimEvent struct {
	Queue    string
	Limit    int
	Claimed  int
	Duration time.Duration
	Err      error
}

// AttemptStartObserver is told before a handler starts. The context that it returns, derived from ctx, is given to the
// handler: this is where a span begins. A nil one is ignored.
type AttemptStartObserver interface {
	AttemptStarted(ctx context.Context, e AttemptEvent) context.Context
}

// AttemptEndObserver is told after a handler has returned, with the context that the handler had.
type AttemptEndObserver interface {
	AttemptEnded(ctx context.Context, e AttemptEvent)
}

// AttemptEvent describes one attempt. The second group is known at its end only.
type AttemptEvent struct {
	Queue   string
	Kind    string
	Token   Token
	Class   Class
	Attempt int
	Due     time.Time     // on the store's clock
	Claimed time.Time     // on the store's clock
	Waited  time.Duration // between the claim and the start, on the local clock
	Batch   int           // how many tasks the handler was given; 0 if it is no batch handler
	// BatchContext is that of the batch's handler, as a [BatchStartObserver] made it; nil if it is no batch handler.
	BatchContext context.Context

	Duration time.Duration
	Decision Decision // zero where nothing is reported, see [ErrSettled]
	Failure  *Failure
	Err      error // what the handler returned, or an error that describes its panic
}

// VerdictObserver is told what became of every verdict, [Busy] excepted, which is not the end.
type VerdictObserver interface{ VerdictDone(VerdictEvent) }

// VerdictEvent describes the end of one claim, after the queue has written it. Outcome is [Lost] also where a verdict could
// not be written before its lease had run out; Err is the last error of the store then.
type VerdictEvent struct {
	Queue    string
	Kind     string
	Token    Token
	Class    Class
	Attempt  int
	Started  bool          // a handler was called; otherwise the task was given back, or lost, while it waited
	Waited   time.Duration // between the claim and the start, on the local clock; zero if it did not start
	Duration time.Duration // of the handler, that of its batch in a batch; zero if it did not start
	Decision Decision
	Outcome  Outcome
	Failure  *Failure      // why an attempt failed; nil if it did not
	Delay    time.Duration // until a task that is retried or snoozed is due again
	Err      error
}

// FlushObserver is told about every call of Report.
type FlushObserver interface{ FlushDone(FlushEvent) }

// FlushEvent describes one call of Report.
type FlushEvent struct {
	Queue    string
	Verdicts int
	Busy     int // of these must be sent again
	Duration time.Duration
	Err      error
}

// RenewObserver is told about every renewal.
type RenewObserver interface{ RenewDone(RenewEvent) }

// RenewEvent describes one call of Renew.
type RenewEvent struct {
	Queue                                      string
	Renewed, Refused, Locked, CancelsRequested int
	Duration                                   time.Duration
	Err                                        error
}

// LeaseLostObserver is told when a task's context is cancelled because its lease was refused or ran out unanswered, or
// when a task that had not started is dropped for that reason.
type LeaseLostObserver interface{ LeaseLost(LeaseEvent) }

// LeaseEvent describes one lost lease.
type LeaseEvent struct {
	Queue   string
	Kind    string
	Token   Token
	Refused bool // the queue said so; otherwise there was no answer in time
	Started bool
}

// StuckObserver is told once about a handler that has outlived its deadline and its clean-up time.
type StuckObserver interface{ TaskStuck(StuckEvent) }

// StuckEvent describes a handler that ignores its context.
type StuckEvent struct {
	Queue   string
	Kind    string
	Token   Token
	Running time.Duration
	Tasks   int // that it was given: 1, or those of its batch, of which Token is the first
}

// StuckReplaceObserver is asked, after every [StuckObserver] was told, whether the slot of a stuck handler shall be replaced. If
// it answers true, the runner works with one slot more until that handler returns, and the handler's kind may hold one more.
// Nothing is replaced where no observer asks for it.
//
// There are never more replacements at a time than [Config].MaxReplacements, and for one kind never more than that kind has
// workers, so that a handler which always hangs holds at most twice what it was given; a batch counts as one. Beyond that
// nobody is asked: the handler keeps its slot, as without this interface. The answer true says that another run beside the
// one that hangs does no harm.
type StuckReplaceObserver interface{ ReplaceStuck(StuckEvent) bool }

// WakeObserver is told when an idle runner looks for work.
type WakeObserver interface{ Woken(WakeEvent) }

// WakeEvent says what woke the runner.
type WakeEvent struct {
	Queue  string
	Source WakeSource
	Hints  int // merged into this wake, with WakeHint
}

// WakeSource is what woke a runner.
type WakeSource uint8

// What wakes a runner.
const (
	WakeHint WakeSource = iota + 1 // [Runner.Wake]
	WakePoll                       // the poll interval
	WakeDue                        // a scheduled task has become due
)
