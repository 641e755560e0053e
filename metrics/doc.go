// Package metrics shows what pgqueue does: Prometheus metrics, and OpenTelemetry spans. Both are fed by the observer interfaces
// of packages runner, listener, reaper and pgqueue, which import nothing of this; a program that does not import it does not
// carry it.
//
// # Prometheus
//
//	m, err := metrics.NewPrometheus(metrics.PrometheusConfig{Pool: pool})
//	client, err := pgqueue.NewClient(pool, pgqueue.WithObserver(m))
//	worker, err := client.NewWorker(mux, pgqueue.WorkerConfig{Queues: queues})
//	defer m.Watch(worker)()
//	go m.Run(ctx)
//
// There are three sources. Counters and histograms are moved by the observer as things happen, so they only ever rise, whatever
// is cleaned up in the database. Gauges of this process come from the status of the workers that are watched, at the scrape.
// Gauges of the database come from [Prometheus.Run], which reads them in its own time: a scrape never waits for the database,
// and all processes together count at most once an interval. docs/metrics.md has every metric, and deploy/ a dashboard, alert
// rules and a Prometheus and a Grafana to look at them.
//
// Labels are bounded: queue and kind are names that this process was configured with, or "other"; what producers, arguments
// and errors say never becomes one. See [PrometheusConfig].
//
// # OpenTelemetry
//
// The tracing half begins a span for each enqueue and each attempt, linked through the trace context in the job's metadata;
// see docs/tracing.md. Use both by [pgqueue.Observers].
//
// The files prometheus*.go are the first half and tracing*.go the second; they share nothing.
package metrics
