package listener

import "time"

// Status is what a [Listener] knows about itself at one moment. Times are of this process's clock.
type Status struct {
	// Running says that Run is under way.
	Running bool
	// Connected says that LISTEN is in force on a connection not known to be lost.
	Connected bool
	// Since is when Connected last changed; zero if it never has.
	Since time.Time
	// Deaf says that an echo did not arrive and that nothing was heard since, on this connection or a later one. Hints
	// cannot be relied on; queues live by their poll.
	Deaf bool
	// LastHint and LastEcho are when a hint and an echo last arrived; zero if none did.
	LastHint, LastEcho time.Time
	// LastError is why the last connection ended or could not be made. It stays after a reconnection, for those who
	// look later; Connected says how it is now.
	LastError string
	// SendError is why the last echo could not be sent; empty if it could. While it lasts, deafness cannot be noticed.
	SendError string
	// Reconnects counts the connections on which LISTEN came into force, without the first of each Run.
	Reconnects int
	// Attempts counts the calls of Connect.
	Attempts int
	// NextAttempt is when Connect is next called; zero while a connection is being made or is there.
	NextAttempt time.Time
	// Hints counts hints that named a queue; Coalesced those among them that added nothing, because their queue was
	// already waiting to be told; Discarded what was no hint: empty, over 128 bytes, or not UTF-8.
	Hints, Coalesced, Discarded int64
	// Control counts the control messages; what was none, and what was lost because too many waited, is Discarded.
	Control int64
	// Panics counts the panics of OnHint, OnControl and OnConnect.
	Panics int64
}

// Status returns the present state. It never blocks on the database, and may be called at any time from any goroutine.
func (l *Listener) Status() Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.status
}

// update changes the status under its lock.
func (l *Listener) update(change func(status *Status)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(&l.status)
}
