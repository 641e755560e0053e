package runner

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func drain(t *testing.T, ctx context.Context, q Queue[int, int], h Handler[int, int], c Config) (DrainResult, error) {
	t.Helper()
	c.Logger = quiet()
	r, err := New(q, h, c)
	if err != nil {
		t.Fatal(err)
	}
	return r.Drain(ctx)
}

// A drain works until nothing is due, waits for what is in flight, and leaves what is due later.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(300)
		f.add("", time.Hour)
		began := time.Now()
		again := false
		result, err := drain(t, context.Background(), renewing{f}, handle(func(_ context.Context, task *Task[int]) error {
			switch {
			case task.Payload == 5:
				return Permanent(errors.New("x"))
			case task.Payload == 6 && task.Attempt == 1:
				return SnoozeFor(0)
			case task.Payload == 7 && !again:
				again = true
				time.Sleep(3 * time.Second) // long after the queue is empty
				f.add("", 0)
			case task.Payload == 8:
				return RetryAfter(time.Hour, errors.New("x"))
			}
			return nil
		}), Config{Poll: time.Hour})
		want := Outcomes{Succeeded: 299, Failed: 1, Snoozed: 1, Retrying: 1}
		if err != nil || result.Outcomes != want || result.Claimed != 302 {
			t.Errorf("%+v, %v; want %+v", result, err, want)
		}
		if took := time.Since(began); took < 3*time.Second || took > 4*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

func TestDrainEmpty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(0)
		began := time.Now()
		if result, err := drain(t, context.Background(), renewing{f}, handle(noop), Config{}); err != nil || result != (DrainResult{}) {
			t.Errorf("%+v, %v", result, err)
		}
		if len(f.claims()) != 1 || time.Since(began) != 0 {
			t.Errorf("%d claims, %v", len(f.claims()), time.Since(began))
		}
	})
}

// The end of the context stops a drain gracefully.
func TestDrainContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(10)
		ctx, cancel := context.WithTimeout(context.Background(), 3500*time.Millisecond)
		defer cancel()
		result, err := drain(t, ctx, renewing{f}, handle(func(ctx context.Context, _ *Task[int]) error {
			time.Sleep(time.Second)
			return ctx.Err()
		}), Config{Workers: 1})
		if !errors.Is(err, context.DeadlineExceeded) || result.Outcomes.Succeeded != 4 || result.Claimed != int(result.Outcomes.Total()) {
			t.Errorf("%+v, %v", result, err)
		}
	})
}

// A store that is down ends a drain with its error.
func TestDrainStoreDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(1)
		down := errors.New("down")
		f.beforeClaim = func(ClaimRequest) error { return down }
		began := time.Now()
		if _, err := drain(t, context.Background(), renewing{f}, handle(noop), Config{}); !errors.Is(err, down) {
			t.Errorf("%v", err)
		}
		if len(f.claims()) != 5 || time.Since(began) > 10*time.Second {
			t.Errorf("%d claims in %v", len(f.claims()), time.Since(began))
		}
	})
}

// A pause ends a drain.
func TestDrainPaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(10)
		began := time.Now()
		result, err := drain(t, context.Background(), renewing{f}, handle(func(context.Context, *Task[int]) error {
			return Pause(time.Hour)
		}), Config{Workers: 1})
		if err != nil || result.Outcomes.Snoozed != 1 || time.Since(began) > time.Second {
			t.Errorf("%+v, %v after %v", result, err, time.Since(began))
		}
	})
}

// Drain works through several kinds, one of which is at its bound.
func TestDrainKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(0)
		for i := range 40 {
			f.add([]string{"a", "b"}[i%2], 0)
		}
		result, err := drain(t, context.Background(), renewing{f}, handle(func(_ context.Context, task *Task[int]) error {
			if task.Kind == "a" {
				time.Sleep(100 * time.Millisecond)
			}
			return nil
		}), Config{Workers: 4, Kinds: []KindConfig{{Name: "a", Workers: 1}, {Name: "b"}}})
		if err != nil || result.Outcomes.Succeeded != 40 {
			t.Errorf("%+v, %v", result, err)
		}
	})
}
