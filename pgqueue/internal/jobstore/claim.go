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
// configuration; a kind that is not among those is not claimed, and neither is one that is paused. A paused queue answers
// [runner.ErrPaused], with the wait for the end of the pause if it ends by itself.
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

	for range claimRounds {
		asked := q.holds.without(kinds, time.Now())
		if kinds != nil && len(asked) == 0 {
			// All of them are paused, as far as is known. A read tells, and walks over no backlog.
			if _, _, err := q.NextDue(ctx); err != nil && (q.tx == nil || !errors.Is(err, runner.ErrPaused)) {
				return nil, err
			}
			if asked = q.holds.without(kinds, time.Now()); len(asked) == 0 {
				return nil, nil
			}
		}
		tasks, freed, err := q.claim(ctx, request, asked, classes)
		if err != nil || len(tasks) > 0 || !freed {
			return tasks, err
		}
	}
	return nil, nil
}

// claimRounds is how often a claim that found nothing is made again because a kind goes on that it had left out.
const claimRounds = 2

// claim claims kinds. freed says that a kind goes on that was known to be paused when the claim was made, so was not asked for.
func (q *Queue) claim(ctx context.Context, request runner.ClaimRequest, kinds []string, classes []int16) (
	tasks []runner.Task[*Row], freed bool, err error) {
	from := q.marks.begin(scanKey(kinds, classes), q.all, classes)
	if q.config.Only != nil {
		from, classes = q.config.Only.from(from)
	}
	var head envelope
	var found []claimedRow
	var held []runner.PausedKind
	err = q.do(ctx, func(s session) error {
		rows, err := s.Query(ctx, q.sql.claim, q.statement(q.config.Name, request.Limit, request.Lease.Microseconds(),
			q.config.WorkerID, kinds, classes, from.runAt, from.id)...)
		if err != nil {
			return err
		}
		if head, found, err = readClaim(rows, q.config.Name, q.config.Kinds, request.Limit); err != nil {
			return err
		}
		held, err = readHolds(head.pausedKinds, time.Now())
		return err
	})
	if err != nil {
		return nil, false, q.wrap("claim", err)
	}
	freed = q.holds.note(head.now, held)
	head.hides = hides(held, kinds)
	sortClaimed(found, classes)
	q.marks.done(from, head, classes, found, request.Limit)
	if head.pausedUntil.Valid && q.tx == nil { // in a transaction nobody waits for the end of the pause
		return nil, false, pausedFor(head.now, head.pausedUntil)
	}

	tasks = make([]runner.Task[*Row], len(found))
	for i, claimed := range found {
		row := claimed.row
		tasks[i] = runner.Task[*Row]{
			Token: row, Kind: row.Kind, Class: runner.Class(row.Priority),
			Attempt: row.Attempt, Failures: row.Failures, MaxAttempts: row.MaxAttempts,
			Due: row.RunAt, Claimed: row.ClaimedAt, Payload: row, Err: claimed.err,
		}
	}
	return tasks, freed, nil
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
