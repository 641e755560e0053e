package jobstore

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pgqueue/pgqueue/runner"
)

// allClasses is the order of a claim that asks for none.
func allClasses() []int16 { return []int16{1, 2, 3, 4} }

// Claim leases up to request.Limit jobs that are due, in one statement. request.Kinds narrows the kinds of the
// configuration; a kind that is not among those is not claimed. A paused queue answers [runner.ErrPaused].
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
		head, found, err = readClaim(rows, q.config.Name, q.config.Kinds, request.Limit)
		return err
	})
	if err != nil {
		return nil, q.wrap("claim", err)
	}
	sortClaimed(found, classes)
	q.marks.done(from, head, classes, found, request.Limit)
	if head.paused && q.tx == nil { // in a transaction nobody waits for the end of the pause
		return nil, runner.ErrPaused
	}

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
