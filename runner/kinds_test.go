package runner

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A stalled kind beside a live one: the live one goes on in the slot that is left, and claims leave the stalled one out.
func TestStalledKindDoesNotBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(0)
		for range 50 {
			f.add("slow", 0)
		}
		gate := make(chan struct{})
		r := start(t, renewing{f}, handle(func(_ context.Context, task *Task[int]) error {
			if task.Kind == "slow" {
				<-gate
			}
			return nil
		}), Config{Workers: 4, Kinds: []KindConfig{{Name: "slow"}, {Name: "live"}}})
		if st := r.Status(); st.InFlight != 3 {
			t.Fatalf("%d of the stalled kind run, want 3 of 4 slots", st.InFlight)
		}
		before := len(f.allRequests())
		for range 100 {
			f.add("live", 0)
		}
		r.Wake()
		synctest.Wait()
		if n := r.Status().Outcomes.Succeeded; n != 100 {
			t.Errorf("%d of 100 live tasks done beside a stalled kind", n)
		}
		for _, request := range f.allRequests()[before:] {
			if slices.Contains(request.Kinds, "slow") || !slices.Contains(request.Kinds, "live") {
				t.Errorf("claim for %v", request.Kinds)
			}
		}
		close(gate)
		synctest.Wait()
		pass(time.Second)
		if n := r.Status().Outcomes.Succeeded; n != 150 {
			t.Errorf("%d of 150 done after the stall", n)
		}
	})
}

// Tasks of a stalled kind that are in the buffer do not block others either, and are given back after a whole lease.
func TestBufferedTasksOfStalledKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(0)
		for range 8 {
			f.add("slow", 0)
		}
		f.add("live", 0)
		gate := make(chan struct{})
		var once sync.Once
		t.Cleanup(func() { once.Do(func() { close(gate) }) })
		r := start(t, renewing{f}, handle(func(_ context.Context, task *Task[int]) error {
			if task.Kind == "slow" {
				<-gate
			}
			return nil
		}), Config{Workers: 9, Deadline: -1, Kinds: []KindConfig{{Name: "slow", Workers: 2}, {Name: "live"}}})
		t.Cleanup(func() { once.Do(func() { close(gate) }) })
		st := r.Status()
		if st.InFlight != 2 || st.Buffered != 6 || st.Outcomes.Succeeded != 1 {
			t.Fatalf("at first: %+v", st)
		}
		began := time.Now()
		pass(29 * time.Second)
		if st := r.Status(); st.Buffered != 6 || st.Outcomes.Released != 0 {
			t.Errorf("before the lease is over: %+v", st)
		}
		pass(2 * time.Second)
		if st := r.Status(); st.Buffered != 0 || st.Outcomes.Released != 6 {
			t.Errorf("%v later: %+v", time.Since(began), st)
		}
		pass(2 * time.Minute)
		if st := r.Status(); st.Outcomes.Released != 6 || st.InFlight != 2 {
			t.Errorf("the stalled kind was claimed again: %+v", st)
		}
	})
}

// Bounds of kinds hold, and with one kind all slots are used.
func TestKindBounds(t *testing.T) {
	for _, test := range []struct {
		kinds []KindConfig
		want  int
	}{
		{nil, 5},
		{[]KindConfig{{Name: "a"}}, 5},
		{[]KindConfig{{Name: "a"}, {Name: "b"}}, 4},
		{[]KindConfig{{Name: "a", Workers: 2}, {Name: "b"}}, 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(0)
			for range 60 {
				f.add("a", 0)
			}
			var mu sync.Mutex
			now, most := 0, 0
			r := start(t, renewing{f}, handle(func(context.Context, *Task[int]) error {
				mu.Lock()
				now++
				most = max(most, now)
				mu.Unlock()
				time.Sleep(20 * time.Millisecond)
				mu.Lock()
				now--
				mu.Unlock()
				return nil
			}), Config{Workers: 5, Kinds: test.kinds})
			pass(10 * time.Second)
			if most != test.want || r.Status().Outcomes.Succeeded != 60 {
				t.Errorf("%v: %d at once, want %d; %+v", test.kinds, most, test.want, r.Status())
			}
		})
	}
}

// C32: tasks are not claimed far ahead of slow handlers; without renewal not at all.
func TestClaimsDoNotRunAhead(t *testing.T) {
	for _, renew := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(50)
			var q Queue[int, int] = f
			if renew {
				q = renewing{f}
			}
			r := start(t, q, handle(func(context.Context, *Task[int]) error {
				time.Sleep(500 * time.Millisecond)
				return nil
			}), Config{Workers: 2, Batch: 50, Deadline: 700 * time.Millisecond, CleanUp: 300 * time.Millisecond,
				StorageTimeout: 500 * time.Millisecond, Lease: 2 * time.Second})
			most := 0
			for range 200 {
				pass(100 * time.Millisecond)
				most = max(most, r.Status().Buffered)
			}
			for _, v := range f.allVerdicts() {
				if v.Decision != Succeed || v.Token.(*ticket).attempt != 1 {
					t.Errorf("renewal %v: %v: %+v", renew, v.Token, v)
				}
			}
			if n := len(f.allVerdicts()); n != 50 {
				t.Errorf("renewal %v: %d verdicts", renew, n)
			}
			if limit := map[bool]int{true: 6, false: 0}[renew]; most > limit {
				t.Errorf("renewal %v: %d buffered", renew, most)
			}
		})
	}
}

// Handlers that were never measured get what the free slots take, whatever the batch is: the rest is left to others that are idle.
func TestTheFirstClaimsTakeNoMoreThanTheSlots(t *testing.T) {
	for _, kinds := range [][]KindConfig{nil, {{Name: "a"}}, {{Name: "a"}, {Name: "b"}, {Name: "c", Workers: 1}}} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(0)
			slow := handle(func(context.Context, *Task[int]) error { time.Sleep(6 * time.Second); return nil })
			config := Config{Workers: 6, Poll: time.Second, Kinds: kinds}
			first, second := start(t, renewing{f}, slow, config), start(t, renewing{f}, slow, config)
			pass(10 * time.Second)
			for range 12 {
				f.add("a", 0)
			}
			first.Wake()
			synctest.Wait() // the other one has heard nothing yet
			free := 6
			if len(kinds) > 1 {
				free = 5 // one slot is for the other kinds
			}
			if st := first.Status(); st.InFlight != free || st.Buffered > 6-free {
				t.Errorf("kinds %v: the first one runs %d and holds %d more", kinds, st.InFlight, st.Buffered)
			}
			second.Wake()
			synctest.Wait()
			if a, b := first.Status(), second.Status(); a.InFlight != free || b.InFlight != free || a.Buffered > 6-free || b.Buffered > 6-free {
				t.Errorf("kinds %v: %d and %d run, %d and %d wait", kinds, a.InFlight, b.InFlight, a.Buffered, b.Buffered)
			}
			pass(20 * time.Second)
		})
	}
}

// Without renewal a task that cannot start at once is given back.
func TestNoWaitingWithoutRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(0)
		for range 4 {
			f.add("a", 0)
		}
		gate := make(chan struct{})
		r := start(t, f, handle(func(context.Context, *Task[int]) error { <-gate; return nil }),
			Config{Workers: 4, Kinds: []KindConfig{{Name: "a", Workers: 1}, {Name: "b"}}})
		if st := r.Status(); st.InFlight != 1 || st.Buffered != 0 || st.Outcomes.Released != 3 {
			t.Errorf("%+v", st)
		}
		pass(10 * time.Second)
		if st := r.Status(); st.Outcomes.Released != 3 {
			t.Errorf("claimed and released again and again: %+v", st)
		}
		close(gate)
		pass(2 * time.Second)
		if st := r.Status(); st.Outcomes.Succeeded != 4 {
			t.Errorf("at the end: %+v", st)
		}
	})
}

// A task of a kind that was not asked for is handed back unrun.
func TestForeignKindIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(0)
		j := f.add("a", 0)
		f.afterClaim = func(tasks []Task[int]) []Task[int] {
			for i := range tasks {
				tasks[i].Kind = "other"
			}
			f.afterClaim = func([]Task[int]) []Task[int] { return nil }
			return tasks
		}
		start(t, renewing{f}, handle(func(context.Context, *Task[int]) error {
			t.Error("a foreign task ran")
			return nil
		}), Config{Kinds: []KindConfig{{Name: "a"}}})
		if v := f.lastVerdict(j.id); v.Decision != Release {
			t.Errorf("verdict %+v", v)
		}
	})
}

// A kind that has just become busy gets its turn beside others that have a backlog and keep every slot busy.
func TestABacklogOfTwoKindsDoesNotStarveAThird(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(0)
		c := f.add("c", time.Second) // first in line, once it is due
		r := start(t, renewing{f}, handle(func(context.Context, *Task[int]) error {
			time.Sleep(10 * time.Millisecond)
			return nil
		}), Config{Workers: 4, Batch: 16, Kinds: []KindConfig{{Name: "a"}, {Name: "b"}, {Name: "c"}}})
		for range 2000 {
			f.add("a", 0)
			f.add("b", 0)
		}
		r.Wake()
		pass(time.Second)
		pass(3 * time.Second)
		f.mu.Lock()
		defer f.mu.Unlock()
		if c.attempt == 0 {
			t.Errorf("the third kind waits although its job is first in line; status %+v", r.Status())
		}
	})
}
