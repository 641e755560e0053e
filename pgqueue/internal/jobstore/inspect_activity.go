package jobstore

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// Bounds of what Activity looks at. 256 pages are 2 MB: 5,000 to 15,000 finished jobs whose payloads are small or stored apart.
const (
	activityPages = 256
	activityRows  = 10_000
)

// ActivityAsk asks for what has happened lately.
type ActivityAsk struct {
	Window          time.Duration
	Buckets, Queues int
}

// Activity is what ended between Since and Until, of one queue or of all.
type Activity struct {
	Since, Until                       time.Time
	More                               bool // the window reaches further back than Since
	Total                              bool
	Queue                              string
	Succeeded, Failed, Dead, Cancelled int
	Wait, Run                          []*float64 // median and 95th percentile in seconds; nil: of none it is known
	LongestWait, LongestRun            *float64
	Buckets, Good, Bad                 []int // the buckets that are not empty, from 1, and what ended in them
}

// Activity reads what has ended lately: all together first, then each queue, the busiest first, and one more than ask.Queues if there are more.
func (s *Store) Activity(ctx context.Context, q Querier, ask ActivityAsk) ([]Activity, error) {
	sql := s.inspect.activity
	if s.sql.apart {
		sql = s.inspect.activityByID
	}
	found, holes, err := s.activity(ctx, q, sql, ask)
	// On a standby nobody counts what was deleted. So where the last pages know nothing, the numbers are asked, too.
	if err == nil && !s.sql.apart && (holes || len(found) == 1 && found[0].Succeeded+found[0].Cancelled == 0) {
		found, _, err = s.activity(ctx, q, s.inspect.activityByID, ask)
	}
	if err != nil {
		return nil, fmt.Errorf("read what has ended lately: %w", err)
	}
	return found, nil
}

func (s *Store) activity(ctx context.Context, q Querier, sql string, ask ActivityAsk) (all []Activity, holes bool, err error) {
	var row Activity
	var since, until pgtype.Timestamptz
	var deleted *bool
	into := []any{
		&since, &until, &row.More, &deleted, &row.Total, &row.Queue, &row.Succeeded, &row.Failed, &row.Dead, &row.Cancelled,
		&row.Wait, &row.LongestWait, &row.Run, &row.LongestRun, &row.Buckets, &row.Good, &row.Bad,
	}
	args := []any{ask.Window.Seconds(), activityPages, activityRows, ask.Buckets, ask.Queues + 1, pgx.Identifier{s.schema}.Sanitize() + ".history_"}
	err = s.byIndex(ctx, q, sql, args, into, func() {
		next := row
		next.Since, next.Until = finite(since), finite(until)
		holes = deleted != nil && *deleted
		all = append(all, next)
		row = Activity{} // the next row gets slices of its own
	})
	return all, holes, err
}
