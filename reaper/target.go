package reaper

import "context"

// Target is one thing to look after. Either of Recoverer and Maintainer may be nil, not both. Their methods must be
// safe for concurrent use, also by other processes, and must return when their context ends.
type Target struct {
	Name       string // in logs, errors and Status; unique within a reaper and not empty
	Recoverer  Recoverer
	Maintainer Maintainer
}

// Recoverer returns stale leases. A Recoverer that is a [Pinger] as well gets the full grace after an outage.
type Recoverer interface {
	// Recover does one bounded pass over at most limit leases that have run out, and says what became of them. It finds,
	// decides and writes in one statement on the store's clock, takes nothing whose lease still runs or that another
	// session has locked, and never waits for a lock. A pass that took limit of them is followed by another at once.
	Recover(ctx context.Context, limit int) (Recovered, error)
}

// Pinger is a [Recoverer] that can say whether its store answers, without taking anything. After a failed Recover the
// reaper pings until there is an answer, and counts the grace from there. Without it, the best the reaper can do is
// to let the grace pass after each failure, which may lie before the end of the outage.
type Pinger interface {
	// Ping returns nil if the store that Recover works on can be reached.
	Ping(ctx context.Context) error
}

// Maintainer keeps a store in order: partitions made ahead, expired ones dropped. It is called at the start and then
// once in a while, by every process, so it must be idempotent.
type Maintainer interface {
	Maintain(ctx context.Context) error
}

// Recovered says how many stale leases became what.
type Recovered struct {
	Requeued   int // due again, one failure more
	Dead       int // budget spent
	Superseded int // replaced by newer input meanwhile: due again at no cost
	Cancelled  int // somebody had asked for it
}

// Total is the number of leases taken.
func (r Recovered) Total() int { return r.Requeued + r.Dead + r.Superseded + r.Cancelled }

// plus adds two counts.
func (r Recovered) plus(other Recovered) Recovered {
	return Recovered{
		Requeued:   r.Requeued + other.Requeued,
		Dead:       r.Dead + other.Dead,
		Superseded: r.Superseded + other.Superseded,
		Cancelled:  r.Cancelled + other.Cancelled,
	}
}
