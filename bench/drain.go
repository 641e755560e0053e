package main

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// measureDrain times how long each engine takes to empty a queue of no-op jobs, in turns.
func measureDrain(ctx context.Context, server *server, engines []engine, settings settings) ([]result, error) {
	results := make([]result, len(engines))
	for i, engine := range engines {
		results[i] = newResult("drain", engine)
		results[i].Jobs = settings.jobs
	}
	for round := range settings.rounds {
		for _, i := range turn(len(engines), round) {
			var took time.Duration
			err := server.with(ctx, engines[i], func(pool *pgxpool.Pool, system system) (err error) {
				took, err = drainOnce(ctx, pool, system, settings.jobs, engines[i].history)
				return err
			})
			if err != nil {
				return nil, fmt.Errorf("drain: %w", err)
			}
			results[i].add(float64(settings.jobs)/took.Seconds(), 0)
		}
	}
	for i := range results {
		results[i].JobsPerS = median(results[i].Rounds)
	}
	return append(results, drainRatios(results)...), nil
}

func drainOnce(ctx context.Context, pool *pgxpool.Pool, system system, jobs int, history bool) (time.Duration, error) {
	if err := system.fill(ctx, jobs); err != nil {
		return 0, fmt.Errorf("fill: %w", err)
	}
	if err := settle(ctx, pool, system); err != nil {
		return 0, err
	}
	took, err := system.drain(ctx, jobs)
	if err != nil {
		return 0, err
	}
	// What was timed is what was asked for.
	open, kept, err := system.count(ctx)
	if err != nil {
		return 0, err
	}
	want := 0
	if history {
		want = jobs
	}
	if open != 0 || kept != want {
		return 0, fmt.Errorf("%d jobs are left and %d successes are kept, want 0 and %d", open, kept, want)
	}
	return took, nil
}

// settle leaves a filled table as a running system would have it, analyzed and on disk, and takes away what the one before
// left in this process.
func settle(ctx context.Context, pool *pgxpool.Pool, system system) error {
	if _, err := pool.Exec(ctx, "VACUUM ANALYZE "+system.table()); err != nil {
		return err
	}
	if _, err := pool.Exec(ctx, "CHECKPOINT"); err != nil {
		return err
	}
	runtime.GC()
	return nil
}

// drainRatios compares pgqueue with the others. River's completed jobs stay in its table, so the ratio with history is the
// one of like with like; the one without is what a user of pgqueue can choose and a user of River cannot. The raw ceiling
// is compared with what does the same writes.
func drainRatios(results []result) (ratios []result) {
	for _, of := range results {
		for _, to := range results {
			if of.Engine != "pgqueue" || to.Engine == "pgqueue" || to.Engine == "raw" && to.History != of.History {
				continue
			}
			ratios = append(ratios, newRatio(of, to, of.JobsPerS/to.JobsPerS))
		}
	}
	return ratios
}
