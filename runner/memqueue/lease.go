package memqueue

import (
	"context"
	"fmt"
	"time"

	"github.com/pgqueue/pgqueue/runner"
)

// Recovered counts what one recovery did.
type Recovered struct {
	Requeued   int // pending again, one failure spent
	Dead       int // that failure was the last of the budget
	Superseded int // pending again with a newer input, nothing spent
	Cancelled  int // somebody had asked for the end
}

// Total is the number of leases that were recovered.
func (r Recovered) Total() int { return r.Requeued + r.Dead + r.Superseded + r.Cancelled }

// Recover returns up to limit tasks whose lease has run out, oldest lease first, and passes over locked ones. It does not
// touch the attempt and leaves the claim open, so that a late success of that attempt still counts until the next claim.
//
// The Recoverer of package reaper returns the reaper's own type; a three-line adapter turns one into the other.
func (q *Queue[P, R]) Recover(ctx context.Context, limit int) (Recovered, error) {
	var recovered Recovered
	if err := context.Cause(ctx); err != nil {
		return recovered, err
	}
	if limit < 1 {
		return recovered, ErrLimit
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.config.Now()
	var passed []*task[P, R]
	for recovered.Total() < limit {
		t := q.leases.head()
		if t == nil || t.leaseUntil.After(now) {
			break
		}
		if t.locks > 0 {
			q.leases.take(t)
			passed = append(passed, t)
			continue
		}
		q.recover(t, now, &recovered)
	}
	for _, t := range passed {
		q.leases.add(t)
	}
	return recovered, nil
}

func (q *Queue[P, R]) recover(t *task[P, R], now time.Time, recovered *Recovered) {
	switch {
	case t.superseded(): // first of all, or the new input could die without a run
		t.state = Pending
		q.sort(t)
		recovered.Superseded++
		return
	case t.cancelRequested:
		q.end(t, Cancelled)
		recovered.Cancelled++
		return
	}
	t.failures++
	t.lastFailure = &runner.Failure{Code: CodeLeaseExpired, Message: "the lease ran out"}
	if t.failures >= t.maxAttempts {
		t.diedOfLease = true
		q.end(t, Dead)
		recovered.Dead++
		return
	}
	t.state = Pending // the claim stays open
	if t.due.Before(now) {
		t.due = now
	}
	q.sort(t)
	recovered.Requeued++
}

// Renew extends leases. A lease that has run out but was not recovered yet is extended like any other: the claim stands.
func (q *Queue[P, R]) Renew(ctx context.Context, tokens []runner.Token, lease time.Duration) ([]runner.Renewal, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if lease <= 0 {
		return nil, ErrLease
	}
	for _, token := range tokens {
		if _, ok := token.(Token); !ok {
			return nil, fmt.Errorf("memqueue: token of type %T is not of this queue", token)
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	until := q.config.Now().Add(lease)
	renewals := make([]runner.Renewal, len(tokens))
	for i, token := range tokens {
		renewals[i] = q.renew(token.(Token), until)
	}
	return renewals, nil
}

func (q *Queue[P, R]) renew(token Token, until time.Time) runner.Renewal {
	t := q.live[token.ID]
	switch {
	case t == nil || t.attempt != token.Attempt || t.state != Running:
		return runner.Refused
	case t.locks > 0:
		return runner.Locked
	}
	t.leaseUntil = until
	q.leases.fix(t.place)
	if t.cancelRequested {
		return runner.CancelRequested
	}
	return runner.Renewed
}
