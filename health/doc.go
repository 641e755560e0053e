// Package health serves what a process says about its own loops as HTTP handlers for liveness and readiness probes.
//
// A [Source] answers with a [Health]: pgqueue.Worker is one. [Live] and [Ready] make handlers of any number of them; the
// answer is 200 or 503 with the loops as JSON. The package knows neither SQL nor pgqueue, so an adapter of your own, over the
// runner alone, can be a source too.
//
// Live turns false only where a restart helps: a loop has ended although its worker runs, or hangs beyond all of its own time
// limits. It stays true while the database is away, because restarting every pod then makes things worse. Ready turns false,
// with the loop's name, when a loop has made no progress for three of its intervals, and while the worker stops.
//
// docs/kubernetes.md has the manifest and the numbers.
package health
