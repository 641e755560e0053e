package jobstore

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
)

// WithoutHistory returns those of queues that keep no history, in order.
func (s *Store) WithoutHistory(ctx context.Context, q Querier, queues []string) ([]string, error) {
	rows, err := q.Query(ctx, s.sql.withoutHistory, slices.Concat(freshFor(q), []any{queues})...)
	if err == nil {
		queues, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	if err != nil {
		return nil, fmt.Errorf("look for queues without history: %w", err)
	}
	return queues, nil
}
