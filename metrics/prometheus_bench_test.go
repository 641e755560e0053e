package metrics_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgqueue/pgqueue/metrics"
	"github.com/pgqueue/pgqueue/runner"
)

// What one attempt costs: its start, its end and its verdict, with 20 kinds in 5 queues, as several handlers at a time tell them.
func BenchmarkAttempt(b *testing.B) {
	m := newMetrics(b, metrics.PrometheusConfig{Registerer: prometheus.NewRegistry()})
	now := time.Now()
	var events []runner.AttemptEvent
	for i := range 100 {
		events = append(events, runner.AttemptEvent{
			Queue: fmt.Sprintf("queue_%d", i/20), Kind: fmt.Sprintf("send_message_%d", i%20), Due: now.Add(-time.Duration(i) * time.Millisecond),
			Claimed: now, Waited: time.Millisecond, Duration: time.Duration(i) * time.Millisecond, Decision: runner.Succeed,
		})
	}
	b.ReportAllocs()
	b.RunParallel(func(parallel *testing.PB) {
		ctx := b.Context()
		for i := 0; parallel.Next(); i++ {
			e := events[i%len(events)]
			m.AttemptStarted(ctx, e)
			m.AttemptEnded(ctx, e)
			m.VerdictDone(runner.VerdictEvent{Queue: e.Queue, Kind: e.Kind, Outcome: runner.Succeeded})
		}
	})
}

// BenchmarkScrape is a scrape of 5 queues of 20 kinds each.
func BenchmarkScrape(b *testing.B) {
	registry := prometheus.NewRegistry()
	m := newMetrics(b, metrics.PrometheusConfig{Registerer: registry})
	for i := range 100 {
		everyEvent(b.Context(), m, fmt.Sprintf("queue_%d", i/20), fmt.Sprintf("send_message_%d", i%20))
	}
	for b.Loop() {
		if _, err := registry.Gather(); err != nil {
			b.Fatal(err)
		}
	}
}
