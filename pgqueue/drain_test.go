package pgqueue_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// A drain returns what dead workers left first, and then works on it.
func TestDrainRecoversFirst(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[task]) error { return nil })
	stale := enqueue(t, client, db.Pool, task{N: 1}, pgqueue.OnQueue("a")).ID
	spent := enqueue(t, client, db.Pool, task{N: 2}, pgqueue.OnQueue("b"), pgqueue.WithMaxAttempts(1)).ID
	living := enqueue(t, client, db.Pool, task{N: 3}, pgqueue.OnQueue("b")).ID
	later := enqueue(t, client, db.Pool, task{N: 4}, pgqueue.OnQueue("b"), pgqueue.WithDelay(time.Hour)).ID
	for _, id := range []int64{stale, spent, living} {
		abandon(t, db.Pool, id)
	}
	exec(t, db.Pool, "UPDATE pgqueue.jobs SET lease_expires_at = now() + interval '1 hour' WHERE id = $1", living)
	result := drain(t, client, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"a": {}, "b": {}}})
	if result.Recovered.Requeued != 1 || result.Recovered.Dead != 1 || result.Claimed != 1 || result.Outcomes.Succeeded != 1 ||
		result.Queues["a"].Succeeded != 1 || result.Queues["b"].Total() != 0 {
		t.Errorf("result %+v", result)
	}
	job(t, db.Pool, stale).requireState(t, "succeeded", 2, 1)
	s := job(t, db.Pool, spent)
	s.requireState(t, "dead", 1, 1)
	if len(s.Errors) != 1 || s.Errors[0].Code != "lease_expired" || s.Errors[0].By != "dead" {
		t.Errorf("errors %+v, want one of lease_expired by its worker", s.Errors)
	}
	job(t, db.Pool, living).requireState(t, "running", 1, 0)
	job(t, db.Pool, later).requireState(t, "pending", 0, 0)
}

// Handlers enqueue into each other's queues; the drain ends when all are empty.
func TestDrainGoesRoundItsQueues(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(ctx context.Context, job *pgqueue.Job[task]) error {
		if job.Args.N == 0 {
			return nil
		}
		next := map[string]string{"a": "b", "b": "c", "c": "a"}[job.Queue]
		_, err := client.Enqueue(ctx, db.Pool, task{N: job.Args.N - 1}, pgqueue.OnQueue(next))
		return err
	})
	enqueue(t, client, db.Pool, task{N: 8}, pgqueue.OnQueue("c"))
	outside := enqueue(t, client, db.Pool, task{}, pgqueue.OnQueue("not drained")).ID
	result := drain(t, client, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"a": {}, "b": {}, "c": {}}})
	if result.Claimed != 9 || result.Outcomes.Succeeded != 9 {
		t.Errorf("result %+v, want 9 jobs", result)
	}
	for _, queue := range []string{"a", "b", "c"} {
		if result.Queues[queue].Succeeded != 3 {
			t.Errorf("%d jobs of queue %s, want 3", result.Queues[queue].Succeeded, queue)
		}
	}
	job(t, db.Pool, outside).requireState(t, "pending", 0, 0)
}

// A drain whose context ends stops like a worker and says so, with the counts so far.
func TestDrainEndsWithItsContext(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	ctx, cancel := context.WithCancel(testContext(t))
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(ctx context.Context, job *pgqueue.Job[task]) error {
		if job.Args.Do == "last" {
			cancel()
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	})
	first := enqueue(t, client, db.Pool, task{}).ID
	last := enqueue(t, client, db.Pool, task{Do: "last"}).ID
	left := enqueue(t, client, db.Pool, task{}).ID
	result, err := client.Drain(ctx, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {Workers: 1}}, StopTimeout: -1})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
	if result.Outcomes.Succeeded != 1 || result.Outcomes.Released < 1 {
		t.Errorf("outcomes %+v, want a success and what was released", result.Outcomes)
	}
	job(t, db.Pool, first).requireState(t, "succeeded", 1, 0)
	job(t, db.Pool, last).requireState(t, "pending", 1, 0)
	if s := job(t, db.Pool, left); s.State != "pending" || s.Failures != 0 {
		t.Errorf("the job behind it: %+v", s)
	}
	if _, err := client.Drain(ctx, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {}}}); !errors.Is(err, context.Canceled) {
		t.Errorf("a drain whose context has ended: %v", err)
	}
}

// The id of a worker is for people: two may have the same.
func TestTwoWorkersWithOneID(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	jobs := 60
	runs := make([]atomic.Int64, jobs)
	works := [2]chan struct{}{make(chan struct{}), make(chan struct{})}
	var once [2]sync.Once
	config := pgqueue.WorkerConfig{ID: "the same", Queues: pgqueue.Queues{"default": {Batch: 5}}}
	for i := range works {
		mux := pgqueue.NewMux()
		pgqueue.Handle(mux, func(ctx context.Context, job *pgqueue.Job[task]) error {
			runs[job.Args.N].Add(1)
			once[i].Do(func() { close(works[i]) })
			select {
			case <-works[1-i]: // the other has one too
			case <-ctx.Done():
			}
			return nil
		})
		startWorker(t, client, mux, config)
	}
	batch := make([]pgqueue.NewJob, jobs)
	for i := range batch {
		batch[i] = pgqueue.NewJob{Args: task{N: i}}
	}
	if _, err := client.EnqueueMany(testContext(t), db.Pool, batch); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all jobs are done", func() bool { return one[int](t, db.Pool, "SELECT count(*) FROM pgqueue.jobs") == 0 })
	for i := range runs {
		if n := runs[i].Load(); n != 1 {
			t.Errorf("job %d ran %d times", i, n)
		}
	}
	if n := one[int](t, db.Pool, "SELECT count(*) FROM pgqueue.history WHERE claimed_by = 'the same' AND attempt = 1"); n != jobs {
		t.Errorf("%d of %d jobs succeeded", n, jobs)
	}
}

// Bad settings are refused before any SQL, with the name of the field.
func TestWorkerConfigIsChecked(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[task]) error { return nil })
	some := pgqueue.Queues{"default": {}}
	for name, config := range map[string]pgqueue.WorkerConfig{
		"Queues":          {},
		`Queues[""]`:      {Queues: pgqueue.Queues{"": {}}},
		`Queues["a\x00"]`: {Queues: pgqueue.Queues{"a\x00": {}}},
		"ID":              {Queues: some, ID: "a\x00"},
		"ReapInterval":    {Queues: some, ReapInterval: -1},
		"Lease":           {Queues: some, Lease: 2 * time.Second, RenewEvery: time.Second},
		"StorageTimeout":  {Queues: some, StorageTimeout: time.Minute},
		"Workers":         {Queues: pgqueue.Queues{"default": {Workers: -1}}},
		"Batch":           {Queues: pgqueue.Queues{"default": {Batch: 10_001}}},
		"Poll":            {Queues: pgqueue.Queues{"default": {Poll: -1}}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := client.NewWorker(mux, config)
			var invalid *pgqueue.ValidationError
			if !errors.As(err, &invalid) {
				t.Fatalf("error %v, want a ValidationError", err)
			}
			if invalid.Field != name && invalid.Field != `Queues["default"].`+name {
				t.Errorf("the error names %q, want %q", invalid.Field, name)
			}
		})
	}
}
