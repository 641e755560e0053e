package queuetest

import (
	"github.com/pgqueue/pgqueue/runner"
)

func budgetCases[P, R any]() []Case[P, R] {
	return []Case[P, R]{
		{Name: "RetrySpendsOneAndDiesAtTheBudget", test: retrySpendsOneAndDiesAtTheBudget[P, R]},
		{Name: "RetryHeedsTheRunnersBound", test: retryHeedsTheRunnersBound[P, R]},
		{Name: "RetryWaitsForItsDelay", test: retryWaitsForItsDelay[P, R]},
		{Name: "SnoozeSpendsNothing", test: snoozeSpendsNothing[P, R]},
		{Name: "SnoozeWaitsForItsDelay", test: snoozeWaitsForItsDelay[P, R]},
		{Name: "ReleaseSpendsNothing", test: releaseSpendsNothing[P, R]},
		{Name: "ReleaseKeepsTheDueTime", test: releaseKeepsTheDueTime[P, R]},
	}
}

func retrySpendsOneAndDiesAtTheBudget[P, R any](e *env[P, R]) {
	e.add("a")
	for failures := range e.Budget - 1 {
		task := e.claimOnly("a")
		if e.has(FailureCount) && task.Failures != failures {
			e.Fatalf("the task was claimed with %d failures, want %d", task.Failures, failures)
		}
		e.want(task, runner.Retry, runner.Retrying)
		e.wantFailures("a", failures+1)
		e.wantState("a", Waiting)
	}
	e.want(e.claimOnly("a"), runner.Retry, runner.Dead)
	e.wantState("a", Dead)
	e.claimNothing("the task is dead")
}

// retryHeedsTheRunnersBound: a bound of the runner's ends a task early, and never gives it more than its own budget.
func retryHeedsTheRunnersBound[P, R any](e *env[P, R]) {
	e.add("early", "loose")
	tasks := e.claimAll("early", "loose")
	early := e.verdict(tasks["early"], runner.Retry)
	early.MaxAttempts = 1
	e.wantOutcome("a failure at the runner's bound", early, runner.Dead)
	e.wantState("early", Dead)
	loose := e.verdict(tasks["loose"], runner.Retry)
	loose.MaxAttempts = e.Budget + 5
	for range e.Budget - 1 {
		e.wantOutcome("a failure below both bounds", loose, runner.Retrying)
		loose.Token = e.claimOnly("loose").Token
	}
	e.wantOutcome("a failure at the task's own bound", loose, runner.Dead)
}

// delayed checks that a verdict with a delay keeps the task from being claimed until then.
func (e *env[P, R]) delayed(decision runner.Decision, outcome runner.Outcome) {
	e.Helper()
	e.add("a", "b")
	tasks := e.claimAll("a", "b")
	now := e.verdict(tasks["a"], decision)
	later := e.verdict(tasks["b"], decision)
	later.Delay = far
	e.wantOutcome(decisionName(decision)+" at once", now, outcome)
	e.wantOutcome(decisionName(decision)+" later", later, outcome)
	e.wantState("b", Waiting)
	e.wantDueIn("b", far)
	e.want(e.claimOnly("a"), runner.Succeed, runner.Succeeded)
	e.MakeDue("b")
	e.want(e.claimOnly("b"), runner.Succeed, runner.Succeeded)
}

func retryWaitsForItsDelay[P, R any](e *env[P, R]) { e.delayed(runner.Retry, runner.Retrying) }

func snoozeWaitsForItsDelay[P, R any](e *env[P, R]) { e.delayed(runner.Snooze, runner.Snoozed) }

// free checks that a decision can be repeated far beyond the budget, and that the whole budget is left afterwards.
func (e *env[P, R]) free(decision runner.Decision, outcome runner.Outcome) {
	e.Helper()
	e.add("a")
	for range e.Budget + 2 {
		e.want(e.claimOnly("a"), decision, outcome)
		e.wantState("a", Waiting)
		e.wantFailures("a", 0)
	}
	for range e.Budget - 1 {
		e.want(e.claimOnly("a"), runner.Retry, runner.Retrying)
		e.want(e.claimOnly("a"), decision, outcome)
	}
	e.want(e.claimOnly("a"), runner.Retry, runner.Dead)
}

func snoozeSpendsNothing[P, R any](e *env[P, R]) { e.free(runner.Snooze, runner.Snoozed) }

func releaseSpendsNothing[P, R any](e *env[P, R]) { e.free(runner.Release, runner.Released) }

func releaseKeepsTheDueTime[P, R any](e *env[P, R]) {
	e.add("first", "second")
	tasks := e.claimAll("first", "second")
	v := e.verdict(tasks["first"], runner.Release)
	v.Delay = far // means nothing here
	e.wantOutcome("a release", v, runner.Released)
	e.want(tasks["second"], runner.Release, runner.Released)
	e.wantOrder(e.claim(10), "first", "second")
}
