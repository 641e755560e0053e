package runner

import "time"

// kindState is what a session knows about one kind. It is guarded by the session's lock.
type kindState struct {
	name     string
	bound    int
	deadline time.Duration // negative: none
	backoff  Backoff

	running  int
	buffered int
	ended    int // attempts that ended since a claim last asked for this kind: it is alive

	// more is false from a claim of this kind that came back empty until a hint or a poll says to look again.
	more bool
}

// free is how many more may start.
func (k *kindState) free() int { return max(0, k.bound-k.running) }

// kindSet is all kinds of a session. Without configured kinds it is one anonymous kind with all slots.
type kindSet struct {
	all    []*kindState
	byName map[string]*kindState
	other  *kindState // the anonymous kind, or the one for tasks of kinds that were not asked for
	named  bool
}

func newKindSet(c *Config) *kindSet {
	set := &kindSet{named: len(c.Kinds) > 0, byName: make(map[string]*kindState, len(c.Kinds))}
	set.other = &kindState{bound: c.Workers, deadline: c.Deadline, backoff: c.Backoff, more: true}
	if !set.named {
		set.all = []*kindState{set.other}
		return set
	}
	set.other.bound = max(1, c.Workers-1)
	for _, k := range c.Kinds {
		state := &kindState{name: k.Name, bound: k.Workers, deadline: k.Deadline, backoff: k.Backoff, more: true}
		if state.backoff == nil {
			state.backoff = c.Backoff
		}
		set.all = append(set.all, state)
		set.byName[k.Name] = state
	}
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
