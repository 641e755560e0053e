package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// pgqTick is how often the ticker is called, as pgqd would. A batch is what came between two ticks.
const pgqTick = 20 * time.Millisecond

// pgqEngine is the bound of what only appends: PgQ hands out whole batches, knows no state of a single event, and empties its tables by
// rotation. A job that fails, waits or is retried would cost it more; ours always succeed.
func pgqEngine() engine {
	return engine{
		family: "pgq", settings: fmt.Sprintf("one consumer, tick=%s", pgqTick), needs: needsPgQ,
		open: func(ctx context.Context, db *database) (system, error) {
			_, err := db.pool.Exec(ctx, `CREATE EXTENSION IF NOT EXISTS pgq;
				SELECT pgq.create_queue('noop'), pgq.register_consumer('noop', 'bench');
				SELECT pgq.set_queue_config('noop', 'ticker_max_count', '1')`)
			return &pgqSystem{db.pool}, err
		},
	}
}

type pgqSystem struct{ pool *pgxpool.Pool }

// fill copies into the table that PgQ names for that, 10,000 events a transaction, and a tick after each.
func (s *pgqSystem) fill(ctx context.Context, lot lot) error {
	if err := lot.plain(); err != nil {
		return err
	}
	return lot.batches(10_000, func(n int) error {
		data := fmt.Sprintf(`{"padding":%q}`, payload(0).Padding)
		err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
			var table string
			var now time.Time
			if err := tx.QueryRow(ctx, `SELECT pgq.current_event_table('noop'), now()`).Scan(&table, &now); err != nil {
				return err
			}
			schema, name := pgqName(table)
			_, err := tx.CopyFrom(ctx, pgx.Identifier{schema, name}, []string{"ev_time", "ev_type", "ev_data"},
				pgx.CopyFromSlice(n, func(int) ([]any, error) { return []any{now, "noop", data}, nil }))
			return err
		})
		if err != nil {
			return err
		}
		return s.tick(ctx)
	})
}

// pgqName splits a name such as pgq.event_1_0.
func pgqName(table string) (schema, name string) {
	for i := range table {
		if table[i] == '.' {
			return table[:i], table[i+1:]
		}
	}
	return "pgq", table
}

func (s *pgqSystem) tick(ctx context.Context) error {
	_, err := s.pool.Exec(ctx, `SELECT pgq.ticker('noop')`)
	return err
}

func (s *pgqSystem) enqueue(ctx context.Context, one order) error {
	if one.queue != "" || !one.due.IsZero() {
		return errors.New("pgq knows neither other queues here nor later events")
	}
	p := payload(one.stamp)
	_, err := s.pool.Exec(ctx, `SELECT pgq.insert_event('noop', 'noop', $1)`, fmt.Sprintf(`{"padding":%q}`, p.Padding))
	return err
}

// work takes batch after batch and reads every event of each.
func (s *pgqSystem) work(ctx context.Context, load load) (*running, error) {
	var done atomic.Int64
	moved := make(chan struct{}, 1)
	return watch(ctx, done.Load, moved, func(ctx context.Context) error {
		for ctx.Err() == nil {
			n, more, err := s.batch(ctx, load)
			if err != nil && ctx.Err() == nil {
				return err
			}
			if n > 0 {
				done.Add(n)
				wake(moved)
			}
			if more {
				continue
			}
			if err := pause(ctx, pgqTick); err != nil {
				return nil
			}
			if err := s.tick(ctx); err != nil && ctx.Err() == nil {
				return err
			}
		}
		return nil
	}), nil
}

// batch works the next batch, if there is one. Its success is stored when it is finished.
func (s *pgqSystem) batch(ctx context.Context, load load) (events int64, more bool, err error) {
	var batch *int64
	if err := s.pool.QueryRow(ctx, `SELECT pgq.next_batch('noop', 'bench')`).Scan(&batch); err != nil || batch == nil {
		return 0, false, err
	}
	rows, err := s.pool.Query(ctx, `SELECT ev_id, ev_type, ev_data FROM pgq.get_batch_events($1)`, *batch)
	if err != nil {
		return 0, false, err
	}
	defer rows.Close()
	for rows.Next() {
		load.handle(ctx, 0)
		events++
	}
	if err := rows.Err(); err != nil {
		return 0, false, err
	}
	_, err = s.pool.Exec(ctx, `SELECT pgq.finish_batch($1)`, *batch)
	return events, true, err
}

// count knows the events that no batch has held yet. None is kept for good: rotation empties the tables.
func (s *pgqSystem) count(ctx context.Context) (open, kept int, err error) {
	err = s.pool.QueryRow(ctx, `SELECT coalesce(sum(pending_events), 0) FROM pgq.get_consumer_info('noop', 'bench')`).Scan(&open)
	return open, 0, err
}

func (s *pgqSystem) table() string { return "pgq.event_template" }

func (s *pgqSystem) close(context.Context) {}
