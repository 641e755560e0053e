package migrations_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/migrations"
)

// fillVersion writes n rows of everything that a version can hold: each state, with and without all that may be NULL.
func fillVersion(t *testing.T, pool *pgxpool.Pool, version uint, n int) {
	t.Helper()
	run(t, pool, `INSERT INTO pgqueue.jobs (queue, kind, state, attempt, claimed_at, claimed_generation, claimed_by, lease_expires_at, cancel_requested_at,
			key, revision, payload, metadata, tags, priority, errors, error_count, failures)
		SELECT 'q' || g % 3, 'k' || g % 5, CASE WHEN g % 2 = 0 THEN 'pending' ELSE 'running' END, g % 4,
			CASE WHEN g % 2 = 1 THEN now() END, 1, CASE WHEN g % 4 = 1 THEN 'w' END, CASE WHEN g % 2 = 1 THEN now() END,
			CASE WHEN g % 7 = 0 THEN now() END, CASE WHEN g % 3 = 0 THEN 'key' || g END, CASE WHEN g % 6 = 0 THEN 'r' END,
			CASE WHEN g % 5 = 0 THEN 'null'::jsonb ELSE '{"n": 1}' END, '{}', CASE WHEN g % 2 = 0 THEN '{a,b}'::text[] ELSE '{}' END, 1 + g % 4,
			CASE WHEN g % 9 = 0 THEN '[{"code": "c", "attempt": 1}]'::jsonb END, (g % 9 = 0)::int, g % 3
		FROM generate_series(1, $1::int) g`, n)
	run(t, pool, `INSERT INTO pgqueue.history (id, run_at, created_at, claimed_at, finished_at, day, attempt, generation, error_count, priority, failures,
			max_attempts, queue, kind, state, claimed_by, key, revision, payload, metadata, tags, errors, result)
		SELECT g, now(), now(), CASE WHEN g % 2 = 0 THEN now() END, now(),
			CASE WHEN s.state IN ('failed', 'dead') THEN 'infinity' ELSE (now() AT TIME ZONE 'UTC')::date END, 1, 1, 0, 1, 0, 3, 'q' || g % 3, 'k', s.state,
			CASE WHEN g % 3 = 0 THEN 'w' END, CASE WHEN g % 5 = 0 THEN 'key' END, CASE WHEN g % 10 = 0 THEN 'r' END, '{}', '{}', '{}',
			CASE WHEN g % 4 = 0 THEN '[{"code": "c"}]'::jsonb END, CASE WHEN g % 6 = 0 THEN '1'::jsonb END
		FROM generate_series(1, $1::int) g CROSS JOIN LATERAL (SELECT (ARRAY['succeeded', 'cancelled', 'failed', 'dead'])[1 + g % 4] AS state) s`, n)
	run(t, pool, `INSERT INTO pgqueue.queues (name, paused_at, paused_reason, history)
		SELECT 'queue' || g, CASE WHEN g % 2 = 0 THEN now() END, CASE WHEN g % 4 = 0 THEN 'down' END, (ARRAY['full', 'slim', 'off'])[1 + g % 3]
		FROM generate_series(1, $1::int) g`, min(n, 1000))
	if version >= 3 {
		run(t, pool, `SELECT pgqueue.heartbeat('w' || g, 'h', 1, '', now(), '10 s', false, '{}', '{}') FROM generate_series(1, 100) g`)
		run(t, pool, `SELECT pgqueue.cached_stats('0')`)
	}
	if version >= 4 {
		run(t, pool, `UPDATE pgqueue.queues SET paused_until = now() + interval '1 h' WHERE paused_at IS NOT NULL`)
		run(t, pool, `SELECT pgqueue.pause_kind('k' || g, nullif('q' || g % 3, 'q0'), CASE WHEN g % 2 = 0 THEN now() + interval '1 h' END, 'why') FROM generate_series(1, 100) g`)
		run(t, pool, `INSERT INTO pgqueue.unique_keys (queue, kind, key, job_id, created_at, expires_at) SELECT 'q', 'k', 'key:' || g, g, now(), now() FROM generate_series(1, $1::int) g`, n)
		run(t, pool, `INSERT INTO pgqueue.job_progress (job_id, attempt, updated_at, progress) SELECT g, 1, now(), '1' FROM generate_series(1, 100) g`)
		run(t, pool, `INSERT INTO pgqueue.schedules (name, spec, kind, next_run_at) SELECT 's' || g, '@daily', 'k', CASE WHEN g % 2 = 0 THEN now() END FROM generate_series(1, 100) g`)
		run(t, pool, `INSERT INTO pgqueue.schedule_ticks (name, tick, job_id) SELECT 's' || g, now(), CASE WHEN g % 2 = 0 THEN g END FROM generate_series(1, 100) g`)
	}
}

// C93: from each version with data to the last, down to nothing, and up again.
func TestC93_UpWithDataDownAndUpAgain(t *testing.T) {
	n := size(200, 10000)
	for version := uint(1); version <= migrations.Latest; version++ {
		t.Run(fmt.Sprintf("version %d", version), func(t *testing.T) {
			pool := newPool(t, newDatabase(t), nil)
			run(t, pool, `CREATE SCHEMA pgqueue; CREATE TYPE pgqueue.theirs AS ENUM ('a')`)
			before := objects(t, pool, "pgqueue")
			files, err := copyFiles("pgqueue")
			if err != nil {
				t.Fatal(err)
			}
			if err := migrations.UpWith(testContext(t), pool, "", migrations.Source{Files: files, Latest: version}); err != nil {
				t.Fatal(err)
			}
			fillVersion(t, pool, version, n)
			const count = `SELECT concat_ws(' ', (SELECT count(*) FROM pgqueue.jobs), (SELECT count(*) FROM pgqueue.history), (SELECT count(*) FROM pgqueue.queues),
				(SELECT md5(string_agg(to_jsonb(j)::text, '' ORDER BY id)) FROM pgqueue.jobs j))`
			had := value[string](t, pool, count)
			mustUp(t, pool, "")
			requireNoDrift(t, pool, "")
			if has := value[string](t, pool, count); has != had {
				t.Errorf("the rows were %s and are %s", had, has)
			}
			mustRunAJob(t, pool, "", "mine")

			if err := migrations.Down(testContext(t), pool, "", quiet(), migrations.DiscardJobs()); err != nil {
				t.Fatal(err)
			}
			if after := objects(t, pool, "pgqueue"); !slices.Equal(before, after) {
				t.Errorf("down left or took something:\nbefore %q\nafter  %q", before, after)
			}
			mustUp(t, pool, "")
			requireNoDrift(t, pool, "")
			mustRunAJob(t, pool, "", "mine")
		})
	}
}
