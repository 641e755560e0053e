package pgqueue

import (
	"context"
	"sync"
	"time"

	"github.com/pgqueue/pgqueue/pgqueue/internal/jobstore"
)

// lookout asks on behalf of all queues of a worker whether a lease has run out. The reaper comes to the queues at the same time,
// so the first that asks gets the answer for all of them, and an idle worker of fifty queues sends one statement in five
// seconds instead of a hundred.
type lookout struct {
	queues []*jobstore.Queue

	mu      sync.Mutex
	asked   time.Time
	answers map[*jobstore.Queue]bool // that nobody has taken yet
}

// lookoutFresh is how old an answer may be. A lease that runs out in between waits for the next pass.
const lookoutFresh = 250 * time.Millisecond

// lapsed tells whether a lease of q has run out. An answer is given once: who asks again wants to know how it is now.
func (l *lookout) lapsed(ctx context.Context, q *jobstore.Queue) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if lapsed, ok := l.answers[q]; ok && time.Since(l.asked) < lookoutFresh {
		delete(l.answers, q)
		return lapsed, nil
	}
	asked := time.Now()
	answers, err := jobstore.Lapsed(ctx, l.queues)
	if err != nil {
		return false, err
	}
	l.asked, l.answers = asked, make(map[*jobstore.Queue]bool, len(answers))
	lapsed := false
	for i, other := range l.queues {
		if other == q {
			lapsed = answers[i]
		} else {
			l.answers[other] = answers[i]
		}
	}
	return lapsed, nil
}
