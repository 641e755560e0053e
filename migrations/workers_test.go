package migrations_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

func TestHeartbeatAndGoodbye(t *testing.T) {
	pool := installed(t, "")
	list := func() string {
		return strings.Join(rows(t, pool, `SELECT concat_ws(' ', id, host, pid, version, stopping, workers, in_flight, buffered, stuck) FROM pgqueue.live_workers ORDER BY id`), "; ")
	}
	run(t, pool, `SELECT pgqueue.heartbeat('w1', 'host', 7, 'v1', NULL, '10 s', false, '{"mail": {"workers": 10, "in_flight": 3, "buffered": 2, "stuck": 1}, "bulk": {"workers": 2, "in_flight": 1}}', '{}')`)
	run(t, pool, `SELECT pgqueue.heartbeat('w2', NULL, NULL, NULL, '2020-01-01Z', '10 s', NULL, '{"mail": {"workers": "many", "in_flight": null, "stuck": -1}, "bulk": 7}', '{}')`)
	if got := list(); got != "w1 host 7 v1 f 12 4 2 1; w2  0  f 0 0 0 0" {
		t.Errorf("live workers: %s", got)
	}
	// The start stays where the worker does not tell it; everything else is as it was told last.
	before := value[string](t, pool, `SELECT started_at::text FROM pgqueue.workers WHERE id = 'w1'`)
	run(t, pool, `SELECT pgqueue.heartbeat('w1', 'other', 8, 'v2', NULL, '5 s', true, '{}', '{"k": {}}')`)
	if got := value[string](t, pool, `SELECT concat_ws(' ', host, pid, version, heartbeat_every, stopping, queues, kinds, seen_at > started_at) FROM pgqueue.workers WHERE id = 'w1'`); got != `other 8 v2 00:00:05 t {} {"k": {}} t` {
		t.Errorf("after the second report: %s", got)
	}
	if after := value[string](t, pool, `SELECT started_at::text FROM pgqueue.workers WHERE id = 'w1'`); after != before {
		t.Errorf("it started at %s, then at %s", before, after)
	}
	run(t, pool, `SELECT pgqueue.goodbye('w1'), pgqueue.goodbye('nobody')`)
	if got := list(); got != "w2  0  f 0 0 0 0" {
		t.Errorf("after the goodbye: %s", got)
	}
	for call, field := range map[string]string{
		`'', 'h', 1, '', NULL, '10 s', false, '{}', '{}'`:                                           "id",
		`NULL, 'h', 1, '', NULL, '10 s', false, '{}', '{}'`:                                         "id",
		`repeat('i', 256), 'h', 1, '', NULL, '10 s', false, '{}', '{}'`:                             "id",
		`'i', repeat('h', 256), 1, '', NULL, '10 s', false, '{}', '{}'`:                             "host",
		`'i', 'h', 1, repeat('v', 256), NULL, '10 s', false, '{}', '{}'`:                            "version",
		`'i', 'h', 1, '', NULL, '0.9 s', false, '{}', '{}'`:                                         "every",
		`'i', 'h', 1, '', NULL, NULL, false, '{}', '{}'`:                                            "every",
		`'i', 'h', 1, '', NULL, '10 s', false, '[]', '{}'`:                                          "queues",
		`'i', 'h', 1, '', NULL, '10 s', false, '{}', NULL`:                                          "kinds",
		`'i', 'h', 1, '', NULL, '10 s', false, jsonb_build_object('q', repeat('x', 1048577)), '{}'`: "queues",
	} {
		_, err := pool.Exec(testContext(t), `SELECT pgqueue.heartbeat(`+call+`)`)
		var pgErr *pgconn.PgError
		if !errors.As(err, &pgErr) || pgErr.Code != "22023" || pgErr.ColumnName != field || !strings.Contains(pgErr.Message, field) {
			t.Errorf("%s: %v", call, err)
		}
	}
}

// Who is silent is no longer live after three intervals, and no longer there after an hour; a locked row delays nobody.
func TestWorkersThatAreGone(t *testing.T) {
	pool := installed(t, "")
	run(t, pool, `INSERT INTO pgqueue.workers SELECT now(), now() - ago::interval, interval '10 s', 1, false, id, '', '', '{}'::jsonb, '{}'::jsonb
		FROM (VALUES ('fresh', '25 s'), ('silent', '31 s'), ('old', '59 min'), ('gone', '61 min'), ('gone, locked', '61 min')) v (id, ago)
		UNION ALL SELECT now(), now() - interval '2 h', '10 s', 1, false, 'many' || g, '', '', '{}', '{}' FROM generate_series(1, 150) g`)
	if got := strings.Join(rows(t, pool, `SELECT id FROM pgqueue.live_workers`), " "); got != "fresh" {
		t.Errorf("live: %s", got)
	}
	blocker(t, pool, `SELECT FROM pgqueue.workers WHERE id = 'gone, locked' FOR UPDATE`)
	hasty := named(t, pool, "worker")
	for _, left := range []int{155 + 1 - 100, 5} { // 100 a time
		beat(t, hasty, "new", `{}`, `{}`)
		if n := value[int](t, pool, `SELECT count(*) FROM pgqueue.workers`); n != left {
			t.Errorf("%d workers are left, want %d", n, left)
		}
	}
	if got := strings.Join(rows(t, pool, `SELECT id FROM pgqueue.workers ORDER BY id`), " "); got != "fresh gone, locked new old silent" {
		t.Errorf("left: %s", got)
	}
}

// C121, the SQL of it: reports are HOT, so that they clean up after themselves, and one statement writes one row.
func TestC121_ReportsAreHOT(t *testing.T) {
	pool := installed(t, "")
	const workers = 20
	for i := range manyOr(50, 1000) {
		for worker := range workers {
			beat(t, pool, fmt.Sprintf("worker %d", worker), fmt.Sprintf(`{"mail": {"workers": 10, "in_flight": %d}}`, i%10), `{"send": {"workers": 5, "in_flight": {"mail": 2}}}`)
		}
	}
	waitFor(t, pool, "the statistics", `EXISTS (SELECT FROM pg_stat_user_tables WHERE relid = 'pgqueue.workers'::regclass AND n_tup_upd >= $1)`, workers*49)
	updates := value[string](t, pool, `SELECT concat_ws(' ', n_tup_hot_upd >= 0.9 * n_tup_upd, n_tup_ins, n_tup_hot_upd, n_tup_upd) FROM pg_stat_user_tables WHERE relid = 'pgqueue.workers'::regclass`)
	if !strings.HasPrefix(updates, "t 20 ") {
		t.Errorf("HOT enough, inserted, HOT, updated: %s", updates)
	}
	if size := value[int](t, pool, `SELECT pg_relation_size('pgqueue.workers') + pg_relation_size('pgqueue.workers_pkey')`); size > 20*8192 {
		t.Errorf("the table of %d rows has %d bytes", workers, size)
	}
}
