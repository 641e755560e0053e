package runner

import (
	"context"
	"time"
)

// What [Runner.StopNow] leaves: time for handlers that watch their context to return, and for the store to take what
// they return. Both count from the call.
const (
	hurryHandlers = time.Second
	hurryStorage  = 2 * time.Second
)

// StopNow is [Runner.Stop] without the patience, for the second signal. It also shortens a stop that is under way already. The
// contexts of running handlers are cancelled at once, with the cause [ErrStopping]. Those that return within a second are
// settled as in any stop, which for an error means released with nothing spent. The others are named in Run's
// [*StopError] and left to their leases. Two seconds after the call claims and reports that still have no answer are
// given up too, so that Run returns even if the store hangs; verdicts that could not be written are counted as lost.
//
// It waits until Run or Drain has returned, or until ctx ends, whose error it then returns; the stop goes on. If nothing
// runs it returns nil at once.
func (r *Runner[P, R]) StopNow(ctx context.Context) error {
	return r.stop(ctx, func(s *session[P, R]) { s.askStopNow() })
}

func (s *session[P, R]) askStopNow() {
	s.askStop()
	s.hurried.Do(func() { close(s.hurry) })
}

func (s *session[P, R]) inHurry() bool {
	select {
	case <-s.hurry:
		return true
	default:
		return false
	}
}

// cutShort bounds what a stop may still take, once somebody is in a hurry.
func (s *session[P, R]) cutShort(quit <-chan struct{}) {
	select {
	case <-quit:
		return
	case <-s.hurry:
	}
	s.mu.Lock()
	s.hurryEnd = time.Now().Add(hurryStorage)
	if s.flushClose && s.hurryEnd.Before(s.flushEnd) {
		s.flushEnd = s.hurryEnd
	}
	s.mu.Unlock()
	poke(s.flushWake)
	timer := time.NewTimer(hurryStorage)
	defer timer.Stop()
	select {
	case <-quit:
	case <-timer.C:
		s.giveUp()
	}
}
