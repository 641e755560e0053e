package worker_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgqueue/pgqueue/worker"
)

func TestMetricsOfAWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, registry := &pile{left: 3}, prometheus.NewRegistry()
		claims := 0
		h := recovering{
			funcs: funcs{
				claim: func(ctx context.Context) (int, error) {
					<-time.After(time.Second)
					if claims++; claims == 1 {
						return 0, errors.New("no connection")
					}
					return p.claim(ctx)
				},
				process: func(_ context.Context, task int) error {
					if task == 3 {
						<-time.After(7 * time.Second)
						return errors.New("refused")
					}
					<-time.After(2 * time.Second)
					return nil
				},
			},
			recover: func(context.Context) error { <-time.After(500 * time.Millisecond); return nil },
		}
		w := worker.New("mail", h, quiet(), worker.WithRegisterer(registry), worker.WithInterval(20*time.Second))
		wantSeries(t, scrape(t, registry), map[string]float64{ // there before anything has happened
			`worker_tasks_total{status="succeeded",worker="mail"}`:                         0,
			`worker_tasks_total{status="failed",worker="mail"}`:                            0,
			`worker_task_duration_seconds_count{status="failed",worker="mail"}`:            0,
			`worker_poll_cycles_total{worker="mail"}`:                                      0,
			`worker_claim_errors_total{worker="mail"}`:                                     0,
			`worker_claim_duration_seconds_count{worker="mail"}`:                           0,
			`worker_recover_stale_duration_seconds_count{worker="mail"}`:                   0,
			`worker_task_duration_seconds_count{status="succeeded",worker="mail"}`:         0,
			`worker_task_duration_seconds_bucket{status="failed",worker="mail",le="+Inf"}`: 0,
		})
		r := start(t.Context(), w.Run)
		<-time.After(39 * time.Second)
		r.stop(t)
		got := scrape(t, registry)
		wantSeries(t, got, map[string]float64{
			`worker_tasks_total{status="succeeded",worker="mail"}`:                 2,
			`worker_tasks_total{status="failed",worker="mail"}`:                    1,
			`worker_task_duration_seconds_count{status="succeeded",worker="mail"}`: 2,
			`worker_task_duration_seconds_sum{status="succeeded",worker="mail"}`:   4,
			`worker_task_duration_seconds_count{status="failed",worker="mail"}`:    1,
			`worker_task_duration_seconds_sum{status="failed",worker="mail"}`:      7,
			`worker_poll_cycles_total{worker="mail"}`:                              2,
			`worker_claim_errors_total{worker="mail"}`:                             1,
			`worker_claim_duration_seconds_count{worker="mail"}`:                   5, // the error, three tasks, none
			`worker_claim_duration_seconds_sum{worker="mail"}`:                     5,
			`worker_recover_stale_duration_seconds_count{worker="mail"}`:           2,
			`worker_recover_stale_duration_seconds_sum{worker="mail"}`:             1,
		})
		wantNames(t, got, "worker_claim_duration_seconds", "worker_claim_errors_total", "worker_poll_cycles_total",
			"worker_recover_stale_duration_seconds", "worker_task_duration_seconds", "worker_tasks_total")
	})
}

// wantNames checks that a scrape has these metrics and no others.
func wantNames(t *testing.T, got map[string]float64, want ...string) {
	t.Helper()
	var names []string
	for series := range got {
		name, _, _ := strings.Cut(series, "{")
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			name = strings.TrimSuffix(name, suffix)
		}
		names = append(names, name)
	}
	slices.Sort(names)
	if names = slices.Compact(names); !slices.Equal(names, want) {
		t.Errorf("metrics %q, want %q", names, want)
	}
}

func TestWorkersOfOneRegistryShareCollectors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		// Somebody else's prefix is another set of collectors, and what it wraps is shared as well.
		prefixed := prometheus.WrapRegistererWithPrefix("app_", registry)
		var all []*running
		for _, w := range []struct {
			name  string
			to    prometheus.Registerer
			tasks int
		}{{"mail", registry, 1}, {"sms", registry, 2}, {"sms", registry, 4}, {"mail", prefixed, 8}, {"fax", prefixed, 16}} {
			p := &pile{left: w.tasks}
			all = append(all,
				start(t.Context(), worker.New(w.name, funcs{claim: p.claim}, quiet(), worker.WithRegisterer(w.to)).Run),
				start(t.Context(), worker.NewPeriodic(w.name, worker.PeriodicFunc(func(context.Context) error { return nil }), quiet(),
					worker.WithRegisterer(w.to)).Run))
		}
		synctest.Wait()
		for _, r := range all {
			r.stop(t)
		}
		wantSeries(t, scrape(t, registry), map[string]float64{
			`worker_tasks_total{status="succeeded",worker="mail"}`:                        1,
			`worker_tasks_total{status="succeeded",worker="sms"}`:                         6,
			`app_worker_tasks_total{status="succeeded",worker="mail"}`:                    8,
			`app_worker_tasks_total{status="succeeded",worker="fax"}`:                     16,
			`periodic_worker_runs_total{status="succeeded",worker="sms"}`:                 2,
			`periodic_worker_runs_total{status="succeeded",worker="mail"}`:                1,
			`app_periodic_worker_runs_total{status="succeeded",worker="fax"}`:             1,
			`app_periodic_worker_cycles_total{worker="mail"}`:                             1,
			`periodic_worker_run_duration_seconds_count{status="succeeded",worker="sms"}`: 2,
		})
	})
}

// What the registry knows by one of our names is something else. Run says so before it calls the handler, and names it.
func TestAMetricOfAnotherShapeIsAnError(t *testing.T) {
	const help = "Tasks that were processed, by worker and status (succeeded or failed)."
	for name, there := range map[string]prometheus.Collector{
		"other labels": prometheus.NewCounterVec(prometheus.CounterOpts{Name: "worker_tasks_total", Help: help}, []string{"worker"}),
		"other kind":   prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "worker_tasks_total", Help: help}, []string{"worker", "status"}),
		"other help":   prometheus.NewCounterVec(prometheus.CounterOpts{Name: "worker_tasks_total", Help: "Tasks."}, []string{"worker", "status"}),
	} {
		t.Run(name, func(t *testing.T) {
			registry := prometheus.NewRegistry()
			registry.MustRegister(there)
			l := &logs{}
			w := worker.New("w", funcs{claim: func(context.Context) (int, error) { panic("called") }}, l.logger(), worker.WithRegisterer(registry))
			err := w.Run(t.Context())
			var config *worker.ConfigError
			if !errors.As(err, &config) || config.Field != "WithRegisterer" || config.Err == nil ||
				!strings.Contains(err.Error(), "worker: config: WithRegisterer: register worker_tasks_total: ") {
				t.Errorf("Run returned %v", err)
			}
			if l.String() != "" {
				t.Errorf("the handler was called:\n%s", l)
			}
		})
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "periodic_worker_skipped_total", Help: "mine"}))
	p := worker.NewPeriodic("p", worker.PeriodicFunc(func(context.Context) error { panic("called") }), quiet(), worker.WithRegisterer(registry))
	if err := p.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "periodic_worker_skipped_total") {
		t.Errorf("Run of the periodic worker returned %v", err)
	}
}

func TestWhatCannotRunSaysSoBeforeItStarts(t *testing.T) {
	h, f := funcs{}, worker.PeriodicFunc(func(context.Context) error { return nil })
	for field, runs := range map[string][]func(context.Context) error{
		"name": {worker.New("", h, nil, apart()).Run, worker.New("\xff", h, nil, apart()).Run,
			worker.NewPeriodic("", f, nil, apart()).Run, worker.NewPeriodic("a\xc3", f, nil, apart()).Run},
		"handler": {worker.New[int]("w", nil, nil, apart()).Run, worker.NewPeriodic("p", nil, nil, apart()).Run},
	} {
		for i, run := range runs {
			err := run(t.Context())
			var config *worker.ConfigError
			if !errors.As(err, &config) || config.Field != field || errors.Unwrap(err) != nil {
				t.Errorf("%s, %d: Run returned %v", field, i, err)
			}
		}
	}
}

func TestTheDefaultRegistererIsUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry, was := prometheus.NewRegistry(), prometheus.DefaultRegisterer
		prometheus.DefaultRegisterer = registry
		defer func() { prometheus.DefaultRegisterer = was }()
		p := &pile{left: 1}
		r := start(t.Context(), worker.New("w", funcs{claim: p.claim}, nil).Run)
		synctest.Wait()
		r.stop(t)
		wantSeries(t, scrape(t, registry), map[string]float64{`worker_tasks_total{status="succeeded",worker="w"}`: 1})
	})
}

func TestNoRegistererMeansNoMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pile{left: 1}
		r := start(t.Context(), worker.New("w", funcs{claim: p.claim}, nil, worker.WithRegisterer(nil)).Run)
		synctest.Wait()
		r.stop(t)
		if p.remaining() != 0 {
			t.Error("the task was not claimed")
		}
	})
}
