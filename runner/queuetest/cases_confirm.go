package queuetest

import (
	"github.com/pgqueue/pgqueue/runner"
)

func confirmCases[P, R any]() []Case[P, R] {
	return []Case[P, R]{
		{Name: "ConfirmOfAStandingClaimIsAFailure", test: confirmOfAStandingClaimIsAFailure[P, R]},
		{Name: "ConfirmOfASettledTaskIsASuccess", test: confirmOfASettledTaskIsASuccess[P, R]},
		{Name: "ConfirmOfALostClaimChangesNothing", test: confirmOfALostClaimChangesNothing[P, R]},
		{Name: "ConfirmOfReplacedInputIsSuperseded", Needs: []Capability{Revisions}, test: confirmOfReplacedInputIsSuperseded[P, R]},
		{Name: "ConfirmOfALockedTaskIsBusy", Needs: []Capability{Locks}, test: confirmOfALockedTaskIsBusy[P, R]},
	}
}

// The claim stands, so the transaction that was to settle the task did not commit.
func confirmOfAStandingClaimIsAFailure[P, R any](e *env[P, R]) {
	e.add("a")
	for range e.Budget - 1 {
		e.want(e.claimOnly("a"), runner.Confirm, runner.Retrying)
		e.wantState("a", Waiting)
	}
	e.wantFailures("a", e.Budget-1)
	e.want(e.claimOnly("a"), runner.Confirm, runner.Dead)
	e.wantState("a", Dead)
}

func confirmOfASettledTaskIsASuccess[P, R any](e *env[P, R]) {
	e.add("a")
	task := e.claimOnly("a")
	e.wantOutcome("the success", e.success(task, "x"), runner.Succeeded)
	e.unchanged("a", "a confirmation", func() { e.want(task, runner.Confirm, runner.Succeeded) })
	e.wantResult("a", "x")
}

// A queue may be unable to tell how the claim ended, so Succeeded is allowed; a change is not.
func confirmOfALostClaimChangesNothing[P, R any](e *env[P, R]) {
	e.add("a")
	old := e.claimOnly("a")
	e.lapse(1)
	e.unchanged("a", "a confirmation after the recovery", func() {
		e.want(old, runner.Confirm, runner.Lost, runner.Succeeded)
	})
	e.makeDue("a")
	fresh := e.claimOnly("a")
	e.unchanged("a", "a confirmation after another claim", func() {
		e.want(old, runner.Confirm, runner.Lost, runner.Succeeded)
	})
	e.want(fresh, runner.Succeed, runner.Succeeded)
}

func confirmOfReplacedInputIsSuperseded[P, R any](e *env[P, R]) {
	e.put(NewItem{Name: "a", Revision: "r1"})
	task := e.claimRevision("a", "r1")
	e.Replace("a", "r2")
	e.want(task, runner.Confirm, runner.Superseded)
	e.wantFailures("a", 0)
	e.want(e.claimRevision("a", "r2"), runner.Succeed, runner.Succeeded)
}

func confirmOfALockedTaskIsBusy[P, R any](e *env[P, R]) {
	e.add("a")
	task := e.claimOnly("a")
	unlock := e.Lock("a")
	e.Cleanup(unlock)
	outcome := e.report(e.verdict(task, runner.Confirm))[0]
	unlock()
	if outcome != runner.Busy {
		e.Fatalf("a confirmation of a locked task was answered %s, want Busy", outcomeName(outcome))
	}
	e.want(task, runner.Succeed, runner.Succeeded)
}
