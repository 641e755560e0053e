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

// One job is worked, wherever it stands in the line, and nothing else is.
func TestWorkTxWorksOneJob(t *testing.T) {
	t.Parallel()
	db := New(t)
	client, tx := db.Client(t), begin(t, db)
	mux := pgqueue.NewMux()
	var ran []int64
	pgqueue.HandleResult(mux, func(ctx context.Context, job *pgqueue.Job[welcome]) (int64, error) {
		ran = append(ran, job.Args.UserID)
		_, err := client.Enqueue(ctx, tx, welcome{UserID: 100 + job.Args.UserID})
		return job.Args.UserID, err
	})
	var ids []int64
	for n := range int64(5) {
		ids = append(ids, enqueue(t, client, tx, welcome{UserID: n}, pgqueue.WithPriority(1+int(n)%4)))
	}
	scheduled := enqueue(t, client, tx, welcome{UserID: 5}, pgqueue.WithDelay(time.Hour))
	for _, c := range []struct {
		id, user int64
	}{{ids[3], 3}, {scheduled, 5}, {ids[0], 0}, {ids[4], 4}} {
		ran = nil
		worked := WorkTx(t, tx, client, mux, c.id)
		if len(ran) != 1 || ran[0] != c.user || worked.Job.ID != c.id || worked.Outcome != runner.Succeeded || worked.Err != nil {
			t.Fatalf("job %d: ran %v, %+v", c.id, ran, worked)
		}
		if worked.After == nil || worked.After.State != pgqueue.JobSucceeded || string(worked.After.Result) == "" {
			t.Errorf("afterwards %+v", worked.After)
		}
	}
	if left := Enqueued[welcome](t, tx); len(left) != 2+4 {
		t.Errorf("%d are left, want the two and the four new ones", len(left))
	}
	if _, err := client.Get(t.Context(), db.Pool, ids[3]); !errors.Is(err, pgqueue.ErrNotFound) {
		t.Errorf("outside of the transaction: %v", err)
	}
}

// What a handler returns, and how it settles the job, is in the answer.
func TestWorkTxTellsWhatBecame(t *testing.T) {
	t.Parallel()
	db := New(t)
	client, tx := db.Client(t), begin(t, db)
	broken := errors.New("broken")
	var answer error
	mux := pgqueue.NewMux()
	pgqueue.HandleTx(mux, func(ctx context.Context, tx pgx.Tx, _ *pgqueue.Job[welcome]) error {
		if _, err := tx.Exec(ctx, "CREATE TABLE IF NOT EXISTS t (n int)"); err != nil {
			return err
		}
		if answer == nil {
			return nil
		}
		return answer
	})
	pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[goodbye]) error { panic("late") })
	for _, c := range []struct {
		answer  error
		outcome runner.Outcome
		state   pgqueue.JobState
	}{
		{nil, runner.Succeeded, pgqueue.JobSucceeded},
		{pgqueue.Coded("b", broken), runner.Retrying, pgqueue.JobPending},
		{pgqueue.Permanent(pgqueue.Coded("b", broken)), runner.Failed, pgqueue.JobFailed},
		{pgqueue.Snooze(time.Hour), runner.Snoozed, pgqueue.JobPending},
		{pgqueue.Cancel(broken), runner.Cancelled, pgqueue.JobCancelled},
	} {
		answer = c.answer
		worked := WorkArgsTx(t, tx, client, mux, welcome{})
		if worked.Outcome != c.outcome || worked.After.State != c.state {
			t.Errorf("%v: %v, then %v", c.answer, worked.Outcome, worked.After.State)
		}
		if errors.Is(c.answer, broken) != errors.Is(worked.Err, broken) {
			t.Errorf("%v: the error is %v", c.answer, worked.Err)
		}
		if c.outcome == runner.Retrying && (worked.Code != "b" || worked.Delay <= 0 || len(worked.After.Failed) != 1) {
			t.Errorf("%+v", worked)
		}
	}
	if worked := WorkArgsTx(t, tx, client, mux, goodbye{}, pgqueue.WithMaxAttempts(1)); worked.Outcome != runner.Dead || worked.Code != "panic" ||
		worked.Err == nil {
		t.Errorf("%+v", worked)
	}
}

// What cannot be worked ends the test with the reason, and leaves the transaction as it was.
func TestWorkTxSaysWhyNot(t *testing.T) {
	t.Parallel()
	db := New(t)
	client, tx := db.Client(t), begin(t, db)
	mux, ran := counting()
	paused := enqueue(t, client, tx, welcome{}, pgqueue.OnQueue("mail"))
	next := enqueue(t, client, tx, welcome{}, pgqueue.OnQueue("mail"))
	later := enqueue(t, client, tx, welcome{}, pgqueue.OnQueue("mail"), pgqueue.WithDelay(time.Hour))
	if err := client.PauseQueue(t.Context(), tx, "mail", "closed"); err != nil {
		t.Fatal(err)
	}
	done := enqueue(t, client, tx, welcome{})
	WorkTx(t, tx, client, mux, done)
	<-ran
	strange := enqueue(t, client, tx, goodbye{})
	behind := enqueue(t, client, tx, welcome{}) // which a claim from there would find
	if err := client.PauseKind(t.Context(), tx, pgqueue.KindPause{Kind: "welcome", Queue: "default"}); err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		id   int64
		word string
	}{
		"kind":       {behind, `does not run, because kind "welcome" is paused`},
		"paused":     {paused, "does not run, because the queue is paused"},
		"later":      {later, "paused"},
		"ended":      {done, "succeeded"},
		"no handler": {strange, `no handler for its kind "goodbye"`},
		"none":       {done + 1000, "there is no such job"},
	} {
		text := message(t, func(t testing.TB) { WorkTx(t, tx, client, mux, c.id) })
		if !strings.Contains(text, c.word) {
			t.Errorf("%s: %q does not say %q", what, text, c.word)
		}
	}
	for _, job := range Enqueued[welcome](t, tx) {
		if job.State != "pending" || job.Attempt != 0 || job.Due != (job.ID != later) {
			t.Errorf("what was not worked is changed: %+v", job)
		}
	}
	if len(ran) != 0 {
		t.Errorf("%d others were worked, such as %d", len(ran), behind)
	}
	if err := client.ResumeQueue(t.Context(), tx, "mail"); err != nil {
		t.Fatal(err)
	}
	if worked := WorkTx(t, tx, client, mux, next); worked.Job.Attempt != 1 || worked.Outcome != runner.Succeeded || <-ran != next {
		t.Errorf("%+v", worked)
	}

	// A committed job that somebody else has locked.
	locked := enqueue(t, client, db.Pool, welcome{})
	other := begin(t, db)
	if _, err := other.Exec(t.Context(), "SELECT FROM pgqueue.jobs WHERE id = $1 FOR UPDATE", locked); err != nil {
		t.Fatal(err)
	}
	if text := message(t, func(t testing.TB) { WorkTx(t, tx, client, mux, locked) }); !strings.Contains(text, "lock") {
		t.Errorf("locked: %q", text)
	}
}
