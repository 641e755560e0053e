package jobstore

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// Lapsed tells for each of several queues, by position, whether a lease has run out, in one statement that only reads. They must be of
// one store and on one pool. Where it says no, the next [Queue.Recover] starts where this one has looked.
func Lapsed(ctx context.Context, queues []*Queue) ([]bool, error) {
	if len(queues) == 0 {
		return nil, nil
	}
	first := queues[0]
	names, from := make([]string, len(queues)), make([]pgtype.Timestamptz, len(queues))
	for i, q := range queues {
		if q.sql != first.sql || q.pool != first.pool {
			return nil, fmt.Errorf("jobstore: queues %q and %q cannot be looked at together", first.config.Name, q.config.Name)
		}
		names[i], from[i] = q.config.Name, q.reap.begin()
	}
	answers, since := make([]bool, len(queues)), make([]pgtype.Timestamptz, len(queues))
	err := first.do(ctx, func(s session) error {
		done := 0
		for _, group := range first.sql.eachQueue(names) {
			rows, err := s.Query(ctx, first.sql.lapsed, first.statement(group, from[done:done+len(group)])...)
			if err != nil {
				return err
			}
			var position int64
			var lapsed bool
			var oldest pgtype.Timestamptz
			_, err = pgx.ForEachRow(rows, []any{&position, &lapsed, &oldest}, func() error {
				at := done + int(position) - 1
				answers[at], since[at] = lapsed, oldest
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
		return nil, fmt.Errorf("look for leases that ran out in %q: %w", slices.Sorted(slices.Values(names)), err)
	}
	for i, q := range queues {
		if !answers[i] {
			q.reap.move(since[i])
		}
	}
	return answers, nil
}
