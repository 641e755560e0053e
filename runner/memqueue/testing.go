package memqueue

import "time"

// Lock holds a task as another session would hold its row: claims and recoveries pass over it, verdicts are busy, renewals
// locked. Each Lock needs an [Queue.Unlock] of its own. Producers are not kept out. False means that no live task has this
// name.
func (q *Queue[P, R]) Lock(name string) bool { return q.lock(name, 1) }

// Unlock takes one [Queue.Lock] back. False means that there is none.
func (q *Queue[P, R]) Unlock(name string) bool { return q.lock(name, -1) }

func (q *Queue[P, R]) lock(name string, delta int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	t := q.names[name]
	if t == nil || t.locks+delta < 0 {
		return false
	}
	t.locks += delta
	q.sort(t)
	return true
}

// SetEligible says whether a task may be completed at its present input. One that may not is not claimed either, and a
// success of it is answered with runner.Ineligible. A new input is eligible. False means that no live task has this name.
func (q *Queue[P, R]) SetEligible(name string, eligible bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	t := q.names[name]
	if t == nil {
		return false
	}
	t.ineligible = !eligible
	q.sort(t)
	return true
}

// SetDue changes when a task is due. False means that no live task has this name.
func (q *Queue[P, R]) SetDue(name string, due time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	t := q.names[name]
	if t == nil {
		return false
	}
	t.due = due
	q.sort(t)
	return true
}

// ExpireLeases lets every lease that is held now run out at once.
func (q *Queue[P, R]) ExpireLeases() {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.config.Now()
	for _, t := range q.leases.tasks {
		if t.leaseUntil.After(now) {
			t.leaseUntil = now
		}
	}
	// Many are equal now, and equal ones are ordered by id, which the old leases did not follow.
	for i := q.leases.len()/2 - 1; i >= 0; i-- {
		q.leases.down(i)
	}
}

// RejectResults gives the queue a check that stands for what a store may refuse: a success whose result it rejects ends the
// task as failed, and the result is not stored. Nil takes the check away. It is called with the queue's mutex held.
func (q *Queue[P, R]) RejectResults(check func(result R) error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.check = check
}
