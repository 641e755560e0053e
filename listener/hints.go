package listener

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
)

// maxPending bounds the names that wait to be told. Beyond it, all of them become one look at every queue.
const maxPending = 1024

// hints is the hand-over from the goroutine that reads to one that calls back: a bounded set of names, in the
// order of arrival, and a mark that every queue should be looked at. Adding never blocks. A name leaves the set before
// its callback runs, so a hint that arrives during the callback is told again and none is lost.
type hints struct {
	mu      sync.Mutex
	waiting map[string]struct{}
	order   []string
	all     bool
	wake    chan struct{} // holds one token while there may be something to take
}

func newHints() *hints {
	return &hints{waiting: map[string]struct{}{}, wake: make(chan struct{}, 1)}
}

// addResult says what became of an added name.
type addResult int

const (
	added    addResult = iota
	merged             // it was waiting already, or every queue is to be looked at anyway
	overflow           // the set was full and the name was not kept
)

// add puts queue into the set.
func (h *hints) add(queue string) addResult {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.waiting[queue]; ok || h.all {
		return merged
	}
	if len(h.order) >= maxPending {
		return overflow
	}
	h.waiting[queue] = struct{}{}
	h.order = append(h.order, queue)
	h.signal()
	return added
}

// addAll marks every queue, which makes the names needless.
func (h *hints) addAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = true
	clear(h.waiting)
	h.order = nil
	h.signal()
}

// signal leaves a token for the dispatcher. The lock is held.
func (h *hints) signal() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// take removes the next thing to tell: every queue first, then names in the order of arrival.
func (h *hints) take() (queue string, all, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.all:
		h.all = false
		return "", true, true
	case len(h.order) > 0:
		queue = h.order[0]
		h.order = h.order[1:]
		delete(h.waiting, queue)
		return queue, false, true
	}
	return "", false, false
}

// dispatch calls back until stop is closed. What is still waiting then is dropped: there is nobody left to wake.
func (l *Listener) dispatch(h *hints, stop <-chan struct{}, name string, tell func(string)) {
	for {
		select {
		case <-stop:
			return
		case <-h.wake:
		}
		for {
			select {
			case <-stop:
				return
			default:
			}
			one, all, ok := h.take()
			if !ok {
				break
			}
			if !all {
				l.callBack(name, func() { tell(one) })
			} else {
				l.callBack("OnConnect", l.config.OnConnect) // not nil: nobody marks all without it
			}
		}
	}
}

var errGoexit = errors.New("called runtime.Goexit")

// callBack runs a callback to its end and contains its panic. It runs on a goroutine of its own, so that
// runtime.Goexit (a test's FailNow) ends that one and not the dispatcher.
func (l *Listener) callBack(name string, call func()) {
	done := make(chan error, 1)
	go func() {
		result := errGoexit
		defer func() {
			if cause := recover(); cause != nil {
				result = fmt.Errorf("panic: %T\n%s", cause, debug.Stack())
			}
			done <- result
		}()
		call()
		result = nil
	}()
	if err := <-done; err != nil {
		l.update(func(status *Status) { status.Panics++ })
		l.config.Logger.Error("listener: a callback failed", "callback", name, "error", err)
	}
}
