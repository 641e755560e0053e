package metrics_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgqueue/pgqueue/listener"
	"github.com/pgqueue/pgqueue/metrics"
	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
	"github.com/pgqueue/pgqueue/reaper"
)

// ill is a worker that says of itself what it is told to.
type ill struct {
	statusFunc
	loops []pgqueue.LoopHealth
}

func (i ill) Health() pgqueue.Health { return pgqueue.Health{Loops: i.loops} }

// A listener that is connected and not deaf, and whose echo cannot be sent, proves nothing: the server may be frozen.
func TestAListenerWhoseEchoCannotBeSentDoesNotCount(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	m := newMetrics(t, metrics.PrometheusConfig{Registerer: registry})
	status := listener.Status{Connected: true}
	defer m.Watch(statusFunc(func() pgqueue.WorkerStatus {
		return pgqueue.WorkerStatus{Running: true, Listener: &status}
	}))()
	scrape(t, registry).want(t, 1, "pgqueue_listener_connected")
	status.SendError = "timeout"
	got := scrape(t, registry)
	got.want(t, 0, "pgqueue_listener_connected")
	got.want(t, 0, "pgqueue_listener_deaf")
}

// Every loop that readiness knows is in the gauge, those of the whole worker without a queue.
func TestEveryLoopThatTriesInVainIsSeen(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	m := newMetrics(t, metrics.PrometheusConfig{Registerer: registry, Queues: []string{"mail"}})
	ago := time.Now().Add(-time.Minute)
	defer m.Watch(ill{
		statusFunc(func() pgqueue.WorkerStatus {
			return pgqueue.WorkerStatus{Running: true, Reaper: reaper.Status{Targets: []reaper.TargetStatus{{Name: "mail", Silent: ago}, {Name: "b"}}}}
		}),
		[]pgqueue.LoopHealth{
			{Name: "probe", Since: ago}, {Name: "listener", Since: ago}, {Name: "heartbeat", Since: ago, OK: true},
			{Name: "made up", Since: ago}, {Name: "claim:mail", Since: ago},
		},
	})()
	got := scrape(t, registry)
	for loop, queue := range map[string]string{"reap": "mail", "probe": "", "listener": ""} {
		if v := got.find("pgqueue_loop_trying_seconds", "loop", loop, "queue", queue); len(v) != 1 || v[0].value < 59 || v[0].value > 600 {
			t.Errorf("%s: %v, want a minute", loop, v)
		}
	}
	if well := got.find("pgqueue_loop_trying_seconds", "loop", "heartbeat"); len(well) != 1 || well[0].value != 0 {
		t.Errorf("a loop that is well: %v", well)
	}
	if n := len(got.find("pgqueue_loop_trying_seconds")); n != 5 { // and the reaper of a queue that has no label of its own
		t.Errorf("%d loops: %v", n, got.find("pgqueue_loop_trying_seconds"))
	}
}

// A worker has all of its loops in the gauge, and none of them tries in vain while all is well.
func TestTheLoopsOfAWorker(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	registry := prometheus.NewRegistry()
	m := newMetrics(t, metrics.PrometheusConfig{Registerer: registry})
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[job]) error { return nil })
	worker, err := newClient(t, db.Pool).NewWorker(mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"mail": {}}})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Watch(worker)()
	background(t, worker.Run)
	want := []string{" heartbeat", " probe", " listener", "mail claim", "mail flush", "mail reap", "mail renew", "mail watch"}
	eventually(t, "all loops are there and well", func() bool {
		var have []string
		for _, one := range scrape(t, registry).find("pgqueue_loop_trying_seconds") {
			if one.value < 5 {
				have = append(have, one.labels["queue"]+" "+one.labels["loop"])
			}
		}
		slices.Sort(have)
		slices.Sort(want)
		return slices.Equal(have, want)
	})
}
