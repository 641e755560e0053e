package queuetest_test

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pgqueue/pgqueue/runner"
)

// beforeClaim breaks the request.
func beforeClaim(change func(request *runner.ClaimRequest)) func(w *wrong) {
	return func(w *wrong) {
		w.claim = func(ctx context.Context, request runner.ClaimRequest) ([]task, error) {
			change(&request)
			return w.mem.Claim(ctx, request)
		}
	}
}

// afterClaim breaks the answer.
func afterClaim(change func(w *wrong, request runner.ClaimRequest, tasks []task) []task) func(w *wrong) {
	return func(w *wrong) {
		w.claim = func(ctx context.Context, request runner.ClaimRequest) ([]task, error) {
			tasks, err := w.mem.Claim(ctx, request)
			if err != nil {
				return nil, err
			}
			return change(w, request, tasks), nil
		}
	}
}

func wrongClaims() []wrongQueue {
	return []wrongQueue{
		{"claims one more than the limit", "ClaimNeverExceedsTheLimit", beforeClaim(func(r *runner.ClaimRequest) { r.Limit++ })},
		{"applies the limit to each class", "ClaimNeverExceedsTheLimitOverClasses", limitOfEachClass},
		{"leases more than it returns", "ClaimLeasesOnlyWhatItReturns", leasesMoreThanItReturns},
		{"hands out a claimed task again", "ClaimedTaskIsNotClaimedAgain", handsOutAgain},
		{"hands out a task to two claimers", "ConcurrentClaimsAreDisjoint", handsOutAgain},
		{"forgets to tell the task", "ClaimTellsTheTask", afterClaim(func(_ *wrong, _ runner.ClaimRequest, tasks []task) []task {
			for i := range tasks {
				tasks[i] = task{Token: tasks[i].Token, Payload: payload{name: tasks[i].Payload.name}, Err: tasks[i].Err}
			}
			return tasks
		})},
		{"invents a task", "ClaimOfAnEmptyQueueIsEmpty", afterClaim(func(_ *wrong, _ runner.ClaimRequest, tasks []task) []task {
			if len(tasks) == 0 {
				tasks = append(tasks, task{Token: words("nobody")})
			}
			return tasks
		})},
		{"ignores the order", "ClaimFollowsTheDueTime", afterClaim(func(_ *wrong, _ runner.ClaimRequest, tasks []task) []task {
			slices.Reverse(tasks)
			return tasks
		})},
		{"ignores the due time", "FutureTaskWaits", ignoresTheDueTime},
		{"ignores the preference of classes", "ClaimPrefersTheFirstClass", beforeClaim(func(r *runner.ClaimRequest) {
			r.Classes = slices.Sorted(slices.Values(r.Classes))
		})},
		{"ignores classes", "ClaimLeavesOtherClasses", beforeClaim(func(r *runner.ClaimRequest) { r.Classes = nil })},
		{"does not borrow", "ClaimBorrowsForTheNextClass", beforeClaim(func(r *runner.ClaimRequest) { r.Classes = r.Classes[:1] })},
		{"looks at one class only", "FutureTasksOfAClassHideNoOther", beforeClaim(func(r *runner.ClaimRequest) {
			r.Classes = r.Classes[:1]
		})},
		{"ignores kinds", "ClaimLeavesOtherKinds", beforeClaim(func(r *runner.ClaimRequest) { r.Kinds = nil })},
		{"takes nil kinds for none", "NilKindsMeanAnyKind", beforeClaim(func(r *runner.ClaimRequest) {
			if r.Kinds == nil {
				r.Kinds = []string{}
			}
		})},
		{"filters kinds after the limit", "WaitingKindHidesNoOther", filtersKindsAfterTheLimit},
		{"claims with a cancelled context", "ClaimOfACancelledContextLeasesNothing", func(w *wrong) {
			w.claim = func(ctx context.Context, r runner.ClaimRequest) ([]task, error) {
				return w.mem.Claim(context.WithoutCancel(ctx), r)
			}
		}},
		{"leases although it returns the context's error", "ClaimOfACancelledContextLeasesNothing", func(w *wrong) {
			w.claim = func(ctx context.Context, r runner.ClaimRequest) ([]task, error) {
				tasks, _ := w.mem.Claim(context.WithoutCancel(ctx), r)
				return tasks, ctx.Err()
			}
		}},
		{"fails the claim for one broken task", "UndecodableTaskFailsAlone", func(w *wrong) {
			w.claim = func(ctx context.Context, r runner.ClaimRequest) ([]task, error) {
				tasks, err := w.mem.Claim(ctx, r)
				for _, t := range tasks {
					err = errors.Join(err, t.Err)
				}
				return tasks, err
			}
		}},
		{"stops at a locked row", "LockedTaskIsPassedOverByClaims", func(w *wrong) {
			locked := w.trackLocks()
			w.claim = func(ctx context.Context, r runner.ClaimRequest) ([]task, error) {
				if len(locked) > 0 {
					return nil, nil
				}
				return w.mem.Claim(ctx, r)
			}
		}},
		{"claims when asked for the next due time", "NextDueClaimsNothing", func(w *wrong) {
			w.nextDue = func(ctx context.Context) (time.Duration, bool, error) {
				wait, ok, err := w.NextDueOf(ctx)
				_, _ = w.mem.Claim(ctx, runner.ClaimRequest{Limit: 1, Lease: time.Hour})
				return wait, ok, err
			}
		}},
		{"says that something is always due", "NextDueOfAnEmptyQueue", func(w *wrong) {
			w.nextDue = func(context.Context) (time.Duration, bool, error) { return 0, true, nil }
		}},
		{"says that nothing is ever due", "NextDueIsTheEarliest", func(w *wrong) {
			w.nextDue = func(context.Context) (time.Duration, bool, error) { return 0, false, nil }
		}},
		{"remembers the next due time", "NextDueFollowsTheVerdicts", func(w *wrong) {
			var wait time.Duration
			var ok bool
			w.nextDue = func(ctx context.Context) (time.Duration, bool, error) {
				if !ok {
					wait, ok, _ = w.NextDueOf(ctx)
				}
				return wait, ok, nil
			}
		}},
	}
}

// NextDueOf is the right NextDue.
func (w *wrong) NextDueOf(ctx context.Context) (time.Duration, bool, error) {
	return w.mem.NextDue(ctx)
}

// words is a token of no queue.
type words string

func (w words) String() string { return string(w) }

func limitOfEachClass(w *wrong) {
	w.claim = func(ctx context.Context, request runner.ClaimRequest) ([]task, error) {
		var all []task
		for _, class := range request.Classes {
			one := request
			one.Classes = []runner.Class{class}
			tasks, err := w.mem.Claim(ctx, one)
			if err != nil {
				return nil, err
			}
			all = append(all, tasks...)
		}
		return all, nil
	}
}

func leasesMoreThanItReturns(w *wrong) {
	w.claim = func(ctx context.Context, request runner.ClaimRequest) ([]task, error) {
		limit := request.Limit
		request.Limit = 1000
		tasks, err := w.mem.Claim(ctx, request)
		return tasks[:min(limit, len(tasks))], err
	}
}

func handsOutAgain(w *wrong) {
	var last []task
	w.claim = func(ctx context.Context, request runner.ClaimRequest) ([]task, error) {
		tasks, err := w.mem.Claim(ctx, request)
		w.mu.Lock()
		defer w.mu.Unlock()
		if err == nil && len(tasks) == 0 {
			tasks, last = last, nil
			return tasks[:min(len(tasks), request.Limit)], nil
		}
		last = tasks
		return tasks, err
	}
}

func ignoresTheDueTime(w *wrong) {
	w.claim = func(ctx context.Context, request runner.ClaimRequest) ([]task, error) {
		w.mu.Lock()
		for _, name := range w.names {
			if found, ok := w.Get(name); ok && found.Due.After(time.Now()) {
				w.SetDue(name, time.Now())
			}
		}
		w.mu.Unlock()
		return w.mem.Claim(ctx, request)
	}
}

func filtersKindsAfterTheLimit(w *wrong) {
	w.claim = func(ctx context.Context, request runner.ClaimRequest) ([]task, error) {
		kinds := request.Kinds
		request.Kinds = nil
		tasks, err := w.mem.Claim(ctx, request)
		if err != nil || kinds == nil {
			return tasks, err
		}
		var kept []task
		for _, t := range tasks {
			if slices.Contains(kinds, t.Kind) {
				kept = append(kept, t)
			} else {
				w.right(ctx, verdict{Token: t.Token, Decision: runner.Release})
			}
		}
		return kept, nil
	}
}

// trackLocks returns the set of names that are locked, for queues that treat locks wrongly.
func (w *wrong) trackLocks() map[string]bool {
	locked := make(map[string]bool)
	lock := w.h.Lock
	w.h.Lock = func(name string) func() {
		locked[name] = true
		unlock := lock(name)
		return func() { delete(locked, name); unlock() }
	}
	return locked
}
