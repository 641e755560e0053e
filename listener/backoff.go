package listener

import (
	"math/rand/v2"
	"time"
)

// reconnectDelay is the wait before the next attempt after so many failures in a row. The bound doubles with each
// failure from twice shortest up to longest, and the delay is drawn from its upper half: so the first is between
// shortest and twice shortest, none is longer than longest, and a fleet of processes that lost the same server does not
// return to it in the same instant.
func reconnectDelay(failures int, shortest, longest time.Duration) time.Duration {
	if failures <= 0 {
		return 0
	}
	bound := shortest
	for range failures {
		if bound > longest/2 {
			bound = longest
			break
		}
		bound *= 2
	}
	return max(shortest, bound/2+rand.N(bound-bound/2)) //nolint:gosec // spreads load, guards nothing
}
