package jobstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// SetReported notes that the handler has said how far it is: whoever ends the job takes that along.
func (r *Row) SetReported() { atomic.StoreUint32(&r.reported, 1) }

// Reported tells whether SetReported was called.
func (r *Row) Reported() bool { return atomic.LoadUint32(&r.reported) == 1 }

// Progress is what a handler has said.
type Progress struct {
	Kind    string // of the job
	Value   json.RawMessage
	Attempt int
	At      time.Time
}

// Said is what the handler of one attempt says.
type Said struct {
	ID      int64
	Attempt int
	Value   string // JSON
}

// WriteProgress writes what handlers of one queue say. Jobs that have ended or were claimed again are left out.
func (s *Store) WriteProgress(ctx context.Context, q Querier, queue string, said []Said) error {
	ids, attempts, values := make([]int64, len(said)), make([]int32, len(said)), make([]string, len(said))
	for i, one := range said {
		ids[i], attempts[i], values[i] = one.ID, int32(one.Attempt), one.Value
	}
	if err := s.discard(ctx, q, s.single.progressWrite, slices.Concat(freshFor(q), []any{queue, ids, attempts, values})...); err != nil {
		return fmt.Errorf("write the progress of %d jobs of queue %q: %w", len(said), queue, err)
	}
	return nil
}

// ForgetProgress deletes what was said about jobs that these attempts have ended.
func (s *Store) ForgetProgress(ctx context.Context, q Querier, ids []int64, attempts []int32) error {
	if err := s.discard(ctx, q, s.single.progressForget, slices.Concat(freshFor(q), []any{ids, attempts})...); err != nil {
		return fmt.Errorf("delete the progress of %d jobs: %w", len(ids), err)
	}
	return nil
}

// ReadProgress reads what was said about a live job; nil if nothing was, or there is no such job.
func (s *Store) ReadProgress(ctx context.Context, q Querier, id int64) (*Progress, error) {
	rows, err := q.Query(ctx, s.single.progressRead, slices.Concat(freshFor(q), []any{id})...)
	if err != nil {
		return nil, fmt.Errorf("read the progress of job %d: %w", id, err)
	}
	var found *Progress
	var kind, value string
	var attempt int
	var at pgtype.Timestamptz
	_, err = pgx.ForEachRow(rows, []any{&kind, &value, &attempt, &at}, func() error {
		found = &Progress{Kind: kind, Value: json.RawMessage(value), Attempt: attempt, At: finite(at)}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the progress of job %d: %w", id, err)
	}
	return found, nil
}

// expireProgress deletes what is left of jobs that have ended. A role that may not, and a schema without it, are no failure of upkeep.
func (q *Queue) expireProgress(ctx context.Context) error {
	var after int64
	for range maxDrops {
		var gone int
		var next *int64
		err := q.do(ctx, func(s session) error {
			rows, err := s.Query(ctx, q.single.expireProgress, q.statement(after, expireBatch)...)
			if err != nil {
				return err
			}
			_, err = pgx.ForEachRow(rows, []any{&gone, &next}, func() error { return nil })
			return err
		})
		var fromServer *pgconn.PgError
		if errors.As(err, &fromServer) {
			switch fromServer.Code {
			case "42501", "42883", "42P01":
				if !q.progressRefused.Swap(true) {
					q.log.WarnContext(ctx, "pgqueue: upkeep may not delete the progress of jobs that have ended; docs/roles.md has the GRANT", "error", err)
				}
				return nil
			}
		}
		if err != nil {
			return q.wrap("upkeep of progress", err)
		}
		if next == nil {
			return nil
		}
		after = *next
	}
	return nil
}
