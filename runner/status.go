package runner

import "time"

// Lifecycle is what a runner is doing.
type Lifecycle uint8

// The states of a runner.
const (
	Idle     Lifecycle = iota // not started yet
	Running                   // in Run or Drain
	Stopping                  // finishing what is in flight
	Stopped                   // Run or Drain has returned
)

// String returns the name in lower case.
func (l Lifecycle) String() string {
	switch l {
	case Idle:
		return "idle"
	case Running:
		return "running"
	case Stopping:
		return "stopping"
	case Stopped:
		return "stopped"
	}
	return "unknown"
}

// Outcomes counts the ends of tasks. Succeeded includes what handlers settled themselves; Lost includes verdicts that
// could not be written before their lease had run out.
type Outcomes struct {
	Succeeded, Retrying, Failed, Dead, Cancelled, Snoozed, Released, Superseded, Ineligible, Lost uint64
}

// Total is the sum.
func (o Outcomes) Total() uint64 {
	return o.Succeeded + o.Retrying + o.Failed + o.Dead + o.Cancelled + o.Snoozed + o.Released + o.Superseded +
		o.Ineligible + o.Lost
}

func (o *Outcomes) add(outcome Outcome) {
	switch outcome {
	case Lost:
		o.Lost++
	case Superseded:
		o.Superseded++
	case Ineligible:
		o.Ineligible++
	case Succeeded:
		o.Succeeded++
	case Retrying:
		o.Retrying++
	case Failed:
		o.Failed++
	case Dead:
		o.Dead++
	case Cancelled:
		o.Cancelled++
	case Snoozed:
		o.Snoozed++
	case Released:
		o.Released++
	}
}

func (o *Outcomes) merge(m Outcomes) {
	o.Succeeded += m.Succeeded
	o.Retrying += m.Retrying
	o.Failed += m.Failed
	o.Dead += m.Dead
	o.Cancelled += m.Cancelled
	o.Snoozed += m.Snoozed
	o.Released += m.Released
	o.Superseded += m.Superseded
	o.Ineligible += m.Ineligible
	o.Lost += m.Lost
}

// Plus returns the sum of both.
func (o Outcomes) Plus(other Outcomes) Outcomes {
	o.merge(other)
	return o
}

// Status is a snapshot of a runner. Times are of the local clock and zero where something has not happened; counters
// count since New, over all runs.
type Status struct {
	Queue     string
	Lifecycle Lifecycle

	InFlight   int // handlers running, stuck ones included; a batch is one
	Tasks      int // that these were given
	Stuck      int // handlers that have outlived their deadline and their clean-up time
	Replaced   int // of these, handlers for which there is another slot now, see [StuckReplaceObserver]
	Buffered   int // claimed and waiting for a slot, or for their batch to fill
	Unreported int // verdicts that are not written yet

	PausedUntil time.Time // no claims before, because a handler said so with [Pause]; zero if not paused
	QueuePaused time.Time // since when this runner knows that the queue is paused for all, see [ErrPaused]; zero if not
	// QueuePausedUntil is when that pause ends by itself; zero if it does not. PausedKinds are the kinds that are paused for all, of
	// those that are claimed here.
	QueuePausedUntil time.Time
	PausedKinds      []PausedKind

	NextRetry time.Time // when verdicts that could not be written are tried again; zero if there are none

	Claimed  uint64
	Outcomes Outcomes

	LastSuccess    time.Time
	LastErrorCode  string // of the latest failed attempt: safe to show
	LastErrorAt    time.Time
	LastClaim      time.Time // the latest one that succeeded, an empty one too
	LastClaimError string    // of the latest claim; empty if it succeeded. May carry details of the store

	Hints     uint64 // taken by Wake
	Coalesced uint64 // of these, merged into an earlier one
	HintWakes uint64 // claims that hints led to
	PollWakes uint64
	DueWakes  uint64 // because a scheduled task had become due

	Kinds []KindStatus // as configured, also before anything has run; nil where kinds are not told apart
	Loops []LoopStatus // while it runs; see Lifecycle
}

// Status returns a snapshot. It is cheap and never waits for the store.
func (r *Runner[P, R]) Status() Status {
	r.mu.Lock()
	st := Status{
		Queue: r.config.Name, Lifecycle: r.state, Claimed: r.claimed, Outcomes: r.counts,
		LastSuccess: r.lastSuccess, LastErrorCode: r.lastCode, LastErrorAt: r.lastCodeAt,
		LastClaim: r.lastClaim, LastClaimError: r.lastClaimErr,
		Hints: r.hints, Coalesced: r.merged, HintWakes: r.hintWakes, PollWakes: r.pollWakes, DueWakes: r.dueWakes,
	}
	s := r.run
	r.mu.Unlock()
	if s != nil {
		s.describe(&st)
	} else {
		for _, k := range r.config.Kinds {
			st.Kinds = append(st.Kinds, KindStatus{Kind: k.Name, Workers: k.Workers})
		}
	}
	if st.Lifecycle == Running || st.Lifecycle == Stopping {
		st.Loops = s.loops()
	}
	return st
}

func (s *session[P, R]) describe(st *Status) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lastCode != "" {
		st.LastErrorCode, st.LastErrorAt = s.lastCode, s.lastCodeAt
	}
	st.InFlight, st.Tasks = s.running, s.inSlots
	st.Replaced = s.extra
	st.Buffered = s.buffer.length
	st.Unreported = s.unwritten()
	st.Kinds = s.kindStatus()
	for _, own := range s.slots {
		for e := range own.each {
			if e.stuck {
				st.Stuck++
				break
			}
		}
	}
	if now.Before(s.pausedUntil) {
		st.PausedUntil = s.pausedUntil
	}
	s.describePauses(st, now)
	if now.Before(s.flushHold) {
		st.NextRetry = s.flushHold
	}
	for _, e := range s.delayed {
		st.NextRetry = earliest(st.NextRetry, e.again)
	}
}

// outcomes returns what this session alone did.
func (s *session[P, R]) outcomes() Outcomes {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts
}

func (r *Runner[P, R]) setState(state Lifecycle) {
	r.mu.Lock()
	r.state = state
	r.mu.Unlock()
}

// finish marks the session as ended.
func (r *Runner[P, R]) finish(s *session[P, R]) {
	s.mu.Lock()
	code, at := s.lastCode, s.lastCodeAt
	s.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	if code != "" {
		r.lastCode, r.lastCodeAt = code, at
	}
	r.state = Stopped
	close(r.done)
}
