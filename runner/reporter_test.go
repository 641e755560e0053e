package runner

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// Verdicts that cannot be written are kept, shown, and written when the store is back.
func TestVerdictsSurviveAnOutage(t *testing.T) {
	for name, outage := range map[string]func() ([]Outcome, error){
		"error":        func() ([]Outcome, error) { return nil, errors.New("down") },
		"panic":        func() ([]Outcome, error) { panic("down") },
		"wrong number": func() ([]Outcome, error) { return []Outcome{Succeeded, Succeeded, Succeeded, Succeeded}, nil },
		"no outcome":   func() ([]Outcome, error) { return []Outcome{0}, nil },
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(1)
			f.onReport = func([]Verdict[int]) ([]Outcome, error, bool) {
				outcomes, err := outage()
				return outcomes, err, true
			}
			r := start(t, renewing{f}, handle(noop), Config{})
			pass(10 * time.Second)
			if st := r.Status(); st.Unreported != 1 || st.NextRetry.IsZero() || st.Outcomes.Total() != 0 {
				t.Errorf("%s: during the outage: %+v", name, st)
			}
			if n := len(f.reports); n > 100 {
				t.Errorf("%s: %d calls in 10 s of outage", name, n)
			}
			f.mu.Lock()
			f.onReport = nil
			f.mu.Unlock()
			pass(6 * time.Second)
			if st := r.Status(); st.Unreported != 0 || st.Outcomes.Succeeded != 1 || !st.NextRetry.IsZero() {
				t.Errorf("%s: afterwards: %+v", name, st)
			}
		})
	}
}

// They are tried until their lease has run out, and then counted as lost.
func TestVerdictsAreLostWithTheirLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(1)
		f.onReport = func([]Verdict[int]) ([]Outcome, error, bool) { return nil, errors.New("down"), true }
		f.afterClaim = func(tasks []Task[int]) []Task[int] {
			if len(f.claims()) > 1 {
				return nil
			}
			return tasks
		}
		seen := &recorder{verdicts: make(chan VerdictEvent, 10)}
		r := start(t, renewing{f}, handle(noop), Config{Observer: seen})
		pass(29 * time.Second)
		if st := r.Status(); st.Unreported != 1 || st.Outcomes.Lost != 0 {
			t.Errorf("inside the lease: %+v", st)
		}
		pass(10 * time.Second)
		if st := r.Status(); st.Unreported != 0 || st.Outcomes.Lost != 1 {
			t.Errorf("after the lease: %+v", st)
		}
		if e := <-seen.verdicts; e.Outcome != Lost || e.Err == nil {
			t.Errorf("told %+v", e)
		}
	})
}

// Memory stays bounded while the store takes no verdicts: claims stop.
func TestUnwrittenVerdictsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(5000)
		f.onReport = func([]Verdict[int]) ([]Outcome, error, bool) { return nil, errors.New("down"), true }
		r := start(t, renewing{f}, handle(noop), Config{Workers: 4, Batch: 20})
		pass(20 * time.Second)
		if st := r.Status(); st.Unreported > 4+3*20 || st.Unreported < 20 || st.Claimed > 4+3*20 {
			t.Errorf("%d unwritten, %d claimed", st.Unreported, st.Claimed)
		}
		f.mu.Lock()
		f.onReport = nil
		f.mu.Unlock()
		pass(10 * time.Second)
		if st := r.Status(); st.Outcomes.Succeeded != 5000 || st.Unreported != 0 {
			t.Errorf("afterwards: %+v", st)
		}
	})
}

// A locked row delays its own verdict alone.
func TestBusyIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(20)
		began := time.Now()
		f.onReport = func(verdicts []Verdict[int]) ([]Outcome, error, bool) {
			if time.Since(began) > 3*time.Second {
				return nil, nil, false
			}
			outcomes := make([]Outcome, len(verdicts))
			for i, v := range verdicts {
				outcomes[i] = Succeeded
				if v.Token.(*ticket).id == 7 {
					outcomes[i] = Busy
				} else {
					f.mu.Lock()
					f.find(v.Token).done = true
					f.mu.Unlock()
				}
			}
			return outcomes, nil, true
		}
		r := start(t, renewing{f}, handle(noop), Config{})
		pass(2 * time.Second)
		if st := r.Status(); st.Outcomes.Succeeded != 19 || st.Unreported != 1 || st.NextRetry.IsZero() {
			t.Errorf("while it is locked: %+v", st)
		}
		pass(3 * time.Second)
		if st := r.Status(); st.Outcomes.Succeeded != 20 || st.Unreported != 0 {
			t.Errorf("afterwards: %+v", st)
		}
		if n := len(f.reports); n > 40 {
			t.Errorf("%d calls", n)
		}
	})
}

// C44: a task that is gone costs its own verdict and nothing else.
func TestLostVerdict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(5)
		r := start(t, renewing{f}, handle(func(_ context.Context, task *Task[int]) error {
			if task.Payload == 3 {
				f.mu.Lock()
				f.jobs[2].done = true
				f.mu.Unlock()
			}
			return nil
		}), Config{})
		if st := r.Status(); st.Outcomes.Succeeded != 4 || st.Outcomes.Lost != 1 || st.InFlight != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// One verdict that the store cannot take does not hold back the others until its lease is over.
func TestPoisonedVerdict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(100)
		f.onReport = func(verdicts []Verdict[int]) ([]Outcome, error, bool) {
			for _, v := range verdicts {
				if v.Token.(*ticket).id == 42 {
					return nil, errors.New("cannot be written"), true
				}
			}
			return nil, nil, false
		}
		r := start(t, renewing{f}, handle(noop), Config{})
		pass(25 * time.Second)
		if st := r.Status(); st.Outcomes.Succeeded != 99 {
			t.Errorf("%+v", st)
		}
	})
}

// While a flush is under way the next one gathers: not a call for every verdict.
func TestVerdictsGather(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(2000)
		f.onReport = func([]Verdict[int]) ([]Outcome, error, bool) {
			time.Sleep(10 * time.Millisecond)
			return nil, nil, false
		}
		r := start(t, renewing{f}, handle(func(context.Context, *Task[int]) error {
			time.Sleep(100 * time.Microsecond)
			return nil
		}), Config{Workers: 10, Batch: 500})
		pass(5 * time.Second)
		if n := r.Status().Outcomes.Succeeded; n != 2000 {
			t.Errorf("%d done", n)
		}
		if n := len(f.reports); n > 60 {
			t.Errorf("%d calls for 2,000 verdicts", n)
		}
		for _, n := range f.reports {
			if n > 1000 {
				t.Errorf("%d in one call", n)
			}
		}
	})
}
