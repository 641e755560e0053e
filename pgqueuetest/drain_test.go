package pgqueuetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/migrations"
	"github.com/pgqueue/pgqueue/pgqueue"
)

func TestDrainRunsOneHandlerAtATimeAndInOrder(t *testing.T) {
	t.Parallel()
	db := New(t)
	client, mux := db.Client(t), pgqueue.NewMux()
	var ran []int64 // no lock: the race detector is the witness
	pgqueue.Handle(mux, func(ctx context.Context, job *pgqueue.Job[welcome]) error {
		ran = append(ran, job.Args.UserID)
		if job.Args.UserID < 20 {
			_, err := client.Enqueue(ctx, db.Pool, welcome{UserID: job.Args.UserID + 20})
			return err
		}
		return nil
	})
	for n := range int64(20) {
		enqueue(t, client, db.Pool, welcome{UserID: n})
	}
	enqueue(t, client, db.Pool, welcome{UserID: 100}, pgqueue.OnQueue("another"))
	result := Drain(t, client, mux)
	if result.Outcomes.Succeeded != 40 || !slices.IsSorted(ran) {
		t.Errorf("%+v, in the order %v", result, ran)
	}
	if Drain(t, client, mux, "another", "empty").Queues["another"].Succeeded != 1 || len(ran) != 41 {
		t.Errorf("ran %v", ran)
	}
}

func TestDrainTakesAMuxWithBounds(t *testing.T) {
	t.Parallel()
	db := New(t)
	client, mux := db.Client(t), pgqueue.NewMux()
	pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[welcome]) error { return nil }, pgqueue.KindWorkers(8))
	pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[goodbye]) error { return nil })
	enqueue(t, client, db.Pool, welcome{})
	if result := Drain(t, client, mux); result.Outcomes.Succeeded != 1 {
		t.Errorf("%+v", result)
	}
}

// A job that fails is a result and no failure of the test, whose output says why.
func TestAFailedJobIsInTheOutput(t *testing.T) {
	t.Parallel()
	db := New(t)
	output := &capturing{TB: t}
	client, mux := db.Client(output), pgqueue.NewMux()
	pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[welcome]) error { return errors.New("no such user") })
	enqueue(t, client, db.Pool, welcome{})
	if result := Drain(t, client, mux); result.Outcomes.Retrying != 1 {
		t.Errorf("%+v", result)
	}
	RequireEnqueued[welcome](t, db.Pool, Delayed())
	if text := output.written(); !strings.Contains(text, "no such user") {
		t.Errorf("it says %q", text)
	}
}

func TestTheOutputOfATestIsClosedAtItsEnd(t *testing.T) {
	t.Parallel()
	output := &capturing{TB: t}
	writer := &testOutput{t: output}
	for _, text := range []string{"before", "after"} {
		if n, err := writer.Write([]byte(text)); n != len(text) || err != nil {
			t.Errorf("%d %v", n, err)
		}
		writer.end()
	}
	if got := output.written(); got != "before" {
		t.Errorf("written %q", got)
	}
}

func TestTheClientIsClosedWithTheTest(t *testing.T) {
	t.Parallel()
	db := New(t, WithSchema("s"))
	var client *pgqueue.Client
	t.Run("inner", func(t *testing.T) {
		client = db.Client(t, pgqueue.WithMaxPayload(20))
		enqueue(t, client, db.Pool, welcome{})
		if _, err := client.Enqueue(t.Context(), db.Pool, welcome{Name: "longer than it may be"}); !errors.Is(err, pgqueue.ErrInvalid) {
			t.Errorf("the option was not used: %v", err)
		}
	})
	if _, err := client.Enqueue(t.Context(), db.Pool, welcome{}); !errors.Is(err, pgqueue.ErrClosed) {
		t.Errorf("%v", err)
	}
}

// Transactions in one schema, side by side, each with jobs of one key.
func TestDrainTxSeesOnlyItsOwn(t *testing.T) {
	t.Parallel()
	db := New(t)
	client := db.Client(t)
	t.Run("group", func(t *testing.T) {
		for n := range int64(20) {
			t.Run(fmt.Sprint(n), func(t *testing.T) {
				t.Parallel()
				tx, err := db.Pool.Begin(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = tx.Rollback(context.Background()) }()
				mux := pgqueue.NewMux()
				var ran []int64
				pgqueue.HandleTx(mux, func(_ context.Context, _ pgx.Tx, job *pgqueue.Job[welcome]) error {
					ran = append(ran, job.Args.UserID)
					return nil
				})
				for range 5 {
					enqueue(t, client, tx, welcome{UserID: n})
				}
				if result := DrainTx(t, tx, client, mux); result.Outcomes.Succeeded != 5 {
					t.Errorf("%+v", result)
				}
				if !slices.Equal(ran, []int64{n, n, n, n, n}) {
					t.Errorf("transaction %d ran %v", n, ran)
				}
				RequireNotEnqueued[welcome](t, tx)
			})
		}
	})
	if left := Enqueued[pgqueue.Raw](t, db.Pool); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// With -parallel 20 that many workers run at a time, each with its own listener and reaper.
func TestC149_ParallelTestsInOneDatabaseDoNotMeet(t *testing.T) {
	t.Parallel()
	db := New(t, WithoutMigrations())
	const tests, jobs = 40, 20
	t.Run("group", func(t *testing.T) {
		for n := range int64(tests) {
			t.Run(fmt.Sprint(n), func(t *testing.T) {
				t.Parallel()
				own := &DB{Pool: db.Pool, URL: db.URL, Schema: fmt.Sprintf("test %d", n)}
				if err := migrations.Up(t.Context(), own.Pool, own.Schema, migrations.WithLogger(slog.New(slog.DiscardHandler))); err != nil {
					t.Fatal(err)
				}
				client, mux := own.Client(t), pgqueue.NewMux()
				var mutex sync.Mutex
				ran, all := map[int64]int{}, make(chan struct{})
				pgqueue.HandleTx(mux, func(_ context.Context, _ pgx.Tx, job *pgqueue.Job[welcome]) error {
					mutex.Lock()
					defer mutex.Unlock()
					if job.Args.UserID/jobs != n {
						t.Errorf("test %d ran job %d of test %d", n, job.ID, job.Args.UserID/jobs)
					}
					if ran[job.Args.UserID]++; len(ran) == jobs {
						close(all)
					}
					return nil
				})
				worker, err := client.NewWorker(mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {}}})
				if err != nil {
					t.Fatal(err)
				}
				ctx, stop := context.WithTimeout(t.Context(), drainTimeout)
				defer stop()
				ended := make(chan error, 1)
				go func() { ended <- worker.Run(ctx) }()
				for i := range int64(jobs) {
					enqueue(t, client, own.Pool, welcome{UserID: n*jobs + i})
				}
				select {
				case <-all:
				case <-ctx.Done():
					t.Errorf("%d of %d jobs ran", len(ran), jobs)
				}
				stop()
				if err := <-ended; err != nil {
					t.Error(err)
				}
				for id, times := range ran {
					if times != 1 {
						t.Errorf("job %d ran %d times", id, times)
					}
				}
				RequireNotEnqueued[pgqueue.Raw](t, own.Pool, InSchema(own.Schema))
			})
		}
	})
}

// capturing is a testing.TB that keeps what is written to its output.
type capturing struct {
	testing.TB
	mutex sync.Mutex
	text  strings.Builder
}

func (c *capturing) Output() io.Writer { return c }

func (c *capturing) Write(text []byte) (int, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.text.Write(text)
}

func (c *capturing) written() string {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.text.String()
}
