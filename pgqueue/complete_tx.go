package pgqueue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/pgqueue/internal/jobstore"
	"github.com/pgqueue/pgqueue/runner"
)

var (
	// ErrCompleted is returned by [Job.CompleteTx] when an earlier call of the same attempt completed the job, in this
	// transaction or in one that has committed. After one that rolled back it may be called again.
	ErrCompleted = errors.New("the job was completed by an earlier call")
	// ErrHandlerReturned is returned by [Job.CompleteTx] and [Job.SetResult] after the job's handler has returned: the end of the attempt is
	// decided then.
	ErrHandlerReturned = errors.New("the job's handler has returned")
)

// partitionTimeout bounds the wait for another connection when today's partition of history has to be made.
const partitionTimeout = 5 * time.Second

// completeIn completes the job in tx. Upkeep makes the partitions of history two weeks ahead; where today's is missing
// nevertheless it is made in a transaction of its own, because tx may stay open for long, and an INSERT that finds none would
// abort it. Where that cannot be done, tx is as good as before.
func (a *attempt) completeIn(ctx context.Context, tx pgx.Tx, result json.RawMessage) (runner.Outcome, error) {
	outcome, err := a.store.CompleteTx(ctx, tx, a.row, result)
	if !errors.Is(err, jobstore.ErrNoPartition) {
		return outcome, err
	}
	if err := a.makePartition(ctx); err != nil {
		return 0, fmt.Errorf("make today's partition of history: %w", err)
	}
	// A session remembers that there was no such table, until it takes some lock; the statement is parsed anew, which does.
	return a.store.CompleteTx(ctx, tx, a.row, result)
}

func (a *attempt) makePartition(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, partitionTimeout)
	defer cancel()
	tx, err := a.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return err
	}
	if err := a.store.MakePartition(ctx, tx); err != nil {
		// In a context of its own: the connection should be given back, whatever ended.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), partitionTimeout)
		defer cancel()
		_ = tx.Rollback(ctx)
		return err
	}
	return tx.Commit(ctx)
}
