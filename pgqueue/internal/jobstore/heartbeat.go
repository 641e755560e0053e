package jobstore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// Heartbeat is what a worker says about itself.
type Heartbeat struct {
	ID, Host, Version string
	PID               int
	Started           bool // this run has not reported before
	Every             time.Duration
	Stopping          bool
	Queues, Kinds     string // JSON objects
}

// Heartbeat writes it to the table workers.
func (s *Store) Heartbeat(ctx context.Context, q Querier, h Heartbeat) error {
	err := s.discard(ctx, q, s.sql.heartbeat, h.ID, h.Host, h.PID, h.Version, h.Started, h.Every.Microseconds(), h.Stopping, h.Queues, h.Kinds)
	if err != nil {
		return fmt.Errorf("heartbeat of worker %q: %w", h.ID, err)
	}
	return nil
}

// Goodbye removes a worker from the table workers.
func (s *Store) Goodbye(ctx context.Context, q Querier, id string) error {
	if err := s.discard(ctx, q, s.sql.goodbye, id); err != nil {
		return fmt.Errorf("goodbye of worker %q: %w", id, err)
	}
	return nil
}

// Peers counts the other live workers of queues; a queue without any is left out.
func (s *Store) Peers(ctx context.Context, q Querier, id string, queues []string) (map[string]int, error) {
	peers, err := byQueue[int](ctx, q, s.sql.peers, id, queues)
	if err != nil {
		return nil, fmt.Errorf("look for other workers: %w", err)
	}
	return peers, nil
}

// UnknownKinds gives, for queues where jobs are due that neither the asker, who has handlers for kinds, nor any live worker has
// a handler for, one kind of these jobs.
func (s *Store) UnknownKinds(ctx context.Context, q Querier, queues, kinds []string) (map[string]string, error) {
	unknown := map[string]string{}
	for _, group := range s.sql.eachQueue(queues) {
		found, err := byQueue[string](ctx, q, s.sql.unknownKinds, group, kinds)
		if err != nil {
			return nil, fmt.Errorf("look for jobs without a handler: %w", err)
		}
		maps.Copy(unknown, found)
	}
	return unknown, nil
}

// byQueue reads one value for each queue. Statements here are planned anew each time, like those of the queues.
func byQueue[V any](ctx context.Context, q Querier, sql string, args ...any) (map[string]V, error) {
	rows, err := q.Query(ctx, sql, slices.Concat(freshFor(q), args)...)
	if err != nil {
		return nil, err
	}
	values := map[string]V{}
	var queue string
	var value V
	_, err = pgx.ForEachRow(rows, []any{&queue, &value}, func() error {
		values[queue] = value
		return nil
	})
	return values, err
}

// discard runs a statement whose answer says nothing.
func (s *Store) discard(ctx context.Context, q Querier, sql string, args ...any) error {
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		return err
	}
	rows.Close()
	return rows.Err()
}
