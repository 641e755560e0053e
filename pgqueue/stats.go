package pgqueue

import (
	"context"
	"time"

	"github.com/pgqueue/pgqueue/pgqueue/internal/jobstore"
)

const (
	// MaxStatsCount is where the numbers of [Client.Stats] stop counting.
	MaxStatsCount = 10_000
	// MaxStatsQueues is how many queues [Client.Stats] finds by itself.
	MaxStatsQueues = 1_000
)

// Count is a number that is not counted further than [MaxStatsCount].
type Count struct {
	N int
	// More says that N is a lower bound: the counting stopped there.
	More bool
}

// QueueStats is what one queue holds at one moment.
type QueueStats struct {
	Queue string

	// Ready counts the jobs that are due and wait for a worker, by priority: Ready[0] is priority 1. OldestReady is how
	// long the first of them has been due: the lag of the queue.
	Ready       [4]Count
	OldestReady time.Duration
	// Scheduled counts the jobs that are due later, and Retrying those of them that wait after a failed attempt.
	Scheduled Count
	Retrying  Count
	// Running counts the claimed jobs, and Expired those of them whose lease has run out and that the reaper has not
	// returned yet.
	Running Count
	Expired Count
	// Failed and Dead count what is kept in history for somebody to look at.
	Failed Count
	Dead   Count

	PausedAt     time.Time // zero: not paused
	PausedUntil  time.Time // when the pause ends by itself; zero: when somebody resumes the queue
	PausedReason string
	History      History
}

// Stats counts what queues hold, by index and on one snapshot, and answers in the order of the names; a name that nobody
// uses gets zeros. Without names it finds the queues by itself: those with live, failed or dead jobs or with settings,
// sorted, at most [MaxStatsQueues].
//
// It is made to be asked often: no number is counted beyond [MaxStatsCount], so the most it reads of one queue is about
// ten times as many index entries, however many jobs there are. Scheduled and Retrying are told apart among the first
// that many of each priority; so are Expired among the oldest claims, and Failed and Dead among the latest. Where that
// cut something off, both have More set.
func (c *Client) Stats(ctx context.Context, queues ...string) ([]QueueStats, error) {
	return c.stats(ctx, c.pool, queues)
}

// stats are those of Stats, on whatever can query.
func (c *Client) stats(ctx context.Context, q Querier, queues []string) ([]QueueStats, error) {
	return c.statsUpTo(ctx, q, queues, MaxStatsCount)
}

// statsUpTo are stats that count no number further than limit.
func (c *Client) statsUpTo(ctx context.Context, q Querier, queues []string, limit int) ([]QueueStats, error) {
	if len(queues) == 0 {
		names, err := c.store.QueueNames(ctx, q, MaxStatsQueues)
		if err != nil || len(names) == 0 {
			return nil, err
		}
		queues = names
	}
	rows, err := c.store.Stats(ctx, q, queues, limit)
	if err != nil {
		return nil, err
	}
	stats := make([]QueueStats, len(rows))
	for i := range rows {
		stats[i] = queueStats(&rows[i], limit)
	}
	return stats, nil
}

func queueStats(row *jobstore.Stats, limit int) QueueStats {
	future, running, attention := row.Future > limit, row.Running > limit, row.Attention > limit
	stats := QueueStats{
		Queue: row.Queue, OldestReady: row.OldestReady, PausedAt: row.PausedAt, PausedUntil: row.PausedUntil, PausedReason: row.PausedReason, History: History(row.History),
		Scheduled: boundedBy(row.Scheduled, future, limit), Retrying: boundedBy(row.Retrying, future, limit),
		Running: boundedBy(row.Running, running, limit), Expired: boundedBy(row.Expired, running, limit),
		Failed: boundedBy(row.Failed, attention, limit), Dead: boundedBy(row.Dead, attention, limit),
	}
	for i, n := range row.Ready {
		stats.Ready[i] = boundedBy(n, false, limit)
	}
	return stats
}

// bounded makes a Count; more says that the rows it was counted among were cut off.
func bounded(n int, more bool) Count { return boundedBy(n, more, MaxStatsCount) }

// boundedBy is bounded for a number that was counted up to limit.
func boundedBy(n int, more bool, limit int) Count {
	if n > limit {
		return Count{N: limit, More: true}
	}
	return Count{N: n, More: more}
}
