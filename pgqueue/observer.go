package pgqueue

import (
	"fmt"
	"log/slog"

	"github.com/pgqueue/pgqueue/pgqueue/internal/jobstore"
	"github.com/pgqueue/pgqueue/runner"
)

// The observer interfaces of this package are told about the hints that a client sends; the observer of [WithObserver] may
// implement any of them. Their methods are called inside an enqueue, or by the client's own goroutine, several at a time: they
// must only count and return. A panic in one is contained and logged. The name of a queue comes from whoever enqueues; do not
// make it a metric label without a bound.

// HintSentObserver is told when a hint goes out with an enqueue. If the transaction rolls back, nobody hears it.
type HintSentObserver interface{ HintSent(queue string) }

// HintHeldObserver is told when a hint is held back, see [WithHintWindow]: a trailing one follows.
type HintHeldObserver interface{ HintHeld(queue string) }

// HintTrailedObserver is told when the client has sent trailing hints in a transaction of its own, or, with an error, that it
// could not.
type HintTrailedObserver interface {
	HintsTrailed(queues []string, err error)
}

// Observers makes one observer of several: each is told of the events whose interfaces it implements, in this order, whether
// those are of this package or of runner, listener or reaper. One that panics does not keep the others from being told. nil
// ones are left out.
func Observers(all ...any) any { return runner.Observers(all...) }

// InfoOf tells which job an event of package runner is about: the observers of a [Worker] are given its AttemptEvents. ok is
// false for the event of another kind of queue.
func InfoOf(e runner.AttemptEvent) (info JobInfo, ok bool) {
	return InfoOfToken(e.Token)
}

// InfoOfToken is [InfoOf] for every event of package runner that has a Token: those of leases, verdicts and stuck handlers.
func InfoOfToken(token runner.Token) (info JobInfo, ok bool) {
	row, ok := token.(*jobstore.Row)
	if !ok || row == nil {
		return JobInfo{}, false
	}
	return infoOf(row), true
}

// hintObservers are the observers of a client, looked up once.
type hintObservers struct {
	logger  *slog.Logger
	sent    []HintSentObserver
	held    []HintHeldObserver
	trailed []HintTrailedObserver
}

func newHintObservers(observer any, logger *slog.Logger) hintObservers {
	found := hintObservers{logger: logger}
	for _, one := range runner.EachObserver(observer) {
		if o, ok := one.(HintSentObserver); ok {
			found.sent = append(found.sent, o)
		}
		if o, ok := one.(HintHeldObserver); ok {
			found.held = append(found.held, o)
		}
		if o, ok := one.(HintTrailedObserver); ok {
			found.trailed = append(found.trailed, o)
		}
	}
	return found
}

// tellHints tells every observer of one interface and contains their panics: counting must not fail an enqueue.
func tellHints[T any](h *hintObservers, those []T, tell func(T)) {
	for _, one := range those {
		func() {
			defer func() {
				if cause := recover(); cause != nil {
					h.logger.Error("pgqueue: an observer panicked", "type", fmt.Sprintf("%T", cause))
				}
			}()
			tell(one)
		}()
	}
}

func (h *hintObservers) hintSent(queue string) {
	tellHints(h, h.sent, func(o HintSentObserver) { o.HintSent(queue) })
}

func (h *hintObservers) hintHeld(queue string) {
	tellHints(h, h.held, func(o HintHeldObserver) { o.HintHeld(queue) })
}

func (h *hintObservers) hintsTrailed(queues []string, err error) {
	tellHints(h, h.trailed, func(o HintTrailedObserver) { o.HintsTrailed(queues, err) })
}
