package pgqueue_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// auditLog makes an inspector that writes what happens into a table, as a console does.
func auditLog(t testing.TB, db *pgqueuetest.DB) *pgqueue.Inspector {
	t.Helper()
	exec(t, db.Pool, `CREATE TABLE public.audit (n serial, actor text, action text, jobs bigint[], queue text, detail text, bulk boolean)`)
	inspector, err := pgqueue.NewInspector(db.Pool, pgqueue.InspectorConfig{
		Logger: slog.New(slog.DiscardHandler),
		Audit: func(ctx context.Context, tx pgx.Tx, e pgqueue.AuditEntry) error {
			_, err := tx.Exec(ctx, `INSERT INTO public.audit (actor, action, jobs, queue, detail, bulk) VALUES ($1, $2, $3, $4, $5, $6)`,
				e.Actor, string(e.Action), e.Jobs, e.Queue, e.Detail, e.Filter != nil)
			return err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return inspector.As("eve")
}

// audited is the log so far, one line an entry.
func audited(t testing.TB, db *pgqueuetest.DB) string {
	t.Helper()
	return one[string](t, db.Pool, `SELECT coalesce(string_agg(format('%s %s %s%s%s', actor, action, coalesce(array_to_string(jobs, '+'), ''), queue, detail), '; ' ORDER BY n), '')
		FROM public.audit`)
}

// place puts a new job into a state, and returns its number.
func place(t testing.TB, db *pgqueuetest.DB, state pgqueue.JobState) (id int64) {
	t.Helper()
	id = one[int64](t, db.Pool, `INSERT INTO pgqueue.jobs (queue, kind) VALUES ('default', 'task') RETURNING id`)
	switch {
	case state == pgqueue.JobRunning:
		exec(t, db.Pool, `UPDATE pgqueue.jobs SET state = 'running', attempt = 1, claimed_generation = generation, claimed_by = 'w', claimed_at = now(),
			lease_expires_at = now() + interval '1 h' WHERE id = $1`, id)
	case !state.Live():
		exec(t, db.Pool, `DELETE FROM pgqueue.jobs WHERE id = $1`, id)
		insertEnded(t, db.Pool, `SELECT $1::bigint, 'default', 'task', $2::text, 1, now()`, id, string(state))
	}
	return id
}

// Whatever name somebody gives, an audit log can store it.
func TestTheActorIsText(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	if err := auditLog(t, db).As("a\x00b\xff").Retry(testContext(t), place(t, db, pgqueue.JobDead)); err != nil {
		t.Fatal(err)
	}
	if got := one[string](t, db.Pool, `SELECT actor FROM public.audit`); got != "a\uFFFDb\uFFFD" {
		t.Errorf("actor %q", got)
	}
}

// What failed is said once.
func TestErrorsOfListsNameThemOnce(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	inspector := auditLog(t, db)
	exec(t, db.Pool, `DROP SCHEMA pgqueue CASCADE`)
	_, err := inspector.List(testContext(t), none, pgqueue.ListOptions{})
	_, few := inspector.List(testContext(t), pgqueue.Filter{States: []pgqueue.JobState{pgqueue.JobRunning}}, pgqueue.ListOptions{})
	_, counts := inspector.Counts(testContext(t), none)
	_, groups := inspector.Attention(testContext(t), none)
	for what, err := range map[string]error{"list jobs: ": err, "list jobs:  ": few, "count jobs: ": counts, "group failed jobs: ": groups} {
		if what = strings.TrimSpace(what); err == nil || strings.Count(err.Error(), what) != 1 {
			t.Errorf("%q: %v", what, err)
		}
	}
}

// Each action on each state does what the table says, or refuses and changes nothing, and the log holds what was done.
func TestC140_EachActionOnEachState(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	inspector := auditLog(t, db)
	ctx := testContext(t)
	const gone = pgqueue.JobState("gone")
	actions := map[string]func(id int64, options ...pgqueue.ActionOption) error{
		"retry":  func(id int64, o ...pgqueue.ActionOption) error { return inspector.Retry(ctx, id, o...) },
		"cancel": func(id int64, o ...pgqueue.ActionOption) error { _, err := inspector.Cancel(ctx, id, o...); return err },
		"delete": func(id int64, o ...pgqueue.ActionOption) error { return inspector.Delete(ctx, id, o...) },
		"force": func(id int64, o ...pgqueue.ActionOption) error {
			return inspector.Delete(ctx, id, append(o, pgqueue.EvenIfRunning())...)
		},
	}
	for _, c := range []struct {
		action string
		from   pgqueue.JobState
		to     pgqueue.JobState
		err    error
	}{
		{"retry", "pending", "pending", pgqueue.ErrJobLive},
		{"retry", "running", "running", pgqueue.ErrJobLive},
		{"retry", "succeeded", "succeeded", pgqueue.ErrNotFound},
		{"retry", "cancelled", "cancelled", pgqueue.ErrNotFound},
		{"retry", "failed", "pending", nil},
		{"retry", "dead", "pending", nil},
		{"cancel", "pending", "cancelled", nil},
		{"cancel", "running", "running", nil},
		{"cancel", "succeeded", "succeeded", pgqueue.ErrNotFound},
		{"cancel", "cancelled", "cancelled", pgqueue.ErrNotFound},
		{"cancel", "failed", "failed", pgqueue.ErrNotFound},
		{"cancel", "dead", "dead", pgqueue.ErrNotFound},
		{"delete", "pending", gone, nil},
		{"delete", "running", "running", pgqueue.ErrJobRunning},
		{"delete", "succeeded", gone, nil},
		{"delete", "cancelled", gone, nil},
		{"delete", "failed", gone, nil},
		{"delete", "dead", gone, nil},
		{"force", "running", gone, nil},
		{"force", "pending", gone, nil},
		{"retry", gone, gone, pgqueue.ErrNotFound},
		{"cancel", gone, gone, pgqueue.ErrNotFound},
		{"delete", gone, gone, pgqueue.ErrNotFound},
	} {
		for _, when := range []string{"at any version", "at its version", "at another version"} {
			exec(t, db.Pool, `TRUNCATE public.audit`)
			id, want, err := int64(1<<40), c.to, c.err
			var version pgqueue.Version
			if c.from != gone {
				id = place(t, db, c.from)
				version = inspect(t, inspector, id).Version()
			}
			var options []pgqueue.ActionOption
			switch when {
			case "at its version":
				options = append(options, pgqueue.IfVersion(version))
			case "at another version":
				if c.from == gone {
					continue
				}
				version.Attempt++
				options, want = append(options, pgqueue.IfVersion(version)), c.from
			}
			got := actions[c.action](id, options...)
			name := fmt.Sprintf("%s of a %s job %s", c.action, c.from, when)
			if when == "at another version" {
				var changed *pgqueue.ChangedError
				if !errors.As(got, &changed) || changed.Want != version || changed.ID != id {
					t.Errorf("%s: %v, want a ChangedError", name, got)
				}
				err = got
			} else if !errors.Is(got, err) {
				t.Errorf("%s: %v, want %v", name, got, err)
			}
			state := gone
			if job, readErr := inspector.Get(ctx, id); readErr == nil {
				state = job.State
				if c.action == "cancel" && c.from == "running" && job.CancelWanted != (err == nil) {
					t.Errorf("%s: cancel wanted is %v", name, job.CancelWanted)
				}
			}
			if state != want {
				t.Errorf("%s: it is %s, want %s", name, state, want)
			}
			line := ""
			if err == nil {
				line = fmt.Sprintf("eve %s %d", strings.Replace(c.action, "force", "delete", 1), id)
			}
			if log := audited(t, db); log != line {
				t.Errorf("%s: the log says %q, want %q", name, log, line)
			}
		}
	}
}

// Fifty that click at once: one retries, the others are told that the job is live.
func TestC140_FiftyRetriesAtOnce(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	inspector := auditLog(t, db)
	id := place(t, db, pgqueue.JobDead)
	version := inspect(t, inspector, id).Version()
	var retried, refused atomic.Int32
	var group sync.WaitGroup
	for n := range 50 {
		group.Go(func() {
			var options []pgqueue.ActionOption
			if n%2 == 0 {
				options = append(options, pgqueue.IfVersion(version))
			}
			switch err := inspector.Retry(testContext(t), id, options...); {
			case err == nil:
				retried.Add(1)
			case errors.Is(err, pgqueue.ErrJobLive):
				refused.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	group.Wait()
	if retried.Load() != 1 || refused.Load() != 49 {
		t.Errorf("%d retried, %d refused", retried.Load(), refused.Load())
	}
	if log := audited(t, db); log != fmt.Sprintf("eve retry %d", id) {
		t.Errorf("the log says %q", log)
	}
}

// A job that is deleted under its handler: the lease is lost, what the handler reports is discarded, and nobody runs it again.
func TestC140_DeleteUnderARunningHandler(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	inspector := newInspector(t, db.Pool)
	started, lost := make(chan struct{}, 10), make(chan error, 10)
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(ctx context.Context, _ *pgqueue.Job[task]) error {
		started <- struct{}{}
		<-ctx.Done()
		lost <- context.Cause(ctx)
		return nil // a success, too late
	})
	startWorker(t, client, mux, pgqueue.WorkerConfig{
		Queues: pgqueue.Queues{"default": {Poll: 100 * time.Millisecond}}, Lease: 3 * time.Second, RenewEvery: 100 * time.Millisecond,
		ReapInterval: 100 * time.Millisecond,
	})
	id := enqueue(t, client, db.Pool, task{}).ID
	receive(t, started, "the handler")
	if err := inspector.Delete(testContext(t), id); !errors.Is(err, pgqueue.ErrJobRunning) {
		t.Fatalf("delete of a running job: %v", err)
	}
	if err := inspector.Delete(testContext(t), id, pgqueue.EvenIfRunning()); err != nil {
		t.Fatal(err)
	}
	if cause := receive(t, lost, "the lease to be lost"); !errors.Is(cause, pgqueue.ErrLeaseLost) {
		t.Errorf("cause %v", cause)
	}
	// What comes after it runs, and it did not.
	enqueue(t, client, db.Pool, task{})
	receive(t, started, "the next job")
	if _, err := inspector.Get(testContext(t), id); !errors.Is(err, pgqueue.ErrNotFound) {
		t.Errorf("get: %v", err)
	}
	if n := len(started); n != 0 {
		t.Errorf("%d runs too many", n)
	}
}

// A row that another table refers to: named, and the caller's transaction stays usable.
func TestDeleteOfAReferencedJob(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	exec(t, db.Pool, `CREATE TABLE public.orders (job bigint CONSTRAINT orders_job REFERENCES pgqueue.jobs (id))`)
	id := place(t, db, pgqueue.JobPending)
	exec(t, db.Pool, `INSERT INTO public.orders VALUES ($1)`, id)
	tx := begin(t, db.Pool, pgx.TxOptions{})
	for name, inspector := range map[string]*pgqueue.Inspector{"on a pool": newInspector(t, db.Pool), "in a transaction": newInspector(t, db.Pool).On(tx)} {
		err := inspector.Delete(testContext(t), id)
		var referenced *pgqueue.ReferencedError
		if !errors.As(err, &referenced) || *referenced != (pgqueue.ReferencedError{ID: id, Table: "public.orders", Constraint: "orders_job"}) {
			t.Errorf("%s: %v", name, err)
		}
	}
	exec(t, tx, `DELETE FROM public.orders`)
	if err := newInspector(t, db.Pool).On(tx).Delete(testContext(t), id); err != nil {
		t.Errorf("after the reference is gone: %v", err)
	}
}

// An action in a transaction of the caller's becomes true with its COMMIT, and reads there leave its settings alone.
func TestInspectorInATransaction(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	inspector := auditLog(t, db)
	id := place(t, db, pgqueue.JobDead)
	tx := begin(t, db.Pool, pgx.TxOptions{})
	inside := inspector.On(tx)
	if err := inside.Retry(testContext(t), id); err != nil {
		t.Fatal(err)
	}
	if page := list(t, inside, pgqueue.Filter{States: []pgqueue.JobState{"pending"}}, pgqueue.ListOptions{}); !equal(ids(page.Jobs), []int64{id}) {
		t.Errorf("inside: %v", ids(page.Jobs))
	}
	if stats, err := inside.Queues(testContext(t)); err != nil || len(stats) != 1 || stats[0].Ready[0].N != 1 {
		t.Errorf("inside: %+v, %v", stats, err)
	}
	if setting := one[string](t, tx, `SHOW enable_seqscan`); setting != "on" {
		t.Errorf("enable_seqscan is %s behind a list", setting)
	}
	if s := inspect(t, inspector, id); s.State != pgqueue.JobDead {
		t.Errorf("outside it is %s", s.State)
	}
	if _, err := inside.RetryMany(testContext(t), pgqueue.Filter{}, pgqueue.BulkOptions{}); err == nil {
		t.Error("a bulk action in a transaction")
	} else {
		requireInvalid(t, err, "querier")
	}
	if err := tx.Rollback(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if s := inspect(t, inspector, id); s.State != pgqueue.JobDead || audited(t, db) != "" {
		t.Errorf("after the rollback: %s, and the log says %q", s.State, audited(t, db))
	}
}

// An audit log that cannot be written undoes the action.
func TestAnAuditLogCanRefuse(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	no := errors.New("no")
	inspector, err := pgqueue.NewInspector(db.Pool, pgqueue.InspectorConfig{
		Logger: slog.New(slog.DiscardHandler), Audit: func(context.Context, pgx.Tx, pgqueue.AuditEntry) error { return no },
	})
	if err != nil {
		t.Fatal(err)
	}
	dead, pending := place(t, db, pgqueue.JobDead), place(t, db, pgqueue.JobPending)
	ctx := testContext(t)
	for name, act := range map[string]func() error{
		"retry":      func() error { return inspector.Retry(ctx, dead) },
		"cancel":     func() error { _, err := inspector.Cancel(ctx, pending); return err },
		"delete":     func() error { return inspector.Delete(ctx, dead) },
		"set":        func() error { _, err := inspector.SetMaxAttempts(ctx, pending, 9); return err },
		"pause":      func() error { return inspector.PauseQueue(ctx, "default", "") },
		"history":    func() error { return inspector.SetHistory(ctx, "default", pgqueue.HistoryOff) },
		"retry many": func() error { _, err := inspector.RetryMany(ctx, pgqueue.Filter{}, pgqueue.BulkOptions{}); return err },
		"purge":      func() error { _, err := inspector.Purge(ctx, pgqueue.Filter{}, pgqueue.BulkOptions{}); return err },
	} {
		if err := act(); !errors.Is(err, no) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if a, b := inspect(t, inspector, dead), inspect(t, inspector, pending); a.State != pgqueue.JobDead || b.State != pgqueue.JobPending || b.MaxAttempts != 3 {
		t.Errorf("they are %s and %s (%d)", a.State, b.State, b.MaxAttempts)
	}
	if n := one[int](t, db.Pool, `SELECT count(*) FROM pgqueue.queues`); n != 0 {
		t.Error("the queue has settings")
	}
}

func TestQueueActionsAreAudited(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	inspector := auditLog(t, db)
	ctx := testContext(t)
	id := place(t, db, pgqueue.JobPending)
	if err := errors.Join(
		inspector.PauseQueue(ctx, "mail", "down"), inspector.ResumeQueue(ctx, "mail"), inspector.SetHistory(ctx, "mail", pgqueue.HistorySlim),
	); err != nil {
		t.Fatal(err)
	}
	if state, err := inspector.SetMaxAttempts(ctx, id, 20); err != nil || state != pgqueue.JobPending {
		t.Fatal(state, err)
	}
	want := fmt.Sprintf("eve pause maildown; eve resume mail; eve set_history mailslim; eve set_max_attempts %dmax_attempts 20", id)
	if log := audited(t, db); log != want {
		t.Errorf("the log says %q, want %q", log, want)
	}
	requireInvalid(t, inspector.PauseQueue(ctx, "", ""), "queue")
}

func TestParseVersion(t *testing.T) {
	t.Parallel()
	want := pgqueue.Version{Attempt: 12, Generation: 3}
	if got, err := pgqueue.ParseVersion(want.String()); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	for _, text := range []string{"", "1", "1.", ".1", "-1.1", "1.1.1", "99999999999.1"} {
		_, err := pgqueue.ParseVersion(text)
		requireInvalid(t, err, "version")
	}
}
