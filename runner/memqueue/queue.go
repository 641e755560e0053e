package memqueue

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pgqueue/pgqueue/runner"
)

// DefaultMaxAttempts is the budget of failures of a task that names none.
const DefaultMaxAttempts = 3

// ErrLimit is returned by a claim or a recovery whose limit is below one.
var ErrLimit = errors.New("memqueue: the limit must be at least 1")

// ErrLease is returned by a claim or a renewal whose lease is not positive.
var ErrLease = errors.New("memqueue: the lease must be positive")

// Config says how a [Queue] behaves. The zero value is useful.
type Config struct {
	// Now is the clock of the store; nil means [time.Now], which is the bubble's clock under testing/synctest. It is called
	// with the queue's mutex held and must not call the queue.
	Now func() time.Time
	// MaxAttempts is the budget of failures of a task that names none; zero means [DefaultMaxAttempts].
	MaxAttempts int
	// RefuseLate refuses a success that comes after its lease was recovered, even if nobody has claimed the task again.
	RefuseLate bool
	// Forget keeps no history: what has ended is gone.
	Forget bool
}

// Queue is a queue in memory. Make it with [New]. It is safe for concurrent use.
type Queue[P, R any] struct {
	config Config

	mu      sync.Mutex
	nextID  int64
	live    map[int64]*task[P, R]
	names   map[string]*task[P, R] // the live task of a name
	ready   map[runner.Class]map[string]*pile[P, R]
	leases  *pile[P, R]
	ended   map[int64]*task[P, R]
	last    map[string]*task[P, R] // the last ended task of a name
	history []*task[P, R]          // in the order in which they ended
	check   func(R) error
}

var (
	_ runner.Queue[int, int] = (*Queue[int, int])(nil)
	_ runner.Renewer         = (*Queue[int, int])(nil)
	_ runner.Scheduler       = (*Queue[int, int])(nil)
)

// New makes an empty queue.
func New[P, R any](config Config) *Queue[P, R] {
	if config.Now == nil {
		config.Now = time.Now
	}
	if config.MaxAttempts < 1 {
		config.MaxAttempts = DefaultMaxAttempts
	}
	return &Queue[P, R]{
		config: config,
		live:   make(map[int64]*task[P, R]),
		names:  make(map[string]*task[P, R]),
		ready:  make(map[runner.Class]map[string]*pile[P, R]),
		leases: &pile[P, R]{before: byLease[P, R]},
		ended:  make(map[int64]*task[P, R]),
		last:   make(map[string]*task[P, R]),
	}
}

// Claim leases what is due, class by class in the order of the request, oldest first inside a class. No classes means
// all of them, the preferred ones first.
func (q *Queue[P, R]) Claim(ctx context.Context, request runner.ClaimRequest) ([]runner.Task[P], error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if request.Limit < 1 {
		return nil, ErrLimit
	}
	if request.Lease <= 0 {
		return nil, ErrLease
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.config.Now()
	classes := request.Classes
	if len(classes) == 0 {
		classes = slices.Sorted(maps.Keys(q.ready))
	}
	var claimed []runner.Task[P]
	for _, class := range classes {
		piles := q.pilesOf(class, request.Kinds)
		for len(claimed) < request.Limit {
			t := first(piles)
			if t == nil || t.due.After(now) {
				break
			}
			claimed = append(claimed, q.claim(t, now, request.Lease))
		}
	}
	return claimed, nil
}

// pilesOf returns the piles of a class that a claim may take from.
func (q *Queue[P, R]) pilesOf(class runner.Class, kinds []string) []*pile[P, R] {
	if kinds == nil {
		return slices.Collect(maps.Values(q.ready[class]))
	}
	var piles []*pile[P, R]
	for _, kind := range kinds {
		if p := q.ready[class][kind]; p != nil {
			piles = append(piles, p)
		}
	}
	return piles
}

// first returns the task that starts first, nil if all piles are empty. Kinds are few, so that a scan over the heads is
// cheaper than a heap of heaps.
func first[P, R any](piles []*pile[P, R]) *task[P, R] {
	var best *task[P, R]
	for _, p := range piles {
		if t := p.head(); t != nil && (best == nil || byDue(t, best)) {
			best = t
		}
	}
	return best
}

func (q *Queue[P, R]) claim(t *task[P, R], now time.Time, lease time.Duration) runner.Task[P] {
	t.attempt++
	t.open, t.state = true, Running
	t.claimed, t.leaseUntil = now, now.Add(lease)
	t.claimedGeneration = t.generation
	q.sort(t)
	return runner.Task[P]{
		Token: Token{ID: t.id, Name: t.name, Attempt: t.attempt},
		Kind:  t.kind, Class: t.class,
		Attempt: t.attempt, Failures: t.failures, MaxAttempts: t.maxAttempts,
		Due: t.due, Claimed: now, Payload: t.payload, Err: t.err,
	}
}

// NextDue tells when the next pending task of any kind is due. A task that is locked or ineligible is not counted.
func (q *Queue[P, R]) NextDue(ctx context.Context) (wait time.Duration, ok bool, err error) {
	if err := context.Cause(ctx); err != nil {
		return 0, false, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	var next *task[P, R]
	for _, kinds := range q.ready {
		for _, p := range kinds {
			if t := p.head(); t != nil && (next == nil || byDue(t, next)) {
				next = t
			}
		}
	}
	if next == nil {
		return 0, false, nil
	}
	return next.due.Sub(q.config.Now()), true, nil
}

// sort moves t to the pile where it belongs in its present state; call it after every change of state, due time, lease,
// class, kind, lock or eligibility.
func (q *Queue[P, R]) sort(t *task[P, R]) {
	if t.pile != nil {
		t.pile.take(t)
	}
	switch {
	case t.state == Running:
		q.leases.add(t)
	case t.state == Pending && t.locks == 0 && !t.ineligible:
		q.pileOf(t).add(t)
	}
}

func (q *Queue[P, R]) pileOf(t *task[P, R]) *pile[P, R] {
	kinds := q.ready[t.class]
	if kinds == nil {
		kinds = make(map[string]*pile[P, R])
		q.ready[t.class] = kinds
	}
	p := kinds[t.kind]
	if p == nil {
		p = &pile[P, R]{before: byDue[P, R]}
		kinds[t.kind] = p
	}
	return p
}
