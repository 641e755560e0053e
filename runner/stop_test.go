package runner

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

// run starts Run and returns its end.
func run(t *testing.T, ctx context.Context, q Queue[int, int], h Handler[int, int], c Config) (*Runner[int, int], <-chan error) {
	t.Helper()
	c.Logger = quiet()
	r, err := New(q, h, c)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	synctest.Wait()
	return r, ended
}

// C47: a stop does not disturb running handlers, and their results are written with contexts of their own.
func TestStopLetsHandlersFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		f := newFake(100)
		r, ended := run(t, ctx, renewing{f}, handle(func(ctx context.Context, _ *Task[int]) error {
			time.Sleep(2 * time.Second)
			if ctx.Err() != nil {
				t.Error("the stop disturbed a handler")
			}
			return nil
		}), Config{Workers: 100})
		pass(500 * time.Millisecond)
		began := time.Now()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
		if took := time.Since(began); took != 1500*time.Millisecond {
			t.Errorf("took %v", took)
		}
		if st := r.Status(); st.Outcomes.Succeeded != 100 || st.Lifecycle != Stopped || st.Unreported != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// What has not started is released at once; what gives up because of the stop is released with nothing spent, and what
// succeeds nevertheless has succeeded.
func TestStopReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(0)
		for range 3 {
			f.add("a", 0)
		}
		for range 7 {
			f.add("b", 0)
		}
		r, ended := run(t, context.Background(), renewing{f}, handle(func(ctx context.Context, task *Task[int]) error {
			<-ctx.Done()
			if context.Cause(ctx) != ErrStopping {
				t.Errorf("cause %v", context.Cause(ctx))
			}
			switch task.Payload {
			case 1:
				return nil
			case 2:
				return Permanent(errors.New("broken"))
			}
			return ctx.Err()
		}), Config{Workers: 10, StopTimeout: 3 * time.Second, Kinds: []KindConfig{{Name: "a"}, {Name: "b", Workers: 1}}})
		began := time.Now()
		stopped := make(chan error, 1)
		go func() { stopped <- r.Stop(context.Background()) }()
		synctest.Wait()
		if st := r.Status(); st.Outcomes.Released != 6 || st.Lifecycle != Stopping || st.InFlight != 4 {
			t.Errorf("at once: %+v", st)
		}
		if err := <-stopped; err != nil {
			t.Error(err)
		}
		if err := <-ended; err != nil || time.Since(began) != 3*time.Second {
			t.Errorf("run: %v after %v", err, time.Since(began))
		}
		if st := r.Status(); st.Outcomes != (Outcomes{Succeeded: 1, Failed: 1, Released: 8}) {
			t.Errorf("at the end: %+v", st.Outcomes)
		}
	})
}

// C48: a handler that ignores its context is named, and the stop is bounded.
func TestStopNamesStubbornHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(2)
		gate := make(chan struct{})
		r, ended := run(t, context.Background(), renewing{f}, handle(func(ctx context.Context, task *Task[int]) error {
			if task.Payload == 1 {
				<-gate
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		}), Config{StopTimeout: time.Second, CleanUp: time.Second})
		began := time.Now()
		short, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		if err := r.Stop(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a stop whose context ends: %v", err)
		}
		var left *StopError
		if err := <-ended; !errors.As(err, &left) || !slices.Equal(left.Tasks, []string{"task 1 attempt 1"}) {
			t.Errorf("run: %v", err)
		}
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("took %v", took)
		}
		began = time.Now()
		if err := r.Stop(context.Background()); err != nil || time.Since(began) != 0 {
			t.Errorf("second stop: %v after %v", err, time.Since(began))
		}
		if v := f.lastVerdict(2); v.Decision != Release {
			t.Errorf("the obedient one: %+v", v)
		}
		if st := r.Status(); st.InFlight != 1 {
			t.Errorf("%+v", st)
		}
		close(gate)
		synctest.Wait()
		if v := f.lastVerdict(1); v.Decision != 0 {
			t.Errorf("a verdict after the end: %+v", v)
		}
		if st := r.Status(); st.InFlight != 0 || st.Unreported != 0 {
			t.Errorf("after the late return: %+v", st)
		}
		// The runner can be used again while nothing of the past is left.
		f.add("", 0)
		again := make(chan error, 1)
		go func() { again <- r.Run(context.Background()) }()
		synctest.Wait()
		if st := r.Status(); st.InFlight != 2 || st.Lifecycle != Running {
			t.Errorf("run again: %+v", st)
		}
		if err := r.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		<-again
	})
}

// Leases are renewed while the runner waits for handlers to finish.
func TestStopKeepsRenewing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(1)
		r, ended := run(t, context.Background(), renewing{f}, handle(func(ctx context.Context, _ *Task[int]) error {
			select {
			case <-time.After(50 * time.Second):
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}), Config{StopTimeout: time.Minute, Lease: 6 * time.Second})
		r.Stop(canceled())
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if v := f.lastVerdict(1); v.Decision != Succeed {
			t.Errorf("%+v", v)
		}
	})
}

func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// A claim that is under way when the stop comes is waited for, and what it brings is released.
func TestStopDuringClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(3)
		f.afterClaim = func(tasks []Task[int]) []Task[int] { time.Sleep(time.Second); return tasks }
		r, ended := run(t, context.Background(), renewing{f}, handle(noop), Config{Workers: 3})
		if err := r.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		<-ended
		if st := r.Status(); st.Outcomes != (Outcomes{Released: 3}) {
			t.Errorf("%+v", st.Outcomes)
		}
	})
}

// Verdicts are written before Run returns, and given up after a bounded time if the store is down.
func TestStopFlushes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(10)
		downUntil := time.Now().Add(4 * time.Second)
		f.onReport = func([]Verdict[int]) ([]Outcome, error, bool) {
			if time.Now().Before(downUntil) {
				return nil, errors.New("down"), true
			}
			return nil, nil, false
		}
		r, ended := run(t, context.Background(), renewing{f}, handle(noop), Config{})
		r.Stop(context.Background())
		<-ended
		if n := r.Status().Outcomes.Succeeded; n < 10 {
			t.Errorf("%+v", r.Status())
		}
	})
	synctest.Test(t, func(t *testing.T) {
		f := newFake(10)
		f.onReport = func([]Verdict[int]) ([]Outcome, error, bool) { return nil, errors.New("down"), true }
		r, ended := run(t, context.Background(), renewing{f}, handle(noop), Config{})
		began := time.Now()
		r.Stop(context.Background())
		<-ended
		if st := r.Status(); st.Outcomes.Lost != 10 || st.Unreported != 0 || time.Since(began) > 11*time.Second {
			t.Errorf("%v: %+v", time.Since(began), st)
		}
	})
}

// C54: every order of Run and Stop.
func TestLifecycle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(0)
		r, err := New[int, int](renewing{f}, handle(noop), Config{Logger: quiet()})
		if err != nil {
			t.Fatal(err)
		}
		bg := context.Background()
		if st := r.Status(); st.Lifecycle != Idle || st.Lifecycle.String() != "idle" {
			t.Errorf("%+v", st)
		}
		r.Wake()
		if err := r.Stop(bg); err != nil {
			t.Errorf("stop before run: %v", err)
		}
		if err := r.Run(canceled()); err != nil {
			t.Errorf("run with an ended context: %v", err)
		}
		if n := len(f.claims()); n != 0 {
			t.Errorf("%d claims with an ended context", n)
		}
		for range 50 {
			ended := make(chan error, 1)
			go func() { ended <- r.Run(bg) }()
			synctest.Wait()
			if err := r.Run(bg); !errors.Is(err, ErrRunning) {
				t.Errorf("second run: %v", err)
			}
			if _, err := r.Drain(bg); !errors.Is(err, ErrRunning) {
				t.Errorf("drain beside run: %v", err)
			}
			var stops sync.WaitGroup
			for range 3 {
				stops.Go(func() {
					if err := r.Stop(bg); err != nil {
						t.Errorf("stop: %v", err)
					}
				})
			}
			stops.Wait()
			if err := <-ended; err != nil {
				t.Errorf("run: %v", err)
			}
		}
		j := f.add("", 0)
		ended := make(chan error, 1)
		go func() { ended <- r.Run(bg) }()
		synctest.Wait()
		if f.lastVerdict(j.id).Decision != Succeed {
			t.Error("the last run does not work")
		}
		r.Stop(bg)
		<-ended
	})
}

// Nothing is left of a runner after it has stopped, in real time too.
func TestNoLeaks(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	for range 20 {
		f := newFake(50)
		r, err := New[int, int](renewing{f}, handle(noop), Config{Workers: 8, Logger: quiet()})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		r.Wake()
		cancel()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		result, err := r.Drain(context.Background())
		if err != nil || r.Status().Outcomes.Succeeded != 50 {
			t.Fatalf("%+v, %v", result, err)
		}
	}
}
