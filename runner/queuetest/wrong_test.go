package queuetest_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pgqueue/pgqueue/runner"
	"github.com/pgqueue/pgqueue/runner/memqueue"
	"github.com/pgqueue/pgqueue/runner/queuetest"
)

type (
	task      = runner.Task[payload]
	verdict   = runner.Verdict[string]
	mem       = memqueue.Queue[payload, string]
	claimFunc = func(ctx context.Context, request runner.ClaimRequest) ([]task, error)
)

// wrong is a queue in memory that breaks a rule: each function replaces a method, and calls the right one where it wants.
type wrong struct {
	*mem
	h *harness // may be changed too, before the case runs

	claim   claimFunc
	report  func(ctx context.Context, verdicts []verdict) ([]runner.Outcome, error)
	renew   func(ctx context.Context, tokens []runner.Token, lease time.Duration) ([]runner.Renewal, error)
	nextDue func(ctx context.Context) (time.Duration, bool, error)

	mu    sync.Mutex
	names []string // of all items that were added
}

func (w *wrong) Claim(ctx context.Context, request runner.ClaimRequest) ([]task, error) {
	return w.claim(ctx, request)
}

func (w *wrong) Report(ctx context.Context, verdicts []verdict) ([]runner.Outcome, error) {
	return w.report(ctx, verdicts)
}

func (w *wrong) Renew(ctx context.Context, tokens []runner.Token, lease time.Duration) ([]runner.Renewal, error) {
	return w.renew(ctx, tokens, lease)
}

func (w *wrong) NextDue(ctx context.Context) (time.Duration, bool, error) { return w.nextDue(ctx) }

// wrongQueue is one rule broken.
type wrongQueue struct {
	name     string
	caughtBy string // the case that must fail
	breakIt  func(w *wrong)
}

// newWrong makes a queue that is right until it is broken.
func newWrong(breakIt func(w *wrong)) harness {
	h, q := memory(memqueue.Config{})
	w := &wrong{mem: q, h: &h, claim: q.Claim, report: q.Report, renew: q.Renew, nextDue: q.NextDue}
	h.Queue = w
	add := h.Add
	h.Add = func(item queuetest.NewItem) {
		w.mu.Lock()
		w.names = append(w.names, item.Name)
		w.mu.Unlock()
		add(item)
	}
	breakIt(w)
	return h
}

// eachVerdict replaces Report by a function of one verdict.
func (w *wrong) eachVerdict(f func(ctx context.Context, v verdict) runner.Outcome) {
	w.report = func(ctx context.Context, verdicts []verdict) ([]runner.Outcome, error) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		outcomes := make([]runner.Outcome, len(verdicts))
		for i, v := range verdicts {
			outcomes[i] = f(ctx, v)
		}
		return outcomes, nil
	}
}

// right is what the right queue answers to one verdict.
func (w *wrong) right(ctx context.Context, v verdict) runner.Outcome {
	outcomes, err := w.mem.Report(ctx, []verdict{v})
	if err != nil {
		return runner.Busy
	}
	return outcomes[0]
}

// instead carries out another decision and passes its outcome off as that of the one asked for.
func (w *wrong) instead(asked, done runner.Decision, real, told runner.Outcome) {
	w.eachVerdict(func(ctx context.Context, v verdict) runner.Outcome {
		wasAsked := v.Decision == asked
		if wasAsked {
			v.Decision = done
		}
		outcome := w.right(ctx, v)
		if wasAsked && outcome == real {
			return told
		}
		return outcome
	})
}

// retake claims one waiting task, due or not, for a wrong queue that wants to do something to it.
func (w *wrong) retake(ctx context.Context, name string) (task, bool) {
	w.SetDue(name, time.Now())
	tasks, err := w.mem.Claim(ctx, runner.ClaimRequest{Limit: 1000, Lease: time.Hour})
	if err != nil {
		return task{}, false
	}
	var found task
	for _, t := range tasks {
		if t.Payload.name == name {
			found = t
			continue
		}
		w.right(ctx, verdict{Token: t.Token, Decision: runner.Release})
	}
	return found, found.Token != nil
}

// A case with the real runner in it would wait for its whole patience when the queue is wrong; the rule that it is about
// has a case without the runner, too.
func withoutRunner() []queuetest.Case[payload, string] {
	return slices.DeleteFunc(queuetest.Cases[payload, string](), func(c queuetest.Case[payload, string]) bool {
		return strings.HasPrefix(c.Name, "Runner")
	})
}

func wrongQueues() []wrongQueue {
	return slices.Concat(wrongClaims(), wrongVerdicts(), wrongFences(), wrongLeases(), wrongInputs())
}

func TestWrongQueuesAreCaught(t *testing.T) {
	for _, q := range wrongQueues() {
		t.Run(q.name, func(t *testing.T) {
			failures := make(map[string]string)
			for _, c := range withoutRunner() {
				if message := record(t, c, newWrong(q.breakIt)); message != "" {
					failures[c.Name] = message
				}
			}
			if failures[q.caughtBy] == "" {
				t.Errorf("%s did not catch it; failed: %v", q.caughtBy, slices.Sorted(maps.Keys(failures)))
			}
			t.Logf("%s: %s", q.caughtBy, failures[q.caughtBy])
			delete(failures, q.caughtBy)
			t.Logf("failed too: %v", slices.Sorted(maps.Keys(failures)))
		})
	}
}

// The wrapper itself breaks nothing, so what is caught above is the rule that was broken.
func TestUnbrokenQueueFailsNoCase(t *testing.T) {
	for _, c := range queuetest.Cases[payload, string]() {
		if message := record(t, c, newWrong(func(*wrong) {})); message != "" {
			t.Errorf("%s: %s", c.Name, message)
		}
	}
}

// Every case must be able to fail: a case that no wrong queue fails may test nothing.
func TestEveryCaseCatchesAWrongQueue(t *testing.T) {
	queues := wrongQueues()
	for _, c := range withoutRunner() {
		caught := slices.ContainsFunc(queues, func(q wrongQueue) bool { return record(t, c, newWrong(q.breakIt)) != "" })
		if !caught {
			t.Errorf("no wrong queue fails %s", c.Name)
		}
	}
}
