package runner

import "context"

// Handler runs tasks. Handle is called by many goroutines at once, at most [Config].Workers.
//
// The context ends when the deadline passes, the lease is lost, a stop has waited long enough, or somebody cancels the
// task; [context.Cause] says which: [ErrDeadline], [ErrLeaseLost], [ErrStopping] or [ErrCancelled]. It is not cancelled
// merely because the runner stops. A handler that ignores it keeps its slot.
//
// What Handle returns decides what becomes of the task:
//
//   - nil: succeeded, and the result is stored with the success. After the deadline it is too late: failed attempt,
//     unless a stop had ended the context before.
//   - [Permanent], [RetryAfter], [SnoozeFor], [Pause], [CancelWith], [ErrSettled], [ErrConfirm], anywhere in the chain: as
//     these say, also when the context has ended.
//   - any other error after the context has ended: cause [ErrStopping] or [ErrLeaseLost], released and nothing spent;
//     [ErrCancelled], cancelled; [ErrDeadline], a failed attempt with [CodeTimeout].
//   - any other error: a failed attempt, retried with backoff. A nil pointer in a non-nil error counts as an error.
//   - a panic or runtime.Goexit: a failed attempt with [CodePanic].
//
// The task belongs to the handler, which may keep it.
type Handler[P, R any] interface {
	Handle(ctx context.Context, task *Task[P]) (R, error)
}

// HandlerFunc makes a [Handler] of a function.
type HandlerFunc[P, R any] func(ctx context.Context, task *Task[P]) (R, error)

// Handle calls f.
func (f HandlerFunc[P, R]) Handle(ctx context.Context, task *Task[P]) (R, error) { return f(ctx, task) }
