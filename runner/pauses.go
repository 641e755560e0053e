package runner

import (
	"slices"
	"time"
)

// PausedError is [ErrPaused] from a queue that knows when the pause ends by itself: the runner looks again then, not only at its
// next poll. It matches ErrPaused.
type PausedError struct {
	For time.Duration // from now on
}

// Error says for how long.
func (e *PausedError) Error() string { return ErrPaused.Error() + " for " + e.For.String() }

// Is tells that it is ErrPaused.
func (e *PausedError) Is(target error) bool { return target == ErrPaused }

// KindPauser is a [Queue] whose kinds can be paused one by one, for everybody. It leaves a paused kind out of its claims by itself. The
// runner asks it, after each answer of Claim and NextDue and in [Runner.Probed], so that it gives back at no cost what it has
// claimed of such a kind and not started. What runs goes on.
type KindPauser interface {
	// PausedKinds are the kinds that are paused, as far as the queue knows from the latest answer of the store, at most one entry
	// for each. It does not ask the store. The runner does not change the slice, nor must the queue.
	PausedKinds() []PausedKind
}

// PausedKind is a kind that is paused for everybody.
type PausedKind struct {
	Kind  string
	Until time.Time // when the pause ends by itself, on the local clock; zero: when somebody ends it
}

// At tells whether the kind is paused at that time.
func (p PausedKind) At(now time.Time) bool { return p.Until.IsZero() || now.Before(p.Until) }

// isPaused tells whether tasks of a kind must not start. The lock is held.
func (s *session[P, R]) isPaused(kind string, now time.Time) bool {
	return slices.ContainsFunc(s.pausedKinds, func(p PausedKind) bool { return p.Kind == kind && p.At(now) })
}

// notePausedKinds takes note of which kinds are paused, and releases what has not started of them. The lock is held.
func (s *session[P, R]) notePausedKinds(now time.Time) {
	if s.r.kindPauser == nil {
		return
	}
	known := s.r.kindPauser.PausedKinds()
	if len(known) == 0 && len(s.pausedKinds) == 0 {
		return
	}
	before := s.pausedKinds
	s.pausedKinds = known
	for _, p := range before {
		if s.serves(p.Kind) && !s.isPaused(p.Kind, now) {
			s.cfg.Logger.Info("runner: the kind is no longer paused", "kind", p.Kind)
		}
	}
	released := map[string]int{}
	s.release(s.buffer.remove(func(e *entry[P, R]) bool {
		paused := s.isPaused(e.task.Kind, now)
		if paused {
			released[e.task.Kind]++
		}
		return paused
	}))
	for _, p := range known {
		known := slices.ContainsFunc(before, func(old PausedKind) bool { return old.Kind == p.Kind })
		if s.serves(p.Kind) && p.At(now) && (!known || released[p.Kind] > 0) {
			s.cfg.Logger.Info("runner: the kind is paused", "kind", p.Kind, "released", released[p.Kind])
		}
	}
}

// serves tells whether tasks of a kind are claimed here at all.
func (s *session[P, R]) serves(kind string) bool {
	_, known := s.kinds.of(kind)
	return known
}

// describePauses is for Status. The lock is held.
func (s *session[P, R]) describePauses(st *Status, now time.Time) {
	st.QueuePaused = s.queuePaused
	if now.Before(s.queuePausedUntil) && !s.queuePaused.IsZero() {
		st.QueuePausedUntil = s.queuePausedUntil
	}
	for _, p := range s.pausedKinds {
		if s.serves(p.Kind) && p.At(now) {
			st.PausedKinds = append(st.PausedKinds, p)
		}
	}
}
