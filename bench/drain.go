package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// noop is a job of 100 bytes that does nothing.
type noop struct {
	Padding string `json:"padding"`
}

func (noop) Kind() string { return "noop" }

// payload makes the JSON of a noop 100 bytes long: 14 of them are {"padding":""}.
var payload = noop{Padding: strings.Repeat("x", 86)}

// result is one line of output: the median of the rounds.
type result struct {
	Scenario   string    `json:"scenario"`
	Engine     string    `json:"engine"`
	History    bool      `json:"history"`
	Jobs       int       `json:"jobs"`
	JobsPerS   float64   `json:"jobs_per_s"`
	RoundsPerS []float64 `json:"rounds_jobs_per_s"`
	Workers    int       `json:"workers"`
	Batch      int       `json:"batch"`
	PoolSize   int       `json:"pool_size"`
}

const (
	benchWorkers = 64
	benchBatch   = 2000
)

// measureDrain times how long a worker takes to empty a queue of no-op jobs, with and without history, in turns.
func measureDrain(ctx context.Context, server *server, jobs, rounds int) ([]result, error) {
	results := []result{{History: false}, {History: true}}
	for round := range rounds {
		order := []int{0, 1}
		if round%2 == 1 {
			slices.Reverse(order)
		}
		for _, i := range order {
			rate, err := drainOnce(ctx, server, jobs, results[i].History)
			if err != nil {
				return nil, fmt.Errorf("drain, history %t: %w", results[i].History, err)
			}
			results[i].RoundsPerS = append(results[i].RoundsPerS, float64(int(rate)))
		}
	}
	for i := range results {
		r := &results[i]
		sorted := slices.Sorted(slices.Values(r.RoundsPerS))
		r.Scenario, r.Engine, r.Jobs, r.JobsPerS = "drain", "pgqueue", jobs, sorted[len(sorted)/2]
		r.Workers, r.Batch, r.PoolSize = benchWorkers, benchBatch, poolSize
	}
	return results, nil
}

// drainOnce fills a queue of its own database, then measures from the start of a worker to the moment the table is
// empty: the last completion is written, not only the last handler returned.
func drainOnce(ctx context.Context, server *server, jobs int, history bool) (float64, error) {
	pool, drop, err := server.database(ctx)
	if err != nil {
		return 0, err
	}
	defer drop()
	client, err := pgqueue.NewClient(pool)
	if err != nil {
		return 0, err
	}
	defer client.Close(context.WithoutCancel(ctx))
	if !history {
		if err := client.SetHistory(ctx, pool, "default", pgqueue.HistoryOff); err != nil {
			return 0, err
		}
	}
	if err := fill(ctx, client, pool, jobs); err != nil {
		return 0, err
	}

	var ran atomic.Int64
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[noop]) error { ran.Add(1); return nil })
	start := time.Now()
	drained, err := client.Drain(ctx, mux, pgqueue.WorkerConfig{
		Queues: pgqueue.Queues{"default": {Workers: benchWorkers, Batch: benchBatch}},
	})
	took := time.Since(start)
	if err != nil {
		return 0, err
	}
	if int(ran.Load()) != jobs || drained.Outcomes.Succeeded != uint64(jobs) {
		return 0, fmt.Errorf("%d handlers ran and %d jobs succeeded, want %d", ran.Load(), drained.Outcomes.Succeeded, jobs)
	}
	return float64(jobs) / took.Seconds(), checkEmpty(ctx, pool, jobs, history)
}

// fill enqueues in batches and leaves the table as a running system would have it: analysed, and on disk.
func fill(ctx context.Context, client *pgqueue.Client, pool *pgxpool.Pool, jobs int) error {
	const batch = 10_000
	for left := jobs; left > 0; left -= batch {
		many := make([]pgqueue.NewJob, min(batch, left))
		for i := range many {
			many[i].Args = payload
		}
		if _, err := client.EnqueueMany(ctx, pool, many); err != nil {
			return err
		}
	}
	_, err := pool.Exec(ctx, "VACUUM ANALYZE pgqueue.jobs")
	if err != nil {
		return err
	}
	_, err = pool.Exec(ctx, "CHECKPOINT")
	return err
}

// checkEmpty makes sure that what was timed is what was asked for.
func checkEmpty(ctx context.Context, pool *pgxpool.Pool, jobs int, history bool) error {
	var live, finished int
	err := pool.QueryRow(ctx, "SELECT (SELECT count(*) FROM pgqueue.jobs), (SELECT count(*) FROM pgqueue.history)").
		Scan(&live, &finished)
	if err != nil {
		return err
	}
	want := 0
	if history {
		want = jobs
	}
	if live != 0 || finished != want {
		return fmt.Errorf("%d jobs are left and %d in history, want 0 and %d", live, finished, want)
	}
	return nil
}
