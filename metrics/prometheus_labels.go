package metrics

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"unicode/utf8"
)

// other stands for every name that has no label of its own.
const other = "other"

// maxQueues bounds the queues that are taken up from runners, which are made by code. It is there for a program that makes
// runners without end.
const maxQueues = 1000

// labels decides which names become labels of what this process counts and does; the gauges of the database have a rule of their own,
// see byLabel. Names come from two sides: a runner's own name and the kinds it runs were
// configured in this process, and are taken up; the queue in a hint was made up by whoever sent it, and is not.
type labels struct {
	mutex    sync.Mutex
	queues   map[string]bool
	kinds    map[string]bool // true: in Kinds, and not counted against maxKinds
	learned  int
	maxKinds int
}

func newLabels() *labels {
	return &labels{queues: map[string]bool{}, kinds: map[string]bool{}}
}

// allow takes up names that the configuration lists. Of several configurations the largest bound counts.
func (l *labels) allow(queues, kinds []string, maxKinds int) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for _, queue := range queues {
		l.queues[queue] = true
	}
	for _, kind := range kinds {
		if listed, known := l.kinds[kind]; known && !listed {
			l.learned--
		}
		l.kinds[kind] = true
	}
	l.maxKinds = max(l.maxKinds, maxKinds)
}

// learnQueue returns the label of a queue that this process serves.
func (l *labels) learnQueue(name string) string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.queues[name] {
		return name
	}
	if len(l.queues) >= maxQueues || !utf8.ValidString(name) {
		return other
	}
	l.queues[name] = true
	return name
}

// knownQueue returns the label of a queue that anybody may have named.
func (l *labels) knownQueue(name string) string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.queues[name] {
		return name
	}
	return other
}

// knownQueues lists the queues that have labels.
func (l *labels) knownQueues() []string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return slices.Collect(maps.Keys(l.queues))
}

// learnKind returns the label of a kind that a runner of this process ran.
func (l *labels) learnKind(name string) string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if _, known := l.kinds[name]; known {
		return name
	}
	if l.learned >= l.maxKinds || !utf8.ValidString(name) {
		return other
	}
	l.kinds[name] = false
	l.learned++
	return name
}

// table finds the children of a name without a lock: its map is copied when a name is added, which happens a few times in
// the life of a process.
type table[T any] struct {
	mutex sync.Mutex
	all   atomic.Pointer[map[string]*T]
}

// find returns what is stored for name, or nil.
func (t *table[T]) find(name string) *T {
	if all := t.all.Load(); all != nil {
		return (*all)[name]
	}
	return nil
}

// add stores what is made for name, unless something is stored already, and returns what is.
func (t *table[T]) add(name string, made func() *T) *T {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if found := t.find(name); found != nil {
		return found
	}
	next := map[string]*T{}
	if all := t.all.Load(); all != nil {
		next = maps.Clone(*all)
	}
	next[name] = made()
	t.all.Store(&next)
	return next[name]
}
