package pgqueue

import (
	"context"
	"sync"
	"time"

	"github.com/pgqueue/pgqueue/pgqueue/internal/jobstore"
)

// lookout asks on behalf of all queues of a worker whether a lease has run out. The reaper comes to the queues at the same time,
// so the first that asks gets the answer for all of them, and an idle worker of fifty queues sends one statement in five
// seconds instead of a hundred. Once in a while a queue is reaped without a question: only that shows that it still can be.
type lookout struct {
	queues []*jobstore.Queue
	turn   chan struct{} // holds one while somebody asks, and guards what follows

	answered time.Time
	answers  map[*jobstore.Queue]bool // that nobody has taken yet
	err      error                    // instead of answers
	asks     int

	mu      sync.Mutex
	healthy map[*jobstore.Queue]bool // whose last reap worked; the others have to be reaped
}

const (
	// lookoutFresh is how old an answer may be. A lease that runs out in between waits for the next pass.
	lookoutFresh = 250 * time.Millisecond
	// lookoutTries is after how many questions one of the queues is reaped in any case: twenty seconds. Rights and locks are those of the
	// table, so one queue stands for all.
	lookoutTries = 4
)

func newLookout() *lookout {
	return &lookout{turn: make(chan struct{}, 1), healthy: map[*jobstore.Queue]bool{}}
}

// lapsed tells whether q is to be reaped. An answer is given once: who asks again wants to know how it is now.
func (l *lookout) lapsed(ctx context.Context, q *jobstore.Queue) (bool, error) {
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return false, ctx.Err()
	}
	if !l.isHealthy(q) {
		delete(l.answers, q)
		return true, nil
	}
	lapsed, ok := l.answers[q]
	if fresh := time.Since(l.answered) < lookoutFresh; !fresh || l.err == nil && !ok {
		l.ask(ctx)
		lapsed = l.answers[q] || l.asks%lookoutTries == 0
	}
	delete(l.answers, q)
	return lapsed, l.err
}

// ask asks about all queues. A failure is everybody's as well: those that come at the same time do not try again one by one.
func (l *lookout) ask(ctx context.Context) {
	var answers []bool
	answers, l.err = jobstore.Lapsed(ctx, l.queues)
	l.asks++
	l.answered, l.answers = time.Now(), make(map[*jobstore.Queue]bool, len(answers))
	for i, answer := range answers {
		l.answers[l.queues[i]] = answer
	}
}

// reaped notes how a reap ended. After a failure, and after a full page, the next pass reaps without a question.
func (l *lookout) reaped(q *jobstore.Queue, again bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.healthy[q] = !again
}

func (l *lookout) isHealthy(q *jobstore.Queue) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.healthy[q]
}
