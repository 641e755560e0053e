package queuetest_test

import (
	"context"

	"github.com/pgqueue/pgqueue/runner"
	"github.com/pgqueue/pgqueue/runner/memqueue"
)

type memqueueToken = memqueue.Token

// carriedOut is what a decision looks like to a worker whose verdict was accepted.
func carriedOut(decision runner.Decision) runner.Outcome {
	return map[runner.Decision]runner.Outcome{
		runner.Succeed: runner.Succeeded, runner.Retry: runner.Retrying, runner.Fail: runner.Failed,
		runner.Cancel: runner.Cancelled, runner.Snooze: runner.Snoozed, runner.Release: runner.Released,
	}[decision]
}

func wrongFences() []wrongQueue {
	return []wrongQueue{
		{"has no fence", "StaleVerdictIsLost", forges(func(item, token memqueueToken) memqueueToken {
			token.Attempt = item.Attempt
			return token
		})},
		{"has no fence after a hand-back", "StaleVerdictAfterAHandBackIsLost", forges(func(item, token memqueueToken) memqueueToken {
			token.Attempt = item.Attempt
			return token
		})},
		{"fences with key and attempt", "RecreatedAndClaimedIsNotTheOld", forges(func(item, token memqueueToken) memqueueToken {
			token.ID = item.ID
			return token
		})},
		{"fences with the key", "RecreatedTwiceIsNotTheOld", forges(func(item, _ memqueueToken) memqueueToken { return item })},
		{"keeps accepting the reports of a superseded run", "SupersededOnceOnly", acceptsWhenPending(func(memqueueToken, found) bool {
			return true
		})},
		{"accepts a completion after a re-creation", "RecreatedUnderTheSameKeyIsNotTheOld",
			acceptsWhenPending(func(token memqueueToken, it found) bool { return token.ID != it.ID })},
		{"accepts a verdict of a closed claim", "VerdictAfterTheClaimWasClosedIsLost",
			acceptsWhenPending(func(token memqueueToken, it found) bool { return token.Attempt == it.Attempt && !it.Open })},
		{"accepts a late failure", "LateFailureIsLost",
			acceptsWhenPending(func(token memqueueToken, it found) bool { return token.Attempt == it.Attempt && it.Open })},
		{"says done when the task is deleted", "DeletedWhileRunningIsLost", func(w *wrong) {
			w.eachVerdict(func(ctx context.Context, v verdict) runner.Outcome {
				outcome := w.right(ctx, v)
				if _, ok := w.Get(v.Token.(memqueueToken).Name); outcome == runner.Lost && !ok {
					return carriedOut(v.Decision)
				}
				return outcome
			})
		}},
		{"reopens what has ended", "StaleVerdictDoesNotReopenTheEnd", func(w *wrong) {
			w.eachVerdict(func(ctx context.Context, v verdict) runner.Outcome {
				outcome := w.right(ctx, v)
				it, ok := w.Get(v.Token.(memqueueToken).Name)
				if outcome == runner.Lost && ok && !it.Ended.IsZero() && v.Decision == runner.Retry {
					w.Put(memqueue.Input[payload]{Name: it.Name, Kind: it.Kind, Class: it.Class, Payload: it.Payload})
					return runner.Retrying
				}
				return outcome
			})
		}},
		{"confirms on behalf of another claim", "ConfirmOfALostClaimChangesNothing",
			forges(func(item, token memqueueToken) memqueueToken {
				token.Attempt = item.Attempt
				return token
			})},
		{"takes a locked row for a lost one", "LockedTaskIsBusyForEveryDecision", func(w *wrong) {
			w.eachVerdict(func(ctx context.Context, v verdict) runner.Outcome {
				outcome := w.right(ctx, v)
				if outcome == runner.Busy && v.Decision != runner.Succeed {
					return runner.Lost
				}
				return outcome
			})
		}},
		{"takes a locked row for an open question settled", "ConfirmOfALockedTaskIsBusy", func(w *wrong) {
			w.eachVerdict(func(ctx context.Context, v verdict) runner.Outcome {
				outcome := w.right(ctx, v)
				if outcome == runner.Busy && v.Decision == runner.Confirm {
					return runner.Succeeded
				}
				return outcome
			})
		}},
		{"lets a locked row hold up its batch", "LockedTaskIsBusyAlone", func(w *wrong) {
			locked := w.trackLocks()
			right := w.report
			w.report = func(ctx context.Context, verdicts []verdict) ([]runner.Outcome, error) {
				for _, v := range verdicts {
					if locked[v.Token.(memqueueToken).Name] {
						busy := make([]runner.Outcome, len(verdicts))
						for i := range busy {
							busy[i] = runner.Busy
						}
						return busy, nil
					}
				}
				return right(ctx, verdicts)
			}
		}},
	}
}

type found = memqueue.Item[payload, string]

// forges replaces the token of each verdict by what a bad fence would compare: item is the token of the live item's latest
// claim.
func forges(forge func(item, token memqueueToken) memqueueToken) func(w *wrong) {
	return func(w *wrong) {
		w.eachVerdict(func(ctx context.Context, v verdict) runner.Outcome {
			token := v.Token.(memqueueToken)
			if it, ok := w.Get(token.Name); ok {
				v.Token = forge(memqueueToken{ID: it.ID, Name: it.Name, Attempt: it.Attempt}, token)
			}
			return w.right(ctx, v)
		})
	}
}

// acceptsWhenPending carries out a lost verdict after all, by way of another claim, if the item waits and when says so.
func acceptsWhenPending(when func(token memqueueToken, it found) bool) func(w *wrong) {
	return func(w *wrong) {
		w.eachVerdict(func(ctx context.Context, v verdict) runner.Outcome {
			outcome := w.right(ctx, v)
			token := v.Token.(memqueueToken)
			it, ok := w.Get(token.Name)
			if outcome != runner.Lost || !ok || it.State != memqueue.Pending || !when(token, it) {
				return outcome
			}
			again, ok := w.retake(ctx, token.Name)
			if !ok {
				return outcome
			}
			v.Token = again.Token
			return w.right(ctx, v)
		})
	}
}
