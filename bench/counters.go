package main

import (
	"context"
	"time"
)

// counters are what the server has counted for a database so far.
type counters struct {
	wal        int64 // bytes of the whole server
	commits    int64
	rollbacks  int64
	written    int64 // rows inserted, updated and deleted
	heartbeats int64 // of these, in the table of heartbeats
	updates    int64 // of rows in the table of jobs
	hot        int64 // of these, without a new index entry
}

// readCounters reads them over the pool. Backends report at most once a second, so that a figure may be a second old.
func readCounters(ctx context.Context, db *database, heartbeats string) (c counters, err error) {
	err = db.pool.QueryRow(ctx, `SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint, d.xact_commit, d.xact_rollback,
		d.tup_inserted + d.tup_updated + d.tup_deleted,
		(SELECT coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0)::bigint FROM pg_stat_user_tables WHERE relname = $1),
		(SELECT coalesce(sum(n_tup_upd), 0)::bigint FROM pg_stat_user_tables WHERE relid = to_regclass('pgqueue.jobs')),
		(SELECT coalesce(sum(n_tup_hot_upd), 0)::bigint FROM pg_stat_user_tables WHERE relid = to_regclass('pgqueue.jobs'))
		FROM pg_stat_database d WHERE d.datname = current_database()`, heartbeats).Scan(
		&c.wal, &c.commits, &c.rollbacks, &c.written, &c.heartbeats, &c.updates, &c.hot)
	return c, err
}

// finalCounters waits until every backend but its own has gone, which makes each of them report, and reads.
func finalCounters(ctx context.Context, db *database) (counters, error) {
	db.pool.Reset()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		var others int
		err := db.pool.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()`).Scan(&others)
		if err != nil {
			return counters{}, err
		}
		if others == 0 {
			break
		}
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			return counters{}, err
		}
	}
	return readCounters(ctx, db, "")
}
