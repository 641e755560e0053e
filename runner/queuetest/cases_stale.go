package queuetest

import (
	"github.com/pgqueue/pgqueue/runner"
)

func staleCases[P, R any]() []Case[P, R] {
	return []Case[P, R]{
		{Name: "StaleVerdictIsLost", test: staleVerdictIsLost[P, R]},
		{Name: "StaleVerdictAfterAHandBackIsLost", test: staleVerdictAfterAHandBackIsLost[P, R]},
		{Name: "StaleVerdictDoesNotReopenTheEnd", test: staleVerdictDoesNotReopenTheEnd[P, R]},
		{Name: "DeletedWhileRunningIsLost", test: deletedWhileRunningIsLost[P, R]},
		{Name: "RecreatedUnderTheSameKeyIsNotTheOld", test: recreatedIsNotTheOld[P, R]},
		{Name: "RecreatedAndClaimedIsNotTheOld", test: recreatedAndClaimedIsNotTheOld[P, R]},
		{Name: "RecreatedTwiceIsNotTheOld", test: recreatedTwiceIsNotTheOld[P, R]},
	}
}

// stale reports a decision by a worker that has lost its claim.
func (e *env[P, R]) stale(name string, task runner.Task[P], decision runner.Decision) {
	e.Helper()
	v := e.verdict(task, decision)
	v.Delay = far
	if decision == runner.Succeed {
		v = e.success(task, "stale")
	}
	e.unchanged(name, "a stale "+decisionName(decision), func() {
		e.wantOutcome("a stale "+decisionName(decision), v, runner.Lost)
	})
}

func staleVerdictIsLost[P, R any](e *env[P, R]) {
	for _, decision := range decisions() {
		name := "stale-" + decisionName(decision)
		e.add(name)
		old := e.claimOnly(name)
		fresh := e.reclaim(name)
		e.stale(name, old, decision)
		e.wantOutcome("a success of the claim that stands", e.success(fresh, "fresh"), runner.Succeeded)
		e.wantResult(name, "fresh")
	}
}

func staleVerdictAfterAHandBackIsLost[P, R any](e *env[P, R]) {
	for _, decision := range decisions() {
		name := "stale-" + decisionName(decision)
		e.add(name)
		old := e.claimOnly(name)
		e.want(old, runner.Release, runner.Released)
		fresh := e.claimOnly(name)
		e.stale(name, old, decision)
		e.wantOutcome("a success of the claim that stands", e.success(fresh, "fresh"), runner.Succeeded)
		e.wantResult(name, "fresh")
	}
}

func staleVerdictDoesNotReopenTheEnd[P, R any](e *env[P, R]) {
	for _, decision := range decisions() {
		name := "stale-" + decisionName(decision)
		e.add(name)
		old := e.claimOnly(name)
		fresh := e.reclaim(name)
		e.wantOutcome("a success of the claim that stands", e.success(fresh, "fresh"), runner.Succeeded)
		e.stale(name, old, decision)
		e.wantResult(name, "fresh")
		e.claimNothing("the task has ended")
	}
}

func deletedWhileRunningIsLost[P, R any](e *env[P, R]) {
	for _, decision := range decisions() {
		name := "deleted-" + decisionName(decision)
		e.add(name)
		task := e.claimOnly(name)
		e.Delete(name)
		e.stale(name, task, decision)
		if got := e.Look(name).State; got != Absent {
			e.Fatalf("the deleted item is %s after %s", got, decisionName(decision))
		}
		e.claimNothing("the item was deleted")
	}
	e.lapse(0)
}

func recreatedIsNotTheOld[P, R any](e *env[P, R]) {
	for _, decision := range decisions() {
		name := "recreated-" + decisionName(decision)
		e.add(name)
		old := e.claimOnly(name)
		e.Delete(name)
		e.add(name)
		e.stale(name, old, decision)
		e.wantState(name, Waiting)
		e.wantNoResult(name, "the new item has not run")
		e.wantOutcome("a success of the new item", e.success(e.claimOnly(name), "new"), runner.Succeeded)
		e.wantResult(name, "new")
	}
}

// The new item is claimed as often as the old one was, so a counter of claims alone cannot tell them apart.
func recreatedAndClaimedIsNotTheOld[P, R any](e *env[P, R]) {
	for _, decision := range decisions() {
		name := "recreated-" + decisionName(decision)
		e.add(name)
		old := e.claimOnly(name)
		e.Delete(name)
		e.add(name)
		fresh := e.claimOnly(name)
		e.stale(name, old, decision)
		e.wantState(name, Claimed)
		e.wantOutcome("a success of the new item", e.success(fresh, "new"), runner.Succeeded)
		e.wantResult(name, "new")
	}
}

func recreatedTwiceIsNotTheOld[P, R any](e *env[P, R]) {
	e.add("a")
	old := e.claimOnly("a")
	e.Delete("a")
	e.add("a")
	middle := e.claimOnly("a")
	e.Delete("a")
	e.add("a")
	fresh := e.claimOnly("a")
	for _, decision := range decisions() {
		e.stale("a", old, decision)
		e.stale("a", middle, decision)
	}
	e.want(fresh, runner.Succeed, runner.Succeeded)
}
