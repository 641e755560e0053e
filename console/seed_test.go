package console

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// seedFields are the names of everything that seed lets its caller choose: what producers, handlers, workers, schedules and people
// can write, and what the database calls things.
func seedFields() []string {
	return []string{
		"queue", "kind", "key", "tag", "payload-name", "payload-value", "metadata", "traceparent", "code", "message", "worker", "host", "version",
		"result", "progress", "reason", "schedule", "source", "last-error", "spec", "zone", "actor", "via", "subject", "detail", "index", "application",
	}
}

// seed fills a database with n sets of jobs in all states, queues, paused kinds, workers, schedules and entries of the audit log, with
// the texts that value gives for each field (see seedFields), and returns what stands in the wildcards of routes for each set. Two
// databases that are seeded with other texts are alike in everything else.
func seed(t testing.TB, db *pgqueuetest.DB, value func(n int, field string) string, n int) (wildcards []map[string]string) {
	t.Helper()
	for i := range n {
		text := func(field string) string { return value(i, field) }
		wildcards = append(wildcards, seedSet(t, db, int64(i+1)*10, text))
	}
	return wildcards
}

func seedSet(t testing.TB, db *pgqueuetest.DB, first int64, text func(string) string) map[string]string {
	t.Helper()
	batch := &pgx.Batch{}
	queue := func(sql string, args ...any) {
		batch.Queue(strings.ReplaceAll(sql, "{schema}", pgx.Identifier{db.Schema}.Sanitize()), args...)
	}
	payload := map[string]any{text("payload-name"): text("payload-value"), "list": []string{text("payload-value")}, "id": first}
	metadata := map[string]any{"traceparent": text("traceparent"), text("metadata"): text("metadata")}
	now := time.Now()
	var failures []map[string]any
	for attempt := range 2 {
		failures = append(failures, map[string]any{
			"attempt": attempt + 1, "code": text("code"), "message": text("message"), "started": now.Add(-time.Minute), "at": now.Add(-30 * time.Second), "by": text("worker"),
		})
	}
	for i, state := range []string{"pending", "running"} {
		queue(`INSERT INTO {schema}.jobs (id, queue, kind, state, key, revision, payload, metadata, tags, errors, error_count, failures, attempt, claimed_by,
			claimed_at, lease_expires_at, claimed_generation, created_at)
			VALUES ($1, $2, $3, $4, $5, $5, $6, $7, ARRAY[$8, $8], $9, 2, 2, 3, $10, now() - interval '10 s', now() + interval '1 h', 1, now() - interval '1 h')`,
			first+int64(i), text("queue"), text("kind"), state, strings.Repeat(" ", i)+text("key"), payload, metadata, text("tag"), failures, text("worker"))
	}
	for i, state := range []string{"failed", "dead", "succeeded", "cancelled"} {
		queue(`INSERT INTO {schema}.history (id, queue, kind, state, key, revision, payload, metadata, tags, errors, error_count, failures, attempt, claimed_by,
			claimed_at, finished_at, day, created_at, run_at, generation, priority, max_attempts, result)
			VALUES ($1, $2, $3, $4, $5, $5, $6, $7, ARRAY[$8, $8], $9, 2, 2, 3, $10, now() - interval '10 s', now() - interval '5 s',
			CASE WHEN $4 IN ('failed', 'dead') THEN 'infinity' ELSE (now() AT TIME ZONE 'UTC')::date END, now() - interval '1 h', now() - interval '1 h', 1, 1, 3, $11)`,
			first+2+int64(i), text("queue"), text("kind"), state, text("key"), payload, metadata, text("tag"), failures, text("worker"), map[string]any{text("result"): text("result")})
	}
	queue(`INSERT INTO {schema}.job_progress (job_id, updated_at, attempt, progress) VALUES ($1, now(), 3, $2)`, first+1, map[string]any{text("progress"): text("progress")})
	queue(`INSERT INTO {schema}.queues (name, paused_at, paused_reason) VALUES ($1, now(), $2)`, text("queue"), text("reason"))
	for _, where := range []string{text("queue"), ""} {
		queue(`INSERT INTO {schema}.paused_kinds (queue, kind, reason) VALUES ($1, $2, $3)`, where, text("kind"), text("reason"))
	}
	counts := map[string]any{"workers": 2, "in_flight": 1, "buffered": 0, "stuck": 0}
	queue(`INSERT INTO {schema}.workers (started_at, seen_at, heartbeat_every, pid, stopping, id, host, version, queues, kinds)
		VALUES (now() - interval '1 h', now() + interval '1 h', '5 s', 17, false, $1, $2, $3, $4, $5)`, text("worker"), text("host"), text("version"),
		map[string]any{text("queue"): counts}, map[string]any{text("kind"): map[string]any{"workers": 2, "in_flight": map[string]int{text("queue"): 1}}})
	for i, spec := range []string{"@every 1h", text("spec")} {
		name, zone := text("schedule"), "UTC"
		if i == 1 {
			name, zone = name+" ", text("zone")
		}
		queue(`INSERT INTO {schema}.schedules (name, spec, time_zone, queue, kind, key, source, last_error, failures, payload, metadata, tags, next_run_at, last_run_at, last_job_id)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 3, $9, $10, ARRAY[$11], now() + interval '1 h', now() - interval '1 h', $12)`,
			name, spec, zone, text("queue"), text("kind"), text("key"), text("source"), text("last-error"), payload, metadata, text("tag"), first)
		queue(`INSERT INTO {schema}.schedule_ticks (tick, job_id, name) VALUES (now() - interval '1 h', $1, $2)`, first, name)
	}
	queue(`INSERT INTO {schema}.unique_keys (job_id, created_at, expires_at, queue, kind, key) VALUES ($1, now(), now() + interval '1 h', $2, $3, $4)`,
		first, text("queue"), text("kind"), "key:"+text("key"))
	for _, action := range []string{"retry", text("detail")} {
		queue(`INSERT INTO {schema}.audit (job_count, role, action, actor, via, queue, kind, subject, detail, filter, job_ids)
			VALUES (1, $1, $2, $1, $3, $4, $5, $6, $7, $8, ARRAY[$9::bigint])`, text("actor"), action, text("via"), text("queue"), text("kind"), text("subject"),
			text("detail"), map[string]any{"queue": text("queue"), "tags": []string{text("tag")}}, first)
	}
	// What is none of pgqueue's in its schema is a finding of the doctor.
	queue(`CREATE INDEX ` + pgx.Identifier{text("index")}.Sanitize() + ` ON {schema}.jobs (priority)`)
	if err := db.Pool.SendBatch(t.Context(), batch).Close(); err != nil {
		t.Fatalf("seed: %v", err)
	}
	return map[string]string{
		"id": strconv.FormatInt(first, 10), "queue": text("queue"), "kind": text("kind"), "name": text("schedule"), "worker": text("worker"),
		"field": "payload", "action": "retry", "operation": "none",
	}
}

// holdSnapshot keeps a transaction open under that application_name until the test ends: the doctor names who holds up vacuum.
func holdSnapshot(t testing.TB, db *pgqueuetest.DB, application string) {
	t.Helper()
	config, err := pgx.ParseConfig(db.URL)
	if err != nil {
		t.Fatal(err)
	}
	config.RuntimeParams["application_name"] = application
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(t.Context()) }) // ended by the server otherwise
	for _, sql := range []string{"BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT 1"} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(fmt.Errorf("hold a snapshot: %w", err))
		}
	}
}
