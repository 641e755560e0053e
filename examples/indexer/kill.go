package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// killRows is how many rows SQL must show in a worker's hands before it is killed.
const killRows = 4

// casualty is the worker process that was killed. A nil one is nobody.
type casualty struct {
	worker  *workerProcess
	at      time.Time // on the database's clock, just before the kill
	noticed time.Time // the same on ours, for the progress bar
	shown   int       // rows that it held by then
	jobs    []int64   // the jobs that it took down with it
}

func (c *casualty) is(worker *workerProcess) bool { return c != nil && c.worker == worker }

// id is the killed worker's, as in claimed_by.
func (c *casualty) id() string {
	if c == nil {
		return ""
	}
	return c.worker.id
}

// killOne kills the worker that holds most rows, if SQL shows that these are enough, and notes which jobs it leaves
// behind. It returns nil when no worker holds enough just now.
func killOne(ctx context.Context, pool *pgxpool.Pool, workers []*workerProcess) (*casualty, error) {
	ids := make([]string, len(workers))
	for i, worker := range workers {
		ids[i] = worker.id
	}
	var id string
	c := &casualty{}
	err := pool.QueryRow(ctx, `
		SELECT claimed_by, count(*), clock_timestamp()
		FROM pgqueue.jobs
		WHERE queue = $1 AND state = 'running' AND claimed_by = ANY ($2)
		GROUP BY claimed_by
		HAVING count(*) >= $3
		ORDER BY count(*) DESC
		LIMIT 1`, indexQueue, ids, killRows).Scan(&id, &c.shown, &c.at)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for a worker to kill: %w", err)
	}
	for _, worker := range workers {
		if worker.id == id {
			c.worker = worker
		}
	}
	c.noticed = time.Now()
	c.worker.kill()
	if c.jobs, err = heldAfterDeath(ctx, pool, c.worker); err != nil {
		return nil, err
	}
	return c, nil
}

// heldAfterDeath waits until Postgres has noticed that the process is gone, which ends the statement that was under
// way, and returns the jobs that still are in its hands. Nothing but the end of their leases frees them.
func heldAfterDeath(ctx context.Context, pool *pgxpool.Pool, worker *workerProcess) ([]int64, error) {
	for {
		var sessions int
		err := pool.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity WHERE application_name = $1`,
			workerApplication(worker.pid)).Scan(&sessions)
		if err != nil {
			return nil, fmt.Errorf("wait for the sessions of process %d to end: %w", worker.pid, err)
		}
		if sessions == 0 {
			break
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(10 * time.Millisecond):
		}
	}
	rows, err := pool.Query(ctx, `
		SELECT id FROM pgqueue.jobs WHERE queue = $1 AND state = 'running' AND claimed_by = $2 ORDER BY id`, indexQueue, worker.id)
	if err != nil {
		return nil, fmt.Errorf("list the jobs of process %d: %w", worker.pid, err)
	}
	jobs, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return nil, fmt.Errorf("list the jobs of process %d: %w", worker.pid, err)
	}
	return jobs, nil
}

// recovery says how the jobs of the killed process came back.
type recovery struct {
	jobs     int           // that it left behind
	finished int           // of these, by somebody else
	claimed  time.Duration // from the kill until the last of them was claimed again
	done     time.Duration // from the kill until the last of them was finished
}

// recovered asks the history when the casualty's jobs were claimed again and finished. Call it when the queue is empty.
func recovered(ctx context.Context, pool *pgxpool.Pool, c *casualty) (recovery, error) {
	if c == nil {
		return recovery{}, nil
	}
	result := recovery{jobs: len(c.jobs)}
	var claimed, done float64
	err := pool.QueryRow(ctx, `
		SELECT count(*) FILTER (WHERE claimed_by <> $2),
		       coalesce(extract(epoch FROM max(claimed_at) - $3), 0)::float8,
		       coalesce(extract(epoch FROM max(finished_at) - $3), 0)::float8
		FROM pgqueue.history
		WHERE id = ANY ($1) AND finished_at >= $3`, c.jobs, c.id(), c.at).Scan(&result.finished, &claimed, &done)
	if err != nil {
		return recovery{}, fmt.Errorf("ask when the jobs of process %d came back: %w", c.worker.pid, err)
	}
	result.claimed = time.Duration(claimed * float64(time.Second))
	result.done = time.Duration(done * float64(time.Second))
	return result, nil
}
