package jobstore

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// Sizes are the lengths of a record's large columns as text, in bytes; 0 where there is none.
type Sizes struct {
	Payload, Metadata, Result int
}

// Peek is Read, but of payload, metadata and result no more than limit characters; what is longer than that is not
// valid JSON any more. Of an encoded payload or result it is sealed characters. It returns nil if there is no such job.
func (s *Store) Peek(ctx context.Context, q Querier, id int64, limit, sealed int) (*Record, Sizes, error) {
	var sizes Sizes
	record, err := readRecord(ctx, q, id, s.inspect.peek, []any{id, limit, sealed}, &sizes.Payload, &sizes.Metadata, &sizes.Result)
	return record, sizes, err
}

// Process is one row of workers.
type Process struct {
	ID, Host, Version     string
	PID                   int
	StartedAt, SeenAt     time.Time
	Every                 time.Duration
	Stopping, Alive       bool
	QueuesJSON, KindsJSON string
}

// Workers lists the processes that report themselves, by id.
func (s *Store) Workers(ctx context.Context, q Querier, limit int) ([]Process, error) {
	rows, err := q.Query(ctx, s.inspect.workers, append(freshFor(q), limit)...)
	if err != nil {
		return nil, fmt.Errorf("list workers: %w", err)
	}
	var all []Process
	var row Process
	var started, seen pgtype.Timestamptz
	var every float64
	_, err = pgx.ForEachRow(rows, []any{
		&row.ID, &row.Host, &row.PID, &row.Version, &started, &seen, &every, &row.Stopping, &row.Alive, &row.QueuesJSON, &row.KindsJSON,
	}, func() error {
		row.StartedAt, row.SeenAt, row.Every = finite(started), finite(seen), time.Duration(every*float64(time.Second))
		all = append(all, row)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list workers: %w", err)
	}
	return all, nil
}

// WhyNotRunning says in words why a job does not run; empty if there is no such job.
func (s *Store) WhyNotRunning(ctx context.Context, q Querier, id int64) (string, error) {
	rows, err := q.Query(ctx, s.inspect.whyNotRunning, append(freshFor(q), id)...)
	if err != nil {
		return "", fmt.Errorf("ask why job %d does not run: %w", id, err)
	}
	var reason *string
	if _, err := pgx.ForEachRow(rows, []any{&reason}, func() error { return nil }); err != nil {
		return "", fmt.Errorf("ask why job %d does not run: %w", id, err)
	}
	return text(reason), nil
}
