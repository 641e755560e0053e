package metrics_test

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgqueue/pgqueue/metrics"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// Ten processes are scraped all the time: together they count once an interval, by index, and no scrape waits for that.
func TestC127_ScrapesCostOneCountAnInterval(t *testing.T) {
	const clients = 10
	done, ready, scheduled := size(20_000, 2_000_000), size(3_000, 300_000), size(500, 50_000)
	interval, every, lasts := size(time.Second, 5*time.Second), size(100*time.Millisecond, 5*time.Second), size(5*time.Second, time.Minute)
	db := pgqueuetest.New(t)
	exec(t, db.Pool, `SELECT pgqueue.ensure_history(1)`)
	exec(t, db.Pool, `INSERT INTO pgqueue.history (id, run_at, created_at, claimed_at, finished_at, day, attempt, generation, error_count, priority,
			failures, max_attempts, queue, kind, state, payload, metadata, tags)
		SELECT n, now(), now(), now(), now(), (now() AT TIME ZONE 'UTC')::date, 1, 1, 0, 1, 0, 3, 'q' || n % 30, 'k', 'succeeded', '{}', '{}', '{}'
		FROM generate_series(1, $1::int) n`, done)
	exec(t, db.Pool, `INSERT INTO pgqueue.jobs (queue, kind, priority, run_at)
		SELECT 'q' || n % 30, 'k', 1 + n / 30 % 4, now() FROM generate_series(1, $1::int) n`, ready)
	exec(t, db.Pool, `INSERT INTO pgqueue.jobs (queue, kind, run_at) SELECT 'q' || n % 30, 'k', now() + interval '1 d' FROM generate_series(1, $1::int) n`, scheduled)
	// Every count writes the one row of the cache.
	exec(t, db.Pool, `CREATE TABLE public.counts (at timestamptz, took interval)`)
	exec(t, db.Pool, `CREATE FUNCTION public.counted() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN INSERT INTO public.counts VALUES (NEW.taken_at, clock_timestamp() - NEW.taken_at); RETURN NULL; END $$`)
	exec(t, db.Pool, `CREATE TRIGGER counted AFTER UPDATE ON pgqueue.stats_cache FOR EACH ROW EXECUTE FUNCTION public.counted()`)
	exec(t, db.Pool, `SELECT pg_stat_reset()`)

	began := time.Now()
	var registries []*prometheus.Registry
	for range clients {
		registry := prometheus.NewRegistry()
		registries = append(registries, registry)
		background(t, newMetrics(t, metrics.PrometheusConfig{Registerer: registry, Pool: db.Pool, Interval: interval, Queues: []string{"q1"}}).Run)
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	var slowest time.Duration
	scrapes := 0
	for time.Since(began) < lasts {
		<-tick.C
		for _, registry := range registries {
			start := time.Now()
			scrape(t, registry)
			slowest = max(slowest, time.Since(start))
			scrapes++
		}
	}
	for _, registry := range registries {
		got := eventuallyAt(t, registry, 2, "pgqueue_stats_reads_total")
		got.want(t, 0, "pgqueue_stats_errors_total")
		got.want(t, float64(ready/30), "pgqueue_ready_jobs", "queue", "q1")
		got.want(t, float64(scheduled/30)+oneMore(scheduled, 1), "pgqueue_scheduled_jobs", "queue", "q1")
	}
	var counts int
	var took time.Duration
	var median time.Duration
	if err := db.Pool.QueryRow(t.Context(), `SELECT count(*), max(took), percentile_disc(0.5) WITHIN GROUP (ORDER BY took)
		FROM public.counts`).Scan(&counts, &took, &median); err != nil {
		t.Fatal(err)
	}
	elapsed := time.Since(began)
	if most := int(elapsed/interval) + 1; counts > most {
		t.Errorf("%d counts in %s by %d processes, want at most %d", counts, elapsed, clients, most)
	}
	if counts < 2 {
		t.Errorf("%d counts in %s: nothing was refreshed", counts, elapsed)
	}
	var sequential int
	if err := db.Pool.QueryRow(t.Context(), `SELECT coalesce(sum(seq_scan), 0) FROM pg_stat_user_tables
		WHERE schemaname = 'pgqueue' AND (relname = 'jobs' OR relname LIKE 'history%')`).Scan(&sequential); err != nil {
		t.Fatal(err)
	}
	if sequential != 0 {
		t.Errorf("%d sequential scans of jobs and history", sequential)
	}
	if slowest > 5*time.Second || took > 5*time.Second {
		t.Errorf("the slowest scrape took %s and the slowest count %s", slowest, took)
	}
	t.Logf("%d done, %d ready, %d scheduled: %d scrapes, the slowest %s; %d counts in %s, half of them within %s, the slowest %s",
		done, ready, scheduled, scrapes, slowest.Round(time.Microsecond), counts, elapsed.Round(time.Second), median, took)
}

// oneMore is 1 if the first of n numbered rows put one more into the queue of this number of thirty.
func oneMore(n, queue int) float64 {
	if n%30 >= queue {
		return 1
	}
	return 0
}
