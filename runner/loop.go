package runner

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// loop claims until the session stops. One claim is under way at a time.
func (s *session[P, R]) loop() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		now := time.Now()
		s.mu.Lock()
		do := s.plan(now)
		s.mu.Unlock()
		if do.wake != 0 {
			s.woken(do)
		}
		switch do.step {
		case stepEnd:
			return
		case stepClaim:
			s.claim(do.request, do.asked)
		case stepProbe:
			s.askNextDue()
		case stepSleep:
			wait := time.Hour
			if !do.until.IsZero() {
				wait = max(do.until.Sub(now), 0)
			}
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-s.loopWake:
			}
		}
	}
}

type step uint8

const (
	stepSleep step = iota
	stepClaim
	stepProbe
	stepEnd
)

// plan is what the loop does next.
type plan struct {
	step    step
	until   time.Time // stepSleep; zero: until poked
	request ClaimRequest
	asked   []*kindState
	wake    WakeSource
	hints   int
}

// plan decides. The lock is held; the wake flag is cleared here, which is before the claim.
func (s *session[P, R]) plan(now time.Time) (do plan) {
	s.room = false
	if s.stopping {
		do.step = stepEnd
		return do
	}
	if hints, due := s.window.take(now); due {
		do.wake, do.hints = WakeHint, hints
		s.kinds.look()
	} else if !s.poll.IsZero() && !now.Before(s.poll) {
		if s.r.scheduler != nil && !s.due && !s.drain && s.kinds.quiet() {
			s.poll = time.Time{} // the probe sets it
			do.step, do.wake = stepProbe, WakePoll
			return do
		}
		do.wake = WakePoll
		if s.due {
			do.wake = WakeDue
		}
		s.setPoll(now)
		s.kinds.look()
	}
	do.until = s.poll
	if next := s.window.next(); !next.IsZero() {
		do.until = earliest(do.until, next)
	}
	if now.Before(s.pausedUntil) {
		if s.drain {
			return s.planDrainEnd(do)
		}
		do.until = s.pausedUntil
		return do
	}
	if now.Before(s.hold) {
		do.until = s.hold
		return do
	}
	if s.kinds.quiet() {
		if s.drain {
			if s.calm {
				return s.planDrainEnd(do)
			}
			if s.inWork() > 0 {
				return do // changed pokes
			}
			s.kinds.look()
		} else {
			if s.probe && s.r.scheduler != nil {
				do.step = stepProbe
			}
			s.probe = false
			return do
		}
	}
	limit, asked := s.want()
	if limit <= 0 {
		s.room = true
		return do
	}
	do.step, do.asked = stepClaim, asked
	do.request = ClaimRequest{Limit: limit, Classes: s.rotation.order(), Lease: s.cfg.Lease}
	if s.kinds.named {
		do.request.Kinds = make([]string, len(asked))
		for i, k := range asked {
			do.request.Kinds[i] = k.name
		}
	}
	for _, k := range asked {
		k.ended = 0
	}
	s.calm = s.inWork() == 0
	return do
}

// planDrainEnd ends a drain once nothing is in flight.
func (s *session[P, R]) planDrainEnd(do plan) plan {
	do.until = time.Time{}
	if s.inWork() == 0 {
		s.drained = true
		do.step = stepEnd
	}
	return do
}

// want says how many tasks to claim now, and of which kinds. The lock is held.
func (s *session[P, R]) want() (limit int, asked []*kindState) {
	limit, hungry, filling := s.wantLimit()
	if limit <= 0 {
		return 0, nil
	}
	more := false
	for _, k := range s.kinds.all {
		if s.asks(k, hungry, filling) {
			asked = append(asked, k)
			more = more || k.more
		}
	}
	if !more {
		return 0, nil
	}
	return limit, asked
}

// wants says whether want would claim.
func (s *session[P, R]) wants() bool {
	limit, hungry, filling := s.wantLimit()
	if limit <= 0 {
		return false
	}
	for _, k := range s.kinds.all {
		if k.more && s.asks(k, hungry, filling) {
			return true
		}
	}
	return false
}

// wantLimit is how many tasks to claim. hungry says that slots are free for which nothing has been claimed, and filling
// that the claim also fetches ahead.
func (s *session[P, R]) wantLimit() (limit int, hungry, filling bool) {
	free := s.cfg.Workers - s.running
	limit = max(0, free-s.buffer.startable())
	hungry = limit > 0
	ahead := s.ahead()
	// Ahead of the slots a claim is made only when half of the place is free: small claims cost as much as large ones.
	if room := ahead + free - s.buffer.length; room > limit && 2*room >= ahead {
		limit, filling = room, true
	}
	// What has been claimed and not written stays in memory, whatever becomes of the store.
	bound := s.cfg.Workers + 3*s.cfg.Batch - s.inWork()
	return min(limit, s.cfg.Batch, bound), hungry, filling
}

// asks says whether a claim asks for a kind. One at its bound is left out, unless it is alive and the claim fetches
// ahead.
func (s *session[P, R]) asks(k *kindState, hungry, filling bool) bool {
	if hungry && k.free() > k.buffered {
		return true
	}
	return filling && k.ended > 0
}

// ahead is how many tasks to hold beyond the free slots: what the workers finish in about a second, and nothing where
// leases are not renewed, because the wait would eat into them.
func (s *session[P, R]) ahead() int {
	if s.r.renewer == nil || s.mean <= 0 {
		return 0
	}
	return int(min(int64(s.cfg.Batch), int64(s.cfg.Workers)*int64(prefetch)/int64(s.mean)))
}

func (s *session[P, R]) setPoll(now time.Time) {
	s.due = false
	s.poll = now.Add(jittered(s.cfg.Poll))
}

// askNextDue asks the queue with a read when to look again.
func (s *session[P, R]) askNextDue() {
	wait, ok, err := s.callNextDue()
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	asleep := s.poll.IsZero() // the poll has come, so that whatever is due may be claimed
	s.setPoll(now)
	switch {
	case err != nil:
		s.r.config.Logger.Warn("runner: asking for the next due time failed", "error", err)
		if asleep {
			s.kinds.look()
		}
	case !ok:
	case wait <= 0:
		// Just after an empty claim this is no reason to claim again: what is due is not for this runner.
		if asleep {
			s.kinds.look()
		}
	default:
		// Not less than a millisecond: clocks are not that exact.
		if at := now.Add(max(wait, time.Millisecond)); at.Before(s.poll) {
			s.poll, s.due = at, true
		}
	}
}

func (s *session[P, R]) callNextDue() (wait time.Duration, ok bool, err error) {
	ctx, cancel := s.storageContext()
	defer cancel()
	defer containCall("NextDue", &err)
	return s.r.scheduler.NextDue(ctx)
}

// storageContext is for calls of the queue: bounded, and never cancelled by a stop.
func (s *session[P, R]) storageContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(s.base, s.cfg.StorageTimeout)
}

// containCall turns a panic of a queue into an error.
func containCall(name string, err *error) {
	if v := recover(); v != nil {
		*err = fmt.Errorf("runner: %s panicked with %s at %s", name, typeName(v), panicSite())
	}
}

func (s *session[P, R]) woken(do plan) {
	r := s.r
	r.mu.Lock()
	switch do.wake {
	case WakeHint:
		r.hintWakes++
	case WakePoll:
		r.pollWakes++
	case WakeDue:
		r.dueWakes++
	}
	r.mu.Unlock()
	r.observe.woken(WakeEvent{Queue: s.cfg.Name, Source: do.wake, Hints: do.hints})
}

// jittered takes up to a tenth off, so that processes that started together drift apart.
func jittered(d time.Duration) time.Duration {
	return d - time.Duration(rand.Int64N(int64(d)/10+1))
}

func earliest(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}
