package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// singles is how many jobs are enqueued one by one for a run of so many jobs.
func singles(jobs int) int { return max(200, jobs/50) }

// measureEnqueue times the producers' side in turns: all jobs in bulk, and some one transaction each, from one connection and
// from as many as the pool has. No worker runs.
func measureEnqueue(ctx context.Context, server *server, engines []engine, settings settings) ([]result, error) {
	return measureTurns(ctx, server, engines, settings, "enqueue",
		[]string{"bulk_per_s", "single_1_per_s", fmt.Sprintf("single_%d_per_s", poolSize)},
		func(ctx context.Context, pool *pgxpool.Pool, system serving) ([]float64, error) {
			start := time.Now()
			if err := system.fill(ctx, settings.jobs); err != nil {
				return nil, err
			}
			figures := []float64{rounded(float64(settings.jobs)/time.Since(start).Seconds(), 0)}
			if err := settle(ctx, pool, system); err != nil {
				return nil, err
			}
			for _, producers := range []int{1, poolSize} {
				took, err := enqueueSingly(ctx, system, producers, singles(settings.jobs))
				if err != nil {
					return nil, err
				}
				figures = append(figures, rounded(float64(singles(settings.jobs))/took.Seconds(), 0))
			}
			return figures, nil
		})
}

func enqueueSingly(ctx context.Context, system enqueuer, producers, jobs int) (time.Duration, error) {
	var left atomic.Int64
	left.Store(int64(jobs))
	errs := make([]error, producers)
	var group sync.WaitGroup
	start := time.Now()
	for i := range producers {
		group.Go(func() {
			for errs[i] == nil && left.Add(-1) >= 0 {
				errs[i] = system.enqueueOne(ctx)
			}
		})
	}
	group.Wait()
	return time.Since(start), errors.Join(errs...)
}

// measureTurns runs measure for each engine that can serve, once a round, in turns, and returns a result for each metric with
// the median of its figures.
func measureTurns(ctx context.Context, server *server, engines []engine, settings settings, scenario string, metrics []string,
	measure func(context.Context, *pgxpool.Pool, serving) ([]float64, error)) ([]result, error) {
	var fit []engine
	for _, engine := range engines {
		// History plays no part for producers, nor for when a job starts; the raw loop has no code of its own there.
		if engine.name != "raw" && engine.name != "outbox" && (engine.history || engine.name != "pgqueue") {
			fit = append(fit, engine)
		}
	}
	results := make([][]result, len(fit))
	for i, engine := range fit {
		for _, metric := range metrics {
			next := newResult(scenario, engine)
			next.Metric, next.Settings = metric, "defaults"
			results[i] = append(results[i], next)
		}
	}
	for round := range settings.rounds {
		for _, i := range turn(len(fit), round) {
			err := server.with(ctx, fit[i], func(pool *pgxpool.Pool, system system) error {
				able, ok := system.(serving)
				if !ok {
					return errors.New("cannot be measured in this scenario")
				}
				figures, err := measure(ctx, pool, able)
				for j, figure := range figures {
					results[i][j].Rounds = append(results[i][j].Rounds, figure)
				}
				return err
			})
			if err != nil {
				return nil, fmt.Errorf("%s: %w", scenario, err)
			}
		}
	}
	var all []result
	for i := range results {
		for j := range results[i] {
			results[i][j].Value = median(results[i][j].Rounds)
		}
		all = append(all, results[i]...)
	}
	return all, nil
}
