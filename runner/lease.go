package runner

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// margin is how long before the end of an unanswered lease a handler's context is cancelled: a tenth of the lease, so
// that it can stop while the task is still its own.
func (s *session[P, R]) margin() time.Duration { return s.cfg.Lease / 10 }

// localEnd is when an entry's lease counts as lost here.
func (s *session[P, R]) localEnd(e *entry[P, R]) time.Time { return e.leaseEnd.Add(-s.margin()) }

// overdue is when a handler has used its deadline and its clean-up time; zero if it has no deadline.
func (s *session[P, R]) overdue(e *entry[P, R]) time.Time {
	if e.deadline.IsZero() {
		return time.Time{}
	}
	return e.deadline.Add(s.cfg.CleanUp)
}

// arm makes sure that the watcher looks at the time at. The lock is held. With one deadline for all tasks the first
// one arms it, and the others cost a comparison.
func (s *session[P, R]) arm(at time.Time) {
	if at.IsZero() || (!s.alarm.IsZero() && !at.Before(s.alarm)) {
		return
	}
	s.alarm = at
	poke(s.watchWake)
}

// watch cancels contexts at their deadlines and at the ends of their leases, counts stuck handlers, and gives back tasks
// that waited too long, until quit is closed.
func (s *session[P, R]) watch(quit <-chan struct{}) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		s.pulses.watch.Beat()
		s.mu.Lock()
		now := time.Now()
		var notes []func()
		if !s.alarm.IsZero() && !now.Before(s.alarm) {
			notes = s.sweep(now)
		}
		wait := time.Hour
		if !s.alarm.IsZero() {
			wait = s.alarm.Sub(now)
		}
		s.mu.Unlock()
		for _, note := range notes {
			note()
		}
		timer.Reset(max(wait, 0))
		s.pulses.watch.Rest(now.Add(wait))
		select {
		case <-quit:
			return
		case <-timer.C:
		case <-s.watchWake:
		}
	}
}

// sweep looks at every entry and sets the next alarm. The lock is held; what it returns is done without.
func (s *session[P, R]) sweep(now time.Time) (notes []func()) {
	var next time.Time
	for _, own := range s.slots {
		for e := range own.each {
			notes = s.sweepRunning(e, now, notes)
			if e.cause == nil {
				next = earliest(next, s.localEnd(e))
				if !e.deadline.IsZero() {
					next = earliest(next, e.deadline)
				}
			} else if over := s.overdue(e); !over.IsZero() && !e.stuck {
				next = earliest(next, over)
			}
		}
	}
	late := s.buffer.remove(func(e *entry[P, R]) bool {
		return now.Sub(e.waiting) >= s.cfg.Lease || !now.Before(s.localEnd(e))
	})
	s.release(late)
	s.buffer.each(func(e *entry[P, R]) {
		next = earliest(next, e.waiting.Add(s.cfg.Lease))
		next = earliest(next, s.localEnd(e))
	})
	s.alarm = earliest(next, s.startCollected(now))
	if len(late) > 0 {
		s.changed()
	}
	return notes
}

// sweepRunning looks at one running entry. The lock is held.
func (s *session[P, R]) sweepRunning(e *entry[P, R], now time.Time, notes []func()) []func() {
	lost := !now.Before(s.localEnd(e))
	switch {
	case e.cause == nil && !e.deadline.IsZero() && !now.Before(e.deadline):
		notes = s.cancelEntry(notes, e, ErrDeadline)
	case e.cause == nil && lost:
		notes = s.cancelEntry(notes, e, ErrLeaseLost)
		notes = s.noteLeaseLost(notes, e, false)
	}
	over := s.overdue(e)
	if over.IsZero() || e.stuck || now.Before(over) {
		return notes
	}
	e.stuck = true
	event := StuckEvent{Queue: s.cfg.Name, Kind: e.task.Kind, Token: e.task.Token, Running: now.Sub(e.started), Tasks: 1}
	if e.batch != nil {
		if e != e.batch.entries[0] {
			return notes // the first one speaks for all
		}
		event.Tasks = len(e.batch.entries)
	}
	return append(notes, func() {
		s.cfg.Logger.Error("runner: handler is stuck: it has outlived its deadline and its clean-up time",
			"task", event.Token.String(), "tasks", event.Tasks, "kind", event.Kind, "running", event.Running)
		observe := s.r.observe.Load()
		observe.taskStuck(event)
		if observe.replace != nil {
			s.askReplacement(observe, e, event)
		}
	})
}

// cancelEntry ends a running entry's context, and that of its batch with the last one. The lock is held.
func (s *session[P, R]) cancelEntry(notes []func(), e *entry[P, R], cause error) []func() {
	if e.cause != nil || e.judged {
		return notes
	}
	e.cause = cause
	if over := s.overdue(e); !over.IsZero() {
		s.arm(over)
	}
	cancel := e.cancel
	if cancel == nil {
		cancel = e.ctx.end
	}
	notes = append(notes, func() { cancel(cause) })
	if b := e.batch; b != nil {
		if b.left--; b.left == 0 {
			notes = append(notes, func() { b.cancel(cause) })
		}
	}
	return notes
}

func (s *session[P, R]) noteLeaseLost(notes []func(), e *entry[P, R], refused bool) []func() {
	event := LeaseEvent{Queue: s.cfg.Name, Kind: e.task.Kind, Token: e.task.Token, Refused: refused,
		Started: !e.started.IsZero()}
	return append(notes, func() {
		s.cfg.Logger.Warn("runner: lease lost", "task", event.Token.String(), "kind", event.Kind, "refused", refused,
			"started", event.Started)
		s.r.observe.Load().leaseLost(event)
	})
}

// renew extends leases every RenewEvery until quit is closed.
func (s *session[P, R]) renew(quit <-chan struct{}) {
	every := s.cfg.RenewEvery
	timer := time.NewTimer(jittered(every))
	defer timer.Stop()
	urgent := time.NewTimer(time.Hour)
	defer urgent.Stop()
	next := time.Now().Add(every)
	for {
		s.pulses.renew.Rest(next)
		now := false
		select {
		case <-quit:
			return
		case <-timer.C:
		case <-s.renewWake:
			now = true
		case <-urgent.C:
			now = true
		}
		s.pulses.renew.Beat()
		if now {
			if again := s.renewUrgent(); again > 0 {
				urgent.Reset(again)
			}
			continue
		}
		began := time.Now()
		wait := every
		if !s.renewOnce() {
			wait = every / 4 // no answer, or locked rows: the lease does not wait
		}
		wait = max(jittered(wait)-time.Since(began), every/8)
		next = time.Now().Add(wait)
		timer.Reset(wait)
	}
}

// renewOnce renews all leases that need it in one call; ok is false if it should be repeated soon.
func (s *session[P, R]) renewOnce() (ok bool) {
	s.mu.Lock()
	now := time.Now()
	entries := s.renewable(now)
	s.mu.Unlock()
	if len(entries) == 0 {
		s.pulses.renew.Excuse()
		return true
	}
	return s.renewEntries(entries) && !slices.ContainsFunc(entries, func(e *entry[P, R]) bool { return e.locked })
}

// renewEntries renews leases in one call; answered is false where there was no answer. Only the renewing goroutine calls it.
func (s *session[P, R]) renewEntries(entries []*entry[P, R]) (answered bool) {
	tokens := make([]Token, len(entries))
	for i, e := range entries {
		tokens[i] = e.task.Token
	}
	sent := time.Now()
	answers, err := s.callRenew(tokens)
	event := RenewEvent{Queue: s.cfg.Name, Duration: time.Since(sent), Err: err}
	if err != nil {
		s.cfg.Logger.Log(context.Background(), s.outages.renew.level(), "runner: renewal failed", "leases", len(tokens), "error", err)
		s.r.observe.Load().renewDone(event)
		return false
	}
	if n := s.outages.renew.over(); n > 0 {
		s.cfg.Logger.Info("runner: renewals work again", "failures", n)
	}
	s.mu.Lock()
	notes := s.applyRenewals(entries, answers, sent, &event)
	s.mu.Unlock()
	for _, note := range notes {
		note()
	}
	s.r.observe.Load().renewDone(event)
	return true
}

// renewable lists the entries whose lease should be extended, those first whose rows were locked the last time. A lease
// taken within the last half interval is left for the next time: most tasks are over by then. The lock is held.
func (s *session[P, R]) renewable(now time.Time) []*entry[P, R] {
	var first, rest []*entry[P, R]
	add := func(e *entry[P, R]) {
		switch {
		case e.locked:
			first = append(first, e)
		case now.Sub(e.taken) >= s.cfg.RenewEvery/2:
			rest = append(rest, e)
		}
	}
	for _, own := range s.slots {
		for e := range own.each {
			if e.cause == ErrLeaseLost {
				continue
			}
			if over := s.overdue(e); !over.IsZero() && !now.Before(over) {
				continue
			}
			add(e)
		}
	}
	s.buffer.each(add)
	return append(first, rest...)
}

// applyRenewals acts on the answers. The lock is held; what it returns is done without.
func (s *session[P, R]) applyRenewals(entries []*entry[P, R], answers []Renewal, sent time.Time, event *RenewEvent) (notes []func()) {
	dropped := make(map[*entry[P, R]]bool)
	for i, e := range entries {
		e.locked = false
		switch answers[i] {
		case Renewed, CancelRequested:
			event.Renewed++
			e.taken, e.leaseEnd = sent, sent.Add(s.cfg.Lease)
			if answers[i] == CancelRequested {
				event.CancelsRequested++
				if e.started.IsZero() {
					e.verdict.Decision = Cancel // marks it for below
					dropped[e] = true
				} else {
					notes = s.cancelEntry(notes, e, ErrCancelled)
				}
			}
		case Locked:
			event.Locked++
			e.locked = true
			// Nobody can take a locked row, so it stands until the next answer, which is asked for soon.
			if end := sent.Add(s.cfg.RenewEvery + s.margin()); end.After(e.leaseEnd) {
				e.leaseEnd = end
			}
		default: // Refused
			event.Refused++
			if e.started.IsZero() {
				dropped[e] = true
			} else if e.cause == nil && !e.judged {
				notes = s.cancelEntry(notes, e, ErrLeaseLost)
				notes = s.noteLeaseLost(notes, e, true)
			}
		}
	}
	if len(dropped) == 0 {
		return notes
	}
	for _, e := range s.buffer.remove(func(e *entry[P, R]) bool { return dropped[e] }) {
		if e.verdict.Decision == Cancel {
			e.verdict.Token = e.task.Token
			s.enqueueVerdict(e)
			continue
		}
		s.count(e, Lost, sent)
		notes = s.noteLeaseLost(notes, e, true)
	}
	s.armCollecting()
	s.changed()
	return notes
}

func (s *session[P, R]) callRenew(tokens []Token) (answers []Renewal, err error) {
	ctx, cancel := s.storageContext()
	defer cancel()
	s.pulses.renew.Call()
	defer func() { s.pulses.renew.Done(err) }()
	defer containCall("Renew", &err)
	answers, err = s.r.renewer.Renew(ctx, tokens, s.cfg.Lease)
	if err == nil && len(answers) != len(tokens) {
		err = fmt.Errorf("runner: Renew answered %d of %d", len(answers), len(tokens))
	}
	return answers, err
}
