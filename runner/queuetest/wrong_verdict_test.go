package queuetest_test

import (
	"context"
	"slices"

	"github.com/pgqueue/pgqueue/runner"
	"github.com/pgqueue/pgqueue/runner/queuetest"
)

func wrongVerdicts() []wrongQueue {
	return []wrongQueue{
		{"keeps what has succeeded", "SuccessEndsTheTask", func(w *wrong) {
			w.instead(runner.Succeed, runner.Release, runner.Released, runner.Succeeded)
		}},
		{"retries what has failed for good", "FailIsFinal", func(w *wrong) {
			w.instead(runner.Fail, runner.Retry, runner.Retrying, runner.Failed)
		}},
		{"puts back what was cancelled", "CancelEndsTheTask", func(w *wrong) {
			w.instead(runner.Cancel, runner.Release, runner.Released, runner.Cancelled)
		}},
		{"spends budget on a release", "ReleaseSpendsNothing", func(w *wrong) {
			w.instead(runner.Release, runner.Retry, runner.Retrying, runner.Released)
		}},
		{"spends budget on a snooze", "SnoozeSpendsNothing", func(w *wrong) {
			w.instead(runner.Snooze, runner.Retry, runner.Retrying, runner.Snoozed)
		}},
		{"delays a release", "ReleaseKeepsTheDueTime", func(w *wrong) {
			w.instead(runner.Release, runner.Snooze, runner.Snoozed, runner.Released)
		}},
		{"has no budget", "RetrySpendsOneAndDiesAtTheBudget", func(w *wrong) {
			w.instead(runner.Retry, runner.Snooze, runner.Snoozed, runner.Retrying)
		}},
		{"ignores the runner's bound", "RetryHeedsTheRunnersBound", func(w *wrong) {
			w.report = func(ctx context.Context, verdicts []verdict) ([]runner.Outcome, error) {
				verdicts = slices.Clone(verdicts)
				for i := range verdicts {
					verdicts[i].MaxAttempts = 0
				}
				return w.mem.Report(ctx, verdicts)
			}
		}},
		{"retries at once", "RetryWaitsForItsDelay", withoutDelay(runner.Retry)},
		{"snoozes for no time", "SnoozeWaitsForItsDelay", withoutDelay(runner.Snooze)},
		{"accepts a success twice", "DuplicateSuccessIsLost", acceptsASuccessTwice},
		{"accepts concurrent successes", "ConcurrentSuccessesCountOnce", acceptsASuccessTwice},
		{"spends budget twice for one failure", "DuplicateFailureSpendsOne", spendsTwice},
		{"spends budget twice for one failure in a batch", "SameFailureTwiceInABatchSpendsOne", spendsTwice},
		{"says that a contradiction was carried out", "ContradictionInABatchHasOneWinner", acceptsASuccessTwice},
		{"takes an empty batch for a wake-up call", "EmptyBatch", func(w *wrong) {
			w.report = func(ctx context.Context, verdicts []verdict) ([]runner.Outcome, error) {
				outcomes, err := w.mem.Report(ctx, verdicts)
				if len(verdicts) == 0 {
					outcomes = append(outcomes, runner.Lost)
				}
				return outcomes, err
			}
		}},
		{"answers in the wrong order", "MixedBatchIsAnsweredByPosition", func(w *wrong) {
			w.report = func(ctx context.Context, verdicts []verdict) ([]runner.Outcome, error) {
				outcomes, err := w.mem.Report(ctx, verdicts)
				slices.Reverse(outcomes)
				return outcomes, err
			}
		}},
		{"leaves lost verdicts out of the answer", "MixedBatchIsAnsweredByPosition", func(w *wrong) {
			w.report = func(ctx context.Context, verdicts []verdict) ([]runner.Outcome, error) {
				outcomes, err := w.mem.Report(ctx, verdicts)
				return slices.DeleteFunc(outcomes, func(o runner.Outcome) bool { return o == runner.Lost }), err
			}
		}},
		{"reports with a cancelled context", "ReportOfACancelledContextChangesNothing", func(w *wrong) {
			w.report = func(ctx context.Context, verdicts []verdict) ([]runner.Outcome, error) {
				return w.mem.Report(context.WithoutCancel(ctx), verdicts)
			}
		}},
		{"does half of a report whose context is cancelled", "ReportOfACancelledContextChangesNothing", func(w *wrong) {
			w.report = func(ctx context.Context, verdicts []verdict) ([]runner.Outcome, error) {
				if err := ctx.Err(); err != nil {
					_, _ = w.mem.Report(context.WithoutCancel(ctx), verdicts[:len(verdicts)/2])
					return nil, err
				}
				return w.mem.Report(ctx, verdicts)
			}
		}},
		{"stores the success without the result", "ResultIsStoredWithTheSuccess", func(w *wrong) {
			w.eachVerdict(func(ctx context.Context, v verdict) runner.Outcome {
				v.Result = nil
				return w.right(ctx, v)
			})
		}},
		{"stores a result where there is none", "SuccessNeedsNoResult", func(w *wrong) {
			w.eachVerdict(func(ctx context.Context, v verdict) runner.Outcome {
				if v.Result == nil {
					v.Result = new(string)
				}
				return w.right(ctx, v)
			})
		}},
		{"stores the result without the success", "ResultOfALostVerdictIsNotStored", storesResultsFirst},
		{"stores the success of a result that it refuses", "UnstorableResultIsNoSuccess", func(w *wrong) {
			w.eachVerdict(func(ctx context.Context, v verdict) runner.Outcome {
				if v.Result != nil && *v.Result == badResult {
					v.Result = nil
				}
				return w.right(ctx, v)
			})
		}},
		{"loses a batch for one bad result", "UnstorableResultIsNoSuccess", func(w *wrong) {
			w.report = func(ctx context.Context, verdicts []verdict) ([]runner.Outcome, error) {
				for _, v := range verdicts {
					if v.Result != nil && *v.Result == badResult {
						return slices.Repeat([]runner.Outcome{runner.Lost}, len(verdicts)), nil
					}
				}
				return w.mem.Report(ctx, verdicts)
			}
		}},
		{"ignores eligibility", "IneligibleAtCompletion", func(w *wrong) {
			w.eachVerdict(func(ctx context.Context, v verdict) runner.Outcome {
				w.SetEligible(v.Token.(memqueueToken).Name, true)
				return w.right(ctx, v)
			})
		}},
		{"confirms without looking", "ConfirmOfAStandingClaimIsAFailure", func(w *wrong) {
			w.instead(runner.Confirm, runner.Succeed, runner.Succeeded, runner.Succeeded)
		}},
		{"loses what was settled elsewhere", "ConfirmOfASettledTaskIsASuccess", func(w *wrong) {
			w.instead(runner.Confirm, runner.Retry, runner.Retrying, runner.Retrying)
		}},
	}
}

func withoutDelay(decision runner.Decision) func(w *wrong) {
	return func(w *wrong) {
		w.eachVerdict(func(ctx context.Context, v verdict) runner.Outcome {
			if v.Decision == decision {
				v.Delay = 0
			}
			return w.right(ctx, v)
		})
	}
}

func acceptsASuccessTwice(w *wrong) {
	w.eachVerdict(func(ctx context.Context, v verdict) runner.Outcome {
		outcome := w.right(ctx, v)
		if outcome == runner.Lost && v.Decision == runner.Succeed {
			return runner.Succeeded
		}
		return outcome
	})
}

// spendsTwice counts a failure again that was recorded already.
func spendsTwice(w *wrong) {
	w.eachVerdict(func(ctx context.Context, v verdict) runner.Outcome {
		outcome := w.right(ctx, v)
		if outcome == runner.Lost && v.Decision == runner.Retry {
			if again, ok := w.retake(ctx, v.Token.(memqueueToken).Name); ok {
				v.Token = again.Token
				return w.right(ctx, v)
			}
		}
		return outcome
	})
}

// storesResultsFirst writes the result in a statement of its own, before the success that it belongs to is fenced.
func storesResultsFirst(w *wrong) {
	results := make(map[string]string)
	w.eachVerdict(func(ctx context.Context, v verdict) runner.Outcome {
		if v.Result != nil {
			w.mu.Lock()
			results[v.Token.(memqueueToken).Name] = *v.Result
			w.mu.Unlock()
		}
		return w.right(ctx, v)
	})
	lookRight := w.h.Look
	w.h.Look = func(name string) queuetest.Item {
		item := lookRight(name)
		if text, ok := results[name]; ok && item.State != queuetest.Absent {
			item.HasResult, item.Result = true, text
		}
		return item
	}
}
