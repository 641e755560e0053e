package migrations_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

const numbers = `concat_ws(' ', queue, ready1, ready2, ready3, ready4, round(oldest_ready_seconds::numeric, -1), scheduled, retrying, running, expired, failed, dead, capped)`

// sample fills three queues with something of everything.
func sample(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	run(t, pool, `INSERT INTO pgqueue.jobs (queue, kind, priority, run_at, failures, state, claimed_at, lease_expires_at)
		SELECT queue, 'k', priority, now() + due * interval '1 minute', failures, state, now() - interval '1 h', now() + lease * interval '1 minute'
		FROM (VALUES ('mail', 1, -5, 0, 'pending', NULL, 3), ('mail', 2, -60, 2, 'pending', NULL, 1), ('mail', 4, -1, 0, 'pending', NULL, 2),
		             ('mail', 1, 5, 0, 'pending', NULL, 4), ('mail', 3, 5, 1, 'pending', NULL, 5),
		             ('mail', 1, -9, 0, 'running', 5, 6), ('mail', 1, -9, 0, 'running', -5, 7),
		             ('only running', 1, 0, 0, 'running', 5, 1)) v (queue, priority, due, failures, state, lease, n)
		     CROSS JOIN LATERAL generate_series(1, n)`)
	run(t, pool, `INSERT INTO pgqueue.jobs (queue, kind, run_at) VALUES ('endless', 'k', '-infinity'), ('endless', 'k', 'infinity')`)
	run(t, pool, `INSERT INTO pgqueue.history (id, run_at, created_at, finished_at, day, attempt, generation, error_count, priority, failures,
			max_attempts, queue, kind, state, payload, metadata, tags)
		SELECT 1000 + g, now(), now(), now(), 'infinity', 1, 1, 1, 1, 1, 1, CASE WHEN g <= 5 THEN 'mail' ELSE 'only dead' END, 'k',
			CASE WHEN g IN (1, 2) THEN 'failed' ELSE 'dead' END, '{}', '{}', '{}' FROM generate_series(1, 6) g`)
	run(t, pool, `SELECT pgqueue.pause('paused', 'why')`)
	run(t, pool, `INSERT INTO pgqueue.queues (name, history) VALUES ('mail', 'slim')`)
}

var sampled = []string{
	"endless 1 0 0 0 0 1 0 0 0 0 0 f", "mail 3 1 0 2 3600 4 5 13 7 2 3 f", "only dead 0 0 0 0 0 0 0 0 0 0 1 f", "only running 0 0 0 0 0 0 0 1 0 0 0 f", "paused 0 0 0 0 0 0 0 0 0 0 0 f",
}

func TestQueueStats(t *testing.T) {
	pool := installed(t, "")
	if got := rows(t, pool, `SELECT queue FROM pgqueue.queue_stats`); len(got) > 0 {
		t.Errorf("of an empty database: %q", got)
	}
	sample(t, pool)
	if got := rows(t, pool, `SELECT `+numbers+` FROM pgqueue.queue_stats ORDER BY queue`); strings.Join(got, "\n") != strings.Join(sampled, "\n") {
		t.Errorf("queue_stats:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(sampled, "\n"))
	}
	if got := rows(t, pool, `SELECT `+numbers+` FROM pgqueue.cached_stats('0') ORDER BY queue`); strings.Join(got, "\n") != strings.Join(sampled, "\n") {
		t.Errorf("cached_stats:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(sampled, "\n"))
	}
	if got := strings.Join(rows(t, pool, `SELECT concat_ws(' ', queue, ready, paused_at IS NOT NULL, paused_reason, history) FROM pgqueue.queue_stats WHERE queue IN ('mail', 'paused') ORDER BY queue`), ", "); got != "mail 6 f slim, paused 0 t why full" {
		t.Errorf("beside the numbers: %s", got)
	}
	if got := strings.Join(rows(t, pool, `SELECT q FROM pgqueue.queue_names(3) q`), " "); got != "endless mail only dead" {
		t.Errorf("the first three queues: %s", got)
	}
	for _, most := range []string{"NULL", "-1"} {
		for function, sql := range map[string]string{
			"queue_names": `SELECT count(*) FROM pgqueue.queue_names(` + most + `)`, "count_queues": `SELECT count(*) FROM pgqueue.count_queues('{mail}', ` + most + `)`,
		} {
			var refused *pgconn.PgError
			if _, err := pool.Exec(testContext(t), sql); !errors.As(err, &refused) || refused.Code != "22023" || refused.ColumnName != "most" ||
				refused.Message != function+": most must not be negative, but is "+most {
				t.Errorf("%s: %v", sql, err)
			}
		}
	}
	if got := rows(t, pool, `SELECT q FROM pgqueue.queue_names(0) q`); len(got) != 0 {
		t.Errorf("no queues: %q", got)
	}
}

// What a statement reads is counted by the server: no table is read from end to end, and of the indexes no more than the bound.
func TestQueueStats_AreBoundedAndByIndex(t *testing.T) {
	n := manyOr(200_000, 2_000_000)
	pool := installed(t, "")
	run(t, pool, `ALTER TABLE pgqueue.jobs SET (autovacuum_enabled = off); ALTER TABLE pgqueue.history_attention SET (autovacuum_enabled = off)`)
	run(t, pool, `SELECT pgqueue.enqueue('k')`)
	run(t, pool, `ANALYZE pgqueue.jobs, pgqueue.history_attention`) // statistics of an idle hour
	run(t, pool, `INSERT INTO pgqueue.jobs (queue, kind, priority, run_at, failures, state, claimed_at, lease_expires_at)
		SELECT 'q' || g % 4, 'k', 1 + g % 2, now() + CASE WHEN g % 3 = 0 THEN 1 ELSE -1 END * interval '1 h', g / 3 % 2,
			CASE WHEN g % 3 = 2 THEN 'running' ELSE 'pending' END, now() - interval '1 h', now() + interval '1 h' FROM generate_series(1, $1::int) g`, n)
	run(t, pool, `INSERT INTO pgqueue.history (id, run_at, created_at, finished_at, day, attempt, generation, error_count, priority, failures,
			max_attempts, queue, kind, state, payload, metadata, tags)
		SELECT g, now(), now(), now() - g * interval '1 s', 'infinity', 1, 1, 1, 1, 1, 1, 'q' || g % 4, 'k', 'dead', '{}', '{}', '{}' FROM generate_series(1, $1::int / 2) g`, n)
	for _, analyzed := range []bool{false, true} {
		if analyzed {
			run(t, pool, `VACUUM ANALYZE pgqueue.jobs, pgqueue.history_attention`)
		}
		for sql, queues := range map[string]int{
			`SELECT count(*) FILTER (WHERE capped)::int FROM pgqueue.queue_stats`:                    5,
			`SELECT count(*) FILTER (WHERE capped)::int FROM pgqueue.queue_stats WHERE queue = 'q2'`: 1,
			`SELECT count(*) FILTER (WHERE capped)::int FROM pgqueue.cached_stats('0')`:              5,
		} {
			tx, err := pool.Begin(testContext(t))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
			// The session sees how often it scanned a table, and how much it read of each index.
			const scans = `SELECT sum(pg_stat_get_xact_numscans(c)) FROM unnest(ARRAY['pgqueue.jobs', 'pgqueue.history_attention']::regclass[]) c`
			const read = `SELECT sum(pg_stat_get_xact_tuples_returned(indexrelid)) FROM pg_index WHERE indrelid IN ('pgqueue.jobs'::regclass, 'pgqueue.history_attention'::regclass)`
			scans0, read0 := value[int64](t, tx, scans), value[int64](t, tx, read)
			capped := value[int](t, tx, sql)
			scanned, entries := value[int64](t, tx, scans)-scans0, value[int64](t, tx, read)-read0
			_ = tx.Rollback(context.Background())
			if want := min(queues, 4); capped != want || scanned != 0 || entries > int64(queues*40_100) || entries < 10_000 {
				t.Errorf("analyzed %v: %s: %d capped (want %d), %d scans of whole tables, %d index entries read", analyzed, sql, capped, want, scanned, entries)
			}
		}
	}
	if got := value[string](t, pool, `SELECT concat_ws(' ', ready1 + ready2, scheduled + retrying BETWEEN 10000 AND 10001, running, dead, capped) FROM pgqueue.queue_stats WHERE queue = 'q1'`); got != "10000 t 10000 10000 t" {
		t.Errorf("q1: %s", got)
	}
}

// Ten callers at once count once, and none waits for the one that counts.
func TestCachedStats_CountOnceForAll(t *testing.T) {
	pool := newPool(t, newDatabase(t), func(config *pgxpool.Config) { config.MaxConns = 12 })
	mustUp(t, pool, "")
	sample(t, pool)
	// Each count leaves a mark, and takes its time: whoever is the first counts until all others have had their answer.
	run(t, pool, `CREATE SEQUENCE public.counted; CREATE FUNCTION public.mark() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		PERFORM nextval('public.counted'), pg_advisory_xact_lock_shared(4712); RETURN NEW; END $$;
		CREATE TRIGGER mark BEFORE UPDATE ON pgqueue.stats_cache FOR EACH ROW EXECUTE FUNCTION public.mark()`)
	counted := func() int {
		return value[int](t, pool, `SELECT CASE WHEN is_called THEN last_value ELSE 0 END::int FROM public.counted`)
	}
	ask := func(age string) (int, error) {
		var n int
		err := pool.QueryRow(testContext(t), `SELECT count(*) FROM pgqueue.cached_stats($1::text::interval)`, age).Scan(&n)
		return n, err
	}
	round := func(others, first int) {
		t.Helper()
		release := blocker(t, pool, `SELECT pg_advisory_xact_lock(4712)`)
		type answer struct {
			n   int
			err error
		}
		answers := make(chan answer, 10)
		for range 10 {
			go func() {
				n, err := ask("1 h")
				answers <- answer{n, err}
			}()
		}
		for range 9 {
			if a := <-answers; a.err != nil || a.n != others {
				t.Errorf("while one counts, the others get %d queues, %v; want %d", a.n, a.err, others)
			}
		}
		release()
		if a := <-answers; a.err != nil || a.n != first {
			t.Errorf("the one that counted got %d queues, %v; want %d", a.n, a.err, first)
		}
	}
	round(0, 5)
	if n := counted(); n != 1 {
		t.Errorf("counted %d times, want once", n)
	}
	run(t, pool, `SELECT pgqueue.pause('new')`)
	for range 20 {
		if n, err := ask("1 h"); err != nil || n != 5 {
			t.Errorf("from the cache: %d, %v", n, err)
		}
	}
	run(t, pool, `ALTER TABLE pgqueue.stats_cache DISABLE TRIGGER mark; UPDATE pgqueue.stats_cache SET taken_at = now() - interval '61 min'; ALTER TABLE pgqueue.stats_cache ENABLE TRIGGER mark`)
	round(5, 6)
	if n := counted(); n != 2 {
		t.Errorf("counted %d times, want twice", n)
	}
	// However the ten meet, it is once.
	for n := range 40 {
		run(t, pool, `ALTER TABLE pgqueue.stats_cache DISABLE TRIGGER mark; UPDATE pgqueue.stats_cache SET taken_at = now() - interval '61 min'; ALTER TABLE pgqueue.stats_cache ENABLE TRIGGER mark`)
		answers := make(chan error, 10)
		for range 10 {
			go func() {
				_, err := ask("1 h")
				answers <- err
			}()
		}
		for range 10 {
			if err := <-answers; err != nil {
				t.Fatal(err)
			}
		}
		if got := counted(); got != n+3 {
			t.Fatalf("counted %d times in %d rounds", got, n+3)
		}
	}
	if young := value[bool](t, pool, `SELECT bool_and(taken_at > statement_timestamp() - interval '2 min') FROM pgqueue.cached_stats('1 h')`); !young {
		t.Error("taken_at is not the time of the count")
	}
}

// Whoever holds the row, and for how long, the numbers before are what everybody gets, at once.
func TestCachedStats_ALockedRowBlocksNobody(t *testing.T) {
	pool := installed(t, "")
	sample(t, pool)
	run(t, pool, `SELECT pgqueue.cached_stats('0')`)
	run(t, pool, `SELECT pgqueue.pause('new')`)
	hasty := named(t, pool, "metrics")
	for _, lock := range []string{`SELECT FROM pgqueue.stats_cache FOR UPDATE`, `SELECT FROM pgqueue.stats_cache FOR KEY SHARE`, `UPDATE pgqueue.stats_cache SET stats = '[]'`} {
		release := blocker(t, pool, lock)
		if n := value[int](t, hasty, `SELECT count(*) FROM pgqueue.cached_stats('0')`); n != 5 {
			t.Errorf("%s: %d queues, want the 5 from before", lock, n)
		}
		release()
	}
	if n := value[int](t, hasty, `SELECT count(*) FROM pgqueue.cached_stats('0')`); n != 6 {
		t.Errorf("after the lock: %d queues, want 6", n)
	}
}

func TestCachedStats_InEveryKindOfTransaction(t *testing.T) {
	pool := installed(t, "")
	sample(t, pool)
	for _, options := range []pgx.TxOptions{{AccessMode: pgx.ReadOnly}, {IsoLevel: pgx.RepeatableRead}, {IsoLevel: pgx.Serializable}} {
		tx, err := pool.BeginTx(testContext(t), options)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
		for range 2 {
			if n := value[int](t, tx, `SELECT count(*) FROM pgqueue.cached_stats('0')`); n != 5 {
				t.Errorf("%+v: %d queues", options, n)
			}
			run(t, pool, `SELECT pgqueue.cached_stats('0')`) // the row changes under the old snapshot
		}
		if err := tx.Commit(testContext(t)); err != nil {
			t.Errorf("%+v: %v", options, err)
		}
	}
}

// A row that is gone, from the future or full of nonsense is put right, and bad arguments are refused.
func TestCachedStats_PutsItsRowRight(t *testing.T) {
	pool := installed(t, "")
	sample(t, pool)
	for _, harm := range []string{`DELETE FROM pgqueue.stats_cache`, `UPDATE pgqueue.stats_cache SET taken_at = now() + interval '1 day', stats = '[]'`, `UPDATE pgqueue.stats_cache SET taken_at = 'infinity', stats = '[]'`} {
		run(t, pool, harm)
		for range 2 {
			if n := value[int](t, pool, `SELECT count(*) FROM pgqueue.cached_stats('1 h') WHERE taken_at BETWEEN now() - interval '1 min' AND clock_timestamp()`); n != 5 {
				t.Errorf("after %s: %d queues", harm, n)
			}
		}
	}
	for _, age := range []string{`NULL`, `'-1 s'`} {
		_, err := pool.Exec(testContext(t), `SELECT pgqueue.cached_stats(`+age+`)`)
		var pgErr *pgconn.PgError
		if !errors.As(err, &pgErr) || pgErr.Code != "22023" || pgErr.ColumnName != "max_age" {
			t.Errorf("max_age %s: %v", age, err)
		}
	}
}
