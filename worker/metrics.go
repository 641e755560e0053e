package worker

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Values of the label status.
const (
	statusSucceeded = "succeeded"
	statusFailed    = "failed"
)

// taskBuckets are for what a handler does, from milliseconds to minutes, and callBuckets for one call of the store.
func taskBuckets() []float64 {
	return []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600}
}

func callBuckets() []float64 {
	return []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
}

// registration registers collectors, or finds the ones that another worker has registered.
type registration struct {
	registerer prometheus.Registerer // nil: the collectors are used and never seen
	err        error                 // the first that went wrong, a *ConfigError
}

// shared registers c and returns it, or the collector of the same name and shape that is there already. With any other
// answer c still counts, unseen, so that nobody has to check for nil.
func shared[C prometheus.Collector](r *registration, name string, c C) C {
	if r.registerer == nil {
		return c
	}
	err := r.registerer.Register(c)
	if err == nil {
		return c
	}
	var already prometheus.AlreadyRegisteredError
	if errors.As(err, &already) {
		if existing, ok := already.ExistingCollector.(C); ok {
			return existing
		}
		err = fmt.Errorf("it is there as a %T", already.ExistingCollector)
	}
	if r.err == nil {
		r.err = &ConfigError{Field: "WithRegisterer", Message: fmt.Sprintf("register %s: %v", name, err), Err: err}
	}
	return c
}

func (r *registration) counter(name, help string, labels ...string) *prometheus.CounterVec {
	return shared(r, name, prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels))
}

func (r *registration) histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return shared(r, name, prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels))
}

// outcomes counts and times the runs of one worker by status. All series exist from the start, so that a rate over the
// first failure is not lost.
type outcomes struct {
	succeeded, failed                 prometheus.Counter
	succeededDuration, failedDuration prometheus.Observer
}

func newOutcomes(worker string, total *prometheus.CounterVec, duration *prometheus.HistogramVec) outcomes {
	return outcomes{
		succeeded:         total.WithLabelValues(worker, statusSucceeded),
		failed:            total.WithLabelValues(worker, statusFailed),
		succeededDuration: duration.WithLabelValues(worker, statusSucceeded),
		failedDuration:    duration.WithLabelValues(worker, statusFailed),
	}
}

func (o *outcomes) observe(failed bool, took time.Duration) {
	if failed {
		o.failed.Inc()
		o.failedDuration.Observe(took.Seconds())
		return
	}
	o.succeeded.Inc()
	o.succeededDuration.Observe(took.Seconds())
}

// taskMetrics are the metrics of a Worker.
type taskMetrics struct {
	tasks       outcomes
	cycles      prometheus.Counter
	claimErrors prometheus.Counter
	claims      prometheus.Observer
	recoveries  prometheus.Observer
}

func newTaskMetrics(worker string, registerer prometheus.Registerer) (taskMetrics, error) {
	r := &registration{registerer: registerer}
	m := taskMetrics{
		tasks: newOutcomes(worker,
			r.counter("worker_tasks_total", "Tasks that were processed, by worker and status (succeeded or failed).", "worker", "status"),
			r.histogram("worker_task_duration_seconds", "How long processing a task took, by worker and status.", taskBuckets(), "worker", "status")),
		cycles: r.counter("worker_poll_cycles_total", "Polling cycles that were begun, by worker.", "worker").
			WithLabelValues(worker),
		claimErrors: r.counter("worker_claim_errors_total", "Claims that failed, by worker. Finding no task is no failure.", "worker").
			WithLabelValues(worker),
		claims: r.histogram("worker_claim_duration_seconds", "How long claims took, those without a task included, by worker.", callBuckets(), "worker").
			WithLabelValues(worker),
		recoveries: r.histogram("worker_recover_stale_duration_seconds", "How long recovering stale tasks took, by worker.", callBuckets(), "worker").
			WithLabelValues(worker),
	}
	return m, r.err
}

// periodicMetrics are the metrics of a Periodic.
type periodicMetrics struct {
	runs    outcomes
	cycles  prometheus.Counter
	skipped prometheus.Counter
}

func newPeriodicMetrics(worker string, registerer prometheus.Registerer) (periodicMetrics, error) {
	r := &registration{registerer: registerer}
	m := periodicMetrics{
		runs: newOutcomes(worker,
			r.counter("periodic_worker_runs_total", "Runs of periodic workers, by worker and status (succeeded or failed).", "worker", "status"),
			r.histogram("periodic_worker_run_duration_seconds", "How long a run took, by worker and status.", taskBuckets(), "worker", "status")),
		cycles: r.counter("periodic_worker_cycles_total", "Ticks of periodic workers, skipped ones included, by worker.", "worker").
			WithLabelValues(worker),
		skipped: r.counter("periodic_worker_skipped_total", "Ticks that were skipped because the run before was still going on, by worker.", "worker").
			WithLabelValues(worker),
	}
	return m, r.err
}
