package reaper

import "time"

// Status is what a [Reaper] knows about itself at one moment. Times are of this process's clock.
type Status struct {
	// Running says that Run is under way.
	Running bool
	// Totals counts what all targets recovered since New, by Run and Once.
	Totals Recovered
	// NextPass is the earliest NextPass of the targets; zero if none is set.
	NextPass time.Time
	// Targets has one entry per target, in the order given to New.
	Targets []TargetStatus
}

// TargetStatus is the part of [Status] about one target.
type TargetStatus struct {
	Name string
	// LastPass is when the last pass ended that found the store working; zero if none did.
	LastPass time.Time
	// LastMaintain is when the last Maintain ended well; zero if none did.
	LastMaintain time.Time
	// NextPass is when the next pass, or look at a store that is down, is due; zero while one is under way and when
	// Run is not.
	NextPass time.Time
	// Answered is when Recover last brought an answer, or when Run began. Silent is since when it has brought none, because it
	// fails or hangs; zero if it does. After the store could not be reached Ping's answer counts too: what is left is the grace.
	// Reason says why, without the store's own words: it is safe to show.
	Answered, Silent time.Time
	Reason           string
	// Ended says that a loop of the target has ended although Run is under way, and Hung that one has been at one call for
	// more than a minute longer than CallTimeout. Neither ever gets better by itself.
	Ended, Hung bool
	// Outage says that Recover failed and that leases are not yet taken again; the grace counts as outage.
	Outage bool
	// LastError is the last failure of any call, and LastErrorAt its time. They stay after things work again.
	LastError   string
	LastErrorAt time.Time
	// Failures counts failed calls.
	Failures int64
	// Passes counts passes that found the store working.
	Passes int64
	// Totals counts what was recovered here.
	Totals Recovered
}

// Status returns the present state. It never blocks on a target, and may be called at any time from any goroutine.
func (r *Reaper) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	status := Status{Running: r.running, Targets: make([]TargetStatus, len(r.targets))}
	for i, t := range r.targets {
		status.Targets[i] = t.status
		if r.running {
			t.describe(&status.Targets[i])
		}
		status.Totals = status.Totals.plus(t.status.Totals)
		next := t.status.NextPass
		if !next.IsZero() && (status.NextPass.IsZero() || next.Before(status.NextPass)) {
			status.NextPass = next
		}
	}
	return status
}

// describe adds what the target's loops say of themselves.
func (t *target) describe(status *TargetStatus) {
	recovers, maintains := t.recovers.State(), t.maintains.State()
	status.Answered, status.Silent, status.Reason = recovers.Last, recovers.Trying, recovers.Reason
	status.Ended, status.Hung = recovers.Ended || maintains.Ended, recovers.Hung || maintains.Hung
}

// update changes the status of a target under the reaper's lock.
func (r *Reaper) update(t *target, change func(status *TargetStatus)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&t.status)
}
