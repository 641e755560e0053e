//go:build citus

package citus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
	"github.com/pgqueue/pgqueue/runner"
)

type step struct {
	N int `json:"n"`
}

func (step) Kind() string { return "step" }

var errAgain = errors.New("again")

// TestCitus is one schema and its life: making it takes longer than all of the rest.
func TestCitus(t *testing.T) {
	c := connect(t)
	t.Run("TablesAreDistributedByQueue", c.with(tables))
	t.Run("Enqueue", c.with(enqueue))
	t.Run("AClientThatWasNotToldSaysSo", c.with(untold))
	t.Run("Outcomes", c.with(outcomes))
	t.Run("EachJobOnce", c.with(eachOnce))
	t.Run("AHintWakesTheWorker", c.with(hinted))
	t.Run("LeasesAreRenewed", c.with(renewed))
	t.Run("ExpiredLeasesComeBack", c.with(reaped))
	t.Run("InTheHandlersTransaction", c.with(completeTx))
	t.Run("WhatPeopleDo", c.with(people))
	t.Run("WhatPeopleSee", c.with(seen))
	t.Run("TimeAndControl", c.with(timeAndControl))
	t.Run("Upkeep", c.with(upkeep))
	t.Run("Down", c.with(down))
}

func (c *cluster) with(test func(*cluster)) func(*testing.T) {
	return func(t *testing.T) {
		own := *c
		own.TB = t
		own.client = own.newClient(c.strict, pgqueue.WithCitus())
		test(&own)
	}
}

func tables(c *cluster) {
	rows, err := c.pool.Query(c.ctx, `SELECT p.logicalrelid::regclass::text || ' ' || p.partmethod::text || ' ' || coalesce(column_to_column_name(p.logicalrelid, p.partkey), '-')
		FROM pg_dist_partition p JOIN pg_class t ON t.oid = p.logicalrelid JOIN pg_namespace n ON n.oid = t.relnamespace
		WHERE n.nspname = $1 AND t.relname IN ('jobs', 'history', 'history_attention', 'queues', 'paused_kinds', 'unique_keys', 'job_progress', 'schedules', 'workers') ORDER BY t.relname`, c.schema)
	if err != nil {
		c.Fatal(err)
	}
	found := must(pgx.CollectRows(rows, pgx.RowTo[string]))(c)
	prefix := c.schema + "."
	want := []string{prefix + "history h queue", prefix + "history_attention h queue", prefix + "jobs h queue", prefix + "paused_kinds n -",
		prefix + "queues n -", prefix + "unique_keys h queue"}
	if !slices.Equal(found, want) {
		c.Errorf("%q, want %q", found, want)
	}
	if n := query[int](c, `SELECT count(DISTINCT p.colocationid) FROM pg_dist_partition p JOIN pg_class t ON t.oid = p.logicalrelid
		JOIN pg_namespace n ON n.oid = t.relnamespace WHERE n.nspname = $1 AND p.partmethod = 'h'`, c.schema); n != 1 {
		c.Errorf("jobs, history and unique keys are in %d groups", n)
	}
}

func enqueue(c *cluster) {
	tx := must(c.strict.Begin(c.ctx))(c)
	defer func() { _ = tx.Rollback(c.ctx) }()
	one := must(c.client.Enqueue(c.ctx, tx, step{1}, pgqueue.OnQueue("in")))(c)
	var jobs []pgqueue.NewJob
	for i := range 30 {
		jobs = append(jobs, pgqueue.NewJob{Args: step{i}, Options: []pgqueue.EnqueueOption{pgqueue.OnQueue(fmt.Sprint("in", i%5))}})
	}
	many := must(c.client.EnqueueMany(c.ctx, tx, jobs))(c)
	for i := 1; i < len(many); i++ {
		if i%5 == (i-1)%5 && many[i].ID <= many[i-1].ID || many[i].Outcome != pgqueue.Inserted {
			c.Errorf("%+v", many)
		}
	}
	keyed := func(revision string) pgqueue.Enqueued {
		return must(c.client.Enqueue(c.ctx, tx, step{1}, pgqueue.OnQueue("in"), pgqueue.WithKey("k"), pgqueue.WithRevision(revision)))(c)
	}
	first, same, replaced := keyed("1"), keyed("1"), keyed("2")
	if first.Outcome != pgqueue.Inserted || same.Outcome != pgqueue.Same || replaced.Outcome != pgqueue.Replaced || replaced.ID != first.ID {
		c.Errorf("%+v %+v %+v", first, same, replaced)
	}
	if n := must(c.client.EnqueueCopy(c.ctx, tx, jobs))(c); n != 30 {
		c.Errorf("copied %d", n)
	}
	if err := tx.Commit(c.ctx); err != nil {
		c.Fatal(err)
	}
	if n := query[int](c, "SELECT count(*) FROM %s.jobs"); n != 62 {
		c.Errorf("%d jobs", n)
	}
	if job := must(c.client.Get(c.ctx, c.pool, one.ID))(c); job.Queue != "in" || job.State != pgqueue.JobPending {
		c.Errorf("%+v", job)
	}
	if id := query[int64](c, "SELECT %s.enqueue('step', queue => 'in', key => 'k', revision => '2')"); id != first.ID {
		c.Errorf("SQL gave %d, want %d", id, first.ID)
	}

	rolled := must(c.strict.Begin(c.ctx))(c)
	must(c.client.EnqueueMany(c.ctx, rolled, jobs))(c)
	if err := rolled.Rollback(c.ctx); err != nil {
		c.Fatal(err)
	}
	if n := query[int](c, "SELECT count(*) FROM %s.jobs"); n != 62 {
		c.Errorf("%d jobs after a rollback", n)
	}
	c.exec("DELETE FROM %s.jobs")
}

func untold(c *cluster) {
	plain := c.newClient(c.pool)
	if _, err := plain.Enqueue(c.ctx, c.pool, step{1}); err == nil || !strings.Contains(err.Error(), "WithCitus") {
		c.Error(err)
	}
}

// outcomes runs each verdict through a drain; the strict pool says that claim, renewal, verdict and reaper each ask one shard.
func outcomes(c *cluster) {
	verdicts := []error{nil, pgqueue.Permanent(errAgain), errAgain, pgqueue.Snooze(time.Hour), pgqueue.Cancel(errAgain)}
	mux := pgqueue.NewMux()
	pgqueue.HandleResult(mux, func(_ context.Context, job *pgqueue.Job[step]) (int, error) {
		return job.Args.N, verdicts[job.Args.N]
	})
	var ids []int64
	for n := range verdicts {
		ids = append(ids, must(c.client.Enqueue(c.ctx, c.strict, step{n}, pgqueue.OnQueue("outcomes"), pgqueue.WithMaxAttempts(1)))(c).ID)
	}
	drained := must(c.client.Drain(c.ctx, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"outcomes": {}}}))(c)
	if drained.Outcomes != (runner.Outcomes{Succeeded: 1, Failed: 1, Dead: 1, Snoozed: 1, Cancelled: 1}) {
		c.Errorf("%+v", drained.Outcomes)
	}
	states := []pgqueue.JobState{pgqueue.JobSucceeded, pgqueue.JobFailed, pgqueue.JobDead, pgqueue.JobPending, pgqueue.JobCancelled}
	for i, id := range ids {
		if job := must(c.client.Get(c.ctx, c.pool, id))(c); job.State != states[i] {
			c.Errorf("job %d: %+v, want %s", i, job, states[i])
		}
	}
}

// eachOnce lets two workers race for jobs of several queues.
func eachOnce(c *cluster) {
	const jobs = 600
	var mu sync.Mutex
	runs := map[int]int{}
	done := make(chan struct{})
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(_ context.Context, job *pgqueue.Job[step]) error {
		mu.Lock()
		defer mu.Unlock()
		if runs[job.Args.N]++; len(runs) == jobs && runs[job.Args.N] == 1 {
			close(done)
		}
		return nil
	})
	queues := pgqueue.Queues{"a": {Workers: 4}, "b": {Workers: 4}, "c": {Workers: 4}}
	stop := c.work(2, mux, pgqueue.WorkerConfig{Queues: queues})
	var batch []pgqueue.NewJob
	for n := range jobs {
		batch = append(batch, pgqueue.NewJob{Args: step{n}, Options: []pgqueue.EnqueueOption{pgqueue.OnQueue(string(rune('a' + n%3)))}})
	}
	for part := range slices.Chunk(batch, 50) {
		must(c.client.EnqueueMany(c.ctx, c.strict, part))(c)
	}
	select {
	case <-done:
	case <-time.After(patience):
		c.Error("not all of them ran")
	}
	stop()
	for n, times := range runs {
		if times != 1 {
			c.Errorf("job %d ran %d times", n, times)
		}
	}
	if n := query[int](c, "SELECT count(*) FROM %s.history WHERE queue IN ('a', 'b', 'c') AND state = 'succeeded'"); n != jobs {
		c.Errorf("%d successes", n)
	}
}

// work runs workers until stop is called.
func (c *cluster) work(n int, mux *pgqueue.Mux, config pgqueue.WorkerConfig) (stop func()) {
	c.Helper()
	ctx, cancel := context.WithCancel(c.ctx)
	ended := make(chan error, n)
	for range n {
		worker := must(c.newClient(c.strict, pgqueue.WithCitus()).NewWorker(mux, config))(c)
		go func() { ended <- worker.Run(ctx) }()
	}
	return func() {
		c.Helper()
		cancel()
		for range n {
			if err := <-ended; err != nil {
				c.Errorf("the worker: %v", err)
			}
		}
	}
}

// hinted polls once a minute: what runs sooner was woken.
func hinted(c *cluster) {
	ran := make(chan int, 1)
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(_ context.Context, job *pgqueue.Job[step]) error {
		ran <- job.Args.N
		return nil
	})
	stop := c.work(1, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"hinted": {Poll: time.Hour}}})
	defer stop()
	must(c.client.Enqueue(c.ctx, c.strict, step{0}, pgqueue.OnQueue("hinted")))(c)
	<-within(c, ran) // whether by the claim at the start or by the hint
	must(c.client.Enqueue(c.ctx, c.strict, step{1}, pgqueue.OnQueue("hinted")))(c)
	<-within(c, ran)
	tx := must(c.strict.Begin(c.ctx))(c)
	must(c.client.EnqueueMany(c.ctx, tx, []pgqueue.NewJob{{Args: step{2}, Options: []pgqueue.EnqueueOption{pgqueue.OnQueue("hinted"), pgqueue.WithKey("k")}}}))(c)
	if err := tx.Commit(c.ctx); err != nil {
		c.Fatal(err)
	}
	<-within(c, ran)
}

// within gives what arrives in time.
func within[T any](c *cluster, from <-chan T) <-chan T {
	c.Helper()
	out := make(chan T, 1)
	select {
	case value := <-from:
		out <- value
	case <-time.After(patience):
		c.Fatal("nothing arrived")
	}
	return out
}

// renewed lets a handler wait until its lease has been renewed twice.
func renewed(c *cluster) {
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(ctx context.Context, job *pgqueue.Job[step]) error {
		var first time.Time
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			var lease time.Time
			if err := c.pool.QueryRow(ctx, c.sql("SELECT lease_expires_at FROM %s.jobs WHERE queue = 'renewed' AND id = $1"), job.ID).Scan(&lease); err != nil {
				return err
			}
			if first.IsZero() {
				first = lease
			}
			if lease.Sub(first) > time.Second {
				return nil
			}
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-tick.C:
			}
		}
	})
	must(c.client.Enqueue(c.ctx, c.strict, step{1}, pgqueue.OnQueue("renewed"), pgqueue.WithMaxAttempts(1)))(c)
	drained := must(c.client.Drain(c.ctx, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"renewed": {}}, Lease: 9 * time.Second, RenewEvery: time.Second, StorageTimeout: time.Second}))(c)
	if drained.Outcomes.Succeeded != 1 {
		c.Errorf("%+v", drained)
	}
}

func reaped(c *cluster) {
	for n, failures := range []int{0, 2} { // one more is the last
		id := must(c.client.Enqueue(c.ctx, c.strict, step{n}, pgqueue.OnQueue("reaped")))(c).ID
		c.exec(`UPDATE %s.jobs SET state = 'running', attempt = 1, claimed_generation = generation, failures = $2, claimed_by = 'gone',
			claimed_at = '2020-01-01', lease_expires_at = '2020-01-01' WHERE queue = 'reaped' AND id = $1`, id, failures)
	}
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[step]) error { return nil })
	drained := must(c.client.Drain(c.ctx, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"reaped": {}}}))(c)
	if drained.Recovered.Requeued != 1 || drained.Recovered.Dead != 1 || drained.Outcomes.Succeeded != 1 {
		c.Errorf("%+v", drained)
	}
}

func completeTx(c *cluster) {
	c.exec("CREATE TABLE %s.effects (job bigint)")
	mux := pgqueue.NewMux()
	pgqueue.HandleTx(mux, func(ctx context.Context, tx pgx.Tx, job *pgqueue.Job[step]) error {
		_, err := tx.Exec(ctx, c.sql("INSERT INTO %s.effects VALUES ($1)"), job.ID)
		return err
	})
	must(c.client.Enqueue(c.ctx, c.strict, step{1}, pgqueue.OnQueue("tx")))(c)
	drained := must(c.client.Drain(c.ctx, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"tx": {}}}))(c)
	if drained.Outcomes.Succeeded != 1 || query[int](c, "SELECT count(*) FROM %s.effects") != 1 {
		c.Errorf("%+v", drained)
	}
	pgqueuetest.RequireNotEnqueued[step](c, c.pool, pgqueuetest.InSchema(c.schema), pgqueuetest.OnQueue("tx"))
}
