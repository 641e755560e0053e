package migrations_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// noticing gives a pool that keeps the warnings of the server.
func noticing(t *testing.T, pool *pgxpool.Pool) (*pgxpool.Pool, *[]string) {
	t.Helper()
	var warnings []string
	return newPool(t, pool.Config().ConnString(), func(config *pgxpool.Config) {
		config.MaxConns = 1
		config.ConnConfig.OnNotice = func(_ *pgconn.PgConn, notice *pgconn.Notice) {
			warnings = append(warnings, notice.Severity+" "+notice.Message+" "+notice.Detail)
		}
	}), &warnings
}

// dead puts n dead jobs into history, 1 the oldest, all of them expired.
func dead(t *testing.T, pool *pgxpool.Pool, n int) {
	t.Helper()
	run(t, pool, `INSERT INTO pgqueue.history (id, run_at, created_at, finished_at, day, attempt, generation, error_count, priority, failures,
			max_attempts, queue, kind, state, payload, metadata, tags)
		SELECT g, now(), now(), now() - interval '200 days' + g / 3 * interval '1 s', 'infinity', 1, 1, 1, 1, 1, 1, 'q', 'k', 'dead', '{}', '{}', '{}' FROM generate_series(1, $1::int) g`, n)
}

// maintain calls expire_attention as a worker's upkeep does, and says how often.
func maintain(t *testing.T, pool *pgxpool.Pool) int {
	t.Helper()
	for calls := 1; ; calls++ {
		if value[int](t, pool, `SELECT pgqueue.expire_attention('90 days')`) < 1000 {
			return calls
		}
	}
}

// C118: an application's foreign key holds the oldest of ten thousand expired rows.
func TestC118_OneUndeletableRowDoesNotStopCleanup(t *testing.T) {
	for _, deferrable := range []string{"", "DEFERRABLE INITIALLY DEFERRED", "ON DELETE RESTRICT"} {
		t.Run(deferrable, func(t *testing.T) { oneUndeletableRow(t, deferrable) })
	}
}

func oneUndeletableRow(t *testing.T, deferrable string) {
	pool := installed(t, "")
	dead(t, pool, 10_000)
	run(t, pool, `CREATE TABLE public.invoices (job bigint, day date DEFAULT 'infinity', FOREIGN KEY (job, day) REFERENCES pgqueue.history_attention (id, day) `+deferrable+`)`)
	run(t, pool, `INSERT INTO public.invoices VALUES (1)`)
	hearing, warnings := noticing(t, pool)
	if calls := maintain(t, hearing); calls != 10 {
		t.Errorf("%d calls, want 10: nine full ones, and one that finds 999", calls)
	}
	if left := rows(t, pool, `SELECT id::text FROM pgqueue.history`); !slices.Equal(left, []string{"1"}) {
		t.Errorf("%d rows are left, want the one that is held", len(left))
	}
	if len(*warnings) != 10 || !strings.HasPrefix((*warnings)[0], "WARNING pgqueue: expire_attention left 1 expired jobs where they are, because something else holds on to them ") ||
		!strings.Contains((*warnings)[0], "invoices") {
		t.Errorf("warnings: %q", *warnings)
	}
	// The next pass looks at one row, and is told so again.
	if calls := maintain(t, hearing); calls != 1 || len(*warnings) != 11 {
		t.Errorf("the next pass: %d calls, %d warnings", calls, len(*warnings))
	}
	run(t, pool, `DELETE FROM public.invoices`)
	if maintain(t, pool); value[int](t, pool, `SELECT count(*) FROM pgqueue.history`) != 0 {
		t.Error("the row stays although nothing holds it any more")
	}
}

// However many rows are held, by whatever: what is not held goes, the tries are bounded, and so are the subtransactions.
func TestC118_ManyUndeletableRows(t *testing.T) {
	for _, c := range []struct {
		name, held string
		left       int // at most, after two passes
	}{
		{"every third of the first thousand", `g <= 1000 AND g % 3 = 0`, 1000}, {"scattered", `g % 400 = 7`, 13}, {"the first two thousand", `g <= 2000`, 2000}, {"all", `true`, 5000},
	} {
		t.Run(c.name, func(t *testing.T) {
			pool := installed(t, "")
			dead(t, pool, 5000)
			run(t, pool, `CREATE TABLE public.held AS SELECT g AS id FROM generate_series(1, 5000) g WHERE `+c.held)
			run(t, pool, `CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
				IF EXISTS (SELECT FROM public.held h WHERE h.id = OLD.id) THEN RAISE EXCEPTION 'job % is wanted', OLD.id; END IF; RETURN OLD; END $$;
				CREATE TRIGGER refuse BEFORE DELETE ON pgqueue.history_attention FOR EACH ROW EXECUTE FUNCTION public.refuse()`)
			maintain(t, pool)
			maintain(t, pool)
			if lost := value[int](t, pool, `SELECT count(*) FROM public.held h WHERE NOT EXISTS (SELECT FROM pgqueue.history x WHERE x.id = h.id)`); lost != 0 {
				t.Errorf("%d rows that were held are gone", lost)
			}
			if left := value[int](t, pool, `SELECT count(*) FROM pgqueue.history`); left > c.left {
				t.Errorf("%d rows are left, want at most %d", left, c.left)
			}
		})
	}
}

// An error that says nothing about single rows is not swallowed.
func TestExpireAttention_OtherErrorsReachTheCaller(t *testing.T) {
	pool := installed(t, "")
	dead(t, pool, 10)
	run(t, pool, `CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM 1 / 0; RETURN OLD; END $$;
		CREATE TRIGGER refuse BEFORE DELETE ON pgqueue.history_attention FOR EACH ROW EXECUTE FUNCTION public.refuse()`)
	if _, err := pool.Exec(testContext(t), `SELECT pgqueue.expire_attention('90 days')`); err == nil || !strings.Contains(err.Error(), "22012") {
		t.Errorf("expire_attention: %v", err)
	}
}

// C118 for partitions: what others built upon the oldest day must not keep the days behind it.
func TestC118_OneUndroppableDayDoesNotStopRetention(t *testing.T) {
	pool := installed(t, "")
	var names []string
	for _, ago := range []int{12, 11, 10} {
		run(t, pool, fmt.Sprintf(`DO $$ DECLARE d date := (now() AT TIME ZONE 'UTC')::date - %d; BEGIN
			EXECUTE format('CREATE TABLE pgqueue.history_%%s PARTITION OF pgqueue.history FOR VALUES FROM (%%L) TO (%%L)', to_char(d, 'YYYYMMDD'), d, d + 1); END $$`, ago))
		names = append(names, value[string](t, pool, `SELECT 'history_' || to_char((now() AT TIME ZONE 'UTC')::date - $1::int, 'YYYYMMDD')`, ago))
	}
	run(t, pool, `CREATE VIEW public.report AS SELECT * FROM pgqueue.`+names[0])
	hearing, warnings := noticing(t, pool)
	for _, want := range []string{names[1], names[2], ""} {
		if got := value[string](t, hearing, `SELECT pgqueue.drop_history('7 days')`); got != want {
			t.Errorf("dropped %q, want %q", got, want)
		}
	}
	if len(*warnings) != 3 || !strings.Contains((*warnings)[0], "drop_history cannot drop pgqueue."+names[0]) {
		t.Errorf("warnings: %q", *warnings)
	}
	run(t, pool, `DROP VIEW public.report`)
	if got := value[string](t, hearing, `SELECT pgqueue.drop_history('7 days')`); got != names[0] {
		t.Errorf("dropped %q, want %q", got, names[0])
	}
}

// C118: a table of the application that points at history as a whole: Postgres then drops no day at all. That is said, and upkeep goes on.
func TestC118_AForeignKeyOnHistory(t *testing.T) {
	pool := installed(t, "")
	run(t, pool, `DO $$ DECLARE d date := (now() AT TIME ZONE 'UTC')::date - 10; BEGIN FOR i IN 0 .. 1 LOOP
		EXECUTE format('CREATE TABLE pgqueue.history_%s PARTITION OF pgqueue.history FOR VALUES FROM (%L) TO (%L)', to_char(d + i, 'YYYYMMDD'), d + i, d + i + 1); END LOOP; END $$`)
	run(t, pool, `INSERT INTO pgqueue.history (id, run_at, created_at, finished_at, day, attempt, generation, error_count, priority, failures,
			max_attempts, queue, kind, state, payload, metadata, tags)
		SELECT g, now(), now(), now() - interval '10 days', (now() AT TIME ZONE 'UTC')::date - 11 + g, 1, 1, 1, 1, 1, 1, 'q', 'k', 'succeeded', '{}', '{}', '{}' FROM generate_series(1, 2) g`)
	run(t, pool, `CREATE TABLE public.receipts (job bigint, day date, FOREIGN KEY (job, day) REFERENCES pgqueue.history (id, day))`)
	run(t, pool, `INSERT INTO public.receipts SELECT id, day FROM pgqueue.history WHERE id = 1`)
	hearing, warnings := noticing(t, pool)
	if got := value[string](t, hearing, `SELECT pgqueue.drop_history('7 days')`); got != "" || len(*warnings) != 2 || !strings.Contains((*warnings)[1], "receipts_job_day_fkey") {
		t.Errorf("dropped %q, warned of %q", got, *warnings)
	}
	run(t, pool, `DROP TABLE public.receipts`)
	for _, want := range []bool{true, true, false} {
		if got := value[string](t, pool, `SELECT pgqueue.drop_history('7 days')`); (got != "") != want {
			t.Errorf("dropped %q", got)
		}
	}
}

// C122: what is kept, and for how long, by state; nothing else goes.
func TestC122_RetentionByState(t *testing.T) {
	pool := installed(t, "")
	run(t, pool, `DO $$ DECLARE d date := (now() AT TIME ZONE 'UTC')::date; BEGIN FOR ago IN 2 .. 9 LOOP
		EXECUTE format('CREATE TABLE pgqueue.history_%s PARTITION OF pgqueue.history FOR VALUES FROM (%L) TO (%L)', to_char(d - ago, 'YYYYMMDD'), d - ago, d - ago + 1); END LOOP; END $$`)
	run(t, pool, `INSERT INTO pgqueue.history (id, run_at, created_at, finished_at, day, attempt, generation, error_count, priority, failures,
			max_attempts, queue, kind, state, payload, metadata, tags)
		SELECT row_number() OVER (), now(), now(), at, CASE WHEN state IN ('failed', 'dead') THEN 'infinity' ELSE (at AT TIME ZONE 'UTC')::date END,
			1, 1, 1, 1, 1, 1, state || ' ' || ago, 'k', state, '{}', '{}', '{}'
		FROM unnest(ARRAY['succeeded', 'cancelled', 'failed', 'dead']) state, unnest(ARRAY[0, 6, 7, 8, 9, 89, 91]) ago,
			LATERAL (SELECT date_trunc('day', now(), 'UTC') + interval '1 h' - ago * interval '1 day' AS at) x
		WHERE state IN ('failed', 'dead') OR ago < 89`)
	left := func() string {
		return value[string](t, pool, `SELECT string_agg(queue, ', ' ORDER BY queue) FROM pgqueue.history`)
	}
	full := left()
	// What is to be kept for ever is not asked for; what is, is kept for longer than there are years.
	run(t, pool, `SELECT pgqueue.drop_history('1000 years'), pgqueue.expire_attention('1000 years')`)
	if got := left(); got != full {
		t.Errorf("after nothing: %s, want %s", got, full)
	}
	for value[string](t, pool, `SELECT pgqueue.drop_history('7 days')`) != "" {
	}
	maintain(t, pool)
	if got, want := left(), "cancelled 0, cancelled 6, cancelled 7, dead 0, dead 6, dead 7, dead 8, dead 89, dead 9, failed 0, failed 6, failed 7, failed 8, failed 89, failed 9, succeeded 0, succeeded 6, succeeded 7"; got != want {
		t.Errorf("left: %s\nwant: %s", got, want)
	}
	// Live jobs are never a matter of retention, however old.
	run(t, pool, `INSERT INTO pgqueue.jobs (queue, kind, created_at, run_at) VALUES ('q', 'k', '-infinity', '-infinity')`)
	run(t, pool, `SELECT pgqueue.drop_history('0'), pgqueue.expire_attention('0')`)
	if n := value[int](t, pool, `SELECT count(*) FROM pgqueue.jobs`); n != 1 {
		t.Error("a live job is gone")
	}
}

// C123: we never reindex, so there is no debris. What goes and comes are whole partitions.
func TestC123_NothingOfOursReindexes(t *testing.T) {
	for _, name := range allFiles {
		text, err := templateText(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range []string{"reindex", "concurrently", "vacuum full", "cluster "} {
			for _, line := range strings.Split(strings.ToLower(text), "\n") {
				if code, _, _ := strings.Cut(line, "--"); strings.Contains(code, word) {
					t.Errorf("%s: %s", name, line)
				}
			}
		}
	}
}
