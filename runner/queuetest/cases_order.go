package queuetest

import (
	"slices"
	"time"

	"github.com/pgqueue/pgqueue/runner"
)

func orderCases[P, R any]() []Case[P, R] {
	return []Case[P, R]{
		{Name: "ClaimFollowsTheDueTime", test: claimFollowsTheDueTime[P, R]},
		{Name: "FutureTaskWaits", test: futureTaskWaits[P, R]},
		{Name: "ClaimPrefersTheFirstClass", Needs: []Capability{Classes}, test: claimPrefersTheFirstClass[P, R]},
		{Name: "ClaimBorrowsForTheNextClass", Needs: []Capability{Classes}, test: claimBorrowsForTheNextClass[P, R]},
		{Name: "ClaimLeavesOtherClasses", Needs: []Capability{Classes}, test: claimLeavesOtherClasses[P, R]},
		{Name: "FutureTasksOfAClassHideNoOther", Needs: []Capability{Classes}, test: futureTasksOfAClassHideNoOther[P, R]},
		{Name: "ClaimLeavesOtherKinds", Needs: []Capability{Kinds}, test: claimLeavesOtherKinds[P, R]},
		{Name: "NilKindsMeanAnyKind", Needs: []Capability{Kinds}, test: nilKindsMeanAnyKind[P, R]},
		{Name: "WaitingKindHidesNoOther", Needs: []Capability{Kinds}, test: waitingKindHidesNoOther[P, R]},
	}
}

func (e *env[P, R]) wantOrder(tasks []runner.Task[P], want ...string) {
	e.Helper()
	if got := e.names(tasks); !slices.Equal(got, want) {
		e.Fatalf("claimed %v, want %v in this order", got, want)
	}
}

func claimFollowsTheDueTime[P, R any](e *env[P, R]) {
	for i, minutes := range []int{30, 50, 10, 40, 20} {
		e.put(NewItem{Name: item(i), Due: -time.Duration(minutes) * time.Minute})
	}
	e.wantOrder(e.claim(3), item(1), item(3), item(0))
	e.wantOrder(e.claim(3), item(4), item(2))
}

func futureTaskWaits[P, R any](e *env[P, R]) {
	e.put(NewItem{Name: "later", Due: far})
	e.add("now")
	e.claimOnly("now")
	e.wantState("later", Waiting)
	e.MakeDue("later")
	e.claimOnly("later")
}

func (e *env[P, R]) addTwoClasses(fresh, catchUp int) {
	// The catch-up tasks have waited for longer, so that a queue which knows only the due time is wrong.
	for i := range catchUp {
		e.put(NewItem{Name: "catch-up-" + item(i), Class: runner.ClassCatchUp, Due: -time.Hour + time.Duration(i)*time.Minute})
	}
	for i := range fresh {
		e.put(NewItem{Name: "fresh-" + item(i), Class: runner.ClassFresh, Due: -time.Minute + time.Duration(i)*time.Second})
	}
}

func (e *env[P, R]) claimClasses(limit int, classes ...runner.Class) []runner.Task[P] {
	e.Helper()
	request := e.request(limit)
	request.Classes = classes
	return e.claimWith(request)
}

func claimPrefersTheFirstClass[P, R any](e *env[P, R]) {
	e.addTwoClasses(6, 6)
	e.wantOrder(e.claimClasses(2, 1, 2, 3, 4), "fresh-item-000", "fresh-item-001")
	e.wantOrder(e.claimClasses(2, 4, 3, 2, 1), "catch-up-item-000", "catch-up-item-001")
	// Four to one, as the runner orders it: four claims prefer fresh work, the fifth turns round.
	e.wantOrder(e.claimClasses(1, 1, 2, 3, 4), "fresh-item-002")
	e.wantOrder(e.claimClasses(1, 4, 1, 2, 3), "catch-up-item-002")
}

func claimBorrowsForTheNextClass[P, R any](e *env[P, R]) {
	e.addTwoClasses(2, 4)
	e.wantOrder(e.claimClasses(4, 1, 2, 3, 4), "fresh-item-000", "fresh-item-001", "catch-up-item-000", "catch-up-item-001")
	e.addTwo("more")
	e.wantOrder(e.claimClasses(10, 4, 3, 2, 1), "catch-up-item-002", "catch-up-item-003", "more-fresh")
}

func (e *env[P, R]) addTwo(prefix string) {
	e.put(NewItem{Name: prefix + "-fresh"})
	e.put(NewItem{Name: prefix + "-later", Class: runner.ClassCatchUp, Due: far})
}

func claimLeavesOtherClasses[P, R any](e *env[P, R]) {
	e.addTwoClasses(1, 2)
	e.wantOrder(e.claimClasses(10, runner.ClassFresh), "fresh-item-000")
	e.wantOrder(e.claimClasses(10, runner.ClassCatchUp), "catch-up-item-000", "catch-up-item-001")
}

func futureTasksOfAClassHideNoOther[P, R any](e *env[P, R]) {
	for i := range 20 {
		e.put(NewItem{Name: item(i), Class: runner.ClassFresh, Due: far})
	}
	e.put(NewItem{Name: "catch-up", Class: runner.ClassCatchUp})
	e.wantOrder(e.claimClasses(2, 1, 2, 3, 4), "catch-up")
}

func (e *env[P, R]) claimKinds(limit int, kinds ...string) []runner.Task[P] {
	e.Helper()
	request := e.request(limit)
	request.Kinds = kinds
	return e.claimWith(request)
}

func claimLeavesOtherKinds[P, R any](e *env[P, R]) {
	e.put(NewItem{Name: "a", Kind: KindA, Due: -time.Minute})
	e.put(NewItem{Name: "b", Kind: KindB, Due: -time.Second})
	e.wantOrder(e.claimKinds(10, KindB), "b")
	e.wantState("a", Waiting)
	if tasks := e.claimKinds(10, KindB); len(tasks) > 0 {
		e.Fatalf("claimed %v, want nothing: no task of the kind is left", e.names(tasks))
	}
	e.wantOrder(e.claimKinds(10, KindA, KindB), "a")
}

func nilKindsMeanAnyKind[P, R any](e *env[P, R]) {
	e.put(NewItem{Name: "a", Kind: KindA, Due: -time.Minute})
	e.put(NewItem{Name: "b", Kind: KindB, Due: -time.Second})
	e.wantOrder(e.claimKinds(10), "a", "b")
}

// A kind at its bound is left out of the claim. However much of it waits, and however long, the others are found.
func waitingKindHidesNoOther[P, R any](e *env[P, R]) {
	for i := range 50 {
		e.put(NewItem{Name: item(i), Kind: KindA, Due: -time.Hour})
	}
	for i := range 3 {
		e.put(NewItem{Name: "live-" + item(i), Kind: KindB, Due: -time.Minute + time.Duration(i)*time.Second})
	}
	if got := len(e.claimKinds(5, KindA)); got == 0 {
		e.Fatalf("the first kind has tasks that are due, but none was claimed")
	}
	e.wantOrder(e.claimKinds(2, KindB), "live-item-000", "live-item-001")
	e.wantOrder(e.claimKinds(2, KindB), "live-item-002")
}
