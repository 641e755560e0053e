package doctor

import (
	"testing"

	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// A new installation under its first load has dead rows that autovacuum had no time for; an old one has not.
func TestDeadRowsOfANewInstallation(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.NewServer(t, pgqueuetest.WithSetting("autovacuum", "on"), pgqueuetest.WithSetting("autovacuum_naptime", "1h")).DB(t)
	load := func() {
		execute(t, db.Pool, `INSERT INTO pgqueue.jobs (queue, kind) SELECT 'q', 'k' FROM generate_series(1, 12000)`)
		execute(t, db.Pool, `DELETE FROM pgqueue.jobs`)
	}
	load()
	eventually(t, "the dead rows are counted", func() bool {
		return value[int64](t, db.Pool, `SELECT n_dead_tup FROM pg_stat_all_tables WHERE relid = 'pgqueue.jobs'::regclass`) > 10_000
	})
	awaitNone(t, db, Options{}, "dead-rows")

	worker := func(age string) {
		execute(t, db.Pool, `INSERT INTO pgqueue.workers (started_at, seen_at, heartbeat_every, pid, stopping, id, host, version, queues, kinds)
			VALUES (now() - $1::text::interval, now(), '1 h', 1, false, $1, 'h', '', '{}', '{}')`, age)
	}
	worker("1 hour")
	awaitNone(t, db, Options{}, "dead-rows")
	worker("3 hours")
	f := await(t, db, Options{}, "dead-rows", "jobs")
	if !contains(f.Summary, "never been here") {
		t.Errorf("%+v", f)
	}
	execute(t, db.Pool, `DELETE FROM pgqueue.workers`)
	awaitNone(t, db, Options{}, "dead-rows")
	execute(t, db.Pool, day("-3", `CREATE TABLE pgqueue.%2$I PARTITION OF pgqueue.history FOR VALUES FROM (%3$L) TO (%4$L)`))
	apply(t, db, await(t, db, Options{}, "dead-rows", "jobs"))
	awaitNone(t, db, Options{}, "dead-rows")
}
