package migrations_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// insertHistory puts one finished job into history.
const insertHistory = `
	INSERT INTO pgqueue.history (id, run_at, created_at, finished_at, day, attempt, generation, error_count, priority, failures,
	    max_attempts, queue, kind, state, payload, metadata, tags)
	VALUES ($1, now(), now(), now() - $2::text::interval, $3::text::date, 1, 1, 0, 1, 0, 3, 'q', 'k', $4, '{}', '{}', '{}')`

// days lists the day partitions, with the bounds that the catalog knows.
func days(t *testing.T, pool *pgxpool.Pool) []string {
	t.Helper()
	return rows(t, pool, `SELECT c.relname || ' ' || pg_get_expr(c.relpartbound, c.oid) FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
		WHERE i.inhparent = 'pgqueue.history'::regclass AND c.relname <> 'history_attention' ORDER BY 1`)
}

func TestEnsureHistory_MakesYesterdayTodayAndTheDaysAheadInUTC(t *testing.T) {
	pool := installed(t, "")
	want := rows(t, pool, `SELECT format('history_%s FOR VALUES FROM (''%s'') TO (''%s'')', to_char(d, 'YYYYMMDD'), to_char(d, 'YYYY-MM-DD'), to_char(d + 1, 'YYYY-MM-DD'))
		FROM (SELECT (now() AT TIME ZONE 'UTC')::date + i AS d FROM generate_series(-1, 14) i) x ORDER BY d`)
	if got := days(t, pool); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("partitions:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if n := value[int](t, pool, `SELECT pgqueue.ensure_history(14)`); n != 0 {
		t.Errorf("a second call made %d", n)
	}

	// The session's time zone and the way it writes dates play no part: the names and bounds stay those of UTC days.
	for _, zone := range []string{"Pacific/Kiritimati", "Etc/GMT+12"} {
		far := newPool(t, pool.Config().ConnString(), func(config *pgxpool.Config) {
			config.ConnConfig.RuntimeParams["timezone"] = zone
			config.ConnConfig.RuntimeParams["datestyle"] = "SQL, DMY"
		})
		run(t, far, `DO $$ BEGIN EXECUTE format('DROP TABLE pgqueue.history_%s', to_char((now() AT TIME ZONE 'UTC')::date + 3, 'YYYYMMDD')); END $$`)
		if n := value[int](t, far, `SELECT pgqueue.ensure_history()`); n != 1 {
			t.Errorf("%s: %d made, want 1", zone, n)
		}
		if got := days(t, pool); strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("%s: partitions:\n%s", zone, strings.Join(got, "\n"))
		}
	}
	if bare := rows(t, pool, catalogWithoutComment, "pgqueue"); len(bare) > 0 {
		t.Errorf("without a comment: %q", bare)
	}
}

func TestEnsureHistory_EightCallersAtOnce(t *testing.T) {
	pool := installed(t, "")
	for round := range 5 {
		results := make(chan error, 8)
		made := make(chan int, 8)
		barrier := make(chan struct{})
		for range 8 {
			conn, err := pgx.Connect(testContext(t), pool.Config().ConnString())
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				defer func() { _ = conn.Close(testContext(t)) }()
				<-barrier
				var n int
				err := conn.QueryRow(testContext(t), `SELECT pgqueue.ensure_history($1)`, 15+10*round).Scan(&n)
				made <- n
				results <- err
			}()
		}
		close(barrier)
		total, want := 0, 10
		if round == 0 {
			want = 1
		}
		for range 8 {
			if err := <-results; err != nil {
				t.Error(err)
			}
			total += <-made
		}
		if total != want {
			t.Errorf("round %d: %d partitions were made, want %d", round, total, want)
		}
	}
}

func TestEnsureHistory_StopsNobodyUnderAnOpenReaderAndWriter(t *testing.T) {
	pool := installed(t, "")
	blocker(t, pool, `SELECT count(*) FROM pgqueue.history`)
	blocker(t, pool, insertHistory, 1, "0", "infinity", "dead")
	if n := value[int](t, pool, `SELECT pgqueue.ensure_history(15)`); n != 1 {
		t.Errorf("%d made, want 1", n)
	}
}

func TestEnsureHistory_InAnOldSnapshotSeesWhatOthersMade(t *testing.T) {
	pool := installed(t, "")
	tx, err := pool.BeginTx(testContext(t), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(testContext(t)) }()
	_ = value[int](t, tx, `SELECT count(*) FROM pgqueue.queues`) // takes the snapshot
	run(t, pool, `SELECT pgqueue.ensure_history(15)`)
	if n := value[int](t, tx, `SELECT pgqueue.ensure_history(16)`); n != 1 {
		t.Errorf("%d made, want 1", n)
	}
}

func TestDropHistory_OneExpiredPartitionACallOldestFirst(t *testing.T) {
	pool := installed(t, "")
	for _, ago := range []int{9, 8, 7} {
		run(t, pool, fmt.Sprintf(`DO $$ DECLARE d date := (now() AT TIME ZONE 'UTC')::date - %d; BEGIN
			EXECUTE format('CREATE TABLE pgqueue.history_%%s PARTITION OF pgqueue.history FOR VALUES FROM (%%L) TO (%%L)', to_char(d, 'YYYYMMDD'), d, d + 1); END $$`, ago))
	}
	name := func(ago int) string {
		return value[string](t, pool, `SELECT 'history_' || to_char((now() AT TIME ZONE 'UTC')::date - $1::int, 'YYYYMMDD')`, ago)
	}
	// What lies 7 days back holds jobs that finished less than 7 days ago.
	for _, want := range []string{name(9), name(8), ""} {
		if got := value[string](t, pool, `SELECT pgqueue.drop_history('7 days')`); got != want {
			t.Errorf("dropped %q, want %q", got, want)
		}
	}
	for _, want := range []string{name(7), name(1), ""} {
		if got := value[string](t, pool, `SELECT pgqueue.drop_history('0')`); got != want {
			t.Errorf("dropped %q, want %q", got, want)
		}
	}
	if got := value[string](t, pool, `SELECT pgqueue.drop_history('1000 years')`); got != "" {
		t.Errorf("dropped %q", got)
	}
}

func TestDropHistory_GivesUpUnderALockAndWorksAfterwards(t *testing.T) {
	pool := installed(t, "")
	release := blocker(t, pool, `SELECT count(*) FROM pgqueue.history`)
	// It must give up of itself, long before this.
	impatient := newPool(t, pool.Config().ConnString(), func(config *pgxpool.Config) { config.ConnConfig.RuntimeParams["statement_timeout"] = "15s" })
	if got := value[*string](t, impatient, `SELECT pgqueue.drop_history('0')`); got != nil {
		t.Errorf("dropped %q under an open reader", *got)
	}
	before := len(days(t, pool))
	release()
	if got := value[*string](t, pool, `SELECT pgqueue.drop_history('0')`); got == nil || !strings.HasPrefix(*got, "history_") {
		t.Error("dropped nothing after the reader had gone")
	}
	if after := len(days(t, pool)); after != before-1 {
		t.Errorf("%d partitions before, %d after", before, after)
	}
}

func TestExpireAttention_OldestFirstInBatchesSparingLockedRows(t *testing.T) {
	pool := installed(t, "")
	for id := range 10 {
		run(t, pool, insertHistory, id, fmt.Sprintf("%d days", 100-id), "infinity", []string{"failed", "dead"}[id%2])
	}
	run(t, pool, insertHistory, 10, "80 days", "infinity", "dead")
	today := value[string](t, pool, `SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD')`)
	run(t, pool, insertHistory, 11, "100 days", today, "succeeded")

	release := blocker(t, pool, `SELECT FROM pgqueue.history WHERE id = 2 FOR UPDATE`)
	left := func() string {
		return value[string](t, pool, `SELECT string_agg(id::text, ' ' ORDER BY id) FROM pgqueue.history`)
	}
	if n := value[int](t, pool, `SELECT pgqueue.expire_attention('90 days', 4)`); n != 4 || left() != "2 5 6 7 8 9 10 11" {
		t.Errorf("deleted %d, left %s", n, left())
	}
	release()
	if n := value[int](t, pool, `SELECT pgqueue.expire_attention('90 days')`); n != 6 || left() != "10 11" {
		t.Errorf("deleted %d, left %s", n, left())
	}
}

func TestHistoryFunctions_RefuseBadArguments(t *testing.T) {
	pool := installed(t, "")
	for call, field := range map[string]string{
		`ensure_history(-1)`: "ahead", `ensure_history(NULL)`: "ahead", `ensure_history(367)`: "ahead",
		`drop_history(NULL)`: "keep", `drop_history('-1 day')`: "keep",
		`expire_attention(NULL)`: "keep", `expire_attention('-1 s')`: "keep", `expire_attention('1 d', 0)`: "batch", `expire_attention('1 d', NULL)`: "batch",
	} {
		_, err := pool.Exec(testContext(t), `SELECT pgqueue.`+call)
		var pgErr *pgconn.PgError
		if !errors.As(err, &pgErr) || pgErr.Code != "22023" || pgErr.ColumnName != field || !strings.Contains(pgErr.Message, field) {
			t.Errorf("%s: %v", call, err)
		}
	}
}

func TestHistoryFunctions_AWorkerNeedsExecuteOnly(t *testing.T) {
	pool := installed(t, "")
	role := "worker_" + value[string](t, pool, `SELECT current_database()::text`)
	run(t, pool, `CREATE ROLE `+role+` LOGIN`)
	run(t, pool, `GRANT USAGE ON SCHEMA pgqueue TO `+role)
	run(t, pool, insertHistory, 1, "100 days", "infinity", "dead")
	worker := newPool(t, pool.Config().ConnString(), func(config *pgxpool.Config) { config.ConnConfig.User = role })
	calls := []string{`ensure_history(15)`, `drop_history('0')`, `expire_attention('90 days')`}
	for _, call := range calls {
		_, err := worker.Exec(testContext(t), `SELECT pgqueue.`+call)
		var pgErr *pgconn.PgError
		if !errors.As(err, &pgErr) || pgErr.Code != "42501" {
			t.Errorf("%s without the right: %v", call, err)
		}
	}
	run(t, pool, `GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA pgqueue TO `+role)
	before := len(days(t, pool))
	for _, call := range calls {
		run(t, worker, `SELECT pgqueue.`+call)
	}
	if after := len(days(t, pool)); after != before || value[int](t, pool, `SELECT count(*) FROM pgqueue.history`) != 0 {
		t.Errorf("%d partitions before, %d after one made and one dropped", before, after)
	}
}
