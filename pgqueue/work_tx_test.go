package pgqueue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/migrations"
	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// txFixture is a client and one open transaction, on a pool with a single connection: whatever asked the pool for another
// one would wait until the context ends.
type txFixture struct {
	*testing.T
	ctx    context.Context
	db     *pgqueuetest.DB
	client *pgqueue.Client
	mux    *pgqueue.Mux
	tx     pgx.Tx
}

const oddSchema = `App "jobs"` // not in search_path, and needs quoting

func openTx(t *testing.T) *txFixture {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	db := pgqueuetest.New(t, pgqueuetest.WithSchema(oddSchema), pgqueuetest.WithPoolConfig(func(c *pgxpool.Config) { c.MaxConns = 1 }))
	f := &txFixture{T: t, ctx: ctx, db: db, client: db.Client(t), mux: pgqueue.NewMux()}
	f.begin()
	return f
}

// begin opens the transaction, with a table of the application's that goes with it.
func (f *txFixture) begin() {
	f.Helper()
	var err error
	if f.tx, err = f.db.Pool.Begin(f.ctx); err != nil {
		f.Fatal(err)
	}
	tx := f.tx
	f.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	f.exec("CREATE TABLE public.notes (note text PRIMARY KEY)")
}

func (f *txFixture) exec(sql string, args ...any) {
	f.Helper()
	if _, err := f.tx.Exec(f.ctx, sql, args...); err != nil {
		f.Fatal(err)
	}
}

func (f *txFixture) enqueue(kind string, options ...pgqueue.EnqueueOption) {
	f.Helper()
	if _, err := f.client.Enqueue(f.ctx, f.tx, pgqueue.Raw{Name: kind}, options...); err != nil {
		f.Fatal(err)
	}
}

func (f *txFixture) drain(queues ...string) pgqueue.DrainResult {
	f.Helper()
	result, err := f.tryDrain(queues...)
	if err != nil {
		f.Fatal(err)
	}
	return result
}

func (f *txFixture) tryDrain(queues ...string) (pgqueue.DrainResult, error) {
	config := pgqueue.WorkerConfig{Queues: pgqueue.Queues{}}
	for _, queue := range append(queues, "default") {
		config.Queues[queue] = pgqueue.QueueConfig{Backoff: afterTheDrain}
	}
	return f.client.DrainTx(f.ctx, f.tx, f.mux, config)
}

// lines runs a query of one text column with the schema put in for %s.
func (f *txFixture) lines(q pgqueuetest.Querier, sql string) []string {
	f.Helper()
	rows, err := q.Query(f.ctx, strings.ReplaceAll(sql, "%s", pgx.Identifier{oddSchema}.Sanitize()))
	if err != nil {
		f.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		f.Fatal(err)
	}
	return lines
}

// states lists what became of every job.
func (f *txFixture) states(q pgqueuetest.Querier) []string {
	f.Helper()
	return f.lines(q, `SELECT concat_ws(' ', kind, state, errors->-1->>'code') FROM (
		SELECT kind, state, errors FROM %s.jobs UNION ALL SELECT kind, state, errors FROM %s.history) x ORDER BY 1`)
}

// noted is a handler that writes a note in the fixture's transaction, or in the one it is given.
func (f *txFixture) note(ctx context.Context, tx pgx.Tx, note string) error {
	_, err := tx.Exec(ctx, "INSERT INTO public.notes VALUES ($1)", note)
	return err
}

type txJob struct {
	N int `json:"n"`
}

func (txJob) Kind() string { return "in_tx" }

func TestC153_AJobIsWorkedInATransactionThatIsRolledBack(t *testing.T) {
	t.Parallel()
	f := openTx(t)
	listener, err := pgx.Connect(f.ctx, f.db.DirectURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close(context.Background()) })
	channel := migrations.Channel(oddSchema)
	if _, err := listener.Exec(f.ctx, "LISTEN "+pgx.Identifier{channel}.Sanitize()); err != nil {
		t.Fatal(err)
	}

	pgqueue.HandleTx(f.mux, func(ctx context.Context, tx pgx.Tx, job *pgqueue.Job[txJob]) error {
		if job.Args.N == 1 { // a job may lead to another one
			if _, err := f.client.Enqueue(ctx, tx, txJob{N: 1000}); err != nil {
				return err
			}
		}
		return f.note(ctx, tx, fmt.Sprint("handled ", job.Args.N))
	})
	f.mux.HandleFunc("plain", func(ctx context.Context, _ *pgqueue.AnyJob) error { return f.note(ctx, f.tx, "plain") })

	const jobs = 25 // more than the hints that a client sends at once
	for n := range jobs {
		if _, err := f.client.Enqueue(f.ctx, f.tx, txJob{N: n}); err != nil {
			t.Fatal(err)
		}
	}
	f.enqueue("plain")
	result := f.drain()
	if result.Claimed != jobs+2 || result.Outcomes.Succeeded != jobs+2 || result.Outcomes.Total() != jobs+2 {
		t.Errorf("%+v, want %d successes", result, jobs+2)
	}
	states := f.states(f.tx)
	if len(states) != jobs+2 || slices.ContainsFunc(states, func(s string) bool { return !strings.HasSuffix(s, " succeeded") }) {
		t.Errorf("in the transaction: %q", states)
	}
	if notes := f.lines(f.tx, "SELECT note FROM public.notes"); len(notes) != jobs+2 {
		t.Errorf("notes %q", notes)
	}

	if err := f.tx.Rollback(f.ctx); err != nil {
		t.Fatal(err)
	}
	if left := f.states(f.db.Pool); len(left) != 0 {
		t.Errorf("after the rollback there is %q", left)
	}
	if err := f.client.Close(f.ctx); err != nil { // whatever it held back is sent by now
		t.Fatal(err)
	}
	if _, err := f.db.Pool.Exec(f.ctx, "SELECT pg_notify($1, 'the last one')", channel); err != nil {
		t.Fatal(err)
	}
	notification, err := listener.WaitForNotification(f.ctx)
	if err != nil {
		t.Fatal(err)
	}
	if notification.Payload != "the last one" {
		t.Errorf("the listener heard %q of a transaction that was rolled back", notification.Payload)
	}
}

// Every way to end a job, and after each the transaction is as usable as before: it is even committed.
func TestDrainTxWritesEveryEnd(t *testing.T) {
	t.Parallel()
	f := openTx(t)
	broken := errors.New("broken")
	on := func(kind string, handle func(ctx context.Context, job *pgqueue.AnyJob) error) {
		f.mux.HandleFunc(kind, handle)
		f.enqueue(kind)
	}
	abort := func(ctx context.Context) error {
		_, err := f.tx.Exec(ctx, "SELECT 1/0")
		return err
	}
	on("aborted", func(ctx context.Context, _ *pgqueue.AnyJob) error {
		return errors.Join(f.note(ctx, f.tx, "aborted"), abort(ctx))
	})
	on("aborted_dead", func(ctx context.Context, _ *pgqueue.AnyJob) error { return pgqueue.Permanent(abort(ctx)) })
	on("aborted_silently", func(ctx context.Context, _ *pgqueue.AnyJob) error { _ = abort(ctx); return nil })
	on("cancelled", func(context.Context, *pgqueue.AnyJob) error { return pgqueue.Cancel(nil) })
	on("completed", func(ctx context.Context, job *pgqueue.AnyJob) error {
		return errors.Join(f.note(ctx, f.tx, "completed"), job.CompleteTx(ctx, f.tx))
	})
	on("completed_aborted", func(ctx context.Context, job *pgqueue.AnyJob) error {
		err := job.CompleteTx(ctx, f.tx)
		_ = abort(ctx)
		return err
	})
	on("exited", func(ctx context.Context, _ *pgqueue.AnyJob) error { panic(abort(ctx)) })
	on("failed", func(ctx context.Context, _ *pgqueue.AnyJob) error {
		return errors.Join(f.note(ctx, f.tx, "failed"), pgqueue.Coded("no", broken))
	})
	on("snoozed", func(context.Context, *pgqueue.AnyJob) error { return pgqueue.Snooze(time.Hour) })
	on("undone", func(ctx context.Context, job *pgqueue.AnyJob) error {
		inner, err := f.tx.Begin(ctx)
		if err != nil {
			return err
		}
		return errors.Join(f.note(ctx, inner, "undone"), inner.Rollback(ctx))
	})
	pgqueue.HandleTx(f.mux, func(ctx context.Context, tx pgx.Tx, job *pgqueue.Job[txJob]) error {
		if err := f.note(ctx, tx, fmt.Sprint("tx ", job.Args.N)); err != nil || job.Args.N == 0 {
			return err
		}
		return broken
	})
	for n := range 2 {
		if _, err := f.client.Enqueue(f.ctx, f.tx, txJob{N: n}); err != nil {
			t.Fatal(err)
		}
	}
	f.enqueue("in_tx", pgqueue.WithDelay(time.Hour)) // not due
	if _, err := f.client.Enqueue(f.ctx, f.tx, pgqueue.Raw{Name: "in_tx", Payload: []byte(`{"n": "text"}`)}); err != nil {
		t.Fatal(err)
	}

	result := f.drain()
	if o := result.Outcomes; o.Succeeded != 3 || o.Retrying != 7 || o.Failed != 1 || o.Cancelled != 1 || o.Snoozed != 1 || o.Total() != 13 {
		t.Errorf("%+v", result)
	}
	if err := f.tx.Commit(f.ctx); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"aborted pending error", "aborted_dead failed error", "aborted_silently pending tx_aborted", "cancelled cancelled",
		"completed succeeded", "completed_aborted pending tx_aborted", "exited pending panic", "failed pending no",
		"in_tx pending", "in_tx pending error", "in_tx pending undecodable", "in_tx succeeded", "snoozed pending", "undone succeeded",
	}
	if got := f.states(f.db.Pool); !slices.Equal(got, want) {
		t.Errorf("the jobs are\n%q, want\n%q", got, want)
	}
	// A plain handler that fails has written what it has written, as on a pool; one that aborted the transaction has not.
	if got := f.lines(f.db.Pool, "SELECT note FROM public.notes ORDER BY 1"); !slices.Equal(got, []string{"completed", "failed", "tx 0"}) {
		t.Errorf("notes %q", got)
	}
}

// The engine claims ahead and writes beside its handlers; on one connection it must not.
func TestDrainTxDoesOneThingAtATime(t *testing.T) {
	t.Parallel()
	f := openTx(t)
	const jobs = 100
	running := 0 // no lock: the race detector is the witness
	pgqueue.Handle(f.mux, func(ctx context.Context, job *pgqueue.Job[txJob]) error {
		running++
		defer func() { running-- }()
		if running != 1 {
			t.Errorf("%d handlers at a time", running)
		}
		if other := f.lines(f.tx, "SELECT kind FROM %s.jobs WHERE state = 'running'"); len(other) != 1 {
			t.Errorf("job %d runs while %d are claimed", job.ID, len(other))
		}
		for range 5 {
			if _, err := f.tx.Exec(ctx, "SELECT 1"); err != nil {
				t.Errorf("job %d: %v", job.ID, err)
			}
		}
		if job.Args.N%3 == 0 {
			return pgqueue.RetryAfter(time.Hour, errors.New("no")) // not due again in this drain, however slow it is
		}
		return nil
	}, pgqueue.KindWorkers(7), pgqueue.KindDeadline(-1)) // bounds that one worker without renewal cannot have
	f.mux.HandleFunc("other", func(context.Context, *pgqueue.AnyJob) error { return nil })
	for n := range jobs {
		if _, err := f.client.Enqueue(f.ctx, f.tx, txJob{N: n}); err != nil {
			t.Fatal(err)
		}
	}
	if result := f.drain(); result.Claimed != jobs || result.Outcomes.Succeeded != 66 || result.Outcomes.Retrying != 34 {
		t.Errorf("%+v", result)
	}
}

func TestDrainTxGoesBackToAQueueThatWasEmpty(t *testing.T) {
	t.Parallel()
	f := openTx(t)
	f.mux.HandleFunc("first", func(ctx context.Context, job *pgqueue.AnyJob) error {
		_, err := f.client.Enqueue(ctx, f.tx, pgqueue.Raw{Name: "second"}, pgqueue.OnQueue("a"))
		return err
	})
	// Due long before the transaction began, and enqueued behind everything that has been claimed.
	f.mux.HandleFunc("second", func(ctx context.Context, job *pgqueue.AnyJob) error {
		_, err := f.client.Enqueue(ctx, f.tx, pgqueue.Raw{Name: "third"}, pgqueue.WithRunAt(time.Now().Add(-time.Hour)))
		return err
	})
	f.mux.HandleFunc("third", func(context.Context, *pgqueue.AnyJob) error { return nil })
	f.enqueue("first", pgqueue.OnQueue("z"))
	result := f.drain("a", "z")
	if result.Claimed != 3 || result.Queues["a"].Succeeded != 1 || result.Queues["z"].Succeeded != 1 || result.Queues["default"].Succeeded != 1 {
		t.Errorf("%+v", result)
	}
}
