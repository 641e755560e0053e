package reaper_test

import (
	"context"
	"errors"
	"math"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pgqueue/pgqueue/reaper"
)

var errDown = errors.New("connection refused")

func TestNewRefusesWhatCannotWork(t *testing.T) {
	s := &store{}
	for field, test := range map[string]struct {
		targets []reaper.Target
		config  reaper.Config
	}{
		"Interval":       {nil, reaper.Config{Interval: -1}},
		"CallTimeout":    {nil, reaper.Config{CallTimeout: -1}},
		"MaintainEvery":  {nil, reaper.Config{MaintainEvery: -1}},
		"Limit":          {nil, reaper.Config{Limit: -1}},
		"Jitter":         {nil, reaper.Config{Jitter: math.NaN()}},
		"Target[0].Name": {[]reaper.Target{{Recoverer: s}}, reaper.Config{}},
		"Target[1].Name": {[]reaper.Target{{Name: "a", Recoverer: s}, {Name: "a", Recoverer: s}}, reaper.Config{}},
		"Target[0]":      {[]reaper.Target{{Name: "a"}}, reaper.Config{}},
	} {
		var refused *reaper.ConfigError
		if _, err := reaper.New(test.targets, test.config); !errors.As(err, &refused) || refused.Field != field {
			t.Errorf("%s: got %v", field, err)
		}
	}
}

func TestPassesComeInJitteredIntervals(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &store{}
		r, _ := newReaper(t, reaper.Config{}, reaper.Target{Name: "jobs", Recoverer: s})
		start := time.Now()
		runFor(t, r, time.Hour)
		recovers, _, _ := s.times()
		if !recovers[0].Equal(start) {
			t.Errorf("first pass after %s, want at once", recovers[0].Sub(start))
		}
		shortest, longest := time.Hour, time.Duration(0)
		for i := range recovers[1:] {
			wait := recovers[i+1].Sub(recovers[i])
			shortest, longest = min(shortest, wait), max(longest, wait)
		}
		if shortest < 4*time.Second || longest > 5*time.Second {
			t.Errorf("waits from %s to %s, want 5 s less at most 20 %%", shortest, longest)
		}
		if shortest > 4200*time.Millisecond || longest < 4800*time.Millisecond {
			t.Errorf("waits from %s to %s: hardly any jitter", shortest, longest)
		}
		status := r.Status()
		if got := status.Targets[0]; got.Passes != int64(len(recovers)) || got.LastPass.IsZero() || !got.NextPass.IsZero() {
			t.Errorf("status %+v", got)
		}
	})
}

// All targets are looked after at the same moments, so that what they ask of one store can be asked once.
func TestPassesOfAllTargetsComeTogether(t *testing.T) {
	bubble(t, func(t *testing.T) {
		first, second := &store{}, &store{}
		r, _ := newReaper(t, reaper.Config{}, reaper.Target{Name: "a", Recoverer: first}, reaper.Target{Name: "b", Recoverer: second})
		runFor(t, r, 10*time.Minute)
		a, _, _ := first.times()
		b, _, _ := second.times()
		if len(a) < 120 || len(a) != len(b) {
			t.Fatalf("%d and %d passes", len(a), len(b))
		}
		for i := range a {
			if !a[i].Equal(b[i]) {
				t.Fatalf("pass %d came at %s and at %s", i, a[i], b[i])
			}
		}
	})
}

// What is left after a full batch does not wait for the next tick; a store that is never done is not asked for ever.
func TestFullBatchIsRepeated(t *testing.T) {
	bubble(t, func(t *testing.T) {
		left := 250
		s := &store{}
		s.recover = func(_ context.Context, limit int) (reaper.Recovered, error) {
			n := min(left, limit)
			left -= n
			return reaper.Recovered{Requeued: n / 2, Dead: n - n/2}, nil
		}
		endless := &store{recover: func(_ context.Context, limit int) (reaper.Recovered, error) {
			return reaper.Recovered{Superseded: 1, Cancelled: limit - 1}, nil
		}}
		r, _ := newReaper(t, reaper.Config{Limit: 100},
			reaper.Target{Name: "jobs", Recoverer: s}, reaper.Target{Name: "endless", Recoverer: endless})
		runFor(t, r, time.Second)
		if recovers, _, _ := s.times(); len(recovers) != 3 || s.limits[0] != 100 {
			t.Errorf("%d calls, limit %v, want 3 of 100", len(recovers), s.limits)
		}
		if recovers, _, _ := endless.times(); len(recovers) != 100 {
			t.Errorf("%d calls of a store that is never done, want 100", len(recovers))
		}
		status := r.Status()
		if got := status.Targets[0].Totals; got != (reaper.Recovered{Requeued: 125, Dead: 125}) {
			t.Errorf("totals %+v", got)
		}
		if got := status.Totals.Total(); got != 250+100*100 {
			t.Errorf("total %d", got)
		}
	})
}

// The store is down from 20 s to 60 s; leases are taken again only after it answered for the whole grace.
func TestGraceAfterOutage(t *testing.T) {
	bubble(t, func(t *testing.T) {
		start := time.Now()
		down := func() error {
			if at := time.Since(start); at >= 20*time.Second && at < 60*time.Second {
				return errDown
			}
			return nil
		}
		s := &store{
			recover: func(context.Context, int) (reaper.Recovered, error) { return reaper.Recovered{}, down() },
			ping:    func(context.Context) error { return down() },
		}
		r, log := newReaper(t, reaper.Config{Grace: 17 * time.Second}, reaper.Target{Name: "jobs", Recoverer: pinged{s}})
		runFor(t, r, 5*time.Minute)
		recovers, pings, _ := s.times()
		var answered time.Time
		for _, at := range pings {
			if at.Sub(start) >= 60*time.Second {
				answered = at
				break
			}
		}
		during := 0
		var after time.Time
		for _, at := range recovers {
			switch since := at.Sub(start); {
			case since < 20*time.Second:
			case after.IsZero() && since < 60*time.Second:
				during++
			case after.IsZero():
				after = at
			}
		}
		if during != 1 {
			t.Errorf("%d attempts to recover during the outage, want the one that found it", during)
		}
		if wait := after.Sub(answered); wait < 17*time.Second || wait > 18*time.Second {
			t.Errorf("leases taken %s after the first answer, want the grace of 17 s", wait)
		}
		if waited := answered.Sub(start) - 60*time.Second; waited > 6*time.Second {
			t.Errorf("the end of the outage was seen after %s", waited)
		}
		if log.count("level=WARN") != 1 || log.count("level=INFO") != 1 {
			t.Errorf("log:\n%s", log.text.String())
		}
		if got := r.Status().Targets[0]; got.Outage || !strings.Contains(got.LastError, "refused") || got.Failures < 5 {
			t.Errorf("status %+v", got)
		}
	})
}

// The server that comes back for a moment and goes again starts the grace over.
func TestGraceStartsOver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		start := time.Now()
		s := &store{}
		s.recover = func(context.Context, int) (reaper.Recovered, error) {
			if time.Since(start) < time.Second {
				return reaper.Recovered{}, errDown
			}
			return reaper.Recovered{}, nil
		}
		s.ping = func(context.Context) error {
			if at := time.Since(start); at > 12*time.Second && at < 18*time.Second {
				return errDown
			}
			return nil
		}
		r, _ := newReaper(t, reaper.Config{Grace: 10 * time.Second, Jitter: -1},
			reaper.Target{Name: "jobs", Recoverer: pinged{s}})
		runFor(t, r, 31*time.Second)
		recovers, _, _ := s.times() // pings at 5 (yes), 10 (yes), 15 (no), 20 (yes), 25, 30
		if len(recovers) != 2 || recovers[1].Sub(start) != 30*time.Second {
			t.Errorf("recovers %v after %s", recovers, start)
		}
	})
}

// Without Ping the grace passes after each failure.
func TestGraceWithoutPing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		start := time.Now()
		s := &store{}
		s.recover = func(context.Context, int) (reaper.Recovered, error) {
			if time.Since(start) < 20*time.Second {
				return reaper.Recovered{}, errDown
			}
			return reaper.Recovered{}, nil
		}
		r, _ := newReaper(t, reaper.Config{Grace: 12 * time.Second, Jitter: -1}, reaper.Target{Name: "jobs", Recoverer: s})
		runFor(t, r, 40*time.Second)
		recovers, _, _ := s.times()
		var at []time.Duration
		for _, moment := range recovers {
			at = append(at, moment.Sub(start))
		}
		if len(at) != 4 || at[1] != 17*time.Second || at[2] != 34*time.Second || at[3] != 39*time.Second {
			t.Errorf("recovers at %v, want 0, 17, 34 and 39 s", at)
		}
	})
}

// A target that fails, panics, ends its goroutine or hangs holds up itself alone.
func TestTargetsAreIsolated(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var targets []reaper.Target
		add := func(name string, answer func(ctx context.Context) error) {
			targets = append(targets, reaper.Target{Name: name,
				Recoverer: &store{recover: func(ctx context.Context, _ int) (reaper.Recovered, error) {
					return reaper.Recovered{Requeued: 1}, answer(ctx)
				}},
				Maintainer: &store{maintain: answer},
			})
		}
		add("fails", func(context.Context) error { return errDown })
		add("panics", func(context.Context) error { panic("index out of range") })
		add("exits", func(context.Context) error { runtime.Goexit(); return nil })
		add("slow", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		add("works", func(context.Context) error { return nil })
		r, log := newReaper(t, reaper.Config{Grace: -1, Jitter: -1}, targets...)
		start := time.Now()
		runFor(t, r, 61*time.Second)
		status := r.Status()
		for i, name := range []string{"fails", "panics", "exits", "slow"} {
			got := status.Targets[i]
			if got.Passes != 0 || got.Totals.Total() != 0 || got.LastError == "" || !got.Outage {
				t.Errorf("%s: %+v", name, got)
			}
			if recovers, _, _ := targets[i].Recoverer.(*store).times(); len(recovers) < 6 {
				t.Errorf("%s: asked %d times in a minute", name, len(recovers))
			}
		}
		if got := status.Targets[4]; got.Passes != 13 || got.Totals.Requeued != 13 || got.LastMaintain.Before(start) || got.LastError != "" {
			t.Errorf("works: %+v", got)
		}
		recovers, _, _ := targets[3].Recoverer.(*store).times()
		if wait := recovers[1].Sub(recovers[0]); wait != 10*time.Second {
			t.Errorf("a slow call held its target for %s, want 5 s and then the interval", wait)
		}
		if log.count("stack=") == 0 {
			t.Error("the stack of a panic was not logged")
		}
	})
}

func TestMaintenance(t *testing.T) {
	bubble(t, func(t *testing.T) {
		start := time.Now()
		s := &store{}
		s.maintain = func(context.Context) error {
			if time.Since(start) < 30*time.Second {
				return errDown
			}
			return nil
		}
		r, log := newReaper(t, reaper.Config{Jitter: -1}, reaper.Target{Name: "jobs", Maintainer: s})
		runFor(t, r, 3*time.Hour)
		_, _, maintains := s.times()
		var at []time.Duration
		for _, moment := range maintains {
			at = append(at, moment.Sub(start))
		}
		want := []time.Duration{0, 5 * time.Second, 15 * time.Second, 35 * time.Second,
			time.Hour + 35*time.Second, 2*time.Hour + 35*time.Second}
		if len(at) != len(want) {
			t.Fatalf("maintained at %v, want %v", at, want)
		}
		for i := range want {
			if at[i] != want[i] {
				t.Errorf("maintained at %v, want %v", at, want)
			}
		}
		if log.count("level=WARN") != 1 || log.count("level=INFO") != 1 {
			t.Errorf("log:\n%s", log.text.String())
		}
	})
}

// A one-shot recovers everything, with no grace, before it maintains anything; failures come back with their names.
func TestOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var mu sync.Mutex
		var order []string
		note := func(what string) {
			mu.Lock()
			defer mu.Unlock()
			order = append(order, what)
		}
		fail := true
		first := &store{}
		first.recover = func(context.Context, int) (reaper.Recovered, error) {
			note("recover")
			if fail {
				return reaper.Recovered{Requeued: 99}, errDown
			}
			return reaper.Recovered{Requeued: 1}, nil
		}
		second := &store{
			recover: func(context.Context, int) (reaper.Recovered, error) {
				time.Sleep(time.Second) // virtual: maintenance must wait for it
				note("recover")
				return reaper.Recovered{Dead: 2}, nil
			},
			maintain: func(context.Context) error { note("maintain"); panic("partition") },
		}
		r, _ := newReaper(t, reaper.Config{},
			reaper.Target{Name: "first", Recoverer: first, Maintainer: &store{maintain: func(context.Context) error { note("maintain"); return nil }}},
			reaper.Target{Name: "second", Recoverer: second, Maintainer: second})
		got, err := r.Once(t.Context())
		if got != (reaper.Recovered{Dead: 2}) || !errors.Is(err, errDown) ||
			!strings.Contains(err.Error(), "first: recover: ") || !strings.Contains(err.Error(), "second: maintain: panic") {
			t.Errorf("Once: %+v, %v", got, err)
		}
		if text := strings.Join(order, " "); text != "recover recover maintain maintain" {
			t.Errorf("order: %s", text)
		}
		fail, second.maintain = false, nil
		start := time.Now()
		if got, err = r.Once(t.Context()); got.Total() != 3 || err != nil || time.Since(start) != time.Second {
			t.Errorf("Once after a failure: %+v, %v, after %s: a grace?", got, err, time.Since(start))
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := r.Once(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Once with an ended context: %v", err)
		}
	})
}

// Stopping interrupts a call and a wait at once, counts nothing as failed, and leaves nothing behind.
func TestStop(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hanging := &store{recover: func(ctx context.Context, _ int) (reaper.Recovered, error) {
			<-ctx.Done()
			return reaper.Recovered{}, ctx.Err()
		}}
		waiting := &store{}
		r, log := newReaper(t, reaper.Config{},
			reaper.Target{Name: "hanging", Recoverer: hanging}, reaper.Target{Name: "waiting", Recoverer: waiting, Maintainer: waiting})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		synctest.Wait()
		if status := r.Status(); !status.Running || status.NextPass.IsZero() || !status.Targets[0].NextPass.IsZero() {
			t.Errorf("status %+v", status)
		}
		if err := r.Run(ctx); !errors.Is(err, reaper.ErrRunning) {
			t.Errorf("second Run: %v", err)
		}
		start := time.Now()
		cancel()
		if err := <-ended; err != nil || time.Since(start) != 0 {
			t.Errorf("Run: %v after %s", err, time.Since(start))
		}
		if status := r.Status(); status.Running || !status.NextPass.IsZero() || status.Targets[0].Failures != 0 {
			t.Errorf("status %+v", status)
		}
		if log.count("level=") != 0 {
			t.Errorf("a normal stop was logged:\n%s", log.text.String())
		}
		runFor(t, r, time.Minute)
	})
}

// A target that ignores its context cannot hold Run for ever.
func TestStopWithStuckTarget(t *testing.T) {
	bubble(t, func(t *testing.T) {
		leave := make(chan struct{})
		defer close(leave)
		stuck := &store{recover: func(context.Context, int) (reaper.Recovered, error) {
			<-leave
			return reaper.Recovered{}, nil
		}}
		r, _ := newReaper(t, reaper.Config{}, reaper.Target{Name: "stuck", Recoverer: stuck})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		if err := r.Run(ctx); !errors.Is(err, reaper.ErrStuck) || time.Since(start) != 65*time.Second {
			t.Errorf("Run: %v after %s", err, time.Since(start))
		}
		if recovers, _, _ := stuck.times(); len(recovers) != 1 {
			t.Errorf("%d calls at the same time", len(recovers))
		}
	})
}

// watcher observes, and panics.
type watcher struct {
	mu        sync.Mutex
	recovered map[string]int
	failed    map[string]int
}

func (w *watcher) ReaperRecovered(target string, recovered reaper.Recovered) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.recovered[target] += recovered.Total()
	panic("in an observer")
}

func (w *watcher) ReaperFailed(target, operation string, _ error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed[target+" "+operation]++
	panic("in an observer")
}

func TestObserver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := &watcher{recovered: map[string]int{}, failed: map[string]int{}}
		good := &store{recover: func(context.Context, int) (reaper.Recovered, error) { return reaper.Recovered{Dead: 2}, nil }}
		bad := pinged{&store{
			recover:  func(context.Context, int) (reaper.Recovered, error) { return reaper.Recovered{Dead: 5}, errDown },
			ping:     func(context.Context) error { return errDown },
			maintain: func(context.Context) error { return errDown },
		}}
		r, _ := newReaper(t, reaper.Config{Observer: w, Jitter: -1},
			reaper.Target{Name: "good", Recoverer: good}, reaper.Target{Name: "bad", Recoverer: bad, Maintainer: bad})
		runFor(t, r, 11*time.Second)
		if w.recovered["good"] != 6 || w.recovered["bad"] != 0 {
			t.Errorf("recovered %v", w.recovered)
		}
		if w.failed["bad recover"] != 1 || w.failed["bad ping"] != 2 || w.failed["bad maintain"] != 2 {
			t.Errorf("failed %v", w.failed)
		}
	})
}
