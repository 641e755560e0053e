package queuetest

import "github.com/pgqueue/pgqueue/runner"

func resultCases[P, R any]() []Case[P, R] {
	return []Case[P, R]{
		{Name: "ResultIsStoredWithTheSuccess", Needs: []Capability{Results, History}, test: resultIsStoredWithTheSuccess[P, R]},
		{Name: "SuccessNeedsNoResult", Needs: []Capability{Results, History}, test: successNeedsNoResult[P, R]},
		{Name: "ResultOfALostVerdictIsNotStored", Needs: []Capability{Results}, test: resultOfALostVerdictIsNotStored[P, R]},
		{Name: "UnstorableResultIsNoSuccess", Needs: []Capability{Results, BadResults}, test: unstorableResultIsNoSuccess[P, R]},
		{Name: "IneligibleAtCompletion", Needs: []Capability{Eligibility}, test: ineligibleAtCompletion[P, R]},
	}
}

func (e *env[P, R]) wantResult(name, want string) {
	e.Helper()
	if !e.has(Results) || !e.has(History) {
		return
	}
	if got := e.Look(name); !got.HasResult || got.Result != want {
		e.Fatalf("item %q has result %q (stored: %v), want %q", name, got.Result, got.HasResult, want)
	}
}

func (e *env[P, R]) wantNoResult(name, why string) {
	e.Helper()
	if got := e.Look(name); e.has(Results) && got.HasResult {
		e.Fatalf("item %q has result %q, want none: %s", name, got.Result, why)
	}
}

func resultIsStoredWithTheSuccess[P, R any](e *env[P, R]) {
	e.add("a", "b", "c")
	tasks := e.claimAll("a", "b", "c")
	e.wantNoResult("a", "nothing was reported yet")
	outcomes := e.report(e.success(tasks["c"], "result of c"), e.success(tasks["a"], "result of a"), e.success(tasks["b"], "result of b"))
	for _, outcome := range outcomes {
		if outcome != runner.Succeeded {
			e.Fatalf("outcomes %s, want three times Succeeded", outcomeNames(outcomes))
		}
	}
	for _, name := range []string{"a", "b", "c"} {
		e.wantState(name, Succeeded)
		e.wantResult(name, "result of "+name)
	}
}

func successNeedsNoResult[P, R any](e *env[P, R]) {
	e.add("with", "without")
	tasks := e.claimAll("with", "without")
	e.report(e.success(tasks["with"], "x"), e.verdict(tasks["without"], runner.Succeed))
	e.wantState("without", Succeeded)
	e.wantNoResult("without", "the verdict had none")
	e.wantResult("with", "x")
}

func resultOfALostVerdictIsNotStored[P, R any](e *env[P, R]) {
	e.add("a")
	old := e.claimOnly("a")
	fresh := e.reclaim("a")
	e.wantOutcome("a success of the old claim", e.success(old, "old"), runner.Lost)
	e.wantNoResult("a", "the claim was lost")
	e.wantOutcome("a success of the new claim", e.success(fresh, "new"), runner.Succeeded)
	e.wantResult("a", "new")
}

// How the refusal shows is left to the queue: an error, or an outcome that is no success. It must not take its neighbours
// with it for good, and it must not be a success without a result.
func unstorableResultIsNoSuccess[P, R any](e *env[P, R]) {
	e.add("bad", "good")
	tasks := e.claimAll("bad", "good")
	bad := e.verdict(tasks["bad"], runner.Succeed)
	r := e.BadResult()
	bad.Result = &r
	good := e.success(tasks["good"], "fine")
	outcomes, err := e.Queue.Report(e.ctx, []runner.Verdict[R]{bad, good})
	if err == nil && (len(outcomes) != 2 || outcomes[0] == runner.Succeeded) {
		e.Fatalf("outcomes %s for a result that cannot be stored, want no success", outcomeNames(outcomes))
	}
	if got := e.Look("bad"); got.State == Succeeded || got.HasResult || (got.State == Absent && e.has(History)) {
		e.Fatalf("the item with the bad result is %+v", got)
	}
	if err != nil {
		// The report told nothing; alone the good one must get through.
		e.wantOutcome("the good one alone", good, runner.Succeeded, runner.Lost)
	} else if outcomes[1] != runner.Succeeded {
		e.Fatalf("its neighbour in the batch was answered %s", outcomeName(outcomes[1]))
	}
	e.wantState("good", Succeeded)
	e.wantResult("good", "fine")
}

func ineligibleAtCompletion[P, R any](e *env[P, R]) {
	e.add("a", "b", "c")
	tasks := e.claimAll("a", "b", "c")
	e.MakeIneligible("b")
	outcomes := e.report(e.success(tasks["a"], "a"), e.success(tasks["b"], "b"), e.success(tasks["c"], "c"))
	if outcomes[0] != runner.Succeeded || outcomes[1] != runner.Ineligible || outcomes[2] != runner.Succeeded {
		e.Fatalf("outcomes %s, want Succeeded, Ineligible, Succeeded", outcomeNames(outcomes))
	}
	e.wantNoResult("b", "it was not eligible any more")
	if got := e.Look("b").State; got == Succeeded || got == Claimed {
		e.Fatalf("the ineligible item is %s", got)
	}
	e.unchanged("b", "a second report", func() {
		e.wantOutcome("a second report", e.success(tasks["b"], "b"), runner.Lost)
	})
	e.lapse(0)
}
