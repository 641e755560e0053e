package reaper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"
)

// maxRepeats bounds the full batches of one pass: 50,000 leases with the default limit. What is left waits for the
// next pass, so that a store which always answers with a full batch is not asked without end.
const maxRepeats = 100

// recoverLoop does passes over one target until ctx ends.
func (r *Reaper) recoverLoop(ctx context.Context, t *target) {
	var outage *outage // nil while the target works
	for ctx.Err() == nil {
		if outage == nil || r.overcome(ctx, t, outage) {
			switch _, err := r.pass(ctx, t); {
			case ctx.Err() != nil:
				return
			case err != nil:
				if outage == nil {
					outage = newOutage(r.config.Grace)
				}
				outage.again()
				outage.away = false
				r.cannotRecover(t, outage, err)
			case outage != nil:
				r.config.Logger.Info("reaper: recovers stale leases again", "target", t.Name)
				outage = nil
			}
		}
		var wait time.Duration
		if outage != nil {
			wait = outage.wait(r.jittered(r.config.Interval))
		} else {
			wait = time.Until(r.wave(time.Now()))
		}
		down, next := outage != nil, time.Now().Add(wait)
		r.update(t, func(status *TargetStatus) { status.Outage, status.NextPass = down, next })
		t.recovers.Rest(next)
		if !pause(ctx, wait) {
			return
		}
		r.update(t, func(status *TargetStatus) { status.NextPass = time.Time{} })
	}
}

// outage is the time from a failed Recover to the first that works, for one target.
type outage struct {
	grace time.Duration
	since time.Time // the first answer since the last failure; zero while there is none
	away  bool      // since the last Recover the store itself could not be reached
	log   outageLog
}

func newOutage(grace time.Duration) *outage { return &outage{grace: grace} }

// again starts the outage over: there was another failure.
func (o *outage) again() { o.since = time.Time{} }

// answered notes that the store can be reached, and says whether it could for the whole grace.
func (o *outage) answered() bool {
	if o.since.IsZero() {
		o.since = time.Now()
	}
	return time.Since(o.since) >= o.grace
}

// wait shortens the usual wait where the grace ends sooner, and stretches it to the end where that is all that is left
// of it, so that the pass after an outage comes neither early nor a whole interval late.
func (o *outage) wait(usual time.Duration) time.Duration {
	if o.since.IsZero() {
		return usual
	}
	if left := o.grace - time.Since(o.since); left > 0 {
		return min(usual, left)
	}
	return usual
}

// overcome asks, after a failure, whether the target may be recovered again: it has answered for the whole grace.
func (r *Reaper) overcome(ctx context.Context, t *target, o *outage) bool {
	pinger, ok := t.Recoverer.(Pinger)
	if !ok {
		return o.answered() // nothing to ask: the grace is all there is
	}
	// Where the store was away, an answer is progress: what remains is the grace. Where it answered all the time and Recover
	// failed all the same (a lock, a missing right), only Recover itself can show that leases are taken again.
	err := r.call(ctx, t, "ping", o.away, pinger.Ping)
	if err != nil {
		if ctx.Err() == nil {
			o.away = true
			r.cannotRecover(t, o, err)
		}
		o.again()
		return false
	}
	return o.answered()
}

// cannotRecover logs a failure of an outage.
func (r *Reaper) cannotRecover(t *target, o *outage, err error) {
	r.config.Logger.Log(context.Background(), o.log.level(), "reaper: cannot recover stale leases", "target", t.Name, "error", err)
}

// outageRepeat is how often an outage that goes on is logged again.
const outageRepeat = time.Minute

// outageLog decides how loud the failures of one outage are: the first is a warning, and then one a minute; those between
// are for debugging.
type outageLog struct{ warned time.Time }

func (o *outageLog) level() slog.Level {
	if now := time.Now(); o.warned.IsZero() || now.Sub(o.warned) >= outageRepeat {
		o.warned = now
		return slog.LevelWarn
	}
	return slog.LevelDebug
}

// pass takes stale leases until a batch is not full.
func (r *Reaper) pass(ctx context.Context, t *target) (total Recovered, err error) {
	defer func() {
		if total.Total() > 0 {
			r.config.Logger.Warn("reaper: leases had run out", "target", t.Name, "requeued", total.Requeued, "dead", total.Dead,
				"superseded", total.Superseded, "cancelled", total.Cancelled)
		}
	}()
	for range maxRepeats {
		var recovered Recovered
		err := r.call(ctx, t, "recover", true, func(ctx context.Context) (err error) {
			recovered, err = t.Recoverer.Recover(ctx, r.config.Limit)
			return err
		})
		if err != nil {
			return total, err // what it says of a failed call cannot be relied on
		}
		total = total.plus(recovered)
		r.update(t, func(status *TargetStatus) { status.Totals = status.Totals.plus(recovered) })
		if recovered.Total() > 0 {
			tellEach(r, r.observers.recovered, func(o RecoveredObserver) { o.ReaperRecovered(t.Name, recovered) })
		}
		if recovered.Total() < r.config.Limit || ctx.Err() != nil {
			break
		}
	}
	r.update(t, func(status *TargetStatus) {
		status.LastPass = time.Now()
		status.Passes++
	})
	return total, nil
}

// maintainLoop maintains one target until ctx ends.
func (r *Reaper) maintainLoop(ctx context.Context, t *target) {
	retry := time.Duration(0)
	var log outageLog
	for ctx.Err() == nil {
		wait := r.config.MaintainEvery
		switch err := r.maintain(ctx, t); {
		case ctx.Err() != nil:
			return
		case err == nil && retry > 0:
			r.config.Logger.Info("reaper: maintenance works again", "target", t.Name)
			retry, log = 0, outageLog{}
		case err == nil:
		default:
			r.config.Logger.Log(context.Background(), log.level(), "reaper: maintenance failed", "target", t.Name, "error", err)
			retry = min(max(2*retry, r.config.Interval), r.config.MaintainEvery)
			wait = retry
		}
		wait = r.jittered(wait)
		t.maintains.Rest(time.Now().Add(wait))
		if !pause(ctx, wait) {
			return
		}
	}
}

// maintain calls Maintain once.
func (r *Reaper) maintain(ctx context.Context, t *target) error {
	err := r.call(ctx, t, "maintain", true, t.Maintainer.Maintain)
	if err == nil {
		r.update(t, func(status *TargetStatus) { status.LastMaintain = time.Now() })
	}
	return err
}

var errGoexit = errors.New("called runtime.Goexit")

// call calls a target with a limit, contains its panic, and notes its failure. It runs on a goroutine of its own, so
// that runtime.Goexit does not end the loop. It returns only when the call has: two never overlap. progress says that its
// success is progress of the loop.
func (r *Reaper) call(ctx context.Context, t *target, operation string, progress bool, function func(ctx context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, r.config.CallTimeout)
	defer cancel()
	loop := &t.recovers
	if operation == "maintain" {
		loop = &t.maintains
	}
	loop.Beat()
	loop.Call()
	done := make(chan error, 1)
	go func() {
		result := errGoexit
		defer func() {
			if cause := recover(); cause != nil {
				r.config.Logger.Error("reaper: a target panicked", "target", t.Name, "operation", operation,
					"type", fmt.Sprintf("%T", cause), "stack", string(debug.Stack()))
				result = fmt.Errorf("panic: %v", cause)
			}
			done <- result
		}()
		result = function(limited)
	}()
	err := <-done
	if err == nil && !progress {
		loop.Answered()
	} else {
		loop.Done(err)
	}
	if err == nil || ctx.Err() != nil {
		return err // a call that the stop interrupted has not failed
	}
	err = fmt.Errorf("%s: %w", operation, err)
	r.update(t, func(status *TargetStatus) {
		status.LastError, status.LastErrorAt = err.Error(), time.Now()
		status.Failures++
	})
	tellEach(r, r.observers.failure, func(o FailureObserver) { o.ReaperFailed(t.Name, operation, err) })
	return err
}
