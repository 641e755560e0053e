package pgqueue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pgqueue/pgqueue/runner"
)

// Handler runs jobs whose arguments are still JSON. Most programs register typed functions with [Handle] instead.
type Handler interface {
	// HandleJob runs one attempt. See [Handle] for what its error means.
	HandleJob(ctx context.Context, job *AnyJob) error
}

// HandlerFunc adapts a function to [Handler].
type HandlerFunc func(ctx context.Context, job *AnyJob) error

// HandleJob calls f.
func (f HandlerFunc) HandleJob(ctx context.Context, job *AnyJob) error { return f(ctx, job) }

// Middleware wraps a handler: it may look at the job, change the context, time the call, or change the error.
type Middleware func(next Handler) Handler

// Mux finds the handler of a job by its kind, as net/http's ServeMux does by path. It is safe for concurrent use;
// what is registered after a worker was made of it does not reach that worker.
type Mux struct {
	mutex      sync.Mutex
	handlers   map[string]registration
	middleware []Middleware
	errs       []error
}

type registration struct {
	handler Handler
	options handleOptions
}

// NewMux returns an empty Mux.
func NewMux() *Mux { return &Mux{handlers: map[string]registration{}} }

// Handle registers handler for jobs of kind. A nil handler, a bad kind or a kind that has a handler already is an
// error that [Mux.Err], [Client.NewWorker] and [Client.Drain] return; the first registration stays.
func (m *Mux) Handle(kind string, handler Handler, options ...HandleOption) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if err := m.register(kind, handler, options); err != nil {
		m.errs = append(m.errs, err)
	}
}

// HandleFunc registers a function for jobs of kind; see [Mux.Handle].
func (m *Mux) HandleFunc(kind string, handler func(ctx context.Context, job *AnyJob) error, options ...HandleOption) {
	if handler == nil {
		m.Handle(kind, nil, options...)
		return
	}
	m.Handle(kind, HandlerFunc(handler), options...)
}

// Use adds middleware around every handler of the mux, whenever that is registered. The first one added is the
// outermost. See [HandleBatch] for batches.
func (m *Mux) Use(middleware ...Middleware) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	for _, wrap := range middleware {
		if wrap == nil {
			m.errs = append(m.errs, &ValidationError{Field: "middleware", Message: "must not be nil"})
			continue
		}
		m.middleware = append(m.middleware, wrap)
	}
}

// Err returns what was wrong with the registrations so far, joined, or nil.
func (m *Mux) Err() error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return errors.Join(m.errs...)
}

// Kinds returns the kinds that have a handler, aliases included, sorted.
func (m *Mux) Kinds() []string {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	kinds := slices.Collect(maps.Keys(m.handlers))
	for _, entry := range m.handlers {
		kinds = append(kinds, entry.options.aliases...)
	}
	slices.Sort(kinds)
	return kinds
}

// register does the checks. The caller holds the mutex.
func (m *Mux) register(kind string, handler Handler, options []HandleOption) error {
	if err := checkName("kind", kind); err != nil {
		return fmt.Errorf("register a handler: %w", err)
	}
	if function, ok := handler.(HandlerFunc); handler == nil || ok && function == nil {
		return &ValidationError{Field: "handler", Message: fmt.Sprintf("of kind %q must not be nil", kind)}
	}
	entry := registration{handler: handler}
	for _, option := range options {
		option(&entry.options)
	}
	if err := m.free(kind, entry.options.aliases); err != nil {
		return err
	}
	if err := entry.options.validate(kind); err != nil {
		return err
	}
	if err := entry.options.validateBatch(kind, handler); err != nil {
		return err
	}
	m.handlers[kind] = entry
	return nil
}

// freeze returns the handlers as a worker runs them: wrapped in the middleware, and no longer the mux's to change.
func (m *Mux) freeze() (map[string]Handler, []runner.KindConfig, error) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if err := errors.Join(m.errs...); err != nil {
		return nil, nil, fmt.Errorf("mux: %w", err)
	}
	if len(m.handlers) == 0 {
		return nil, nil, &ValidationError{Field: "mux", Message: "has no handler"}
	}
	handlers := make(map[string]Handler, len(m.handlers))
	kinds := make([]runner.KindConfig, 0, len(m.handlers))
	for _, kind := range slices.Sorted(maps.Keys(m.handlers)) {
		entry := m.handlers[kind]
		handler := entry.handler
		if _, batch := handler.(*batchKind); !batch { // which looks by itself
			handler = readable{handler}
		}
		for _, wrap := range slices.Backward(m.middleware) {
			if handler = wrap(handler); handler == nil {
				return nil, nil, &ValidationError{Field: "middleware", Message: "returned a nil handler"}
			}
		}
		if batch, ok := entry.handler.(*batchKind); ok {
			if len(m.middleware) == 0 {
				handler = nil
			}
			handler = batch.wrapped(handler) // which is around each of its jobs
		}
		handlers[kind] = handler
		for _, alias := range entry.options.aliases {
			handlers[alias] = handler
		}
		kinds = append(kinds, runner.KindConfig{
			Name: kind, Workers: entry.options.workers, Deadline: entry.options.deadline, Backoff: entry.options.backoff,
			MaxAttempts: entry.options.maxAttempts, Aliases: entry.options.aliases,
			BatchSize: entry.batchSize(), Collect: entry.options.collect,
		})
	}
	return handlers, kinds, nil
}

// readable is a handler behind its middleware that is not called for arguments that no codec could decode.
type readable struct{ next Handler }

// HandleJob implements [Handler].
func (r readable) HandleJob(ctx context.Context, job *AnyJob) error {
	if err := job.attempt.unreadable; err != nil {
		return err
	}
	return r.next.HandleJob(ctx, job)
}

// HandleOption bounds one kind.
type HandleOption func(*handleOptions)

type handleOptions struct {
	workers  int
	deadline time.Duration
	backoff  runner.Backoff

	maxAttempts int
	aliases     []string
	batch       int
	collect     time.Duration
	results     bool // the handler has results
}

// KindWorkers lets at most n jobs of the kind run at a time in one queue of one process. The default is one less than
// the workers of the queue where several kinds are registered, so that a stalled kind never holds every slot; a larger n
// counts as that much too, because one mux may serve a large queue and a small one.
func KindWorkers(n int) HandleOption { return func(o *handleOptions) { o.workers = n } }

// KindDeadline replaces the queue's deadline for the kind; negative means none.
func KindDeadline(d time.Duration) HandleOption { return func(o *handleOptions) { o.deadline = d } }

// KindBackoff replaces the queue's backoff for the kind.
func KindBackoff(backoff runner.Backoff) HandleOption {
	return func(o *handleOptions) { o.backoff = backoff }
}

// KindBatch lets a batch hold at most n jobs, for [HandleBatch]. Default 64; at most [runner.MaxBatch].
func KindBatch(n int) HandleOption { return func(o *handleOptions) { o.batch = n } }

// KindCollect is how long a batch that is not full waits for more jobs, from its first one on, for [HandleBatch]. The
// default is the queue's Window, 250 ms; negative means not at all. It must be shorter than the lease.
func KindCollect(d time.Duration) HandleOption {
	return func(o *handleOptions) { o.collect = d }
}

// batchSize is what the runner is told; zero for handlers of single jobs.
func (r registration) batchSize() int {
	if _, ok := r.handler.(*batchKind); !ok {
		return 0
	}
	return cmp.Or(r.options.batch, runner.DefaultBatch)
}

func (o handleOptions) validate(kind string) error {
	if o.workers < 0 {
		return &ValidationError{Field: "workers", Message: fmt.Sprintf("of kind %q must not be negative, is %d", kind, o.workers)}
	}
	if o.maxAttempts < 0 || o.maxAttempts > maxMaxAttempts {
		return &ValidationError{Field: "max_attempts",
			Message: fmt.Sprintf("of kind %q must be from 0 (none) to %d, is %d", kind, maxMaxAttempts, o.maxAttempts)}
	}
	return nil
}
