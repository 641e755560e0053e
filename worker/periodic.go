package worker

import (
	"context"
	"log/slog"
	"time"
)

// Periodic does something at each interval. Make it with [NewPeriodic]. It is safe for concurrent use.
type Periodic struct {
	observed
	handler PeriodicHandler
	options options
	metrics periodicMetrics
	err     error // why it cannot run
}

// NewPeriodic makes a worker that runs handler at each interval ([WithInterval], default 10 s). Name and logger are as in
// [New]. It does not know of other processes: where several run it, each has ticks of its own.
func NewPeriodic(name string, handler PeriodicHandler, logger *slog.Logger, opts ...Option) *Periodic {
	p := &Periodic{handler: handler, options: resolve(opts), err: check(name, handler)}
	if p.err != nil {
		return p
	}
	p.observed = observed{
		worker: name, span: "periodic_worker.run", periodic: true,
		tracer: p.options.tracerProvider.Tracer(tracerName),
		log:    orDefault(logger).With("worker", name),
	}
	p.metrics, p.err = newPeriodicMetrics(name, p.options.registerer)
	return p
}

// Run runs the handler at once and then at each interval until ctx ends, waits for the run that is going on, and returns the
// cause of the end. A tick that finds the run before still going on is skipped and counted: runs never overlap or queue up.
// If the worker cannot run it returns a [*ConfigError] at once.
func (p *Periodic) Run(ctx context.Context) error {
	if p.err != nil {
		return p.err
	}
	slots := make(chan struct{}, 1)
	ticker := time.NewTicker(p.options.interval)
	defer ticker.Stop()
	for ctx.Err() == nil {
		p.tick(context.WithoutCancel(ctx), slots)
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
	p.drain(slots)
	return context.Cause(ctx)
}

// tick begins a run if none is going on.
func (p *Periodic) tick(ctx context.Context, slots chan struct{}) {
	p.metrics.cycles.Inc()
	select {
	case slots <- struct{}{}:
		go func() {
			defer func() { <-slots }()
			p.run(ctx, p.handler.Run, &p.metrics.runs)
		}()
	default:
		p.metrics.skipped.Inc()
		p.log.Info("worker: tick skipped, the run before is still going on")
	}
}
