package integration

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// resumption is how soon after the promotion work is promised to go on. Machines that do other things are given more.
func resumption() time.Duration {
	if full() {
		return 10 * time.Second
	}
	return 40 * time.Second
}

// requireResumed waits until a job that was enqueued after the failover has been done on the new primary.
func (r *replicas) requireResumed(promoted time.Time, o *orders) {
	r.t.Helper()
	before := one[int](r.t, r.onStandby, `SELECT coalesce(max(n), 0) FROM effects`)
	answered := len(o.answered())
	untilSQL(r.t, r.onStandby, "new orders are worked", `SELECT count(*) >= 20 FROM effects WHERE n > $1`, before)
	took := time.Since(promoted)
	r.t.Logf("20 jobs were done %s after the promotion", took.Round(time.Millisecond))
	if took > resumption() {
		r.t.Errorf("it took %s after the promotion, want %s", took, resumption())
	}
	until(r.t, "orders are answered", func() int { return len(o.answered()) }, func(n int) bool { return n >= answered+20 })
}

// writable is what docs/failover.md proposes for pools that write: connections to a server that became read-only are not kept.
func writable(config *pgxpool.Config) {
	config.AfterRelease = func(conn *pgx.Conn) bool {
		return conn.PgConn().ParameterStatus("in_hot_standby") != "on" &&
			conn.PgConn().ParameterStatus("default_transaction_read_only") != "on"
	}
}

// serve runs a worker until the end of the test, and returns when it works. The deadline is what ends handlers that talk to a dead server.
func (r *replicas) serve(pool *pgxpool.Pool) (*serving, <-chan noted, *listenerEvents) {
	r.t.Helper()
	mux, ran := effectsMux()
	events := newListenerEvents()
	worker := serve(r.t, newClient(r.t, pool, ""), mux, pgqueue.WorkerConfig{
		Queues: pgqueue.Queues{queueName: {Workers: 8, Deadline: 8 * time.Second}}, Lease: 6 * time.Second, RenewEvery: 2 * time.Second, StorageTimeout: 2 * time.Second,
		ReapInterval: shortReap, Observer: events,
	})
	receive(r.t, events.connected, "the listener")
	receive(r.t, ran, "a job before the failover")
	return worker, ran, events
}

// The primary is killed while orders come and are worked, and the standby is promoted. With synchronous replication no answered order is
// lost; and, with or without, work goes on by itself, and no job has its effect twice.
func TestC81_PrimaryIsKilled(t *testing.T) {
	t.Parallel()
	r := newReplicas(t, true)
	o := takeOrders(t, r.pool(writable))
	_, ran, events := r.serve(r.pool(func(c *pgxpool.Config) { c.MaxConns = 20 }))
	for range 200 {
		receive(t, ran, "jobs before the failover")
	}
	r.kill()
	r.moveProxy()
	promoted := r.promote()
	r.requireResumed(promoted, o)
	receive(t, events.connected, "the listener on the new primary")
	o.stop()
	r.requireAll(o.answered())
}

// The old primary is made read-only, as cloud providers and operators do before they switch over, and its connections stay open: the
// proxy sends new ones to the standby, which is promoted. A pool that keeps what answers would write to the old server for ever.
func TestC81_OldConnectionsStayOpen(t *testing.T) {
	t.Parallel()
	r := newReplicas(t, false)
	o := takeOrders(t, r.pool(writable))
	worker, ran, events := r.serve(r.pool(func(c *pgxpool.Config) { c.MaxConns = 20 }))
	for range 200 {
		receive(t, ran, "jobs before the failover")
	}
	execute(t, r.onPrimary, `ALTER SYSTEM SET default_transaction_read_only = on`)
	execute(t, r.onPrimary, `SELECT pg_reload_conf()`)
	// Transactions that began before may still write; then nothing does, and the standby has everything.
	untilSQL(t, r.onPrimary, "nobody writes any more", `SELECT current_setting('default_transaction_read_only') = 'on'
		AND NOT EXISTS (SELECT FROM pg_stat_activity WHERE backend_xid IS NOT NULL)`)
	untilSQL(t, r.onStandby, "the standby has everything", `SELECT pg_last_wal_replay_lsn() >= $1::text::pg_lsn`,
		one[string](t, r.onPrimary, `SELECT pg_current_wal_flush_lsn()::text`))
	r.moveProxy()
	promoted := r.promote()
	r.requireResumed(promoted, o)
	receive(t, events.connected, "the listener on the new primary")
	untilSQL(t, r.onPrimary, "nobody is left on the old server", `SELECT count(*) = 0 FROM pg_stat_activity
		WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND application_name <> 'administrator'`)
	o.stop()
	r.requireAll(o.answered())
	before := worker.Status().Listener.Hints
	note(t, newClient(t, r.onStandby, ""), r.onStandby, -1)
	until(t, "a hint of the new primary is heard", func() bool { return worker.Status().Listener.Hints > before }, func(ok bool) bool { return ok })
}

// The host of the primary is gone without a word: connections to it neither answer nor break.
func TestC81_PrimaryFallsSilent(t *testing.T) {
	t.Parallel()
	r := newReplicas(t, true)
	silent := func(c *pgxpool.Config) { c.MaxConns, c.PingTimeout = 20, 2*time.Second }
	o := takeOrders(t, r.pool(silent))
	_, ran, events := r.serve(r.pool(silent))
	for range 200 {
		receive(t, ran, "jobs before the failover")
	}
	r.proxy.HalfOpen()
	r.kill()
	r.moveProxy()
	promoted := r.promote()
	r.requireResumed(promoted, o)
	receive(t, events.connected, "the listener on the new primary")
	o.stop()
	r.requireAll(o.answered())
}

// No proxy: the connection string names both servers and asks for the one that takes writes.
func TestC81_SeveralHosts(t *testing.T) {
	t.Parallel()
	r := newReplicas(t, true)
	location := "postgres://postgres@127.0.0.1:" + port(r.standby) + ",127.0.0.1:" + port(r.primary) +
		"/postgres?sslmode=disable&target_session_attrs=read-write&connect_timeout=2"
	o := takeOrders(t, poolAt(t, location, writable))
	worker, ran, events := r.serve(poolAt(t, location, func(c *pgxpool.Config) { c.MaxConns = 20 }))
	for range 200 {
		receive(t, ran, "jobs before the failover")
	}
	r.kill()
	promoted := r.promote()
	r.requireResumed(promoted, o)
	receive(t, events.connected, "the listener on the new primary")
	o.stop()
	r.requireAll(o.answered())
	if h := until(t, "the worker is ready", worker.Health, func(h pgqueue.Health) bool { return h.Ready }); !h.Live {
		t.Errorf("health: %+v", h)
	}
}
