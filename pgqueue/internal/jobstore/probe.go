package jobstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pgqueue/pgqueue/runner"
)

// NextDue tells when the next job of this queue's kinds is due, by reading. A paused queue answers [runner.ErrPaused]. A
// job that is due but locked, or that another worker takes first, makes the answer early.
func (q *Queue) NextDue(ctx context.Context) (wait time.Duration, ok bool, err error) {
	probes, err := Probe(ctx, []*Queue{q})
	if err != nil {
		return 0, false, err
	}
	if probes[0].Paused {
		return 0, false, runner.ErrPaused
	}
	return probes[0].Wait, probes[0].Scheduled, nil
}

// Probe asks for several queues at once, in one statement that only reads, and answers by position. They must be of one
// store, on one pool, and claim the same kinds.
func Probe(ctx context.Context, queues []*Queue) ([]runner.Probe, error) {
	if len(queues) == 0 {
		return nil, nil
	}
	first := queues[0]
	names := make([]string, len(queues))
	from := make([]start, len(queues))
	var runAt []pgtype.Timestamptz
	var id []int64
	for i, q := range queues {
		if q.sql != first.sql || q.pool != first.pool || q.all != first.all {
			return nil, fmt.Errorf("jobstore: queues %q and %q cannot be probed together", first.config.Name, q.config.Name)
		}
		names[i] = q.config.Name
		from[i] = q.marks.begin(q.all, q.all, allClasses())
		runAt, id = append(runAt, from[i].runAt...), append(id, from[i].id...)
	}
	probes := make([]runner.Probe, len(queues))
	took := make([]time.Duration, len(queues))
	err := first.do(ctx, func(s session) error {
		var position, micros int64
		var now, due pgtype.Timestamptz
		var paused bool
		done := 0
		for _, group := range first.sql.eachQueue(names) {
			a, b := 4*done, 4*(done+len(group)) // four marks a queue
			rows, err := s.Query(ctx, first.sql.probe, first.statement(group, runAt[a:b], id[a:b], first.config.Kinds)...)
			if err != nil {
				return err
			}
			_, err = pgx.ForEachRow(rows, []any{&position, &now, &paused, &due, &micros}, func() error {
				i := done + int(position) - 1
				probes[i] = probed(now, due)
				probes[i].Paused = paused
				took[i] = time.Duration(micros) * time.Microsecond
				return nil
			})
			if err != nil {
				return err
			}
			done += len(group)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look for due jobs in %q: %w", slices.Sorted(slices.Values(names)), err)
	}
	for i, q := range queues {
		// A paused queue may be asked as well: its rows were read like those of any other.
		q.marks.probed(from[i], probes[i].Scheduled && probes[i].Wait <= 0, took[i])
	}
	return probes, nil
}

// probed translates the answer about one queue.
func probed(now, due pgtype.Timestamptz) runner.Probe {
	switch {
	case !due.Valid || due.InfinityModifier == pgtype.Infinity:
		return runner.Probe{}
	case due.InfinityModifier == pgtype.NegativeInfinity:
		return runner.Probe{Scheduled: true}
	default:
		return runner.Probe{Scheduled: true, Wait: due.Time.Sub(now.Time)} // Sub saturates
	}
}
