package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgqueue/pgqueue/listener"
	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/reaper"
	"github.com/pgqueue/pgqueue/runner"
)

// observer is the collector as the observer interfaces of the other packages see it. It only counts: no call waits for
// anything, and none allocates once its queue and kind are known.
type observer struct{ c *collector }

var (
	_ runner.ClaimObserver          = observer{}
	_ runner.AttemptStartObserver   = observer{}
	_ runner.AttemptEndObserver     = observer{}
	_ runner.VerdictObserver        = observer{}
	_ runner.FlushObserver          = observer{}
	_ runner.RenewObserver          = observer{}
	_ runner.LeaseLostObserver      = observer{}
	_ runner.StuckObserver          = observer{}
	_ runner.WakeObserver           = observer{}
	_ reaper.RecoveredObserver      = observer{}
	_ reaper.FailureObserver        = observer{}
	_ listener.HintObserver         = observer{}
	_ listener.CoalescedObserver    = observer{}
	_ listener.ConnectedObserver    = observer{}
	_ listener.DisconnectedObserver = observer{}
	_ listener.DeafObserver         = observer{}
	_ pgqueue.HintSentObserver      = observer{}
	_ pgqueue.HintHeldObserver      = observer{}
	_ pgqueue.HintTrailedObserver   = observer{}
)

// AttemptStarted observes how long the job was due. Due and Claimed are of the store's clock and Waited of this one's: no time
// of one clock is compared with one of the other.
func (o observer) AttemptStarted(ctx context.Context, e runner.AttemptEvent) context.Context {
	if !e.Due.IsZero() && !e.Claimed.IsZero() { // a queue may not say
		o.c.kind(e.Queue, e.Kind).pickup.Observe(seconds(e.Claimed.Sub(e.Due)) + seconds(e.Waited))
	}
	return ctx
}

// AttemptEnded counts the attempt and its duration, in one place, so that both always agree.
func (o observer) AttemptEnded(ctx context.Context, e runner.AttemptEvent) {
	k := o.c.kind(e.Queue, e.Kind)
	k.attempts[outcomeOf(ctx, &e)].Inc()
	k.duration.Observe(seconds(e.Duration))
}

// outcomeOf tells how an attempt ended.
func outcomeOf(ctx context.Context, e *runner.AttemptEvent) attemptOutcome {
	switch e.Decision {
	case runner.Retry:
		code := ""
		if e.Failure != nil {
			code = e.Failure.Code
		}
		switch code {
		case runner.CodeTimeout:
			return ranTimeout
		case runner.CodePanic:
			return ranPanic
		case runner.CodeUndecodable:
			return ranUndecodable
		}
		return ranError
	case runner.Fail:
		return ranPermanent
	case runner.Snooze:
		return ranSnoozed
	case runner.Cancel:
		return ranCancelled
	case runner.Release:
		if context.Cause(ctx) == runner.ErrLeaseLost {
			return ranLeaseLost
		}
		return ranReleased
	default: // Succeed, Confirm, and what the handler settled itself: it said that it is done
		return ranSucceeded
	}
}

// VerdictDone counts what became of a claimed job.
func (o observer) VerdictDone(e runner.VerdictEvent) {
	k := o.c.kind(e.Queue, e.Kind)
	if int(e.Outcome) < len(k.verdicts) && k.verdicts[e.Outcome] != nil {
		k.verdicts[e.Outcome].Inc()
	}
}

// ClaimDone counts a claim.
func (o observer) ClaimDone(e runner.ClaimEvent) {
	r := o.c.runner(e.Queue)
	r.claimTime.Observe(seconds(e.Duration))
	result := claimPartial
	switch {
	case e.Err != nil:
		result = claimError
		r.claimFails.Inc()
	case e.Claimed <= 0:
		result = claimEmpty
	case e.Claimed >= e.Limit:
		result = claimFull
	}
	r.claims[result].Inc()
	if e.Err == nil && e.Claimed > 0 {
		r.claimJobs.Observe(float64(e.Claimed))
	}
}

// FlushDone counts a report.
func (o observer) FlushDone(e runner.FlushEvent) {
	r := o.c.runner(e.Queue)
	r.reportTime.Observe(seconds(e.Duration))
	r.reportJobs.Observe(float64(e.Verdicts))
	add(r.busy, e.Busy)
	if e.Err != nil {
		r.reportFails.Inc()
	}
}

// RenewDone counts a renewal.
func (o observer) RenewDone(e runner.RenewEvent) {
	r := o.c.runner(e.Queue)
	r.renewTime.Observe(seconds(e.Duration))
	add(r.renewed, e.Renewed)
	add(r.refused, e.Refused)
	add(r.locked, e.Locked)
	if e.Err != nil {
		r.renewFails.Inc()
	}
}

// LeaseLost counts a lease that was lost.
func (o observer) LeaseLost(e runner.LeaseEvent) {
	k := o.c.kind(e.Queue, e.Kind)
	if e.Refused {
		k.refused.Inc()
	} else {
		k.unanswered.Inc()
	}
}

// TaskStuck counts a handler that ignores its context.
func (o observer) TaskStuck(e runner.StuckEvent) { o.c.kind(e.Queue, e.Kind).stuck.Inc() }

// Woken counts what made an idle runner claim.
func (o observer) Woken(e runner.WakeEvent) {
	r := o.c.runner(e.Queue)
	if int(e.Source) < len(r.wakes) && r.wakes[e.Source] != nil {
		r.wakes[e.Source].Inc()
	}
	if e.Hints > 1 {
		o.c.hint(e.Queue).coalesced.Add(float64(e.Hints - 1))
	}
}

// ReaperRecovered counts leases that were taken.
func (o observer) ReaperRecovered(target string, recovered reaper.Recovered) {
	r := o.c.reaper(target)
	add(r.requeued, recovered.Requeued)
	add(r.dead, recovered.Dead)
	add(r.superseded, recovered.Superseded)
	add(r.cancelled, recovered.Cancelled)
}

// ReaperFailed counts a failed call of the reaper.
func (o observer) ReaperFailed(target, operation string, _ error) {
	r := o.c.reaper(target)
	if counter, known := r.fails[operation]; known {
		counter.Inc()
	} else {
		r.otherFails.Inc()
	}
}

// ListenerHint counts a hint that was heard. Its queue may be anything.
func (o observer) ListenerHint(queue string) { o.c.hint(queue).received.Inc() }

// ListenerCoalesced counts a hint whose queue was waiting to be told already.
func (o observer) ListenerCoalesced(queue string) { o.c.hint(queue).coalesced.Inc() }

// ListenerConnected counts connections.
func (o observer) ListenerConnected() { o.c.connects.Inc() }

// ListenerDisconnected counts lost connections.
func (o observer) ListenerDisconnected(error) { o.c.disconnects.Inc() }

// ListenerDeaf counts echoes that did not arrive.
func (o observer) ListenerDeaf(time.Duration) { o.c.wentDeaf.Inc() }

// HintSent counts a hint that went out with an enqueue. Its queue may be anything.
func (o observer) HintSent(queue string) { o.c.hint(queue).sent.Inc() }

// HintHeld counts a hint that was held back.
func (o observer) HintHeld(queue string) { o.c.hint(queue).held.Inc() }

// HintsTrailed counts trailing hints.
func (o observer) HintsTrailed(queues []string, err error) {
	for _, queue := range queues {
		if h := o.c.hint(queue); err != nil {
			h.failed.Inc()
		} else {
			h.trailed.Inc()
		}
	}
}

// add adds a number that the store counted. A negative one, from a store that cannot count, would panic.
func add(counter prometheus.Counter, n int) {
	if n > 0 {
		counter.Add(float64(n))
	}
}

// seconds is d in seconds; a clock that went back makes it zero.
func seconds(d time.Duration) float64 { return max(0, d.Seconds()) }
