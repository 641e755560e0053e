package queuetest

import (
	"slices"
	"sync"
	"time"

	"github.com/pgqueue/pgqueue/runner"
)

func claimCases[P, R any]() []Case[P, R] {
	return []Case[P, R]{
		{Name: "ClaimTellsTheTask", test: claimTellsTheTask[P, R]},
		{Name: "ClaimOfAnEmptyQueueIsEmpty", test: claimOfAnEmptyQueueIsEmpty[P, R]},
		{Name: "ClaimNeverExceedsTheLimit", test: claimNeverExceedsTheLimit[P, R]},
		{Name: "ClaimNeverExceedsTheLimitOverClasses", Needs: []Capability{Classes}, test: claimNeverExceedsTheLimitOverClasses[P, R]},
		{Name: "ClaimLeasesOnlyWhatItReturns", test: claimLeasesOnlyWhatItReturns[P, R]},
		{Name: "ClaimedTaskIsNotClaimedAgain", test: claimedTaskIsNotClaimedAgain[P, R]},
		{Name: "ConcurrentClaimsAreDisjoint", test: concurrentClaimsAreDisjoint[P, R]},
		{Name: "ClaimOfACancelledContextLeasesNothing", test: claimOfACancelledContextLeasesNothing[P, R]},
		{Name: "UndecodableTaskFailsAlone", Needs: []Capability{Undecodable}, test: undecodableTaskFailsAlone[P, R]},
	}
}

func claimTellsTheTask[P, R any](e *env[P, R]) {
	e.put(NewItem{Name: "a", Kind: KindB, Class: runner.ClassCatchUp, Revision: "r7", Due: -time.Minute})
	task := e.claimOnly("a")
	if e.has(Kinds) && task.Kind != KindB {
		e.Errorf("Kind is %q, want %q", task.Kind, KindB)
	}
	if e.has(Classes) && task.Class != runner.ClassCatchUp {
		e.Errorf("Class is %d, want %d", task.Class, runner.ClassCatchUp)
	}
	if e.has(Revisions) {
		if got := e.Revision(task.Payload); got != "r7" {
			e.Errorf("the payload has revision %q, want r7", got)
		}
	}
	if task.Err != nil {
		e.Errorf("Err is %v, want nil", task.Err)
	}
	if task.Attempt != 1 || task.Failures != 0 {
		e.Errorf("Attempt is %d and Failures is %d in the first claim, want 1 and 0", task.Attempt, task.Failures)
	}
	if task.MaxAttempts != 0 && task.MaxAttempts != e.Budget {
		e.Errorf("MaxAttempts is %d, want the budget, %d, or 0", task.MaxAttempts, e.Budget)
	}
	if task.Token.String() == "" {
		e.Errorf("the token's String is empty: logs could not name the task")
	}
	if task.Claimed.IsZero() || task.Due.IsZero() || task.Due.After(task.Claimed) {
		e.Errorf("Due is %v and Claimed is %v, want both set and Due not later", task.Due, task.Claimed)
	}
	e.wantState("a", Claimed)
}

func claimOfAnEmptyQueueIsEmpty[P, R any](e *env[P, R]) {
	e.claimNothing("the queue is empty")
}

func claimNeverExceedsTheLimit[P, R any](e *env[P, R]) {
	for i := range 10 {
		e.put(NewItem{Name: item(i)})
	}
	for _, limit := range []int{1, 3, 2} {
		tasks := e.claim(limit) // ends the case when there are more
		if len(tasks) == 0 {
			e.Fatalf("a claim of %d returned nothing although tasks are due", limit)
		}
	}
}

func claimNeverExceedsTheLimitOverClasses[P, R any](e *env[P, R]) {
	for i := range 10 {
		class := runner.ClassFresh
		if i%2 == 1 {
			class = runner.ClassCatchUp
		}
		e.put(NewItem{Name: item(i), Class: class, Due: -time.Minute})
	}
	e.claim(3)
	e.claim(6)
}

// The claim that leases more than it returns is a classic: a subquery with a LIMIT that is run again for each outer row.
func claimLeasesOnlyWhatItReturns[P, R any](e *env[P, R]) {
	const n = 20
	for i := range n {
		e.put(NewItem{Name: item(i)})
	}
	seen := make(map[string]bool)
	for _, limit := range []int{1, 3, 100, 100} {
		for _, name := range e.names(e.claim(limit)) {
			seen[name] = true
		}
	}
	for i := range n {
		if !seen[item(i)] {
			e.Errorf("item %q was never claimed, it is %s", item(i), e.Look(item(i)).State)
		}
	}
}

func claimedTaskIsNotClaimedAgain[P, R any](e *env[P, R]) {
	e.add("a")
	task := e.claimOnly("a")
	e.claimNothing("the only task is claimed")
	e.want(task, runner.Succeed, runner.Succeeded)
	e.claimNothing("the only task has ended")
}

func concurrentClaimsAreDisjoint[P, R any](e *env[P, R]) {
	const (
		n        = 120
		claimers = 6
		limit    = 7
	)
	for i := range n {
		e.put(NewItem{Name: item(i)})
	}
	var (
		mu       sync.Mutex
		claimed  []runner.Task[P]
		problems []string
		wg       sync.WaitGroup
	)
	start := make(chan struct{})
	for range claimers {
		wg.Go(func() {
			<-start
			for {
				tasks, err := e.Queue.Claim(e.ctx, e.request(limit))
				mu.Lock()
				claimed = append(claimed, tasks...)
				switch {
				case err != nil:
					problems = append(problems, "Claim: "+err.Error())
				case len(tasks) > limit:
					problems = append(problems, "a claim returned more than its limit")
				}
				done := len(tasks) == 0 || len(problems) > 0 || len(claimed) > 2*n
				mu.Unlock()
				if done {
					return
				}
			}
		})
	}
	close(start)
	wg.Wait()
	for _, problem := range problems {
		e.Errorf("%s", problem)
	}
	if len(problems) > 0 {
		return
	}
	// One that saw only rows which others were taking may have stopped early, so what is left is claimed here.
	for {
		tasks := e.claim(limit)
		if claimed = append(claimed, tasks...); len(tasks) == 0 || len(claimed) > 2*n {
			break
		}
	}
	names := e.names(claimed)
	slices.Sort(names)
	if unique := slices.Compact(slices.Clone(names)); len(unique) != len(names) {
		e.Fatalf("%d tasks were handed out twice", len(names)-len(unique))
	}
	if len(names) != n {
		e.Fatalf("%d of %d tasks were claimed", len(names), n)
	}
}

func claimOfACancelledContextLeasesNothing[P, R any](e *env[P, R]) {
	e.add("a", "b")
	ctx, cancel := cancelled(e.ctx)
	defer cancel()
	if tasks, err := e.Queue.Claim(ctx, e.request(10)); err == nil {
		e.Fatalf("Claim with a cancelled context returned %d tasks and no error", len(tasks))
	}
	e.claimAll("a", "b")
}

func undecodableTaskFailsAlone[P, R any](e *env[P, R]) {
	e.add("a")
	e.AddUndecodable("broken")
	e.add("b")
	var broken []runner.Task[P]
	var good []string
	for _, task := range e.claim(10) {
		if task.Err != nil {
			broken = append(broken, task)
			continue
		}
		good = append(good, e.nameOf(task))
		e.want(task, runner.Succeed, runner.Succeeded)
	}
	slices.Sort(good)
	if !slices.Equal(good, []string{"a", "b"}) {
		e.Fatalf("decoded %v, want a and b", good)
	}
	if len(broken) != 1 {
		e.Fatalf("%d tasks came with Err, want 1", len(broken))
	}
	e.want(broken[0], runner.Fail, runner.Failed)
	e.claimNothing("the broken task has failed")
}
