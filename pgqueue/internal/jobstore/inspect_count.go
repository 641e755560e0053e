package jobstore

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// Counted is how many rows of one state were looked at in one index, and how many of them match.
type Counted struct {
	Source           int
	State            string
	Scanned, Matches int
	Cut              bool // not all of the scanned rows were unpacked
}

// Count counts what matches, looking at no more than bound + 1 rows of each index (of all together, where the filter names
// jobs or a range of them).
func (s *Store) Count(ctx context.Context, q Querier, filter *Filter, bound int) ([]Counted, error) {
	sql, args := s.inspect.count, append(filter.args(), bound)
	switch {
	case filter.IDs != nil || filter.MinID != nil || filter.MaxID != nil:
		const source = 5
		sql, args = s.inspect.countIDs, append(filter.args(), nil, source, bound+1)
	case filter.Queue != nil:
		sql = s.inspect.countInQueue
	}
	var all []Counted
	var row Counted
	err := s.byIndex(ctx, q, sql, args, []any{&row.Source, &row.State, &row.Scanned, &row.Matches, &row.Cut}, func() { all = append(all, row) })
	if err != nil {
		return nil, fmt.Errorf("count jobs: %w", err)
	}
	return all, nil
}

// Group is failed or dead jobs that have much in common.
type Group struct {
	State, Code, Kind, Queue string
	N                        int
	First, Last              time.Time
	LastID                   int64
}

// Attention groups what matches among the latest failed and dead jobs, bound at most, and tells whether there are more.
func (s *Store) Attention(ctx context.Context, q Querier, filter *Filter, bound, groups int) (all []Group, more bool, err error) {
	sql := s.inspect.attention
	if filter.Queue != nil {
		sql = s.inspect.attentionInQueue
	}
	var row Group
	var first, last pgtype.Timestamptz
	into := []any{&more, &row.State, &row.Code, &row.Kind, &row.Queue, &row.N, &first, &last, &row.LastID}
	err = s.byIndex(ctx, q, sql, append(filter.args(), bound, groups), into, func() {
		row.First, row.Last = finite(first), finite(last)
		all = append(all, row)
	})
	if err != nil {
		return nil, false, fmt.Errorf("group failed jobs: %w", err)
	}
	return all, more, nil
}
