package worker_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgqueue/pgqueue/worker"
)

func TestAPeriodicWorkerRunsAtEachTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, l := newCalls(), &logs{}
		fail := false
		p := worker.NewPeriodic("sweep", worker.PeriodicFunc(func(context.Context) error {
			c.note("run")
			if fail = !fail; fail {
				return errors.New("no luck")
			}
			return nil
		}), l.logger(), apart())
		r := start(t.Context(), p.Run)
		<-time.After(25 * time.Second)
		r.stop(t)
		c.want(t, "0s run", "10s run", "20s run")
		if want := `msg="worker: run failed" worker=sweep duration=0s error="no luck"`; !contains(l, want) {
			t.Errorf("the log lacks %s:\n%s", want, l)
		}
	})
}

// A run of 25 s meets ticks at 10 and 20 s. They are not made up for.
func TestTicksDuringARunAreSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, registry := newCalls(), prometheus.NewRegistry()
		p := worker.NewPeriodic("sweep", worker.PeriodicFunc(func(context.Context) error {
			c.note("begins")
			<-time.After(25 * time.Second)
			c.note("ends")
			return nil
		}), quiet(), worker.WithRegisterer(registry), worker.WithMaxConcurrency(3))
		r := start(t.Context(), p.Run)
		<-time.After(59 * time.Second)
		r.stop(t)
		c.want(t, "0s begins", "25s ends", "30s begins", "55s ends")
		got := scrape(t, registry)
		wantSeries(t, got, map[string]float64{
			`periodic_worker_cycles_total{worker="sweep"}`:                                          6,
			`periodic_worker_skipped_total{worker="sweep"}`:                                         4,
			`periodic_worker_runs_total{status="succeeded",worker="sweep"}`:                         2,
			`periodic_worker_runs_total{status="failed",worker="sweep"}`:                            0,
			`periodic_worker_run_duration_seconds_count{status="succeeded",worker="sweep"}`:         2,
			`periodic_worker_run_duration_seconds_sum{status="succeeded",worker="sweep"}`:           50,
			`periodic_worker_run_duration_seconds_bucket{status="failed",worker="sweep",le="+Inf"}`: 0,
		})
		wantNames(t, got, "periodic_worker_cycles_total", "periodic_worker_run_duration_seconds", "periodic_worker_runs_total",
			"periodic_worker_skipped_total")
	})
}

func TestC47_APeriodicRunIsFinishedWithAContextThatShutdownDoesNotCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		finished := false
		p := worker.NewPeriodic("sweep", worker.PeriodicFunc(func(ctx context.Context) error {
			<-time.After(5 * time.Second)
			if ctx.Err() != nil || ctx.Value(keyOfValue{}) != "kept" {
				t.Errorf("the context: error %v, value %v", ctx.Err(), ctx.Value(keyOfValue{}))
			}
			finished = true
			return nil
		}), quiet(), apart())
		r := start(context.WithValue(t.Context(), keyOfValue{}, "kept"), p.Run)
		<-time.After(time.Second)
		r.stop(t)
		if !finished {
			t.Error("Run returned before the run had")
		}
	})
}
