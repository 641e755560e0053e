package pgqueue_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
	"github.com/pgqueue/pgqueue/runner"
)

// looks is a worker's observer that counts how often its queues were looked at.
type looks struct{ n atomic.Int64 }

func (l *looks) Woken(runner.WakeEvent) { l.n.Add(1) }

// await waits for more looks; a pause that is not heeded would show within one.
func (l *looks) await(t *testing.T, more int64) {
	t.Helper()
	from := l.n.Load()
	eventually(t, "the queue was looked at", func() bool { return l.n.Load() >= from+more })
}

// A pause is in the database, so it is heeded by a worker that cannot hear, covers what was claimed ahead, and outlasts
// restarts and the reaper.
func TestC27_PauseIsDurable(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	var started atomic.Int64
	release := make(chan struct{})
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(_ context.Context, job *pgqueue.Job[task]) error {
		started.Add(1)
		if job.Args.Do == "wait" {
			<-release
		}
		return nil
	})
	var deaf atomic.Bool
	seen := &looks{}
	config := pgqueue.WorkerConfig{
		Queues: pgqueue.Queues{"default": {Workers: 2, Batch: 60, Poll: 300 * time.Millisecond}}, ReapInterval: 100 * time.Millisecond,
		StopTimeout: patience, Observer: seen,
		ListenerConn: func(ctx context.Context) (*pgx.Conn, error) {
			if deaf.Load() {
				return nil, errors.New("the listener is dead")
			}
			return pgx.Connect(ctx, db.DirectURL)
		},
	}
	worker := startWorker(t, client, mux, config)
	t.Cleanup(func() {
		select {
		case <-release:
		default:
			close(release)
		}
	})
	eventually(t, "the listener hears", func() bool { return worker.Status().Listener.Connected })
	batch := make([]pgqueue.NewJob, 60) // quick ones first: a worker claims ahead only once it knows that handlers are quick
	for i := range batch {
		batch[i] = pgqueue.NewJob{Args: task{N: i}}
		if i >= 20 {
			batch[i].Args = task{N: i, Do: "wait"}
		}
	}
	if _, err := client.EnqueueMany(testContext(t), db.Pool, batch); err != nil {
		t.Fatal(err)
	}
	eventually(t, "jobs are claimed ahead", func() bool { return started.Load() == 22 && worker.Status().Queues["default"].Buffered > 0 })

	deaf.Store(true)
	exec(t, db.Pool, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND query ILIKE 'listen %'`)
	eventually(t, "the listener is dead", func() bool { return !worker.Status().Listener.Connected })
	if err := client.PauseQueue(testContext(t), db.Pool, "default", "the provider is down"); err != nil {
		t.Fatal(err)
	}
	batch = make([]pgqueue.NewJob, 100)
	for i := range batch {
		batch[i] = pgqueue.NewJob{Args: task{N: 100 + i}}
	}
	if _, err := client.EnqueueMany(testContext(t), db.Pool, batch); err != nil { // goes on as usual
		t.Fatal(err)
	}
	eventually(t, "what was claimed ahead is given back", func() bool {
		status := worker.Status().Queues["default"]
		return status.Buffered == 0 && !status.QueuePaused.IsZero() &&
			one[int](t, db.Pool, `SELECT count(*) FROM pgqueue.jobs WHERE state = 'running'`) == 2
	})
	if n := one[int](t, db.Pool, `SELECT count(*) FROM pgqueue.jobs WHERE failures > 0 OR state = 'pending' AND claimed_at IS NOT NULL`); n != 0 {
		t.Errorf("%d jobs paid for the pause", n)
	}
	close(release) // two slots are free now
	eventually(t, "what was running has finished", func() bool { return worker.Status().Queues["default"].Outcomes.Succeeded == 22 })
	seen.await(t, 3)
	if n := started.Load(); n != 22 {
		t.Fatalf("%d jobs were started in a paused queue", n-22)
	}

	if err := worker.end(t); err != nil {
		t.Fatal(err)
	}
	deaf.Store(false)
	worker = startWorker(t, client, mux, config)
	eventually(t, "the new worker knows", func() bool { return !worker.Status().Queues["default"].QueuePaused.IsZero() })
	stale := one[int64](t, db.Pool, `SELECT min(id) FROM pgqueue.jobs`)
	abandon(t, db.Pool, stale)
	awaitState(t, db.Pool, stale, "pending").requireState(t, "pending", job(t, db.Pool, stale).Attempt, 1)
	seen.await(t, 3)
	if n := started.Load(); n != 22 {
		t.Fatalf("%d jobs were started after a restart or by the reaper", n-22)
	}
	stats, err := client.Stats(testContext(t))
	if err != nil || len(stats) != 1 || stats[0].PausedReason != "the provider is down" || stats[0].PausedAt.IsZero() || stats[0].Ready[0].N != 138 {
		t.Errorf("stats %+v, %v", stats, err)
	}

	if err := client.ResumeQueue(testContext(t), db.Pool, "default"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "everything has run", func() bool { return one[int](t, db.Pool, `SELECT count(*) FROM pgqueue.jobs`) == 0 })
	if status := worker.Status().Queues["default"]; !status.QueuePaused.IsZero() || status.LastClaimError != "" {
		t.Errorf("after the pause: %+v", status)
	}
}

// A pause is heard at once where the listener lives; here nobody polls.
func TestC27_PauseAndResumeAreHeard(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	ran := make(chan int, 10)
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(_ context.Context, job *pgqueue.Job[task]) error {
		ran <- job.Args.N
		return nil
	})
	worker := startWorker(t, client, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {Poll: 10 * time.Minute}}})
	eventually(t, "the listener hears", func() bool { return worker.Status().Listener.Connected })
	paused := func(want bool) {
		t.Helper()
		eventually(t, "the worker knows", func() bool { return worker.Status().Queues["default"].QueuePaused.IsZero() != want })
	}
	exec(t, db.Pool, `SELECT pgqueue.pause('default', 'from psql')`)
	paused(true)
	enqueue(t, client, db.Pool, task{N: 1})
	exec(t, db.Pool, `SELECT pgqueue.resume('default')`)
	if n := receive(t, ran, "the job"); n != 1 {
		t.Errorf("job %d ran", n)
	}
	paused(false)
}

// A queue that nobody has used yet may be paused, for drains as well, in a transaction and with any name.
func TestC27_PauseOfAnUnknownQueue(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[task]) error { return nil })
	const queue = `later's "one"`
	config := pgqueue.WorkerConfig{Queues: pgqueue.Queues{queue: {}}}

	tx := begin(t, db.Pool, pgx.TxOptions{})
	if err := client.PauseQueue(testContext(t), tx, queue, ""); err != nil {
		t.Fatal(err)
	}
	enqueue(t, client, db.Pool, task{}, pgqueue.OnQueue(queue))
	if n := drain(t, client, mux, config).Claimed; n != 1 {
		t.Errorf("%d jobs ran before the pause was committed, want 1", n)
	}
	if err := tx.Commit(testContext(t)); err != nil {
		t.Fatal(err)
	}
	enqueue(t, client, db.Pool, task{}, pgqueue.OnQueue(queue))
	if n := drain(t, client, mux, config).Claimed; n != 0 {
		t.Errorf("%d jobs of a paused queue ran", n)
	}
	tx = begin(t, db.Pool, pgx.TxOptions{})
	result, err := client.DrainTx(testContext(t), tx, mux, config)
	if err != nil || result.Claimed != 0 {
		t.Errorf("a drain in a transaction: %+v, %v", result, err)
	}
	if err := tx.Rollback(testContext(t)); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second changes nothing
		if err := client.ResumeQueue(testContext(t), db.Pool, queue); err != nil {
			t.Fatal(err)
		}
	}
	if n := drain(t, client, mux, config).Claimed; n != 1 {
		t.Errorf("%d jobs ran after the pause, want 1", n)
	}
	requireInvalid(t, client.PauseQueue(testContext(t), db.Pool, "", ""), "queue")
	requireInvalid(t, client.PauseQueue(testContext(t), db.Pool, "q", "\x00"), "reason")
	requireInvalid(t, client.ResumeQueue(testContext(t), nil, "q"), "querier")
}
