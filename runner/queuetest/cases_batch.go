package queuetest

import (
	"slices"
	"strings"

	"github.com/pgqueue/pgqueue/runner"
)

func batchCases[P, R any]() []Case[P, R] {
	return []Case[P, R]{
		{Name: "EmptyBatch", test: emptyBatch[P, R]},
		{Name: "MixedBatchIsAnsweredByPosition", test: mixedBatchIsAnsweredByPosition[P, R]},
		{Name: "SameFailureTwiceInABatchSpendsOne", test: sameFailureTwiceInABatchSpendsOne[P, R]},
		{Name: "ContradictionInABatchHasOneWinner", test: contradictionInABatchHasOneWinner[P, R]},
	}
}

func emptyBatch[P, R any](e *env[P, R]) {
	e.add("a")
	task := e.claimOnly("a")
	e.unchanged("a", "an empty report", func() { e.report() })
	e.want(task, runner.Succeed, runner.Succeeded)
}

func mixedBatchIsAnsweredByPosition[P, R any](e *env[P, R]) {
	plan := []struct {
		decision runner.Decision
		outcome  runner.Outcome
		state    State
	}{
		{runner.Succeed, runner.Succeeded, Succeeded},
		{runner.Retry, runner.Retrying, Waiting},
		{runner.Fail, runner.Failed, Failed},
		{runner.Cancel, runner.Cancelled, Cancelled},
		{runner.Snooze, runner.Snoozed, Waiting},
		{runner.Release, runner.Released, Waiting},
	}
	const rounds = 3
	names := []string{"lost"}
	e.add("lost")
	lost := e.claimOnly("lost")
	e.Delete("lost")
	e.add("lost") // a new one, which must stand as it is at the end
	for i := range rounds * len(plan) {
		e.put(NewItem{Name: item(i)})
		names = append(names, item(i))
	}
	tasks := e.claimAll(names...)

	type line struct {
		verdict runner.Verdict[R]
		want    runner.Outcome
	}
	var lines []line
	for i := range rounds * len(plan) {
		p := plan[i%len(plan)]
		v := e.verdict(tasks[item(i)], p.decision)
		if p.decision == runner.Succeed {
			v = e.success(tasks[item(i)], item(i))
		}
		lines = append(lines, line{v, p.outcome})
		if i%4 == 0 {
			lines = append(lines, line{e.verdict(lost, p.decision), runner.Lost})
		}
	}
	// A fixed shuffle, so that neither the order of claiming nor that of the plan is the order of the batch: 7 and the
	// number of lines have no common divisor.
	shuffled := make([]line, len(lines))
	for i := range lines {
		shuffled[i*7%len(lines)] = lines[i]
	}
	var verdicts []runner.Verdict[R]
	var want []runner.Outcome
	for _, l := range shuffled {
		verdicts, want = append(verdicts, l.verdict), append(want, l.want)
	}
	if got := e.report(verdicts...); !slices.Equal(got, want) {
		e.Fatalf("outcomes by position:\n  got  %s\n  want %s", outcomeNames(got), outcomeNames(want))
	}
	for i := range rounds * len(plan) {
		p := plan[i%len(plan)]
		e.wantState(item(i), p.state)
		if p.decision == runner.Succeed {
			e.wantResult(item(i), item(i))
		}
	}
	e.wantState("lost", Claimed)
}

func sameFailureTwiceInABatchSpendsOne[P, R any](e *env[P, R]) {
	e.add("a")
	v := e.verdict(e.claimOnly("a"), runner.Retry)
	outcomes := e.report(slices.Repeat([]runner.Verdict[R]{v}, e.Budget)...)
	if !slices.Contains(outcomes, runner.Retrying) {
		e.Fatalf("outcomes %s, want one Retrying", outcomeNames(outcomes))
	}
	for _, outcome := range outcomes {
		if outcome != runner.Retrying && outcome != runner.Lost {
			e.Fatalf("outcomes %s of one failure said several times, want Retrying or Lost", outcomeNames(outcomes))
		}
	}
	e.wantFailures("a", 1)
	e.wantState("a", Waiting)
	for range e.Budget - 2 {
		e.makeDue("a")
		e.want(e.claimOnly("a"), runner.Retry, runner.Retrying)
	}
	e.makeDue("a")
	e.want(e.claimOnly("a"), runner.Retry, runner.Dead)
}

// Two verdicts of one claim contradict each other. One of them wins, whichever; the answers say which, and the item agrees.
func contradictionInABatchHasOneWinner[P, R any](e *env[P, R]) {
	e.add("a", "b")
	tasks := e.claimAll("a", "b")
	states := map[runner.Outcome]State{
		runner.Succeeded: Succeeded, runner.Retrying: Waiting, runner.Failed: Failed, runner.Released: Waiting,
	}
	batches := map[string][]runner.Decision{
		"a": {runner.Succeed, runner.Retry, runner.Release},
		"b": {runner.Fail, runner.Succeed},
	}
	for name, batch := range batches {
		var verdicts []runner.Verdict[R]
		var words []string
		for _, decision := range batch {
			verdicts = append(verdicts, e.verdict(tasks[name], decision))
			words = append(words, decisionName(decision))
		}
		outcomes := e.report(verdicts...)
		var winners []runner.Outcome
		for _, outcome := range outcomes {
			if outcome != runner.Lost {
				winners = append(winners, outcome)
			}
		}
		if len(winners) != 1 {
			e.Fatalf("%s of one claim in one batch: outcomes %s, want all but one Lost", strings.Join(words, ", "), outcomeNames(outcomes))
		}
		state, ok := states[winners[0]]
		if !ok {
			e.Fatalf("outcome %s fits none of the decisions", outcomeName(winners[0]))
		}
		e.wantState(name, state)
	}
}
