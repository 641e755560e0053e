package pgqueue_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// A transaction that PREPARE TRANSACTION ends may enqueue, without hints; polling finds its jobs once it commits, however
// far claims have come meanwhile. With hints Postgres says what is in the way.
func TestC18_PreparedTransactions(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.NewServer(t, pgqueuetest.WithSetting("max_prepared_transactions", "5")).DB(t)
	silent, client := quietClient(t, db.Pool, pgqueue.WithoutHints()), quietClient(t, db.Pool)
	ran := make(chan int, 10)
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(_ context.Context, job *pgqueue.Job[task]) error { ran <- job.Args.N; return nil })
	startWorker(t, silent, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {Workers: 1, Poll: 200 * time.Millisecond}}})
	want := func(n int) {
		t.Helper()
		if got := receive(t, ran, "a job"); got != n {
			t.Errorf("job %d ran, want %d", got, n)
		}
	}

	tx := begin(t, db.Pool, pgx.TxOptions{})
	enqueue(t, silent, tx, task{N: 1})
	enqueue(t, silent, tx, task{N: 2}, pgqueue.WithKey("k"), pgqueue.WithPriority(4))
	if _, err := silent.EnqueueMany(testContext(t), tx, []pgqueue.NewJob{{Args: task{N: 3}, Options: []pgqueue.EnqueueOption{pgqueue.OnQueue("later")}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := silent.EnqueueCopy(testContext(t), tx, []pgqueue.NewJob{{Args: task{N: 4}, Options: []pgqueue.EnqueueOption{pgqueue.OnQueue("later")}}}); err != nil {
		t.Fatal(err)
	}
	exec(t, tx, "PREPARE TRANSACTION 'x'")
	// Jobs that were enqueued after it, and have run before it ends.
	enqueue(t, client, db.Pool, task{N: 5}, pgqueue.WithPriority(4))
	want(5)
	if n := one[int](t, db.Pool, "SELECT count(*) FROM pgqueue.jobs WHERE queue = 'later'"); n != 0 {
		t.Errorf("%d jobs of a transaction that has not ended are seen", n)
	}
	exec(t, db.Pool, "COMMIT PREPARED 'x'")
	want(1)
	want(2)
	if n := one[int](t, db.Pool, "SELECT count(*) FROM pgqueue.jobs WHERE queue = 'later'"); n != 2 {
		t.Errorf("%d jobs, want 2", n)
	}

	for name, write := range map[string]func(tx pgx.Tx) error{
		"Enqueue": func(tx pgx.Tx) error {
			_, err := client.Enqueue(testContext(t), tx, task{N: 6})
			return err
		},
		"EnqueueMany": func(tx pgx.Tx) error {
			_, err := client.EnqueueMany(testContext(t), tx, []pgqueue.NewJob{{Args: task{N: 6}}})
			return err
		},
		"EnqueueCopy": func(tx pgx.Tx) error {
			_, err := client.EnqueueCopy(testContext(t), tx, []pgqueue.NewJob{{Args: task{N: 6}}})
			return err
		},
		"PauseQueue": func(tx pgx.Tx) error { return silent.PauseQueue(testContext(t), tx, "later", "") },
	} {
		tx := begin(t, db.Pool, pgx.TxOptions{})
		if err := write(tx); err != nil {
			t.Fatal(err)
		}
		// The error is Postgres's own, and documented at WithoutHints and PauseQueue.
		if _, err := tx.Exec(testContext(t), "PREPARE TRANSACTION 'y'"); !isCode(err, "0A000") {
			t.Errorf("%s with hints: %v, want 0A000", name, err)
		}
	}
	if n := one[int](t, db.Pool, "SELECT count(*) FROM pg_prepared_xacts"); n != 0 {
		t.Errorf("%d transactions are left", n)
	}
}

// Times that only SQL by hand can write break nothing that comes across their rows.
func TestC19_InfiniteTimes(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	insert := func(n int, runAt, createdAt string) int64 {
		return one[int64](t, db.Pool, `INSERT INTO pgqueue.jobs (queue, kind, payload, run_at, created_at)
			VALUES ('default', 'task', jsonb_build_object('n', $1::int), $2::text::timestamptz, $3::text::timestamptz) RETURNING id`, n, runAt, createdAt)
	}
	early, late := insert(1, "-infinity", "-infinity"), insert(2, "infinity", "infinity")
	stale := insert(3, "infinity", "infinity") // was claimed by a worker that died
	abandon(t, db.Pool, stale)
	held := insert(4, "-infinity", "now") // and by one that will never die
	exec(t, db.Pool, `UPDATE pgqueue.jobs SET state = 'running', attempt = 1, claimed_generation = 1, claimed_at = '-infinity',
		lease_expires_at = 'infinity' WHERE id = $1`, held)

	ran := make(chan pgqueue.JobInfo, 10)
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(_ context.Context, job *pgqueue.Job[task]) error { ran <- job.JobInfo; return nil })
	look := func(when string) {
		t.Helper()
		for _, id := range []int64{early, late, stale, held} {
			if _, err := json.Marshal(get(t, client, db.Pool, id)); err != nil {
				t.Errorf("%s: job %d as JSON: %v", when, id, err)
			}
		}
		for _, job := range pgqueuetest.Enqueued[task](t, db.Pool) {
			if _, err := json.Marshal(job); err != nil {
				t.Errorf("%s: listed job %d as JSON: %v", when, job.ID, err)
			}
		}
		if stats, err := client.Stats(testContext(t)); err != nil || len(stats) != 1 || stats[0].OldestReady != 0 {
			t.Errorf("%s: stats %+v, %v", when, stats, err)
		}
	}
	look("at first")
	for tx := range 2 {
		enqueue(t, client, db.Pool, task{N: 10 + tx})
	}
	worker := startWorker(t, client, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {Workers: 1, Poll: 50 * time.Millisecond}}, ReapInterval: 50 * time.Millisecond})
	seen := map[int64]pgqueue.JobInfo{}
	for range 3 {
		info := receive(t, ran, "a job")
		seen[info.ID] = info
	}
	if info, ok := seen[early]; !ok || !info.RunAt.IsZero() || !info.CreatedAt.IsZero() {
		t.Errorf("the job of -infinity ran: %t, %+v", ok, info)
	}
	awaitState(t, db.Pool, early, "succeeded")
	awaitState(t, db.Pool, stale, "pending") // returned, and still due never
	// The idle worker goes on looking: what it waits for is not the end of time.
	enqueue(t, newClient(t, db.Pool, pgqueue.WithoutHints()), db.Pool, task{N: 20})
	receive(t, ran, "a job behind those that are never due")
	if err := worker.Stop(testContext(t)); err != nil {
		t.Error(err)
	}
	look("at last")
	for id, state := range map[int64]string{late: "pending", stale: "pending", held: "running"} {
		if got := job(t, db.Pool, id).State; got != state {
			t.Errorf("job %d is %s, want %s", id, got, state)
		}
	}
	// By hand, in history too.
	if _, err := client.Cancel(testContext(t), db.Pool, late); err != nil {
		t.Error(err)
	}
	exec(t, db.Pool, "UPDATE pgqueue.history SET finished_at = 'infinity', claimed_at = '-infinity', state = 'failed', day = 'infinity' WHERE id = $1", early)
	if _, err := json.Marshal(get(t, client, db.Pool, early)); err != nil {
		t.Error(err)
	}
	if err := client.Retry(testContext(t), db.Pool, early); err != nil {
		t.Error(err)
	}
	if result := drain(t, client, mux, pgqueue.WorkerConfig{}); result.Claimed != 1 || result.Outcomes.Succeeded != 1 {
		t.Errorf("the retried job: %+v", result)
	}
}
