package pgqueue_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// A worker's name decides nothing: a successor of the same name neither keeps the dead one's jobs alive nor takes them
// before their lease has run out, and twins do not meet.
func TestC42_AWorkersNameIsReused(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	var mutex sync.Mutex
	runs := map[int64]int{}
	started := map[int64]time.Time{}
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(ctx context.Context, job *pgqueue.Job[task]) error {
		mutex.Lock()
		runs[job.ID]++
		started[job.ID] = job.ClaimedAt
		mutex.Unlock()
		return nil
	})
	var ids []int64
	for i := range 3 {
		ids = append(ids, enqueue(t, client, db.Pool, task{N: i}).ID)
	}
	// The first pod-0 was killed a moment ago, with three jobs running.
	exec(t, db.Pool, `UPDATE pgqueue.jobs SET state = 'running', attempt = 1, claimed_generation = generation, claimed_by = 'pod-0',
		claimed_at = now(), lease_expires_at = now() + interval '1500 milliseconds'`)
	ends := one[time.Time](t, db.Pool, `SELECT max(lease_expires_at) FROM pgqueue.jobs`)
	config := pgqueue.WorkerConfig{
		ID: "pod-0", Queues: pgqueue.Queues{"default": {Poll: 100 * time.Millisecond}}, Lease: 3 * time.Second,
		RenewEvery: 100 * time.Millisecond, ReapInterval: 100 * time.Millisecond,
	}
	startWorker(t, client, mux, config)
	for _, id := range ids {
		awaitState(t, db.Pool, id, "succeeded").requireState(t, "succeeded", 2, 1)
	}
	mutex.Lock()
	for _, id := range ids {
		if runs[id] != 1 || started[id].Before(ends) {
			t.Errorf("job %d ran %d times, at %s; the dead worker's lease ended at %s", id, runs[id], started[id], ends)
		}
	}
	mutex.Unlock()

	startWorker(t, client, mux, config) // a twin
	ids = ids[:0]
	for i := range 20 {
		ids = append(ids, enqueue(t, client, db.Pool, task{N: i}).ID)
	}
	for _, id := range ids {
		awaitState(t, db.Pool, id, "succeeded").requireState(t, "succeeded", 1, 0)
	}
	mutex.Lock()
	defer mutex.Unlock()
	for _, id := range ids {
		if runs[id] != 1 {
			t.Errorf("job %d ran %d times", id, runs[id])
		}
	}
}

// What is written in a transaction that began long ago carries the time of its statement, not of the transaction.
func TestC45_LeasesAndDelaysInALongTransaction(t *testing.T) {
	t.Parallel()
	db := newEffects(t)
	client := quietClient(t, db.Pool)
	pause := size(2.0, 5.0)
	tx := begin(t, db.Pool, pgx.TxOptions{})
	exec(t, tx, `SELECT pg_sleep($1)`, pause)
	id := enqueue(t, client, tx, task{}, pgqueue.WithDelay(time.Second)).ID
	if err := tx.Commit(testContext(t)); err != nil {
		t.Fatal(err)
	}
	delay := one[float64](t, db.Pool, `SELECT extract(epoch FROM run_at - created_at)::float8 FROM pgqueue.jobs WHERE id = $1`, id)
	if delay < 0.999 || delay > 1.5 {
		t.Errorf("a job with a delay of 1 s is due %f s after it was created", delay)
	}
	exec(t, db.Pool, `DELETE FROM pgqueue.jobs`)

	// A handler whose own transaction is longer than its lease: each renewal leaves time on it, and nobody reaps it.
	mux := pgqueue.NewMux()
	pgqueue.HandleTx(mux, func(ctx context.Context, tx pgx.Tx, job *pgqueue.Job[task]) error {
		if err := effect(ctx, tx, "once"); err != nil {
			return err
		}
		for began := time.Now(); time.Since(began).Seconds() < pause; {
			if left := one[float64](t, db.Pool, `SELECT extract(epoch FROM lease_expires_at - clock_timestamp())::float8 FROM pgqueue.jobs WHERE id = $1`, job.ID); left <= 0 {
				t.Errorf("the lease ended %f s ago", -left)
			}
			if _, err := tx.Exec(ctx, `SELECT pg_sleep(0.05)`); err != nil {
				return err
			}
		}
		return nil
	})
	id = enqueue(t, client, db.Pool, task{}).ID
	startWorker(t, client, mux, pgqueue.WorkerConfig{
		Queues: pgqueue.Queues{"default": {}}, Lease: 1500 * time.Millisecond, RenewEvery: 200 * time.Millisecond,
		ReapInterval: 100 * time.Millisecond,
	})
	awaitState(t, db.Pool, id, "succeeded").requireState(t, "succeeded", 1, 0)
	requireEffects(t, db.Pool, "once")
}
