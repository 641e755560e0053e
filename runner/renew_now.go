package runner

import "time"

const (
	// urgentTries is how often a lease is renewed ahead of its turn before that is left to the next turn: its row may be locked
	// by whoever the news came from, or the store may not answer.
	urgentTries = 20
	// urgentAgain is how long after the first of these the next one comes; each further one waits as much longer.
	urgentAgain = 50 * time.Millisecond
	// urgentMost is the longest wait between two.
	urgentMost = 500 * time.Millisecond
)

// RenewNow renews the leases of tasks that are held here ahead of their turn: those whose tokens which says yes to, running
// ones and such as wait for a slot, and those that a claim which is under way brings. It is for when something was heard
// about them, such as that somebody asked for their cancellation: what was heard is not believed, the queue's answer to the
// renewal decides, as it would at the next turn. It returns how many tasks that concerns now.
//
// It does not wait for the renewal. which is called while the runner is locked, once for each task and possibly later for the
// tasks of a claim: it must be quick, and must not call the runner. Without renewal, see [Renewer], it does nothing.
func (r *Runner[P, R]) RenewNow(which func(Token) bool) int {
	r.mu.Lock()
	s, runs := r.run, r.state == Running || r.state == Stopping
	r.mu.Unlock()
	if !runs || r.renewer == nil {
		return 0
	}
	return s.renewNow(which, time.Now())
}

// sought are tasks that were asked for while a claim was under way, which may bring them.
type sought struct {
	which func(Token) bool
	at    time.Time
}

func (s *session[P, R]) renewNow(which func(Token) bool, now time.Time) (found int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	mark := func(e *entry[P, R]) {
		if which(e.task.Token) {
			e.urgent = urgentTries
			found++
		}
	}
	for _, own := range s.slots {
		for e := range own.each {
			if !e.judged {
				mark(e)
			}
		}
	}
	s.buffer.each(mark)
	if s.claims > 0 {
		s.sought = append(s.sought, sought{which, now})
	}
	if found > 0 {
		poke(s.renewWake)
	}
	return found
}

// seek looks for what is sought among the tasks of a claim that was sent at the given time. The lock is held, and the claim
// no longer counted.
func (s *session[P, R]) seek(entries []*entry[P, R], sent, now time.Time) {
	if len(s.sought) == 0 {
		return
	}
	kept := s.sought[:0]
	for _, one := range s.sought {
		if !one.at.Before(sent) { // what is claimed later tells by itself: its row was written after the news
			for _, e := range entries {
				if one.which(e.task.Token) {
					e.urgent = urgentTries
					poke(s.renewWake)
				}
			}
		}
		if s.claims > 0 && now.Sub(one.at) < s.cfg.StorageTimeout { // no claim is under way for longer
			kept = append(kept, one)
		}
	}
	clear(s.sought[len(kept):])
	s.sought = kept
}

// renewUrgent renews what RenewNow asked for. again is when to call it once more; zero: not without being asked.
func (s *session[P, R]) renewUrgent() (again time.Duration) {
	var entries []*entry[P, R]
	var tries []int
	s.mu.Lock()
	now := time.Now()
	take := func(e *entry[P, R]) {
		if e.urgent == 0 {
			return
		}
		left := e.urgent
		e.urgent = 0 // so that one who asks during the renewal is not overlooked
		if over := s.overdue(e); e.cause == ErrLeaseLost || e.judged || !over.IsZero() && !now.Before(over) {
			return
		}
		entries, tries = append(entries, e), append(tries, left)
	}
	for _, own := range s.slots {
		for e := range own.each {
			take(e)
		}
	}
	s.buffer.each(take)
	s.mu.Unlock()
	if len(entries) == 0 {
		return 0
	}
	answered := s.renewEntries(entries)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, e := range entries {
		if (e.locked || !answered) && tries[i] > 1 && !e.judged {
			e.urgent = max(e.urgent, tries[i]-1)
			again = max(again, min(urgentMost, urgentAgain*time.Duration(urgentTries-tries[i]+1)))
		}
	}
	return again
}
