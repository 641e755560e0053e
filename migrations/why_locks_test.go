package migrations_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/internal/pgserver"
)

// named gives a pool whose sessions have an application name, and end rather than wait.
func named(t *testing.T, pool *pgxpool.Pool, name string) *pgxpool.Pool {
	t.Helper()
	return newPool(t, pool.Config().ConnString(), func(config *pgxpool.Config) {
		config.ConnConfig.RuntimeParams["application_name"] = name
		config.ConnConfig.RuntimeParams["statement_timeout"] = "20s" // who waits for a lock is found out
	})
}

// ownServer starts a server for one test.
func ownServer(t *testing.T, options pgserver.Options) *pgserver.Server {
	t.Helper()
	server, err := pgserver.Start(testContext(t), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := server.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return server
}

// waiting is a job that nothing keeps, and its number.
func waiting(t *testing.T, pool *pgxpool.Pool) int64 {
	t.Helper()
	beat(t, pool, "w1", `{"mail": {"workers": 10, "in_flight": 3}}`, `{"send": {"workers": 5, "in_flight": {"mail": 2}}}`)
	return value[int64](t, pool, `SELECT pgqueue.enqueue('send', queue => 'mail')`)
}

// Whoever locks the row is named, in whichever way it does; and nobody waits for the answer.
func TestWhyNotRunning_LockedRow(t *testing.T) {
	pool := installed(t, "")
	id := waiting(t, pool)
	asking, app := named(t, pool, "asking"), named(t, pool, "shop")
	const head = `does not run, because its row is locked by pid \d+ \(user postgres, application "shop", in its transaction since ` + utc + `[^)]* ago\), idle in transaction, last query: `
	for _, sql := range []string{
		`SELECT FROM pgqueue.jobs WHERE id = $1 FOR UPDATE`, `SELECT FROM pgqueue.jobs WHERE id = $1 FOR KEY SHARE`,
		`UPDATE pgqueue.jobs SET tags = '{a}' WHERE id = $1`, `DELETE FROM pgqueue.jobs WHERE id = $1`,
	} {
		release := blocker(t, app, sql, id)
		requireWords(t, why(t, asking, id), head, regexp.QuoteMeta(strings.ReplaceAll(sql, "'{a}'", "?")))
		release()
	}
	// In a subtransaction, whose number is not the transaction's.
	release := blocker(t, app, `DO $$ BEGIN UPDATE pgqueue.jobs SET tags = '{a}'; EXCEPTION WHEN division_by_zero THEN NULL; END $$`)
	requireWords(t, why(t, asking, id), `because its row is locked by a transaction with savepoints, one of those that write to the table: pid \d+ \(user postgres, application "shop", .*DO \?\)\.$`)
	release()
	// Two at once: a multixact.
	first, second := blocker(t, app, `SELECT FROM pgqueue.jobs WHERE id = $1 FOR SHARE`, id), blocker(t, app, `SELECT FROM pgqueue.jobs WHERE id = $1 FOR KEY SHARE`, id)
	requireWords(t, why(t, asking, id), `its row is locked by pid \d+ \(.*FOR (KEY )?SHARE\); and by pid \d+ \(.*FOR (KEY )?SHARE\)\.$`)
	first()
	requireWords(t, why(t, asking, id), `its row is locked by pid \d+ \(.*FOR KEY SHARE\)\.$`)
	second()
	requireWords(t, why(t, asking, id), `nothing is in its way`)

	// A running one cannot be ended by its worker meanwhile.
	run(t, pool, `UPDATE pgqueue.jobs SET state = 'running', attempt = 1, claimed_generation = 1, claimed_by = 'w1', claimed_at = now(), lease_expires_at = now() + interval '1 min'`)
	release = blocker(t, app, `SELECT FROM pgqueue.jobs WHERE id = $1 FOR UPDATE`, id)
	requireWords(t, why(t, asking, id), `is running: .*\nIts outcome cannot be written now, because its row is locked by pid \d+ \(user postgres, application "shop"`)
	release()
}

func TestWhyNotRunning_LockedByYourself(t *testing.T) {
	pool := installed(t, "")
	id := waiting(t, pool)
	for _, sql := range []string{`SELECT FROM pgqueue.jobs WHERE id = $1 FOR UPDATE`, `UPDATE pgqueue.jobs SET tags = '{a}' WHERE id = $1`} {
		tx, err := pool.Begin(testContext(t))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
		if _, err := tx.Exec(testContext(t), sql, id); err != nil {
			t.Fatal(err)
		}
		requireWords(t, value[string](t, tx, `SELECT pgqueue.why_not_running($1)`, id), `does not run, because your own transaction has changed or locked its row and is not committed\.$`)
		_ = tx.Rollback(context.Background())
	}
}

// The question keeps nobody away: the row is free again although the transaction that asked is open.
func TestWhyNotRunning_LeavesNoLockBehind(t *testing.T) {
	pool := installed(t, "")
	id := waiting(t, pool)
	tx, err := pool.Begin(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	for range 2 {
		requireWords(t, value[string](t, tx, `SELECT pgqueue.why_not_running($1)`, id), `nothing is in its way`)
	}
	if n := value[int](t, pool, `SELECT count(*) FROM (SELECT FROM pgqueue.jobs WHERE id = $1 FOR UPDATE SKIP LOCKED) x`, id); n != 1 {
		t.Error("the row is locked by the question")
	}
	if got := value[string](t, named(t, pool, "worker"), `UPDATE pgqueue.jobs SET state = 'running', claimed_at = now(), lease_expires_at = now() WHERE id = $1 RETURNING state`, id); got != "running" {
		t.Error("the job could not be claimed")
	}
}

func TestWhyNotRunning_LockedTable(t *testing.T) {
	pool := installed(t, "")
	id := waiting(t, pool)
	asking, app := named(t, pool, "asking"), named(t, pool, "shop")
	release := blocker(t, app, `LOCK TABLE pgqueue.jobs IN SHARE ROW EXCLUSIVE MODE`)
	requireWords(t, why(t, asking, id), `does not run, because the table jobs is locked: ShareRowExclusiveLock is held by pid \d+ \(user postgres, application "shop", .*LOCK TABLE`)
	release()
	for table, want := range map[string]string{
		"jobs": `jobs: AccessExclusiveLock is held by pid \d+ \(user postgres, application "shop", `, "workers": `workers: AccessExclusiveLock is held by pid`,
		"history": `history: AccessExclusiveLock is held by pid`, "queues": `queues: AccessExclusiveLock is held by pid`,
		"paused_kinds": `paused_kinds: AccessExclusiveLock is held by pid`,
	} {
		release := blocker(t, app, `LOCK TABLE pgqueue.`+table)
		requireWords(t, why(t, asking, id), `^Whether job \d+ can run is not known, and nothing of the queue can be read or written, because a table is locked: `, want)
		release()
	}

	// One that waits stands in front of every claim.
	release = blocker(t, app, `SELECT FROM pgqueue.jobs FOR UPDATE`)
	patient := newPool(t, pool.Config().ConnString(), func(config *pgxpool.Config) { config.ConnConfig.RuntimeParams["application_name"] = "migrator" })
	result := make(chan error, 1)
	go func() {
		_, err := patient.Exec(context.Background(), `ALTER TABLE pgqueue.jobs ADD COLUMN mine int`)
		result <- err
	}()
	waitFor(t, pool, "the ALTER TABLE to wait", `EXISTS (SELECT FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock')`)
	requireWords(t, why(t, asking, id), `nothing of the queue can be read or written, because a table is locked: jobs: AccessExclusiveLock is waited for, in front of every claim, by pid \d+ \(user postgres, application "migrator", .*ALTER TABLE`)
	release()
	if err := <-result; err != nil {
		t.Fatal(err)
	}
}

// A prepared transaction has no session, and outlives every one.
func TestWhyNotRunning_LockedByAPreparedTransaction(t *testing.T) {
	server := ownServer(t, pgserver.Options{Settings: map[string]string{"max_prepared_transactions": "2"}})
	pool := newPool(t, server.URL("postgres"), nil)
	mustUp(t, pool, "")
	id := waiting(t, pool)
	run(t, pool, `BEGIN; UPDATE pgqueue.jobs SET tags = '{a}'; PREPARE TRANSACTION 'forgotten'`)
	requireWords(t, why(t, named(t, pool, "asking"), id),
		`because its row is locked by the prepared transaction 'forgotten' \(user postgres, prepared `+utc+`[^)]* ago\)\): COMMIT PREPARED or ROLLBACK PREPARED ends it\.$`)
	run(t, pool, `ROLLBACK PREPARED 'forgotten'`)
	requireWords(t, why(t, pool, id), `nothing is in its way`)
}

// An owner that is no superuser sees who, and is told how to see what.
func TestWhyNotRunning_WhereRightsDoNotShowTheQuery(t *testing.T) {
	server := ownServer(t, pgserver.Options{})
	admin := newPool(t, server.URL("postgres"), nil)
	run(t, admin, `CREATE ROLE owner LOGIN; CREATE ROLE looker LOGIN; CREATE SCHEMA pgqueue AUTHORIZATION owner; GRANT USAGE ON SCHEMA pgqueue TO looker`)
	as := func(role string) *pgxpool.Pool {
		return newPool(t, server.URL("postgres"), func(config *pgxpool.Config) { config.ConnConfig.User = role })
	}
	mustUp(t, as("owner"), "")
	id := waiting(t, admin)
	run(t, admin, `GRANT EXECUTE ON FUNCTION pgqueue.why_not_running(bigint) TO looker`)
	blocker(t, named(t, admin, "shop"), `SELECT FROM pgqueue.jobs FOR UPDATE`)
	requireWords(t, why(t, as("looker"), id), `its row is locked by pid \d+ \(user postgres, application "shop", what it does is not shown to role owner, which owns this function: GRANT pg_read_all_stats TO it\)\.$`)
	run(t, admin, `GRANT pg_read_all_stats TO owner`)
	requireWords(t, why(t, as("looker"), id), `application "shop", in its transaction since `+utc, `last query: SELECT FROM pgqueue\.jobs FOR UPDATE\)\.$`)
}

// On a standby nothing can be locked and no lock of the primary is seen: the rest is answered, and that is said.
func TestOnAStandby(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cluster")
	start := func() *pgserver.Server {
		t.Helper()
		server, err := pgserver.Start(testContext(t), pgserver.Options{DataDir: dir, Settings: map[string]string{"hot_standby": "on"}})
		if err != nil {
			t.Fatal(err)
		}
		return server
	}
	stop := func(server *pgserver.Server) {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := server.Stop(ctx); err != nil {
			t.Error(err)
		}
	}
	server := start()
	pool, err := pgxpool.New(testContext(t), server.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	mustUp(t, pool, "")
	id := waiting(t, pool)
	run(t, pool, `INSERT INTO pgqueue.jobs (id, queue, kind, run_at) VALUES (100, 'mail', 'send', 'infinity')`)
	run(t, pool, `SELECT pgqueue.cached_stats('1 s')`)
	run(t, pool, `SELECT pgqueue.pause('later')`)
	run(t, pool, `UPDATE pgqueue.workers SET heartbeat_every = '1 h'`) // it stays live
	pool.Close()
	stop(server)
	if err := os.WriteFile(filepath.Join(dir, "data", "standby.signal"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	server = start()
	defer stop(server)
	standby, err := pgxpool.New(testContext(t), server.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer standby.Close()
	if !value[bool](t, standby, `SELECT pg_is_in_recovery()`) {
		t.Fatal("this is no standby")
	}
	const lag = `\nThis is a standby: row locks of the primary are not seen here, and what is said is as old as replication[^\n]*\.$`
	requireWords(t, why(t, standby, id), `^Job 1 \(kind "send", queue "mail"\) is due since `, `nothing is in its way`, lag)
	requireWords(t, why(t, standby, 100), `because it is never due: its run_at is infinity\.`, lag)
	requireWords(t, why(t, standby, 101), `^There is no job 101`, lag)

	// Numbers: those of the primary while they are young enough, else its own.
	if n := value[int](t, standby, `SELECT count(*) FROM pgqueue.cached_stats('1 day')`); n != 1 {
		t.Errorf("%d queues from the cache, want the one of its time", n)
	}
	for range 2 {
		if got := value[string](t, standby, `SELECT string_agg(concat_ws(' ', queue, ready1, scheduled, taken_at = statement_timestamp()), ', ') FROM pgqueue.cached_stats('0')`); got != "later 0 0 t, mail 1 1 t" {
			t.Errorf("counted by the standby: %s", got)
		}
	}
	for _, view := range []string{"queue_stats", "active_jobs", "stuck_jobs", "needs_attention", "job_log", "live_workers", "attempts"} {
		_ = value[int](t, standby, `SELECT count(*) FROM pgqueue.`+view)
	}
}

// In a read-only transaction, and in one with an old snapshot, on a primary.
func TestWhyNotRunning_InEveryKindOfTransaction(t *testing.T) {
	pool := installed(t, "")
	id := waiting(t, pool)
	other := value[int64](t, pool, `SELECT pgqueue.enqueue('send', queue => 'mail')`)
	app := named(t, pool, "shop")
	for _, options := range []pgx.TxOptions{
		{AccessMode: pgx.ReadOnly}, {IsoLevel: pgx.RepeatableRead}, {IsoLevel: pgx.Serializable}, {IsoLevel: pgx.Serializable, AccessMode: pgx.ReadOnly, DeferrableMode: pgx.Deferrable},
	} {
		tx, err := pool.BeginTx(testContext(t), options)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
		ask := func() string { return value[string](t, tx, `SELECT pgqueue.why_not_running($1)`, id) }
		requireWords(t, ask(), `nothing is in its way`)
		release := blocker(t, app, `SELECT FROM pgqueue.jobs WHERE id = $1 FOR UPDATE`, id)
		requireWords(t, ask(), `its row is locked by pid \d+ \(user postgres, application "shop"`)
		release()
		// The row still names who locked it last; others write to the table, and have nothing to do with it.
		release = blocker(t, app, `UPDATE pgqueue.jobs SET tags = '{a}' WHERE id = $1`, other)
		requireWords(t, ask(), `nothing is in its way`)
		release()
		run(t, pool, `UPDATE pgqueue.jobs SET tags = tags || '{x}'::text[] WHERE id = $1`, id) // a version that an old snapshot does not see
		requireWords(t, ask(), `^Job 1 `)
		_ = tx.Rollback(context.Background())
	}
}

// While a job is claimed, put back, deleted and made again all the time, every answer is one, and whoever holds the row is found: a look that
// came between two statements is repeated.
func TestWhyNotRunning_WhileTheJobChanges(t *testing.T) {
	pool := installed(t, "")
	beat(t, pool, "w1", `{"mail": {"workers": 10, "in_flight": 3}}`, `{}`)
	run(t, pool, `INSERT INTO pgqueue.jobs (id, queue, kind) VALUES (1, 'mail', 'send')`)
	asking := named(t, pool, "asking")
	ctx, cancel := context.WithTimeout(testContext(t), time.Second)
	defer cancel()
	const writers = 3
	ended := make(chan error, writers)
	for range writers {
		go func() {
			for ctx.Err() == nil {
				for _, sql := range []string{
					`UPDATE pgqueue.jobs SET state = 'running', claimed_generation = 1, claimed_at = now(), lease_expires_at = now() + interval '1 min'`,
					`UPDATE pgqueue.jobs SET state = 'pending', claimed_at = NULL`,
					`WITH d AS (DELETE FROM pgqueue.jobs RETURNING 1) INSERT INTO pgqueue.jobs (id, queue, kind) SELECT 1, 'mail', 'send' ON CONFLICT DO NOTHING`,
					`INSERT INTO pgqueue.jobs (id, queue, kind) VALUES (1, 'mail', 'send') ON CONFLICT DO NOTHING`,
				} {
					if _, err := pool.Exec(context.Background(), sql); err != nil {
						ended <- err
						return
					}
				}
			}
			ended <- nil
		}()
	}
	answers, vague := 0, 0
	for ctx.Err() == nil && !t.Failed() {
		answer := why(t, asking, 1)
		requireWords(t, answer, `^(Job 1 \(kind "send", queue "mail"\) (is running|is due|does not run, because its row is locked by )|There is no job )`)
		answers++
		if strings.Contains(answer, "cannot be found") {
			vague++
		}
	}
	for range writers {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if t.Logf("%d answers, %d vague", answers, vague); answers == 0 || vague > answers/50 {
		t.Errorf("%d of %d answers say that somebody holds the row who cannot be found", vague, answers)
	}
}
