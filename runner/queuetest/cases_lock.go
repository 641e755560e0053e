package queuetest

import (
	"slices"

	"github.com/pgqueue/pgqueue/runner"
)

func lockCases[P, R any]() []Case[P, R] {
	need := []Capability{Locks}
	return []Case[P, R]{
		{Name: "LockedTaskIsBusyAlone", Needs: need, test: lockedTaskIsBusyAlone[P, R]},
		{Name: "LockedTaskIsBusyForEveryDecision", Needs: need, test: lockedTaskIsBusyForEveryDecision[P, R]},
		{Name: "LockedTaskIsPassedOverByClaims", Needs: need, test: lockedTaskIsPassedOverByClaims[P, R]},
		{Name: "LockedTaskIsPassedOverByRecovery", Needs: need, test: lockedTaskIsPassedOverByRecovery[P, R]},
		{Name: "LockedLeaseIsNotRefused", Needs: append(need, Renewal), test: lockedLeaseIsNotRefused[P, R]},
	}
}

func lockedTaskIsBusyAlone[P, R any](e *env[P, R]) {
	e.add("a", "b", "c", "d")
	tasks := e.claimAll("a", "b", "c", "d")
	unlock := e.Lock("b")
	e.Cleanup(unlock)
	got := e.report(e.success(tasks["a"], "a"), e.success(tasks["b"], "b"), e.success(tasks["c"], "c"), e.verdict(tasks["d"], runner.Retry))
	want := []runner.Outcome{runner.Succeeded, runner.Busy, runner.Succeeded, runner.Retrying}
	if !slices.Equal(got, want) {
		e.Fatalf("outcomes %s, want %s", outcomeNames(got), outcomeNames(want))
	}
	unlock()
	e.wantState("b", Claimed)
	e.wantNoResult("b", "it was locked")
	e.wantOutcome("the same verdict after the lock", e.success(tasks["b"], "b"), runner.Succeeded)
	e.wantResult("b", "b")
}

func lockedTaskIsBusyForEveryDecision[P, R any](e *env[P, R]) {
	for _, decision := range decisions() {
		name := "locked-" + decisionName(decision)
		e.add(name)
		task := e.claimOnly(name)
		unlock := e.Lock(name)
		e.Cleanup(unlock)
		outcome := e.report(e.verdict(task, decision))[0]
		unlock()
		if outcome != runner.Busy {
			e.Fatalf("%s of a locked task was answered %s, want Busy", decisionName(decision), outcomeName(outcome))
		}
		e.wantState(name, Claimed)
		e.want(task, runner.Succeed, runner.Succeeded)
	}
}

func lockedTaskIsPassedOverByClaims[P, R any](e *env[P, R]) {
	e.add("a", "b", "c")
	unlock := e.Lock("a")
	e.Cleanup(unlock)
	e.wantOrder(e.claim(1), "b")
	e.wantOrder(e.claim(10), "c")
	unlock()
	e.claimOnly("a")
}

func lockedTaskIsPassedOverByRecovery[P, R any](e *env[P, R]) {
	e.add("a", "b", "c")
	e.claimAll("a", "b", "c")
	e.ExpireLeases()
	unlock := e.Lock("a")
	e.Cleanup(unlock)
	e.wantRecovered(2, 2)
	unlock()
	e.wantState("a", Claimed)
	e.wantState("b", Waiting)
	e.wantState("c", Waiting)
	e.wantRecovered(2, 1)
}

// Nobody else can claim or recover the row either, so its handler must not be stopped.
func lockedLeaseIsNotRefused[P, R any](e *env[P, R]) {
	e.add("a", "b")
	tasks := e.claimAll("a", "b")
	unlock := e.Lock("a")
	e.Cleanup(unlock)
	e.wantRenewals([]runner.Task[P]{tasks["a"], tasks["b"]}, runner.Locked, runner.Renewed)
	unlock()
	e.wantRenewals([]runner.Task[P]{tasks["a"]}, runner.Renewed)
	e.want(tasks["a"], runner.Succeed, runner.Succeeded)
}
