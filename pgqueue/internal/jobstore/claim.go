package jobstore

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pgqueue/pgqueue/runner"
)

// allClasses is the order of a claim that asks for none.
func allClasses() []int16 { return []int16{1, 2, 3, 4} }

// Claim leases up to request.Limit jobs that are due, in one statement. request.Kinds narrows the kinds of the
// configuration; a kind that is not among those is not claimed.
func (q *Queue) Claim(ctx context.Context, request runner.ClaimRequest) ([]runner.Task[*Row], error) {
	if request.Limit < 1 {
		return nil, q.wrap("claim", errors.New("the limit must be at least 1"))
	}
	if request.Lease < time.Millisecond {
		return nil, q.wrap("claim", errors.New("the lease must be at least a millisecond"))
	}
	kinds := q.config.Kinds
	if request.Kinds != nil {
		kinds = q.among(request.Kinds)
		if len(kinds) == 0 {
			return nil, nil
		}
	}
	classes := allClasses()
	if len(request.Classes) > 0 {
		classes = make([]int16, len(request.Classes))
		for i, class := range request.Classes {
			classes[i] = int16(class)
		}
	}

	from := q.marks.begin(scanKey(kinds, classes), q.all, classes)
	var head envelope
	var found []claimedRow
	err := q.do(ctx, func(s session) error {
		rows, err := s.Query(ctx, q.sql.claim, q.statement(q.config.Name, request.Limit, request.Lease.Microseconds(),
			q.config.WorkerID, kinds, classes, from.runAt, from.id)...)
		if err != nil {
			return err
		}
		head, found, err = readClaim(rows, q.config.Name)
		return err
	})
	if err != nil {
		return nil, q.wrap("claim", err)
	}
	sortClaimed(found, classes)
	q.marks.done(from, head, classes, found, request.Limit)

	tasks := make([]runner.Task[*Row], len(found))
	for i, claimed := range found {
		row := claimed.row
		tasks[i] = runner.Task[*Row]{
			Token: row, Kind: row.Kind, Class: runner.Class(row.Priority),
			Attempt: row.Attempt, Failures: row.Failures, MaxAttempts: row.MaxAttempts,
			Due: row.RunAt, Claimed: row.ClaimedAt, Payload: row, Err: claimed.err,
		}
	}
	return tasks, nil
}

// among are those of kinds that this queue is configured for.
func (q *Queue) among(kinds []string) []string {
	if q.config.Kinds == nil {
		return kinds
	}
	var ours []string
	for _, kind := range kinds {
		if slices.Contains(q.config.Kinds, kind) {
			ours = append(ours, kind)
		}
	}
	return ours
}

// NextDue tells when the next job of this queue's kinds is due, by reading. A paused queue has nothing scheduled. A job
// that is due but locked, or that another worker takes first, makes the answer early.
func (q *Queue) NextDue(ctx context.Context) (wait time.Duration, ok bool, err error) {
	from := q.marks.begin(q.all, q.all, allClasses())
	var now, due pgtype.Timestamptz
	var took int64
	err = q.do(ctx, func(s session) error {
		rows, err := s.Query(ctx, q.sql.nextDue, q.statement(q.config.Name, from.runAt, from.id, q.config.Kinds)...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			if err := rows.Scan(&now, &due, &took); err != nil {
				return err
			}
		}
		return rows.Err()
	})
	if err != nil {
		return 0, false, q.wrap("look for due jobs", err)
	}
	switch {
	case !due.Valid || due.InfinityModifier == pgtype.Infinity:
		wait, ok = 0, false
	case due.InfinityModifier == pgtype.NegativeInfinity:
		wait, ok = 0, true
	default:
		wait, ok = due.Time.Sub(now.Time), true // Sub saturates
	}
	q.marks.probed(from, ok && wait <= 0, time.Duration(took)*time.Microsecond)
	return wait, ok, nil
}
