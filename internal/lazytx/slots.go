package lazytx

import (
	"context"
	"fmt"
)

// reservedConnections stay for the worker's own statements when transactional handlers fill the pool: a claim, a report,
// and a renewal or a pass of the reaper. Without them leases would run out under handlers that hold every connection, and
// nothing could be written until they let go.
const reservedConnections = 3

// Slots bounds how many transactions of handlers a worker has open at a time. nil means no bound. It is safe for concurrent use.
type Slots chan struct{}

// NewSlots leaves reservedConnections of a pool of the given size, and always allows one transaction.
func NewSlots(poolSize int32) Slots {
	return make(Slots, max(1, int(poolSize)-reservedConnections))
}

// take waits for a slot.
func (s Slots) take(ctx context.Context) error {
	if s == nil {
		return nil
	}
	select {
	case s <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for one of the %d transactions that handlers may have open: %w", cap(s), context.Cause(ctx))
	}
}

// give returns a slot that was taken.
func (s Slots) give() {
	if s != nil {
		<-s
	}
}
