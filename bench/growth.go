package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// measureGrowth compares throughput, claims and size of an empty start with those after JOBS jobs have passed, which with history leaves
// as many rows of it, and then under a backlog of half as many.
func measureGrowth(ctx context.Context, at *site) (figures []figure, err error) {
	sent := &statements{claims: at.engine.claims}
	window := max(1, at.jobs/20)
	err = at.with(ctx, wiring{tracer: sent}, func(db *database, system system) error {
		stage := func(name string, more int) (rate, p99 float64, err error) {
			defer func() {
				if err != nil {
					err = fmt.Errorf("%s: %w", name, err)
				}
			}()
			if err := system.fill(ctx, lot{jobs: more}); err != nil {
				return 0, 0, err
			}
			rate, p99, err = pass(ctx, system, sent, window, at.backlog())
			figures = append(figures, figure{name + "_per_s", rate, 0}, millis(name+"_claim_p99_ms", p99))
			return rate, p99, err
		}
		firstRate, firstP99, err := stage("empty", 0)
		if err != nil {
			return err
		}
		if err := passed(ctx, system, at.jobs, at.backlog()); err != nil {
			return err
		}
		size := func(when string) error {
			mb, err := megabytes(ctx, db, system.table())
			figures = append(figures, figure{"jobs_table_" + when + "_mb", mb, 1})
			return err
		}
		if err := size("grown"); err != nil {
			return err
		}
		lastRate, lastP99, err := stage("grown", 0)
		if err != nil {
			return err
		}
		figures = append(figures, figure{"grown_to_empty", lastRate / firstRate, 2}, figure{"grown_to_empty_claim_p99", lastP99 / firstP99, 2})
		backlogRate, _, err := stage("backlog", at.jobs/2)
		if err != nil {
			return err
		}
		figures = append(figures, figure{"backlog_to_empty", backlogRate / firstRate, 2})
		if err := size("backlog"); err != nil {
			return err
		}
		if err := emptied(ctx, db, system); err != nil {
			return err
		}
		return size("emptied")
	})
	return figures, err
}

// pass lets n jobs pass after as many to warm up, and answers their throughput and the claims' p99.
func pass(ctx context.Context, system system, sent *statements, n int, backlog int64) (rate, p99 float64, err error) {
	flow, err := startFlow(ctx, system, load{}, lot{}, backlog)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, flow.stop(ctx)) }()
	if err := flow.reach(ctx, int64(n)); err != nil {
		return 0, 0, err
	}
	sent.take()
	rate, err = flow.rate(ctx, int64(n), time.Hour)
	return rate, percentile(milliseconds(sent.take()), 99), err
}

// passed lets n jobs pass.
func passed(ctx context.Context, system system, n int, backlog int64) (err error) {
	flow, err := startFlow(ctx, system, load{}, lot{}, backlog)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, flow.stop(ctx)) }()
	return flow.reach(ctx, int64(n))
}

// emptied works what is left, and lets Postgres take the dead rows away.
func emptied(ctx context.Context, db *database, system system) error {
	worker, err := system.work(ctx, load{})
	if err != nil {
		return err
	}
	for open := 1; open > 0 && err == nil; {
		if open, _, err = system.count(ctx); err == nil && open > 0 {
			err = pause(ctx, 100*time.Millisecond)
		}
	}
	if err := errors.Join(err, worker.stop(ctx)); err != nil {
		return err
	}
	return db.exec(ctx, "VACUUM "+system.table())
}

// megabytes is the size of a table with its indexes.
func megabytes(ctx context.Context, db *database, table string) (float64, error) {
	var bytes int64
	err := db.pool.QueryRow(ctx, `SELECT pg_total_relation_size($1::text::regclass)`, table).Scan(&bytes)
	return float64(bytes) / (1 << 20), err
}
