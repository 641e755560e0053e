package queuetest_test

import (
	"context"

	"github.com/pgqueue/pgqueue/runner"
	"github.com/pgqueue/pgqueue/runner/memqueue"
)

func wrongInputs() []wrongQueue {
	return []wrongQueue{
		{"ignores that the input was replaced", "ReplacedDuringTheRunIsSuperseded", ignoresSuperseded},
		{"says superseded and loses the new input", "SupersededHasTheNewestInput", func(w *wrong) {
			w.eachVerdict(func(ctx context.Context, v verdict) runner.Outcome {
				outcome := w.right(ctx, v)
				if outcome == runner.Superseded {
					w.Delete(v.Token.(memqueueToken).Name)
				}
				return outcome
			})
		}},
		{"runs the old input again", "ReplacedWhileWaiting", func(w *wrong) {
			w.claim = func(ctx context.Context, request runner.ClaimRequest) ([]task, error) {
				tasks, err := w.mem.Claim(ctx, request)
				for i := range tasks {
					tasks[i].Payload.revision = "r1"
				}
				return tasks, err
			}
		}},
		{"calls the old content done although it has changed for good", "ReplacedThereAndBack", func(w *wrong) {
			w.eachVerdict(func(ctx context.Context, v verdict) runner.Outcome {
				outcome := w.right(ctx, v)
				if outcome == runner.Superseded {
					return runner.Succeeded
				}
				return outcome
			})
		}},
		{"lets the new input inherit the failures of the old", "ReplacedHasAWholeBudget", inheritsFailures},
		{"lets a crash of the old input cost the new one", "RecoveryOfASupersededRunIsFree", func(w *wrong) {
			right := w.h.Recover
			w.h.Recover = func(ctx context.Context, limit int) (int, error) {
				n, err := right(ctx, limit)
				for _, name := range w.names {
					if it, _ := w.Get(name); it.State == memqueue.Pending && it.Failures == 0 && n > 0 {
						if again, ok := w.retake(ctx, name); ok {
							w.right(ctx, verdict{Token: again.Token, Decision: runner.Retry})
						}
					}
				}
				return n, err
			}
		}},
		{"accepts a late success of the old input", "LateSuccessOfReplacedInput", ignoresSuperseded},
		{"confirms a replaced input as done", "ConfirmOfReplacedInputIsSuperseded", ignoresSuperseded},
		{"refuses to renew a superseded run", "RenewalOfASupersededRunGoesOn", func(w *wrong) {
			replaced := make(map[string]bool)
			replace := w.h.Replace
			w.h.Replace = func(name, revision string) { replaced[name] = true; replace(name, revision) }
			eachRenewal(func(_ *wrong, token runner.Token, right runner.Renewal) runner.Renewal {
				if replaced[token.(memqueueToken).Name] {
					return runner.Refused
				}
				return right
			})(w)
		}},
	}
}

// ignoresSuperseded ends a task although its input was replaced during the run.
func ignoresSuperseded(w *wrong) {
	w.eachVerdict(func(ctx context.Context, v verdict) runner.Outcome {
		outcome := w.right(ctx, v)
		if outcome != runner.Superseded {
			return outcome
		}
		again, ok := w.retake(ctx, v.Token.(memqueueToken).Name)
		if !ok {
			return outcome
		}
		v.Token = again.Token
		return w.right(ctx, v)
	})
}

// inheritsFailures spends again, on the new input, what the old one had spent.
func inheritsFailures(w *wrong) {
	replace := w.h.Replace
	w.h.Replace = func(name, revision string) {
		before, _ := w.Get(name)
		replace(name, revision)
		if before.State != memqueue.Pending {
			return
		}
		for range before.Failures {
			if again, ok := w.retake(context.Background(), name); ok {
				w.right(context.Background(), verdict{Token: again.Token, Decision: runner.Retry})
			}
		}
	}
}
