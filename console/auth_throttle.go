package console

import (
	"sync"
	"time"
)

const (
	attemptsAtOnce  = 5 // for one name from one address, then
	attemptEvery    = 10 * time.Second
	addressAtOnce   = 20 // from one address, then
	addressEvery    = time.Second
	maxThrottleKeys = 10_000
)

// throttle counts attempts at passwords. An attempt costs when it begins, so that many at once do not all pass, and is given back where
// the password was right.
type throttle struct {
	now func() time.Time

	mu      sync.Mutex
	buckets map[throttleKey]time.Time // when the bucket is full again
}

type throttleKey struct{ address, name string }

func newThrottle() *throttle { return &throttle{now: time.Now, buckets: map[throttleKey]time.Time{}} }

// allow takes an attempt, if there is one left.
func (t *throttle) allow(address, name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	t.makeRoom(now)
	both, all := throttleKey{address, "n" + name}, throttleKey{address: address}
	later := func(key throttleKey, every time.Duration) time.Time {
		from := t.buckets[key]
		if from.Before(now) {
			from = now
		}
		return from.Add(every)
	}
	nextBoth, nextAll := later(both, attemptEvery), later(all, addressEvery)
	if nextBoth.Sub(now) > attemptsAtOnce*attemptEvery || nextAll.Sub(now) > addressAtOnce*addressEvery {
		return false
	}
	t.buckets[both], t.buckets[all] = nextBoth, nextAll
	return true
}

// forgive gives the attempts of somebody back who was right in the end.
func (t *throttle) forgive(address, name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.buckets, throttleKey{address, "n" + name})
	all := throttleKey{address: address}
	if until, ok := t.buckets[all]; ok {
		t.buckets[all] = until.Add(-addressEvery)
	}
}

// makeRoom bounds the memory: full buckets are forgotten, and where that is not enough, all are, which costs an attacker more
// addresses than it gains him attempts.
func (t *throttle) makeRoom(now time.Time) {
	if len(t.buckets) < maxThrottleKeys {
		return
	}
	for key, full := range t.buckets {
		if !full.After(now) {
			delete(t.buckets, key)
		}
	}
	if len(t.buckets) >= maxThrottleKeys {
		clear(t.buckets)
	}
}
