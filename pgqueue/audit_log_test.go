package pgqueue_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// recording makes an inspector that writes pgqueue's own audit log, in the name of alice.
func recording(t testing.TB, q pgqueue.Querier) *pgqueue.Inspector {
	t.Helper()
	inspector, err := pgqueue.NewInspector(q, pgqueue.InspectorConfig{
		Logger: slog.New(slog.DiscardHandler), Audit: pgqueue.RecordAudit("", "console"),
	})
	if err != nil {
		t.Fatal(err)
	}
	return inspector.As("alice")
}

// entries are the whole audit log, the oldest first, as one line each: who with what, the action, the jobs, and what else there is.
func entries(t testing.TB, pool *pgxpool.Pool) string {
	t.Helper()
	return one[string](t, pool, `SELECT coalesce(string_agg(concat_ws(' ', actor, via, action, nullif(job_count, 0), left(nullif(job_ids, '{}')::text, 40), queue, kind, subject, detail, filter), '; ' ORDER BY id), '') FROM pgqueue.audit`)
}

func TestRecordAudit_WritesWhatWasDoneAndNothingElse(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	inspector, ctx := recording(t, db.Pool), testContext(t)
	dead, pending := place(t, db, pgqueue.JobDead), place(t, db, pgqueue.JobPending)
	before := one[time.Time](t, db.Pool, "SELECT clock_timestamp()")
	for _, err := range []error{
		inspector.Retry(ctx, dead),
		inspector.PauseQueue(ctx, "mail", "the provider is down"),
		inspector.PauseKind(ctx, pgqueue.KindPause{Kind: "task", Queue: "mail"}),
		inspector.Delete(ctx, pending),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	// What is refused, or undone with its transaction, was not done.
	if err := inspector.Retry(ctx, 1<<40); !errors.Is(err, pgqueue.ErrNotFound) {
		t.Error(err)
	}
	tx := begin(t, db.Pool, pgx.TxOptions{})
	if err := inspector.On(tx).ResumeQueue(ctx, "mail"); err != nil {
		t.Fatal(err)
	}
	_ = tx.Rollback(ctx)
	want := fmt.Sprintf("alice console retry 1 {%d}; alice console pause mail the provider is down; alice console pause_kind mail task; alice console delete 1 {%d}", dead, pending)
	if got := entries(t, db.Pool); got != want {
		t.Errorf("the log:\n%s\nwant:\n%s", got, want)
	}
	page, err := inspector.AuditLog(ctx, pgqueue.AuditFilter{}, pgqueue.AuditOptions{})
	if err != nil || len(page.Records) != 4 || page.Next != "" {
		t.Fatalf("%+v, %v", page, err)
	}
	first := page.Records[3]
	if first.At.Before(before) || first.Role != one[string](t, db.Pool, "SELECT session_user::text") || first.Actor != "alice" || first.Via != "console" ||
		first.Action != pgqueue.ActionRetry || !equal(first.Jobs, []int64{dead}) || first.JobCount != 1 || first.StoredFilter != nil || first.Filter != nil {
		t.Errorf("%+v", first)
	}
	if third := page.Records[1]; third.Kind != "task" || third.Queue != "mail" || third.JobCount != 0 {
		t.Errorf("%+v", third)
	}
}

// A batch of more jobs than an entry names is several entries: each job is found.
func TestRecordAudit_EachJobOfALargeBatchIsNamed(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	insertDead(t, db.Pool, 100, 2_500)
	inspector, ctx := recording(t, db.Pool), testContext(t)
	filter := pgqueue.Filter{States: []pgqueue.JobState{pgqueue.JobDead}, Kind: "task", Payload: json.RawMessage(`{}`)}
	result, err := inspector.DeleteMany(ctx, filter, pgqueue.BulkOptions{BatchSize: 5_000})
	if err != nil || result.Done != 2_500 || result.Batches != 1 {
		t.Fatalf("%+v, %v", result, err)
	}
	if counts := one[string](t, db.Pool, `SELECT string_agg(job_count || ' of ' || cardinality(job_ids), ', ' ORDER BY id) FROM pgqueue.audit`); counts != "1000 of 1000, 1000 of 1000, 500 of 500" {
		t.Errorf("entries of %s", counts)
	}
	for _, job := range []int64{101, 1_100, 1_101, 2_600} {
		page, err := inspector.AuditLog(ctx, pgqueue.AuditFilter{Job: job}, pgqueue.AuditOptions{})
		if err != nil || len(page.Records) != 1 || page.Records[0].Action != pgqueue.ActionDelete {
			t.Fatalf("job %d: %+v, %v", job, page, err)
		}
		if got := string(page.Records[0].StoredFilter); got != `{"kind": "task", "state": ["dead"], "payload": "not kept"}` {
			t.Errorf("the filter is %s", got)
		}
	}
	if page, err := inspector.AuditLog(ctx, pgqueue.AuditFilter{Job: 2_601}, pgqueue.AuditOptions{}); err != nil || len(page.Records) != 0 {
		t.Errorf("%+v, %v", page, err)
	}
}

// Neither the payloads that are written nor the one that is looked for are in the log, nor anywhere in its row.
func TestRecordAudit_HoldsNoPayload(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	inspector, ctx := recording(t, db.Pool), testContext(t)
	first, second := place(t, db, pgqueue.JobDead), place(t, db, pgqueue.JobPending)
	exec(t, db.Pool, `UPDATE pgqueue.history SET payload = '{"name": "secret-old"}'; UPDATE pgqueue.jobs SET payload = '{"name": "secret-old"}'`)
	if err := inspector.RetryWith(ctx, first, json.RawMessage(`{"name": "secret-new"}`)); err != nil {
		t.Fatal(err)
	}
	if _, err := inspector.EditPayload(ctx, second, json.RawMessage(`{"name": "secret-new"}`)); err != nil {
		t.Fatal(err)
	}
	filter := pgqueue.Filter{States: []pgqueue.JobState{pgqueue.JobPending}, Payload: json.RawMessage(`{"name": "secret-new"}`)}
	if result, err := inspector.CancelMany(ctx, filter, pgqueue.BulkOptions{}); err != nil || result.Done != 2 {
		t.Fatal(result, err)
	}
	if n := one[int](t, db.Pool, "SELECT count(*) FROM pgqueue.audit"); n != 3 {
		t.Errorf("%d entries", n)
	}
	if rows := one[string](t, db.Pool, "SELECT string_agg(a::text, E'\n') FROM pgqueue.audit a"); strings.Contains(rows, "secret") {
		t.Errorf("a payload is in the log:\n%s", rows)
	}
}

// Whatever an entry holds, it can be stored: an action must not fail because of its words.
func TestRecordAudit_HostileAndLongText(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	ctx := testContext(t)
	for name, text := range map[string]string{
		"NUL": "a\x00b", "no UTF-8": "a\xff\xfeb", "long": strings.Repeat("ü", 40_000), "long and broken": strings.Repeat("\xf0\x9f\x98", 40_000),
		"quotes": `'; DROP TABLE pgqueue.audit; --"\`, "surrogate": "\xed\xa0\x80", "JSON": `\u0000`,
	} {
		audit := pgqueue.RecordAudit("", text)
		filter := &pgqueue.Filter{
			Queue: text, Kind: text, Key: text, ErrorCode: text, ClaimedBy: text, Tags: slicesOf(text, 10_000), IDs: make([]int64, pgqueue.MaxFilterIDs),
			States: []pgqueue.JobState{pgqueue.JobState(text)}, Payload: json.RawMessage(text), Priority: 3,
			Created: pgqueue.TimeRange{From: time.Unix(1<<50, 0), To: time.Now()},
		}
		entry := pgqueue.AuditEntry{Actor: text, Action: pgqueue.Action("x" + text), Queue: text, Kind: text, Subject: text, Detail: text, Filter: filter}
		tx := begin(t, db.Pool, pgx.TxOptions{})
		if err := audit(ctx, tx, entry); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := tx.Commit(ctx); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if longest := one[string](t, db.Pool, `SELECT concat_ws(' ', count(*), max(octet_length(actor)) <= 255, max(octet_length(via)) <= 128, max(octet_length(action)) <= 128,
		max(octet_length(detail)) <= 1024, max(octet_length(detail)) > 1000, max(octet_length(filter::text)) < 32768, bool_and(actor !~ E'[\u0001\\x00]')) FROM pgqueue.audit`); longest != "7 t t t t t t t" {
		t.Error(longest)
	}
	tx := begin(t, db.Pool, pgx.TxOptions{})
	requireInvalid(t, pgqueue.RecordAudit("", "")(ctx, tx, pgqueue.AuditEntry{}), "action")
	requireInvalid(t, pgqueue.RecordAudit("pg_nothing", "")(ctx, tx, pgqueue.AuditEntry{Action: "x"}), "schema")
}

func slicesOf(text string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = text
	}
	return all
}

// What must be recorded is not done unrecorded: on schema version 4 actions fail, and say what to run.
func TestRecordAudit_OnASchemaWithoutALog(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	exec(t, db.Pool, `DROP FUNCTION pgqueue.record_action, pgqueue.expire_audit; DROP TABLE pgqueue.audit`)
	inspector, ctx := recording(t, db.Pool), testContext(t)
	insertDead(t, db.Pool, 0, 10)
	_, errAll := inspector.RetryMany(ctx, pgqueue.Filter{}, pgqueue.BulkOptions{})
	_, errLog := inspector.AuditLog(ctx, pgqueue.AuditFilter{}, pgqueue.AuditOptions{})
	for what, err := range map[string]error{"retry": inspector.Retry(ctx, 1), "retry all": errAll, "log": errLog} {
		if !errors.Is(err, pgqueue.ErrSchema) || !strings.Contains(err.Error(), "run pgqueue migrate up") || !strings.Contains(err.Error(), "version 5") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if n := one[int](t, db.Pool, "SELECT count(*) FROM pgqueue.jobs"); n != 0 {
		t.Errorf("%d jobs were retried", n)
	}
	if err := newInspector(t, db.Pool).Retry(ctx, 1); err != nil { // who records nothing goes on
		t.Error(err)
	}
}

// Record and what it records become true together.
func TestRecord_TogetherOrNotAtAll(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	inspector, ctx := recording(t, db.Pool), testContext(t)
	exec(t, db.Pool, "CREATE TABLE public.done (n int)")
	do := func(fail error) func(pgx.Tx) error {
		return func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "INSERT INTO public.done VALUES (1)")
			return errors.Join(err, fail)
		}
	}
	entry := pgqueue.AuditEntry{Action: pgqueue.ActionScheduleDisable, Subject: "nightly", Actor: "mallory"}
	if err := inspector.Record(ctx, entry, do(nil)); err != nil {
		t.Fatal(err)
	}
	mine := errors.New("no such schedule")
	if err := inspector.Record(ctx, entry, do(mine)); !errors.Is(err, mine) {
		t.Error(err)
	}
	if err := inspector.Record(ctx, pgqueue.AuditEntry{Action: "\x00" + "x"}, do(nil)); err != nil {
		t.Error(err)
	}
	// An entry that cannot be written undoes it, in a transaction of the caller too, which stays usable.
	exec(t, db.Pool, "ALTER TABLE pgqueue.audit ADD CHECK (subject <> 'no')")
	tx := begin(t, db.Pool, pgx.TxOptions{})
	for _, q := range []pgqueue.Querier{db.Pool, tx} {
		if err := inspector.On(q).Record(ctx, pgqueue.AuditEntry{Action: pgqueue.ActionSchedulePut, Subject: "no"}, do(nil)); !isCode(err, "23514") {
			t.Error(err)
		}
	}
	// Only afterwards is it known which job it was; where there is no action there is no entry.
	for _, action := range []pgqueue.Action{pgqueue.ActionEnqueue, ""} {
		err := inspector.On(tx).RecordResult(ctx, func(tx pgx.Tx) (pgqueue.AuditEntry, error) {
			return pgqueue.AuditEntry{Action: action, Jobs: []int64{17}, Queue: "mail"}, do(nil)(tx)
		})
		if err != nil {
			t.Error(err)
		}
	}
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if got, want := entries(t, db.Pool), "alice console schedule_disable nightly; alice console \uFFFDx; alice console enqueue 1 {17} mail"; got != want {
		t.Errorf("the log:\n%s\nwant:\n%s", got, want)
	}
	if err := newInspector(t, db.Pool).Record(ctx, entry, do(nil)); err != nil { // nobody is told
		t.Error(err)
	}
	if n := one[int](t, db.Pool, "SELECT count(*) FROM public.done"); n != 5 {
		t.Errorf("%d things were done", n)
	}
}
