package runner

import (
	"bytes"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

// C111: no number of failures and no base wraps around.
func TestBackoffNeverOverflows(t *testing.T) {
	for _, base := range []time.Duration{1, time.Second, time.Hour, 24 * time.Hour, math.MaxInt64} {
		for _, factor := range []float64{0, 1, 1.5, 2, 4, 1e300, math.Inf(1), math.NaN()} {
			for _, limit := range []time.Duration{time.Minute, 48 * time.Hour, math.MaxInt64} {
				b := Exponential{Base: base, Max: limit, Factor: factor, Jitter: 0.15}
				top := max(base, limit)
				last := time.Duration(0)
				for _, n := range []int{-1, 0, 1, 10, 33, 34, 62, 63, 64, 100, 1100, 32767, math.MaxInt32, math.MaxInt} {
					nominal := b.nominal(n)
					if nominal <= 0 || nominal > top {
						t.Errorf("%+v: delay %v after %d failures", b, nominal, n)
					}
					if nominal < last {
						t.Errorf("%+v: falls from %v to %v at %d failures", b, last, nominal, n)
					}
					last = nominal
					if d := b.Delay(n); d <= 0 || d > top {
						t.Errorf("%+v: jittered delay %v after %d failures", b, d, n)
					}
				}
			}
		}
	}
}

func TestBackoffPresets(t *testing.T) {
	for i, want := range []time.Duration{30 * time.Second, 2 * time.Minute, 8 * time.Minute, 32 * time.Minute, time.Hour, time.Hour} {
		if got := OutboxBackoff().nominal(i + 1); got != want {
			t.Errorf("outbox after %d failures: %v, want %v", i+1, got, want)
		}
	}
	for i, want := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
		if got := DefaultBackoff().nominal(i + 1); got != want*time.Second {
			t.Errorf("default after %d failures: %v, want %v", i+1, got, want*time.Second)
		}
	}
	var zero Exponential
	if d := zero.Delay(100); d != time.Minute {
		t.Errorf("the zero value after 100 failures: %v", d)
	}
}

// C113: what failed together does not come back together, below the cap and at it.
func TestBackoffSpreads(t *testing.T) {
	for _, failures := range []int{1, 40} {
		b := DefaultBackoff()
		nominal := b.nominal(failures)
		delays := make([]time.Duration, 1000)
		for i := range delays {
			delays[i] = b.Delay(failures)
		}
		slices.Sort(delays)
		if spread := delays[999] - delays[0]; spread < nominal/10 {
			t.Errorf("after %d failures: all within %v of %v", failures, spread, nominal)
		}
		if delays[999] > time.Minute {
			t.Errorf("after %d failures: %v is above the cap", failures, delays[999])
		}
		// No more than 5 % are expected inside a window of 1 %; twice that would be chance beyond belief.
		for i, j := 0, 0; i < len(delays); i++ {
			for delays[i]-delays[j] > nominal/100 {
				j++
			}
			if i-j+1 > 100 {
				t.Fatalf("after %d failures: %d of 1,000 within 1 %% of %v", failures, i-j+1, nominal)
			}
		}
	}
}

type policy func(int) time.Duration

func (p policy) Delay(n int) time.Duration { return p(n) }

// C112: a policy that answers nonsense is replaced, with a warning.
func TestBackoffNonsense(t *testing.T) {
	for name, p := range map[string]policy{
		"zero":             func(int) time.Duration { return 0 },
		"negative":         func(int) time.Duration { return -time.Hour },
		"huge":             func(int) time.Duration { return math.MaxInt64 },
		"a year and a bit": func(int) time.Duration { return maxBackoff + 1 },
		"panic":            func(int) time.Duration { panic("no") },
	} {
		var out bytes.Buffer
		d := delayAfter(p, 1, slog.New(slog.NewTextHandler(&out, nil)))
		if d < 500*time.Millisecond || d > time.Minute {
			t.Errorf("%s: %v", name, d)
		}
		if !strings.Contains(out.String(), "level=WARN") {
			t.Errorf("%s: no warning: %q", name, out.String())
		}
	}
	if d := delayAfter(policy(func(int) time.Duration { return time.Hour }), 1, quiet()); d != time.Hour {
		t.Errorf("a sane policy was replaced: %v", d)
	}
}
