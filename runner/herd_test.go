package runner

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// idleHerd starts n runners over one queue that is empty, and returns them and how often each has asked when all are idle.
func idleHerd(t *testing.T, n, peers int) (fakes []scheduled, wake func()) {
	t.Helper()
	shared := newFake(0)
	var runners []*Runner[int, int]
	for range n {
		f := scheduled{renewing{shared}, new(int)}
		r := start(t, f, handle(noop), Config{Poll: time.Hour})
		r.SetPeers(peers)
		fakes, runners = append(fakes, f), append(runners, r)
	}
	pass(time.Second)
	shared.mu.Lock()
	shared.claimAt = nil
	shared.mu.Unlock()
	for _, f := range fakes {
		*f.asked = 0
	}
	return fakes, func() {
		for _, r := range runners {
			r.Wake()
		}
	}
}

// After a hint to twenty idle runners they look at different times within 20 ms, and most of them do not claim, because the
// work is taken.
func TestAHintDoesNotWakeAHerd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fakes, wake := idleHerd(t, 20, 19)
		shared := fakes[0].fake
		rounds := 50
		var delays []time.Duration
		for range rounds {
			shared.add("", 0)
			hinted := time.Now()
			before := len(shared.claims())
			wake()
			pass(time.Second)
			for _, at := range shared.claims()[before:] {
				delays = append(delays, at.Sub(hinted))
			}
		}
		if done := len(shared.allVerdicts()); done != rounds {
			t.Errorf("%d of %d tasks done", done, rounds)
		}
		looks := 0
		for _, f := range fakes {
			looks += *f.asked
		}
		// In the mean about one of the twenty draws the first twentieth of the 19 ms and claims without looking. The others
		// find nothing, but for the one that takes the work where nobody did. Afterwards whoever claimed asks once.
		if claims := len(delays); claims > 3*rounds {
			t.Errorf("%d claims for %d tasks", claims, rounds)
		}
		if looks < 17*rounds {
			t.Errorf("%d looks in %d rounds of 20 runners", looks, rounds)
		}
		if longest := slices.Max(delays); longest >= 20*time.Millisecond {
			t.Errorf("a claim %v after the hint", longest)
		}
		slices.Sort(delays)
		if delays[0] == delays[len(delays)/2] {
			t.Errorf("half of the claims came %v after the hint: they are not spread", delays[0])
		}
	})
}

// The looks of a herd are spread over its span, which grows with it.
func TestTheSpanOfAHerd(t *testing.T) {
	for peers, longest := range map[int]time.Duration{0: 0, 3: 3 * time.Millisecond, 19: 19 * time.Millisecond, 500: 20 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			// Runners without a schedule claim, so that the time of each can be seen.
			shared := newFake(0)
			var runners []*Runner[int, int]
			for range 200 {
				r := start(t, renewing{shared}, handle(noop), Config{Poll: time.Hour})
				r.SetPeers(peers)
				runners = append(runners, r)
			}
			pass(time.Second)
			before, hinted := len(shared.claims()), time.Now()
			for _, r := range runners {
				r.Wake()
			}
			pass(time.Second)
			claims := shared.claims()[before:]
			if len(claims) != len(runners) {
				t.Fatalf("%d claims of %d runners", len(claims), len(runners))
			}
			var first, last time.Duration = time.Hour, 0
			for _, at := range claims {
				first, last = min(first, at.Sub(hinted)), max(last, at.Sub(hinted))
			}
			if last > longest || first > longest/4 || longest > 0 && last < longest*3/4 {
				t.Errorf("%d peers: claims from %v to %v after the hint, want them spread over %v", peers, first, last, longest)
			}
		})
	}
}

// A runner that has work at hand follows a hint at once, and so does one that is alone.
func TestABusyRunnerDoesNotWaitForTheHerd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := scheduled{renewing{newFake(3)}, new(int)}
		gate := make(chan struct{})
		r := start(t, f, handle(blocked(gate)), Config{Workers: 1, Poll: time.Hour})
		r.SetPeers(19)
		pass(time.Second)
		r.run.mu.Lock()
		quiet, delay := r.run.kinds.quiet(), r.run.herdDelay()
		r.run.mu.Unlock()
		if quiet || delay != 0 {
			t.Errorf("a runner that knows of more work is quiet: %v, and would wait %v", quiet, delay)
		}
		close(gate)
	})
}

// What has been said of the peers counts for later runs too, and is forgotten when they are gone.
func TestPeersComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := newFake(0)
		r := start(t, renewing{shared}, handle(noop), Config{Poll: time.Hour})
		r.SetPeers(19)
		r.SetPeers(0)
		pass(time.Second)
		before, hinted := len(shared.claims()), time.Now()
		r.Wake()
		pass(time.Second)
		if claims := shared.claims()[before:]; len(claims) != 1 || claims[0].Sub(hinted) != 0 {
			t.Errorf("claims %v after a hint at %v", claims, hinted)
		}
	})
}
