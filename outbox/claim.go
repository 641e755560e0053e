package outbox

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pgqueue/pgqueue/runner"
)

// Claim leases up to request.Limit rows that are due, in one statement. Where a row refuses to be claimed, because a
// trigger of the application's raises, the others are claimed one by one and that row has failed an attempt.
func (q *Queue[P, R]) Claim(ctx context.Context, request runner.ClaimRequest) ([]runner.Task[P], error) {
	return q.claimUntil(ctx, request, forever())
}

// forever is no bound: rows are due by the clock alone.
func forever() pgtype.Timestamptz {
	return pgtype.Timestamptz{InfinityModifier: pgtype.Infinity, Valid: true}
}

// claimUntil is Claim of rows that were due at until already.
func (q *Queue[P, R]) claimUntil(ctx context.Context, request runner.ClaimRequest, until pgtype.Timestamptz) ([]runner.Task[P], error) {
	if request.Limit < 1 {
		return nil, q.wrap("claim", errors.New("the limit must be at least 1"))
	}
	if request.Lease < time.Millisecond {
		return nil, q.wrap("claim", errors.New("the lease must be at least a millisecond"))
	}
	given := q.claimArgs(request, until)
	tasks, err := q.claimFrom(ctx, given, request.Limit)
	if err != nil {
		return nil, q.wrap("claim", err)
	}
	for i := range tasks {
		q.held.take(tasks[i].Token.(*claimToken))
	}
	return tasks, nil
}

// claimArgs are the parameters of a claim from the very beginning of the table.
func (q *Queue[P, R]) claimArgs(request runner.ClaimRequest, until pgtype.Timestamptz) args {
	kinds := q.kinds
	if request.Kinds != nil {
		kinds = request.Kinds
	}
	classes := q.classes()
	if len(request.Classes) > 0 {
		classes = make([]int16, len(request.Classes))
		for i, class := range request.Classes {
			classes[i] = int16(class)
		}
	}
	from := beginning()
	return args{
		"limit": int64(request.Limit), "lease_us": request.Lease.Microseconds(), "until": until, "kinds": kinds, "classes": classes,
		"max": int64(q.config.MaxAttempts), "hold_us": q.config.Hold.Microseconds(), "mark_due": from.due, "mark_created": from.created,
	}
}

// classes are those of the configuration.
func (q *Queue[P, R]) classes() []int16 {
	if len(q.config.Classes) == 0 {
		return []int16{1, 2, 3, 4}
	}
	classes := make([]int16, len(q.config.Classes))
	for i, class := range q.config.Classes {
		classes[i] = int16(class)
	}
	return classes
}

// claimFrom claims, from the mark where that saves a walk. An empty answer means that nothing is due: then the walk from the
// beginning was taken.
func (q *Queue[P, R]) claimFrom(ctx context.Context, given args, limit int) ([]runner.Task[P], error) {
	whole := q.table.Priority != "" || q.table.Kind != "" // a place in the order of all rows says nothing about some
	from, full := beginning(), true
	if !whole {
		from, full = q.mark.begin()
	}
	given["mark_due"], given["mark_created"] = from.due, from.created
	tasks, err := q.send(ctx, given, limit)
	if err != nil {
		return nil, err
	}
	if !full && len(tasks) == 0 {
		from = beginning()
		given["mark_due"], given["mark_created"] = from.due, from.created
		if tasks, err = q.send(ctx, given, limit); err != nil {
			return nil, err
		}
	}
	if !whole {
		q.mark.done(tokensOf(tasks), limit)
	}
	q.sort(tasks, given["classes"].([]int16))
	return tasks, nil
}

// send sends one claim; a refusal of a row's is dealt with.
func (q *Queue[P, R]) send(ctx context.Context, given args, limit int) (tasks []runner.Task[P], err error) {
	name := "claim"
	if except := q.suspended.keys(); except != nil {
		name = "claim_but"
		q.addKeys(given, "except_", except)
	}
	err = q.do(ctx, name, given, func(rows pgx.Rows) (err error) {
		tasks, err = q.readClaim(rows, limit)
		return err
	})
	if refused(err) {
		return q.claimCarefully(ctx, given, limit, err)
	}
	return q.distinct(tasks), err
}

// distinct is for joins that find several rows for one: the first of them stands for all, and fails.
func (q *Queue[P, R]) distinct(tasks []runner.Task[P]) []runner.Task[P] {
	if q.table.Join == "" || len(tasks) < 2 {
		return tasks
	}
	seen := make(map[string]int, len(tasks))
	kept := tasks[:0]
	for _, task := range tasks {
		row := task.Token.(*claimToken).row()
		if at, twice := seen[row]; twice {
			kept[at].Err = errManyJoined
			continue
		}
		seen[row] = len(kept)
		kept = append(kept, task)
	}
	return kept
}

var errManyJoined = errors.New("the join found several rows for this one")

// sort puts tasks in the order in which they should start.
func (q *Queue[P, R]) sort(tasks []runner.Task[P], classes []int16) {
	rank := func(task *runner.Task[P]) int { return slices.Index(classes, int16(task.Class)) }
	slices.SortStableFunc(tasks, func(a, b runner.Task[P]) int {
		if q.table.Priority != "" && a.Class != b.Class {
			return cmp.Compare(rank(&a), rank(&b))
		}
		return placeOf(a.Token.(*claimToken)).compare(placeOf(b.Token.(*claimToken)))
	})
}

func tokensOf[P any](tasks []runner.Task[P]) []*claimToken {
	tokens := make([]*claimToken, len(tasks))
	for i := range tasks {
		tokens[i] = tasks[i].Token.(*claimToken)
	}
	return tokens
}

// kindName is a kind's name, without a copy where it is a configured one.
func (q *Queue[P, R]) kindName(text []byte) string {
	for _, kind := range q.kinds {
		if string(text) == kind {
			return kind
		}
	}
	return string(text)
}
