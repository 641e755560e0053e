package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/vgarvardt/gue/v5"
	"github.com/vgarvardt/gue/v5/adapter/pgxv5"
	"golang.org/x/sync/errgroup"
)

// The settings of gue for no-ops: a worker for each connection, because a job's transaction stays open while it runs, and the order
// by run_at, which its index gives. The order by priority, its default, sorts the backlog for every job.
const (
	gueWorkers        = poolSize
	guePoll           = 20 * time.Millisecond
	gueDefaultWorkers = 2 // a pool has no default size; this is the one of gue's introduction
)

// gueEngine deletes a job in the transaction in which it ran.
func gueEngine(variant string) engine {
	system := gueSystem{workers: gueDefaultWorkers}
	settings := fmt.Sprintf("defaults, workers=%d", gueDefaultWorkers)
	if variant == tuned {
		system = gueSystem{workers: gueWorkers, options: []gue.WorkerPoolOption{
			gue.WithPoolPollInterval(guePoll), gue.WithPoolPollStrategy(gue.RunAtPollStrategy)}}
		settings = fmt.Sprintf("workers=%d poll=%s order=run_at", gueWorkers, guePoll)
	}
	return engine{
		family: "gue", variant: variant, settings: settings, connPerJob: true,
		claims: func(sql string) bool {
			return strings.Contains(sql, "FROM gue_jobs") && strings.Contains(sql, "SKIP LOCKED")
		},
		open: system.open,
	}
}

type gueSystem struct {
	pool    *pgxpool.Pool
	client  *gue.Client
	workers int
	options []gue.WorkerPoolOption
}

// open makes the table, which gue leaves to its users: the columns that its statements name, and the index of its README.
func (s gueSystem) open(ctx context.Context, db *database) (system, error) {
	_, err := db.pool.Exec(ctx, `CREATE TABLE IF NOT EXISTS gue_jobs (job_id text PRIMARY KEY, priority smallint NOT NULL,
		run_at timestamptz NOT NULL, job_type text NOT NULL, args bytea NOT NULL, error_count int NOT NULL DEFAULT 0, last_error text,
		queue text NOT NULL, created_at timestamptz NOT NULL, updated_at timestamptz NOT NULL);
		CREATE INDEX IF NOT EXISTS gue_jobs_next ON gue_jobs (queue, run_at, priority)`)
	if err != nil {
		return nil, err
	}
	s.pool = db.pool
	s.client, err = gue.NewClient(pgxv5.NewConnPool(db.pool))
	return &s, err
}

func gueJob(stamp int64, queue, kind string, due time.Time) (*gue.Job, error) {
	args, err := json.Marshal(payload(stamp))
	if kind == "" {
		kind = "noop"
	}
	return &gue.Job{Type: kind, Queue: queue, RunAt: due, Args: args}, err
}

// fill enqueues 1,000 jobs a statement: gue has no COPY, and a statement of Postgres no more than 65,535 parameters.
func (s *gueSystem) fill(ctx context.Context, lot lot) error {
	return lot.batches(1_000, func(n int) error {
		many := make([]*gue.Job, n)
		for i := range many {
			var err error
			if many[i], err = gueJob(0, lot.queue, lot.kind, lot.due); err != nil {
				return err
			}
			if lot.low {
				many[i].Priority = gue.JobPriorityLow
			}
		}
		return s.client.EnqueueBatch(ctx, many)
	})
}

func (s *gueSystem) enqueue(ctx context.Context, one order) error {
	job, err := gueJob(one.stamp, one.queue, "", one.due)
	if err != nil {
		return err
	}
	return s.client.Enqueue(ctx, job)
}

// work counts by the hook that gue calls when a handler has returned, just before the job is deleted.
func (s *gueSystem) work(ctx context.Context, load load) (*running, error) {
	workers, queues := s.workers, load.queues
	if load.handlers > 0 {
		workers = load.handlers
	}
	if len(queues) == 0 {
		queues = []string{""}
	}
	var done atomic.Int64
	moved := make(chan struct{}, 1)
	work := gue.WorkMap{"noop": func(ctx context.Context, job *gue.Job) error {
		var args noop
		if err := json.Unmarshal(job.Args, &args); err != nil {
			return err
		}
		load.handle(ctx, args.At)
		return nil
	}}
	hook := gue.WithPoolHooksJobDone(func(_ context.Context, _ *gue.Job, err error) {
		if err == nil {
			done.Add(1)
			wake(moved)
		}
	})
	var pools []*gue.WorkerPool
	for _, queue := range queues {
		options := append([]gue.WorkerPoolOption{gue.WithPoolQueue(queue), hook}, s.options...)
		if !load.block { // what has begun is finished when it is stopped
			options = append(options, gue.WithPoolGracefulShutdown(func() context.Context { return context.WithoutCancel(ctx) }))
		}
		pool, err := gue.NewWorkerPool(s.client, work, workers, options...)
		if err != nil {
			return nil, err
		}
		pools = append(pools, pool)
	}
	return watch(ctx, done.Load, moved, func(ctx context.Context) error {
		var group errgroup.Group
		for _, pool := range pools {
			group.Go(func() error { return pool.Run(ctx) })
		}
		return group.Wait()
	}), nil
}

func (s *gueSystem) pending(ctx context.Context) (open bool, err error) {
	err = s.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM gue_jobs)`).Scan(&open)
	return open, err
}

func (s *gueSystem) count(ctx context.Context) (open, kept int, err error) {
	err = s.pool.QueryRow(ctx, `SELECT count(*) FROM gue_jobs`).Scan(&open)
	return open, 0, err
}

func (s *gueSystem) table() string { return "gue_jobs" }

func (s *gueSystem) close(context.Context) {}
