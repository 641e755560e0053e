package metrics_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgqueue/pgqueue/metrics"
	"github.com/pgqueue/pgqueue/pgqueue"
)

// patience is how long a test waits for what must happen; only a broken program makes it wait so long.
const patience = 60 * time.Second

// job is the work of these tests. Do says how its handler behaves.
type job struct {
	Do string `json:"do,omitempty"`
}

func (job) Kind() string { return "job" }

// size is small in every run and full where PGQUEUE_TEST_FULL asks for the sizes of the failure cases' text.
func size[T any](small, full T) T {
	if os.Getenv("PGQUEUE_TEST_FULL") != "" {
		return full
	}
	return small
}

// quiet is a logger for tests that make things fail on purpose.
func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func newMetrics(t testing.TB, config metrics.PrometheusConfig) *metrics.Prometheus {
	t.Helper()
	if config.Logger == nil {
		config.Logger = quiet()
	}
	m, err := metrics.NewPrometheus(config)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func newClient(t testing.TB, pool *pgxpool.Pool, options ...pgqueue.ClientOption) *pgqueue.Client {
	t.Helper()
	client, err := pgqueue.NewClient(pool, append([]pgqueue.ClientOption{pgqueue.WithLogger(quiet())}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close(context.Background()) })
	return client
}

// background runs what lasts until its context ends, and waits for its end in the test's.
func background(t testing.TB, run func(ctx context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	stopped := false
	stop = func() {
		cancel()
		if stopped {
			return
		}
		stopped = true
		select {
		case err := <-ended:
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("a loop ended with: %v", err)
			}
		case <-time.After(patience):
			t.Error("a loop did not stop")
		}
	}
	t.Cleanup(stop)
	return stop
}

// eventually polls for what leaves no other evidence than the answer to a query or a scrape.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
		<-tick.C
	}
}

// receive waits for a value, or for the channel to be closed.
func receive[T any](t testing.TB, from <-chan T, what string) T {
	t.Helper()
	select {
	case value := <-from:
		return value
	case <-time.After(patience):
		t.Fatalf("waited in vain for %s", what)
		panic("unreachable")
	}
}

// eventuallyAt waits until a scrape shows at least this.
func eventuallyAt(t testing.TB, from prometheus.Gatherer, least float64, name string, labels ...string) scraped {
	t.Helper()
	var last scraped
	eventually(t, name+" reaches its value", func() bool {
		last = scrape(t, from)
		return last.sum(name, labels...) >= least
	})
	return last
}

// exec runs statements that change what a client would not.
func exec(t testing.TB, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// enqueue enqueues one job into a queue.
func enqueue(t testing.TB, client *pgqueue.Client, pool *pgxpool.Pool, args pgqueue.Args, options ...pgqueue.EnqueueOption) int64 {
	t.Helper()
	enqueued, err := client.Enqueue(t.Context(), pool, args, options...)
	if err != nil {
		t.Fatal(err)
	}
	return enqueued.ID
}
