package pgqueue_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/doctor"
	"github.com/pgqueue/pgqueue/internal/pgserver"
	"github.com/pgqueue/pgqueue/migrations"
	"github.com/pgqueue/pgqueue/pgqueue"
)

// primaryAndStandby are pools on a primary with pgqueue's tables and on its standby, and promote makes that the primary.
func primaryAndStandby(t *testing.T) (primary, standby *pgxpool.Pool, promote func()) {
	t.Helper()
	ctx := testContext(t)
	connect := func(server *pgserver.Server) *pgxpool.Pool {
		pool, err := pgxpool.New(ctx, server.URL("postgres"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		return pool
	}
	first, err := pgserver.Start(ctx, pgserver.Options{Settings: map[string]string{"wal_keep_size": "128MB"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = first.StopImmediate(context.Background()) })
	primary = connect(first)
	if err := migrations.Up(ctx, primary, "", migrations.WithLogger(slog.New(slog.DiscardHandler))); err != nil {
		t.Fatal(err)
	}
	exec(t, primary, `ALTER SYSTEM SET synchronous_standby_names = '`+pgserver.StandbyName+`'`) // from the restart on
	exec(t, primary, `ALTER SYSTEM SET synchronous_commit = remote_apply`)
	primary.Reset()
	second, err := first.StartStandby(ctx, pgserver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = second.StopImmediate(context.Background()) })
	standby = connect(second)
	exec(t, standby, `ALTER SYSTEM RESET synchronous_standby_names`)
	exec(t, standby, `SELECT pg_reload_conf()`)
	return primary, standby, func() {
		exec(t, standby, `SELECT pg_promote(false)`) // not awaited in it: its snapshot may be in the way of the replay
		eventually(t, "the standby is promoted", func() bool { return one[bool](t, standby, `SELECT NOT pg_is_in_recovery()`) })
	}
}

// C81 (1) and (3): on a standby nothing starts that would have to write, and everything works that reads.
func TestC81_OnAStandby(t *testing.T) {
	t.Parallel()
	primary, standby, promote := primaryAndStandby(t)
	onPrimary, onStandby := quietClient(t, primary), quietClient(t, standby)
	id := enqueue(t, onPrimary, primary, task{N: 1}, pgqueue.WithRunAt(time.Now().Add(-time.Minute))).ID

	mux := pgqueue.NewMux()
	ran := make(chan int, 10)
	pgqueue.Handle(mux, func(_ context.Context, job *pgqueue.Job[task]) error {
		ran <- job.Args.N
		return nil
	})
	config := pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {}}}
	config.StandbyWait(10 * time.Millisecond)
	worker, err := onStandby.NewWorker(mux, config)
	if err != nil {
		t.Fatal(err)
	}
	_, drained := onStandby.Drain(testContext(t), mux, config)
	for what, err := range map[string]error{"run": worker.Run(testContext(t)), "drain": drained} {
		refused := requireRefused(t, err, pgqueue.StartStandby)
		if refused != nil && (!errors.Is(err, pgqueue.ErrReadOnly) || !strings.Contains(err.Error(), "standby")) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := onStandby.Enqueue(testContext(t), standby, task{}); !errors.Is(err, pgqueue.ErrReadOnly) || !isCode(err, "25006") {
		t.Errorf("enqueue: %v, want ErrReadOnly with 25006", err)
	}
	requireReads(t, standby, id)

	// One that is started during a failover waits for its end, says what it waits for, and is not ready meanwhile.
	config.StandbyWait(patience)
	late := startWorker(t, onStandby, mux, config)
	eventually(t, "it waits for the promotion", func() bool {
		h := late.Health()
		return !h.Ready && h.Live && len(h.Loops) == 1 && strings.Contains(h.Loops[0].Detail, "standby")
	})
	promote()
	if n := receive(t, ran, "the job after the promotion"); n != 1 {
		t.Errorf("job %d ran", n)
	}
	eventually(t, "it is ready", func() bool { return late.Health().Ready })
}

// requireReads checks what people and their tools do with a database: it works where nothing can be written.
func requireReads(t *testing.T, pool *pgxpool.Pool, id int64) {
	t.Helper()
	ctx := testContext(t)
	client := quietClient(t, pool)
	if stats, err := client.Stats(ctx); err != nil || len(stats) != 1 || stats[0].Ready[0].N != 1 {
		t.Errorf("Stats: %+v, %v", stats, err)
	}
	if job := get(t, client, pool, id); job.State != pgqueue.JobPending {
		t.Errorf("Get: %+v", job)
	}
	inspector, err := pgqueue.NewInspector(pool, pgqueue.InspectorConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if page, err := inspector.List(ctx, pgqueue.Filter{}, pgqueue.ListOptions{}); err != nil || len(page.Jobs) != 1 {
		t.Errorf("List: %+v, %v", page, err)
	}
	if detail, err := inspector.Get(ctx, id); err != nil || detail.ID != id {
		t.Errorf("Inspector.Get: %+v, %v", detail, err)
	}
	if answer, err := inspector.WhyNotRunning(ctx, id); err != nil || answer == "" {
		t.Errorf("WhyNotRunning: %q, %v", answer, err)
	}
	for what, read := range map[string]func() error{
		"Counts":    func() error { _, err := inspector.Counts(ctx, pgqueue.Filter{}); return err },
		"Attention": func() error { _, err := inspector.Attention(ctx, pgqueue.Filter{}); return err },
		"Queues":    func() error { _, err := inspector.Queues(ctx); return err },
		"Workers":   func() error { _, err := inspector.Workers(ctx); return err },
	} {
		if err := read(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := inspector.Retry(ctx, id); !isCode(err, "25006") {
		t.Errorf("an action: %v, want 25006", err)
	}
	for _, view := range []string{"queue_stats", "active_jobs", "stuck_jobs", "needs_attention", "job_log", "attempts", "live_workers"} {
		_ = one[int](t, pool, `SELECT count(*) FROM pgqueue.`+view)
	}
	if n := one[int](t, pool, `SELECT ready1 FROM pgqueue.cached_stats('1 s')`); n != 1 {
		t.Errorf("cached_stats: %d", n)
	}
	if _, err := doctor.Examine(ctx, pool, doctor.Options{}); err != nil {
		t.Errorf("the doctor: %v", err)
	}
	if status, err := migrations.Status(ctx, pool, ""); err != nil || !status.Current() {
		t.Errorf("migrations.Status: %+v, %v", status, err)
	}
}
