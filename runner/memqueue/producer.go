package memqueue

import (
	"fmt"

	"github.com/pgqueue/pgqueue/runner"
)

// Put adds a task, or replaces the input of the live task of the same name, and returns its id.
//
// A replaced pending task keeps its place in line, a running one is superseded: its run goes on, its verdict does not
// count, and the task is pending again with the input given here. Either way the new input has a whole budget, and a
// request to cancel the old one is forgotten. The revision that is already live changes nothing.
func (q *Queue[P, R]) Put(input Input[P]) int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.config.Now()
	if input.Class == 0 {
		input.Class = runner.ClassFresh
	}
	if input.Due.IsZero() {
		input.Due = now
	}
	if input.MaxAttempts < 1 {
		input.MaxAttempts = q.config.MaxAttempts
	}
	t := q.names[input.Name]
	switch {
	case t == nil:
		q.nextID++
		t = &task[P, R]{id: q.nextID, name: input.Name, state: Pending, due: input.Due}
		if t.name == "" {
			t.name = fmt.Sprintf("#%d", t.id)
		}
		q.live[t.id], q.names[t.name] = t, t
	case t.revision != "" && t.revision == input.Revision && !t.cancelRequested:
		return t.id
	case t.state == Running || input.Due.Before(t.due):
		t.due = input.Due
	}
	t.generation++
	t.revision, t.kind, t.class = input.Revision, input.Kind, input.Class
	t.payload, t.err = input.Payload, input.Err
	t.maxAttempts, t.failures, t.cancelRequested, t.ineligible = input.MaxAttempts, 0, false, false
	q.sort(t)
	return t.id
}

// Delete removes the live task of a name, running or not, without a trace in the history, and says whether there was one.
func (q *Queue[P, R]) Delete(name string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	t := q.names[name]
	if t == nil {
		return false
	}
	if t.pile != nil {
		t.pile.take(t)
	}
	delete(q.live, t.id)
	delete(q.names, name)
	return true
}

// RequestCancel ends a pending task as cancelled. A running one is asked to stop: the next renewal says so, and its
// verdict, unless it is a success, or its recovery ends it. False means that no live task has this name.
func (q *Queue[P, R]) RequestCancel(name string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	t := q.names[name]
	switch {
	case t == nil:
		return false
	case t.state == Pending:
		q.end(t, Cancelled)
	default:
		t.cancelRequested = true
	}
	return true
}

// Get returns the live task of a name, or else the one that ended last. False means that the name was never put, was
// deleted, or has ended in a queue that forgets.
func (q *Queue[P, R]) Get(name string) (Item[P, R], bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if t := q.names[name]; t != nil {
		return t.item(), true
	}
	if t := q.last[name]; t != nil {
		return t.item(), true
	}
	return Item[P, R]{}, false
}

// Len counts the live tasks, pending and running ones.
func (q *Queue[P, R]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.live)
}

// History returns what has ended, in that order.
func (q *Queue[P, R]) History() []Item[P, R] {
	q.mu.Lock()
	defer q.mu.Unlock()
	items := make([]Item[P, R], len(q.history))
	for i, t := range q.history {
		items[i] = t.item()
	}
	return items
}
