// Package worker is the smallest shape of a background worker: you write how a task is claimed and how it is processed,
// and the package runs both, on a bounded number of goroutines, with metrics, spans, contained panics and an orderly stop.
//
// It knows nothing of Postgres, of leases or of retries: a [Handler] claims with a statement of its own, and records
// itself what became of the task. That suits a queue which exists already and has its own idea of all this. A table that
// should get leases, fences, retries and batching without writing them is better served by package outbox; work that has no
// table yet by package pgqueue. docs/worker.md compares the three.
//
//	w := worker.New("thumbnails", handler, slog.Default())
//	err := w.Run(ctx) // until ctx ends and the tasks in flight are done
//
// # A polling cycle
//
// A cycle begins when [Worker.Run] starts and at each interval ([WithInterval]). It first calls RecoverStale, if the
// handler is a [StaleRecoverer]; then it claims until there is no task or every slot ([WithMaxConcurrency]) is taken. A claim
// that returned a task means that there may be more, so a slot which becomes free claims again at once; only the answer
// [ErrNoTask], or an error, lets the worker wait for the next interval. While it is busy for longer than an interval the
// next cycle begins all the same, so that stale tasks are recovered under load too.
//
// # Stopping
//
// When the context of Run ends, nothing more is claimed. Claim, Process and RecoverStale have contexts that keep its
// values and are not cancelled by its end, so that a task whose work is done can still be recorded as done. Run waits for
// the tasks in flight, for as long as they take: a handler that should not run for ever gives itself a deadline.
//
// # What it tells
//
// Without a line of code the registerer ([WithRegisterer], default prometheus.DefaultRegisterer) has, by worker:
//
//	worker_tasks_total{worker,status}                     status is succeeded or failed
//	worker_task_duration_seconds{worker,status}           of Process
//	worker_poll_cycles_total{worker}
//	worker_claim_errors_total{worker}                     panics included, ErrNoTask not
//	worker_claim_duration_seconds{worker}                 of every call of Claim
//	worker_recover_stale_duration_seconds{worker}
//
// and the tracer provider ([WithTracerProvider], default the global one) a span worker.process with the attribute worker.name
// for each task. A [Periodic] has periodic_worker_cycles_total, periodic_worker_skipped_total, periodic_worker_runs_total,
// periodic_worker_run_duration_seconds and the span periodic_worker.run. Workers that share a registerer share collectors.
package worker
