package pgqueue_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
	"github.com/pgqueue/pgqueue/runner"
)

// edge runs one job whose handler is given, and returns the job as it stands then.
func edge(t *testing.T, db *pgqueuetest.DB, client *pgqueue.Client, handle func(ctx context.Context, job *pgqueue.Job[task]) error) stored {
	t.Helper()
	id := enqueue(t, client, db.Pool, task{}).ID
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, handle)
	drain(t, client, mux, pgqueue.WorkerConfig{})
	return job(t, db.Pool, id)
}

// dropToday takes away the partition that a completion of today needs. Handlers call it: a drain begins with upkeep.
func dropToday(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	exec(t, pool, `DO $$ BEGIN EXECUTE format('DROP TABLE pgqueue.history_%s', to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD')); END $$`)
}

// Upkeep has failed for two weeks: the caller's transaction is not aborted, the partition is made beside it, and everything
// commits together.
func TestCompleteTxMakesTheMissingPartition(t *testing.T) {
	t.Parallel()
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		db := newEffects(t)
		client := quietClient(t, db.Pool)
		s := edge(t, db, client, func(ctx context.Context, job *pgqueue.Job[task]) error {
			dropToday(t, db.Pool)
			return pgx.BeginTxFunc(ctx, db.Pool, pgx.TxOptions{IsoLevel: level}, func(tx pgx.Tx) error {
				return errors.Join(effect(ctx, tx, "before"), job.CompleteTx(ctx, tx), effect(ctx, tx, "after"))
			})
		})
		s.requireState(t, "succeeded", 1, 0)
		requireEffects(t, db.Pool, "after", "before")
	}
	// The same with the library's transaction, and in a drain that has one connection in all.
	db := newEffects(t)
	client := quietClient(t, db.Pool)
	mux := pgqueue.NewMux()
	pgqueue.HandleTx(mux, func(ctx context.Context, tx pgx.Tx, job *pgqueue.Job[task]) error {
		if job.Args.N == 1 {
			dropToday(t, db.Pool)
		}
		return effect(ctx, tx, "by us")
	})
	first := enqueue(t, client, db.Pool, task{N: 1}).ID
	drain(t, client, mux, pgqueue.WorkerConfig{})
	job(t, db.Pool, first).requireState(t, "succeeded", 1, 0)
	requireEffects(t, db.Pool, "by us")

	dropToday(t, db.Pool)
	second := enqueue(t, client, db.Pool, task{}).ID
	tx := begin(t, db.Pool, pgx.TxOptions{})
	if _, err := client.DrainTx(testContext(t), tx, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {}}}); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(testContext(t)); err != nil {
		t.Fatal(err)
	}
	job(t, db.Pool, second).requireState(t, "succeeded", 1, 0)
}

// Where the partition cannot be made, because the handler holds the only connection, the transaction stays usable.
func TestCompleteTxWithoutAConnectionForThePartition(t *testing.T) {
	t.Parallel()
	db := newEffects(t)
	client := quietClient(t, db.Pool)
	small := poolLike(t, db.Pool, func(config *pgxpool.Config) { config.MaxConns = 1 })
	id := enqueue(t, client, db.Pool, task{}).ID
	refused := make(chan error, 1)
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(ctx context.Context, job *pgqueue.Job[task]) error {
		dropToday(t, db.Pool)
		return pgx.BeginFunc(ctx, small, func(tx pgx.Tx) error {
			short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
			defer cancel()
			refused <- job.CompleteTx(short, tx)
			return effect(ctx, tx, "still usable")
		})
	})
	drain(t, client, mux, pgqueue.WorkerConfig{Pool: small})
	if err := receive(t, refused, "the handler"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("CompleteTx: %v, want a timeout", err)
	}
	requireEffects(t, db.Pool, "still usable")
	job(t, db.Pool, id).requireState(t, "succeeded", 1, 0) // reported like any other, which makes the partition
}

func TestCompleteTxCalledTwice(t *testing.T) {
	t.Parallel()
	db := newEffects(t)
	client := quietClient(t, db.Pool)
	edge(t, db, client, func(ctx context.Context, job *pgqueue.Job[task]) error {
		return pgx.BeginFunc(ctx, db.Pool, func(tx pgx.Tx) error {
			if err := job.CompleteTx(ctx, tx); err != nil {
				return err
			}
			if err := job.CompleteTx(ctx, tx); !errors.Is(err, pgqueue.ErrCompleted) {
				t.Errorf("the second call in one transaction: %v", err)
			}
			return effect(ctx, tx, "once")
		})
	}).requireState(t, "succeeded", 1, 0)
	requireEffects(t, db.Pool, "once")

	// In a second transaction: allowed after the first rolled back, refused after it committed.
	edge(t, db, client, func(ctx context.Context, job *pgqueue.Job[task]) error {
		boom := errors.New("rolled back")
		for _, end := range []error{boom, nil} {
			if err := pgx.BeginFunc(ctx, db.Pool, func(tx pgx.Tx) error {
				return errors.Join(job.CompleteTx(ctx, tx), end)
			}); !errors.Is(err, end) {
				t.Errorf("a transaction that ends with %v: %v", end, err)
			}
		}
		tx, err := db.Pool.Begin(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback(ctx) }()
		if err := job.CompleteTx(ctx, tx); !errors.Is(err, pgqueue.ErrCompleted) {
			t.Errorf("after a commit: %v", err)
		}
		return nil
	}).requireState(t, "succeeded", 1, 0)
}

func TestCompleteTxAfterTheHandler(t *testing.T) {
	t.Parallel()
	db := newEffects(t)
	client := quietClient(t, db.Pool)
	for _, end := range []error{nil, errors.New("no")} {
		var kept *pgqueue.Job[task]
		edge(t, db, client, func(_ context.Context, job *pgqueue.Job[task]) error {
			kept = job
			return end
		})
		tx := begin(t, db.Pool, pgx.TxOptions{})
		if err := kept.CompleteTx(testContext(t), tx); !errors.Is(err, pgqueue.ErrHandlerReturned) {
			t.Errorf("after a handler that returned %v: %v", end, err)
		}
		if err := effect(testContext(t), tx, "usable"); err != nil {
			t.Error(err)
		}
		_ = tx.Rollback(testContext(t))
		exec(t, db.Pool, `DELETE FROM pgqueue.jobs`)
	}
}

// Transactions in which nothing can be completed: the error says why, and the job is as it was.
func TestCompleteTxInAnUnusableTransaction(t *testing.T) {
	t.Parallel()
	db := newEffects(t)
	client := quietClient(t, db.Pool)
	for _, c := range []struct {
		name, code string
		options    pgx.TxOptions
		prepare    func(ctx context.Context, tx pgx.Tx)
	}{
		{"aborted", "25P02", pgx.TxOptions{}, func(ctx context.Context, tx pgx.Tx) { _, _ = tx.Exec(ctx, `SELECT 1/0`) }},
		{"read-only", "25006", pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(context.Context, pgx.Tx) {}},
		{"ended", "", pgx.TxOptions{}, func(ctx context.Context, tx pgx.Tx) { _ = tx.Commit(ctx) }},
	} {
		s := edge(t, db, client, func(ctx context.Context, job *pgqueue.Job[task]) error {
			tx, err := db.Pool.BeginTx(ctx, c.options)
			if err != nil {
				return err
			}
			defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
			c.prepare(ctx, tx)
			err = job.CompleteTx(ctx, tx)
			if c.code != "" && !isCode(err, c.code) || c.code == "" && !errors.Is(err, pgx.ErrTxClosed) {
				t.Errorf("%s: %v", c.name, err)
			}
			return nil // nothing was completed, so the worker does it
		})
		s.requireState(t, "succeeded", 1, 0)
	}
}

// A transaction of another job's handler completes both or none: it is a transaction like any other.
func TestCompleteTxInAnotherJobsTransaction(t *testing.T) {
	t.Parallel()
	db := newEffects(t)
	client := quietClient(t, db.Pool)
	first := make(chan *pgqueue.Job[task])
	done := make(chan error)
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(_ context.Context, job *pgqueue.Job[task]) error {
		first <- job
		return <-done
	})
	pgqueue.HandleTx(mux, func(ctx context.Context, tx pgx.Tx, job *pgqueue.Job[other]) error {
		theirs := <-first
		if err := theirs.CompleteTx(ctx, tx); err != nil {
			return err
		}
		if job.Args.N == 0 {
			done <- nil // its transaction has not committed, so the attempt has failed
			return errors.New("rolled back")
		}
		return nil
	})
	id, partner := enqueue(t, client, db.Pool, task{}).ID, enqueue(t, client, db.Pool, other{}).ID
	drain(t, client, mux, pgqueue.WorkerConfig{})
	s := job(t, db.Pool, id)
	s.requireState(t, "pending", 1, 1)
	if s.Errors[0].Code != runner.CodeNotCommitted {
		t.Errorf("errors %+v", s.Errors)
	}
	job(t, db.Pool, partner).requireState(t, "pending", 1, 1)
	exec(t, db.Pool, `DELETE FROM pgqueue.jobs`)

	id, partner = enqueue(t, client, db.Pool, task{}).ID, enqueue(t, client, db.Pool, other{N: 1}).ID
	go func() {
		eventually(t, "both are completed", func() bool { return one[int](t, db.Pool, `SELECT count(*) FROM pgqueue.jobs`) == 0 })
		done <- nil
	}()
	drain(t, client, mux, pgqueue.WorkerConfig{})
	job(t, db.Pool, id).requireState(t, "succeeded", 1, 0)
	job(t, db.Pool, partner).requireState(t, "succeeded", 1, 0)
}

// In SERIALIZABLE a renewal that came after the snapshot is a conflict: 40001, and the whole transaction is tried again.
func TestCompleteTxInASerializableTransaction(t *testing.T) {
	t.Parallel()
	for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		db := newEffects(t)
		client := quietClient(t, db.Pool)
		tries := 0
		s := edge(t, db, client, func(ctx context.Context, job *pgqueue.Job[task]) error {
			for {
				tries++
				err := pgx.BeginTxFunc(ctx, db.Pool, pgx.TxOptions{IsoLevel: level}, func(tx pgx.Tx) error {
					if err := effect(ctx, tx, "once"); err != nil { // takes the snapshot
						return err
					}
					if tries == 1 {
						exec(t, db.Pool, `UPDATE pgqueue.jobs SET lease_expires_at = now() + interval '1 minute' WHERE id = $1`, job.ID)
					}
					return job.CompleteTx(ctx, tx)
				})
				if !isCode(err, "40001") || tries > 5 {
					return err
				}
			}
		})
		s.requireState(t, "succeeded", 1, 0)
		if tries != 2 {
			t.Errorf("%s: %d tries, want a conflict and a success", level, tries)
		}
		requireEffects(t, db.Pool, "once")
	}
}
