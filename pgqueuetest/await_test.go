package pgqueuetest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/runner"
)

func workerConfig(db *DB) pgqueue.WorkerConfig {
	return pgqueue.WorkerConfig{
		Queues:       pgqueue.Queues{pgqueue.DefaultQueue: {}},
		ListenerConn: func(ctx context.Context) (*pgx.Conn, error) { return pgx.Connect(ctx, db.DirectURL) },
	}
}

func TestAwaitReturnsTheEndOfAJob(t *testing.T) {
	t.Parallel()
	db := New(t)
	client := db.Client(t)
	mux := pgqueue.NewMux()
	pgqueue.HandleResult(mux, func(_ context.Context, job *pgqueue.Job[welcome]) (string, error) {
		if job.Args.Name == "" {
			return "", pgqueue.Permanent(errors.New("no name"))
		}
		return "hello " + job.Args.Name, nil
	})
	startWorker(t, client, mux, workerConfig(db))
	job := Await(t, client, enqueue(t, client, db.Pool, welcome{Name: "Ada"}))
	if job.State != pgqueue.JobSucceeded || string(job.Result) != `"hello Ada"` {
		t.Errorf("%+v", job)
	}
	if job := Await(t, client, enqueue(t, client, db.Pool, welcome{})); job.State != pgqueue.JobFailed {
		t.Errorf("%+v", job)
	}
}

// A wait in vain says what is known about the job.
func TestAwaitSaysWhyNot(t *testing.T) {
	t.Parallel()
	db := New(t)
	client := db.Client(t)
	id := enqueue(t, client, db.Pool, welcome{}, pgqueue.WithDelay(time.Hour))
	text := message(t, func(t testing.TB) { awaitFor(t, client, id, 50*time.Millisecond) })
	for _, word := range []string{"has not ended within 50ms", `kind "welcome" of queue "default" is pending`, "why it is not running:", "due"} {
		if !strings.Contains(text, word) {
			t.Errorf("%q does not say %q", text, word)
		}
	}
	if text := message(t, func(t testing.TB) { Await(t, client, id+1000) }); !strings.Contains(text, "not found") && !strings.Contains(text, "no such job") {
		t.Errorf("of a job that is not there: %q", text)
	}
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[welcome]) error {
		return pgqueue.RetryAfter(time.Hour, pgqueue.Coded("broken", errors.New("it is broken")))
	})
	id = enqueue(t, client, db.Pool, welcome{})
	Drain(t, client, mux)
	text = message(t, func(t testing.TB) { awaitFor(t, client, id, 50*time.Millisecond) })
	if !strings.Contains(text, "attempt 1 failed with broken") {
		t.Errorf("%q does not tell of the failed attempt", text)
	}
}

func TestWaitForFindsTheEvent(t *testing.T) {
	t.Parallel()
	db := New(t)
	client := db.Client(t)
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(_ context.Context, job *pgqueue.Job[welcome]) error {
		if job.Args.Name == "" {
			return pgqueue.Permanent(pgqueue.Coded("no_name", errors.New("no name")))
		}
		return nil
	})
	sub := startWorker(t, client, mux, workerConfig(db))
	ada, nobody := enqueue(t, client, db.Pool, welcome{Name: "Ada"}), enqueue(t, client, db.Pool, welcome{})
	event := WaitFor(t, sub, func(e pgqueue.Event) bool { return e.Job.ID == nobody })
	if event.Outcome != runner.Failed || event.Code != "no_name" {
		t.Errorf("%+v", event)
	}
	third := enqueue(t, client, db.Pool, welcome{Name: "Grace"})
	text := message(t, func(t testing.TB) {
		seen := false
		waitFor(t, sub, func(e pgqueue.Event) bool { seen = seen || e.Job.ID == third; return false }, time.Second)
	})
	if !strings.Contains(text, "has not come within 1s") {
		t.Errorf("in vain: %q", text)
	}
	_ = ada
	sub.Close()
	text = message(t, func(t testing.TB) { WaitFor(t, sub, func(pgqueue.Event) bool { return true }) })
	if !strings.Contains(text, "the subscription has ended without the event: none came") {
		t.Errorf("after the end: %q", text)
	}
}

// A call that forgot something says what.
func TestHelpersWithoutTheirArguments(t *testing.T) {
	t.Parallel()
	for want, call := range map[string]func(testing.TB){
		"db must not be nil":     func(t testing.TB) { NewClock(t, nil) },
		"sub must not be nil":    func(t testing.TB) { WaitFor(t, nil, func(pgqueue.Event) bool { return true }) },
		"match must not be nil":  func(t testing.TB) { WaitFor(t, &pgqueue.Subscription{}, nil) },
		"client must not be nil": func(t testing.TB) { Await(t, nil, 1) },
	} {
		if text := message(t, call); !strings.Contains(text, want) {
			t.Errorf("%q, want %q", text, want)
		}
	}
}

// The message of a wait in vain lists what came instead, the latest ones, and what was missed.
func TestWaitForListsWhatCame(t *testing.T) {
	t.Parallel()
	var events []pgqueue.Event
	for n := range shownEvents {
		events = append(events, pgqueue.Event{Job: pgqueue.JobInfo{ID: int64(n), Kind: "k", Queue: "q", Attempt: 2}, Outcome: runner.Dead, Code: "c", Message: "m"})
	}
	text := describeEvents(events, 12, 3)
	for _, word := range []string{"12 others came", "3 were missed", `job 9, kind "k" of queue "q", attempt 2: dead (c: m)`} {
		if !strings.Contains(text, word) {
			t.Errorf("%q does not say %q", text, word)
		}
	}
}

// deadlined is a test with a deadline of its own.
type deadlined struct {
	testing.TB
	at time.Time
}

func (d deadlined) Deadline() (time.Time, bool) { return d.at, !d.at.IsZero() }

func TestPatienceEndsBeforeTheTest(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		left      time.Duration
		low, high time.Duration
	}{{0, awaitTimeout, awaitTimeout}, {time.Hour, awaitTimeout, awaitTimeout}, {12 * time.Second, 5 * time.Second, 10 * time.Second}, {time.Second, 0, time.Second}} {
		d := deadlined{TB: t}
		if c.left > 0 {
			d.at = time.Now().Add(c.left)
		}
		if got := patienceOf(d); got < c.low || got > c.high || got <= 0 {
			t.Errorf("with %v left: %v", c.left, got)
		}
	}
}
