package pgqueue_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/runner"
)

// Transactional handlers that would take every connection leave enough for the worker's own statements: another queue goes
// on while they hold what they may, and no lease is lost.
func TestTransactionalHandlersLeaveConnectionsToTheWorker(t *testing.T) {
	t.Parallel()
	db := newEffects(t)
	client := quietClient(t, db.Pool)
	const jobs = 6
	tried := make(chan struct{}, 10*jobs)
	release := make(chan struct{})
	letGo := sync.OnceFunc(func() { close(release) })
	t.Cleanup(letGo)
	var open, most, lost atomic.Int32
	mux := pgqueue.NewMux()
	pgqueue.HandleTx(mux, func(ctx context.Context, tx pgx.Tx, job *pgqueue.Job[task]) error {
		tried <- struct{}{}
		if err := effect(ctx, tx, job.Args.Do); err != nil {
			return err
		}
		most.Store(max(most.Load(), open.Add(1)))
		defer open.Add(-1)
		<-release
		return nil
	}, pgqueue.KindWorkers(jobs))
	plain := make(chan struct{}, 1)
	pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[other]) error {
		plain <- struct{}{}
		return nil
	})
	pool := poolLike(t, db.Pool, func(config *pgxpool.Config) { config.MaxConns = 5 })
	renewals := make(chan runner.RenewEvent, 1000)
	startWorker(t, client, mux, pgqueue.WorkerConfig{
		Queues: pgqueue.Queues{"tx": {Workers: jobs + 1}, "plain": {}},
		Lease:  3 * time.Second, Pool: pool,
		Observer: &hooks{
			lost:  func(runner.LeaseEvent) { lost.Add(1) },
			renew: func(e runner.RenewEvent) { renewals <- e },
		},
	})
	for range jobs {
		enqueue(t, client, db.Pool, task{Do: "done"}, pgqueue.OnQueue("tx"))
	}
	for range jobs {
		receive(t, tried, "handlers at their first statement")
	}
	last := enqueue(t, client, db.Pool, other{}, pgqueue.OnQueue("plain")).ID
	receive(t, plain, "a job of another queue beside them")
	awaitState(t, db.Pool, last, "succeeded")
	for renewed := 0; renewed < 2*jobs; { // twice for every one of them
		renewed += receive(t, renewals, "renewals").Renewed
	}
	letGo()
	eventually(t, "all jobs have succeeded", func() bool {
		var left int
		if err := db.Pool.QueryRow(testContext(t), "SELECT count(*) FROM pgqueue.jobs").Scan(&left); err != nil {
			t.Fatal(err)
		}
		return left == 0
	})
	if lost.Load() != 0 || most.Load() != 2 {
		t.Errorf("%d leases lost and at most %d transactions open, want 0 and 2", lost.Load(), most.Load())
	}
}

// A handler that goes on after the transaction has committed that completed its job has lost nothing.
func TestCompletedJobIsNotLostWhileItsHandlerGoesOn(t *testing.T) {
	t.Parallel()
	db := newEffects(t)
	var complaints bytes.Buffer
	client := newClient(t, db.Pool, pgqueue.WithLogger(slog.New(slog.NewTextHandler(&complaints, &slog.HandlerOptions{Level: slog.LevelWarn}))))
	renewals := make(chan runner.RenewEvent, 1000)
	ended := make(chan error, 1)
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(ctx context.Context, job *pgqueue.Job[task]) error {
		err := pgx.BeginFunc(ctx, db.Pool, func(tx pgx.Tx) error {
			return errors.Join(effect(ctx, tx, "done"), job.CompleteTx(ctx, tx))
		})
		for range 2 {
			receive(t, renewals, "a renewal after the commit")
		}
		ended <- errors.Join(err, context.Cause(ctx))
		return err
	})
	outcomes := make(chan runner.VerdictEvent, 1)
	worker := startWorker(t, client, mux, pgqueue.WorkerConfig{
		Queues: pgqueue.Queues{"default": {}}, Lease: 2 * time.Second,
		Observer: &hooks{
			renew:   func(e runner.RenewEvent) { renewals <- e },
			verdict: func(e runner.VerdictEvent) { outcomes <- e },
		},
	})
	enqueue(t, client, db.Pool, task{})
	if err := receive(t, ended, "the end of the handler"); err != nil {
		t.Errorf("its context ended: %v", err)
	}
	if got := receive(t, outcomes, "the outcome").Outcome; got != runner.Succeeded {
		t.Errorf("outcome %v, want succeeded", got)
	}
	requireEffects(t, db.Pool, "done")
	if err := worker.end(t); err != nil {
		t.Error(err)
	}
	if code := worker.Status().Queues["default"].LastErrorCode; code != "" || complaints.Len() > 0 {
		t.Errorf("a success is reported as error %q, and logged as:\n%s", code, &complaints)
	}
}

// One mux serves a large queue and a small one.
func TestKindBoundsFitTheQueue(t *testing.T) {
	t.Parallel()
	db := newEffects(t)
	client := quietClient(t, db.Pool)
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[task]) error { return nil }, pgqueue.KindWorkers(20))
	pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[other]) error { return nil })
	if _, err := client.NewWorker(mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"large": {Workers: 50}, "small": {}}}); err != nil {
		t.Error(err)
	}
}

func TestWorkersAreRefusedBeforeAnySQL(t *testing.T) {
	t.Parallel()
	db := newEffects(t)
	client := quietClient(t, db.Pool)
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[task]) error { return nil })
	config := pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {Workers: runner.MaxWorkers + 1}}}
	var refused *pgqueue.ValidationError
	if _, err := client.NewWorker(mux, config); !errors.As(err, &refused) || refused.Field != `Queues["default"].Workers` {
		t.Errorf("too many workers: %v", err)
	}
	if err := client.Close(testContext(t)); err != nil {
		t.Fatal(err)
	}
	config.Queues["default"] = pgqueue.QueueConfig{}
	if _, err := client.NewWorker(mux, config); !errors.Is(err, pgqueue.ErrClosed) {
		t.Errorf("NewWorker of a closed client: %v", err)
	}
	if _, err := client.Drain(testContext(t), mux, config); !errors.Is(err, pgqueue.ErrClosed) {
		t.Errorf("Drain of a closed client: %v", err)
	}
}
