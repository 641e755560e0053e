package queuetest

import (
	"github.com/pgqueue/pgqueue/runner"
)

func revisionCases[P, R any]() []Case[P, R] {
	need := []Capability{Revisions}
	return []Case[P, R]{
		{Name: "ReplacedWhileWaiting", Needs: need, test: replacedWhileWaiting[P, R]},
		{Name: "ReplacedDuringTheRunIsSuperseded", Needs: need, test: replacedDuringTheRunIsSuperseded[P, R]},
		{Name: "SupersededHasTheNewestInput", Needs: need, test: supersededHasTheNewestInput[P, R]},
		{Name: "SupersededOnceOnly", Needs: need, test: supersededOnceOnly[P, R]},
		{Name: "ReplacedThereAndBack", Needs: need, test: replacedThereAndBack[P, R]},
		{Name: "ReplacedHasAWholeBudget", Needs: need, test: replacedHasAWholeBudget[P, R]},
		{Name: "RecoveryOfASupersededRunIsFree", Needs: need, test: recoveryOfASupersededRunIsFree[P, R]},
		{Name: "LateSuccessOfReplacedInput", Needs: need, test: lateSuccessOfReplacedInput[P, R]},
	}
}

// claimRevision claims everything that is due, which must be one item with this revision.
func (e *env[P, R]) claimRevision(name, revision string) runner.Task[P] {
	e.Helper()
	e.makeDue(name)
	task := e.claimOnly(name)
	if got := e.Revision(task.Payload); got != revision {
		e.Fatalf("item %q was claimed with revision %q, want %q", name, got, revision)
	}
	return task
}

func replacedWhileWaiting[P, R any](e *env[P, R]) {
	e.put(NewItem{Name: "a", Revision: "r1"})
	e.Replace("a", "r2")
	task := e.claimRevision("a", "r2")
	e.wantOutcome("its success", e.success(task, "two"), runner.Succeeded)
	e.wantResult("a", "two")
	e.claimNothing("one item, one run")
}

func replacedDuringTheRunIsSuperseded[P, R any](e *env[P, R]) {
	for _, decision := range decisions() {
		name := "replaced-" + decisionName(decision)
		e.put(NewItem{Name: name, Revision: "r1"})
		task := e.claimRevision(name, "r1")
		e.Replace(name, "r2")
		v := e.verdict(task, decision)
		if decision == runner.Succeed {
			v = e.success(task, "one")
		}
		e.wantOutcome(decisionName(decision)+" of the old input", v, runner.Superseded)
		if got := e.wantState(name, Waiting); got.Revision != "r2" {
			e.Fatalf("item %q has revision %q after %s, want r2", name, got.Revision, decisionName(decision))
		}
		e.wantFailures(name, 0)
		e.wantNoResult(name, "the result belongs to the old input")
		e.wantOutcome("a success of the new input", e.success(e.claimRevision(name, "r2"), "two"), runner.Succeeded)
		e.wantResult(name, "two")
	}
}

func supersededHasTheNewestInput[P, R any](e *env[P, R]) {
	e.put(NewItem{Name: "a", Revision: "r1"})
	task := e.claimRevision("a", "r1")
	e.Replace("a", "r2")
	e.Replace("a", "r3")
	e.wantOutcome("the success of the old input", e.success(task, "one"), runner.Superseded)
	e.Replace("a", "r4")
	task = e.claimRevision("a", "r4")
	e.Replace("a", "r5")
	e.wantOutcome("the success of the old input", e.success(task, "four"), runner.Superseded)
	e.wantOutcome("the success of the newest", e.success(e.claimRevision("a", "r5"), "five"), runner.Succeeded)
	e.wantResult("a", "five")
}

func supersededOnceOnly[P, R any](e *env[P, R]) {
	e.put(NewItem{Name: "a", Revision: "r1"})
	old := e.claimRevision("a", "r1")
	e.Replace("a", "r2")
	e.want(old, runner.Succeed, runner.Superseded)
	for _, decision := range decisions() {
		e.stale("a", old, decision)
	}
	fresh := e.claimRevision("a", "r2")
	for _, decision := range decisions() {
		e.stale("a", old, decision)
	}
	e.want(fresh, runner.Succeed, runner.Succeeded)
}

// A revision that is a content hash may come back during the run: then the result belongs to the content. A revision that
// counts has moved on. Either is right, and answer and item must agree.
func replacedThereAndBack[P, R any](e *env[P, R]) {
	e.put(NewItem{Name: "a", Revision: "r1"})
	task := e.claimRevision("a", "r1")
	e.Replace("a", "r2")
	e.Replace("a", "r1")
	if e.wantOutcome("the success", e.success(task, "first"), runner.Succeeded, runner.Superseded) == runner.Succeeded {
		e.wantState("a", Succeeded)
		e.wantResult("a", "first")
		e.claimNothing("the task has ended")
		return
	}
	e.wantState("a", Waiting)
	e.wantNoResult("a", "the run was superseded")
	e.wantOutcome("the success of the second run", e.success(e.claimRevision("a", "r1"), "second"), runner.Succeeded)
	e.wantResult("a", "second")
}

func replacedHasAWholeBudget[P, R any](e *env[P, R]) {
	e.put(NewItem{Name: "a", Revision: "r1"})
	for range e.Budget - 1 {
		e.want(e.claimRevision("a", "r1"), runner.Retry, runner.Retrying)
	}
	e.Replace("a", "r2")
	e.wantFailures("a", 0)
	for range e.Budget - 1 {
		e.want(e.claimRevision("a", "r2"), runner.Retry, runner.Retrying)
	}
	e.want(e.claimRevision("a", "r2"), runner.Retry, runner.Dead)
}

// Otherwise the new input could die without a run: budget nearly spent, replaced, and the worker of the old input killed.
func recoveryOfASupersededRunIsFree[P, R any](e *env[P, R]) {
	e.put(NewItem{Name: "a", Revision: "r1"})
	for range e.Budget - 1 {
		e.want(e.claimRevision("a", "r1"), runner.Retry, runner.Retrying)
	}
	e.claimRevision("a", "r1")
	e.Replace("a", "r2")
	e.lapse(1)
	e.wantState("a", Waiting)
	e.wantFailures("a", 0)
	for range e.Budget - 1 {
		e.want(e.claimRevision("a", "r2"), runner.Retry, runner.Retrying)
	}
	e.want(e.claimRevision("a", "r2"), runner.Retry, runner.Dead)
}

func lateSuccessOfReplacedInput[P, R any](e *env[P, R]) {
	e.put(NewItem{Name: "a", Revision: "r1"})
	task := e.claimRevision("a", "r1")
	e.lapse(1)
	e.Replace("a", "r2")
	e.wantOutcome("the late success of the old input", e.success(task, "one"), runner.Superseded, runner.Lost)
	e.wantState("a", Waiting)
	e.wantNoResult("a", "the result belongs to the old input")
	e.want(e.claimRevision("a", "r2"), runner.Succeed, runner.Succeeded)
}
