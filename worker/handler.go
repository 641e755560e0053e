package worker

import (
	"context"
	"errors"
)

// ErrNoTask is what [Handler].Claim returns, wrapped or not, when nothing is to be done now.
var ErrNoTask = errors.New("worker: no task")

// Handler is a queue of your own with what is to be done with its tasks. T is a task: a row, or what Process needs of it.
//
// Both methods get a context that carries the values of [Worker.Run]'s and that the end of that context does not cancel.
// A panic, and runtime.Goexit, in either counts as an error of this one call.
type Handler[T any] interface {
	// Claim takes one task in such a way that no other process takes it too, or returns [ErrNoTask]. It is called by one
	// goroutine at a time, and only when a slot is free for the task. Any other error is logged and counted, and the
	// worker waits for its next interval.
	Claim(ctx context.Context) (T, error)

	// Process does the task, and records what became of it, failures included: the worker logs and counts the error that it
	// returns, and does nothing else with it. It is called by up to [WithMaxConcurrency] goroutines at once. A nil pointer in
	// a non-nil error counts as an error.
	Process(ctx context.Context, task T) error
}

// StaleRecoverer is a [Handler] that can take back what was claimed by a process that died.
type StaleRecoverer interface {
	// RecoverStale makes tasks claimable again whose claim is too old to be alive. It is called at the start of each
	// polling cycle, before the first claim, by one goroutine at a time, while tasks of this worker may be in flight: it must
	// not take those. The worker logs its error, and claims all the same. Its context is like Claim's.
	RecoverStale(ctx context.Context) error
}

// PeriodicHandler is something that is to be done again and again.
type PeriodicHandler interface {
	// Run does it once. It is called by one goroutine at a time, with a context that carries the values of
	// [Periodic.Run]'s and that the end of that context does not cancel. The worker logs and counts its error. A panic, and
	// runtime.Goexit, counts as an error.
	Run(ctx context.Context) error
}

// PeriodicFunc makes a [PeriodicHandler] of a function.
type PeriodicFunc func(ctx context.Context) error

// Run calls f.
func (f PeriodicFunc) Run(ctx context.Context) error { return f(ctx) }
