package main

import (
	"context"
	"fmt"
	"runtime"
	"time"
)

// measureDrain times how long an engine takes to empty a queue of no-op jobs.
func measureDrain(ctx context.Context, at *site) (figures []figure, err error) {
	err = at.with(ctx, wiring{}, func(db *database, system system) error {
		took, err := drainOnce(ctx, db, system, load{}, at.jobs, at.engine.history)
		figures = []figure{perSecond("jobs_per_s", float64(at.jobs), took)}
		return err
	})
	return figures, err
}

// drainOnce fills, and times from just before the worker is started until the last success is stored.
func drainOnce(ctx context.Context, db *database, system system, load load, jobs int, history bool) (time.Duration, error) {
	if err := system.fill(ctx, lot{jobs: jobs}); err != nil {
		return 0, fmt.Errorf("fill: %w", err)
	}
	if err := settle(ctx, db, system); err != nil {
		return 0, err
	}
	start := time.Now()
	worker, err := system.work(ctx, load)
	if err != nil {
		return 0, err
	}
	took, err := drained(ctx, system, worker, jobs, start)
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

// drained waits for so many successes and stops the worker.
func drained(ctx context.Context, system system, worker *running, jobs int, start time.Time) (time.Duration, error) {
	err := worker.reach(ctx, int64(jobs))
	if err == nil {
		err = settled(ctx, system)
	}
	took := time.Since(start)
	if stopped := worker.stop(ctx); err == nil {
		err = stopped
	}
	return took, err
}

// settle leaves a filled table as a running system would have it, analyzed and on disk, and takes away what the one before
// left in this process.
func settle(ctx context.Context, db *database, system system) error {
	if err := db.exec(ctx, "VACUUM ANALYZE "+system.table()); err != nil {
		return err
	}
	if err := db.exec(ctx, "CHECKPOINT"); err != nil {
		return err
	}
	runtime.GC()
	return nil
}
