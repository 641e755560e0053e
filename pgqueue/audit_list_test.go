package pgqueue_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// insertAudit writes n entries, numbers 1 to n, three each second, the last one now: of ten actors, each with one job of a hundred.
func insertAudit(t testing.TB, db *pgqueuetest.DB, n int) {
	t.Helper()
	exec(t, db.Pool, `INSERT INTO pgqueue.audit (at, job_count, role, action, actor, via, queue, job_ids)
		SELECT date_trunc('second', now()) - ($1 - g) / 3 * interval '1 s', 1, 'someone', CASE WHEN g % 2 = 0 THEN 'retry' ELSE 'pause' END, 'user-' || g % 10, 'cli',
		       CASE WHEN g % 4 = 0 THEN 'mail' END, ARRAY[g % 100] FROM generate_series(1, $1) g`, n)
}

// walkAudit reads every page, and returns the numbers of the entries and how many pages there were.
func walkAudit(t testing.TB, inspector *pgqueue.Inspector, filter pgqueue.AuditFilter, options pgqueue.AuditOptions) (ids []int64, pages int) {
	t.Helper()
	for {
		page, err := inspector.AuditLog(testContext(t), filter, options)
		if err != nil {
			t.Fatal(err)
		}
		pages++
		if len(page.Records) > max(options.Limit, 1) && options.Limit > 0 || page.Short != (page.Scanned > 0) || page.Short && page.Next == "" {
			t.Fatalf("%d entries where %d were wanted: %+v", len(page.Records), options.Limit, page)
		}
		for _, record := range page.Records {
			ids = append(ids, record.ID)
		}
		if options.Cursor = page.Next; options.Cursor == "" {
			return ids, pages
		}
	}
}

func TestAuditLog_PagesMeetEachEntryOnceTheLatestFirst(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	insertAudit(t, db, 250)
	inspector := newInspector(t, db.Pool)
	all := func(keep func(n int64) bool) (want []int64) {
		for n := int64(250); n > 0; n-- {
			if keep(n) {
				want = append(want, n)
			}
		}
		return want
	}
	at := func(n int) time.Time {
		return one[time.Time](t, db.Pool, "SELECT at FROM pgqueue.audit WHERE id = $1", n)
	}
	for name, c := range map[string]struct {
		filter pgqueue.AuditFilter
		keep   func(n int64) bool
	}{
		"all":     {pgqueue.AuditFilter{}, func(int64) bool { return true }},
		"actor":   {pgqueue.AuditFilter{Actor: "user-7"}, func(n int64) bool { return n%10 == 7 }},
		"actions": {pgqueue.AuditFilter{Actions: []pgqueue.Action{"pause", "cancel"}}, func(n int64) bool { return n%2 == 1 }},
		"queue":   {pgqueue.AuditFilter{Queue: "mail", Via: "cli", Role: "someone"}, func(n int64) bool { return n%4 == 0 }},
		"job":     {pgqueue.AuditFilter{Job: 42}, func(n int64) bool { return n%100 == 42 }},
		"both":    {pgqueue.AuditFilter{Job: 42, Actor: "user-2", Queue: "mail"}, func(n int64) bool { return n%100 == 42 && n%4 == 0 }},
		"time":    {pgqueue.AuditFilter{Time: pgqueue.TimeRange{From: at(103), To: at(200)}}, func(n int64) bool { return n >= 101 && n < 200 }},
		"none":    {pgqueue.AuditFilter{Subject: "nightly"}, func(int64) bool { return false }},
	} {
		for _, options := range []pgqueue.AuditOptions{{}, {Limit: 1, Scan: 2}, {Limit: 7}, {Limit: 20, Scan: 30}, {Limit: 250}} {
			got, _ := walkAudit(t, inspector, c.filter, options)
			if want := all(c.keep); !equal(got, want) {
				t.Errorf("%s %+v: %v, want %v", name, options, got, want)
			}
		}
	}
}

// A rare entry is not waited for: a page says how far it has looked, and goes on from there.
func TestAuditLog_AShortPageSaysSo(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	insertAudit(t, db, 300)
	exec(t, db.Pool, "UPDATE pgqueue.audit SET actor = 'rare' WHERE id = 5")
	inspector := newInspector(t, db.Pool)
	page, err := inspector.AuditLog(testContext(t), pgqueue.AuditFilter{Actor: "rare"}, pgqueue.AuditOptions{Scan: 100, Limit: 10})
	if err != nil || !page.Short || page.Scanned != 100 || len(page.Records) != 0 || page.Records == nil || page.Next == "" {
		t.Fatalf("%+v, %v", page, err)
	}
	if got, pages := walkAudit(t, inspector, pgqueue.AuditFilter{Actor: "rare"}, pgqueue.AuditOptions{Scan: 100, Limit: 10}); !equal(got, []int64{5}) || pages < 3 {
		t.Errorf("%v on %d pages", got, pages)
	}
}

func TestAuditLog_RefusesWhatCannotBeMeant(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	insertAudit(t, db, 60)
	inspector, ctx := newInspector(t, db.Pool), testContext(t)
	now := time.Now()
	for field, filter := range map[string]pgqueue.AuditFilter{
		"filter.actor": {Actor: "a\x00"}, "filter.role": {Role: strings.Repeat("x", 129)}, "filter.via": {Via: "\xff"}, "filter.job": {Job: -1},
		"filter.actions[1]": {Actions: []pgqueue.Action{"retry", ""}}, "filter.time": {Time: pgqueue.TimeRange{From: now, To: now}},
		"filter.time.to": {Time: pgqueue.TimeRange{To: time.Unix(1<<50, 0)}}, "filter.subject": {Subject: "\xff"},
	} {
		_, err := inspector.AuditLog(ctx, filter, pgqueue.AuditOptions{})
		requireInvalid(t, err, field)
	}
	page, err := inspector.AuditLog(ctx, pgqueue.AuditFilter{}, pgqueue.AuditOptions{})
	if err != nil || len(page.Records) != 50 {
		t.Fatal(page, err)
	}
	for field, options := range map[string]pgqueue.AuditOptions{
		"options.limit": {Limit: -1}, "options.scan": {Scan: pgqueue.MaxListScan + 1}, "options.cursor": {Cursor: "?"},
	} {
		_, err := inspector.AuditLog(ctx, pgqueue.AuditFilter{}, options)
		requireInvalid(t, err, field)
	}
	_, err = inspector.AuditLog(ctx, pgqueue.AuditFilter{Job: 7}, pgqueue.AuditOptions{Cursor: page.Next})
	requireInvalid(t, err, "options.cursor")
	_, err = inspector.List(ctx, pgqueue.Filter{}, pgqueue.ListOptions{Cursor: page.Next})
	requireInvalid(t, err, "options.cursor")
}

// The roles of docs/roles.md: an operator adds entries and reads them, in his own name as Postgres knows it, and can take none back.
func TestRolesOfTheAuditLog(t *testing.T) {
	t.Parallel()
	db, as := documentedRoles(t)
	onCall, app, shop := as("on_call"), as("app"), as("shop")
	inspector, ctx := recording(t, onCall), testContext(t)
	dead := place(t, db, pgqueue.JobDead)
	if err := inspector.Retry(ctx, dead); err != nil {
		t.Fatal(err)
	}
	// Whoever somebody says he is, with SET ROLE too.
	exec(t, db.Pool, "GRANT pgqueue_operator TO pgqueue_watcher")
	exec(t, onCall, `BEGIN; SET LOCAL ROLE pgqueue_operator; SELECT pgqueue.record_action('root', 'psql', 'pause'); COMMIT`)
	page, err := inspector.AuditLog(ctx, pgqueue.AuditFilter{Role: "on_call"}, pgqueue.AuditOptions{})
	if err != nil || len(page.Records) != 2 || page.Records[0].Actor != "root" {
		t.Fatalf("%+v, %v", page, err)
	}
	for _, sql := range []string{
		"INSERT INTO pgqueue.audit (role, action) VALUES ('postgres', 'x')", "UPDATE pgqueue.audit SET role = 'postgres'", "DELETE FROM pgqueue.audit",
		"TRUNCATE pgqueue.audit", "SELECT pgqueue.expire_audit('1 year')", "ALTER TABLE pgqueue.audit DISABLE TRIGGER ALL",
	} {
		requireForbidden(t, onCall, sql)
	}
	requireForbidden(t, app, "SELECT * FROM pgqueue.audit")
	requireForbidden(t, shop, "SELECT pgqueue.record_action('a', 'b', 'c')")
	// A worker's role deletes what is old, and nothing that is younger than a week.
	exec(t, db.Pool, "UPDATE pgqueue.audit SET at = now() - interval '8 days' WHERE actor = 'root'")
	for _, keep := range []string{"0", "-1 year", "6 days 23 hours", "-infinity"} {
		if _, err := app.Exec(ctx, "SELECT pgqueue.expire_audit($1::text::interval)", keep); err == nil {
			t.Errorf("keep %s was accepted", keep)
		}
	}
	if n := one[int](t, app, "SELECT pgqueue.expire_audit('7 days')"); n != 1 || one[int](t, db.Pool, "SELECT count(*) FROM pgqueue.audit") != 1 {
		t.Errorf("%d deleted", n)
	}
	// Without the grant nothing is done, and the error says which page to read.
	exec(t, db.Pool, "REVOKE EXECUTE ON FUNCTION pgqueue.record_action FROM pgqueue_operator")
	if err := inspector.PauseQueue(ctx, "mail", ""); !isCode(err, "42501") || !strings.Contains(err.Error(), "docs/roles.md") {
		t.Error(err)
	}
	if n := one[int](t, db.Pool, "SELECT count(*) FROM pgqueue.queues"); n != 0 {
		t.Error("the queue was paused")
	}
}

// Upkeep deletes what is older than KeepAudit; a worker without the right of version 5 says so once and works on.
func TestAWorkerDeletesOldAuditEntries(t *testing.T) {
	t.Parallel()
	db, as := documentedRoles(t)
	insertAudit(t, db, 20)
	exec(t, db.Pool, "UPDATE pgqueue.audit SET at = at - interval '9 days' WHERE id <= 5")
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[greet]) error { return nil })
	upkeep := func(log *safeBuffer, done func() bool) {
		t.Helper()
		client := newClient(t, as("app"), pgqueue.WithLogger(slog.New(slog.NewTextHandler(log, nil))))
		worker := startWorker(t, client, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {}}, KeepAudit: 8 * 24 * time.Hour})
		eventually(t, "upkeep", done)
		awaitState(t, db.Pool, enqueue(t, client, as("app"), greet{}).ID, "succeeded")
		if err := worker.Stop(testContext(t)); err != nil {
			t.Fatal(err)
		}
	}
	upkeep(&safeBuffer{}, func() bool { return one[int](t, db.Pool, "SELECT count(*) FROM pgqueue.audit") == 15 })
	exec(t, db.Pool, "REVOKE EXECUTE ON FUNCTION pgqueue.expire_audit FROM pgqueue_worker")
	log := &safeBuffer{}
	const said = "old entries of the audit log are not deleted"
	upkeep(log, func() bool { return strings.Contains(log.String(), said) })
	if strings.Count(log.String(), said) != 1 || strings.Contains(log.String(), "maintain") {
		t.Errorf("the log:\n%s", log.String())
	}
	client := newClient(t, db.Pool)
	for keep, valid := range map[time.Duration]bool{-1: false, time.Hour: false, 7*24*time.Hour - 1: false, 7 * 24 * time.Hour: true, 0: true} {
		_, err := client.NewWorker(mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {}}, KeepAudit: keep})
		if valid != (err == nil) {
			t.Errorf("KeepAudit %s: %v", keep, err)
		}
		if err != nil {
			requireInvalid(t, err, "KeepAudit")
		}
	}
}

// record_action defends the table against whoever calls it from SQL.
func TestRecordActionFromSQL(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	for sql, column := range map[string]string{
		"NULL, NULL, NULL": "action", "'a', 'b', ''": "action", "'a', 'b', 'c', ARRAY[[1, 2], [3, 4]]": "job_ids", "'a', 'b', 'c', filter => '[]'": "filter",
		"'a', 'b', 'c', filter => jsonb_build_object('a', repeat('x', 40000))": "filter",
	} {
		if _, err := db.Pool.Exec(testContext(t), "SELECT pgqueue.record_action("+sql+")"); !isCode(err, "22023") || !strings.Contains(err.Error(), column) {
			t.Errorf("%s: %v", sql, err)
		}
	}
	exec(t, db.Pool, `SELECT pgqueue.record_action(repeat('ü', 5000), NULL, repeat('x', 5000), array_agg(g) || NULL, detail => repeat('y', 5000)) FROM generate_series(1::bigint, 3000) g`)
	if got := one[string](t, db.Pool, `SELECT concat_ws(' ', length(actor), via IS NULL, length(action), job_count, cardinality(job_ids), job_ids[1000], length(detail)) FROM pgqueue.audit`); got != "255 t 128 3000 1000 1000 1024" {
		t.Error(got)
	}
}
