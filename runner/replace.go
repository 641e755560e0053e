package runner

import "slices"

// A stuck handler cannot be ended from outside: Go has no way to. What can be done is to work on beside it. Its slot and its
// goroutine stay with it, and a slot with a worker of its own is added; when the stuck handler returns, its worker exits and
// takes its slot along, so that there are as many as before. See [StuckReplaceObserver] for who decides.

// workers is how many slots there are now. The lock is held.
func (s *session[P, R]) workers() int { return s.cfg.Workers + s.extra }

// askReplacement asks the observers about a stuck handler and adds a slot if they want one. It runs in the watcher's goroutine,
// without the lock.
func (s *session[P, R]) askReplacement(observe *observers, e *entry[P, R], event StuckEvent) {
	s.mu.Lock()
	full := s.replacementsUsed(e.kind)
	s.mu.Unlock()
	if full {
		s.cfg.Logger.Warn("runner: the slot of a stuck handler is not replaced: as many as may be are", "task", event.Token.String(),
			"kind", event.Kind)
		return
	}
	if !observe.replaceStuck(event) {
		return
	}
	if s.replace(e) {
		s.cfg.Logger.Warn("runner: the slot of a stuck handler is replaced until it returns", "task", event.Token.String(), "kind", event.Kind)
	}
}

// replacementsUsed says whether a bound forbids another replacement for the kind. Kinds are bounded by what they were configured
// with: a handler that always hangs gets its slots once more, and that is all. The lock is held.
func (s *session[P, R]) replacementsUsed(k *kindState) bool {
	return s.extra >= s.cfg.MaxReplacements || k.replaced >= k.bound-k.replaced
}

// replace adds a slot for the one in which e is stuck. It answers false if e has returned meanwhile, or the session stops.
func (s *session[P, R]) replace(e *entry[P, R]) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := slices.IndexFunc(s.slots, func(own *slot[P, R]) bool {
		return own.entry == e || own.batch != nil && own.batch == e.batch
	})
	if at < 0 || s.stopping || s.replacementsUsed(e.kind) {
		return false
	}
	k := e.kind
	s.slots[at].replaced = e
	k.replaced++
	k.bound++
	s.extra++
	s.kinds.capacity += max(1, k.size)
	added := &slot[P, R]{}
	s.slots = append(s.slots, added)
	s.alive++
	go s.worker(added)
	s.changed()
	return true
}

// giveBackReplaced ends a slot that was replaced, because its handler has returned at last. The lock is held; the worker of the
// slot exits, and its replacement goes on as a slot like any other.
func (s *session[P, R]) giveBackReplaced(own *slot[P, R]) bool {
	e := own.replaced
	k := e.kind
	own.replaced = nil
	k.replaced--
	k.bound--
	s.extra--
	s.kinds.capacity -= max(1, k.size)
	s.slots = slices.DeleteFunc(s.slots, func(other *slot[P, R]) bool { return other == own })
	s.cfg.Logger.Info("runner: a stuck handler has returned, and its slot has gone: the replacement stays", "task", e.task.Token.String(),
		"kind", e.task.Kind)
	s.changed()
	s.exit()
	return true
}
