package runner

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Observers come and go while the runner runs, and equal ones are told apart.
func TestObserversComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(0)
		always, one, other := &diary{}, &diary{}, &diary{}
		r := start(t, scheduled{renewing{f}, new(int)}, handle(noop), Config{Observer: always})
		work := func() {
			f.add("", 0)
			r.Wake()
			pass(time.Second)
		}
		work()
		forget := r.Observe(one)
		again := r.Observe(one)
		forgetOther := r.Observe(Observers(other, nil))
		work()
		again()
		work()
		forget()
		forget()
		work()
		forgetOther()
		work()
		r.Observe(nil)()
		if a, b, c := len(always.verdicts), len(one.verdicts), len(other.verdicts); a != 5 || b != 3 || c != 3 {
			t.Errorf("told %d, %d and %d times, want 5, 3, 3", a, b, c)
		}
	})
}

// Whoever was told that an attempt started is told of its end, and whoever was not, is not, batches included.
func TestObserversOfAnAttemptAreThoseOfItsStart(t *testing.T) {
	for name, config := range map[string]Config{
		"alone": {}, "batch": {Kinds: []KindConfig{{Name: "b", BatchSize: 2}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, gate := newFake(0), make(chan struct{})
				f.add("b", 0)
				var seen []string
				h := BatchFunc[int, int](func(_ context.Context, tasks []*Task[int]) []Result[int] {
					<-gate
					return make([]Result[int], len(tasks))
				})
				r := start(t, renewing{f}, h, config)
				pass(time.Second)
				defer r.Observe(noted{"late", &seen})()
				close(gate)
				pass(time.Second)
				if len(seen) != 0 {
					t.Errorf("told of an attempt that had started before: %v", seen)
				}
				f.add("b", 0)
				r.Wake()
				pass(time.Second)
				if want := []string{"late starts", "late ends with late"}; !slices.Equal(seen, want) {
					t.Errorf("told %v, want %v", seen, want)
				}
			})
		})
	}
}

// Adding and taking away observers while work goes on is safe; the race detector looks.
func TestObserveConcurrently(t *testing.T) {
	q := &supply{}
	q.left.Store(20_000)
	r, err := New[int, int](q, handle(noop), Config{Workers: 8, Batch: 100, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					r.Observe(&diary{})()
				}
			}
		})
	}
	result, err := r.Drain(t.Context())
	close(done)
	group.Wait()
	if err != nil || result.Outcomes.Succeeded != 20_000 {
		t.Errorf("%+v, %v", result, err)
	}
}

// A verdict tells how long its task waited and ran, and when it is due again.
func TestVerdictsTellDurations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, d := newFake(2), &diary{}
		f.jobs[0].kind, f.jobs[1].kind = "a", "a"
		f.jobs[1].class = 4
		start(t, renewing{f}, handle(func(_ context.Context, task *Task[int]) error {
			time.Sleep(3 * time.Second)
			if task.Payload == 2 {
				return SnoozeFor(time.Hour)
			}
			return nil
		}), Config{Workers: 1, Observer: d, Batch: 2})
		pass(time.Minute)
		d.mu.Lock()
		if len(d.verdicts) < 2 {
			t.Fatalf("verdicts %+v", d.verdicts)
		}
		first, second := d.verdicts[0], d.verdicts[1]
		d.mu.Unlock()
		if !first.Started || first.Duration != 3*time.Second || first.Attempt != 1 || first.Class != 1 || first.Delay != 0 {
			t.Errorf("first %+v", first)
		}
		if second.Outcome != Snoozed || second.Delay != time.Hour || second.Class != 4 || second.Duration != 3*time.Second {
			t.Errorf("second %+v", second)
		}
	})
}
