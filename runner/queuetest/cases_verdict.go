package queuetest

import (
	"context"
	"sync"

	"github.com/pgqueue/pgqueue/runner"
)

func verdictCases[P, R any]() []Case[P, R] {
	return []Case[P, R]{
		{Name: "SuccessEndsTheTask", test: successEndsTheTask[P, R]},
		{Name: "FailIsFinal", test: failIsFinal[P, R]},
		{Name: "CancelEndsTheTask", test: cancelEndsTheTask[P, R]},
		{Name: "DuplicateSuccessIsLost", test: duplicateSuccessIsLost[P, R]},
		{Name: "ConcurrentSuccessesCountOnce", test: concurrentSuccessesCountOnce[P, R]},
		{Name: "DuplicateFailureSpendsOne", test: duplicateFailureSpendsOne[P, R]},
		{Name: "VerdictAfterTheClaimWasClosedIsLost", test: verdictAfterTheClaimWasClosedIsLost[P, R]},
		{Name: "ReportOfACancelledContextChangesNothing", test: reportOfACancelledContextChangesNothing[P, R]},
	}
}

// cancelled returns a context that has ended.
func cancelled(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(parent)
	cancel()
	return ctx, cancel
}

func successEndsTheTask[P, R any](e *env[P, R]) {
	e.add("a")
	e.want(e.claimOnly("a"), runner.Succeed, runner.Succeeded)
	e.wantState("a", Succeeded)
	e.claimNothing("the task has ended")
	e.lapse(0)
}

func failIsFinal[P, R any](e *env[P, R]) {
	e.add("a")
	e.want(e.claimOnly("a"), runner.Fail, runner.Failed)
	e.wantState("a", Failed)
	e.claimNothing("the task has failed for good")
	e.lapse(0)
}

func cancelEndsTheTask[P, R any](e *env[P, R]) {
	e.add("a")
	e.want(e.claimOnly("a"), runner.Cancel, runner.Cancelled)
	e.wantState("a", Cancelled)
	e.claimNothing("the task was cancelled")
	e.lapse(0)
}

func duplicateSuccessIsLost[P, R any](e *env[P, R]) {
	e.add("a")
	task := e.claimOnly("a")
	e.wantOutcome("the first success", e.success(task, "first"), runner.Succeeded)
	e.unchanged("a", "a second success", func() {
		e.wantOutcome("the second success", e.success(task, "second"), runner.Lost)
	})
}

func concurrentSuccessesCountOnce[P, R any](e *env[P, R]) {
	e.add("a")
	task := e.claimOnly("a")
	const reporters = 6
	var (
		wg       sync.WaitGroup
		outcomes [reporters]runner.Outcome
		errs     [reporters]error
	)
	start := make(chan struct{})
	for i := range reporters {
		verdict := e.success(task, "the result")
		wg.Go(func() {
			<-start
			for e.ctx.Err() == nil { // busy while another one is at it
				answer, err := e.Queue.Report(e.ctx, []runner.Verdict[R]{verdict})
				if errs[i] = err; err != nil || len(answer) != 1 {
					return
				}
				if outcomes[i] = answer[0]; outcomes[i] != runner.Busy {
					return
				}
			}
		})
	}
	close(start)
	wg.Wait()
	succeeded := 0
	for i, outcome := range outcomes {
		switch {
		case errs[i] != nil:
			e.Errorf("Report: %v", errs[i])
		case outcome == runner.Succeeded:
			succeeded++
		case outcome != runner.Lost:
			e.Errorf("a concurrent success was answered %s, want Succeeded or Lost", outcomeName(outcome))
		}
	}
	if succeeded != 1 {
		e.Errorf("%d of %d reports of one claim succeeded, want 1", succeeded, reporters)
	}
	e.wantState("a", Succeeded)
}

func duplicateFailureSpendsOne[P, R any](e *env[P, R]) {
	e.add("a")
	task := e.claimOnly("a")
	e.want(task, runner.Retry, runner.Retrying)
	e.unchanged("a", "the same failure again", func() {
		for range e.Budget + 1 {
			e.want(task, runner.Retry, runner.Lost)
		}
	})
	e.wantFailures("a", 1)
	e.makeDue("a")
	e.want(e.claimOnly("a"), runner.Succeed, runner.Succeeded)
}

// Nobody has claimed the task again, yet the claim is closed: even where a late success is accepted, this is none.
func verdictAfterTheClaimWasClosedIsLost[P, R any](e *env[P, R]) {
	closings := []struct {
		decision runner.Decision
		outcome  runner.Outcome
	}{{runner.Retry, runner.Retrying}, {runner.Snooze, runner.Snoozed}, {runner.Release, runner.Released}}
	for _, c := range closings {
		closing, outcome := c.decision, c.outcome
		name := "after-" + decisionName(closing)
		e.add(name)
		task := e.claimOnly(name)
		v := e.verdict(task, closing)
		v.Delay = far // so that the next round claims its own item only
		e.wantOutcome(decisionName(closing), v, outcome)
		for _, decision := range decisions() {
			e.unchanged(name, decisionName(decision)+" after "+decisionName(closing), func() {
				e.want(task, decision, runner.Lost)
			})
		}
		e.Delete(name)
	}
}

func reportOfACancelledContextChangesNothing[P, R any](e *env[P, R]) {
	e.add("a", "b")
	tasks := e.claimAll("a", "b")
	ctx, cancel := cancelled(e.ctx)
	defer cancel()
	verdicts := []runner.Verdict[R]{e.success(tasks["a"], "x"), e.verdict(tasks["b"], runner.Retry)}
	e.unchanged("a", "a report with a cancelled context", func() {
		e.unchanged("b", "a report with a cancelled context", func() {
			if outcomes, err := e.Queue.Report(ctx, verdicts); err == nil {
				e.Fatalf("Report with a cancelled context answered %s and no error", outcomeNames(outcomes))
			}
		})
	})
	e.want(tasks["a"], runner.Succeed, runner.Succeeded)
	e.want(tasks["b"], runner.Succeed, runner.Succeeded)
}
