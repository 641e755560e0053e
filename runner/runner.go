package runner

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Runner drains one [Queue] with a bounded number of handlers. Make it with [New]. All methods are safe for concurrent
// use.
type Runner[P, R any] struct {
	queue      Queue[P, R]
	handler    Handler[P, R]
	batches    BatchHandler[P, R] // handler, where it is one
	renewer    Renewer            // nil: leases are not renewed
	scheduler  Scheduler          // nil: an idle runner claims blindly
	kindPauser KindPauser         // nil: kinds are not paused
	config     Config             // resolved
	observe    atomic.Pointer[observers]
	peers      atomic.Int64 // other processes of the queue

	mu    sync.Mutex
	added []*any // by Observe
	state Lifecycle
	run   *session[P, R] // the latest
	done  chan struct{}  // closed when that has ended

	counts        Outcomes
	claimed       uint64
	lastSuccess   time.Time
	lastCode      string
	lastCodeAt    time.Time
	lastClaim     time.Time
	lastClaimErr  string
	hints, merged uint64
	hintWakes     uint64
	pollWakes     uint64
	dueWakes      uint64
}

// New makes a runner that drains queue with handler. It starts nothing. An error is a [*ConfigError].
func New[P, R any](queue Queue[P, R], handler Handler[P, R], config Config) (*Runner[P, R], error) {
	if queue == nil {
		return nil, refuse("queue", "must not be nil")
	}
	if handler == nil {
		return nil, refuse("handler", "must not be nil")
	}
	renewer, _ := queue.(Renewer)
	resolved, err := config.resolve(renewer != nil)
	if err != nil {
		return nil, err
	}
	r := &Runner[P, R]{queue: queue, handler: handler, config: resolved}
	r.batches, _ = handler.(BatchHandler[P, R])
	for i, k := range resolved.Kinds {
		if k.BatchSize > 0 && r.batches == nil {
			return nil, refuse(fmt.Sprintf("Kinds[%d].BatchSize", i), "%d needs a handler with HandleBatch, which %T has not", k.BatchSize, handler)
		}
	}
	if resolved.RenewEvery > 0 {
		r.renewer = renewer
	}
	r.scheduler, _ = queue.(Scheduler)
	r.kindPauser, _ = queue.(KindPauser)
	r.gatherObservers()
	return r, nil
}

// Run works until ctx ends or [Runner.Stop] is called; both mean a graceful stop. It claims nothing more, releases
// what has not started, and gives running handlers [Config].StopTimeout to finish undisturbed; then it cancels their
// contexts with the cause [ErrStopping] and waits for [Config].CleanUp at most. Every verdict is written before it
// returns, with contexts of its own.
//
// It returns nil after a clean stop, a [*StopError] if handlers ignored their contexts, and [ErrRunning] at once if the
// runner runs already. It may be called again when it has returned. Handlers see the values of ctx.
func (r *Runner[P, R]) Run(ctx context.Context) error {
	s, err := r.begin(ctx, false)
	if err != nil {
		return err
	}
	return s.work(ctx)
}

// DrainResult says what one [Runner.Drain] did.
type DrainResult struct {
	Claimed  int
	Outcomes Outcomes
}

// maxDrainFailures is how many claims may fail in a row before a drain gives up.
const maxDrainFailures = 5

// Drain works until a claim comes back empty while nothing is in flight, for cron jobs and serverless. Tasks that are
// due later are left. If ctx ends before, it stops as [Runner.Run] does and returns the context's error, joined with the
// [*StopError] if there is one. It returns an error too when five claims in a row have failed, and ends early, without
// an error, when a handler returned [Pause]. The result is valid in every case.
func (r *Runner[P, R]) Drain(ctx context.Context) (DrainResult, error) {
	s, err := r.begin(ctx, true)
	if err != nil {
		return DrainResult{}, err
	}
	err = s.work(ctx)
	result := DrainResult{Claimed: int(s.claimed), Outcomes: s.outcomes()}
	if s.drained {
		return result, err
	}
	return result, errors.Join(s.drainErr, ctx.Err(), err)
}

// begin reserves the runner for one session.
func (r *Runner[P, R]) begin(ctx context.Context, drain bool) (*session[P, R], error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state == Running || r.state == Stopping {
		return nil, ErrRunning
	}
	r.state = Running
	r.done = make(chan struct{})
	r.run = newSession(ctx, r, drain)
	return r.run, nil
}

// Stop asks a running Run or Drain to stop gracefully and waits until it has returned, or until ctx ends, whose error
// it then returns; the stop goes on. If nothing runs it returns nil at once. It may be called many times.
func (r *Runner[P, R]) Stop(ctx context.Context) error {
	return r.stop(ctx, func(s *session[P, R]) { s.askStop() })
}

func (r *Runner[P, R]) stop(ctx context.Context, ask func(*session[P, R])) error {
	r.mu.Lock()
	s, done, state := r.run, r.done, r.state
	r.mu.Unlock()
	if state != Running && state != Stopping {
		return nil
	}
	ask(s)
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("runner: waiting for stop: %w", ctx.Err())
	}
}

// Wake is a hint that there may be something to claim. It never blocks and may be called by any goroutine at any
// time. Hints that come close together are merged, see [Config].Window; hints to a runner that does not run are
// forgotten, because it claims first thing when it starts.
func (r *Runner[P, R]) Wake() {
	r.mu.Lock()
	s, running := r.run, r.state == Running
	r.hints++
	r.mu.Unlock()
	if running {
		s.hint()
	}
}
