package pgqueue_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

func inspect(t testing.TB, inspector *pgqueue.Inspector, id int64) *pgqueue.JobDetail {
	t.Helper()
	job, err := inspector.Get(testContext(t), id)
	if err != nil {
		t.Fatal(err)
	}
	return job
}

// outline is what attempts say, without their times.
func outline(job *pgqueue.JobDetail) string {
	var lines []string
	for _, a := range job.Attempts {
		lines = append(lines, fmt.Sprintf("%d %s %s by %s", a.Number, a.State, a.Code, a.Worker))
	}
	return strings.Join(lines, ", ")
}

// Attempts are put together from the errors, the open claim and the end of the job.
func TestAttempts(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	inspector := newInspector(t, db.Pool)
	began := one[time.Time](t, db.Pool, `SELECT now()`)
	fails := 2
	mux := failing(pgqueue.NewMux(), func() bool { fails--; return fails >= 0 })
	id := enqueue(t, client, db.Pool, task{N: 1}).ID
	if got := inspect(t, inspector, id); len(got.Attempts) != 0 || got.State != pgqueue.JobPending {
		t.Errorf("before the first: %s", outline(got))
	}
	rerun(t, db, client, mux, 2)
	abandon(t, db.Pool, id)
	got := inspect(t, inspector, id)
	if want := "1 failed broken by w1, 2 failed broken by w1, 3 running  by dead"; outline(got) != want {
		t.Errorf("while it runs: %s, want %s", outline(got), want)
	}
	for _, a := range got.Attempts[:2] {
		if a.Message != fmt.Sprintf("attempt %d failed", a.Number) || a.EndedAt.Before(began) || a.StartedAt.After(a.EndedAt) || a.StartedAt.Before(began) {
			t.Errorf("attempt %+v, not before %s", a, began)
		}
	}
	if last := got.Attempts[2]; last.StartedAt.IsZero() || !last.EndedAt.IsZero() {
		t.Errorf("the running one: %+v", last)
	}
	// The reaper takes it back, it runs again, and succeeds.
	exec(t, db.Pool, `UPDATE pgqueue.jobs SET max_attempts = 9`)
	rerun(t, db, client, mux, 2)
	got = inspect(t, inspector, id)
	if want := "1 failed broken by w1, 2 failed broken by w1, 3 failed lease_expired by dead, 4 succeeded  by w1"; outline(got) != want || got.State != pgqueue.JobSucceeded {
		t.Errorf("in the end: %s, want %s", outline(got), want)
	}
	if last := got.Attempts[3]; last.StartedAt.IsZero() || last.EndedAt.Before(last.StartedAt) {
		t.Errorf("the last one: %+v", last)
	}
	// One that a human cancelled before it ever ran has none.
	id = enqueue(t, client, db.Pool, task{N: 2}).ID
	if _, err := inspector.Cancel(testContext(t), id); err != nil {
		t.Fatal(err)
	}
	if got = inspect(t, inspector, id); outline(got) != "" || got.State != pgqueue.JobCancelled {
		t.Errorf("cancelled: %s", outline(got))
	}
	if _, err := inspector.Get(testContext(t), 1<<40); !errors.Is(err, pgqueue.ErrNotFound) {
		t.Errorf("of no job: %v", err)
	}
	if _, err := inspector.Peek(testContext(t), 1<<40, 10); !errors.Is(err, pgqueue.ErrNotFound) {
		t.Errorf("peek at no job: %v", err)
	}
}

// The digits that were enqueued are those that are shown, also after a retry, and those that a filter finds.
func TestC10_DigitsInTheInspector(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	inspector := newInspector(t, db.Pool)
	const payload = `{"n": 12345678901234567890, "id": 9007199254740993}`
	id := enqueue(t, client, db.Pool, rawJob(payload)).ID
	near := enqueue(t, client, db.Pool, rawJob(`{"n": 12345678901234567890, "id": 9007199254740992}`)).ID
	check := func(when string) {
		t.Helper()
		stored := one[string](t, db.Pool, `SELECT payload::text FROM (SELECT id, payload FROM pgqueue.jobs UNION ALL SELECT id, payload FROM pgqueue.history) x WHERE id = $1`, id)
		if !strings.Contains(stored, "9007199254740993") || !strings.Contains(stored, "12345678901234567890") {
			t.Errorf("%s, stored: %s", when, stored)
		}
		if got := string(inspect(t, inspector, id).Payload); got != stored {
			t.Errorf("%s, get: %s, stored is %s", when, got, stored)
		}
		if peek, err := inspector.Peek(testContext(t), id, 1000); err != nil || string(peek.Payload) != stored {
			t.Errorf("%s, peek: %s, %v", when, peek.Payload, err)
		}
		page := list(t, inspector, pgqueue.Filter{Payload: json.RawMessage(`{"id": 9007199254740993}`)}, pgqueue.ListOptions{})
		if len(page.Jobs) != 1 || page.Jobs[0].ID != id || page.Jobs[0].Payload.Text != stored {
			t.Errorf("%s, list: %+v (the other is %d)", when, page.Jobs, near)
		}
	}
	check("pending")
	exec(t, db.Pool, `SELECT pgqueue.set_max_attempts($1, 1)`, id)
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[greet]) error { return errors.New("no") })
	drain(t, client, mux, pgqueue.WorkerConfig{})
	if s := inspect(t, inspector, id); s.State != pgqueue.JobDead {
		t.Fatalf("state %s", s.State)
	}
	check("dead")
	if err := inspector.Retry(testContext(t), id); err != nil {
		t.Fatal(err)
	}
	check("retried")
}

// A role that may only read, in sessions that may only read, reads everything.
func TestTheInspectorOfAViewer(t *testing.T) {
	t.Parallel()
	db, as := documentedRoles(t)
	zoo(t, db.Pool, 100)
	exec(t, db.Pool, `CREATE ROLE viewer LOGIN IN ROLE pgqueue_viewer`)
	viewer := newInspector(t, poolLike(t, as("viewer"), func(config *pgxpool.Config) {
		config.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on"
	}))
	ctx := testContext(t)
	for name, read := range map[string]func() error{
		"get":       func() error { _, err := viewer.Get(ctx, 1); return err },
		"peek":      func() error { _, err := viewer.Peek(ctx, 1, 10); return err },
		"list":      func() error { _, err := viewer.List(ctx, pgqueue.Filter{}, pgqueue.ListOptions{}); return err },
		"counts":    func() error { _, err := viewer.Counts(ctx, pgqueue.Filter{}); return err },
		"attention": func() error { _, err := viewer.Attention(ctx, pgqueue.Filter{}); return err },
		"queues":    func() error { _, err := viewer.Queues(ctx); return err },
		"workers":   func() error { _, err := viewer.Workers(ctx); return err },
		"why":       func() error { _, err := viewer.WhyNotRunning(ctx, 5); return err },
		"dry run": func() error {
			_, err := viewer.Purge(ctx, pgqueue.Filter{}, pgqueue.BulkOptions{DryRun: true})
			return err
		},
	} {
		if err := read(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, act := range map[string]func() error{
		"retry":  func() error { return viewer.Retry(ctx, 4) },
		"cancel": func() error { _, err := viewer.Cancel(ctx, 1); return err },
		"delete": func() error { return viewer.Delete(ctx, 4) },
		"pause":  func() error { return viewer.PauseQueue(ctx, "a", "") },
		"purge":  func() error { _, err := viewer.Purge(ctx, pgqueue.Filter{}, pgqueue.BulkOptions{}); return err },
	} {
		if err := act(); !isCode(err, "42501") && !isCode(err, "25006") {
			t.Errorf("%s: %v, want it forbidden", name, err)
		}
	}

	// An operator acts through functions, one by one and in bulk, with conditions; deletion takes more.
	onCall := newInspector(t, as("on_call"))
	dead := list(t, onCall, pgqueue.Filter{States: []pgqueue.JobState{"dead"}}, pgqueue.ListOptions{}).Jobs
	if err := onCall.Retry(ctx, dead[0].ID, pgqueue.IfVersion(dead[0].Version())); err != nil {
		t.Error(err)
	}
	if result, err := onCall.RetryMany(ctx, pgqueue.Filter{}, pgqueue.BulkOptions{Spread: time.Minute}); err != nil || result.Done < 10 || result.Done+len(result.Skips) != result.Matched {
		t.Errorf("retry: %+v, %v", result, err)
	}
	if result, err := onCall.RescheduleMany(ctx, pgqueue.Filter{}, time.Time{}, pgqueue.BulkOptions{Spread: time.Minute}); err != nil || result.Done < 10 {
		t.Errorf("reschedule: %+v, %v", result, err)
	}
	if result, err := onCall.SetPriorityMany(ctx, pgqueue.Filter{}, 2, pgqueue.BulkOptions{}); err != nil || result.Done < 10 {
		t.Errorf("set priority: %+v, %v", result, err)
	}
	if result, err := onCall.CancelMany(ctx, pgqueue.Filter{}, pgqueue.BulkOptions{}); err != nil || result.Done < 30 || result.Skipped != 0 {
		t.Errorf("cancel: %+v, %v", result, err)
	}
	if _, err := onCall.Purge(ctx, pgqueue.Filter{}, pgqueue.BulkOptions{}); !isCode(err, "42501") {
		t.Errorf("purge by an operator: %v", err)
	}
	// With the rights of docs/inspector.md.
	text, err := os.ReadFile("../docs/inspector.md")
	if err != nil {
		t.Fatal(err)
	}
	_, grants, _ := strings.Cut(string(text), "```sql\n")
	grants, _, _ = strings.Cut(grants, "```")
	exec(t, db.Pool, grants+"CREATE ROLE janitor LOGIN IN ROLE pgqueue_janitor")
	janitor := newInspector(t, as("janitor"))
	if _, err := janitor.RetryMany(ctx, pgqueue.Filter{}, pgqueue.BulkOptions{Spread: time.Minute}); err != nil {
		t.Errorf("retry with a spread: %v", err)
	}
	if result, err := janitor.Purge(ctx, pgqueue.Filter{}, pgqueue.BulkOptions{}); err != nil || result.Done < 60 {
		t.Errorf("purge: %+v, %v", result, err)
	}
	if err := janitor.Delete(ctx, list(t, janitor, pgqueue.Filter{}, pgqueue.ListOptions{}).Jobs[0].ID, pgqueue.EvenIfRunning()); err != nil {
		t.Error(err)
	}
}
