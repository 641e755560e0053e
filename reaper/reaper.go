package reaper

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/pgqueue/pgqueue/internal/pulse"
)

var (
	// ErrRunning is returned by Run while another Run of the same reaper is under way.
	ErrRunning = errors.New("reaper: already running")
	// ErrStuck is returned by Run and Once when a call of a target has not returned although its context has ended.
	ErrStuck = errors.New("reaper: a target has not returned")
)

// Reaper looks after its targets; see the package comment. Its methods may be called from any goroutine.
type Reaper struct {
	config    Config
	targets   []*target
	observers observers

	mu      sync.Mutex // guards what follows and the status of each target
	running bool
	next    time.Time // when the next pass over all targets is
}

// target is a Target with what the reaper remembers of it.
type target struct {
	Target
	status TargetStatus

	recovers, maintains pulse.Pulse // of its loops
}

// New makes a reaper; with no targets it does nothing. The error is a *[ConfigError].
func New(targets []Target, config Config) (*Reaper, error) {
	config, err := config.check()
	if err != nil {
		return nil, err
	}
	if err := checkTargets(targets); err != nil {
		return nil, err
	}
	r := &Reaper{config: config, observers: observersOf(config.Observer)}
	for _, t := range targets {
		r.targets = append(r.targets, &target{Target: t, status: TargetStatus{Name: t.Name}})
	}
	return r, nil
}

// Run looks after all targets until ctx ends, and then returns nil: the first pass and Maintain of each at once, the
// others in their intervals. Failures of targets do not end it. It returns ErrRunning if it is running already, and
// ErrStuck if a call did not return within CallTimeout of ctx's end. It may be run again afterwards.
func (r *Reaper) Run(ctx context.Context) error {
	r.mu.Lock()
	if r.running {
		r.mu.Unlock()
		return ErrRunning
	}
	r.running = true
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.running = false
		for _, t := range r.targets {
			t.status.NextPass = time.Time{}
		}
	}()

	var loops []func()
	for _, t := range r.targets {
		if t.Recoverer != nil {
			t.recovers.Begin(r.config.CallTimeout)
			loops = append(loops, func() {
				defer t.recovers.End()
				r.recoverLoop(ctx, t)
			})
		}
		if t.Maintainer != nil {
			t.maintains.Begin(r.config.CallTimeout)
			loops = append(loops, func() {
				defer t.maintains.End()
				r.maintainLoop(ctx, t)
			})
		}
	}
	done := together(loops)
	<-ctx.Done()
	return r.await(done)
}

// Once recovers what is stale in all targets and then maintains them all, once, and says what was recovered. It does not
// wait for a grace: a one-shot drain has no time for it. Targets that fail do not keep the others from their turn; their
// errors come joined, each with the target's name. It may be called while Run is under way.
func (r *Reaper) Once(ctx context.Context) (Recovered, error) {
	if err := ctx.Err(); err != nil {
		return Recovered{}, err
	}
	var (
		mu    sync.Mutex
		total Recovered
		errs  []error
	)
	add := func(recovered Recovered, err error) {
		mu.Lock()
		defer mu.Unlock()
		total = total.plus(recovered)
		if err != nil {
			errs = append(errs, err)
		}
	}
	named := func(t *target, err error) error {
		if err == nil {
			return nil
		}
		return fmt.Errorf("%s: %w", t.Name, err)
	}
	var passes, chores []func()
	for _, t := range r.targets {
		if t.Recoverer != nil {
			passes = append(passes, func() {
				recovered, err := r.pass(ctx, t)
				add(recovered, named(t, err))
			})
		}
		if t.Maintainer != nil {
			chores = append(chores, func() { add(Recovered{}, named(t, r.maintain(ctx, t))) })
		}
	}
	for _, round := range [][]func(){passes, chores} {
		done := together(round)
		select {
		case <-done:
		case <-ctx.Done():
			add(Recovered{}, r.await(done))
		}
		if err := ctx.Err(); err != nil {
			add(Recovered{}, err)
			break
		}
	}
	mu.Lock()
	defer mu.Unlock()
	return total, errors.Join(errs...)
}

// together runs all functions at once and closes the returned channel when the last has returned.
func together(functions []func()) <-chan struct{} {
	var group sync.WaitGroup
	for _, function := range functions {
		group.Go(function)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		group.Wait()
	}()
	return done
}

// await waits for done once the context of its calls has ended, no longer than a call may take.
func (r *Reaper) await(done <-chan struct{}) error {
	timer := time.NewTimer(r.config.CallTimeout)
	defer timer.Stop()
	select {
	case <-done:
		return nil
	case <-timer.C:
		return fmt.Errorf("%w within %s of the end of its context", ErrStuck, r.config.CallTimeout)
	}
}

// wave is when the next pass after now is: for all targets at the same time, so that those that share a store can share what
// they ask of it. It differs from that of other processes.
func (r *Reaper) wave(now time.Time) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !now.Before(r.next) {
		r.next = now.Add(r.jittered(r.config.Interval))
	}
	return r.next
}

// jittered is a duration that is shorter than d by at most the configured share: d is a promise of how soon a lease that has run out
// is seen.
func (r *Reaper) jittered(d time.Duration) time.Duration {
	return d - time.Duration(rand.Float64()*r.config.Jitter*float64(d)) //nolint:gosec // spreads load, guards nothing
}

// pause waits for d and says whether ctx still runs.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return ctx.Err() == nil
	}
}
