package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
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

func pgqueueEngine(variant string, history bool) engine {
	queue, settings := pgqueue.QueueConfig{}, "defaults"
	var options []pgqueue.ClientOption
	switch variant {
	case tuned:
		queue = pgqueue.QueueConfig{Workers: pgqueueWorkers, Batch: pgqueueBatch}
		settings = fmt.Sprintf("workers=%d batch=%d", pgqueueWorkers, pgqueueBatch)
	case window10:
		const window = 10 * time.Millisecond // of the worker, and of the producer's hints
		queue, settings = pgqueue.QueueConfig{Window: window}, "window=10ms hint_window=10ms"
		options = append(options, pgqueue.WithHintWindow(window))
	}
	return engine{
		family: "pgqueue", variant: variant, history: history, settings: settings,
		// The claim alone starts its scans at marks.
		claims:     func(sql string) bool { return strings.Contains(sql, "(p.since, p.since_id)") },
		heartbeats: "workers", channel: migrations.Channel("pgqueue"),
		open: func(ctx context.Context, db *database) (system, error) {
			return openPgqueue(ctx, db.pool, queue, history, options...)
		},
	}
}

// pgqueueSystem measures pgqueue through its public API alone.
type pgqueueSystem struct {
	pool   *pgxpool.Pool
	client *pgqueue.Client
	queue  pgqueue.QueueConfig
}

func openPgqueue(ctx context.Context, pool *pgxpool.Pool, queue pgqueue.QueueConfig, history bool, options ...pgqueue.ClientOption) (
	*pgqueueSystem, error) {
	if err := migrations.Up(ctx, pool, ""); err != nil {
		return nil, err
	}
	client, err := pgqueue.NewClient(pool, options...)
	if err != nil {
		return nil, err
	}
	if !history { // with it is the default
		if err := client.SetHistory(ctx, pool, pgqueue.DefaultQueue, pgqueue.HistoryOff); err != nil {
			return nil, err
		}
	}
	return &pgqueueSystem{pool: pool, client: client, queue: queue}, nil
}

// stranger is a noop of another kind.
type stranger struct {
	noop
	kind string
}

func (s stranger) Kind() string { return s.kind }

// fill uses COPY, as a load of jobs without keys should.
func (s *pgqueueSystem) fill(ctx context.Context, lot lot) error {
	var options []pgqueue.EnqueueOption
	if !lot.due.IsZero() {
		options = append(options, pgqueue.WithRunAt(lot.due))
	}
	if lot.queue != "" {
		options = append(options, pgqueue.OnQueue(lot.queue))
	}
	if lot.low {
		options = append(options, pgqueue.WithPriority(pgqueue.PriorityFresh+1))
	}
	return lot.batches(10_000, func(n int) error {
		many := make([]pgqueue.NewJob, n)
		for i := range many {
			many[i] = pgqueue.NewJob{Args: payload(0), Options: options}
			if lot.kind != "" {
				many[i].Args = stranger{payload(0), lot.kind}
			}
		}
		_, err := s.client.EnqueueCopy(ctx, s.pool, many)
		return err
	})
}

func (s *pgqueueSystem) enqueue(ctx context.Context, one order) error {
	var options []pgqueue.EnqueueOption
	if !one.due.IsZero() {
		options = append(options, pgqueue.WithRunAt(one.due))
	}
	if one.queue != "" {
		options = append(options, pgqueue.OnQueue(one.queue))
	}
	_, err := s.client.Enqueue(ctx, s.pool, payload(one.stamp), options...)
	return err
}

func (s *pgqueueSystem) hints(on bool) { s.client.SetHints(on) }

// flushes is told after every call that stored outcomes.
type flushes chan struct{}

func (f flushes) FlushDone(runner.FlushEvent) { wake(f) }

// work counts the successes that the worker's status reports, which it does once they are committed. It is asked after each
// call that stored some: an observer of every single outcome would make the measured process pay for being watched.
func (s *pgqueueSystem) work(ctx context.Context, load load) (*running, error) {
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(ctx context.Context, job *pgqueue.Job[noop]) error {
		load.handle(ctx, job.Args.At)
		return nil
	})
	queue := s.queue
	if load.handlers > 0 {
		queue.Workers = load.handlers
	}
	names := load.queues
	if len(names) == 0 {
		names = []string{pgqueue.DefaultQueue}
	}
	queues := pgqueue.Queues{}
	for _, name := range names {
		queues[name] = queue
	}
	flushed := make(flushes, 1)
	config := pgqueue.WorkerConfig{Queues: queues, Lease: load.lease, Observer: flushed}
	if load.lease > 0 {
		config.StorageTimeout = load.lease / 3
	}
	if load.block {
		config.StopTimeout = -1
	}
	worker, err := s.client.NewWorker(mux, config)
	if err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx) }()
	return &running{
		done: func() (n int64) {
			for _, queue := range worker.Status().Queues {
				n += int64(queue.Outcomes.Succeeded)
			}
			return n
		},
		moved: flushed, ended: ended,
		halt: func(ctx context.Context) error { return worker.Stop(ctx) },
	}, s.listening(ctx, worker, ended)
}

// listening waits until hints are heard, so that a job that is enqueued next does not wait for the poll. Jobs that are there already
// are worked meanwhile.
func (s *pgqueueSystem) listening(ctx context.Context, worker *pgqueue.Worker, ended chan error) error {
	deadline := time.Now().Add(10 * time.Second)
	for !worker.Status().Listener.Connected {
		select {
		case err := <-ended:
			ended <- err
			return err
		default:
		}
		if time.Now().After(deadline) {
			return errors.Join(errors.New("the listener does not connect"), worker.Stop(ctx))
		}
		if err := pause(ctx, time.Millisecond); err != nil {
			return errors.Join(err, worker.Stop(context.WithoutCancel(ctx)))
		}
	}
	return nil
}

func (s *pgqueueSystem) count(ctx context.Context) (open, kept int, err error) {
	err = s.pool.QueryRow(ctx, `SELECT (SELECT count(*) FROM pgqueue.jobs),
		(SELECT count(*) FROM pgqueue.history WHERE state = 'succeeded')`).Scan(&open, &kept)
	return open, kept, err
}

func (s *pgqueueSystem) table() string { return "pgqueue.jobs" }

func (s *pgqueueSystem) close(ctx context.Context) { s.client.Close(ctx) }
