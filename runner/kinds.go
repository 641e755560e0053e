package runner

import (
	"cmp"
	"slices"
	"time"
)

// kindState is what a session knows about one kind. It is guarded by the session's lock.
type kindState struct {
	names    []string // and its aliases
	bound    int
	deadline time.Duration // negative: none
	backoff  Backoff
	attempts int // that may fail; 0: no bound of ours

	// Of kinds with batches; size is zero for all others.
	size    int
	collect time.Duration
	hasten  bool          // a drain: do not wait when there is nothing more to come
	reserve bool          // what is collected has its slot already
	mean    time.Duration // of batches, as session.mean

	running  int
	replaced int // of running, stuck ones that another slot was added for: bound is that much higher
	buffered int
	ended    int // attempts that ended since a claim last asked for this kind: it is alive

	// more is false from a claim of this kind that came back empty until a hint or a poll says to look again.
	more bool
}

// places is how many tasks may be buffered without waiting for a slot of the kind.
func (k *kindState) places() int { return k.free() * max(1, k.size) }

// free is how many more may start.
func (k *kindState) free() int { return max(0, k.bound-k.running) }

// kindSet is all kinds of a session. Without configured kinds it is one anonymous kind with all slots.
type kindSet struct {
	all    []*kindState
	byName map[string]*kindState
	other  *kindState // the anonymous kind, or the one for tasks of kinds that were not asked for
	named  bool

	// groups are claimed separately: all kinds without batches together, and each kind with batches by itself, because
	// a number of tasks means another number of slots there.
	groups   [][]*kindState
	capacity int // of all slots, in tasks
}

// collected counts the buffered tasks of kinds with batches.
func (s *kindSet) collected() (n int) {
	if len(s.groups) == 1 && s.groups[0][0].size == 0 {
		return 0
	}
	for _, k := range s.all {
		if k.size > 0 {
			n += k.buffered
		}
	}
	return n
}

// group fills in groups and capacity.
func (s *kindSet) group(workers int) {
	var plain []*kindState
	var batches [][]*kindState
	for _, k := range s.all {
		if k.size == 0 {
			plain = append(plain, k)
		} else {
			batches = append(batches, []*kindState{k})
		}
	}
	if plain != nil {
		s.groups = append(s.groups, plain)
	}
	s.groups = append(s.groups, batches...)
	slices.SortFunc(batches, func(a, b []*kindState) int { return cmp.Compare(b[0].size, a[0].size) })
	for _, only := range batches {
		n := min(workers, only[0].bound)
		s.capacity += n * only[0].size
		workers -= n
	}
	s.capacity += workers
}

func newKindSet(c *Config, drain bool) *kindSet {
	set := &kindSet{named: len(c.Kinds) > 0, byName: make(map[string]*kindState, len(c.Kinds))}
	set.other = &kindState{bound: c.Workers, deadline: c.Deadline, backoff: c.Backoff, more: true}
	if !set.named {
		set.all = []*kindState{set.other}
		set.group(c.Workers)
		return set
	}
	set.other.bound = max(1, c.Workers-1)
	for _, k := range c.Kinds {
		state := &kindState{
			names: append([]string{k.Name}, k.Aliases...), bound: k.Workers, deadline: k.Deadline, backoff: k.Backoff,
			attempts: k.MaxAttempts, more: true,
			size: k.BatchSize, collect: k.Collect, hasten: drain, reserve: c.RenewEvery == 0,
		}
		if state.backoff == nil {
			state.backoff = c.Backoff
		}
		set.all = append(set.all, state)
		for _, name := range state.names {
			set.byName[name] = state
		}
	}
	set.group(c.Workers)
	return set
}

// of returns the state of a task's kind. known is false for a kind that was not asked for.
func (s *kindSet) of(name string) (state *kindState, known bool) {
	if !s.named {
		return s.other, true
	}
	if state, known = s.byName[name]; known {
		return state, true
	}
	return s.other, false
}

// look says that there may be more of every kind.
func (s *kindSet) look() {
	for _, k := range s.all {
		k.more = true
	}
}

// quiet says whether the latest claims found every kind empty.
func (s *kindSet) quiet() bool {
	for _, k := range s.all {
		if k.more {
			return false
		}
	}
	return true
}
