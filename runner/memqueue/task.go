package memqueue

import (
	"fmt"
	"time"

	"github.com/pgqueue/pgqueue/runner"
)

// Token is the [runner.Token] of this queue. Its fields are exported so that a test can forge one.
type Token struct {
	ID      int64  // the task; a task that is deleted and put again under its name has another
	Name    string // for people only, it fences nothing
	Attempt int    // the claim
}

// String names the task and the claim.
func (t Token) String() string { return fmt.Sprintf("task %s attempt %d", t.Name, t.Attempt) }

// State is where a task is in its life.
type State uint8

const (
	// Pending tasks wait until they are due, and for a worker then.
	Pending State = iota + 1
	// Running tasks are claimed.
	Running
	// Succeeded tasks have ended well.
	Succeeded
	// Failed tasks have ended because trying again is pointless.
	Failed
	// Dead tasks have ended because their budget of failures is spent.
	Dead
	// Cancelled tasks have ended because somebody wanted it.
	Cancelled
)

// String returns the state's name in lower case.
func (s State) String() string {
	switch s {
	case Pending:
		return "pending"
	case Running:
		return "running"
	case Succeeded:
		return "succeeded"
	case Failed:
		return "failed"
	case Dead:
		return "dead"
	case Cancelled:
		return "cancelled"
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// Input is what a producer puts into the queue.
type Input[P any] struct {
	// Name is the key: one live task a name. Empty means a task of its own each time, named "#" and its id.
	Name string
	// Revision is opaque. Putting the revision that is already live changes nothing; empty is always a new input.
	Revision string
	Kind     string
	Class    runner.Class // zero means [runner.ClassFresh]
	// Due is when the task may start; the zero time means now.
	Due time.Time
	// MaxAttempts is the budget of failures; zero means the queue's.
	MaxAttempts int
	Payload     P
	// Err, if set, makes the task one that cannot be decoded: a claim returns it in [runner.Task.Err].
	Err error
}

// Item is a copy of a task as it is at one moment.
type Item[P, R any] struct {
	ID          int64
	Name        string
	Kind        string
	Class       runner.Class
	Revision    string
	Payload     P
	State       State
	Due         time.Time
	Attempt     int  // claims so far
	Open        bool // the claim of Attempt is open: no verdict of it is stored
	Failures    int
	MaxAttempts int
	LeaseUntil  time.Time // zero unless running
	Ended       time.Time // zero while live
	Result      *R
	// LastFailure is the last attempt that failed, whatever became of the task then; nil if none did.
	LastFailure *runner.Failure
}

// task is the queue's own record. Everything is guarded by the queue's mutex.
type task[P, R any] struct {
	id       int64
	name     string
	kind     string
	class    runner.Class
	revision string
	payload  P
	err      error

	state       State
	due         time.Time
	maxAttempts int
	failures    int
	lastFailure *runner.Failure

	attempt    int
	open       bool // the claim of attempt is open; a recovery leaves it so
	claimed    time.Time
	leaseUntil time.Time

	generation        int // rises when the input is replaced
	claimedGeneration int // the input that attempt was given

	cancelRequested bool
	ineligible      bool
	locks           int // how many test sessions hold it

	ended       time.Time
	diedOfLease bool // dead because its last lease ran out: a late success may still revive it
	result      *R

	pile  *pile[P, R] // where it waits; nil when locked, ineligible or ended
	place int
}

func (t *task[P, R]) superseded() bool { return t.generation != t.claimedGeneration }

func (t *task[P, R]) item() Item[P, R] {
	i := Item[P, R]{
		ID: t.id, Name: t.name, Kind: t.kind, Class: t.class, Revision: t.revision, Payload: t.payload,
		State: t.state, Due: t.due, Attempt: t.attempt, Open: t.open, Failures: t.failures, MaxAttempts: t.maxAttempts,
		Ended: t.ended, Result: t.result, LastFailure: t.lastFailure,
	}
	if t.state == Running {
		i.LeaseUntil = t.leaseUntil
	}
	return i
}
