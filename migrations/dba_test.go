package migrations_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// dbaSample is the database from which the answers in docs/dba.md were taken: a shop in a bad night.
func dbaSample(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	for _, sql := range []string{
		`INSERT INTO pgqueue.jobs (queue, kind, run_at, created_at) SELECT 'mail', CASE WHEN g % 5 = 0 THEN 'send_invoice' ELSE 'send_welcome' END,
			now() - (400 - g) * interval '1 s', now() - (400 - g) * interval '1 s' FROM generate_series(1, 380) g`,
		`INSERT INTO pgqueue.jobs (queue, kind, priority, run_at) SELECT 'search', 'index_document', 4, now() - (30000 - g) * interval '0.1 s' FROM generate_series(1, 30000) g`,
		`INSERT INTO pgqueue.jobs (queue, kind, run_at) SELECT 'bulk', 'export_report', now() + interval '6 h' FROM generate_series(1, 12)`,
		`UPDATE pgqueue.jobs SET failures = 1, error_count = 1, attempt = 1, run_at = now() + interval '50 s',
			errors = jsonb_build_array(jsonb_build_object('code', 'smtp_timeout', 'message', 'no answer from the relay', 'attempt', 1, 'by', 'web-2-812-77aa01bc',
				'started', now() - interval '4 min', 'at', now() - interval '210 s')) WHERE queue = 'mail' AND id % 40 = 3`,
		`UPDATE pgqueue.jobs SET state = 'running', attempt = attempt + 1, claimed_generation = generation, claimed_by = 'web-1-4711-a1b2c3d4',
			claimed_at = now() - (id % 7 + 1) * interval '11.3 s', lease_expires_at = now() + interval '24 s' WHERE id IN (1, 2, 4, 5) OR queue = 'mail' AND id = 3`,
		`UPDATE pgqueue.jobs SET state = 'running', attempt = 1, claimed_generation = generation, claimed_by = 'web-3-99-00ff00ff',
			claimed_at = now() - interval '3 min 2 s', lease_expires_at = now() - interval '2 min 41 s' WHERE id = 400`,
		`INSERT INTO pgqueue.history (id, run_at, created_at, claimed_at, finished_at, day, attempt, generation, error_count, priority, failures,
				max_attempts, queue, kind, state, claimed_by, payload, metadata, tags)
			SELECT nextval('pgqueue.jobs_id_seq'), f - interval '1 s', f - interval '1 s', f - (50 + g % 100) * interval '1 ms', f, (f AT TIME ZONE 'UTC')::date, 1, 1, 0, 1, 0, 3,
				CASE WHEN g % 4 = 0 THEN 'search' ELSE 'mail' END, CASE WHEN g % 4 = 0 THEN 'index_document' WHEN g % 4 = 1 THEN 'send_invoice' ELSE 'send_welcome' END, 'succeeded',
				'web-1-4711-a1b2c3d4', '{"user_id": 1}', '{}', '{}' FROM generate_series(1, 5000) g, LATERAL (SELECT now() - (5000 - g) * interval '0.06 s' AS f) x`,
		`INSERT INTO pgqueue.history (id, run_at, created_at, claimed_at, finished_at, day, attempt, generation, error_count, priority, failures,
				max_attempts, queue, kind, state, claimed_by, payload, metadata, tags, errors)
			SELECT nextval('pgqueue.jobs_id_seq'), f, f, f, f, 'infinity', 3, 1, 3, 1, 3, 3, 'mail', CASE WHEN g % 3 = 0 THEN 'send_invoice' ELSE 'send_welcome' END,
				CASE WHEN g % 3 = 0 THEN 'failed' ELSE 'dead' END, 'web-2-812-77aa01bc', '{}', '{}', '{}',
				CASE WHEN g % 3 = 0 THEN '[{"code": "bad_address", "message": "the address has no @"}]'::jsonb ELSE '[{"code": "smtp_timeout", "message": "no answer from the relay"}]' END
			FROM generate_series(1, 40) g, LATERAL (SELECT now() - g * interval '4 min' AS f) x`,
		`SELECT pgqueue.pause('bulk', 'the warehouse is being migrated')`,
		`UPDATE pgqueue.queues SET paused_at = now() - interval '41 min'`,
		`SELECT pgqueue.heartbeat('web-1-4711-a1b2c3d4', 'web-1', 4711, 'shop 2.3.1', now() - interval '3 h', '10 s', false,
			'{"mail": {"workers": 5, "in_flight": 5, "buffered": 0, "stuck": 1, "paused_until": null}, "search": {"workers": 2, "in_flight": 0, "buffered": 0, "stuck": 0, "paused_until": null}}',
			'{"send_welcome": {"workers": 5, "in_flight": {"mail": 4}}, "send_invoice": {"workers": 5, "in_flight": {"mail": 1}}}')`,
		`SELECT pgqueue.heartbeat('web-3-99-00ff00ff', 'web-3', 99, 'shop 2.3.0', now() - interval '1 day', '10 s', false, '{"mail": {"workers": 5, "in_flight": 1}}', '{"send_welcome": {}}')`,
		`UPDATE pgqueue.workers SET seen_at = now() - interval '3 min' WHERE id LIKE 'web-3%'`,
		`SELECT pgqueue.pause_kind('send_newsletter', 'mail', now() + interval '25 min', 'the provider counts by the hour')`,
		`UPDATE pgqueue.paused_kinds SET paused_at = now() - interval '35 min'`,
		`INSERT INTO pgqueue.schedules (name, spec, time_zone, kind, queue, source, next_run_at, last_run_at, last_job_id, seen_at) VALUES
			('invoices', '30 6 * * 1-5', 'Europe/Berlin', 'send_invoice', 'mail', 'shop', now() + interval '14 h', now() - interval '10 h', 380, now()),
			('reindex', '@every 15m', 'UTC', 'index_document', 'search', 'shop', now() - interval '41 min', now() - interval '56 min', 30380, now() - interval '50 min')`,
		`INSERT INTO pgqueue.schedules (name, spec, time_zone, kind, next_run_at, failures, retry_at, last_error) VALUES
			('report', '0 25 * * *', 'UTC', 'export_report', NULL, 4, now() + interval '5 min', 'the hour must be from 0 to 23, is 25')`,
		`INSERT INTO pgqueue.schedule_ticks (name, tick, enqueued_at, job_id) SELECT 'reindex', t, t + interval '0.2 s', 30381 - g
			FROM generate_series(1, 8) g, LATERAL (SELECT now() - (41 + 15 * g) * interval '1 min' AS t) x`,
		`INSERT INTO pgqueue.unique_keys (queue, kind, key, job_id, created_at, expires_at) SELECT 'mail', 'send_welcome', 'key:user-' || g, g, now() - interval '5 min', now() + interval '1 day'
			FROM generate_series(1, 20) g`,
		`INSERT INTO pgqueue.job_progress (job_id, attempt, updated_at, progress) VALUES (5, 1, now() - interval '2 s', '{"done": 40, "of": 300}')`,
		`INSERT INTO pgqueue.audit (at, role, action, actor, via, job_count, job_ids, queue, subject, detail) VALUES
			(now() - interval '42 min', 'on_call', 'schedule_enable', 'bob', 'cli', 0, '{}', NULL, 'reindex', NULL),
			(now() - interval '41 min', 'on_call', 'pause', 'bob', 'cli', 0, '{}', 'bulk', NULL, 'the warehouse is being migrated'),
			(now() - interval '1 min', 'console', 'retry', 'alice', 'console', 3, '{17, 18, 19}', NULL, NULL, NULL)`,
		`ANALYZE pgqueue.jobs, pgqueue.history`,
	} {
		run(t, pool, sql)
	}
	// A report that somebody left open, which holds vacuum back.
	report := named(t, pool, "report")
	tx, err := report.BeginTx(testContext(t), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	_ = value[int](t, tx, `SELECT count(*) FROM pgqueue.job_log`)
	run(t, pool, `SELECT pgqueue.heartbeat(id, host, pid, version, NULL, heartbeat_every, stopping, queues, kinds) FROM pgqueue.live_workers`)
}

// dbaBlock is a piece of SQL in docs/dba.md and the answer below it.
type dbaBlock struct {
	sql    string
	answer []string // lines; the first names the columns
}

func dbaBlocks(t *testing.T) []dbaBlock {
	t.Helper()
	text, err := os.ReadFile("../docs/dba.md")
	if err != nil {
		t.Fatal(err)
	}
	var blocks []dbaBlock
	for _, part := range strings.Split(string(text), "```sql\n")[1:] {
		sql, rest, _ := strings.Cut(part, "```\n")
		block := dbaBlock{sql: sql}
		if answer, found := strings.CutPrefix(rest, "\n```text\n"); found {
			answer, _, _ = strings.Cut(answer, "```")
			block.answer = strings.Split(answer, "\n")
		}
		blocks = append(blocks, block)
	}
	return blocks
}

// Every statement of docs/dba.md works, in the order of the page, and has the columns that the page shows.
func TestTheStatementsOfTheDBAPage(t *testing.T) {
	pool := installed(t, "")
	dbaSample(t, pool)
	blocks := dbaBlocks(t)
	if len(blocks) < 28 {
		t.Fatalf("only %d statements found", len(blocks))
	}
	answered := 0
	for _, block := range blocks {
		tx, err := pool.Begin(testContext(t))
		if err != nil {
			t.Fatal(err)
		}
		for _, statement := range strings.SplitAfter(block.sql, ";\n") {
			if strings.TrimSpace(statement) == "" {
				continue
			}
			result, err := tx.Query(testContext(t), statement)
			if err != nil {
				t.Fatalf("%s: %v", statement, err)
			}
			var columns []string
			for _, field := range result.FieldDescriptions() {
				columns = append(columns, field.Name)
			}
			n := 0
			for result.Next() {
				n++
			}
			if err := result.Err(); err != nil {
				t.Errorf("%s: %v", statement, err)
			}
			if len(block.answer) == 0 {
				continue
			}
			answered++
			var shown []string
			for _, name := range strings.Split(block.answer[0], "|") {
				shown = append(shown, strings.TrimSpace(name))
			}
			if !slices.Equal(columns, shown) {
				t.Errorf("%s: the columns are %q, the page shows %q", statement, columns, shown)
			}
			if n == 0 && !strings.Contains(strings.Join(block.answer, "\n"), "(0 rows)") {
				t.Errorf("%s: no rows, and the page shows some", statement)
			}
		}
		if err := tx.Commit(testContext(t)); err != nil {
			t.Errorf("%s: %v", block.sql, err)
		}
	}
	if answered < 10 {
		t.Errorf("only %d answers found", answered)
	}
}
