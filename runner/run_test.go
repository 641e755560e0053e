package runner

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// start runs a runner in the test's bubble and stops it when the test ends. All goroutines of the runner must have ended
// then: the bubble fails otherwise.
func start(t *testing.T, q Queue[int, int], h Handler[int, int], c Config) *Runner[int, int] {
	t.Helper()
	if c.Logger == nil {
		c.Logger = quiet()
	}
	r, err := New(q, h, c)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- r.Run(context.Background()) }()
	synctest.Wait()
	t.Cleanup(func() {
		if err := r.Stop(context.Background()); err != nil {
			t.Errorf("stop: %v", err)
		}
		var left *StopError
		if err := <-ended; err != nil && !errors.As(err, &left) {
			t.Errorf("run: %v", err)
		}
	})
	return r
}

// A lone success is written without any wait, and the first claim is made at once.
func TestLoneSuccessIsWrittenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(1)
		r := start(t, renewing{f}, handle(noop), Config{})
		v := f.lastVerdict(1)
		if v.Decision != Succeed || v.Result == nil || *v.Result != 1 {
			t.Fatalf("verdict %+v", v)
		}
		st := r.Status()
		if st.Outcomes.Succeeded != 1 || st.Lifecycle != Running || st.InFlight != 0 || st.Unreported != 0 || !st.LastSuccess.Equal(time.Now()) {
			t.Errorf("status %+v", st)
		}
	})
}

// The first hint claims at once; later ones within the window become one claim at its end, which no hint moves.
func TestHintsAreMerged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(0)
		r := start(t, renewing{f}, handle(noop), Config{Poll: time.Hour})
		pass(time.Minute)
		before := len(f.claims())
		began := time.Now()
		for range 25 { // one every 10 ms: the window ends amid them
			r.Wake()
			synctest.Wait()
			time.Sleep(10*time.Millisecond - 1)
		}
		pass(5 * time.Second)
		var offsets []time.Duration
		for _, at := range f.claims()[before:] {
			offsets = append(offsets, at.Sub(began))
		}
		if !slices.Equal(offsets, []time.Duration{0, 250 * time.Millisecond}) {
			t.Errorf("claims at %v, want at 0 and 250 ms", offsets)
		}
		if st := r.Status(); st.Hints != 25 || st.Coalesced != 24 || st.HintWakes != 2 {
			t.Errorf("hints %d, merged %d, wakes %d", st.Hints, st.Coalesced, st.HintWakes)
		}
	})
}

// C63: a hint that arrives during a claim leads to another claim, whatever the offset.
func TestHintDuringClaimIsNotLost(t *testing.T) {
	for offset := time.Duration(0); offset <= 300*time.Millisecond; offset += 25 * time.Millisecond {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(0)
			r := start(t, renewing{f}, handle(noop), Config{Poll: 10 * time.Minute})
			pass(10 * time.Second)
			// The task is committed after the claim has looked, and before it has answered.
			f.afterClaim = func(tasks []Task[int]) []Task[int] { time.Sleep(300 * time.Millisecond); return tasks }
			r.Wake()
			synctest.Wait()
			time.Sleep(offset)
			j := f.add("", 0)
			r.Wake()
			began := time.Now()
			pass(time.Second)
			if f.lastVerdict(j.id).Decision != Succeed {
				t.Errorf("offset %v: not started %v after the hint", offset, time.Since(began))
			}
		})
	}
}

// While claims find work the loop waits neither for hints nor for the poll.
func TestBacklogNeedsNoHints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(1000)
		r := start(t, renewing{f}, handle(noop), Config{Workers: 3, Batch: 10, Poll: time.Hour})
		if n := r.Status().Outcomes.Succeeded; n != 1000 {
			t.Errorf("%d of 1,000 done without a hint", n)
		}
		for _, request := range f.allRequests() {
			if request.Limit > 10 || request.Limit < 1 {
				t.Errorf("limit %d", request.Limit)
			}
		}
	})
}

// Without hints the poll finds work within its interval, jittered downwards.
func TestPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(0)
		start(t, renewing{f}, handle(noop), Config{Poll: time.Second})
		pass(time.Minute)
		claims := f.claims()
		if len(claims) < 60 || len(claims) > 68 {
			t.Errorf("%d claims in a minute", len(claims))
		}
		different := make(map[time.Duration]bool)
		for i := 1; i < len(claims); i++ {
			gap := claims[i].Sub(claims[i-1])
			different[gap] = true
			if gap > time.Second || gap < 900*time.Millisecond {
				t.Errorf("gap %v", gap)
			}
		}
		if len(different) < 10 {
			t.Error("no jitter")
		}
	})
}

// A scheduled task starts when it is due, and an idle runner asks with reads instead of claiming.
func TestScheduledTaskStartsWhenDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, asked := newFake(0), 0
		j := f.add("", 7300*time.Millisecond)
		due := time.Now().Add(7300 * time.Millisecond)
		var started time.Time
		start(t, scheduled{renewing{f}, &asked}, handle(func(context.Context, *Task[int]) error {
			started = time.Now()
			return nil
		}), Config{Poll: 5 * time.Second})
		pass(20 * time.Second)
		if f.lastVerdict(j.id).Decision != Succeed || started.Sub(due) > time.Millisecond {
			t.Errorf("started %v after it was due", started.Sub(due))
		}
		if n := len(f.claims()); n > 4 {
			t.Errorf("%d claims: an idle runner should ask with a read", n)
		}
		if asked < 3 {
			t.Errorf("asked %d times", asked)
		}
	})
}

// What is due but not for this runner does not make it spin.
func TestDueForOthersDoesNotSpin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, asked := newFake(0), 0
		f.add("foreign", 0)
		r := start(t, scheduled{renewing{f}, &asked}, handle(noop), Config{Kinds: []KindConfig{{Name: "mine"}}})
		pass(10 * time.Second)
		if n := len(f.claims()); n > 14 {
			t.Errorf("%d claims in ten seconds", n)
		}
		f.add("mine", 0)
		pass(time.Second)
		if r.Status().Outcomes.Succeeded != 1 {
			t.Error("the own task was not found by the poll")
		}
	})
}

// A claim that fails is repeated with backoff, shown in Status, and ends with the outage.
func TestClaimErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(1)
		f.beforeClaim = func(ClaimRequest) error { return errors.New("down") }
		r := start(t, renewing{f}, handle(noop), Config{})
		pass(30 * time.Second)
		if n := len(f.claims()); n < 15 || n > 40 {
			t.Errorf("%d claims in 30 s of outage", n)
		}
		if r.Status().LastClaimError != "down" {
			t.Errorf("status %+v", r.Status())
		}
		f.mu.Lock()
		f.beforeClaim = func(ClaimRequest) error { panic("also down") }
		f.mu.Unlock()
		pass(5 * time.Second)
		f.mu.Lock()
		f.beforeClaim = nil
		f.mu.Unlock()
		pass(3 * time.Second)
		if st := r.Status(); st.Outcomes.Succeeded != 1 || st.LastClaimError != "" {
			t.Errorf("after the outage: %+v", st)
		}
	})
}

// C21: with one worker, tasks run in the order of the claim, for any batch size.
func TestOrderWithinClaims(t *testing.T) {
	for _, batch := range []int{1, 17, 200} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(400)
			var ran []int
			start(t, renewing{f}, handle(func(_ context.Context, task *Task[int]) error {
				ran = append(ran, task.Payload)
				return nil
			}), Config{Workers: 1, Batch: batch})
			if len(ran) != 400 || !slices.IsSorted(ran) {
				t.Errorf("batch %d: %d ran, in order: %v", batch, len(ran), slices.IsSorted(ran))
			}
		})
	}
}

// More tasks than were asked for, and tasks without a token, are contained.
func TestQueueThatOverclaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(0)
		f.add("", 0)
		f.afterClaim = func(tasks []Task[int]) []Task[int] {
			if len(tasks) == 0 {
				return nil
			}
			f.afterClaim = nil
			for i := range 9 {
				tasks = append(tasks, Task[int]{Token: &ticket{1, 100 + i}})
			}
			return append(tasks, Task[int]{})
		}
		var mu sync.Mutex
		ran := 0
		start(t, renewing{f}, handle(func(context.Context, *Task[int]) error {
			mu.Lock()
			ran++
			mu.Unlock()
			return nil
		}), Config{Workers: 3})
		released := 0
		for _, v := range f.allVerdicts() {
			if v.Decision == Release {
				released++
			}
		}
		if ran != 3 || released != 7 {
			t.Errorf("%d ran and %d were released, want 3 and 7", ran, released)
		}
	})
}
