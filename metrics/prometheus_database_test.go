package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgqueue/pgqueue/metrics"
	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// The numbers are those of a schema with a name that needs quoting, by queue, also of queues that nobody has configured.
func TestNumbersOfTheDatabase(t *testing.T) {
	const schema = `it's "odd"`
	db := pgqueuetest.New(t, pgqueuetest.WithSchema(schema))
	registry := prometheus.NewRegistry()
	m := newMetrics(t, metrics.PrometheusConfig{Registerer: registry, Pool: db.Pool, Schema: schema, Interval: time.Second, Queues: []string{"mail", "idle"}})
	jobs := pgx.Identifier{schema, "jobs"}.Sanitize()
	exec(t, db.Pool, `INSERT INTO `+jobs+` (queue, kind, priority, run_at) VALUES ('mail', 'k', 1, now()), ('mail', 'k', 4, now()), ('mail', 'k', 4, now() - interval '2 h'),
		('a', 'k', 2, now() - interval '3 h'), ('b', 'k', 2, now()), ('a', 'k', 2, now() + interval '1 h'),
		('mail', 'k', 3, '-infinity'), ('mail', 'k', 3, 'infinity')`)
	if err := newClient(t, db.Pool, pgqueue.WithSchema(schema)).PauseQueue(t.Context(), db.Pool, "b", "a test"); err != nil {
		t.Fatal(err)
	}
	stop := background(t, m.Run)
	got := eventuallyAt(t, registry, 1, "pgqueue_stats_reads_total")
	got.want(t, 1, "pgqueue_ready_jobs", "queue", "mail", "priority", "1", "schema", schema)
	got.want(t, 2, "pgqueue_ready_jobs", "queue", "mail", "priority", "4")
	got.want(t, 1, "pgqueue_ready_jobs", "queue", "mail", "priority", "3")
	got.want(t, 1, "pgqueue_scheduled_jobs", "queue", "mail")
	got.want(t, 1, "pgqueue_ready_jobs", "queue", "a", "priority", "2")
	got.want(t, 1, "pgqueue_ready_jobs", "queue", "b", "priority", "2")
	got.want(t, 1, "pgqueue_scheduled_jobs", "queue", "a")
	got.want(t, 1, "pgqueue_queue_paused", "queue", "b")
	got.want(t, 0, "pgqueue_queue_paused", "queue", "mail")
	if rest := got.find("pgqueue_ready_jobs", "queue", "other"); rest != nil {
		t.Errorf("every queue has its name, and there are others: %v", rest)
	}
	if idle := got.find("pgqueue_oldest_ready_seconds", "queue", "idle"); len(idle) != 1 || idle[0].value != 0 {
		t.Errorf("a queue without jobs is shown as %v, want 0", idle)
	}
	for queue, hours := range map[string]float64{"mail": 2, "a": 3} {
		if oldest := got.sum("pgqueue_oldest_ready_seconds", "queue", queue); oldest < hours*3600 || oldest > hours*3600+600 {
			t.Errorf("the oldest ready job of %q is %v s old, want %v h", queue, oldest, hours)
		}
	}
	stop()
	for _, name := range []string{"pgqueue_ready_jobs", "pgqueue_stats_age_seconds", "pgqueue_notify_queue_usage_ratio"} {
		if left := scrape(t, registry).find(name); left != nil {
			t.Errorf("after Run has ended there is still %v", left)
		}
	}
	scrape(t, registry).want(t, got.sum("pgqueue_stats_errors_total"), "pgqueue_stats_errors_total")
}

// Processes that know different queues show the same numbers under the same names, so that max by (queue) counts nothing twice:
// with a few queues, and with more than can be named.
func TestAllProcessesShowTheSameQueues(t *testing.T) {
	db := pgqueuetest.New(t)
	exec(t, db.Pool, `INSERT INTO pgqueue.jobs (queue, kind) SELECT q, 'k' FROM unnest(ARRAY ['mail', 'search']) q, generate_series(1, 3)`)
	shown := func(queue string) scraped {
		t.Helper()
		registry := prometheus.NewRegistry()
		m := newMetrics(t, metrics.PrometheusConfig{Registerer: registry, Pool: db.Pool, Interval: time.Second, Queues: []string{queue}})
		exec(t, db.Pool, "UPDATE pgqueue.stats_cache SET taken_at = '-infinity'")
		background(t, m.Run)
		return eventuallyAt(t, registry, 1, "pgqueue_stats_reads_total")
	}
	compare := func(own ...string) {
		t.Helper()
		all := map[string]float64{} // max by (queue)
		for _, queue := range own {
			for _, one := range shown(queue).find("pgqueue_ready_jobs", "priority", "1") {
				name := one.labels["queue"]
				if was, known := all[name]; known && was != one.value {
					t.Errorf("one process shows %v jobs in %q and another %v", was, name, one.value)
				}
				all[name] = one.value
			}
		}
		total := 0.0
		for name, n := range all {
			if name == "mail" || name == "search" {
				if n != 3 {
					t.Errorf("%v jobs in %q", n, name)
				}
			}
			total += n
		}
		if len(all) <= len(own) && total != 6 {
			t.Errorf("%v jobs in all", total)
		}
		if len(all) > metrics.MaxDatabaseQueues+1+len(own) {
			t.Errorf("%d queues are shown", len(all))
		}
	}
	compare("mail", "search", "idle")
	exec(t, db.Pool, `INSERT INTO pgqueue.jobs (queue, kind) SELECT 'a' || q, 'k' FROM generate_series(1, $1) q`, metrics.MaxDatabaseQueues+20)
	compare("mail", "search", "idle")
	if rest := shown("idle").sum("pgqueue_ready_jobs", "queue", "other"); rest != 20+6 {
		t.Errorf("the rest has %v jobs", rest)
	}
}

// Numbers that another process counted are as old as they are, not as fresh as the reading.
func TestTheAgeIsThatOfTheCount(t *testing.T) {
	db := pgqueuetest.New(t)
	exec(t, db.Pool, `INSERT INTO pgqueue.jobs (queue, kind) VALUES ('mail', 'k')`)
	exec(t, db.Pool, `SELECT * FROM pgqueue.cached_stats('1 s')`)
	exec(t, db.Pool, `UPDATE pgqueue.stats_cache SET taken_at = taken_at - interval '50 min'`)
	exec(t, db.Pool, `DELETE FROM pgqueue.jobs`)
	registry := prometheus.NewRegistry()
	m := newMetrics(t, metrics.PrometheusConfig{Registerer: registry, Pool: db.Pool, Interval: time.Hour, Queues: []string{"mail"}})
	background(t, m.Run)
	got := eventuallyAt(t, registry, 1, "pgqueue_stats_reads_total")
	if age := got.sum("pgqueue_stats_age_seconds"); age < 3000 || age > 3600 {
		t.Errorf("age %v, want 50 minutes", age)
	}
	got.want(t, 1, "pgqueue_ready_jobs", "queue", "mail", "priority", "1") // from then
}

// What cannot be read is not shown as if it were known: the age grows, errors are counted, and then the numbers are gone. The
// scrape answers all the while. When the database is back, so are they.
func TestNumbersThatCannotBeReadGoStale(t *testing.T) {
	gaveUp := &timeouts{}
	db := pgqueuetest.New(t, pgqueuetest.WithPoolConfig(func(config *pgxpool.Config) { config.ConnConfig.Tracer = gaveUp }))
	registry := prometheus.NewRegistry()
	m := newMetrics(t, metrics.PrometheusConfig{Registerer: registry, Pool: db.Pool, Interval: time.Second, StaleAfter: 2 * time.Second, Queues: []string{"mail"}})
	background(t, m.Run)
	eventuallyAt(t, registry, 1, "pgqueue_stats_reads_total")
	tx, err := db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "LOCK TABLE pgqueue.jobs IN ACCESS EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the numbers are gone", func() bool {
		got := scrape(t, registry)
		if age := got.sum("pgqueue_stats_age_seconds"); age > 4 && got.find("pgqueue_ready_jobs") != nil {
			t.Fatalf("numbers of %v s ago are still shown", age)
		}
		return got.find("pgqueue_ready_jobs") == nil
	})
	eventuallyAt(t, registry, 1, "pgqueue_stats_errors_total")
	// The server gives up by itself: nothing piles up behind the lock, and the connection stays.
	eventually(t, "the server gives up a statement", func() bool { return gaveUp.n.Load() > 0 })
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the numbers are back", func() bool { return scrape(t, registry).find("pgqueue_ready_jobs") != nil })
}

// A database that was never read is no reason to show zeros.
func TestNumbersThatWereNeverReadAreNotShown(t *testing.T) {
	db := pgqueuetest.New(t, pgqueuetest.WithoutMigrations())
	registry := prometheus.NewRegistry()
	m := newMetrics(t, metrics.PrometheusConfig{Registerer: registry, Pool: db.Pool, Interval: time.Second, Queues: []string{"mail"}})
	background(t, m.Run)
	got := eventuallyAt(t, registry, 2, "pgqueue_stats_errors_total")
	if got.sum("pgqueue_stats_age_seconds") < 0.5 {
		t.Errorf("age %v after two failed readings", got.sum("pgqueue_stats_age_seconds"))
	}
	if shown := got.find("pgqueue_ready_jobs"); shown != nil {
		t.Errorf("shown although never read: %v", shown)
	}
	if got.find("pgqueue_notify_queue_usage_ratio") == nil {
		t.Error("the usage of the notification queue needs no table, but is missing")
	}
}

// Two libraries of a process may both run the loop: one reads, and the other takes over. Here the other cannot read at all, so
// that its first attempt is an error.
func TestOneOfTwoRunsReads(t *testing.T) {
	db, empty := pgqueuetest.New(t), pgqueuetest.New(t, pgqueuetest.WithoutMigrations())
	registry := prometheus.NewRegistry()
	good := metrics.PrometheusConfig{Registerer: registry, Pool: db.Pool, Interval: time.Second}
	bad := good
	bad.Pool = empty.Pool
	stopGood := background(t, newMetrics(t, good).Run)
	eventuallyAt(t, registry, 1, "pgqueue_stats_reads_total")
	stopBad := background(t, newMetrics(t, bad).Run)
	eventuallyAt(t, registry, 4, "pgqueue_stats_reads_total").want(t, 0, "pgqueue_stats_errors_total")
	stopGood()
	eventuallyAt(t, registry, 1, "pgqueue_stats_errors_total")
	stopBad()

	// One that waits for its turn ends with its context all the same.
	background(t, newMetrics(t, good).Run)
	eventually(t, "the next one shows its numbers", func() bool { return scrape(t, registry).find("pgqueue_stats_age_seconds") != nil })
	background(t, newMetrics(t, good).Run)()
}

// timeouts counts the statements of a pool that the server gave up by itself.
type timeouts struct{ n atomic.Int64 }

func (*timeouts) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}

func (c *timeouts) TraceQueryEnd(_ context.Context, _ *pgx.Conn, data pgx.TraceQueryEndData) {
	var refused *pgconn.PgError
	if errors.As(data.Err, &refused) && refused.Code == "57014" {
		c.n.Add(1)
	}
}

// The grants that docs/roles.md gives to a viewer, or to a worker, are enough.
func TestRolesThatMayReadTheNumbers(t *testing.T) {
	db := pgqueuetest.New(t)
	role := fmt.Sprintf("metrics_%d", time.Now().UnixNano())
	exec(t, db.Pool, "CREATE ROLE "+role+" LOGIN PASSWORD 'x'")
	t.Cleanup(func() {
		_, err := db.Pool.Exec(context.Background(), "DROP OWNED BY "+role+"; DROP ROLE "+role)
		if err != nil {
			t.Log(err)
		}
	})
	exec(t, db.Pool, "GRANT USAGE ON SCHEMA pgqueue TO "+role)
	exec(t, db.Pool, "GRANT SELECT ON pgqueue.queues TO "+role)
	exec(t, db.Pool, "GRANT EXECUTE ON FUNCTION pgqueue.cached_stats(interval) TO "+role)
	config := db.Pool.Config()
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "SET ROLE "+role)
		return err
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	registry := prometheus.NewRegistry()
	background(t, newMetrics(t, metrics.PrometheusConfig{Registerer: registry, Pool: pool, Queues: []string{"mail"}}).Run)
	got := eventuallyAt(t, registry, 1, "pgqueue_stats_reads_total")
	got.want(t, 0, "pgqueue_stats_errors_total")
}
