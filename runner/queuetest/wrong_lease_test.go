package queuetest_test

import (
	"context"
	"slices"
	"time"

	"github.com/pgqueue/pgqueue/runner"
	"github.com/pgqueue/pgqueue/runner/memqueue"
)

// eachRenewal replaces the answers to renewals.
func eachRenewal(change func(w *wrong, token runner.Token, right runner.Renewal) runner.Renewal) func(w *wrong) {
	return func(w *wrong) {
		w.renew = func(ctx context.Context, tokens []runner.Token, lease time.Duration) ([]runner.Renewal, error) {
			renewals, err := w.mem.Renew(ctx, tokens, lease)
			for i := range renewals {
				renewals[i] = change(w, tokens[i], renewals[i])
			}
			return renewals, err
		}
	}
}

// saysRenewedInsteadOf hides one answer.
func saysRenewedInsteadOf(wrongAnswer runner.Renewal) func(w *wrong) {
	return eachRenewal(func(_ *wrong, _ runner.Token, right runner.Renewal) runner.Renewal {
		if right == wrongAnswer {
			return runner.Renewed
		}
		return right
	})
}

func wrongLeases() []wrongQueue {
	return []wrongQueue{
		{"recovers nothing", "ExpiredLeaseIsRecovered", func(w *wrong) {
			w.h.Recover = func(context.Context, int) (int, error) { return 0, nil }
		}},
		{"does not check the lease at recovery", "LiveLeaseIsNotRecovered", func(w *wrong) {
			right := w.h.Recover
			w.h.Recover = func(ctx context.Context, limit int) (int, error) {
				w.ExpireLeases()
				return right(ctx, limit)
			}
		}},
		{"recovers without a bound", "RecoveryIsBounded", func(w *wrong) {
			right := w.h.Recover
			w.h.Recover = func(ctx context.Context, _ int) (int, error) { return right(ctx, 1000) }
		}},
		{"recovers for nothing", "RecoverySpendsTheBudget", recoversBy(runner.Release)},
		{"closes the claim at recovery", "LateSuccess", recoversBy(runner.Retry)},
		{"puts a verdict off when the lease has run out", "ExpiredLeaseStandsUntilItIsTaken", func(w *wrong) {
			w.eachVerdict(func(ctx context.Context, v verdict) runner.Outcome {
				it, _ := w.Get(v.Token.(memqueueToken).Name)
				if it.State == memqueue.Running && !it.LeaseUntil.After(time.Now()) {
					return runner.Busy
				}
				return w.right(ctx, v)
			})
		}},
		{"accepts a late success twice", "LateSuccessCountsOnce", acceptsASuccessTwice},
		{"says done and leaves a task dead", "LateSuccessOfADeadTask", func(w *wrong) {
			w.eachVerdict(func(ctx context.Context, v verdict) runner.Outcome {
				if it, _ := w.Get(v.Token.(memqueueToken).Name); it.State == memqueue.Dead {
					return runner.Succeeded
				}
				return w.right(ctx, v)
			})
		}},
		{"recovers a locked row", "LockedTaskIsPassedOverByRecovery", func(w *wrong) {
			locked := w.trackLocks()
			right := w.h.Recover
			w.h.Recover = func(ctx context.Context, limit int) (int, error) {
				for name := range locked {
					w.Unlock(name)
					defer w.Lock(name)
				}
				return right(ctx, limit)
			}
		}},
		{"says renewed after the loss", "RenewalAfterTheLossIsRefused", saysRenewedInsteadOf(runner.Refused)},
		{"says renewed after the end", "RenewalAfterTheEndIsRefused", saysRenewedInsteadOf(runner.Refused)},
		{"says renewed and extends nothing", "RenewalExtendsTheLease", func(w *wrong) {
			w.renew = func(ctx context.Context, tokens []runner.Token, _ time.Duration) ([]runner.Renewal, error) {
				return w.mem.Renew(ctx, tokens, 1)
			}
		}},
		{"answers renewals in the wrong order", "RenewalIsAnsweredByPosition", func(w *wrong) {
			w.renew = func(ctx context.Context, tokens []runner.Token, lease time.Duration) ([]runner.Renewal, error) {
				renewals, err := w.mem.Renew(ctx, tokens, lease)
				slices.Reverse(renewals)
				return renewals, err
			}
		}},
		{"renews by key", "RenewalOfARecreatedTaskIsRefused", func(w *wrong) {
			w.renew = func(ctx context.Context, tokens []runner.Token, lease time.Duration) ([]runner.Renewal, error) {
				forged := slices.Clone(tokens)
				for i, token := range tokens {
					if it, ok := w.Get(token.(memqueueToken).Name); ok {
						forged[i] = memqueueToken{ID: it.ID, Name: it.Name, Attempt: it.Attempt}
					}
				}
				return w.mem.Renew(ctx, forged, lease)
			}
		}},
		{"keeps a request to cancel to itself", "RenewalTellsOfACancelRequest", saysRenewedInsteadOf(runner.CancelRequested)},
		{"refuses to renew a locked row", "LockedLeaseIsNotRefused", eachRenewal(
			func(_ *wrong, _ runner.Token, right runner.Renewal) runner.Renewal {
				if right == runner.Locked {
					return runner.Refused
				}
				return right
			})},
		{"answers a renewal of nothing", "RenewalOfNothing", func(w *wrong) {
			w.renew = func(ctx context.Context, tokens []runner.Token, lease time.Duration) ([]runner.Renewal, error) {
				if len(tokens) == 0 {
					return []runner.Renewal{runner.Refused}, nil
				}
				return w.mem.Renew(ctx, tokens, lease)
			}
		}},
		{"renews with a cancelled context", "RenewalOfACancelledContextIsAnError", func(w *wrong) {
			w.renew = func(ctx context.Context, tokens []runner.Token, lease time.Duration) ([]runner.Renewal, error) {
				return w.mem.Renew(context.WithoutCancel(ctx), tokens, lease)
			}
		}},
	}
}

// recoversBy returns leases that ran out with a verdict of its own, which closes the claim.
func recoversBy(decision runner.Decision) func(w *wrong) {
	return func(w *wrong) {
		w.h.Recover = func(ctx context.Context, limit int) (int, error) {
			n := 0
			for _, name := range w.names {
				it, ok := w.Get(name)
				if !ok || it.State != memqueue.Running || it.LeaseUntil.After(time.Now()) || n == limit {
					continue
				}
				w.right(ctx, verdict{Token: memqueueToken{ID: it.ID, Name: name, Attempt: it.Attempt}, Decision: decision})
				n++
			}
			return n, nil
		}
	}
}
