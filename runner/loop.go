package runner

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// loop claims until the session stops. One claim is under way at a time, or two in a backlog where no other process serves the queue; see overlapFrom.
func (s *session[P, R]) loop() {
	defer s.claimers.Wait()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		s.pulses.claim.Beat()
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
			if do.overlap {
				s.claimers.Go(func() {
					s.claim(do.request, do.asked)
					poke(s.loopWake)
				})
			} else {
				s.claim(do.request, do.asked)
			}
		case stepProbe:
			s.askNextDue()
		case stepSleep:
			wait := time.Hour
			if !do.until.IsZero() {
				wait = max(do.until.Sub(now), 0)
			}
			timer.Reset(wait)
			s.pulses.claim.Rest(do.until)
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
	overlap bool // the loop does not wait for this claim
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
	if s.claims > 0 {
		// Hints and polls wait until no claim is under way: an answer that knows nothing of them must not undo them.
		if s.mayOverlap() {
			s.planClaim(&do)
		}
		return do // the end of a claim pokes
	}
	if hints, due := s.window.take(now); due {
		do.wake, do.hints = WakeHint, hints
		if s.lookFirst && s.kinds.quiet() {
			s.lookFirst = false
			s.poll = time.Time{} // as when a poll has come
			do.step = stepProbe
			return do
		}
		s.kinds.look()
	} else if !s.poll.IsZero() && !now.Before(s.poll) {
		if s.r.scheduler != nil && !s.due && !s.drain && (s.kinds.quiet() || s.buffer.length > 0) {
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
	s.planClaim(&do)
	return do
}

// overlapFrom is the size from which two claims may be under way at a time. In a backlog the claims of one runner are what
// limits it: while thousands of tasks are read and handed out, the next ones can be claimed. A small claim is over before
// that would pay, and two cost more than one. Nor does it pay beside other processes: they claim meanwhile, and each claim walks over
// what all others have locked.
const overlapFrom = 512

// overlapping says whether claims may overlap now. The lock is held.
func (s *session[P, R]) overlapping() bool { return s.full && s.overlaps && s.r.peers.Load() <= 0 }

// mayOverlap says whether a second claim may join the one that is under way. The lock is held.
func (s *session[P, R]) mayOverlap() bool { return s.claims == 1 && s.overlapping() }

// planClaim plans a claim if there is room for what it brings. The lock is held.
func (s *session[P, R]) planClaim(do *plan) {
	limit, asked := s.want()
	if limit <= 0 {
		s.room = true
		return
	}
	do.step, do.asked, do.overlap = stepClaim, asked, s.overlapping() && limit >= overlapFrom
	do.request = ClaimRequest{Limit: limit, Classes: s.rotation.order(), Lease: s.cfg.Lease}
	if s.kinds.named {
		for _, k := range asked {
			do.request.Kinds = append(do.request.Kinds, k.names...)
		}
	}
	for _, k := range asked {
		k.ended = 0
	}
	s.calm = s.inWork() == 0 && s.claims == 0
	s.claims++
	s.promised += limit
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
	groups := s.kinds.groups
	for i := range groups {
		at := (s.turn + i) % len(groups)
		if limit, asked = s.wantOf(groups[at]); limit > 0 {
			s.turn = at + 1
			return limit, asked
		}
	}
	return 0, nil
}

// wantOf is want for one group.
func (s *session[P, R]) wantOf(group []*kindState) (limit int, asked []*kindState) {
	if k := group[0]; k.size > 0 {
		if limit = s.wantBatches(k); limit <= 0 || !k.more {
			return 0, nil
		}
		return limit, group
	}
	limit, filling := s.wantLimit()
	if limit <= 0 {
		return 0, nil
	}
	more := false
	for _, k := range group {
		if asks(k, filling) {
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
	if s.claims > 0 && !s.mayOverlap() {
		return false // the end of a claim pokes
	}
	for _, group := range s.kinds.groups {
		if k := group[0]; k.size > 0 {
			if k.more && s.wantBatches(k) > 0 {
				return true
			}
			continue
		}
		limit, filling := s.wantLimit()
		if limit <= 0 {
			continue
		}
		for _, k := range group {
			if k.more && asks(k, filling) {
				return true
			}
		}
	}
	return false
}

// wantLimit is how many tasks of kinds without batches to claim. filling says that the claim also
// fetches ahead.
func (s *session[P, R]) wantLimit() (limit int, filling bool) {
	free := s.workers() - s.running - s.buffer.batchSlots(nil)
	limit = max(0, free-s.buffer.startable()-s.promised)
	ahead := s.ahead()
	// Ahead of the slots a claim is made only when half of the place is free: small claims cost as much as large ones.
	room := ahead + free - (s.buffer.length - s.kinds.collected()) - s.promised
	if room > limit && 2*room >= ahead {
		limit, filling = room, true
		if s.overlapping() && ahead/2 >= overlapFrom {
			limit = min(limit, ahead/2) // and another claim for the other half
		}
	}
	return min(limit, s.cfg.Batch, s.spare()), filling
}

// spare is how many more tasks may be held. What has been claimed and not written stays in memory, whatever becomes of
// the store.
func (s *session[P, R]) spare() int {
	return s.kinds.capacity + 3*s.cfg.Batch - s.inWork() - s.promised
}

// asks says whether a claim asks for a kind. One at its bound is left out, unless it is alive and the claim fetches
// ahead. One below its bound is asked for also when every slot is taken: others may keep them all for as long as they
// have a backlog.
func asks(k *kindState, filling bool) bool {
	return k.free() > k.buffered || filling && k.ended > 0
}

// ahead is how many tasks to hold beyond the free slots: what the workers finish in about a second, and nothing where
// leases are not renewed, because the wait would eat into them, unless they were made for that.
func (s *session[P, R]) ahead() int {
	if !s.mayWait() || s.mean <= 0 {
		return 0
	}
	return int(min(int64(s.cfg.Batch), int64(s.cfg.Workers)*int64(prefetch)/int64(s.mean)))
}

// mayWait says whether a claimed task may wait for a slot.
func (s *session[P, R]) mayWait() bool { return s.r.renewer != nil || s.cfg.LeaseCoversBatch }

func (s *session[P, R]) setPoll(now time.Time) {
	s.due = false
	poll := s.cfg.Poll
	if s.cfg.ProbedOutside && !s.drain {
		poll = min(outsidePolls*poll, maxDelay) // in case that nobody does
	}
	s.poll = now.Add(jittered(poll))
}

// expect makes sure that the loop looks when a task that was put back here becomes due: an idle runner has asked for the
// next due time before, and would wait for the next poll. The lock is held.
func (s *session[P, R]) expect(now time.Time, delay time.Duration) {
	if s.drain || s.poll.IsZero() { // a drain leaves what is due later, and a probe that is under way will tell
		return
	}
	// Not less than a millisecond: clocks are not that exact.
	if at := now.Add(max(delay, time.Millisecond)); at.Before(s.poll) {
		s.poll, s.due = at, true
		poke(s.loopWake)
	}
}

// askNextDue asks the queue with a read when to look again.
func (s *session[P, R]) askNextDue() {
	wait, ok, err := s.callNextDue()
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	asleep := s.poll.IsZero() // the poll has come, so that whatever is due may be claimed
	s.setPoll(now)
	s.notePausedKinds(now)
	var pause PausedError
	switch {
	case pausedBy(err, &pause):
		s.pauseQueue(now, pause.For)
	case err != nil:
		s.cfg.Logger.Log(context.Background(), s.outages.due.level(), "runner: asking for the next due time failed", "error", err)
		if asleep {
			s.kinds.look()
		}
	default:
		s.outages.due.over() // claims tell that the store is back
		s.unpauseQueue()
		s.nextDue(now, wait, ok, asleep)
	}
}

// nextDue takes the answer of a probe. claim says that what is due may be claimed: just after an empty claim it is no
// reason to claim again, because it is not for this runner. The lock is held.
func (s *session[P, R]) nextDue(now time.Time, wait time.Duration, ok, claim bool) {
	switch {
	case !ok:
	case wait <= 0:
		if claim {
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
	s.pulses.claim.Call()
	defer func() { s.pulses.claim.Done(failure(err)) }()
	defer containCall("NextDue", &err)
	return s.r.scheduler.NextDue(ctx)
}

// storageContext is for calls of the queue: bounded, and cancelled by no stop but [Runner.StopNow].
func (s *session[P, R]) storageContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(s.storage, s.cfg.StorageTimeout)
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
	r.observe.Load().woken(WakeEvent{Queue: s.cfg.Name, Source: do.wake, Hints: do.hints})
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
