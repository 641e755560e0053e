package runner

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	minFlushBackoff = 50 * time.Millisecond
	maxFlushBackoff = 5 * time.Second
	minBusyBackoff  = 10 * time.Millisecond
	maxBusyBackoff  = time.Second
)

// flusher writes verdicts until the session has closed the reporter and everything is written or lost. A lone verdict
// is written at once; while one flush is under way the next one gathers.
func (s *session[P, R]) flusher() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		s.pulses.flush.Beat()
		s.mu.Lock()
		batch, until, end := s.nextFlush(time.Now())
		if len(batch) == 0 && !end {
			s.flushIdle = true
			if s.unwritten() == 0 {
				s.pulses.flush.Excuse() // what could not be written was given up
			}
		}
		s.mu.Unlock()
		if end {
			return
		}
		if len(batch) > 0 {
			s.flush(batch)
			continue
		}
		wait := time.Hour
		if !until.IsZero() {
			wait = max(time.Until(until), 0)
		}
		timer.Reset(wait)
		s.pulses.flush.Rest(until)
		select {
		case <-timer.C:
		case <-s.flushWake:
		}
	}
}

// helper is a second flusher, for when verdicts pile up while the first one is busy.
func (s *session[P, R]) helper(quit <-chan struct{}) {
	for {
		select {
		case <-quit:
			return
		case <-s.helpWake:
		}
		for {
			var batch []*entry[P, R]
			s.mu.Lock()
			if len(s.pending) >= s.helpAt() {
				batch, _, _ = s.nextFlush(time.Now())
			}
			s.mu.Unlock()
			if len(batch) == 0 {
				break
			}
			s.flush(batch)
		}
	}
}

// nextFlush takes the verdicts to write now, or says when to look again, or that nothing is left to do. The lock is
// held.
func (s *session[P, R]) nextFlush(now time.Time) (batch []*entry[P, R], until time.Time, end bool) {
	if s.flushClose && !s.flushEnd.IsZero() && !now.Before(s.flushEnd) {
		s.loseAll(now)
	}
	if s.flushClose && s.unwritten() == 0 {
		return nil, time.Time{}, true
	}
	if s.flushClose && now.Before(s.flushEnd) {
		until = s.flushEnd // later than that only a flush under way can end it, which pokes
	}
	if now.Before(s.flushHold) {
		return nil, earliest(until, s.flushHold), false
	}
	if len(s.delayed) > 0 {
		kept := s.delayed[:0]
		for _, e := range s.delayed {
			if now.Before(e.again) {
				kept = append(kept, e)
				until = earliest(until, e.again)
			} else {
				s.pending = append(s.pending, e)
			}
		}
		clear(s.delayed[len(kept):])
		s.delayed = kept
	}
	n := min(len(s.pending), s.flushLimit)
	if n == 0 {
		return nil, until, false
	}
	batch = s.pending[:n:n]
	s.pending = s.pending[n:]
	if len(s.pending) == 0 {
		s.pending = make([]*entry[P, R], 0, min(n, s.cfg.MaxReport))
	}
	s.inFlight += n
	return batch, time.Time{}, false
}

// flush writes one batch.
func (s *session[P, R]) flush(batch []*entry[P, R]) {
	verdicts := make([]Verdict[R], len(batch))
	for i, e := range batch {
		verdicts[i] = e.verdict
	}
	began := time.Now()
	outcomes, err := s.callReport(verdicts)
	now := time.Now()
	if err != nil {
		s.cfg.Logger.Log(context.Background(), s.outages.report.level(), "runner: writing verdicts failed; they are kept and tried again",
			"verdicts", len(batch), "error", err)
	} else if n := s.outages.report.over(); n > 0 {
		s.cfg.Logger.Info("runner: verdicts are written again", "failures", n)
	}

	var ends []VerdictEvent
	observe := s.r.observe.Load()
	watched := observe.verdict != nil
	busy := 0
	s.mu.Lock()
	s.inFlight -= len(batch)
	if err != nil {
		s.flushFails++
		s.flushHold = now.Add(backoffBetween(s.flushFails, minFlushBackoff, maxFlushBackoff))
		// One verdict that the store cannot take must not hold back the others for long.
		s.flushLimit = max(1, min(s.flushLimit, len(batch))/2)
	} else {
		s.flushFails = 0
		s.flushHold = time.Time{}
		s.flushLimit = min(s.cfg.MaxReport, s.flushLimit*2)
	}
	tally := Outcomes{}
	for i, e := range batch {
		outcome := Busy
		if err == nil {
			outcome = outcomes[i]
		} else {
			e.lastErr = err
		}
		if outcome < Busy || outcome > Released {
			e.lastErr = fmt.Errorf("runner: Report answered with outcome %d, which does not exist", outcome)
			outcome = Busy
		}
		if outcome == Busy {
			if now.Before(e.leaseEnd) {
				busy++
				s.postpone(e, now, err != nil)
				continue
			}
			outcome = Lost
		}
		tally.add(outcome)
		s.logLost(e, outcome)
		if outcome == Retrying || outcome == Snoozed {
			s.expect(now, e.verdict.Delay)
		}
		if e.verdict.Decision == Confirm && (outcome == Retrying || outcome == Dead) {
			s.lastCode, s.lastCodeAt = e.verdict.Failure.Code, now
			s.logFailure(e)
		}
		if watched {
			ends = append(ends, s.verdictEvent(e, outcome))
		}
	}
	s.counts.merge(tally)
	s.changed()
	if s.flushClose {
		poke(s.flushWake) // this may have been the helper's, and the last
	}
	s.mu.Unlock()

	if err != nil {
		busy = 0
	}
	s.publish(tally, now)
	observe.flushDone(FlushEvent{Queue: s.cfg.Name, Verdicts: len(batch), Busy: busy, Duration: now.Sub(began), Err: err})
	for _, e := range ends {
		observe.verdictDone(e)
	}
}

// postpone keeps a verdict for another try. The lock is held.
func (s *session[P, R]) postpone(e *entry[P, R], now time.Time, failed bool) {
	if failed {
		e.again = s.flushHold
	} else {
		e.tries++
		e.again = now.Add(backoffBetween(e.tries, minBusyBackoff, maxBusyBackoff))
	}
	if s.flushClose && e.again.After(s.flushEnd) {
		e.again = s.flushEnd
	}
	s.delayed = append(s.delayed, e)
	if s.flushIdle { // the helper postponed it: the first flusher must set its timer
		s.flushIdle = false
		poke(s.flushWake)
	}
}

// loseAll gives up on what could not be written in time. The lock is held.
func (s *session[P, R]) loseAll(now time.Time) {
	for _, e := range s.delayed {
		s.count(e, Lost, now)
	}
	for _, e := range s.pending {
		s.count(e, Lost, now)
	}
	s.delayed, s.pending = nil, nil
}

// count records the outcome of one entry outside of a flush. The lock is held.
func (s *session[P, R]) count(e *entry[P, R], outcome Outcome, now time.Time) {
	s.logLost(e, outcome)
	var one Outcomes
	one.add(outcome)
	s.counts.merge(one)
	observe := s.r.observe.Load()
	if observe.verdict == nil {
		s.publish(one, now)
		return
	}
	event := s.verdictEvent(e, outcome)
	s.side.Add(1)
	go func() { // observers are never called under the lock
		defer s.side.Done()
		s.publish(one, now)
		observe.verdictDone(event)
	}()
}

func (s *session[P, R]) verdictEvent(e *entry[P, R], outcome Outcome) VerdictEvent {
	v := VerdictEvent{Queue: s.cfg.Name, Kind: e.task.Kind, Token: e.task.Token, Class: e.task.Class, Attempt: e.task.Attempt,
		Decision: e.verdict.Decision, Outcome: outcome, Failure: e.verdict.Failure}
	if !e.started.IsZero() {
		v.Started, v.Waited, v.Duration = true, e.started.Sub(e.waiting), e.took
	}
	switch outcome {
	case Lost:
		v.Err = e.lastErr
	case Retrying, Snoozed:
		v.Delay = e.verdict.Delay
	}
	return v
}

// logLost tells an operator that work was done in vain.
func (s *session[P, R]) logLost(e *entry[P, R], outcome Outcome) {
	if outcome == Lost && e.verdict.Decision != Release {
		s.cfg.Logger.Warn("runner: verdict lost: the claim no longer stands", "task", e.task.Token.String(), "kind", e.task.Kind,
			"attempt", e.task.Attempt)
	}
}

// publish adds to the runner's counters.
func (s *session[P, R]) publish(tally Outcomes, now time.Time) {
	s.r.mu.Lock()
	s.r.counts.merge(tally)
	if tally.Succeeded > 0 {
		s.r.lastSuccess = now
	}
	s.r.mu.Unlock()
}

var errNoOutcome = errors.New("runner: Report answered with a wrong number of outcomes")

func (s *session[P, R]) callReport(verdicts []Verdict[R]) (outcomes []Outcome, err error) {
	ctx, cancel := s.storageContext()
	defer cancel()
	s.pulses.flush.Call()
	defer func() { s.pulses.flush.Done(err) }()
	defer containCall("Report", &err)
	outcomes, err = s.r.queue.Report(ctx, verdicts)
	if err == nil && len(outcomes) != len(verdicts) {
		err = fmt.Errorf("%w: %d for %d verdicts", errNoOutcome, len(outcomes), len(verdicts))
	}
	return outcomes, err
}
