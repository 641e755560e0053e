package pgqueue_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// lastSaid is a mux whose first attempts call first, and whose second ones tell what they find.
func lastSaid(first func(*pgqueue.Job[task]) error) (*pgqueue.Mux, chan string) {
	mux, found := pgqueue.NewMux(), make(chan string, 10)
	pgqueue.Handle(mux, func(ctx context.Context, job *pgqueue.Job[task]) error {
		if job.Attempt == 1 {
			return first(job)
		}
		last, err := job.LastProgress(ctx)
		if err != nil {
			found <- err.Error()
			return nil
		}
		found <- fmt.Sprintf("%s of attempt %d", last.Value, last.Attempt)
		return nil
	})
	return mux, found
}

// What an attempt says last is there for the next one, however soon after a write it ends and however soon the next one begins. What was
// written already is not written again.
func TestTheNextAttemptFindsTheLastProgress(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func() error{
		"failed":  func() error { return pgqueue.RetryAfter(time.Millisecond, errors.New("no")) },
		"snoozed": func() error { return pgqueue.Snooze(time.Millisecond) },
	} {
		db := pgqueuetest.New(t)
		sent := &statements{}
		client := quietClient(t, poolLike(t, db.Pool, func(config *pgxpool.Config) { config.ConnConfig.Tracer = sent }))
		mux, found := lastSaid(func(job *pgqueue.Job[task]) error {
			if err := job.SetProgress(1); err != nil {
				return err
			}
			awaitProgress(t, client, db.Pool, job.ID, "1") // for the next second nothing is written
			if job.Args.N == 0 {
				return end()
			}
			return errors.Join(job.SetProgress(50), end())
		})
		startWorker(t, client, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {Poll: 10 * time.Millisecond}}})
		enqueue(t, client, db.Pool, task{N: 1})
		if got := receive(t, found, "the second attempt"); got != "50 of attempt 1" {
			t.Errorf("%s: the second attempt finds %s", name, got)
		}
		enqueue(t, client, db.Pool, task{})
		before := sent.with(`INTO "pgqueue".job_progress`)
		if got := receive(t, found, "the second attempt"); got != "1 of attempt 1" {
			t.Errorf("%s: the second attempt of one that has said all finds %s", name, got)
		}
		if n := sent.with(`INTO "pgqueue".job_progress`) - before; n > 1 {
			t.Errorf("%s: %d statements for what was written once", name, n)
		}
	}
}

// A write that is under way when the attempt ends is waited for, but not for ever.
func TestAVerdictWaitsForTheProgress(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		storage time.Duration
		gives   bool // the lock back, or else it stays
		want    string
	}{
		"while it is written": {time.Minute, true, "7 of attempt 1"},
		"not for ever":        {time.Second, false, ""},
	} {
		db := pgqueuetest.New(t)
		client := quietClient(t, db.Pool)
		said, end := make(chan struct{}), make(chan struct{})
		mux, found := lastSaid(func(job *pgqueue.Job[task]) error {
			err := job.SetProgress(7)
			said <- struct{}{}
			<-end
			return errors.Join(err, pgqueue.RetryAfter(time.Millisecond, errors.New("no")))
		})
		tx := begin(t, db.Pool, pgx.TxOptions{})
		if _, err := tx.Exec(testContext(t), "LOCK TABLE pgqueue.job_progress IN SHARE MODE"); err != nil {
			t.Fatal(err)
		}
		startWorker(t, client, mux, pgqueue.WorkerConfig{
			Queues: pgqueue.Queues{"default": {Poll: 10 * time.Millisecond}}, StorageTimeout: c.storage,
			Lease: 6 * time.Minute, RenewEvery: 2 * time.Minute,
		})
		enqueue(t, client, db.Pool, task{})
		<-said
		eventually(t, name+": the write waits", func() bool {
			return one[bool](t, db.Pool, `SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 'pgqueue.job_progress'::regclass AND NOT granted)`)
		})
		close(end)
		if c.gives {
			select {
			case got := <-found:
				t.Fatalf("%s: the second attempt has begun before, and finds %s", name, got)
			case <-time.After(300 * time.Millisecond):
			}
			if err := tx.Rollback(testContext(t)); err != nil {
				t.Fatal(err)
			}
		}
		if got := receive(t, found, "the second attempt"); c.want != "" && got != c.want {
			t.Errorf("%s: the second attempt finds %s", name, got)
		}
	}
}
