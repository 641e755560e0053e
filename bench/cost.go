package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"
)

// What the renewals are measured with: handlers that keep their jobs, and a lease that is renewed twice a second.
const (
	renewedHandlers = 64
	renewedLease    = 1500 * time.Millisecond
)

// measureCost counts what the server and the worker's process spend on a job. Enqueueing in bulk and working are done by a system each, one
// after the other, because a backend tells all that it has done when it ends.
func measureCost(ctx context.Context, at *site) (figures []figure, err error) {
	db, err := at.server.database(ctx, wiring{})
	if err != nil {
		return nil, err
	}
	defer db.drop()
	phase := func(do func(system) error) (counters, error) {
		if err := at.opened(ctx, db, func(_ *database, system system) error { return do(system) }); err != nil {
			return counters{}, err
		}
		return finalCounters(ctx, db)
	}
	empty, err := phase(func(system) error { return nil })
	if err != nil {
		return nil, err
	}
	full, err := phase(func(system system) error { return system.fill(ctx, lot{jobs: at.jobs}) })
	if err != nil {
		return nil, err
	}
	end, err := phase(func(system system) (err error) {
		figures, err = spent(ctx, system, at.jobs)
		return err
	})
	if err != nil {
		return nil, err
	}
	per := func(n int64) float64 { return float64(n) / float64(at.jobs) }
	figures = append(figures,
		figure{"wal_bytes_per_job", per(end.wal - empty.wal), 0},
		figure{"wal_bytes_per_job_worked", per(end.wal - full.wal), 0},
		figure{"commits_per_job_worked", per(end.commits - full.commits), 3},
		figure{"rows_written_per_job", per(end.written - empty.written), 2},
		figure{"rows_written_per_job_worked", per(end.written - full.written), 2})
	if at.engine.family != "pgqueue" || at.engine.history || at.engine.variant != tuned {
		return figures, nil // none of the others renews; and history and batches play no part in a renewal
	}
	share, err := hotRenewals(ctx, at)
	return append(figures, share), err
}

// spent drains, and counts the processor time and, where they are this process's, the allocations of a job.
func spent(ctx context.Context, system system, jobs int) ([]figure, error) {
	elsewhere, remote := system.(interface {
		cpu(ctx context.Context) (time.Duration, error)
	})
	clock := func(context.Context) (time.Duration, error) { return processorTime() }
	if remote {
		clock = elsewhere.cpu
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	from, err := clock(ctx)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	worker, err := system.work(ctx, load{})
	if err != nil {
		return nil, err
	}
	err = worker.reach(ctx, int64(jobs))
	if err == nil {
		err = settled(ctx, system)
	}
	took := time.Since(start)
	to, asked := clock(ctx)
	runtime.ReadMemStats(&after)
	if err := errors.Join(err, asked, worker.stop(ctx)); err != nil {
		return nil, err
	}
	n := float64(jobs)
	figures := []figure{perSecond("jobs_per_s", n, took), {"client_cpu_us_per_job", float64((to - from).Microseconds()) / n, 2}}
	if !remote {
		figures = append(figures, figure{"go_allocations_per_job", float64(after.Mallocs-before.Mallocs) / n, 2},
			figure{"go_bytes_per_job", float64(after.TotalAlloc-before.TotalAlloc) / n, 0})
	}
	return figures, nil
}

// hotRenewals is the share of renewals that needed no new entry in an index. It begins to count when the claims, which are updates too, have
// been reported: by backends that have been made to end.
func hotRenewals(ctx context.Context, at *site) (share figure, err error) {
	err = at.with(ctx, wiring{}, func(db *database, system system) (err error) {
		if err := system.fill(ctx, lot{jobs: renewedHandlers}); err != nil {
			return err
		}
		begun := make(chan struct{}, renewedHandlers)
		worker, err := system.work(ctx, load{handlers: renewedHandlers, block: true, lease: renewedLease,
			started: func(int64, time.Time) { begun <- struct{}{} }})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, worker.stop(ctx)) }()
		for range renewedHandlers {
			select {
			case <-begun:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		db.pool.Reset()
		if err := pause(ctx, renewedLease/3); err != nil {
			return err
		}
		before, err := readCounters(ctx, db, "")
		if err != nil {
			return err
		}
		if err := pause(ctx, at.seconds); err != nil {
			return err
		}
		after, err := readCounters(ctx, db, "")
		if err != nil {
			return err
		}
		if after.updates == before.updates {
			return fmt.Errorf("no lease was renewed within %s", at.seconds)
		}
		share = figure{"renewals_hot_share", float64(after.hot-before.hot) / float64(after.updates-before.updates), 3}
		return nil
	})
	return share, err
}
