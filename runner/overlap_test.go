package runner

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// In a backlog of large claims two are under way at a time, never more; small claims come one after the other, and so do all where
// other processes serve the queue.
func TestClaimsOverlapInABacklog(t *testing.T) {
	for _, test := range []struct {
		batch, peers int
		want         int32
	}{{4 * overlapFrom, 0, 2}, {64, 0, 1}, {4 * overlapFrom, 1, 1}} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(20 * test.batch)
			var now, most atomic.Int32
			f.beforeClaim = func(ClaimRequest) error {
				most.Store(max(most.Load(), now.Add(1)))
				time.Sleep(10 * time.Millisecond)
				now.Add(-1)
				return nil
			}
			var ran atomic.Int32
			ctx, stop := context.WithCancel(t.Context())
			r, ended := run(t, ctx, renewing{f}, handle(func(context.Context, *Task[int]) error {
				ran.Add(1)
				return nil
			}), Config{Batch: test.batch, Workers: 4, Poll: time.Hour})
			r.SetPeers(test.peers)
			pass(time.Minute)
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if int(ran.Load()) != 20*test.batch || r.Status().Outcomes.Succeeded != uint64(20*test.batch) {
				t.Errorf("batch %d: %d tasks ran, %+v", test.batch, ran.Load(), r.Status().Outcomes)
			}
			if most.Load() != test.want {
				t.Errorf("batch %d, %d others: at most %d claims under way, want %d", test.batch, test.peers, most.Load(), test.want)
			}
		})
	}
}

// A hint that comes while two claims are under way is answered by a claim that begins after it.
func TestHintDuringOverlappingClaims(t *testing.T) {
	for offset := range 40 {
		synctest.Test(t, func(t *testing.T) {
			const batch = 4 * overlapFrom
			f := newFake(3 * batch)
			f.afterClaim = func(tasks []Task[int]) []Task[int] {
				time.Sleep(10 * time.Millisecond) // the answer is on its way, and knows nothing of what comes now
				return tasks
			}
			late := make(chan time.Time, 1)
			ctx, stop := context.WithCancel(t.Context())
			r, ended := run(t, ctx, renewing{f}, handle(func(_ context.Context, task *Task[int]) error {
				if task.Payload == 3*batch+1 {
					late <- time.Now()
				}
				return nil
			}), Config{Batch: batch, Workers: 4, Poll: time.Hour})
			pass(time.Duration(offset) * 2 * time.Millisecond)
			began := time.Now()
			f.add("", 0)
			r.Wake()
			if waited := (<-late).Sub(began); waited > time.Second {
				t.Errorf("after %d ms: the late task waited %v", 2*offset, waited)
			}
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}
