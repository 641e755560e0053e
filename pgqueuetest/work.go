package pgqueuetest

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// Worked is what became of one job, with what is stored about it afterwards.
type Worked struct {
	pgqueue.Worked
	// After is the job as it is stored now, in the transaction: its state, its result, its failed attempts. Nil if it is gone,
	// because its queue keeps no history.
	After *pgqueue.JobStatus
}

// WorkTx runs one job, number id, inside tx, which is open, and returns what became of it; see [pgqueue.Client.WorkTx]. The job may
// have been enqueued in tx, and need not be due. All others are left alone, also what the handler enqueues: see that with
// [RequireEnqueued]. Rolling tx back undoes everything.
//
// A job that fails does not fail the test: look at Outcome and Err. It ends the test when the job cannot be run, because there is
// none, it has ended, its kind has no handler, or its queue is paused.
func WorkTx(t testing.TB, tx pgx.Tx, client *pgqueue.Client, mux *pgqueue.Mux, id int64) Worked {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), drainTimeout)
	defer cancel()
	worked, err := client.WorkTx(ctx, tx, mux, id, pgqueue.WorkerConfig{StopTimeout: stopTimeout})
	if err != nil {
		t.Fatalf("pgqueuetest: %v", err)
	}
	after, err := client.Get(ctx, tx, id)
	if err != nil && !errors.Is(err, pgqueue.ErrNotFound) {
		t.Fatalf("pgqueuetest: %v", err)
	}
	return Worked{Worked: worked, After: after}
}

// WorkArgsTx enqueues args in tx, with options, and runs the job as [WorkTx] does: the shortest test of a handler.
func WorkArgsTx(t testing.TB, tx pgx.Tx, client *pgqueue.Client, mux *pgqueue.Mux, args pgqueue.Args, opts ...pgqueue.EnqueueOption) Worked {
	t.Helper()
	enqueued, err := client.Enqueue(t.Context(), tx, args, opts...)
	if err != nil {
		t.Fatalf("pgqueuetest: %v", err)
	}
	return WorkTx(t, tx, client, mux, enqueued.ID)
}
