package runner

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

type diary struct {
	mu       sync.Mutex
	claims   []ClaimEvent
	flushes  []FlushEvent
	renewals []RenewEvent
	wakes    []WakeEvent
	verdicts []VerdictEvent
}

func (d *diary) ClaimDone(e ClaimEvent) { d.mu.Lock(); d.claims = append(d.claims, e); d.mu.Unlock() }
func (d *diary) FlushDone(e FlushEvent) { d.mu.Lock(); d.flushes = append(d.flushes, e); d.mu.Unlock() }
func (d *diary) RenewDone(e RenewEvent) {
	d.mu.Lock()
	d.renewals = append(d.renewals, e)
	d.mu.Unlock()
}
func (d *diary) Woken(e WakeEvent) { d.mu.Lock(); d.wakes = append(d.wakes, e); d.mu.Unlock() }
func (d *diary) VerdictDone(e VerdictEvent) {
	d.mu.Lock()
	d.verdicts = append(d.verdicts, e)
	d.mu.Unlock()
}

// Each event is told with what belongs to it.
func TestObservers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, d := newFake(0), &diary{}
		gate := make(chan struct{})
		f.onReport = func([]Verdict[int]) ([]Outcome, error, bool) {
			time.Sleep(20 * time.Millisecond)
			if len(f.reports) == 1 {
				return nil, errors.New("down"), true
			}
			return nil, nil, false
		}
		r := start(t, renewing{f}, handle(blocked(gate)), Config{Name: "q", Observer: d, Poll: time.Hour})
		f.add("", 0)
		for range 5 {
			r.Wake()
		}
		pass(11 * time.Second)
		close(gate)
		pass(time.Second)
		d.mu.Lock()
		defer d.mu.Unlock()
		if len(d.claims) < 2 || d.claims[0].Claimed != 0 || d.claims[1].Claimed != 1 || d.claims[1].Queue != "q" {
			t.Errorf("claims %+v", d.claims)
		}
		if len(d.wakes) == 0 || d.wakes[0].Source != WakeHint || d.wakes[0].Hints < 1 {
			t.Errorf("wakes %+v", d.wakes)
		}
		if len(d.renewals) != 1 || d.renewals[0].Renewed != 1 {
			t.Errorf("renewals %+v", d.renewals)
		}
		if len(d.flushes) != 2 || d.flushes[0].Err == nil || d.flushes[1].Err != nil || d.flushes[1].Verdicts != 1 ||
			d.flushes[1].Duration != 20*time.Millisecond {
			t.Errorf("flushes %+v", d.flushes)
		}
		if len(d.verdicts) != 1 || d.verdicts[0].Outcome != Succeeded || d.verdicts[0].Decision != Succeed {
			t.Errorf("verdicts %+v", d.verdicts)
		}
	})
}
