package queuetest

import (
	"github.com/pgqueue/pgqueue/runner"
)

func leaseCases[P, R any]() []Case[P, R] {
	return []Case[P, R]{
		{Name: "ExpiredLeaseIsRecovered", test: expiredLeaseIsRecovered[P, R]},
		{Name: "LiveLeaseIsNotRecovered", test: liveLeaseIsNotRecovered[P, R]},
		{Name: "ExpiredLeaseStandsUntilItIsTaken", test: expiredLeaseStandsUntilItIsTaken[P, R]},
		{Name: "RecoveryIsBounded", test: recoveryIsBounded[P, R]},
		{Name: "RecoverySpendsTheBudget", Needs: []Capability{CrashBudget}, test: recoverySpendsTheBudget[P, R]},
		{Name: "LateSuccess", test: lateSuccess[P, R]},
		{Name: "LateSuccessCountsOnce", Needs: []Capability{LateSuccess}, test: lateSuccessCountsOnce[P, R]},
		{Name: "LateFailureIsLost", test: lateFailureIsLost[P, R]},
		{Name: "LateSuccessOfADeadTask", Needs: []Capability{CrashBudget}, test: lateSuccessOfADeadTask[P, R]},
	}
}

func expiredLeaseIsRecovered[P, R any](e *env[P, R]) {
	e.add("a")
	e.claimOnly("a")
	e.lapse(1)
	e.wantState("a", Waiting)
	e.lapse(0)
	e.makeDue("a")
	task := e.claimOnly("a")
	e.wantOutcome("a success of the second claim", e.success(task, "x"), runner.Succeeded)
	e.wantState("a", Succeeded)
	e.wantResult("a", "x")
}

func liveLeaseIsNotRecovered[P, R any](e *env[P, R]) {
	e.add("old")
	e.claimOnly("old")
	e.wantRecovered(100, 0)
	e.ExpireLeases()
	e.add("new", "waiting")
	request := e.request(1)
	e.claimWith(request)
	e.unchanged("new", "a recovery of another lease", func() { e.wantRecovered(100, 1) })
	e.wantState("old", Waiting)
	e.wantState("new", Claimed)
	e.wantState("waiting", Waiting)
}

// The verdict of a worker that is a little late, whose lease has run out but was not taken from it, counts whatever it is.
func expiredLeaseStandsUntilItIsTaken[P, R any](e *env[P, R]) {
	e.add("a", "b")
	tasks := e.claimAll("a", "b")
	e.ExpireLeases()
	// A queue that looks at the lease itself may refuse; then it must change nothing.
	for name, decision := range map[string]runner.Decision{"a": runner.Succeed, "b": runner.Retry} {
		before := e.Look(name)
		switch outcome := e.report(e.verdict(tasks[name], decision))[0]; outcome {
		case runner.Succeeded, runner.Retrying:
			if e.Look(name).State == Claimed {
				e.Fatalf("%s was answered %s, but item %q is still claimed", decisionName(decision), outcomeName(outcome), name)
			}
		case runner.Lost:
			if after := e.Look(name); after.State != before.State || after.Failures != before.Failures {
				e.Fatalf("a lost %s changed item %q: before %+v, after %+v", decisionName(decision), name, before, after)
			}
		default:
			e.Fatalf("%s was answered %s", decisionName(decision), outcomeName(outcome))
		}
	}
}

func recoveryIsBounded[P, R any](e *env[P, R]) {
	const n = 5
	for i := range n {
		e.put(NewItem{Name: item(i)})
	}
	e.claim(n)
	e.ExpireLeases()
	total := 0
	for pass := 0; total < n; pass++ {
		got, err := e.Recover(e.ctx, 2)
		if err != nil {
			e.Fatalf("Recover: %v", err)
		}
		if got > 2 {
			e.Fatalf("Recover(limit 2) returned %d leases", got)
		}
		if got == 0 {
			e.Fatalf("recovered %d of %d leases, then nothing more", total, n)
		}
		total += got
	}
	e.wantRecovered(2, 0)
	for i := range n {
		e.wantState(item(i), Waiting)
	}
}

// A task that kills its worker each time must not do so for ever.
func recoverySpendsTheBudget[P, R any](e *env[P, R]) {
	e.add("a")
	for range e.Budget - 1 {
		e.claimOnly("a")
		e.lapse(1)
		e.wantState("a", Waiting)
		e.makeDue("a")
	}
	e.claimOnly("a")
	e.lapse(1)
	e.wantState("a", Dead)
	e.claimNothing("the task is dead")
}

func lateSuccess[P, R any](e *env[P, R]) {
	e.add("a")
	task := e.claimOnly("a")
	e.lapse(1)
	if e.has(LateSuccess) {
		e.wantOutcome("a late success", e.success(task, "late"), runner.Succeeded)
		e.wantState("a", Succeeded)
		e.wantResult("a", "late")
		e.claimNothing("the late success has ended the task")
		return
	}
	e.unchanged("a", "a late success that is refused", func() {
		e.wantOutcome("a late success", e.success(task, "late"), runner.Lost)
	})
	e.makeDue("a")
	e.want(e.claimOnly("a"), runner.Succeed, runner.Succeeded)
}

func lateSuccessCountsOnce[P, R any](e *env[P, R]) {
	e.add("a")
	task := e.claimOnly("a")
	e.lapse(1)
	e.wantOutcome("a late success", e.success(task, "late"), runner.Succeeded)
	e.unchanged("a", "the late success again", func() {
		e.wantOutcome("the late success again", e.success(task, "later"), runner.Lost)
	})
}

func lateFailureIsLost[P, R any](e *env[P, R]) {
	for _, decision := range decisions()[1:] {
		name := "late-" + decisionName(decision)
		e.add(name)
		task := e.claimOnly(name)
		e.lapse(1)
		e.unchanged(name, "a late "+decisionName(decision), func() { e.want(task, decision, runner.Lost) })
		e.makeDue(name)
		e.want(e.claimOnly(name), runner.Succeed, runner.Succeeded)
	}
}

// The budget was spent by the lease of a worker that is alive and has done the work. Whether its success still counts is
// the queue's choice; answer and item must agree.
func lateSuccessOfADeadTask[P, R any](e *env[P, R]) {
	e.add("a")
	var task runner.Task[P]
	for range e.Budget {
		task = e.claimOnly("a")
		e.lapse(1)
		e.makeDue("a")
	}
	e.wantState("a", Dead)
	if e.wantOutcome("a late success", e.success(task, "late"), runner.Succeeded, runner.Lost) == runner.Succeeded {
		e.wantState("a", Succeeded)
		e.wantResult("a", "late")
	} else {
		e.wantState("a", Dead)
		e.wantNoResult("a", "the success was lost")
	}
	e.claimNothing("the task has ended")
}
