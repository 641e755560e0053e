package pgqueue

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/internal/lazytx"
	"github.com/pgqueue/pgqueue/pgqueue/internal/jobstore"
	"github.com/pgqueue/pgqueue/runner"
)

// JobInfo is what a handler may know about the job it runs, apart from its arguments. All times are the database's.
type JobInfo struct {
	ID       int64
	Queue    string
	Kind     string
	Key      string // empty when the job has none
	Revision string // of the input; empty when it has none
	Priority int
	Tags     []string
	Metadata json.RawMessage // a JSON object

	RunAt     time.Time // when it became due
	CreatedAt time.Time
	ClaimedAt time.Time

	// Attempt is the number of this claim and rises for the job's whole life, also across retries by hand. It is the
	// fence: what this run writes counts only as long as nobody has claimed the job again.
	Attempt int
	// Failures counts the attempts that failed before this one; the job is dead when MaxAttempts have failed.
	Failures    int
	MaxAttempts int
	// Generation is the number of the input, which rises each time a keyed job's input is replaced.
	Generation int
}

// Job is one attempt at one job, with its arguments decoded into T. It is made for one call of the handler and must
// not be kept beyond it. Its methods are safe for concurrent use, its fields are the handler's to read.
type Job[T any] struct {
	JobInfo
	Args T

	ctx     context.Context
	attempt *attempt
}

// Context is the context of this attempt: the one that its handler was given, or, in a batch, the one of this job alone. It
// ends with the causes that [Handle] names.
func (j *Job[T]) Context() context.Context {
	if j.ctx == nil {
		return context.Background()
	}
	return j.ctx
}

// AnyJob is a job whose arguments are still JSON: what middleware and handlers of dynamic kinds see.
type AnyJob = Job[json.RawMessage]

// CompleteTx completes the job inside tx, together with the handler's own writes: both are committed, or neither.
// Return nil from the handler after committing tx.
//
// It returns [ErrLeaseLost] when this attempt no longer owns the job (its lease ran out and another worker took it, or
// the job was deleted): roll back then, because the other attempt will do the work. The transaction stays usable in
// either case. If the job's input was replaced during the run, CompleteTx succeeds, and the job becomes pending again
// with the latest input as soon as tx commits. A result that [Job.SetResult] was given before is committed too; one that
// cannot be stored is an error here, before anything was sent.
//
// Called twice, it returns [ErrCompleted] unless the first transaction rolled back, and after the handler has returned
// [ErrHandlerReturned]. It waits while somebody else has locked the job's row, which an earlier transaction of the handler's
// own that is still open has. Other errors come from Postgres and leave tx aborted: 25P02 if it was already, 25006 if it is
// read-only. In a transaction of level REPEATABLE READ or SERIALIZABLE 40001 is to be expected, because each renewal of the
// lease changes the row: try the whole transaction again, with a new call.
//
// If tx does not commit, the attempt has failed, with code [runner.CodeNotCommitted], although the handler returned
// nil; a handler that returns an error has failed with that error.
//
// For a handler that needs nothing but one transaction, [HandleTx] does all of this.
func (j *Job[T]) CompleteTx(ctx context.Context, tx pgx.Tx) error {
	return j.attempt.completeTx(ctx, tx)
}

// attempt is what a job needs to settle itself. It is shared by the views of one job (raw for middleware, typed for
// its handler).
type attempt struct {
	store   *jobstore.Store
	pool    lazytx.Beginner // of the worker, for HandleTx
	open    lazytx.Slots    // of the worker, for HandleTx; nil: no bound
	row     *jobstore.Row
	settled settlement
	owned   atomic.Bool // HandleTx completes it

	returned  atomic.Bool // the handler has: its attempt is decided
	batch     *batchRun   // it is a part of, and where; only if there is middleware
	place     int
	maxResult int // bytes
	codecs    *codecs
	// unreadable is why the arguments could not be decoded by the codecs: middleware sees them as they are stored, and the handler is
	// not called.
	unreadable error
	result     jobResult
	progress   *progressReporter // nil: nothing is written
	ends       jobstore.Ends     // nil: nobody is told
}

// completeTx runs the completion in a transaction that somebody else commits, so that the runner has to ask
// afterwards whether that happened.
func (a *attempt) completeTx(ctx context.Context, tx pgx.Tx) error {
	if a.owned.Load() {
		return fmt.Errorf("complete %s in a transaction: %w", a.row, ErrTxOwned)
	}
	if a.returned.Load() {
		return fmt.Errorf("complete %s in a transaction: %w", a.row, ErrHandlerReturned)
	}
	if isNil(tx) {
		return &ValidationError{Field: "tx", Message: "must not be nil"}
	}
	result, err := a.currentResult()
	if err != nil {
		return fmt.Errorf("complete %s in a transaction: %w", a.row, err)
	}
	outcome, err := a.completeIn(ctx, tx, result)
	if err != nil {
		return fmt.Errorf("complete %s in a transaction: %w", a.row, err)
	}
	if outcome == runner.Lost {
		if a.settled.get() == settledByCaller {
			return fmt.Errorf("complete %s in a transaction: %w", a.row, ErrCompleted)
		}
		return fmt.Errorf("complete %s in a transaction: %w", a.row, ErrLeaseLost)
	}
	a.settled.set(settledByCaller)
	return nil
}

func infoOf(row *jobstore.Row) JobInfo {
	info := JobInfo{
		ID: row.ID, Queue: row.Queue, Kind: row.Kind, Priority: int(row.Priority), Tags: row.Tags, Metadata: row.Metadata,
		RunAt: row.RunAt, CreatedAt: row.CreatedAt, ClaimedAt: row.ClaimedAt,
		Attempt: row.Attempt, Failures: row.Failures, MaxAttempts: row.MaxAttempts, Generation: row.Generation,
	}
	if row.Key != nil {
		info.Key = *row.Key
	}
	if row.Revision != nil {
		info.Revision = *row.Revision
	}
	return info
}
