package schedule

import (
	"fmt"
	"time"
)

// plan is what is to be done about a schedule now: which ticks are enqueued, and when the next one is. It is worked out from the row and
// the database's clock alone, so every process comes to the same one.
type plan struct {
	ticks   []time.Time // to be enqueued, oldest first
	skipped *time.Time  // the latest of those that are not
	next    *time.Time  // nil = there is none any more
	more    bool        // next is due already: the rest of a long list
}

// last is the latest tick that the plan deals with, or nil.
func (p plan) last() *time.Time {
	last := p.skipped
	if n := len(p.ticks); n > 0 && (last == nil || p.ticks[n-1].After(*last)) {
		last = &p.ticks[n-1]
	}
	return last
}

// maxChunk is how many ticks one transaction enqueues; chunkBytes bounds their payloads together.
const (
	maxChunk   = 100
	chunkBytes = 32 << 20
)

// plan reads the row.
func (r *row) plan() (plan, error) {
	spec, err := Parse(r.spec)
	if err != nil {
		return plan{}, &ConfigError{Field: "spec", Message: err.Error()}
	}
	zone, err := LoadZone(r.zone)
	if err != nil {
		return plan{}, &ConfigError{Field: "time_zone", Message: err.Error()}
	}
	when := calendar{spec: spec, zone: zone, anchor: r.createdAt}
	first, ok := r.first(when)
	switch {
	case !ok:
		return plan{}, nil
	case first.After(r.now):
		return plan{next: &first}, nil
	}
	p := r.catchUpFrom(when, first)
	if p.next != nil {
		return p, nil
	}
	after := r.now
	if last := p.last(); last != nil && last.After(after) {
		after = *last
	}
	if next, ok := when.next(after); ok {
		p.next = &next
	}
	return p, nil
}

// first is the tick that the row waits for. Where it has to be worked out, it lies after the edit that made it so, and never at or
// before a tick that has been; a clock that was set back must not repeat any.
func (r *row) first(when calendar) (time.Time, bool) {
	if r.nextRunAt != nil {
		return *r.nextRunAt, true
	}
	after := r.updatedAt
	if after.After(r.now) {
		after = r.now
	}
	if r.lastRunAt != nil && r.lastRunAt.After(after) {
		after = *r.lastRunAt
	}
	return when.next(after)
}

// catchUpFrom applies the policy to the ticks from first until now. next is only set where not all of them fit into one transaction.
func (r *row) catchUpFrom(when calendar, first time.Time) plan {
	switch CatchUp(r.catchUp) {
	case Skip:
		ticks := when.latest(first, r.now, 1)
		if r.now.Sub(ticks[0]) > skipAfter {
			return plan{skipped: &ticks[0]}
		}
		return plan{ticks: ticks}
	case All:
		ticks := when.latest(first, r.now, r.catchUpLimit+1)
		var p plan
		if len(ticks) > r.catchUpLimit {
			p.skipped, ticks = &ticks[0], ticks[1:]
		}
		chunk := min(maxChunk, max(1, chunkBytes/(len(r.payload)+1)))
		if r.dynamic {
			chunk = 1 // each call of the function has the time of one transaction
		}
		if len(ticks) > chunk {
			p.next, p.more = &ticks[chunk], true
			ticks = ticks[:chunk]
		}
		p.ticks = ticks
		return p
	default:
		return plan{ticks: when.latest(first, r.now, 1)}
	}
}

// calendar is a specification with all that it needs to know.
type calendar struct {
	spec   Spec
	zone   *time.Location
	anchor time.Time
}

func (c calendar) next(after time.Time) (time.Time, bool) {
	return c.spec.Next(after, c.zone, c.anchor)
}

// maxWindow ends the looking back in [calendar.latest] before a [time.Duration] ends.
const maxWindow = 100 * 365 * 24 * time.Hour

// latest lists the last ticks up to now, at most limit and at least one, oldest first. first is one of them and need not be one that
// the specification names. It looks back from now in windows that grow, so that a year of missed minutes costs no more than what is asked for.
func (c calendar) latest(first, now time.Time, limit int) []time.Time {
	for window := time.Minute; ; window *= 4 {
		start := now.Add(-window)
		whole := !start.After(first) || window >= maxWindow
		var ticks []time.Time
		at := start
		if whole {
			ticks, at = append(ticks, first), first
		}
		for {
			next, ok := c.next(at)
			if !ok || next.After(now) {
				break
			}
			ticks = append(ticks, next)
			at = next
		}
		if len(ticks) > limit {
			ticks = ticks[len(ticks)-limit:]
		}
		if whole || len(ticks) == limit {
			return ticks
		}
	}
}

// jitterOf is the delay of a tick: random, but always the same, so that an attempt which is repeated does not draw again.
func (r *row) jitterOf(tick time.Time) time.Duration {
	if r.jitter <= 0 {
		return 0
	}
	// FNV-1a, and a finish that spreads neighbours: ticks differ in few bits.
	hash := uint64(14695981039346656037)
	for _, b := range []byte(fmt.Sprintf("%s %d", r.name, tick.UnixMicro())) {
		hash = (hash ^ uint64(b)) * 1099511628211
	}
	hash = (hash ^ hash>>32) * 0x9E3779B97F4A7C15
	hash ^= hash >> 29
	return time.Duration(hash%uint64(r.jitter)) * time.Microsecond
}
