package queuetest

import (
	"context"
	"fmt"
	"time"

	"github.com/pgqueue/pgqueue/runner"
)

// Kinds of the items that the suite adds. A queue that must know its kinds in advance is made for these two.
const (
	KindA = "alpha"
	KindB = "beta"
)

// MinBudget is the least value of [Harness.Budget].
const MinBudget = 3

// Harness is one empty queue and what may happen to its items from outside. All operations take effect before they
// return, fail the test by themselves when they cannot, and need not be safe for concurrent use.
//
// The suite speaks of items by names such as "a" or "item-017"; a harness whose keys are numbers or uuids keeps a map. The
// same name must always give the same key: an item that is deleted and added again is another item under the same key.
type Harness[P, R any] struct {
	// Queue is the queue under test, empty.
	Queue runner.Queue[P, R]

	// Budget is how many attempts of an item may fail: the failure with this number makes it dead. At least [MinBudget]; a
	// small one keeps the suite fast.
	Budget int

	// Without declares what the queue cannot do. The operation of a capability that is listed here must be nil, the one of a
	// capability that is not listed must be there.
	Without []Capability

	// Add commits a new item. The name is not in use.
	Add func(item NewItem)
	// Delete removes an item that is not ended, claimed or not, as an application would that knows nothing of claims.
	Delete func(name string)
	// Look tells how an item stands. One that is not there, or no longer, has the State [Absent].
	Look func(name string) Item
	// Name tells which item a claimed task is. It is not called for a task with Err set.
	Name func(task runner.Task[P]) string
	// MakeDue lets the due time of a waiting item come, by the clock or by changing the row.
	MakeDue func(name string)
	// ExpireLeases lets every lease that is held now run out, by the clock or by changing rows; claims and renewals that come
	// after it hold. It must not touch what tokens consist of. Where the lease is a column, one UPDATE does it. Where it is
	// computed from a column of the token, note the store's time here, and let Recover take what was claimed before it.
	ExpireLeases func()
	// Recover makes one pass that returns stale leases, at most limit of them, and tells how many.
	Recover func(ctx context.Context, limit int) (int, error)

	// Replace gives a live item, claimed or not, another input with this revision. Capability [Revisions].
	Replace func(name, revision string)
	// Revision tells the revision of the input that a claimed payload is. Capability [Revisions].
	Revision func(payload P) string
	// Result makes a result that carries text, as [Item.Result] shows it again. Capability [Results].
	Result func(text string) R
	// BadResult makes a result that the store refuses. Capability [BadResults].
	BadResult func() R
	// MakeIneligible takes from a live item the right to be completed at its present revision. Capability [Eligibility].
	MakeIneligible func(name string)
	// Lock locks the row of an item as another session of the application does, until unlock is called; unlock may be called
	// twice. Capability [Locks].
	Lock func(name string) (unlock func())
	// AddUndecodable adds an item, due now, whose payload cannot be decoded, of kind [KindA] and class ClassFresh.
	// Capability [Undecodable].
	AddUndecodable func(name string)
	// RequestCancel asks a claimed item to stop, so that its next renewal says so. Capability [CancelRequests].
	RequestCancel func(name string)
}

// NewItem is an item to add.
type NewItem struct {
	Name     string
	Kind     string        // [KindA] or [KindB]; KindA where it does not matter
	Class    runner.Class  // ClassFresh or ClassCatchUp; ClassFresh where it does not matter
	Revision string        // never empty; ignore it without [Revisions]
	Due      time.Duration // from now on the store's clock; negative is in the past
}

// State is where an item is in its life, in the suite's words.
type State uint8

const (
	// Absent means: there is no such item. Without [History] this is what every ended item is.
	Absent State = iota
	// Waiting means: nobody holds a claim that a verdict other than a late success could end; due or not.
	Waiting
	// Claimed means: a worker holds it. It stays so when its lease has run out, until it is recovered.
	Claimed
	// Succeeded means: it has ended well.
	Succeeded
	// Failed means: it has ended because trying again is pointless.
	Failed
	// Dead means: it has ended because its budget is spent.
	Dead
	// Cancelled means: it has ended because somebody wanted it.
	Cancelled
)

// String returns the state's name in lower case.
func (s State) String() string {
	names := [...]string{"absent", "waiting", "claimed", "succeeded", "failed", "dead", "cancelled"}
	if int(s) < len(names) {
		return names[s]
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// Item is how an item stands.
type Item struct {
	State State
	// Attempts is any number that a verdict which changes nothing does not change: the claims so far, or zero.
	Attempts int
	// Failures is how many attempts have failed since the input was last replaced. Capability [FailureCount].
	Failures int
	// HasResult says that a result is stored with the item, and Result is its text. Capability [Results].
	HasResult bool
	Result    string
	// Revision is that of the latest input. Capability [Revisions].
	Revision string
	// DueIn is how long until a waiting item is due on the store's clock; zero or less means now.
	DueIn time.Duration
}
