package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgqueue/pgqueue/metrics"
	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/runner"
)

func TestSettingsThatCannotWorkAreNamed(t *testing.T) {
	for field, config := range map[string]metrics.PrometheusConfig{
		"Schema":                  {Schema: "\xff"},
		`ConstLabels["queue"]`:    {ConstLabels: prometheus.Labels{"queue": "x"}},
		`ConstLabels["le"]`:       {ConstLabels: prometheus.Labels{"le": "x"}},
		`ConstLabels["__x"]`:      {ConstLabels: prometheus.Labels{"__x": "x"}},
		`ConstLabels[""]`:         {ConstLabels: prometheus.Labels{"": "x"}},
		`ConstLabels["\xff"]`:     {ConstLabels: prometheus.Labels{"\xff": "x"}},
		`ConstLabels["database"]`: {ConstLabels: prometheus.Labels{"database": "\xff"}},
		"Queues[1]":               {Queues: []string{"mail", "\xff"}},
		"Kinds[0]":                {Kinds: []string{"\xff"}},
		"DurationBuckets[1]":      {DurationBuckets: []float64{1, 1}},
		"LatencyBuckets[2]":       {LatencyBuckets: []float64{1, 2, 1}},
		"Interval":                {Interval: time.Millisecond},
		"Timeout":                 {Interval: 2 * time.Second, Timeout: 3 * time.Second},
		"StaleAfter":              {StaleAfter: time.Second},
	} {
		config.Registerer = prometheus.NewRegistry()
		_, err := metrics.NewPrometheus(config)
		var refused *pgqueue.ValidationError
		if !errors.As(err, &refused) || refused.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	m := newMetrics(t, metrics.PrometheusConfig{Registerer: prometheus.NewRegistry()})
	var refused *pgqueue.ValidationError
	if err := m.Run(t.Context()); !errors.As(err, &refused) || refused.Field != "Pool" {
		t.Errorf("Run without a pool: %v", err)
	}
}

// ended is an attempt that succeeded.
func ended(queue, kind string) runner.AttemptEvent {
	return runner.AttemptEvent{Queue: queue, Kind: kind, Duration: time.Millisecond, Decision: runner.Succeed}
}

// A second client, a restart inside the process and a metric of somebody else's are no reason to panic, and nothing is counted
// where nobody looks.
func TestC124_SeveralInOneProcess(t *testing.T) {
	registry := prometheus.NewRegistry()
	a := newMetrics(t, metrics.PrometheusConfig{Registerer: registry})
	b := newMetrics(t, metrics.PrometheusConfig{Registerer: registry, Schema: "Other \"schema\""})
	a.AttemptEnded(t.Context(), ended("mail", "send"))
	for range 2 {
		b.AttemptEnded(t.Context(), ended("mail", "send"))
	}
	unwatch := a.Watch(statusFunc(func() pgqueue.WorkerStatus {
		return pgqueue.WorkerStatus{Running: true, Queues: map[string]runner.Status{"mail": {InFlight: 3}}}
	}))
	got := scrape(t, registry)
	got.want(t, 1, "pgqueue_attempts_total", "schema", "pgqueue")
	got.want(t, 2, "pgqueue_attempts_total", "schema", `Other "schema"`)
	got.want(t, 3, "pgqueue_handlers_in_flight", "schema", "pgqueue", "queue", "mail")

	unwatch()
	if left := scrape(t, registry).find("pgqueue_handlers_in_flight"); left != nil {
		t.Errorf("the gauges of a worker that nobody watches are still there: %v", left)
	}
	again := newMetrics(t, metrics.PrometheusConfig{Registerer: registry})
	again.AttemptEnded(t.Context(), ended("mail", "send"))
	scrape(t, registry).want(t, 2, "pgqueue_attempts_total", "schema", "pgqueue", "kind", "send")

	// Shared through a wrapper too, and with settings that cannot be shared it says so.
	wrapped := prometheus.WrapRegistererWith(prometheus.Labels{"region": "eu"}, prometheus.NewRegistry())
	newMetrics(t, metrics.PrometheusConfig{Registerer: wrapped})
	newMetrics(t, metrics.PrometheusConfig{Registerer: wrapped})
	_, err := metrics.NewPrometheus(metrics.PrometheusConfig{Registerer: registry, LatencyBuckets: []float64{1, 2}})
	var refused *pgqueue.ValidationError
	if !errors.As(err, &refused) || refused.Field != "LatencyBuckets" {
		t.Errorf("other buckets on the same registry: %v", err)
	}
}

func TestC124_AClashIsAnErrorOfTheConstructor(t *testing.T) {
	for _, d := range metrics.Definitions() {
		registry := prometheus.NewRegistry()
		registry.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: d.Name, Help: "Somebody else's."}))
		if _, err := metrics.NewPrometheus(metrics.PrometheusConfig{Registerer: registry}); err == nil || !strings.Contains(err.Error(), d.Name) {
			t.Errorf("a metric %s of somebody else's: %v", d.Name, err)
		}
		if got := len(scrape(t, registry)); got != 1 {
			t.Errorf("after a clash there are %d samples, want that of the other alone", got)
		}
	}
	registry := prometheus.NewRegistry()
	newMetrics(t, metrics.PrometheusConfig{Registerer: registry})
	if _, err := metrics.NewPrometheus(metrics.PrometheusConfig{Registerer: registry, ConstLabels: prometheus.Labels{"database": "b"}}); err == nil {
		t.Error("other names of labels on the same registry were taken")
	}
}

// The default registerer belongs to the process: tests and libraries share it without agreeing on anything.
func TestC124_TheDefaultRegistererIsShared(t *testing.T) {
	kinds := []string{"one", "two", "three"}
	var group sync.WaitGroup
	for _, kind := range kinds {
		group.Go(func() {
			for range 20 {
				m, err := metrics.NewPrometheus(metrics.PrometheusConfig{})
				if err != nil {
					t.Error(err)
					return
				}
				m.AttemptEnded(context.Background(), ended("mail", kind))
			}
		})
	}
	group.Wait()
	got := scrape(t, prometheus.DefaultGatherer)
	for _, kind := range kinds {
		got.want(t, 20, "pgqueue_attempts_total", "schema", "pgqueue", "kind", kind)
	}
}

// Names with bytes that no label may have reach an observer wherever a queue of somebody's own or a sender of hints is
// careless.
func TestC129_NoNamePanics(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := newMetrics(t, metrics.PrometheusConfig{Registerer: registry})
	for _, name := range []string{"\xff", "", "a\x00b", "\"\n\\", "other", strings.Repeat("x", 10_000)} {
		everyEvent(t.Context(), m, name, name)
	}
	m.VerdictDone(runner.VerdictEvent{Outcome: 200})
	m.Woken(runner.WakeEvent{Source: 200})
	m.RenewDone(runner.RenewEvent{Refused: -1})
	m.AttemptEnded(t.Context(), runner.AttemptEvent{Decision: runner.Retry, Duration: -time.Hour})
	m.Watch(nil)()
	type unhashable struct{ status []statusFunc }
	m.Watch(listOf{unhashable{}.status})
	got := scrape(t, registry)
	got.want(t, 2, "pgqueue_attempts_total", "queue", "other", "kind", "other") // "\xff" and "other"
	if found := got.find("pgqueue_attempts_total", "queue", "a\x00b"); found == nil {
		t.Error("a NUL is valid in a label, but is not there")
	}
}

// listOf is a source that is no key of a map.
type listOf struct{ all []statusFunc }

func (listOf) Status() pgqueue.WorkerStatus { return pgqueue.WorkerStatus{Running: true} }

// everyEvent tells an observer one event of each sort.
func everyEvent(ctx context.Context, m *metrics.Prometheus, queue, kind string) {
	now := time.Now()
	m.AttemptStarted(ctx, runner.AttemptEvent{Queue: queue, Kind: kind, Due: now, Claimed: now})
	m.AttemptEnded(ctx, ended(queue, kind))
	m.VerdictDone(runner.VerdictEvent{Queue: queue, Kind: kind, Outcome: runner.Succeeded})
	m.ClaimDone(runner.ClaimEvent{Queue: queue, Limit: 2, Claimed: 1})
	m.FlushDone(runner.FlushEvent{Queue: queue, Verdicts: 1, Err: errors.New(queue)})
	m.RenewDone(runner.RenewEvent{Queue: queue, Renewed: 1, Err: errors.New(queue)})
	m.LeaseLost(runner.LeaseEvent{Queue: queue, Kind: kind})
	m.TaskStuck(runner.StuckEvent{Queue: queue, Kind: kind})
	m.Woken(runner.WakeEvent{Queue: queue, Source: runner.WakeHint, Hints: 3})
	m.ReaperFailed(queue, queue, errors.New(queue))
	everyHint(m, queue)
}

// everyHint tells an observer of hints about a queue that anybody may have named.
func everyHint(m *metrics.Prometheus, queue string) {
	m.ListenerHint(queue)
	m.ListenerCoalesced(queue)
	m.HintSent(queue)
	m.HintHeld(queue)
	m.HintsTrailed([]string{queue}, nil)
	m.HintsTrailed([]string{queue}, errors.New(queue))
}

// A runner over a queue of somebody's own may run any kind, and anybody may send a hint for any queue: both are bounded.
func TestC125_ObserversAloneBoundTheirLabels(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := newMetrics(t, metrics.PrometheusConfig{Registerer: registry, Kinds: []string{"listed"}, MaxKinds: 3})
	for i := range 100 {
		everyEvent(t.Context(), m, "mail", fmt.Sprintf("kind %d", i))
		everyHint(m, fmt.Sprintf("queue %d", i))
	}
	everyEvent(t.Context(), m, "mail", "listed")
	got := scrape(t, registry)
	got.want(t, 97, "pgqueue_attempts_total", "kind", "other")
	got.want(t, 1, "pgqueue_attempts_total", "kind", "listed")
	got.want(t, 100, "pgqueue_hints_sent_total", "queue", "other")
	values := map[string]map[string]bool{"queue": {}, "kind": {}}
	for _, one := range got {
		for label := range values {
			values[label][one.labels[label]] = true
		}
	}
	if len(values["queue"]) != 3 || len(values["kind"]) != 6 { // each with none at all
		t.Errorf("values of labels: %v", values)
	}
	// A queue that turns out to be served moves to a label of its own.
	everyEvent(t.Context(), m, "queue 7", "listed")
	scrape(t, registry).want(t, 1, "pgqueue_hints_sent_total", "queue", "queue 7")
}

// Due and Claimed are of the store's clock, which may be hours away from this one; Waited is of this one.
func TestPickupLatencyMixesNoClocks(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := newMetrics(t, metrics.PrometheusConfig{Registerer: registry})
	elsewhere := time.Now().Add(-5 * time.Hour)
	m.AttemptStarted(t.Context(), runner.AttemptEvent{Queue: "mail", Kind: "send", Due: elsewhere, Claimed: elsewhere.Add(2 * time.Second), Waited: time.Second})
	m.AttemptStarted(t.Context(), runner.AttemptEvent{Queue: "mail", Kind: "silent"}) // a queue that does not say
	got := scrape(t, registry)
	got.want(t, 3, "pgqueue_pickup_latency_seconds_sum", "kind", "send")
	got.want(t, 0, "pgqueue_pickup_latency_seconds_count", "kind", "silent")
}

func TestGaugesOfSeveralWorkersAreAddedUp(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := newMetrics(t, metrics.PrometheusConfig{Registerer: registry})
	kinds := []runner.KindStatus{{Kind: "send", Workers: 3, Running: 2}}
	source := &fixed{pgqueue.WorkerStatus{Running: true, Queues: map[string]runner.Status{
		"mail": {InFlight: 3, Tasks: 7, Buffered: 2, Unreported: 1, Kinds: kinds, PausedUntil: time.Now().Add(time.Hour)},
	}}}
	stopped := &fixed{pgqueue.WorkerStatus{Queues: map[string]runner.Status{"mail": {InFlight: 100}}}}
	m.Watch(source)
	m.Watch(source) // by mistake
	m.Watch(&fixed{source.status})
	m.Watch(stopped)
	m.WatchRunner(oneRunner{runner.Status{Queue: "outbox", Lifecycle: runner.Stopping, InFlight: 5}})
	m.WatchRunner(oneRunner{runner.Status{Queue: "outbox", Lifecycle: runner.Stopped, InFlight: 50}})
	got := scrape(t, registry)
	got.want(t, 3, "pgqueue_workers")
	got.want(t, 4, "pgqueue_handlers_in_flight", "queue", "mail", "kind", "send")
	got.want(t, 2, "pgqueue_handlers_in_flight", "queue", "mail", "kind", "other")
	got.want(t, 6, "pgqueue_handlers_limit", "queue", "mail", "kind", "send")
	got.want(t, 14, "pgqueue_jobs_in_flight", "queue", "mail")
	got.want(t, 1, "pgqueue_claims_paused", "queue", "mail")
	got.want(t, 5, "pgqueue_handlers_in_flight", "queue", "outbox")
	if got.find("pgqueue_listener_connected") != nil {
		t.Error("a listener is shown where there is none")
	}
}

// fixed is a status that does not change.
type fixed struct{ status pgqueue.WorkerStatus }

func (f *fixed) Status() pgqueue.WorkerStatus { return f.status }

type oneRunner struct{ status runner.Status }

func (o oneRunner) Status() runner.Status { return o.status }
