package metrics_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgqueue/pgqueue/metrics"
)

// The observer is called for every attempt of every handler: once a queue and kind are known it leaves nothing to collect.
func TestAnAttemptAllocatesNothing(t *testing.T) {
	m := newMetrics(t, metrics.PrometheusConfig{Registerer: prometheus.NewRegistry()})
	e := ended("mail", "send")
	ctx := t.Context()
	if n := testing.AllocsPerRun(100, func() { m.AttemptStarted(ctx, e); m.AttemptEnded(ctx, e) }); n != 0 {
		t.Errorf("%v allocations an attempt", n)
	}
}
