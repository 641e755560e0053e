package runner

import (
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"time"
)

const (
	// maxDelay bounds every delay that reaches a queue: about ten years, which any database can add to its clock.
	maxDelay = 10 * 365 * 24 * time.Hour
	// maxBackoff bounds what a backoff policy may answer.
	maxBackoff = 365 * 24 * time.Hour
)

// Backoff says how long a task waits after a failed attempt. It must be safe for concurrent use.
type Backoff interface {
	// Delay returns the delay after the given number of failed attempts, the latest one included, so at least 1. It
	// must be positive and at most a year; anything else is replaced by [DefaultBackoff], with a warning.
	Delay(failures int) time.Duration
}

// Exponential is a [Backoff] that grows by a factor:
//
//	delay(n) = min(Max, Base · Factor^(n−1)) · (1 + u),   u uniform in [−Jitter, +Jitter]
//
// and never more than Max or less than one nanosecond, for any number of failures. It is monotone up to Max before the
// jitter. Where the spread would go beyond Max it is moved below it, to [Max·(1−2·Jitter), Max], so that tasks at the cap
// do not come back together either.
type Exponential struct {
	Base   time.Duration // the first delay; zero means 1 s
	Max    time.Duration // the largest; zero means 1 min, and it is never less than Base
	Factor float64       // zero means 2; below 1, and NaN, count as 1
	Jitter float64       // the share of the delay that is random each way: between 0 and 0.5, and otherwise cut to that
}

// DefaultBackoff doubles from 1 s up to 1 min, with 25 % jitter.
func DefaultBackoff() Exponential {
	return Exponential{Base: time.Second, Max: time.Minute, Factor: 2, Jitter: 0.25}
}

// OutboxBackoff suits calls to other systems: 30 s, 2 min, 8 min, 32 min, then 1 h, with 15 % jitter.
func OutboxBackoff() Exponential {
	return Exponential{Base: 30 * time.Second, Max: time.Hour, Factor: 4, Jitter: 0.15}
}

// Delay implements [Backoff].
func (b Exponential) Delay(failures int) time.Duration {
	return b.spread(b.nominal(failures), rand.Float64())
}

// nominal is the delay before jitter. The power is taken in floating point, where it saturates at +Inf instead of
// wrapping around, and is compared with the cap there.
func (b Exponential) nominal(failures int) time.Duration {
	base, top, factor := b.Base, b.Max, b.Factor
	if base <= 0 {
		base = time.Second
	}
	if top <= 0 {
		top = time.Minute
	}
	top = max(top, base)
	if factor == 0 {
		factor = 2
	}
	if !(factor >= 1) { // also NaN
		factor = 1
	}
	d := float64(base) * math.Pow(factor, float64(max(failures, 1)-1))
	if !(d < float64(top)) {
		return top
	}
	return time.Duration(d)
}

// spread applies jitter; u is uniform in [0, 1).
func (b Exponential) spread(nominal time.Duration, u float64) time.Duration {
	jitter := b.Jitter
	if !(jitter > 0) {
		return nominal
	}
	jitter = min(jitter, 0.5)
	top := float64(max(b.Max, b.Base))
	if b.Max <= 0 {
		top = float64(max(time.Minute, b.Base))
	}
	n := float64(nominal)
	high := min(n*(1+jitter), top)
	low := high - 2*n*jitter
	return max(1, min(time.Duration(low+u*(high-low)), time.Duration(top)))
}

// delayAfter asks a policy that is not trusted.
func delayAfter(policy Backoff, failures int, log *slog.Logger) (delay time.Duration) {
	fallback := func(reason string) time.Duration {
		d := DefaultBackoff().Delay(failures)
		log.Warn("runner: backoff policy replaced by the default for this attempt",
			"reason", reason, "policy", fmt.Sprintf("%T", policy), "failures", failures, "delay", d)
		return d
	}
	defer func() {
		if v := recover(); v != nil {
			delay = fallback("it panicked: " + typeName(v))
		}
	}()
	delay = policy.Delay(failures)
	if delay <= 0 || delay > maxBackoff {
		delay = fallback(fmt.Sprintf("it answered %v", delay))
	}
	return delay
}

func clampDelay(d time.Duration) time.Duration { return max(0, min(d, maxDelay)) }
