package runner

import (
	"context"
	"time"
)

// entry is one claimed task from its claim to its verdict.
type entry[P, R any] struct {
	task Task[P]
	kind *kindState

	// The lease, on the local monotonic clock. It counts from before the call that took or extended it was sent, so that it
	// never ends later here than in the store.
	taken    time.Time // when the latest successful claim or renewal was sent
	leaseEnd time.Time
	locked   bool // the latest renewal found the row locked: renew it first
	urgent   int  // how often it may still be renewed ahead of its turn, because somebody asks for that; see RenewNow

	waiting time.Time // since when it waits in the buffer

	batch    *batch[P, R] // it runs in; nil: alone
	started  time.Time
	deadline time.Time // zero: none
	ctx      *taskContext
	own      taskContext             // what ctx points to where the task runs alone
	cancel   context.CancelCauseFunc // of ctx, in a batch
	cause    error                   // why its context was cancelled while the handler ran
	stuck    bool
	took     time.Duration // by the handler

	verdict Verdict[R]
	result  R
	settled bool // no verdict is to be reported
	judged  bool // the verdict is made: a cause that comes later does not count
	crashed bool
	crash   *crash
	pause   time.Duration
	err     error // what the handler returned
	tries   int   // how often the verdict was answered with busy
	again   time.Time
	lastErr error // of the store, about the verdict
}

// lane is the entries of one kind in the order in which they were claimed. Taken ones are cut off the front.
type lane[P, R any] struct {
	kind    *kindState
	entries []*entry[P, R]
	numbers []uint64 // of each entry, rising over all lanes
}

// buffer holds claimed tasks that wait for a slot: one lane a kind, so that a kind at its bound blocks nobody. It is
// guarded by the session's lock.
type buffer[P, R any] struct {
	lanes  []*lane[P, R]
	byKind map[*kindState]*lane[P, R]
	length int
	number uint64
}

func (b *buffer[P, R]) push(e *entry[P, R]) {
	l := b.byKind[e.kind]
	if l == nil {
		if b.byKind == nil {
			b.byKind = make(map[*kindState]*lane[P, R])
		}
		l = &lane[P, R]{kind: e.kind}
		b.byKind[e.kind] = l
		b.lanes = append(b.lanes, l)
	}
	b.number++
	l.entries = append(l.entries, e)
	l.numbers = append(l.numbers, b.number)
	b.length++
	e.kind.buffered++
}

// next is the lane whose first entry was claimed first among those that may start, because their kind has a free slot
// and their batch is ready; nil if there is none.
func (b *buffer[P, R]) next(now time.Time) *lane[P, R] {
	if b.length == 0 {
		return nil
	}
	var best *lane[P, R]
	for _, l := range b.lanes {
		if len(l.entries) > 0 && l.kind.running < l.kind.bound && (best == nil || l.numbers[0] < best.numbers[0]) &&
			(l.kind.size == 0 || l.batches(now) > 0) {
			best = l
		}
	}
	return best
}

// pop takes the first entry of a lane.
func (b *buffer[P, R]) pop(l *lane[P, R]) *entry[P, R] {
	e := l.entries[0]
	l.entries[0] = nil
	b.cut(l, 1)
	return e
}

// popBatch takes the first batch of a lane.
func (b *buffer[P, R]) popBatch(l *lane[P, R]) []*entry[P, R] {
	n := min(l.kind.size, len(l.entries))
	entries := append([]*entry[P, R](nil), l.entries[:n]...)
	clear(l.entries[:n])
	b.cut(l, n)
	return entries
}

func (b *buffer[P, R]) cut(l *lane[P, R], n int) {
	l.entries, l.numbers = l.entries[n:], l.numbers[n:]
	if len(l.entries) == 0 {
		l.entries, l.numbers = nil, nil // let go of the array
	}
	b.length -= n
	l.kind.buffered -= n
}

// opens is when the batch that is being collected starts although it is not full; zero if none is.
func (l *lane[P, R]) opens() time.Time {
	full := len(l.entries) / l.kind.size * l.kind.size
	if full == len(l.entries) {
		return time.Time{}
	}
	return l.entries[full].waiting.Add(l.kind.collect)
}

// batches is how many batches are ready.
func (l *lane[P, R]) batches(now time.Time) int {
	n := len(l.entries) / l.kind.size
	if n*l.kind.size < len(l.entries) && (!now.Before(l.opens()) || l.kind.hasten && !l.kind.more) {
		n++
	}
	return n
}

// remove takes out every entry for which drop answers true, in order.
func (b *buffer[P, R]) remove(drop func(*entry[P, R]) bool) (out []*entry[P, R]) {
	for _, l := range b.lanes {
		kept := 0
		for i, e := range l.entries {
			if drop(e) {
				out = append(out, e)
				l.kind.buffered--
				b.length--
				continue
			}
			l.entries[kept], l.numbers[kept] = e, l.numbers[i]
			kept++
		}
		clear(l.entries[kept:])
		l.entries, l.numbers = l.entries[:kept], l.numbers[:kept]
	}
	return out
}

// each visits every entry.
func (b *buffer[P, R]) each(visit func(*entry[P, R])) {
	for _, l := range b.lanes {
		for _, e := range l.entries {
			visit(e)
		}
	}
}

// startable is how many slots entries without batches would take at once if there were enough.
func (b *buffer[P, R]) startable() (n int) {
	if b.length == 0 {
		return 0
	}
	for _, l := range b.lanes {
		if l.kind.size == 0 {
			n += min(len(l.entries), l.kind.free())
		}
	}
	return n
}

// batchSlots is the same for batches, not counting those of one kind. A batch that is being collected needs no slot yet,
// unless nobody renews its leases while it waits for one.
func (b *buffer[P, R]) batchSlots(but *kindState) (n int) {
	for _, l := range b.lanes {
		switch {
		case l.kind.size == 0 || l.kind == but || len(l.entries) == 0:
		case l.kind.reserve:
			n += min((len(l.entries)+l.kind.size-1)/l.kind.size, l.kind.free())
		default:
			n += min(l.batches(time.Now()), l.kind.free())
		}
	}
	return n
}
