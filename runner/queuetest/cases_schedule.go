package queuetest

import (
	"time"

	"github.com/pgqueue/pgqueue/runner"
)

func scheduleCases[P, R any]() []Case[P, R] {
	need := []Capability{Scheduling}
	return []Case[P, R]{
		{Name: "NextDueOfAnEmptyQueue", Needs: need, test: nextDueOfAnEmptyQueue[P, R]},
		{Name: "NextDueIsTheEarliest", Needs: need, test: nextDueIsTheEarliest[P, R]},
		{Name: "NextDueFollowsTheVerdicts", Needs: need, test: nextDueFollowsTheVerdicts[P, R]},
		{Name: "NextDueClaimsNothing", Needs: need, test: nextDueClaimsNothing[P, R]},
	}
}

func (e *env[P, R]) nextDue() (time.Duration, bool) {
	e.Helper()
	wait, ok, err := e.Queue.(runner.Scheduler).NextDue(e.ctx)
	if err != nil {
		e.Fatalf("NextDue: %v", err)
	}
	return wait, ok
}

func (e *env[P, R]) wantNextDue(want time.Duration) {
	e.Helper()
	wait, ok := e.nextDue()
	switch {
	case !ok:
		e.Fatalf("NextDue knows of nothing, want about %v", want)
	case want <= 0 && wait > 0:
		e.Fatalf("NextDue is %v, want now", wait)
	case want > 0 && (wait < want-slack || wait > want+slack):
		e.Fatalf("NextDue is %v, want about %v", wait, want)
	}
}

func nextDueOfAnEmptyQueue[P, R any](e *env[P, R]) {
	if wait, ok := e.nextDue(); ok {
		e.Fatalf("NextDue of an empty queue is %v", wait)
	}
}

func nextDueIsTheEarliest[P, R any](e *env[P, R]) {
	e.put(NewItem{Name: "latest", Due: 3 * far, Kind: KindB})
	e.wantNextDue(3 * far)
	e.put(NewItem{Name: "later", Due: far, Class: runner.ClassCatchUp})
	e.wantNextDue(far)
	e.put(NewItem{Name: "even later", Due: 2 * far})
	e.wantNextDue(far)
	e.add("now")
	e.wantNextDue(0)
}

func nextDueFollowsTheVerdicts[P, R any](e *env[P, R]) {
	e.add("a")
	e.wantNextDue(0)
	snooze := e.verdict(e.claimOnly("a"), runner.Snooze)
	snooze.Delay = far
	e.wantOutcome("a snooze", snooze, runner.Snoozed)
	e.wantNextDue(far)
	e.MakeDue("a")
	e.wantNextDue(0)
	retry := e.verdict(e.claimOnly("a"), runner.Retry)
	retry.Delay = 2 * far
	e.wantOutcome("a retry", retry, runner.Retrying)
	e.wantNextDue(2 * far)
	e.MakeDue("a")
	e.want(e.claimOnly("a"), runner.Succeed, runner.Succeeded)
	if wait, ok := e.nextDue(); ok {
		e.Fatalf("NextDue is %v after the last task has ended", wait)
	}
}

func nextDueClaimsNothing[P, R any](e *env[P, R]) {
	e.add("a")
	e.unchanged("a", "NextDue", func() { e.nextDue() })
	e.claimOnly("a")
}
