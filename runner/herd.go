package runner

import (
	"math/rand/v2"
	"time"
)

// One insert is announced to every process of a queue at once. Where many are idle, all but one would claim in vain, in the
// same millisecond. So each waits at random, the longer the more of them there are, and those that are not among the first
// look with a read before they claim: most find that the work is taken.

const (
	herdStep    = time.Millisecond
	herdLongest = 20 * time.Millisecond
)

// SetPeers tells how many other processes serve the queue now. With zero, the default, an idle runner follows a hint at once;
// otherwise after a random time of up to a millisecond for each of the others, and 20 ms at most; and in a backlog it has one claim
// under way at a time, not two. It may be called by any goroutine at any time.
func (r *Runner[P, R]) SetPeers(n int) { r.peers.Store(int64(n)) }

// herdDelay is how long an idle runner waits after a hint: up to a millisecond for each other process, 20 ms at most. A
// runner that has work at hand does not wait. The lock is held.
func (s *session[P, R]) herdDelay() time.Duration {
	longest := s.herdSpan()
	if longest == 0 {
		return 0
	}
	delay := rand.N(longest)
	// Among n processes about one draws less than the n-th part of the span. It claims without looking, so that the
	// common case costs no more than the wait.
	s.lookFirst = s.r.scheduler != nil && delay >= longest/time.Duration(s.r.peers.Load()+1)
	return delay
}

// herdSpan is what the delay is drawn from; zero where there is no herd. The lock is held.
func (s *session[P, R]) herdSpan() time.Duration {
	peers := s.r.peers.Load()
	if peers <= 0 || s.drain || !s.kinds.quiet() {
		return 0
	}
	return min(time.Duration(min(peers, int64(herdLongest/herdStep)))*herdStep, herdLongest)
}
