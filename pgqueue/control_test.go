package pgqueue_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
	"github.com/pgqueue/pgqueue/runner"
)

// failing is a mux whose handler of task fails as often as told, with the safe message "attempt failed".
func failing(mux *pgqueue.Mux, fails func() bool, options ...pgqueue.HandleOption) *pgqueue.Mux {
	pgqueue.Handle(mux, func(_ context.Context, job *pgqueue.Job[task]) error {
		if fails() {
			return pgqueue.Coded("broken", runner.Safef("attempt %d failed", job.Attempt))
		}
		return nil
	}, options...)
	return mux
}

func always() bool { return true }

// rerun drains the queue n times, with what waits made due before each.
func rerun(t *testing.T, db *pgqueuetest.DB, client *pgqueue.Client, mux *pgqueue.Mux, n int) {
	t.Helper()
	for range n {
		exec(t, db.Pool, `UPDATE pgqueue.jobs SET run_at = now() - interval '1 second' WHERE state = 'pending'`)
		drain(t, client, mux, pgqueue.WorkerConfig{ID: "w1"})
	}
}

func get(t testing.TB, client *pgqueue.Client, q pgqueue.Querier, id int64) *pgqueue.JobStatus {
	t.Helper()
	status, err := client.Get(testContext(t), q, id)
	if err != nil {
		t.Fatal(err)
	}
	return status
}

func TestC114_MaxAttemptsChangedAfterwards(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	broken := true
	mux := failing(pgqueue.NewMux(), func() bool { return broken })
	set := func(id int64, n int, want pgqueue.JobState) {
		t.Helper()
		state, err := client.SetMaxAttempts(testContext(t), db.Pool, id, n)
		if err != nil || state != want {
			t.Fatalf("set to %d: %s, %v, want %s", n, state, err, want)
		}
	}

	// Lowered below what has failed: neither hidden nor run again.
	id := enqueue(t, client, db.Pool, task{}, pgqueue.WithMaxAttempts(10)).ID
	rerun(t, db, client, mux, 5)
	if s := get(t, client, db.Pool, id); s.State != pgqueue.JobPending || s.Failures != 5 || s.MaxAttempts != 10 {
		t.Fatalf("after five attempts: %+v", s)
	}
	set(id, 6, pgqueue.JobPending)
	set(id, 3, pgqueue.JobDead)
	if s := get(t, client, db.Pool, id); s.State != pgqueue.JobDead || s.Attempt != 5 || s.FinishedAt.IsZero() {
		t.Fatalf("lowered: %+v", s)
	}

	// Raised on a dead job: a retry runs it, and the fence goes on upward.
	set(id, 20, pgqueue.JobDead)
	if err := client.Retry(testContext(t), db.Pool, id); err != nil {
		t.Fatal(err)
	}
	if s := get(t, client, db.Pool, id); s.State != pgqueue.JobPending || s.Attempt != 5 || s.Failures != 0 || s.MaxAttempts != 20 {
		t.Fatalf("retried: %+v", s)
	}
	rerun(t, db, client, mux, 1)
	broken = false
	rerun(t, db, client, mux, 1)
	if s := get(t, client, db.Pool, id); s.State != pgqueue.JobSucceeded || s.Attempt != 7 || s.ErrorCount != 6 {
		t.Errorf("at the end: %+v", s)
	}

	// The budget is exact: the last attempt that it allows is the last.
	broken = true
	id = enqueue(t, client, db.Pool, task{}, pgqueue.WithMaxAttempts(2)).ID
	rerun(t, db, client, mux, 4)
	if s := get(t, client, db.Pool, id); s.State != pgqueue.JobDead || s.Attempt != 2 || s.Failures != 2 {
		t.Errorf("with two attempts: %+v", s)
	}
	if state, err := client.SetMaxAttempts(testContext(t), db.Pool, 999, 3); !errors.Is(err, pgqueue.ErrNotFound) {
		t.Errorf("no such job: %s, %v", state, err)
	}
	for _, n := range []int{0, -1, 32_768, 1 << 31} {
		_, err := client.SetMaxAttempts(testContext(t), db.Pool, id, n)
		requireInvalid(t, err, "max_attempts")
		_, err = client.Enqueue(testContext(t), db.Pool, task{}, pgqueue.WithMaxAttempts(n))
		requireInvalid(t, err, "max_attempts")
	}
}

// Lowered while it runs: the end of the run decides.
func TestC114_MaxAttemptsLoweredDuringTheRun(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	id := enqueue(t, client, db.Pool, task{}).ID
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(ctx context.Context, job *pgqueue.Job[task]) error {
		state, err := client.SetMaxAttempts(ctx, db.Pool, job.ID, 1)
		if err != nil || state != pgqueue.JobRunning {
			t.Errorf("of a running job: %s, %v", state, err)
		}
		return errors.New("no")
	})
	drain(t, client, mux, pgqueue.WorkerConfig{})
	job(t, db.Pool, id).requireState(t, "dead", 1, 1)
}

// No job that has ended keeps its key, whichever way it ended, and what answers instead of a new job can be looked at.
func TestC107_ADeadJobDoesNotKeepItsKey(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(_ context.Context, job *pgqueue.Job[task]) error {
		switch job.Args.Do {
		case "failed":
			return pgqueue.Permanent(errors.New("no"))
		case "dead":
			return errors.New("no")
		case "cancelled":
			return pgqueue.Cancel(errors.New("no"))
		}
		return nil
	})
	for _, revision := range []bool{false, true} {
		for _, end := range []string{"succeeded", "failed", "dead", "cancelled", "cancelled by hand", "deleted", "crashed"} {
			key := []pgqueue.EnqueueOption{pgqueue.WithKey("K"), pgqueue.WithMaxAttempts(1)}
			if revision {
				key = append(key, pgqueue.WithRevision("r1"))
			}
			first := enqueue(t, client, db.Pool, task{Do: end}, key...)
			requireOutcome(t, first, pgqueue.Inserted)
			switch end {
			case "cancelled by hand":
				if state, err := client.Cancel(testContext(t), db.Pool, first.ID); err != nil || state != pgqueue.JobCancelled {
					t.Fatalf("cancel: %s, %v", state, err)
				}
			case "deleted":
				exec(t, db.Pool, `DELETE FROM pgqueue.jobs`)
			case "crashed":
				abandon(t, db.Pool, first.ID)
				if revision { // the corpse answers until its lease is noticed, and says what it is
					again := enqueue(t, client, db.Pool, task{Do: end}, key...)
					requireOutcome(t, again, pgqueue.Same)
					if s := get(t, client, db.Pool, again.ID); s.State != pgqueue.JobRunning || s.ClaimedBy != "dead" || s.LeaseExpiresAt.IsZero() {
						t.Errorf("the job that is the same: %+v", s)
					}
				}
			}
			drain(t, client, mux, pgqueue.WorkerConfig{}) // reaps first
			want := map[string]string{"cancelled by hand": "cancelled", "crashed": "dead"}[end]
			if want == "" {
				want = end
			}
			if s, err := client.Get(testContext(t), db.Pool, first.ID); end != "deleted" && (err != nil || string(s.State) != want) {
				t.Fatalf("%s: %+v, %v", end, s, err)
			}
			again := enqueue(t, client, db.Pool, task{}, key...)
			requireOutcome(t, again, pgqueue.Inserted)
			drain(t, client, mux, pgqueue.WorkerConfig{})
			job(t, db.Pool, again.ID).requireState(t, "succeeded", 1, 0)
		}
	}
}

func TestRetry(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	mux := failing(pgqueue.NewMux(), always)
	old := enqueue(t, client, db.Pool, task{N: 1}, pgqueue.WithKey("K"), pgqueue.WithMaxAttempts(1)).ID
	drain(t, client, mux, pgqueue.WorkerConfig{})
	newer := enqueue(t, client, db.Pool, task{N: 2}, pgqueue.WithKey("K"), pgqueue.WithDelay(time.Hour)).ID

	// A refusal changes nothing and leaves the transaction usable.
	tx := begin(t, db.Pool, pgx.TxOptions{})
	var taken *pgqueue.KeyTakenError
	if err := client.Retry(testContext(t), tx, old); !errors.As(err, &taken) || taken.ID != old || taken.Other != newer {
		t.Fatalf("retry beside a live job: %v", err)
	}
	if err := client.Retry(testContext(t), tx, newer); !errors.Is(err, pgqueue.ErrJobLive) {
		t.Errorf("retry of a live job: %v", err)
	}
	if err := client.Retry(testContext(t), tx, 999); !errors.Is(err, pgqueue.ErrNotFound) {
		t.Errorf("retry of no job: %v", err)
	}
	if state, err := client.Cancel(testContext(t), tx, newer); err != nil || state != pgqueue.JobCancelled {
		t.Fatalf("cancel: %s, %v", state, err)
	}
	if _, err := client.Cancel(testContext(t), tx, newer); !errors.Is(err, pgqueue.ErrNotFound) {
		t.Errorf("a second cancel: %v", err)
	}
	if err := client.Retry(testContext(t), tx, old); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(testContext(t)); err != nil {
		t.Fatal(err)
	}
	for _, state := range []pgqueue.JobState{pgqueue.JobCancelled} {
		if err := client.Retry(testContext(t), db.Pool, newer); !errors.Is(err, pgqueue.ErrNotFound) {
			t.Errorf("retry of a %s job: %v", state, err)
		}
	}
	s := get(t, client, db.Pool, old)
	if s.State != pgqueue.JobPending || s.Key != "K" || s.Attempt != 1 || s.Failures != 0 || s.ErrorCount != 1 || string(s.Payload) != `{"n": 1}` {
		t.Errorf("the retried job: %+v", s)
	}
}

// Ten failed attempts are kept, and more are counted, live and finished, across retries.
func TestGetShowsTheLastFailedAttempts(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	mux := failing(pgqueue.NewMux(), always)
	id := enqueue(t, client, db.Pool, task{N: 7}, pgqueue.WithMaxAttempts(12), pgqueue.WithTags("a", "b"), pgqueue.WithPriority(3)).ID
	check := func(state pgqueue.JobState, attempts, kept int) {
		t.Helper()
		s := get(t, client, db.Pool, id)
		if s.State != state || s.Attempt != attempts || s.ErrorCount != attempts || len(s.Failed) != kept || s.State.Live() != s.FinishedAt.IsZero() {
			t.Fatalf("want %s with %d of %d errors: %+v", state, kept, attempts, s)
		}
		for i, failed := range s.Failed {
			if failed.Attempt != attempts-kept+1+i || failed.Code != "broken" || !strings.HasSuffix(failed.Message, "failed") ||
				failed.By != "w1" || failed.At.Before(s.CreatedAt) {
				t.Errorf("attempt %d of %d: %+v", i, kept, failed)
			}
		}
		if s.Kind != "task" || s.Queue != "default" || s.Priority != 3 || len(s.Tags) != 2 || string(s.Payload) != `{"n": 7}` {
			t.Errorf("what it was enqueued with: %+v", s)
		}
	}
	check(pgqueue.JobPending, 0, 0)
	rerun(t, db, client, mux, 3)
	check(pgqueue.JobPending, 3, 3)
	rerun(t, db, client, mux, 8)
	check(pgqueue.JobPending, 11, 10)
	rerun(t, db, client, mux, 1)
	check(pgqueue.JobDead, 12, 10)
	if err := client.Retry(testContext(t), db.Pool, id); err != nil {
		t.Fatal(err)
	}
	rerun(t, db, client, mux, 1)
	check(pgqueue.JobPending, 13, 10)
	if _, err := client.Get(testContext(t), db.Pool, 999); !errors.Is(err, pgqueue.ErrNotFound) {
		t.Errorf("no such job: %v", err)
	}
	_, err := client.Get(testContext(t), nil, 1)
	requireInvalid(t, err, "querier")
}

// A running job is asked to stop.
func TestCancelOfARunningJob(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	began := make(chan struct{})
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(ctx context.Context, _ *pgqueue.Job[task]) error {
		close(began)
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), runner.ErrCancelled) {
			t.Errorf("the context ended with %v", context.Cause(ctx))
		}
		return ctx.Err()
	})
	id := enqueue(t, client, db.Pool, task{}).ID
	startWorker(t, client, mux, pgqueue.WorkerConfig{
		Queues: pgqueue.Queues{"default": {}}, Lease: 9 * time.Second, RenewEvery: 100 * time.Millisecond,
	})
	receive(t, began, "the handler")
	if state, err := client.Cancel(testContext(t), db.Pool, id); err != nil || state != pgqueue.JobRunning {
		t.Fatalf("cancel: %s, %v", state, err)
	}
	awaitState(t, db.Pool, id, "cancelled")
}
