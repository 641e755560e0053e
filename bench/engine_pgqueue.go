package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/migrations"
	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/runner"
)

// The settings with which pgqueue drains. The defaults suit handlers that do something; a no-op takes less than its share of
// a claim of 64, and more workers than a machine of two cores can keep busy only wait for each other.
const (
	pgqueueWorkers = 4
	pgqueueBatch   = 10_000
)

// noop is a job of 100 bytes that does nothing.
type noop struct {
	Padding string `json:"padding"`
}

func (noop) Kind() string { return "noop" }

func pgqueueEngine(history bool) engine {
	return engine{
		name: "pgqueue", history: history, settings: fmt.Sprintf("workers=%d batch=%d", pgqueueWorkers, pgqueueBatch),
		open: func(ctx context.Context, pool *pgxpool.Pool) (system, error) { return openPgqueue(ctx, pool, history) },
	}
}

// pgqueueSystem measures pgqueue through its public API alone.
type pgqueueSystem struct {
	pool   *pgxpool.Pool
	client *pgqueue.Client
}

func openPgqueue(ctx context.Context, pool *pgxpool.Pool, history bool) (*pgqueueSystem, error) {
	if err := migrations.Up(ctx, pool, ""); err != nil {
		return nil, err
	}
	client, err := pgqueue.NewClient(pool)
	if err != nil {
		return nil, err
	}
	keep := pgqueue.HistoryFull
	if !history {
		keep = pgqueue.HistoryOff
	}
	if err := client.SetHistory(ctx, pool, "default", keep); err != nil {
		return nil, err
	}
	return &pgqueueSystem{pool: pool, client: client}, nil
}

// fill uses COPY, as a load of jobs without keys should.
func (s *pgqueueSystem) fill(ctx context.Context, jobs int) error {
	const batch = 10_000
	for left := jobs; left > 0; left -= batch {
		many := make([]pgqueue.NewJob, min(batch, left))
		for i := range many {
			many[i].Args = noop{Padding: padding()}
		}
		if _, err := s.client.EnqueueCopy(ctx, s.pool, many); err != nil {
			return err
		}
	}
	return nil
}

func (s *pgqueueSystem) enqueueOne(ctx context.Context) error {
	_, err := s.client.Enqueue(ctx, s.pool, noop{Padding: padding()})
	return err
}

// flushes is told after every call that stored outcomes.
type flushes chan struct{}

func (f flushes) FlushDone(runner.FlushEvent) {
	select {
	case f <- struct{}{}:
	default:
	}
}

// drain counts the successes that the worker's status reports, which it does once they are committed. It asks after each
// call that stored some: an observer of every single outcome would make the measured process pay for being watched.
func (s *pgqueueSystem) drain(ctx context.Context, jobs int) (time.Duration, error) {
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[noop]) error { return nil })
	flushed := make(flushes, 1)
	start := time.Now()
	worker, ended, err := s.run(ctx, mux, pgqueue.WorkerConfig{
		Queues:   pgqueue.Queues{"default": {Workers: pgqueueWorkers, Batch: pgqueueBatch}},
		Observer: flushed,
	})
	if err != nil {
		return 0, err
	}
	for worker.Status().Queues["default"].Outcomes.Succeeded < uint64(jobs) {
		select {
		case <-flushed:
		case err := <-ended:
			return 0, fmt.Errorf("the worker ended early: %w", errors.Join(err, ctx.Err()))
		}
	}
	took := time.Since(start)
	return took, errors.Join(worker.Stop(ctx), <-ended)
}

// run starts a worker. What Run returned comes on ended.
func (s *pgqueueSystem) run(ctx context.Context, mux *pgqueue.Mux, config pgqueue.WorkerConfig) (*pgqueue.Worker, chan error, error) {
	worker, err := s.client.NewWorker(mux, config)
	if err != nil {
		return nil, nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx) }()
	return worker, ended, nil
}

func (s *pgqueueSystem) serve(ctx context.Context, started func()) (func() error, error) {
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[noop]) error { started(); return nil })
	worker, ended, err := s.run(ctx, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {}}})
	if err != nil {
		return nil, err
	}
	stop := func() error { return errors.Join(worker.Stop(context.WithoutCancel(ctx)), <-ended) }
	for deadline := time.Now().Add(10 * time.Second); !worker.Status().Listener.Connected; {
		if time.Now().After(deadline) {
			return nil, errors.Join(errors.New("the listener does not connect"), stop())
		}
		time.Sleep(time.Millisecond)
	}
	return stop, nil
}

func (s *pgqueueSystem) count(ctx context.Context) (open, kept int, err error) {
	err = s.pool.QueryRow(ctx, `SELECT (SELECT count(*) FROM pgqueue.jobs),
		(SELECT count(*) FROM pgqueue.history WHERE state = 'succeeded')`).Scan(&open, &kept)
	return open, kept, err
}

func (s *pgqueueSystem) table() string { return "pgqueue.jobs" }

func (s *pgqueueSystem) close(ctx context.Context) { s.client.Close(ctx) }
