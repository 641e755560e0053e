package runner

import (
	"bytes"
	"context"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// asker answers every question for a replacement.
type asker struct {
	answer bool
	asked  atomic.Int32
	during func(StuckEvent) // the question
}

func (a *asker) ReplaceStuck(e StuckEvent) bool {
	a.asked.Add(1)
	if a.during != nil {
		a.during(e)
	}
	return a.answer
}

// hangs is a handler that ignores its context until its gate is closed, for the kinds that are named.
func hangs(gate <-chan struct{}, kinds ...string) Handler[int, int] {
	return handle(func(_ context.Context, task *Task[int]) error {
		if len(kinds) == 0 || slices.Contains(kinds, task.Kind) {
			<-gate
		}
		return nil
	})
}

// stuckAfter is when a handler of stuckConfig counts as stuck.
const stuckAfter = 3 * time.Second

func stuckConfig(workers int, observer any, kinds ...KindConfig) Config {
	return Config{Workers: workers, Deadline: 2 * time.Second, CleanUp: time.Second, Observer: observer, Kinds: kinds,
		StopTimeout: -1, Lease: time.Hour, Backoff: Exponential{Base: maxBackoff, Max: maxBackoff}}
}

// The one slot of a queue hangs. With a replacement the others are worked, and when the handler returns at last, there is one
// slot again: the numbers are those from before, and two tasks do not run at once.
func TestStuckSlotIsReplacedUntilItReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, gate := newFake(1), make(chan struct{})
		var now, most atomic.Int32
		var again atomic.Bool
		a := &asker{answer: true}
		var logs bytes.Buffer
		config := stuckConfig(1, a)
		config.Logger = slog.New(slog.NewTextHandler(&logs, nil))
		r := start(t, renewing{f}, handle(func(context.Context, *Task[int]) error {
			if !again.Swap(true) {
				<-gate
				return nil
			}
			most.Store(max(most.Load(), now.Add(1)))
			time.Sleep(100 * time.Millisecond)
			now.Add(-1)
			return nil
		}), config)
		for range 5 {
			f.add("", 0)
		}
		pass(stuckAfter - time.Millisecond)
		if st := r.Status(); st.Replaced != 0 || st.Outcomes.Succeeded != 0 || a.asked.Load() != 0 {
			t.Fatalf("before it is stuck: %+v", st)
		}
		pass(time.Second)
		if st := r.Status(); st.Replaced != 1 || st.Stuck != 1 || st.InFlight != 1 || st.Outcomes.Succeeded != 5 {
			t.Fatalf("beside the stuck one: %+v", st)
		}
		close(gate)
		pass(time.Second)
		if st := r.Status(); st.Replaced != 0 || st.Stuck != 0 || st.InFlight != 0 || a.asked.Load() != 1 {
			t.Fatalf("after it returned: %+v, asked %d times", st, a.asked.Load())
		}
		for range 10 {
			f.add("", 0)
		}
		r.Wake()
		pass(5 * time.Second)
		if n := r.Status().Outcomes.Succeeded; n != 15 || most.Load() != 1 {
			t.Errorf("%d of 15 done, %d at a time; want 1", n, most.Load())
		}
		for _, said := range []string{"is replaced until it returns", "a stuck handler has returned"} {
			if n := strings.Count(logs.String(), said); n != 1 {
				t.Errorf("%q is logged %d times", said, n)
			}
		}
	})
}

// Without an observer that asks, or with one that says no, a stuck handler keeps its slot.
func TestNothingIsReplacedUnasked(t *testing.T) {
	for name, c := range map[string]struct {
		observer any
		most     int
		asked    int32
	}{
		"no observer":   {nil, 0, 0},
		"another one":   {&recorder{}, 0, 0},
		"one says no":   {&asker{}, 0, 1},
		"turned off":    {&asker{answer: true}, -1, 0},
		"one panics":    {&asker{answer: true, during: func(StuckEvent) { panic("no") }}, 0, 1},
		"yes comes 2nd": {Observers(&asker{answer: true}, &asker{}), 0, -1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, gate := newFake(1), make(chan struct{})
				defer close(gate)
				config := stuckConfig(1, c.observer)
				config.MaxReplacements = c.most
				r := start(t, renewing{f}, hangs(gate), config)
				pass(time.Minute)
				want := 0
				if c.asked < 0 {
					want = 1
				}
				if st := r.Status(); st.Stuck != 1 || st.Replaced != want {
					t.Errorf("stuck %d, replaced %d, want %d", st.Stuck, st.Replaced, want)
				}
				if a, ok := c.observer.(*asker); ok && a.asked.Load() != c.asked {
					t.Errorf("asked %d times, want %d", a.asked.Load(), c.asked)
				}
			})
		})
	}
}

// A handler that always hangs takes its slots once more, and no further: the bound is that of the configuration.
func TestReplacementsAreBounded(t *testing.T) {
	for _, c := range []struct{ most, want int }{{0, 6}, {1, 4}, {2, 5}, {-1, 3}} {
		synctest.Test(t, func(t *testing.T) {
			f, gate := newFake(50), make(chan struct{})
			defer close(gate)
			config := stuckConfig(3, &asker{answer: true})
			config.MaxReplacements = c.most
			r := start(t, renewing{f}, hangs(gate), config)
			pass(10 * time.Minute)
			if st := r.Status(); st.InFlight != c.want || st.Replaced != c.want-3 || st.Stuck != c.want {
				t.Errorf("at most %d: %d in flight, %d replaced, %d stuck; want %d handlers", c.most, st.InFlight, st.Replaced, st.Stuck, c.want)
			}
		})
	}
}

// A kind is bounded by itself: one that always hangs gets its slots twice, whatever the queue still has, and the other kind keeps
// what it had. When all have returned, the bounds are as before.
func TestReplacementsOfAKindAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, gate := newFake(0), make(chan struct{})
		for range 50 {
			f.add("hangs", 0)
		}
		r := start(t, renewing{f}, hangs(gate, "hangs"),
			stuckConfig(4, &asker{answer: true}, KindConfig{Name: "hangs", Workers: 1}, KindConfig{Name: "works"}))
		pass(time.Minute)
		st := r.Status()
		if want := []KindStatus{{"hangs", 2, 2, 1}, {"works", 3, 0, 0}}; st.InFlight != 2 || st.Replaced != 1 || !slices.Equal(st.Kinds, want) {
			t.Fatalf("%d in flight, %d replaced, kinds %+v, want %+v", st.InFlight, st.Replaced, st.Kinds, want)
		}
		for range 20 {
			f.add("works", 0)
		}
		r.Wake()
		pass(time.Second)
		if n := r.Status().Outcomes.Succeeded; n != 20 {
			t.Errorf("%d of 20 of the other kind done", n)
		}
		close(gate)
		pass(time.Minute)
		if want, got := []KindStatus{{"hangs", 1, 0, 0}, {"works", 3, 0, 0}}, r.Status().Kinds; !slices.Equal(got, want) {
			t.Errorf("afterwards kinds %+v, want %+v", got, want)
		}
	})
}

// A batch holds one slot and is replaced by one, which takes a whole batch again.
func TestStuckBatchIsReplacedByOneSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, gate := newFake(0), make(chan struct{})
		for range 8 {
			f.add("b", 0)
		}
		var mu sync.Mutex
		var sizes []int
		a := &asker{answer: true}
		r := start(t, renewing{f}, BatchFunc[int, int](func(_ context.Context, tasks []*Task[int]) []Result[int] {
			mu.Lock()
			sizes = append(sizes, len(tasks))
			first := len(sizes) == 1
			mu.Unlock()
			if first {
				<-gate
			}
			return make([]Result[int], len(tasks))
		}), stuckConfig(1, a, KindConfig{Name: "b", BatchSize: 4}))
		pass(time.Minute)
		if st := r.Status(); st.Replaced != 1 || st.Outcomes.Succeeded != 4 || !slices.Equal(sizes, []int{4, 4}) || a.asked.Load() != 1 {
			t.Errorf("batches %v, asked %d times, %+v", sizes, a.asked.Load(), st)
		}
		close(gate)
		pass(time.Second)
		if st := r.Status(); st.Replaced != 0 || st.InFlight != 0 {
			t.Errorf("afterwards %+v", st)
		}
	})
}

// The handler returns while its observer thinks about it: there is nothing to replace any more.
func TestHandlerThatReturnsDuringTheQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, gate := newFake(1), make(chan struct{})
		a := &asker{answer: true, during: func(StuckEvent) { close(gate); time.Sleep(time.Second) }}
		r := start(t, renewing{f}, hangs(gate), stuckConfig(1, a))
		pass(time.Minute)
		if st := r.Status(); st.Replaced != 0 || st.InFlight != 0 || a.asked.Load() != 1 {
			t.Errorf("%+v", st)
		}
	})
}

// A stuck handler that ends its goroutine at last, or panics, gives its slot back as well, and a stop with a replaced slot names
// the handler that ignores it and nobody else.
func TestEndsOfReplacedHandlers(t *testing.T) {
	for name, end := range map[string]func(){"panic": func() { panic("late") }, "goexit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, gate := newFake(1), make(chan struct{})
				var again atomic.Bool
				r := start(t, renewing{f}, handle(func(context.Context, *Task[int]) error {
					if !again.Swap(true) {
						<-gate
						end()
					}
					return nil
				}), stuckConfig(1, &asker{answer: true}))
				pass(time.Minute)
				close(gate)
				pass(time.Second)
				f.add("", 0)
				pass(2 * time.Second)
				if st := r.Status(); st.Replaced != 0 || st.InFlight != 0 || st.Outcomes.Succeeded < 1 {
					t.Errorf("%+v", st)
				}
			})
		})
	}
	t.Run("stop", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			f, gate := newFake(1), make(chan struct{})
			_, ended := run(t, ctx, renewing{f}, hangs(gate), stuckConfig(1, &asker{answer: true}))
			pass(time.Minute)
			cancel()
			left, ok := (<-ended).(*StopError)
			if !ok || !slices.Equal(left.Tasks, []string{"task 1 attempt 1"}) {
				t.Errorf("left %v", left)
			}
			close(gate)
		})
	})
}

// A drain goes on beside a stuck handler and ends when that has returned.
func TestDrainGoesOnBesideAReplacedSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, gate := newFake(0), make(chan struct{})
		f.add("hangs", 0)
		for range 30 {
			f.add("works", 0)
		}
		time.AfterFunc(10*time.Second, func() { close(gate) })
		config := stuckConfig(1, &asker{answer: true}, KindConfig{Name: "hangs"}, KindConfig{Name: "works"})
		config.Logger = quiet()
		r, err := New[int, int](renewing{f}, hangs(gate, "hangs"), config)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		var worked atomic.Int64
		time.AfterFunc(5*time.Second, func() {
			if r.Status().Outcomes.Succeeded == 30 {
				worked.Store(int64(time.Since(began)))
			}
		})
		result, err := r.Drain(t.Context())
		if err != nil || worked.Load() == 0 || result.Outcomes.Succeeded != 30 || time.Since(began) < 10*time.Second {
			t.Errorf("%+v, %v; all others done after %v, ended after %v", result, err, time.Duration(worked.Load()), time.Since(began))
		}
	})
}

// One that cannot be is refused.
func TestMaxReplacementsIsChecked(t *testing.T) {
	_, err := New[int, int](newFake(0), handle(noop), Config{Workers: 2, MaxReplacements: 3})
	if err == nil || !strings.Contains(err.Error(), "MaxReplacements: must be at most the 2 workers, not 3") {
		t.Error(err)
	}
}
