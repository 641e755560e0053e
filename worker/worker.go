package worker

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// Worker polls for tasks and processes them. Make it with [New]. It is safe for concurrent use, and holds no state of a run:
// Run may be called again, also while it runs, and then has slots of its own.
type Worker struct {
	observed
	claim        func(context.Context) (process func(context.Context) error, err error)
	recoverStale func(context.Context) error // nil: the handler is no StaleRecoverer
	options      options
	metrics      taskMetrics
	err          error // why it cannot run
}

// New makes a worker that claims and processes tasks with handler. Name is the value of the label worker and of the
// attribute worker.name; a nil logger means slog.Default(). It starts nothing, but registers the metrics, so that they can be
// seen before the first task. What is wrong with the arguments is told by [Worker.Run].
func New[T any](name string, handler Handler[T], logger *slog.Logger, opts ...Option) *Worker {
	w := &Worker{options: resolve(opts), err: check(name, handler)}
	if w.err != nil {
		return w
	}
	w.claim = func(ctx context.Context) (func(context.Context) error, error) {
		task, err := handler.Claim(ctx)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context) error { return handler.Process(ctx, task) }, nil
	}
	if recoverer, ok := handler.(StaleRecoverer); ok {
		w.recoverStale = recoverer.RecoverStale
	}
	w.observed = observed{
		worker: name, span: "worker.process",
		tracer: w.options.tracerProvider.Tracer(tracerName),
		log:    orDefault(logger).With("worker", name),
	}
	w.metrics, w.err = newTaskMetrics(name, w.options.registerer)
	return w
}

// Run polls and processes until ctx ends, waits for the tasks in flight, and returns the cause ([context.Cause]) of the end. If
// the worker cannot run it returns a [*ConfigError] at once.
func (w *Worker) Run(ctx context.Context) error {
	if w.err != nil {
		return w.err
	}
	s := &session{Worker: w, work: context.WithoutCancel(ctx), slots: make(chan struct{}, w.options.maxConcurrency)}
	ticker := time.NewTicker(w.options.interval)
	defer ticker.Stop()
	for ctx.Err() == nil {
		s.cycle(ctx, ticker.C)
	}
	s.drain(s.slots)
	return context.Cause(ctx)
}

// session is one call of Run.
type session struct {
	*Worker
	work  context.Context // for the handler: shutdown does not cancel it
	slots chan struct{}   // holds an element for each task that is being claimed or processed
}

// cycle is one polling cycle. It returns when the next one is due, or ctx has ended.
func (s *session) cycle(ctx context.Context, tick <-chan time.Time) {
	s.metrics.cycles.Inc()
	if s.recoverStale != nil {
		s.recover()
	}
	for s.acquire(ctx, tick) {
		if !s.claimOne() {
			select {
			case <-tick:
			case <-ctx.Done():
			}
			return
		}
		// The tick is looked at after a claim and not before, so that a slow RecoverStale, behind which the next tick waits
		// already, does not keep the worker from ever claiming.
		select {
		case <-tick:
			return
		default:
		}
	}
}

// acquire waits for a free slot. It returns false if the next cycle is due first, or ctx has ended.
func (s *session) acquire(ctx context.Context, tick <-chan time.Time) bool {
	if ctx.Err() != nil {
		return false
	}
	select {
	case s.slots <- struct{}{}:
		return true
	default:
	}
	select {
	case s.slots <- struct{}{}:
		return true
	case <-tick:
		return false
	case <-ctx.Done():
		return false
	}
}

// claimOne claims a task for the slot that was acquired, and tells whether there was one. Claim runs on the goroutine that
// will process the task, which gives the slot back however it ends: neither a panic nor a Goexit reaches the loop.
func (s *session) claimOne() bool {
	claimed := make(chan bool, 1)
	go func() {
		defer func() { <-s.slots }()
		process := s.claimTask(claimed)
		if process != nil {
			s.run(s.work, process, &s.metrics.tasks)
		}
	}()
	return <-claimed
}

// claimTask calls Claim and tells claimed whether it returned a task, which process processes.
func (s *session) claimTask(claimed chan<- bool) (process func(context.Context) error) {
	start := time.Now()
	none := false
	attempt(func() (err error) {
		process, err = s.claim(s.work)
		none = errors.Is(err, ErrNoTask)
		return err
	}, func(err error) {
		s.metrics.claims.Observe(time.Since(start).Seconds())
		if err != nil && !none {
			s.metrics.claimErrors.Inc()
			s.log.ErrorContext(s.work, "worker: claim failed", "error", err.Error(), stackAttr(err))
		}
		claimed <- err == nil
	})
	return process
}

// recover calls RecoverStale, on a goroutine of its own because of Goexit, and waits for it.
func (s *session) recover() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		start := time.Now()
		attempt(func() error { return s.recoverStale(s.work) }, func(err error) {
			s.metrics.recoveries.Observe(time.Since(start).Seconds())
			if err != nil {
				s.log.ErrorContext(s.work, "worker: recovering stale tasks failed", "error", err.Error(), stackAttr(err))
			}
		})
	}()
	<-done
}
