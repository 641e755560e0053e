package console

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// How far the list of queues counts. The page of a queue counts to ten times that.
const queuesListBound = 1_000

const (
	// countedPages is how many different pages of queues are remembered.
	countedPages = 64
	// longestCounted bounds how old counts may be.
	longestCounted = 30 * time.Second
)

// queueCounts keeps what the list of queues counts for all who look: it is asked for each second by each browser that shows it. What was
// counted is good for ten times as long as the counting took, so that counting a page never takes more than a tenth of the time of one
// connection, however dear it is and however many look. Where it is cheap, that is no delay that anybody sees. The zero value is ready for use.
type queueCounts struct {
	mu    sync.Mutex
	pages map[string]*countedPage
}

type countedPage struct {
	mu    sync.Mutex
	stats []pgqueue.QueueStats
	until time.Time // when it is to be counted anew
}

// of counts queues, or answers with what was counted a moment ago. The answer must not be changed.
func (q *queueCounts) of(ctx context.Context, inspector *pgqueue.Inspector, names []string) ([]pgqueue.QueueStats, error) {
	page := q.page(strings.Join(names, "\x00"))
	page.mu.Lock()
	defer page.mu.Unlock()
	start := time.Now()
	if start.Before(page.until) {
		return page.stats, nil
	}
	stats, err := inspector.QueuesUpTo(ctx, queuesListBound, names...)
	if err != nil {
		return nil, err
	}
	end := time.Now()
	page.stats, page.until = stats, end.Add(min(10*end.Sub(start), longestCounted))
	return stats, nil
}

// forget lets everything be counted anew: somebody has changed something and wants to see it.
func (q *queueCounts) forget() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.pages = nil
}

// page finds the place of a page.
func (q *queueCounts) page(key string) *countedPage {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.pages[key] == nil {
		if q.pages == nil || len(q.pages) >= countedPages {
			q.pages = map[string]*countedPage{} // those who are counting keep theirs
		}
		q.pages[key] = &countedPage{}
	}
	return q.pages[key]
}
