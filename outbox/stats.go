package outbox

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// StatsCap is how far [Queue.Stats] counts: a count that reaches it means that many or more.
const StatsCap = 10_000

// Stats says how many rows stand how. Each number is at most [StatsCap].
type Stats struct {
	Ready      int64 // pending and due
	Scheduled  int64 // pending, not due, and not attempted since it was made, or resumed
	Retrying   int64 // pending, not due, after an attempt
	Processing int64
	Failed     int64
	Dead       int64
	// Held are those among Ready that something has set back to pending right after a claim; see [Config].Hold. A number that
	// stays up is a loop.
	Held int64
	// OldestReady is how long the first ready row has been due.
	OldestReady time.Duration
}

// Stats counts the rows by reading. Counting pending and processing rows uses the indexes that claims use; failed and dead
// rows are counted fast only where an index leads to them.
func (q *Queue[P, R]) Stats(ctx context.Context) (Stats, error) {
	var stats Stats
	var oldest *float64
	given := args{"cap": int64(StatsCap), "hold_us": q.config.Hold.Microseconds()}
	err := q.do(ctx, "stats", given, func(rows pgx.Rows) error {
		_, err := pgx.ForEachRow(rows, []any{&stats.Ready, &stats.Scheduled, &stats.Retrying, &stats.Processing, &stats.Failed, &stats.Dead,
			&stats.Held, &oldest}, func() error { return nil })
		return err
	})
	if err != nil {
		return Stats{}, q.wrap("stats", err)
	}
	if oldest != nil {
		stats.OldestReady = time.Duration(min(*oldest, maxDuration.Seconds()) * float64(time.Second))
	}
	return stats, nil
}

// Label says how one row stands, in the words of [Stats]: "ready", "scheduled", "retrying", "processing", "succeeded",
// "failed", "dead" or "cancelled"; for a status that the description does not know, that status; and "" if there is no such
// row. The statement "label" of [Queue.SQL] has the expression, for a view of your own.
func (q *Queue[P, R]) Label(ctx context.Context, key ...any) (label string, err error) {
	given, err := q.oneKey(key)
	if err == nil {
		err = q.do(ctx, "label", given, func(rows pgx.Rows) error {
			_, err := pgx.ForEachRow(rows, []any{&label}, func() error { return nil })
			return err
		})
	}
	return label, q.wrap("label", err)
}
