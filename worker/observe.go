package worker

import (
	"context"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// observed is what Worker and Periodic tell about one run of their handler.
type observed struct {
	worker   string
	span     string // its name
	periodic bool
	tracer   trace.Tracer
	log      *slog.Logger
}

// run runs f inside a span, contains its panics, and counts, times and logs how it ended.
func (o *observed) run(ctx context.Context, f func(context.Context) error, counts *outcomes) {
	ctx, span := o.tracer.Start(ctx, o.span, trace.WithAttributes(attribute.String("worker.name", o.worker)))
	start := time.Now()
	attempt(func() error { return f(ctx) }, func(err error) {
		took := time.Since(start)
		counts.observe(err != nil, took)
		if err != nil {
			span.RecordError(err)
			span.SetStatus(codes.Error, err.Error())
			o.logFailure(ctx, err, took)
		}
		span.End()
	})
}

// logFailure logs how a task or a run failed.
func (o *observed) logFailure(ctx context.Context, err error, took time.Duration) {
	if o.periodic {
		o.log.ErrorContext(ctx, "worker: run failed", "duration", took, "error", err.Error(), stackAttr(err))
		return
	}
	o.log.ErrorContext(ctx, "worker: task failed", "duration", took, "error", err.Error(), stackAttr(err))
}

// stackAttr is the stack of a panic or Goexit as an attribute, or nothing. (Errors are logged as text: they have been read
// once, and a logger need not read them again.)
func stackAttr(err error) slog.Attr {
	if stack := stackOf(err); stack != "" {
		return slog.String("stack", stack)
	}
	return slog.Attr{} // which handlers leave out
}

// remind is how often a worker that waits for its last tasks says so.
const remind = 10 * time.Second

// drain returns when nobody holds a slot any more. It takes them all for good.
func (o *observed) drain(slots chan struct{}) {
	if len(slots) > 0 {
		o.log.Info("worker: stopping, waiting for what is in flight", "in_flight", len(slots))
	}
	ticker := time.NewTicker(remind)
	defer ticker.Stop()
	for free := 0; free < cap(slots); {
		select {
		case slots <- struct{}{}:
			free++
		case <-ticker.C:
			o.log.Warn("worker: still waiting for what is in flight", "in_flight", len(slots)-free)
		}
	}
}
