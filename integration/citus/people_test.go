//go:build citus

package citus

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgqueue/pgqueue/migrations"
	"github.com/pgqueue/pgqueue/pgqueue"
)

// people does to jobs what one does by hand, with numbers alone: that asks all shards, so it has the other pool.
func people(c *cluster) {
	client := c.newClient(c.pool, pgqueue.WithCitus())
	mux := pgqueue.NewMux()
	runs := 0
	pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[step]) error {
		if runs++; runs == 1 {
			return pgqueue.Permanent(errAgain)
		}
		return nil
	})
	drain := func() pgqueue.DrainResult {
		return must(client.Drain(c.ctx, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"people": {}}}))(c)
	}
	add := func(options ...pgqueue.EnqueueOption) int64 {
		return must(client.Enqueue(c.ctx, c.pool, step{1}, append(options, pgqueue.OnQueue("people"))...))(c).ID
	}

	failed := add(pgqueue.WithKey("k"))
	if drained := drain(); drained.Outcomes.Failed != 1 {
		c.Fatalf("%+v", drained)
	}
	newer := add(pgqueue.WithKey("k"))
	var taken *pgqueue.KeyTakenError
	if err := client.Retry(c.ctx, c.pool, failed); !errors.As(err, &taken) || taken.Other != newer {
		c.Error(err)
	}
	if state := must(client.Cancel(c.ctx, c.pool, newer))(c); state != pgqueue.JobCancelled {
		c.Error(state)
	}
	if state := must(client.SetMaxAttempts(c.ctx, c.pool, failed, 7))(c); state != pgqueue.JobFailed {
		c.Error(state)
	}
	if err := client.Retry(c.ctx, c.pool, failed); err != nil {
		c.Error(err)
	}
	if err := client.Retry(c.ctx, c.pool, failed); !errors.Is(err, pgqueue.ErrJobLive) {
		c.Error(err)
	}
	if state := must(client.SetMaxAttempts(c.ctx, c.pool, failed, 8))(c); state != pgqueue.JobPending {
		c.Error(state)
	}
	if err := client.Retry(c.ctx, c.pool, 1<<40); !errors.Is(err, pgqueue.ErrNotFound) {
		c.Error(err)
	}
	if _, err := client.Cancel(c.ctx, c.pool, 1<<40); !errors.Is(err, pgqueue.ErrNotFound) {
		c.Error(err)
	}

	for _, pause := range []string{"a test", "another"} {
		if err := client.PauseQueue(c.ctx, c.pool, "people", pause); err != nil {
			c.Error(err)
		}
	}
	if why := query[string](c, "SELECT %s.why_not_running($1)", failed); !strings.Contains(why, "paused") || !strings.Contains(why, "another") {
		c.Error(why)
	}
	if drained := drain(); drained.Claimed != 0 {
		c.Errorf("a paused queue gave %+v", drained)
	}
	if err := client.ResumeQueue(c.ctx, c.pool, "people"); err != nil {
		c.Error(err)
	}
	for _, history := range []pgqueue.History{pgqueue.HistoryOff, pgqueue.HistorySlim, pgqueue.HistoryOff} {
		if err := client.SetHistory(c.ctx, c.pool, "people", history); err != nil {
			c.Error(err)
		}
	}
	if drained := drain(); drained.Outcomes.Succeeded != 1 {
		c.Errorf("%+v", drained)
	}
	if n := query[int](c, "SELECT count(*) FROM %s.history WHERE id = $1", failed); n != 0 {
		c.Error("a queue without history kept a success")
	}
	if why := query[string](c, "SELECT %s.why_not_running($1)", newer); !strings.Contains(why, "cancelled") {
		c.Error(why)
	}
}

func seen(c *cluster) {
	client := c.newClient(c.pool, pgqueue.WithCitus())
	for n := range 3 {
		must(client.Enqueue(c.ctx, c.pool, step{n}, pgqueue.OnQueue("seen"), pgqueue.WithPriority(n+1)))(c)
	}
	must(client.Enqueue(c.ctx, c.pool, step{9}, pgqueue.OnQueue("seen"), pgqueue.WithDelay(time.Hour)))(c)
	stats := must(client.Stats(c.ctx, "seen", "outcomes", "nobody"))(c)
	if len(stats) != 3 || stats[0].Ready[2].N != 1 || stats[0].Scheduled.N != 1 || stats[1].Dead.N != 1 || stats[1].Failed.N != 1 || stats[2].Ready[0].N != 0 {
		c.Errorf("%+v", stats)
	}
	all := must(client.Stats(c.ctx))(c)
	var names []string
	for _, s := range all {
		names = append(names, s.Queue)
	}
	if text := strings.Join(names, " "); !strings.Contains(text, "outcomes") || !strings.Contains(text, "seen") {
		c.Error(text)
	}
	if ready := query[int64](c, "SELECT ready FROM %s.queue_stats WHERE queue = 'seen'"); ready != 3 {
		c.Errorf("%d are ready", ready)
	}
	if dead := query[int64](c, "SELECT dead FROM %s.cached_stats('0 s') WHERE queue = 'outcomes'"); dead != 1 {
		c.Errorf("%d are dead", dead)
	}
	for _, view := range []string{"active_jobs", "stuck_jobs", "needs_attention", "job_log", "live_workers"} {
		query[int](c, "SELECT count(*) FROM %s."+view)
	}
	query[int](c, "SELECT count(*) FROM %s.attempts WHERE queue = 'seen'") // only where the queue is named
	inspected(c)
}

// inspected asks an Inspector, and lets it act.
func inspected(c *cluster) {
	inspector := must(pgqueue.NewInspector(c.pool, pgqueue.InspectorConfig{Schema: c.schema, Logger: slog.New(slog.DiscardHandler), Citus: true}))(c)
	if queues := must(inspector.Queues(c.ctx, "seen"))(c); len(queues) != 1 || queues[0].Scheduled.N != 1 {
		c.Errorf("%+v", queues)
	}
	must(inspector.Queues(c.ctx))(c)
	for filter, want := range map[string]pgqueue.Filter{"queue": {Queue: "seen"}, "kind": {Queue: "seen", Kind: "step"}} {
		if page := must(inspector.List(c.ctx, want, pgqueue.ListOptions{}))(c); len(page.Jobs) != 4 {
			c.Errorf("%s: %d jobs", filter, len(page.Jobs))
		}
	}
	must(inspector.List(c.ctx, pgqueue.Filter{}, pgqueue.ListOptions{}))(c)
	must(inspector.Counts(c.ctx, pgqueue.Filter{}))(c)
	must(inspector.Attention(c.ctx, pgqueue.Filter{}))(c)
	must(inspector.Workers(c.ctx))(c)
	// docs/scaling.md: Citus does not plan how a batch is found, so bulk actions are refused and change nothing.
	var refused *pgconn.PgError
	if _, err := inspector.CancelMany(c.ctx, pgqueue.Filter{Queue: "seen"}, pgqueue.BulkOptions{}); !errors.As(err, &refused) || refused.Code != "0A000" {
		c.Error(err)
	}
	if counts := must(inspector.Counts(c.ctx, pgqueue.Filter{Queue: "seen"}))(c); counts.Total.N != 4 {
		c.Errorf("%+v", counts)
	}
}

func upkeep(c *cluster) {
	c.exec("UPDATE %s.history SET finished_at = '2020-01-01' WHERE day = 'infinity' AND state = 'dead'")
	for _, want := range []int{1, 1, 0} { // outcomes and reaped left one each
		if gone := query[int](c, "SELECT %s.expire_attention('90 days', 1)"); gone != want {
			c.Errorf("%d expired, want %d", gone, want)
		}
	}
	if made := query[int](c, "SELECT %s.ensure_history(15)"); made != 1 {
		c.Errorf("made %d partitions", made)
	}
	c.exec("CREATE TABLE %s.history_20200101 (LIKE %s.history INCLUDING ALL)")
	c.exec("ALTER TABLE %s.history ATTACH PARTITION %s.history_20200101 FOR VALUES FROM ('2020-01-01') TO ('2020-01-02')")
	for _, want := range []string{"history_20200101", ""} {
		if dropped := query[string](c, "SELECT %s.drop_history('1 year')"); dropped != want {
			c.Errorf("dropped %q, want %q", dropped, want)
		}
	}
}

// down removes everything, from every node.
func down(c *cluster) {
	if err := migrations.Down(c.ctx, c.pool, c.schema, migrations.DiscardJobs(), migrations.WithLogger(slog.New(slog.DiscardHandler))); err != nil {
		c.Fatal(err)
	}
	if n := query[int](c, "SELECT count(*) FROM pg_dist_partition p JOIN pg_class t ON t.oid = p.logicalrelid JOIN pg_namespace n ON n.oid = t.relnamespace WHERE n.nspname = $1", c.schema); n != 0 {
		c.Errorf("%d tables are left", n)
	}
}
