package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/outbox"
	"github.com/pgqueue/pgqueue/runner"
)

// outboxEngine is the same engine over a table of the application's, with the two indexes that the adapter advises. Rows
// that are delivered stay, as in any outbox.
func outboxEngine() engine {
	return engine{
		family: "outbox", history: true, settings: fmt.Sprintf("workers=%d batch=%d", pgqueueWorkers, pgqueueBatch),
		open: func(ctx context.Context, db *database) (system, error) {
			_, err := db.pool.Exec(ctx, `CREATE TABLE IF NOT EXISTS deliveries (
				id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, status text NOT NULL DEFAULT 'pending', attempts int NOT NULL DEFAULT 0,
				next_attempt_at timestamptz NOT NULL DEFAULT now(), attempted_at timestamptz, created_at timestamptz NOT NULL DEFAULT now(),
				last_error text, padding text NOT NULL);
				CREATE INDEX IF NOT EXISTS deliveries_due ON deliveries (next_attempt_at, created_at) WHERE status = 'pending';
				CREATE INDEX IF NOT EXISTS deliveries_lost ON deliveries (attempted_at) WHERE status = 'processing'`)
			return &outboxSystem{db.pool}, err
		},
	}
}

// delivery is what the handler is given: the 100 bytes of the other engines' payload.
type delivery struct {
	ID      int64
	Padding string
}

type outboxSystem struct{ pool *pgxpool.Pool }

// fill uses COPY in batches of 10,000, as the others do.
func (s *outboxSystem) fill(ctx context.Context, lot lot) error {
	if err := lot.plain(); err != nil {
		return err
	}
	return lot.batches(10_000, func(n int) error {
		next := func(int) ([]any, error) { return []any{payload(0).Padding}, nil }
		_, err := s.pool.CopyFrom(ctx, pgx.Identifier{"deliveries"}, []string{"padding"}, pgx.CopyFromSlice(n, next))
		return err
	})
}

func (s *outboxSystem) work(ctx context.Context, load load) (*running, error) {
	flushed := make(flushes, 1)
	workers := pgqueueWorkers
	if load.handlers > 0 {
		workers = load.handlers
	}
	queue, err := outbox.New(s.pool, outbox.Table[delivery, struct{}]{
		Name: outbox.Name{"public", "deliveries"}, Key: []outbox.KeyColumn{{Name: "id"}},
		Status: outbox.StatusColumn{Name: "status", Pending: "pending", Processing: "processing", Succeeded: "delivered", Failed: "failed",
			Dead: "dead"},
		Attempts: "attempts", NextAttempt: "next_attempt_at", AttemptedAt: "attempted_at", CreatedAt: "created_at", LastError: "last_error",
		Columns: []string{"t.id", "t.padding"},
		Scan: func(row pgx.CollectableRow) (d delivery, err error) {
			return d, row.Scan(&d.ID, &d.Padding)
		},
	}, outbox.Config{Workers: workers, Batch: pgqueueBatch, Observer: flushed})
	if err != nil {
		return nil, err
	}
	worker, err := outbox.NewWorker(queue, runner.HandlerFunc[delivery, struct{}](
		func(ctx context.Context, _ *runner.Task[delivery]) (struct{}, error) {
			load.handle(ctx, 0)
			return struct{}{}, nil
		}))
	if err != nil {
		return nil, err
	}
	return watch(ctx, func() int64 { return int64(worker.Status().Runner.Outcomes.Succeeded) }, flushed, worker.Run), nil
}

func (s *outboxSystem) count(ctx context.Context) (open, kept int, err error) {
	err = s.pool.QueryRow(ctx, `SELECT count(*) FILTER (WHERE status <> 'delivered'), count(*) FILTER (WHERE status = 'delivered')
		FROM deliveries`).Scan(&open, &kept)
	return open, kept, err
}

func (s *outboxSystem) table() string { return "deliveries" }

func (s *outboxSystem) close(context.Context) {}
