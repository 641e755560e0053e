package jobstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/runner"
)

// Renew extends leases in one statement; only if it leaves some out a second one tells those that are locked, which
// nobody else can take either, from those that are lost. The same token twice gets the same answer twice.
func (q *Queue) Renew(ctx context.Context, tokens []runner.Token, lease time.Duration) ([]runner.Renewal, error) {
	if lease < time.Millisecond {
		return nil, q.wrap("renew", errors.New("the lease must be at least a millisecond"))
	}
	want := make([]fence, len(tokens))
	for i, token := range tokens {
		row, ok := token.(*Row)
		if !ok || row == nil || row.Queue != q.config.Name {
			return nil, q.wrap("renew", fmt.Errorf("token %d (%v) is not from this queue", i, token))
		}
		want[i] = fence{row.ID, row.Attempt}
	}
	unique := slices.Clone(want)
	slices.SortFunc(unique, cmpFence)
	unique = slices.Compact(unique)

	answers := make(map[fence]runner.Renewal, len(unique))
	for part := range slices.Chunk(unique, maxRows) {
		if err := q.renew(ctx, part, lease, answers); err != nil {
			return nil, q.wrap("renew", err)
		}
	}
	renewals := make([]runner.Renewal, len(want))
	for i, at := range want {
		renewals[i] = answers[at]
		if renewals[i] == runner.Renewed || renewals[i] == runner.CancelRequested {
			tokens[i].(*Row).setMoved()
		}
		// A job that its handler has completed in a transaction is gone as soon as that commits, and nothing is lost by
		// it: the handler may take its time to return. If the transaction rolls back, the verdict will tell.
		if row := tokens[i].(*Row); renewals[i] == runner.Refused && row.isCompleting() {
			renewals[i] = runner.Renewed
		}
	}
	return renewals, nil
}

// renew renews one part and puts an answer for each of it into answers.
func (q *Queue) renew(ctx context.Context, part []fence, lease time.Duration, answers map[fence]runner.Renewal) error {
	ids, attempts := make([]int64, len(part)), make([]int32, len(part))
	for i, at := range part {
		ids[i], attempts[i] = at.id, int32(at.attempt)
	}
	err := q.do(ctx, func(s session) error {
		rows, err := s.Query(ctx, q.sql.renew, q.statement(q.config.Name, ids, attempts, lease.Microseconds())...)
		if err != nil {
			return err
		}
		var at fence
		var cancel bool
		_, err = pgx.ForEachRow(rows, []any{&at.id, &at.attempt, &cancel}, func() error {
			answers[at] = runner.Renewed
			if cancel {
				answers[at] = runner.CancelRequested
			}
			return nil
		})
		return err
	})
	if err != nil {
		return err
	}

	var left []int64
	for _, at := range part {
		if answers[at] == 0 {
			left = append(left, at.id)
		}
	}
	if len(left) == 0 {
		return nil
	}
	found, err := q.look(ctx, left)
	if err != nil {
		return err
	}
	for _, at := range part {
		if answers[at] != 0 {
			continue
		}
		answers[at] = runner.Refused
		if row, ok := found[at.id]; ok && row.attempt == at.attempt && row.running {
			answers[at] = runner.Locked
		}
	}
	return nil
}
