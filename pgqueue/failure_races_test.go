package pgqueue_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// C151: whatever is public may be called by anybody at any time, while workers run, stop and run again. The race detector
// watches; every error is a documented one, and every job ends once.
func TestC151_EverythingAtOnce(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	pool := poolLike(t, db.Pool, func(c *pgxpool.Config) { c.MaxConns = 20 })
	client, closing := quietClient(t, pool, pgqueue.WithHintWindow(10*time.Millisecond)), quietClient(t, pool)
	ctx, cancel := context.WithTimeout(context.Background(), size(2*time.Minute, 15*time.Minute))
	defer cancel()
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(_ context.Context, job *pgqueue.Job[task]) error {
		if job.Args.N%3 == 0 {
			return pgqueue.Permanent(errors.New("never"))
		}
		return nil
	})
	pgqueue.HandleBatch(mux, func(_ context.Context, jobs []*pgqueue.Job[other]) []error { return nil }, pgqueue.KindCollect(time.Millisecond))
	queues := []string{"a", "b", "c"}
	config := pgqueue.WorkerConfig{
		Queues: pgqueue.Queues{"a": {Workers: 4, Poll: 20 * time.Millisecond}, "b": {Workers: 4, Poll: 20 * time.Millisecond}, "c": {Poll: 20 * time.Millisecond}},
		Lease:  3 * time.Second, ReapInterval: 20 * time.Millisecond,
	}
	worker, err := client.NewWorker(mux, config)
	if err != nil {
		t.Fatal(err)
	}
	var inserted, handlers, began atomic.Int64
	var runs sync.WaitGroup
	start := func() {
		runs.Go(func() {
			began.Add(1)
			if err := worker.Run(ctx); err != nil && !errors.Is(err, pgqueue.ErrWorkerRunning) {
				t.Errorf("Run: %v", err)
			}
		})
	}
	start()
	count := func(enqueued []pgqueue.Enqueued, err error) error {
		for _, e := range enqueued {
			if e.Outcome == pgqueue.Inserted {
				inserted.Add(1)
			}
		}
		return err
	}
	on := func() []pgqueue.EnqueueOption { return []pgqueue.EnqueueOption{pgqueue.OnQueue(queues[rand.IntN(3)])} }
	anyJob := func() int64 {
		if last := inserted.Load(); last > 0 {
			return 1 + rand.Int64N(last)
		}
		return 1
	}
	actions := map[string]func() error{
		"run":   func() error { start(); return nil },
		"stop":  func() error { return worker.Stop(ctx) },
		"begin": func() error { _, err := client.NewWorker(mux, config); return err },
		"enqueue": func() error {
			enqueued, err := client.Enqueue(ctx, pool, task{N: rand.IntN(9)}, append(on(), pgqueue.WithKey(fmt.Sprint(rand.IntN(5))))...)
			return count([]pgqueue.Enqueued{enqueued}, err)
		},
		"many": func() error {
			return count(client.EnqueueMany(ctx, pool, []pgqueue.NewJob{{Args: task{N: 1}, Options: on()}, {Args: other{N: 2}, Options: on()}}))
		},
		"copy": func() error {
			n, err := client.EnqueueCopy(ctx, pool, []pgqueue.NewJob{{Args: other{N: 3}, Options: on()}, {Args: task{N: 3}, Options: on()}})
			inserted.Add(n)
			return err
		},
		"closing": func() error {
			enqueued, err := closing.Enqueue(ctx, pool, task{N: 4}, on()...)
			return count([]pgqueue.Enqueued{enqueued}, err)
		},
		"pause":  func() error { return client.PauseQueue(ctx, pool, queues[rand.IntN(2)], "to race") },
		"resume": func() error { return client.ResumeQueue(ctx, pool, queues[rand.IntN(2)]) },
		"history": func() error {
			return client.SetHistory(ctx, pool, queues[rand.IntN(3)], []pgqueue.History{pgqueue.HistoryFull, pgqueue.HistorySlim}[rand.IntN(2)])
		},
		"stats":  func() error { _, err := client.Stats(ctx); return err },
		"get":    func() error { _, err := client.Get(ctx, pool, anyJob()); return err },
		"cancel": func() error { _, err := client.Cancel(ctx, pool, anyJob()); return err },
		"budget": func() error { _, err := client.SetMaxAttempts(ctx, pool, anyJob(), 1+rand.IntN(5)); return err },
		"retry": func() error {
			var taken *pgqueue.KeyTakenError
			if err := client.Retry(ctx, pool, anyJob()); !errors.As(err, &taken) {
				return err
			}
			return nil
		},
		"status": func() error { _, _, _ = worker.Status(), worker.ID(), mux.Kinds(); return mux.Err() },
		"handle": func() error {
			mux.HandleFunc(fmt.Sprintf("new %d", handlers.Add(1)), func(context.Context, *pgqueue.AnyJob) error { return nil })
			return nil
		},
		"use": func() error {
			if handlers.Load() < 50 {
				mux.Use(func(next pgqueue.Handler) pgqueue.Handler { return next })
			}
			return nil
		},
		"drain": func() error { _, err := client.Drain(ctx, mux, config); return err },
	}
	documented := []error{pgqueue.ErrNotFound, pgqueue.ErrJobLive, pgqueue.ErrClosed}
	rounds := size(6, 40)
	var callers sync.WaitGroup
	for caller := range 8 {
		callers.Go(func() {
			for round := range rounds {
				if caller == 0 && round == rounds/2 { // in the middle
					if err := errors.Join(worker.Stop(ctx), closing.Close(ctx)); err != nil {
						t.Error(err)
					}
				}
				for name, act := range actions { // in the order of chance
					_ = worker.Status() // the more often, the more there is to race with
					err := act()
					_ = worker.Status()
					for _, allowed := range documented {
						if errors.Is(err, allowed) {
							err = nil
						}
					}
					if err != nil {
						t.Errorf("%s: %v", name, err)
					}
				}
			}
		})
	}
	callers.Wait()
	for _, queue := range queues {
		if err := client.ResumeQueue(ctx, pool, queue); err != nil {
			t.Error(err)
		}
	}
	claimed := func() (n uint64) {
		for _, status := range worker.Status().Queues {
			n += status.Claimed
		}
		return n
	}
	// A worker that was stopped each time before it had looked at its database has claimed nothing so far. Nobody stops it now.
	eventually(t, "the worker claims", func() bool {
		if claimed() > 0 {
			return true
		}
		start()
		if err := count(client.EnqueueMany(ctx, pool, []pgqueue.NewJob{{Args: task{N: 1}, Options: on()}})); err != nil {
			t.Error(err)
		}
		return false
	})
	eventually(t, "all jobs have ended", func() bool { // some by a worker that still runs, if the last word was "run"
		drain(t, client, mux, config)
		return one[int](t, pool, "SELECT count(*) FROM pgqueue.jobs") == 0
	})
	if err := worker.Stop(ctx); err != nil {
		t.Error(err)
	}
	eventually(t, "every Run has returned", func() bool { // one may have begun after that
		if err := worker.Stop(ctx); err != nil {
			t.Error(err)
		}
		done := make(chan struct{})
		go func() { runs.Wait(); close(done) }()
		select {
		case <-done:
			return true
		case <-time.After(100 * time.Millisecond):
			return false
		}
	})
	if n, want := one[int64](t, pool, "SELECT count(*) FROM pgqueue.history"), inserted.Load(); n != want {
		t.Errorf("%d jobs have ended, want %d", n, want)
	}
	if n := one[int](t, pool, "SELECT count(*) - count(DISTINCT id) FROM pgqueue.history"); n != 0 {
		t.Errorf("%d jobs have ended twice", n)
	}
	for queue, status := range worker.Status().Queues {
		if status.InFlight != 0 || status.Buffered != 0 {
			t.Errorf("queue %s after %d runs: %+v", queue, began.Load(), status)
		}
	}
}
