package memqueue

import (
	"context"
	"fmt"

	"github.com/pgqueue/pgqueue/runner"
)

// Codes of failures that the queue itself records.
const (
	// CodeLeaseExpired is recorded when a lease was recovered.
	CodeLeaseExpired = "lease_expired"
	// CodeResultRejected is recorded when the result of a success could not be stored, see [Queue.RejectResults].
	CodeResultRejected = "result_rejected"
)

// Report stores verdicts. It changes all or nothing: a token of another queue, an unknown decision or an ended context is
// an error before anything is written.
//
// The rules, in this order: a claim that is not open any more is [runner.Lost] (a Confirm of it is [runner.Succeeded] if
// this very claim was closed, or the task is gone); a locked task is [runner.Busy]; after a recovery only a success counts;
// a replaced input is [runner.Superseded] whatever the decision; then the decision.
func (q *Queue[P, R]) Report(ctx context.Context, verdicts []runner.Verdict[R]) ([]runner.Outcome, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	for _, v := range verdicts {
		if _, ok := v.Token.(Token); !ok {
			return nil, fmt.Errorf("memqueue: token of type %T is not of this queue", v.Token)
		}
		if v.Decision < runner.Succeed || v.Decision > runner.Confirm {
			return nil, fmt.Errorf("memqueue: unknown decision %d", v.Decision)
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	outcomes := make([]runner.Outcome, len(verdicts))
	for i := range verdicts {
		outcomes[i] = q.report(&verdicts[i])
	}
	return outcomes, nil
}

func (q *Queue[P, R]) report(v *runner.Verdict[R]) runner.Outcome {
	token := v.Token.(Token)
	t := q.live[token.ID]
	switch {
	case t == nil && v.Decision == runner.Confirm:
		return runner.Succeeded
	case t == nil && v.Decision == runner.Succeed:
		return q.revive(token, v.Result)
	case t == nil || t.attempt != token.Attempt:
		return runner.Lost
	case !t.open && v.Decision == runner.Confirm:
		return runner.Succeeded // its own transaction has closed the claim
	case !t.open:
		return runner.Lost
	case t.locks > 0:
		return runner.Busy
	case t.state != Running && (v.Decision != runner.Succeed || q.config.RefuseLate):
		return runner.Lost
	case t.superseded():
		q.putBack(t)
		return runner.Superseded
	}
	return q.decide(t, v)
}

// decide carries out a verdict whose claim stands.
func (q *Queue[P, R]) decide(t *task[P, R], v *runner.Verdict[R]) runner.Outcome {
	now := q.config.Now()
	switch {
	case v.Decision == runner.Succeed && t.ineligible:
		q.putBack(t) // it waits until it is eligible again or gets another input
		return runner.Ineligible
	case v.Decision == runner.Succeed:
		if err := q.refused(v.Result); err != nil {
			return q.fail(t, &runner.Failure{Code: CodeResultRejected, Message: err.Error()})
		}
		t.result = v.Result
		q.end(t, Succeeded)
		return runner.Succeeded
	case v.Decision == runner.Cancel || t.cancelRequested:
		if v.Failure != nil {
			t.lastFailure = v.Failure
		}
		q.end(t, Cancelled)
		return runner.Cancelled
	case v.Decision == runner.Fail:
		return q.fail(t, v.Failure)
	case v.Decision == runner.Snooze:
		t.due = now.Add(v.Delay)
		q.putBack(t)
		return runner.Snoozed
	case v.Decision == runner.Release:
		q.putBack(t)
		return runner.Released
	}
	// Retry, or a Confirm whose transaction did not commit.
	t.failures++
	t.lastFailure = v.Failure
	if t.failures >= t.maxAttempts || v.MaxAttempts > 0 && t.failures >= v.MaxAttempts {
		q.end(t, Dead)
		return runner.Dead
	}
	t.due = now.Add(v.Delay)
	q.putBack(t)
	return runner.Retrying
}

func (q *Queue[P, R]) fail(t *task[P, R], failure *runner.Failure) runner.Outcome {
	t.failures++
	t.lastFailure = failure
	q.end(t, Failed)
	return runner.Failed
}

func (q *Queue[P, R]) refused(result *R) error {
	if result == nil || q.check == nil {
		return nil
	}
	return q.check(*result)
}

// revive is the last word of a success whose task the recovery declared dead on that very attempt: the work was done all
// the same, and a success is better than a retry by hand that does it twice.
func (q *Queue[P, R]) revive(token Token, result *R) runner.Outcome {
	t := q.ended[token.ID]
	switch {
	case t == nil || t.attempt != token.Attempt || !t.diedOfLease || q.config.RefuseLate:
		return runner.Lost
	case t.ineligible || q.refused(result) != nil:
		return runner.Lost
	}
	t.state, t.result, t.diedOfLease = Succeeded, result, false
	return runner.Succeeded
}

// putBack closes the claim and makes t pending again, due as t.due says.
func (q *Queue[P, R]) putBack(t *task[P, R]) {
	t.state, t.open = Pending, false
	q.sort(t)
}

// end closes the claim and moves t to the history.
func (q *Queue[P, R]) end(t *task[P, R], state State) {
	t.state, t.open, t.ended = state, false, q.config.Now()
	q.sort(t)
	delete(q.live, t.id)
	delete(q.names, t.name)
	if q.config.Forget {
		return
	}
	q.ended[t.id], q.last[t.name] = t, t
	q.history = append(q.history, t)
}
