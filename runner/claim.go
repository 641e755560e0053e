package runner

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	minClaimBackoff = 100 * time.Millisecond
	maxClaimBackoff = 2 * time.Second

	// slabSize is how many entries are allocated together: one that is kept keeps the others in memory.
	slabSize = 64
)

// claim asks the queue for tasks and hands them to the workers.
func (s *session[P, R]) claim(request ClaimRequest, asked []*kindState) {
	sent := time.Now() // before the call: the lease cannot have begun earlier
	tasks, err := s.callClaim(request)
	now := time.Now()
	var pause PausedError // with no end unless the queue knows one
	paused := pausedBy(err, &pause)
	if paused {
		tasks, err = nil, nil
	}
	if err == nil && len(tasks) > request.Limit {
		s.cfg.Logger.Error("runner: the queue leased more tasks than asked for; the rest is released",
			"limit", request.Limit, "claimed", len(tasks))
	}
	s.noteClaim(request, len(tasks), now, now.Sub(sent), err)

	entries := make([]*entry[P, R], 0, len(tasks))
	var slab []entry[P, R]
	for i := range tasks {
		if tasks[i].Token == nil {
			s.cfg.Logger.Error("runner: the queue leased a task without a token; it is left to its lease")
			continue
		}
		if len(slab) == 0 {
			slab = make([]entry[P, R], min(len(tasks)-i, slabSize))
		}
		e := &slab[0]
		slab = slab[1:]
		e.task, e.taken, e.leaseEnd, e.waiting = tasks[i], sent, sent.Add(s.cfg.Lease), now
		entries = append(entries, e)
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	s.claims--
	s.seek(entries, sent, now)
	s.promised -= request.Limit
	s.full = err == nil && len(tasks) >= request.Limit
	if err != nil {
		s.failures++
		s.hold = now.Add(backoffBetween(s.failures, minClaimBackoff, maxClaimBackoff))
		if s.drain && s.failures >= maxDrainFailures {
			s.drainErr = fmt.Errorf("runner: drain gave up after %d failed claims: %w", s.failures, err)
			s.askStop()
		}
		return
	}
	s.failures = 0
	s.notePausedKinds(now)
	if paused {
		s.pauseQueue(now, pause.For)
		return
	}
	if s.queuePaused.Before(sent) {
		s.unpauseQueue() // else a probe was told so after this claim was sent, and knows better
	}
	s.claimed += uint64(len(tasks))
	if len(tasks) == 0 {
		for _, k := range asked {
			k.more = false
		}
		s.probe = s.kinds.quiet()
		if s.drain && s.kinds.collected() > 0 {
			s.tasks.Broadcast() // nothing more will come
		}
		return
	}
	s.rotation.used()
	s.deliver(entries, request.Limit, now)
}

// deliver puts claimed tasks into the buffer and wakes workers for them. The lock is held.
func (s *session[P, R]) deliver(entries []*entry[P, R], limit int, now time.Time) {
	if s.stopping || now.Before(s.pausedUntil) || !s.queuePaused.IsZero() {
		s.release(entries)
		return
	}
	ready := 0
	var back []*entry[P, R]
	for i, e := range entries {
		kind, known := s.kinds.of(e.task.Kind)
		e.kind = kind
		kind.more = true
		switch {
		case !known:
			s.cfg.Logger.Error("runner: the queue leased a task of a kind that was not asked for; it is released",
				"task", e.task.Token.String(), "kind", e.task.Kind)
			back = append(back, e)
		case i >= limit, !now.Before(s.localEnd(e)), s.isPaused(e.task.Kind, now):
			// More than was asked for, or the answer took longer than the lease, or a pause came in between.
			back = append(back, e)
		case !s.mayWait() && kind.places() <= kind.buffered:
			// It would have to wait, and nobody would renew its lease.
			back = append(back, e)
		default:
			s.buffer.push(e)
			if kind.size == 0 {
				ready++
			}
		}
	}
	s.release(back)
	if s.kinds.collected() > 0 {
		ready += s.readyBatches(now)
		s.armCollecting()
	}
	if ready >= s.idle {
		s.tasks.Broadcast()
	} else {
		for range ready {
			s.tasks.Signal()
		}
	}
	if s.buffer.length > 0 {
		s.arm(now.Add(s.cfg.Lease))
	}
}

// failure is err, unless that is an answer.
func failure(err error) error {
	if errors.Is(err, ErrPaused) {
		return nil
	}
	return err
}

func (s *session[P, R]) callClaim(request ClaimRequest) (tasks []Task[P], err error) {
	ctx, cancel := s.storageContext()
	defer cancel()
	s.pulses.claim.Call()
	defer func() { s.pulses.claim.Done(failure(err)) }()
	defer containCall("Claim", &err)
	return s.r.queue.Claim(ctx, request)
}

// noteClaim records a claim for Status and the observer.
func (s *session[P, R]) noteClaim(request ClaimRequest, claimed int, now time.Time, took time.Duration, err error) {
	r := s.r
	r.mu.Lock()
	r.claimed += uint64(claimed)
	if err == nil {
		r.lastClaim = now
		r.lastClaimErr = ""
	} else {
		r.lastClaimErr = err.Error()
	}
	r.mu.Unlock()
	if err != nil {
		s.cfg.Logger.Log(context.Background(), s.outages.claim.level(), "runner: claim failed", "error", err)
	} else if n := s.outages.claim.over(); n > 0 {
		s.cfg.Logger.Info("runner: claims work again", "failures", n)
	}
	r.observe.Load().claimDone(ClaimEvent{Queue: s.cfg.Name, Limit: request.Limit, Claimed: claimed, Duration: took, Err: err})
}

// backoffBetween doubles from low to high, half of it at random.
func backoffBetween(failures int, low, high time.Duration) time.Duration {
	return Exponential{Base: low, Max: high, Factor: 2, Jitter: 0.25}.Delay(failures)
}
