// Package runner is the engine of pgqueue: it claims tasks from a [Queue], runs them on a bounded number of workers,
// keeps their leases alive, and writes their outcomes back in fenced batches. It knows no SQL and no Postgres; package
// pgqueue gives it the jobs table, package outbox a table of the application's own.
//
// Its neighbours: package listener calls [Runner.Wake] when Postgres has delivered a hint; package reaper returns
// leases whose owner died; package metrics implements the observer interfaces. None of them is imported here. Package
// memqueue is a queue in memory for tests and examples, and package queuetest the suite that every [Queue] must pass.
//
// # What it promises
//
// Tasks run at least once. A task runs twice only if its lease ran out, which is prevented by renewal while its
// handler is inside its deadline, and reported where it cannot be prevented: the handler's context ends a tenth of
// the lease before the lease does, with the cause [ErrLeaseLost].
//
// Whatever a handler does, panics and runtime.Goexit included, costs one attempt of its own task and nothing else. A
// handler that ignores its context keeps its slot, and is counted and named. Memory is bounded by the configuration.
//
// # How it is built
//
// One run is a session (session.go): a loop that decides when to claim and how much (loop.go, claim.go, window.go,
// classes.go, kinds.go), workers that take from a buffer (buffer.go, execute.go), a watcher of deadlines and leases and
// a renewer (lease.go), and two flushers of verdicts (reporter.go). They share one lock, which each task takes twice.
// Stopping is in stop.go, what can be seen from outside in status.go and observer.go.
package runner
