package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// The settings of River's own bench command (cmd/river/riverbench in its repository).
const (
	riverWorkers  = 2_000
	riverCooldown = 2 * time.Millisecond
	riverPoll     = 20 * time.Millisecond
)

// riverDefaultWorkers stands in for MaxWorkers, which has no default: it is what River's introduction sets.
const riverDefaultWorkers = 100

// riverWorker does what the load says.
type riverWorker struct {
	river.WorkerDefaults[noop]
	load load
}

func (w *riverWorker) Work(ctx context.Context, job *river.Job[noop]) error {
	w.load.handle(ctx, job.Args.At)
	return nil
}

// Timeout lifts River's minute where a handler shall keep its job.
func (w *riverWorker) Timeout(*river.Job[noop]) time.Duration {
	if w.load.block {
		return -1
	}
	return 0
}

// riverEngine completes a job by an update in place: its table of jobs is its history, and it has no way to do without.
func riverEngine(variant string) engine {
	config, workers, settings := river.Config{}, riverDefaultWorkers, fmt.Sprintf("defaults, workers=%d", riverDefaultWorkers)
	if variant == tuned {
		config, workers = river.Config{FetchCooldown: riverCooldown, FetchPollInterval: riverPoll}, riverWorkers
		settings = fmt.Sprintf("workers=%d cooldown=%s poll=%s", riverWorkers, riverCooldown, riverPoll)
	}
	return engine{
		family: "river", variant: variant, history: true, settings: settings, channel: "public.river_insert",
		claims: func(sql string) bool { return strings.Contains(sql, "-- name: JobGetAvailable ") },
		open: func(ctx context.Context, db *database) (system, error) {
			return openRiver(ctx, db.pool, config, workers)
		},
	}
}

type riverSystem struct {
	pool    *pgxpool.Pool
	driver  *riverpgxv5.Driver
	insert  *river.Client[pgx.Tx] // only inserts
	config  river.Config
	workers int
}

func openRiver(ctx context.Context, pool *pgxpool.Pool, config river.Config, workers int) (*riverSystem, error) {
	driver := riverpgxv5.New(pool)
	config.Logger = slog.New(slog.DiscardHandler)
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: config.Logger})
	if err != nil {
		return nil, err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return nil, err
	}
	insert, err := river.NewClient(driver, &river.Config{Logger: config.Logger})
	if err != nil {
		return nil, err
	}
	return &riverSystem{pool: pool, driver: driver, insert: insert, config: config, workers: workers}, nil
}

// riverStranger is a noop of another kind.
type riverStranger struct {
	noop
	kind string
}

func (s riverStranger) Kind() string { return s.kind }

// fill uses COPY, which River recommends where no job is unique.
func (s *riverSystem) fill(ctx context.Context, lot lot) error {
	options := &river.InsertOpts{ScheduledAt: lot.due, Queue: lot.queue}
	if lot.low {
		options.Priority = river.PriorityDefault + 1
	}
	return lot.batches(10_000, func(n int) error {
		many := make([]river.InsertManyParams, n)
		for i := range many {
			many[i] = river.InsertManyParams{Args: payload(0), InsertOpts: options}
			if lot.kind != "" {
				many[i].Args = riverStranger{payload(0), lot.kind}
			}
		}
		_, err := s.insert.InsertManyFast(ctx, many)
		return err
	})
}

func (s *riverSystem) enqueue(ctx context.Context, one order) error {
	_, err := s.insert.Insert(ctx, payload(one.stamp), &river.InsertOpts{ScheduledAt: one.due, Queue: one.queue})
	return err
}

// work counts events of completion, as River's bench does: they are sent once the completion is stored.
func (s *riverSystem) work(ctx context.Context, load load) (*running, error) {
	config := s.config
	config.Workers = river.NewWorkers()
	river.AddWorker(config.Workers, &riverWorker{load: load})
	workers := s.workers
	if load.handlers > 0 {
		workers = load.handlers
	}
	config.Queues = map[string]river.QueueConfig{}
	for _, name := range load.queues {
		config.Queues[name] = river.QueueConfig{MaxWorkers: workers}
	}
	if len(load.queues) == 0 {
		config.Queues[river.QueueDefault] = river.QueueConfig{MaxWorkers: workers}
	}
	client, err := river.NewClient(s.driver, &config)
	if err != nil {
		return nil, err
	}
	events, unsubscribe := client.SubscribeConfig(&river.SubscribeConfig{
		ChanSize: 1_000_000, // none may be dropped: each is counted
		Kinds:    []river.EventKind{river.EventKindJobCompleted, river.EventKindJobFailed, river.EventKindJobCancelled},
	})
	if err := client.Start(ctx); err != nil {
		unsubscribe()
		return nil, err
	}
	var done atomic.Int64
	now := &running{done: done.Load, moved: make(chan struct{}, 1), ended: make(chan error, 1)}
	counted := make(chan struct{})
	go func() {
		defer close(counted)
		for event := range events {
			if event.Kind != river.EventKindJobCompleted {
				if !load.block {
					signalError(now.ended, errors.New("a job did not complete"))
				}
				continue
			}
			done.Add(1)
			now.note()
		}
	}()
	now.halt = func(ctx context.Context) error {
		stop := client.Stop
		if load.block {
			stop = client.StopAndCancel
		}
		err := stop(ctx)
		unsubscribe()
		<-counted
		signalError(now.ended, nil)
		return err
	}
	return now, nil
}

// signalError keeps the first error.
func signalError(to chan error, err error) {
	select {
	case to <- err:
	default:
	}
}

func (s *riverSystem) count(ctx context.Context) (open, kept int, err error) {
	err = s.pool.QueryRow(ctx, `SELECT count(*) FILTER (WHERE state <> 'completed'),
		count(*) FILTER (WHERE state = 'completed') FROM river_job`).Scan(&open, &kept)
	return open, kept, err
}

func (s *riverSystem) table() string { return "river_job" }

func (s *riverSystem) close(context.Context) {}
