package runner

import (
	"context"
	"time"
)

// BatchStartObserver is told before a [BatchHandler] is given a batch, and before an [AttemptStartObserver] is told of the
// tasks of the batch. The context that it returns, derived from ctx, is given to the handler: this is where a span of the
// whole batch begins. A nil one is ignored.
type BatchStartObserver interface {
	BatchStarted(ctx context.Context, e BatchEvent) context.Context
}

// BatchEndObserver is told after a batch handler has returned, also by a panic or runtime.Goexit, with the context that the
// handler had, and after an [AttemptEndObserver] was told of the tasks of the batch.
type BatchEndObserver interface {
	BatchEnded(ctx context.Context, e BatchEvent)
}

// BatchEvent describes one call of a batch handler. The second group is known at its end only.
type BatchEvent struct {
	Queue string
	Kind  string
	Tasks int // that the handler is given

	Duration time.Duration
	Failed   int // of the tasks, attempts that count as failed
}

func (o *observers) batchStarted(ctx context.Context, e BatchEvent) context.Context {
	each(o, "BatchStarted", o.batchStart, func(to BatchStartObserver) {
		if c := to.BatchStarted(ctx, e); c != nil {
			ctx = c
		}
	})
	return ctx
}

func (o *observers) batchEnded(ctx context.Context, e BatchEvent) {
	each(o, "BatchEnded", o.batchEnd, func(to BatchEndObserver) { to.BatchEnded(ctx, e) })
}
