package runner

import "time"

// window merges hints: the first claims at once and opens the window, later ones inside it are merged into one wake at
// its end, which opens the next. No hint ever moves the end of an open window. It is guarded by the session's lock.
type window struct {
	length time.Duration
	end    time.Time // of the open window
	due    bool      // a wake is due now, or at
	at     time.Time // not before
	held   bool      // a wake is due when the window ends
	merged int       // hints in the wake that is due or held
}

// hint takes one hint, which should not wake before delay has passed. fresh is false if it was merged into an earlier one, and
// arm says that a timer must now be set for the window's end.
func (w *window) hint(now time.Time, delay time.Duration) (fresh, arm bool) {
	w.merged++
	if !now.Before(w.end) && !w.held {
		if fresh = !w.due; fresh {
			w.at = now.Add(delay)
		}
		w.due = true
		w.end = now.Add(delay + w.length) // windows that one hint opened everywhere end apart too
		return fresh, false
	}
	if w.due {
		// Its claim has not begun yet, so it will see what this hint announces.
		return false, false
	}
	arm = !w.held
	w.held = true
	return false, arm
}

// take answers whether a wake is due and clears it. It must be called before the claim, never after: a hint during the
// claim then counts for the next one.
func (w *window) take(now time.Time) (hints int, due bool) {
	if w.held && !now.Before(w.end) {
		w.held, w.due = false, true
		w.at, w.end = now, now.Add(w.length)
	}
	if !w.due || now.Before(w.at) {
		return 0, false
	}
	hints, w.merged, w.due = w.merged, 0, false
	return hints, true
}

// next says when a wake becomes due that is held or waits; zero if there is none.
func (w *window) next() time.Time {
	if w.due {
		return w.at
	}
	if w.held {
		return w.end
	}
	return time.Time{}
}
