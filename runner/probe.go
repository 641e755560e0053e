package runner

import (
	"errors"
	"time"
)

// outsidePolls is how many polls may pass without a probe from outside before a runner asks by itself.
const outsidePolls = 3

// Probe is what the store says about one queue to somebody who asked for several at once.
type Probe struct {
	// Paused says that the queue is paused for everybody, as with [ErrPaused].
	Paused bool
	// Scheduled says that there are tasks for this runner, and Wait how long from now the first of them is due; zero or
	// less means now. Of a paused queue they say that the pause ends by itself, and when.
	Scheduled bool
	Wait      time.Duration
}

// Probed passes on the answer of a probe that was made outside; see [Config].ProbedOutside. It never blocks, and may be
// called by any goroutine at any time. A runner that does not run forgets it.
func (r *Runner[P, R]) Probed(p Probe) {
	r.mu.Lock()
	s, running := r.run, r.state == Running
	r.mu.Unlock()
	if running && !s.drain {
		s.probed(p)
	}
}

func (s *session[P, R]) probed(p Probe) {
	now := time.Now()
	s.mu.Lock()
	if s.stopping {
		s.mu.Unlock()
		return
	}
	idle := s.kinds.quiet()
	if idle {
		s.pulses.claim.Excuse() // the store has answered, and there is nothing that it does not answer
	}
	if !s.due || p.Paused { // a task that is due soon keeps its time
		s.setPoll(now)
	}
	s.notePausedKinds(now)
	if p.Paused {
		wait := p.Wait
		if !p.Scheduled {
			wait = 0
		}
		s.pauseQueue(now, wait)
	} else {
		if !s.queuePaused.IsZero() {
			s.unpauseQueue()
			s.kinds.look() // a probe may guess on the early side, but a pause may have hidden anything
		}
		s.nextDue(now, p.Wait, p.Scheduled, true)
	}
	s.mu.Unlock()
	poke(s.loopWake) // there may be something to claim, or it has to wake earlier
	if idle {
		s.woken(plan{wake: WakePoll})
	}
}

// unpauseQueue takes note that the queue is not paused any more. The lock is held.
func (s *session[P, R]) unpauseQueue() {
	if !s.queuePaused.IsZero() {
		s.cfg.Logger.Info("runner: the queue is no longer paused", "after", time.Since(s.queuePaused))
		s.queuePaused, s.queuePausedUntil = time.Time{}, time.Time{}
	}
}

// pauseQueue takes note that the queue is paused for everybody: what has not started is released, and nothing is claimed
// until a hint, a poll, a probe or the end of the pause says to look, which is after wait if that is not zero. The lock is held.
func (s *session[P, R]) pauseQueue(now time.Time, wait time.Duration) {
	s.queuePausedUntil = time.Time{}
	if wait > 0 {
		s.queuePausedUntil = now.Add(wait)
	}
	if s.queuePaused.IsZero() {
		s.queuePaused = now
		s.cfg.Logger.Info("runner: the queue is paused", "released", s.buffer.length)
	}
	s.release(s.buffer.remove(func(*entry[P, R]) bool { return true }))
	for _, k := range s.kinds.all {
		k.more = false
	}
	s.probe = false
	if s.poll.IsZero() {
		s.setPoll(now)
	}
	s.nextDue(now, wait, wait > 0, false)
}

// pausedBy tells whether err says that the queue is paused, and puts how long into pause, if it knows.
func pausedBy(err error, pause *PausedError) bool {
	var timed *PausedError
	if errors.As(err, &timed) {
		*pause = *timed
	}
	return errors.Is(err, ErrPaused)
}
