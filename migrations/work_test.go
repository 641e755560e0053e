package migrations_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// size is small in every run and full where PGQUEUE_TEST_FULL asks for it.
func size(small, full int) int {
	if os.Getenv("PGQUEUE_TEST_FULL") != "" {
		return full
	}
	return small
}

// ping is the arguments of the jobs that these tests run.
type ping struct{}

// Kind implements pgqueue.Args.
func (ping) Kind() string { return "ping" }

// runAJob starts a worker on a queue, enqueues a job there, and stops the worker when the job has run. It is also what the processes
// of these tests do.
func runAJob(ctx context.Context, pool *pgxpool.Pool, schema, queue string) error {
	client, err := pgqueue.NewClient(pool, pgqueue.WithSchema(schema), pgqueue.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return err
	}
	defer func() { _ = client.Close(ctx) }()
	ran := make(chan struct{}, 1)
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[ping]) error {
		ran <- struct{}{}
		return nil
	})
	worker, err := client.NewWorker(mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{queue: {Workers: 1}}})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	over := make(chan error, 1)
	go func() { over <- worker.Run(ctx) }()
	if _, err := client.Enqueue(ctx, pool, ping{}, pgqueue.OnQueue(queue)); err != nil {
		stop()
		<-over
		return fmt.Errorf("enqueue: %w", err)
	}
	select {
	case <-ran:
	case err := <-over:
		return fmt.Errorf("the worker ended: %w", err)
	case <-ctx.Done():
		<-over
		return fmt.Errorf("no job ran: %w", ctx.Err())
	}
	stop()
	return <-over
}

// mustRunAJob is runAJob for a test.
func mustRunAJob(t *testing.T, pool *pgxpool.Pool, schema, queue string) {
	t.Helper()
	if err := runAJob(testContext(t), pool, schema, queue); err != nil {
		t.Errorf("schema %q: %v", schema, err)
	}
}
