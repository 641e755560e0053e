package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/outbox"
	"github.com/pgqueue/pgqueue/runner"
)

// outboxEngine is the same engine over a table of the application's, with the two indexes that the adapter advises. Rows
// that are delivered stay, as in any outbox.
func outboxEngine() engine {
	return engine{
		name: "outbox", history: true, settings: fmt.Sprintf("workers=%d batch=%d", pgqueueWorkers, pgqueueBatch),
		open: func(ctx context.Context, pool *pgxpool.Pool) (system, error) {
			_, err := pool.Exec(ctx, `CREATE TABLE deliveries (
				id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, status text NOT NULL DEFAULT 'pending', attempts int NOT NULL DEFAULT 0,
				next_attempt_at timestamptz NOT NULL DEFAULT now(), attempted_at timestamptz, created_at timestamptz NOT NULL DEFAULT now(),
				last_error text, padding text NOT NULL);
				CREATE INDEX ON deliveries (next_attempt_at, created_at) WHERE status = 'pending';
				CREATE INDEX ON deliveries (attempted_at) WHERE status = 'processing'`)
			return &outboxSystem{pool}, err
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
func (s *outboxSystem) fill(ctx context.Context, jobs int) error {
	const batch = 10_000
	for left := jobs; left > 0; left -= batch {
		next := func(int) ([]any, error) { return []any{padding()}, nil }
		_, err := s.pool.CopyFrom(ctx, pgx.Identifier{"deliveries"}, []string{"padding"}, pgx.CopyFromSlice(min(batch, left), next))
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *outboxSystem) drain(ctx context.Context, jobs int) (time.Duration, error) {
	flushed := make(flushes, 1)
	start := time.Now()
	queue, err := outbox.New(s.pool, outbox.Table[delivery, struct{}]{
		Name: outbox.Name{"public", "deliveries"}, Key: []outbox.KeyColumn{{Name: "id"}},
		Status: outbox.StatusColumn{Name: "status", Pending: "pending", Processing: "processing", Succeeded: "delivered", Failed: "failed",
			Dead: "dead"},
		Attempts: "attempts", NextAttempt: "next_attempt_at", AttemptedAt: "attempted_at", CreatedAt: "created_at", LastError: "last_error",
		Columns: []string{"t.id", "t.padding"},
		Scan: func(row pgx.CollectableRow) (d delivery, err error) {
			return d, row.Scan(&d.ID, &d.Padding)
		},
	}, outbox.Config{Workers: pgqueueWorkers, Batch: pgqueueBatch, Observer: flushed})
	if err != nil {
		return 0, err
	}
	worker, err := outbox.NewWorker(queue, runner.HandlerFunc[delivery, struct{}](
		func(context.Context, *runner.Task[delivery]) (struct{}, error) { return struct{}{}, nil }))
	if err != nil {
		return 0, err
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(running) }()
	for worker.Status().Runner.Outcomes.Succeeded < uint64(jobs) {
		select {
		case <-flushed:
		case err := <-ended:
			return 0, fmt.Errorf("the worker ended early: %w", errors.Join(err, ctx.Err()))
		}
	}
	took := time.Since(start)
	stop()
	return took, <-ended
}

func (s *outboxSystem) count(ctx context.Context) (open, kept int, err error) {
	err = s.pool.QueryRow(ctx, `SELECT count(*) FILTER (WHERE status <> 'delivered'), count(*) FILTER (WHERE status = 'delivered')
		FROM deliveries`).Scan(&open, &kept)
	return open, kept, err
}

func (s *outboxSystem) table() string { return "deliveries" }

func (s *outboxSystem) close(context.Context) {}
