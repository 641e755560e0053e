package pgqueue

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/internal/lazytx"
	"github.com/pgqueue/pgqueue/runner"
)

// commitTimeout bounds the completion and the COMMIT of a transactional handler, which run in a context of their own:
// work that is done should be stored although the deadline passes at that very moment.
const commitTimeout = 10 * time.Second

// HandleTx registers a handler whose transaction commits together with the completion of its job, or not at all: what
// it writes through tx happens exactly once per successful job, however often the job is attempted.
//
// The transaction begins at its first use, in the worker's pool, so slow work belongs before it: an open transaction
// holds a connection and keeps vacuum from its work. All but three connections of the pool may be held so at a time; the
// next handler waits at its first use of tx, because the worker's own statements must not. Commit and Rollback are the
// library's: calling them, or the job's CompleteTx, gives [ErrTxOwned]; Begin makes a savepoint. A handler that returns an
// error, or has lost its lease, is rolled back. One that never uses tx is completed like any other.
//
// A result for [Job.SetResult] is committed with it. See [Handle] for the rest.
func HandleTx[T Args](mux *Mux, handle func(ctx context.Context, tx pgx.Tx, job *Job[T]) error, options ...HandleOption) {
	if handle == nil {
		mux.Handle(kindOfType[T](), nil, options...)
		return
	}
	decode := decoder[T]()
	mux.Handle(kindOfType[T](), HandlerFunc(func(ctx context.Context, job *AnyJob) error {
		typed, err := decode(job)
		if err != nil {
			return err
		}
		typed.ctx = ctx
		return runInTx(ctx, job, func(tx pgx.Tx) error { return handle(ctx, tx, typed) })
	}), options...)
}

// runInTx runs handle and settles the job in its transaction.
func runInTx(ctx context.Context, job *AnyJob, handle func(tx pgx.Tx) error) error {
	job.attempt.owned.Store(true)
	lazy := lazytx.New(ctx, job.attempt.pool, job.attempt.open, ErrTxOwned)
	defer lazy.End() // also when handle panics
	if err := handle(lazy); err != nil {
		return err
	}
	tx, err := lazy.Begun()
	if err != nil {
		return fmt.Errorf("begin the transaction of %s: %w", job.attempt.row, err)
	}
	if tx == nil {
		return nil
	}
	result, err := job.attempt.takeResult()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
	defer cancel()
	outcome, err := job.attempt.completeIn(ctx, tx, result)
	if err != nil {
		return fmt.Errorf("complete %s in its transaction: %w", job.attempt.row, err)
	}
	if outcome == runner.Lost {
		return fmt.Errorf("complete %s in its transaction: %w", job.attempt.row, ErrLeaseLost)
	}
	lazy.Committing()
	if err := tx.Commit(ctx); err != nil {
		if lazytx.CommitDecided(err) {
			return fmt.Errorf("commit the transaction of %s: %w", job.attempt.row, err)
		}
		job.attempt.settled.set(settledUnknown)
		return nil
	}
	job.attempt.settled.set(settledByUs)
	return nil
}
