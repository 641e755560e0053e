package queuetest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pgqueue/pgqueue/runner"
)

const (
	// lease outlasts any case, so that it runs out only when a case wants it.
	lease = time.Hour
	// far is a delay that does not pass while a case runs, and slack is how far from it a due time may be read.
	far   = 2 * time.Hour
	slack = 30 * time.Minute
	// patience bounds a case: a queue that waits for a lock fails instead of hanging.
	patience = time.Minute
)

// env is what a case works with. Its methods end the case when the queue does something that no case allows.
type env[P, R any] struct {
	testing.TB
	Harness[P, R]
	ctx context.Context
}

func newEnv[P, R any](tb testing.TB, h Harness[P, R]) *env[P, R] {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	tb.Cleanup(cancel)
	return &env[P, R]{TB: tb, Harness: h, ctx: ctx}
}

// add adds items that are due, in this order.
func (e *env[P, R]) add(names ...string) {
	e.Helper()
	for i, name := range names {
		e.put(NewItem{Name: name, Due: time.Duration(i-len(names)) * time.Second})
	}
}

// put adds one item, with what the case left open filled in.
func (e *env[P, R]) put(item NewItem) {
	if item.Kind == "" {
		item.Kind = KindA
	}
	if item.Class == 0 {
		item.Class = runner.ClassFresh
	}
	if item.Revision == "" {
		item.Revision = "r1"
	}
	e.Add(item)
}

// request wants any task.
func (e *env[P, R]) request(limit int) runner.ClaimRequest {
	r := runner.ClaimRequest{Limit: limit, Lease: lease, Classes: []runner.Class{1, 2, 3, 4}}
	if e.has(Kinds) {
		r.Kinds = []string{KindA, KindB}
	}
	return r
}

func (e *env[P, R]) claimWith(request runner.ClaimRequest) []runner.Task[P] {
	e.Helper()
	tasks, err := e.Queue.Claim(e.ctx, request)
	if err != nil {
		e.Fatalf("Claim: %v", err)
	}
	if len(tasks) > request.Limit {
		e.Fatalf("Claim returned %d tasks, the limit is %d", len(tasks), request.Limit)
	}
	for _, task := range tasks {
		if task.Token == nil {
			e.Fatalf("Claim returned a task without a token")
		}
	}
	return tasks
}

func (e *env[P, R]) claim(limit int) []runner.Task[P] {
	e.Helper()
	return e.claimWith(e.request(limit))
}

// nameOf is Harness.Name; testing.TB has a Name too.
func (e *env[P, R]) nameOf(task runner.Task[P]) string { return e.Harness.Name(task) }

// names tells which items tasks are, in their order.
func (e *env[P, R]) names(tasks []runner.Task[P]) []string {
	names := make([]string, len(tasks))
	for i, task := range tasks {
		names[i] = e.nameOf(task)
	}
	return names
}

// claimOnly claims everything that is due, which must be one item.
func (e *env[P, R]) claimOnly(name string) runner.Task[P] {
	e.Helper()
	tasks := e.claim(10)
	if got := e.names(tasks); !slices.Equal(got, []string{name}) {
		e.Fatalf("claimed %v, want only %q", got, name)
	}
	return tasks[0]
}

// claimAll claims everything that is due and returns it by name.
func (e *env[P, R]) claimAll(want ...string) map[string]runner.Task[P] {
	e.Helper()
	tasks := e.claim(1000)
	byName := make(map[string]runner.Task[P], len(tasks))
	for _, task := range tasks {
		byName[e.nameOf(task)] = task
	}
	got := e.names(tasks)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		e.Fatalf("claimed %v, want %v", got, want)
	}
	return byName
}

func (e *env[P, R]) claimNothing(why string) {
	e.Helper()
	if got := e.names(e.claim(10)); len(got) > 0 {
		e.Fatalf("claimed %v, want nothing: %s", got, why)
	}
}

// verdict is a decision with what belongs to it.
func (e *env[P, R]) verdict(task runner.Task[P], decision runner.Decision) runner.Verdict[R] {
	v := runner.Verdict[R]{Token: task.Token, Decision: decision}
	if decision == runner.Retry || decision == runner.Fail || decision == runner.Confirm {
		v.Failure = &runner.Failure{Code: "test", Message: "the suite wanted it to fail"}
	}
	return v
}

// success is a success with a result, where the queue stores results.
func (e *env[P, R]) success(task runner.Task[P], text string) runner.Verdict[R] {
	v := e.verdict(task, runner.Succeed)
	if e.has(Results) {
		r := e.Result(text)
		v.Result = &r
	}
	return v
}

// report is Report, with what holds for every answer.
func (e *env[P, R]) report(verdicts ...runner.Verdict[R]) []runner.Outcome {
	e.Helper()
	outcomes, err := e.Queue.Report(e.ctx, verdicts)
	if err != nil {
		e.Fatalf("Report: %v", err)
	}
	if len(outcomes) != len(verdicts) {
		e.Fatalf("Report answered %d of %d verdicts", len(outcomes), len(verdicts))
	}
	return outcomes
}

func (e *env[P, R]) wantOutcome(what string, v runner.Verdict[R], want ...runner.Outcome) runner.Outcome {
	e.Helper()
	got := e.report(v)[0]
	if !slices.Contains(want, got) {
		e.Fatalf("%s: outcome %s, want %s", what, outcomeName(got), outcomeNames(want))
	}
	return got
}

// want reports a decision about one task.
func (e *env[P, R]) want(task runner.Task[P], decision runner.Decision, want ...runner.Outcome) runner.Outcome {
	e.Helper()
	return e.wantOutcome(decisionName(decision), e.verdict(task, decision), want...)
}

// wantState checks where an item is. Without history an ended item is absent.
func (e *env[P, R]) wantState(name string, want State) Item {
	e.Helper()
	item := e.Look(name)
	if want >= Succeeded && !e.has(History) {
		want = Absent
	}
	if item.State != want {
		e.Fatalf("item %q is %s, want %s", name, item.State, want)
	}
	return item
}

func (e *env[P, R]) wantFailures(name string, want int) {
	e.Helper()
	if got := e.Look(name).Failures; e.has(FailureCount) && got != want {
		e.Fatalf("item %q has %d failures, want %d", name, got, want)
	}
}

func (e *env[P, R]) wantDueIn(name string, want time.Duration) {
	e.Helper()
	if got := e.Look(name).DueIn; got < want-slack || got > want+slack {
		e.Fatalf("item %q is due in %v, want about %v", name, got, want)
	}
}

// unchanged runs do, after which the item must stand as before.
func (e *env[P, R]) unchanged(name, what string, do func()) {
	e.Helper()
	before := e.Look(name)
	do()
	after := e.Look(name)
	if moved := (after.DueIn - before.DueIn).Abs(); before.State == Waiting && moved > slack {
		e.Fatalf("%s moved the due time of item %q by %v", what, name, moved)
	}
	before.DueIn, after.DueIn = 0, 0
	if before != after {
		e.Fatalf("%s changed item %q:\n  before %+v\n  after  %+v", what, name, before, after)
	}
}

// lapse lets the leases that are held run out and recovers them all.
func (e *env[P, R]) lapse(want int) {
	e.Helper()
	e.ExpireLeases()
	e.wantRecovered(100, want)
}

func (e *env[P, R]) wantRecovered(limit, want int) {
	e.Helper()
	got, err := e.Recover(e.ctx, limit)
	if err != nil {
		e.Fatalf("Recover: %v", err)
	}
	if got != want {
		e.Fatalf("Recover(limit %d) returned %d leases, want %d", limit, got, want)
	}
}

// reclaim takes the claim of an item away from its worker: the lease runs out, is recovered, and another one claims.
func (e *env[P, R]) reclaim(name string) runner.Task[P] {
	e.Helper()
	e.lapse(1)
	e.makeDue(name)
	return e.claimOnly(name)
}

// makeDue is for items that a recovery or a retry may have delayed.
func (e *env[P, R]) makeDue(name string) {
	if e.Look(name).State == Waiting {
		e.MakeDue(name)
	}
}

func item(i int) string { return fmt.Sprintf("item-%03d", i) }
