package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgqueue/pgqueue/metrics"
	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// named is a job of any kind.
type named struct {
	kind string
	Text string `json:"text"`
}

func (n named) Kind() string { return n.kind }

// What arguments, errors, producers and unknown kinds say becomes no label. The one exception are the gauges of the database, which
// have every queue's name up to a constant.
func TestC125_LabelsAreBounded(t *testing.T) {
	jobs, queues, kinds := size(300, 20_000), size(250, 5_000), size(20, 500)
	db := pgqueuetest.New(t)
	registry := prometheus.NewRegistry()
	m := newMetrics(t, metrics.PrometheusConfig{Registerer: registry, Pool: db.Pool, Interval: time.Second})
	client := newClient(t, db.Pool, pgqueue.WithObserver(m))
	mux := pgqueue.NewMux()
	mux.HandleFunc("known", func(_ context.Context, j *pgqueue.AnyJob) error {
		switch rand.IntN(3) {
		case 0:
			return fmt.Errorf("%s: %d", j.Args, rand.Int64())
		case 1:
			return pgqueue.Permanent(pgqueue.Coded(fmt.Sprintf("code_%d", rand.Int64()), errors.New("text")))
		}
		return nil
	}, pgqueue.KindMaxAttempts(1))
	worker, err := client.NewWorker(mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"a": {Workers: 4}, "b": {Workers: 4}}})
	if err != nil {
		t.Fatal(err)
	}
	m.Watch(worker)
	background(t, worker.Run)
	background(t, m.Run)

	flood := func(round, jobs, queues, kinds int) {
		t.Helper()
		var batch []pgqueue.NewJob
		add := func(kind, queue string) {
			batch = append(batch, pgqueue.NewJob{Args: named{kind, fmt.Sprint(rand.Int64())}, Options: []pgqueue.EnqueueOption{pgqueue.OnQueue(queue)}})
		}
		for i := range jobs {
			add("known", []string{"a", "b"}[i%2])
		}
		for i := range queues {
			add("known", fmt.Sprintf("made up %d %d", round, i))
		}
		for i := range kinds {
			add(fmt.Sprintf("unknown %d %d", round, i), "a")
		}
		for from := 0; from < len(batch); from += 1000 {
			if _, err := client.EnqueueMany(t.Context(), db.Pool, batch[from:min(from+1000, len(batch))]); err != nil {
				t.Fatal(err)
			}
		}
	}
	ofDatabase := func(one sample) bool {
		return one.labels["queue"] != "" && slices.Contains(metrics.DatabaseGauges(), one.name)
	}
	series := func(done float64) (n, inDatabase int) {
		t.Helper()
		eventuallyAt(t, registry, done, "pgqueue_verdicts_total")
		reads := scrape(t, registry).sum("pgqueue_stats_reads_total")
		all := eventuallyAt(t, registry, reads+2, "pgqueue_stats_reads_total")
		for _, one := range all {
			if ofDatabase(one) {
				inDatabase++
			}
		}
		return len(all) - inDatabase, inDatabase
	}
	flood(0, 60, 30, 2)
	few, _ := series(60)
	flood(1, jobs, queues, kinds)
	many, inDatabase := series(float64(60 + jobs))
	if many > few+2 { // such as the kind "other" that appears late
		t.Errorf("%d series after a little, %d after %d queues and %d kinds that nobody configured", few, many, queues, kinds)
	}
	// The two that are configured, and the rest; four priorities and nine more.
	if bound := (metrics.MaxDatabaseQueues + 2 + 1) * (4 + 9); inDatabase > bound {
		t.Errorf("%d series of the database's queues, want at most %d", inDatabase, bound)
	}
	// Two queues, one kind, and "other" beside each; an attempt has ten outcomes and a histogram less than twenty series.
	if bound := 3*2*(2*10+2*20+5) + 3*130 + 40; many > bound {
		t.Errorf("%d series, want at most %d", many, bound)
	}
	got := scrape(t, registry)
	for _, one := range got {
		if queue := one.labels["queue"]; queue != "" && queue != "a" && queue != "b" && queue != "other" && !ofDatabase(one) {
			t.Fatalf("the label of a queue that nobody configured: %v", one)
		}
	}
	if got.sum("pgqueue_ready_jobs", "queue", "other") == 0 || got.sum("pgqueue_hints_sent_total", "queue", "other") == 0 {
		t.Error("the queues that nobody configured are not counted as other")
	}
}

// Counters only rise, whatever becomes of the rows and of the worker, and every attempt is counted once.
func TestC128_CountersOnlyRise(t *testing.T) {
	n := size(100, 1000)
	db := pgqueuetest.New(t)
	registry := prometheus.NewRegistry()
	var ran atomic.Int64
	before := scraped{}
	rising := func() scraped {
		t.Helper()
		now := scrape(t, registry)
		for _, d := range metrics.Definitions() {
			if d.Kind == "gauge" {
				continue
			}
			for _, suffix := range []string{"", "_count", "_sum"} {
				for _, old := range before.find(d.Name + suffix) {
					pairs := []string{}
					for label, value := range old.labels {
						pairs = append(pairs, label, value)
					}
					if got := now.find(d.Name+suffix, pairs...); len(got) != 1 || got[0].value < old.value {
						t.Errorf("%s%q was %v and is %v", d.Name+suffix, pairs, old.value, got)
					}
				}
			}
		}
		before = now
		return now
	}
	entered := make(chan int64, 10)
	life := func() (client *pgqueue.Client, stop func()) {
		m := newMetrics(t, metrics.PrometheusConfig{Registerer: registry})
		client = newClient(t, db.Pool, pgqueue.WithObserver(m))
		mux := pgqueue.NewMux()
		pgqueue.Handle(mux, func(ctx context.Context, j *pgqueue.Job[job]) error {
			ran.Add(1)
			switch j.Args.Do {
			case "wait":
				entered <- j.ID
				<-ctx.Done()
				return ctx.Err()
			case "panic":
				panic("on purpose")
			case "snooze":
				return pgqueue.Snooze(time.Hour)
			case "error":
				return errors.New("text")
			}
			return nil
		})
		worker, err := client.NewWorker(mux, pgqueue.WorkerConfig{
			Queues: pgqueue.Queues{"default": {Workers: 8, Backoff: hourly{}}}, StopTimeout: -1,
			Lease: 9 * time.Second, RenewEvery: time.Second, StorageTimeout: time.Second,
		})
		if err != nil {
			t.Fatal(err)
		}
		unwatch := m.Watch(worker)
		end := background(t, worker.Run)
		return client, func() { end(); unwatch() }
	}
	client, stop := life()
	for i := range n {
		enqueue(t, client, db.Pool, job{Do: []string{"", "", "panic", "snooze", "error"}[i%5]})
	}
	eventually(t, "every job has run", func() bool { // what a full buffer gave back in between counts as a verdict, too
		now := scrape(t, registry)
		return now.sum("pgqueue_verdicts_total")-now.sum("pgqueue_verdicts_total", "outcome", "released") >= float64(n)
	})
	rising()
	exec(t, db.Pool, "DELETE FROM pgqueue.history")
	exec(t, db.Pool, "DELETE FROM pgqueue.jobs")
	rising()
	enqueue(t, client, db.Pool, job{Do: "wait"})
	stolen := receive(t, entered, "the handler whose lease is lost")
	exec(t, db.Pool, "UPDATE pgqueue.jobs SET attempt = attempt + 1, queue = 'stolen' WHERE id = $1", stolen)
	eventuallyAt(t, registry, 1, "pgqueue_verdicts_total", "outcome", "lost")
	enqueue(t, client, db.Pool, job{Do: "wait"})
	receive(t, entered, "the handler that is released")
	stop()
	rising()
	client, stop = life()
	receive(t, entered, "the handler, again")
	enqueue(t, client, db.Pool, job{})
	eventuallyAt(t, registry, float64(n*2/5+1), "pgqueue_verdicts_total", "outcome", "succeeded")
	stop()
	got := rising()

	if total := float64(ran.Load()); total != float64(n+4) {
		t.Errorf("%v runs of handlers, want %d", total, n+4)
	}
	got.want(t, float64(ran.Load()), "pgqueue_attempts_total")
	got.want(t, float64(ran.Load()), "pgqueue_attempt_duration_seconds_count")
	got.want(t, float64(ran.Load()), "pgqueue_pickup_latency_seconds_count")
	got.want(t, 1, "pgqueue_attempts_total", "outcome", "lease_lost")
	got.want(t, 2, "pgqueue_attempts_total", "outcome", "released")
	got.want(t, float64(n/5), "pgqueue_attempts_total", "outcome", "panic")
	got.want(t, float64(n/5), "pgqueue_attempts_total", "outcome", "snoozed")
	if left := got.find("pgqueue_handlers_in_flight"); left != nil {
		t.Errorf("gauges of a worker that has stopped: %v", left)
	}
}

// A bad name is refused by every way to enqueue, with an observer and middleware in place, and panics nowhere.
func TestC129_BadNamesAreRefusedBeforeTheyAreCounted(t *testing.T) {
	db := pgqueuetest.New(t)
	registry := prometheus.NewRegistry()
	m := newMetrics(t, metrics.PrometheusConfig{Registerer: registry})
	client := newClient(t, db.Pool, pgqueue.WithObserver(m), pgqueue.WithEnqueueMiddleware(func(next pgqueue.EnqueueFunc) pgqueue.EnqueueFunc {
		return func(ctx context.Context, q pgqueue.Querier, jobs []pgqueue.NewJob) ([]pgqueue.Enqueued, error) {
			return next(ctx, q, jobs)
		}
	}))
	bad := []pgqueue.NewJob{{Args: named{kind: "\xff"}}, {Args: named{kind: "k"}, Options: []pgqueue.EnqueueOption{pgqueue.OnQueue("\xff")}}}
	for _, one := range bad {
		if _, err := client.Enqueue(t.Context(), db.Pool, one.Args, one.Options...); !errors.Is(err, pgqueue.ErrInvalid) {
			t.Errorf("Enqueue: %v", err)
		}
		if _, err := client.EnqueueMany(t.Context(), db.Pool, []pgqueue.NewJob{{Args: named{kind: "k"}}, one}); !errors.Is(err, pgqueue.ErrInvalid) {
			t.Errorf("EnqueueMany: %v", err)
		}
	}
	if sent := scrape(t, registry).sum("pgqueue_hints_sent_total"); sent != 0 {
		t.Errorf("%v hints were sent for jobs that were refused", sent)
	}
}

// A database that does not answer is counted, at most every few seconds a call, and the scrape answers at once.
func TestC30_AClaimThatHangsIsCounted(t *testing.T) {
	db := pgqueuetest.New(t)
	registry := prometheus.NewRegistry()
	m := newMetrics(t, metrics.PrometheusConfig{Registerer: registry, Pool: db.Pool, Interval: time.Second})
	client := newClient(t, db.Pool, pgqueue.WithObserver(m))
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[job]) error { return nil })
	worker, err := client.NewWorker(mux, pgqueue.WorkerConfig{
		Queues: pgqueue.Queues{"default": {Workers: 2}}, Lease: 9 * time.Second, RenewEvery: time.Second,
		StorageTimeout: size(500*time.Millisecond, time.Second),
	})
	if err != nil {
		t.Fatal(err)
	}
	m.Watch(worker)
	background(t, worker.Run)
	background(t, m.Run)
	enqueue(t, client, db.Pool, job{})
	eventuallyAt(t, registry, 1, "pgqueue_attempts_total", "outcome", "succeeded")
	conn, err := pgx.Connect(t.Context(), db.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	enqueued, err := client.Enqueue(t.Context(), tx, job{}) // its hint comes with the lock's end
	if err != nil || enqueued.ID == 0 {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "LOCK TABLE pgqueue.jobs IN ACCESS EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Pool.Exec(t.Context(), "SELECT pg_notify('pgqueue', 'default')"); err != nil { // a claim, now
		t.Fatal(err)
	}
	locked := time.Now()
	least := size(2.0, 10.0)
	eventually(t, "failed claims are counted", func() bool {
		began := time.Now()
		got := scrape(t, registry)
		if took := time.Since(began); took > 5*time.Second {
			t.Fatalf("a scrape took %s while the database hangs", took)
		}
		return got.sum("pgqueue_store_errors_total", "operation", "claim") >= least && got.sum("pgqueue_loop_trying_seconds", "loop", "claim") > 0.5
	})
	if fails, took := scrape(t, registry).sum("pgqueue_store_errors_total", "operation", "claim"), time.Since(locked); fails > 4*took.Seconds()+4 {
		t.Errorf("%v failed claims in %s", fails, took)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventuallyAt(t, registry, 2, "pgqueue_attempts_total", "outcome", "succeeded")
	eventually(t, "the claims are answered again", func() bool { return scrape(t, registry).sum("pgqueue_loop_trying_seconds") == 0 })
}

// Whatever the order of work is, a low priority that waits is seen: by its count, and by the age of the oldest job.
func TestC24_WhatWaitsIsSeen(t *testing.T) {
	db := pgqueuetest.New(t)
	registry := prometheus.NewRegistry()
	m := newMetrics(t, metrics.PrometheusConfig{Registerer: registry, Pool: db.Pool, Interval: time.Second, Queues: []string{"default"}})
	client := newClient(t, db.Pool)
	enqueue(t, client, db.Pool, job{}, pgqueue.WithPriority(4))
	background(t, m.Run)
	first := eventuallyAt(t, registry, 1, "pgqueue_ready_jobs", "queue", "default", "priority", "4").sum("pgqueue_oldest_ready_seconds", "queue", "default")
	enqueue(t, client, db.Pool, job{}, pgqueue.WithPriority(1)) // a fresh one in front does not hide it
	eventuallyAt(t, registry, 1, "pgqueue_ready_jobs", "queue", "default", "priority", "1")
	eventuallyAt(t, registry, first+1, "pgqueue_oldest_ready_seconds", "queue", "default")
}

// A session that has listened and sits in a transaction pins the server's queue of notifications. How full it is is a metric;
// where the server can be given a small queue, it is filled: then hints fail an enqueue, and a client without hints works.
func TestC70_UsageOfTheNotificationQueueIsAMetric(t *testing.T) {
	db, small := notifyQueue(t)
	registry := prometheus.NewRegistry()
	m := newMetrics(t, metrics.PrometheusConfig{Registerer: registry, Pool: db.Pool, Interval: time.Second})
	background(t, m.Run)
	rogue, err := pgx.Connect(t.Context(), db.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer rogue.Close(context.Background())
	for _, sql := range []string{"LISTEN rogue", "BEGIN", "SELECT 1"} {
		if _, err := rogue.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	fill := func(n int) error {
		_, err := db.Pool.Exec(t.Context(), "SELECT pg_notify('rogue', repeat('x', 7000) || n) FROM generate_series(1, $1) n", n)
		return err
	}
	if !small {
		if err := fill(500); err != nil {
			t.Fatal(err)
		}
		eventuallyAt(t, registry, 0.000001, "pgqueue_notify_queue_usage_ratio")
		return
	}
	for full := 0; full < 100; full++ {
		if err = fill(1); err != nil {
			break
		}
	}
	if err == nil {
		t.Fatal("the queue of 64 pages took 700 kB")
	}
	eventuallyAt(t, registry, 0.5, "pgqueue_notify_queue_usage_ratio")
	tx, err := db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := newClient(t, db.Pool).Enqueue(t.Context(), tx, job{}); err == nil {
		err = tx.Commit(t.Context())
		if err == nil {
			t.Error("an enqueue with a hint went through although the queue is full: the test proves nothing")
		}
	}
	_ = tx.Rollback(t.Context())
	enqueue(t, newClient(t, db.Pool, pgqueue.WithoutHints()), db.Pool, job{})
}

// notifyQueue makes a database, on a server with a small queue of notifications where its version knows of that.
func notifyQueue(t *testing.T) (db *pgqueuetest.DB, small bool) {
	db = pgqueuetest.New(t)
	var version int
	if err := db.Pool.QueryRow(t.Context(), "SELECT current_setting('server_version_num')::int").Scan(&version); err != nil {
		t.Fatal(err)
	}
	if version < 170000 {
		return db, false
	}
	return pgqueuetest.NewServer(t, pgqueuetest.WithSetting("max_notify_queue_pages", "64")).DB(t), true
}
