package runner

import (
	"time"

	"github.com/pgqueue/pgqueue/internal/pulse"
)

// LoopStatus says how one of a runner's own loops is. Handlers are none: one that blocks holds its slot, see
// [Status].Stuck, and the loops go on.
type LoopStatus struct {
	// Name is "claim", "renew", "flush", which writes verdicts, or "watch", which watches deadlines and leases.
	Name string
	// Every is how often the loop can be expected to make progress where there is something to do.
	Every time.Duration
	// Progress is when it last made some.
	Progress time.Time
	// Trying is since when its calls of the queue have brought no answer, because they fail or hang; zero if they do, or
	// if there is nothing to call for. Reason says why, without the store's own words: it is safe to show.
	Trying time.Time
	Reason string
	// Ended says that its goroutine has ended although the runner runs, and Hung that it has been at one step for more than
	// a minute longer than any may take. Neither ever gets better by itself.
	Ended, Hung bool
}

// pulses are those of a session's loops.
type pulses struct {
	claim, renew, flush, watch pulse.Pulse
}

// begin starts those that are there. A step of a loop is at most one call of the queue, and observers.
func (p *pulses) begin(c *Config, renews bool) {
	p.claim.Begin(c.StorageTimeout)
	p.flush.Begin(c.StorageTimeout)
	p.watch.Begin(c.StorageTimeout)
	if renews {
		p.renew.Begin(c.StorageTimeout)
	}
}

// loops describes the loops of a session that runs.
func (s *session[P, R]) loops() []LoopStatus {
	often := max(s.cfg.Poll, time.Second)
	all := make([]LoopStatus, 0, 4)
	for _, loop := range []struct {
		name  string
		every time.Duration
		of    *pulse.Pulse
	}{
		{"claim", often, &s.pulses.claim},
		{"renew", s.cfg.RenewEvery, &s.pulses.renew},
		{"flush", often, &s.pulses.flush},
		{"watch", often, &s.pulses.watch},
	} {
		state := loop.of.State()
		if !state.Began {
			continue
		}
		all = append(all, LoopStatus{
			Name: loop.name, Every: loop.every, Progress: state.Last, Trying: state.Trying, Reason: state.Reason,
			Ended: state.Ended, Hung: state.Hung,
		})
	}
	return all
}

// KindStatus is what a runner does of one kind.
type KindStatus struct {
	Kind    string
	Workers int // how many handlers of it may run at once
	Running int // how many do; a batch is one. Those of aliases count here
	// Replaced is how many of these are stuck and have another slot in their place: Workers is that much higher meanwhile.
	Replaced int
}

// kindStatus lists the configured kinds. The lock is held.
func (s *session[P, R]) kindStatus() []KindStatus {
	if !s.kinds.named {
		return nil
	}
	all := make([]KindStatus, len(s.kinds.all))
	for i, k := range s.kinds.all {
		all[i] = KindStatus{Kind: k.names[0], Workers: k.bound, Running: k.running, Replaced: k.replaced}
	}
	return all
}
