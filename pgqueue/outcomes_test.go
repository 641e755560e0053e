package pgqueue_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
	"github.com/pgqueue/pgqueue/runner"
)

// customError is an error of the application's.
type customError struct{ secret string }

func (e customError) Error() string { return "about " + e.secret }

// What a handler returns decides what SQL shows afterwards.
func TestOutcomesAsRows(t *testing.T) {
	t.Parallel()
	secret := customError{"ada@example.com"}
	tests := []struct {
		name           string
		err            error
		maxAttempts    int
		state          string
		failures       int
		dueMin, dueMax float64 // seconds, of a pending one
		code, message  string  // empty code: no error is stored
	}{
		{name: "nil", state: "succeeded"},
		{name: "plain", err: secret, state: "pending", failures: 1, dueMax: 2, code: "error", message: "pgqueue_test.customError"},
		{name: "wrapped", err: fmt.Errorf("send: %w", secret), state: "pending", failures: 1, dueMax: 2, code: "error", message: "pgqueue_test.customError"},
		{name: "budget spent", err: secret, maxAttempts: 1, state: "dead", failures: 1, code: "error", message: "pgqueue_test.customError"},
		{name: "coded", err: pgqueue.Coded("bounced", secret), state: "pending", failures: 1, dueMax: 2, code: "bounced", message: "pgqueue_test.customError"},
		{name: "safe", err: fmt.Errorf("with %s: %w", secret.secret, runner.Safef("mailbox is full")), state: "pending", failures: 1, dueMax: 2,
			code: "error", message: "mailbox is full"},
		{name: "permanent", err: pgqueue.Permanent(pgqueue.Coded("bounced", secret)), state: "failed", failures: 1, code: "bounced", message: "pgqueue_test.customError"},
		{name: "permanent nil", err: pgqueue.Permanent(nil), state: "succeeded"},
		{name: "retry after", err: pgqueue.RetryAfter(time.Hour, secret), state: "pending", failures: 1, dueMin: 3500, dueMax: 3601,
			code: "error", message: "pgqueue_test.customError"},
		{name: "retry after at the end", err: pgqueue.RetryAfter(time.Hour, secret), maxAttempts: 1, state: "dead", failures: 1,
			code: "error", message: "pgqueue_test.customError"},
		{name: "snooze", err: pgqueue.Snooze(time.Hour), maxAttempts: 1, state: "pending", dueMin: 3500, dueMax: 3601},
		{name: "snooze beyond reason", err: pgqueue.Snooze(1<<63 - 1), state: "pending", dueMin: 3e8, dueMax: 4e8},
		{name: "cancel", err: pgqueue.Cancel(pgqueue.Coded("unsubscribed", secret)), state: "cancelled", code: "unsubscribed", message: "pgqueue_test.customError"},
		{name: "cancel nil", err: pgqueue.Cancel(nil), state: "cancelled"},
		{name: "wrapped decision", err: fmt.Errorf("outer: %w", pgqueue.Permanent(secret)), state: "failed", failures: 1, code: "error", message: "pgqueue_test.customError"},
		{name: "bad text", err: pgqueue.Coded("a\x00\xff"+strings.Repeat("c", 100), runner.Safef("m\x00\xff%s", strings.Repeat("m", 5000))), state: "pending",
			failures: 1, dueMax: 2, code: "a��" + strings.Repeat("c", 57), message: "m��" + strings.Repeat("m", 2041)},
	}
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(_ context.Context, job *pgqueue.Job[task]) error { return tests[job.Args.N].err })
	ids := make([]int64, len(tests))
	for i, test := range tests {
		options := []pgqueue.EnqueueOption{}
		if test.maxAttempts > 0 {
			options = append(options, pgqueue.WithMaxAttempts(test.maxAttempts))
		}
		ids[i] = enqueue(t, client, db.Pool, task{N: i}, options...).ID
	}
	before := one[time.Time](t, db.Pool, "SELECT clock_timestamp()")
	drain(t, client, mux, pgqueue.WorkerConfig{ID: "the worker", Queues: pgqueue.Queues{"default": {Backoff: runner.DefaultBackoff()}}})
	after := one[time.Time](t, db.Pool, "SELECT clock_timestamp()")
	for i, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := job(t, db.Pool, ids[i])
			s.requireState(t, test.state, 1, test.failures)
			if s.State == "pending" && (s.DueIn < test.dueMin-after.Sub(before).Seconds() || s.DueIn > test.dueMax) {
				t.Errorf("due in %.1f s, want %.0f to %.0f", s.DueIn, test.dueMin, test.dueMax)
			}
			if test.code == "" {
				if len(s.Errors) != 0 || s.ErrorCount != 0 {
					t.Errorf("errors %+v (%d), want none", s.Errors, s.ErrorCount)
				}
				return
			}
			if len(s.Errors) != 1 || s.ErrorCount != 1 {
				t.Fatalf("errors %+v (%d), want one", s.Errors, s.ErrorCount)
			}
			e := s.Errors[0]
			if e.Code != test.code || e.Message != test.message || e.Attempt != 1 || e.By != "the worker" {
				t.Errorf("error %+v, want %q, %q, attempt 1, the worker", e, test.code, test.message)
			}
			if e.At.Before(before.Add(-time.Second)) || e.At.After(after.Add(time.Second)) {
				t.Errorf("error at %v, want from %v to %v", e.At, before, after)
			}
		})
	}
	if n := one[int](t, db.Pool, `SELECT count(*) FROM (SELECT errors FROM pgqueue.jobs UNION ALL SELECT errors FROM pgqueue.history) e
		WHERE errors::text LIKE '%ada@%'`); n != 0 {
		t.Errorf("%d jobs have stored what nobody marked as safe", n)
	}
}

func TestStoreErrorText(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(_ context.Context, job *pgqueue.Job[task]) error {
		if job.Args.Do == "panic" {
			panic(customError{"the panic"})
		}
		return fmt.Errorf("send: %w", customError{"ada@example.com"})
	})
	plain := enqueue(t, client, db.Pool, task{}).ID
	panics := enqueue(t, client, db.Pool, task{Do: "panic"}).ID
	drain(t, client, mux, pgqueue.WorkerConfig{StoreErrorText: true})
	if s := job(t, db.Pool, plain); len(s.Errors) != 1 || s.Errors[0].Message != "send: about ada@example.com" {
		t.Errorf("errors %+v, want the full text", s.Errors)
	}
	if s := job(t, db.Pool, panics); len(s.Errors) != 1 || !strings.HasSuffix(s.Errors[0].Message, ": about the panic") {
		t.Errorf("errors %+v, want the full text", s.Errors)
	}
}

// Pause stops the claims of one queue in this process; nobody's budget is touched.
func TestPauseStopsTheQueue(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	ran := make(chan string, 100)
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(_ context.Context, job *pgqueue.Job[task]) error {
		ran <- job.Queue
		if job.Args.Do == "pause" {
			return pgqueue.Pause(time.Hour)
		}
		return nil
	})
	pausing := enqueue(t, client, db.Pool, task{Do: "pause"}, pgqueue.WithMaxAttempts(1)).ID
	var waiting []int64
	for i := range 5 {
		waiting = append(waiting, enqueue(t, client, db.Pool, task{N: i}).ID)
	}
	worker := startWorker(t, client, mux, pgqueue.WorkerConfig{
		Queues: pgqueue.Queues{"default": {Workers: 1, Batch: 1}, "second": {}},
	})
	receive(t, ran, "the job that pauses")
	s := awaitState(t, db.Pool, pausing, "pending")
	s.requireState(t, "pending", 1, 0)
	if s.DueIn < 3000 {
		t.Errorf("the job that paused is due in %.0f s, want an hour", s.DueIn)
	}
	until := worker.Status().Queues["default"].PausedUntil
	if left := time.Until(until); left < 50*time.Minute || left > time.Hour {
		t.Errorf("paused until %v, want an hour from now", until)
	}
	// It hears hints and claims nothing; the other queue works.
	claimed, hints := worker.Status().Queues["default"].Claimed, worker.Status().Queues["default"].Hints
	eventually(t, "the paused queue hears a hint", func() bool {
		enqueue(t, client, db.Pool, task{N: 99})
		return worker.Status().Queues["default"].Hints > hints
	})
	enqueue(t, client, db.Pool, task{}, pgqueue.OnQueue("second"))
	if queue := receive(t, ran, "the other queue's job"); queue != "second" {
		t.Errorf("a job of queue %s ran during its pause", queue)
	}
	if n := worker.Status().Queues["default"].Claimed; n > claimed+1 { // one claim may have been under way
		t.Errorf("%d jobs were claimed during the pause", n-claimed)
	}
	for _, id := range waiting {
		s := job(t, db.Pool, id)
		s.requireState(t, "pending", s.Attempt, 0)
		if len(s.Errors) > 0 {
			t.Errorf("a waiting job has errors: %+v", s.Errors)
		}
	}
}

// A drain does not go round a pause: it ends.
func TestPauseEndsADrain(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	mux := pgqueue.NewMux()
	ran := 0 // one job at a time
	pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[task]) error {
		ran++
		return pgqueue.Pause(time.Hour)
	})
	for i := range 5 {
		enqueue(t, client, db.Pool, task{N: i})
	}
	result := drain(t, client, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {Workers: 1}}})
	if ran != 1 || result.Outcomes.Snoozed != 1 {
		t.Errorf("%d jobs ran in a queue that the first had paused; outcomes %+v", ran, result.Outcomes)
	}
	if n := one[int](t, db.Pool, "SELECT count(*) FROM pgqueue.jobs WHERE state = 'pending' AND run_at <= now() AND failures = 0"); n != 4 {
		t.Errorf("%d jobs are ready, want 4", n)
	}
}

// An attempt that fails while its worker stops is no failure of the job's.
func TestAStoppedAttemptSpendsNothing(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	began := make(chan struct{}, 1)
	causes := make(chan error, 1)
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(ctx context.Context, _ *pgqueue.Job[task]) error {
		began <- struct{}{}
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return ctx.Err()
	})
	id := enqueue(t, client, db.Pool, task{}, pgqueue.WithMaxAttempts(1)).ID
	worker := startWorker(t, client, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {}}, StopTimeout: -1})
	receive(t, began, "the handler")
	if err := worker.end(t); err != nil {
		t.Fatal(err)
	}
	if cause := receive(t, causes, "the end of the context"); !errors.Is(cause, runner.ErrStopping) {
		t.Errorf("the context ended with %v, want ErrStopping", cause)
	}
	s := job(t, db.Pool, id)
	s.requireState(t, "pending", s.Attempt, 0) // a claim that was under way may have taken it once more, and given it back
	if len(s.Errors) > 0 || s.DueIn > 0 {
		t.Errorf("errors %+v, due in %.1f s; want none, now", s.Errors, s.DueIn)
	}
}
