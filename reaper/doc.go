// Package reaper returns the work of dead processes to its queues, and keeps house: it calls, again and again, what
// its targets offer for that.
//
// A worker that is killed leaves its leases behind. They run out by themselves; the reaper makes what stood behind them
// due again (or dead, once its budget is spent). It runs in every worker process and needs no leader, because it never
// decides anything: each [Recoverer] does one bounded pass that finds, decides and writes in a single statement, so a
// job that completes at that moment, or a second reaper, cannot be overwritten.
//
// Targets do not wait for one another: each has goroutines of its own, and one that fails, panics or hangs holds up
// itself alone.
//
// After an outage the leases of living workers may have run out with the rest, only because nobody could renew them. So
// the reaper waits for [Config].Grace, counted from the first answer after the outage, before it takes any.
//
// Its neighbours: package pgqueue gives it the jobs table, package outbox a table of the application's own; package
// metrics implements the observer interfaces. None of them is imported here, and nothing beyond the standard library.
package reaper
