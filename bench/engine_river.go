package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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

// riverArgs is a noop for River.
type riverArgs struct {
	Padding string `json:"padding"`
}

func (riverArgs) Kind() string { return "noop" }

// riverWorker does nothing, or calls started.
type riverWorker struct {
	river.WorkerDefaults[riverArgs]
	started func()
}

func (w *riverWorker) Work(context.Context, *river.Job[riverArgs]) error {
	if w.started != nil {
		w.started()
	}
	return nil
}

// riverEngine completes a job by an update in place: its table of jobs is its history, and it has no way to do without.
func riverEngine() engine {
	return engine{
		name: "river", history: true, settings: fmt.Sprintf("workers=%d cooldown=%s poll=%s", riverWorkers, riverCooldown, riverPoll),
		open: func(ctx context.Context, pool *pgxpool.Pool) (system, error) { return openRiver(ctx, pool) },
	}
}

type riverSystem struct {
	pool   *pgxpool.Pool
	driver *riverpgxv5.Driver
	insert *river.Client[pgx.Tx] // only inserts
}

func openRiver(ctx context.Context, pool *pgxpool.Pool) (*riverSystem, error) {
	driver := riverpgxv5.New(pool)
	logger := slog.New(slog.DiscardHandler)
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: logger})
	if err != nil {
		return nil, err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return nil, err
	}
	insert, err := river.NewClient(driver, &river.Config{Logger: logger})
	if err != nil {
		return nil, err
	}
	return &riverSystem{pool: pool, driver: driver, insert: insert}, nil
}

// fill uses COPY, which River recommends where no job is unique.
func (s *riverSystem) fill(ctx context.Context, jobs int) error {
	const batch = 10_000
	for left := jobs; left > 0; left -= batch {
		many := make([]river.InsertManyParams, min(batch, left))
		for i := range many {
			many[i].Args = riverArgs{Padding: padding()}
		}
		if _, err := s.insert.InsertManyFast(ctx, many); err != nil {
			return err
		}
	}
	return nil
}

func (s *riverSystem) enqueueOne(ctx context.Context) error {
	_, err := s.insert.Insert(ctx, riverArgs{Padding: padding()}, nil)
	return err
}

// drain counts events of completion, as River's bench does: they are sent once the completion is stored.
func (s *riverSystem) drain(ctx context.Context, jobs int) (time.Duration, error) {
	client, err := s.client(river.Config{
		FetchCooldown: riverCooldown, FetchPollInterval: riverPoll,
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: riverWorkers}},
	}, nil)
	if err != nil {
		return 0, err
	}
	events, cancel := client.SubscribeConfig(&river.SubscribeConfig{
		ChanSize: jobs + 1, // none may be dropped: each is counted
		Kinds:    []river.EventKind{river.EventKindJobCompleted, river.EventKindJobFailed, river.EventKindJobCancelled},
	})
	defer cancel()
	start := time.Now()
	if err := client.Start(ctx); err != nil {
		return 0, err
	}
	for range jobs {
		select {
		case event := <-events:
			if event == nil || event.Kind != river.EventKindJobCompleted {
				return 0, errors.New("a job did not complete")
			}
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	took := time.Since(start)
	return took, client.Stop(ctx)
}

func (s *riverSystem) client(config river.Config, started func()) (*river.Client[pgx.Tx], error) {
	config.Logger = slog.New(slog.DiscardHandler)
	config.Workers = river.NewWorkers()
	river.AddWorker(config.Workers, &riverWorker{started: started})
	return river.NewClient(s.driver, &config)
}

// serve leaves all settings at River's defaults but MaxWorkers, which has none.
func (s *riverSystem) serve(ctx context.Context, started func()) (func() error, error) {
	client, err := s.client(river.Config{
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 2}},
	}, started)
	if err != nil {
		return nil, err
	}
	if err := client.Start(ctx); err != nil {
		return nil, err
	}
	return func() error { return client.Stop(context.WithoutCancel(ctx)) }, nil
}

func (s *riverSystem) count(ctx context.Context) (open, kept int, err error) {
	err = s.pool.QueryRow(ctx, `SELECT count(*) FILTER (WHERE state <> 'completed'),
		count(*) FILTER (WHERE state = 'completed') FROM river_job`).Scan(&open, &kept)
	return open, kept, err
}

func (s *riverSystem) table() string { return "river_job" }

func (s *riverSystem) close(context.Context) {}
