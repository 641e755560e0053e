package memqueue

// pile is a binary heap of tasks that knows the place of each, so that one can be taken out of the middle. A task is in
// one pile at most: pending ones wait in the pile of their class and kind, running ones in the pile of leases.
//
// It is not container/heap, because the five methods of heap.Interface would have to be written all the same.
type pile[P, R any] struct {
	tasks  []*task[P, R]
	before func(a, b *task[P, R]) bool
}

func (p *pile[P, R]) len() int { return len(p.tasks) }

func (p *pile[P, R]) head() *task[P, R] {
	if len(p.tasks) == 0 {
		return nil
	}
	return p.tasks[0]
}

func (p *pile[P, R]) add(t *task[P, R]) {
	t.pile, t.place = p, len(p.tasks)
	p.tasks = append(p.tasks, t)
	p.up(t.place)
}

// take removes t, which must be in p.
func (p *pile[P, R]) take(t *task[P, R]) {
	last := len(p.tasks) - 1
	place := t.place
	p.swap(place, last)
	p.tasks[last] = nil // or the finished task could not be collected
	p.tasks = p.tasks[:last]
	if place < last {
		p.fix(place)
	}
	t.pile, t.place = nil, 0
}

// fix restores the order after the task at place has changed.
func (p *pile[P, R]) fix(place int) {
	if !p.down(place) {
		p.up(place)
	}
}

func (p *pile[P, R]) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !p.before(p.tasks[i], p.tasks[parent]) {
			return
		}
		p.swap(i, parent)
		i = parent
	}
}

func (p *pile[P, R]) down(i int) (moved bool) {
	for {
		child := 2*i + 1
		if child >= len(p.tasks) {
			return moved
		}
		if right := child + 1; right < len(p.tasks) && p.before(p.tasks[right], p.tasks[child]) {
			child = right
		}
		if !p.before(p.tasks[child], p.tasks[i]) {
			return moved
		}
		p.swap(i, child)
		i, moved = child, true
	}
}

func (p *pile[P, R]) swap(i, j int) {
	p.tasks[i], p.tasks[j] = p.tasks[j], p.tasks[i]
	p.tasks[i].place, p.tasks[j].place = i, j
}

// byDue is the order in which pending tasks start.
func byDue[P, R any](a, b *task[P, R]) bool {
	if a.due.Equal(b.due) {
		return a.id < b.id
	}
	return a.due.Before(b.due)
}

// byLease is the order in which leases run out.
func byLease[P, R any](a, b *task[P, R]) bool {
	if a.leaseUntil.Equal(b.leaseUntil) {
		return a.id < b.id
	}
	return a.leaseUntil.Before(b.leaseUntil)
}
