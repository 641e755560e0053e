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

// NextDue tells when the next job of this queue's kinds is due, by reading. A paused queue answers [runner.ErrPaused], with the wait
// for the end of the pause if it ends by itself. A job that is due but locked, or that another worker takes first, makes the
// answer early.
func (q *Queue) NextDue(ctx context.Context) (wait time.Duration, ok bool, err error) {
	probes, err := Probe(ctx, []*Queue{q})
	switch {
	case err != nil:
		return 0, false, err
	case probes[0].Paused && probes[0].Scheduled:
		return 0, false, &runner.PausedError{For: probes[0].Wait}
	case probes[0].Paused:
		return 0, false, runner.ErrPaused
	default:
		return probes[0].Wait, probes[0].Scheduled, nil
	}
}

// probeRow is the answer about one queue.
type probeRow struct {
	position, micros        int64
	now, pausedUntil, dueAt pgtype.Timestamptz
	pausedKinds             *string
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
		// The marks of the claims that are made now: those without paused kinds.
		from[i] = q.marks.begin(scanKey(q.holds.without(q.config.Kinds, time.Now()), allClasses()), q.all, allClasses())
		runAt, id = append(runAt, from[i].runAt...), append(id, from[i].id...)
	}
	answers := make([]probeRow, len(queues))
	err := first.do(ctx, func(s session) error {
		var row probeRow
		done := 0
		for _, group := range first.sql.eachQueue(names) {
			a, b := 4*done, 4*(done+len(group)) // four marks a queue
			rows, err := s.Query(ctx, first.sql.probe, first.statement(group, runAt[a:b], id[a:b], first.config.Kinds)...)
			if err != nil {
				return err
			}
			into := []any{&row.position, &row.now, &row.pausedUntil, &row.dueAt, &row.pausedKinds, &row.micros}
			_, err = pgx.ForEachRow(rows, into, func() error {
				answers[done+int(row.position)-1] = row
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
	probes := make([]runner.Probe, len(queues))
	now := time.Now()
	for i, q := range queues {
		if probes[i], err = q.tell(from[i], &answers[i], now); err != nil {
			return nil, err
		}
	}
	return probes, nil
}

// tell takes note of the answer about this queue and translates it.
func (q *Queue) tell(from start, row *probeRow, now time.Time) (runner.Probe, error) {
	held, err := readHolds(row.pausedKinds, now)
	if err != nil {
		return runner.Probe{}, q.wrap("look for due jobs", err)
	}
	freed := q.holds.note(row.now, held)
	probe := probed(row.now, row.dueAt)
	if probe.Paused = row.pausedUntil.Valid; probe.Paused {
		return probe, nil // no row was read
	}
	if freed {
		probe = runner.Probe{Scheduled: true} // it was not looked for: a claim will tell
	}
	q.marks.probed(from, probe.Scheduled && probe.Wait <= 0, time.Duration(row.micros)*time.Microsecond)
	return probe, nil
}

// probed translates a due time.
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
