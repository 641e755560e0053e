package pgqueue_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
	"github.com/pgqueue/pgqueue/runner"
)

// The second signal: what obeys its context is released, what does not is named, and Run returns long before its timeouts.
func TestStopNow(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	mux := pgqueue.NewMux()
	started := make(chan struct{}, 10)
	gate := make(chan struct{})
	pgqueue.Handle(mux, func(ctx context.Context, job *pgqueue.Job[task]) error {
		started <- struct{}{}
		if job.Args.Do == "stubborn" {
			<-gate
			return nil
		}
		<-ctx.Done()
		return context.Cause(ctx)
	})
	defer close(gate)
	obedient := enqueue(t, client, db.Pool, task{}).ID
	stubborn := enqueue(t, client, db.Pool, task{Do: "stubborn"}).ID
	worker := startWorker(t, client, mux, pgqueue.WorkerConfig{
		Queues: pgqueue.Queues{"default": {Workers: 2, CleanUp: time.Hour}, "second": {}}, StopTimeout: time.Hour,
	})
	receive(t, started, "a handler")
	receive(t, started, "the other handler")
	worker.stop() // the first signal
	eventually(t, "the worker is stopping", func() bool { return worker.Status().Queues["default"].Lifecycle == runner.Stopping })
	var left *runner.StopError
	if err := worker.StopNow(testContext(t)); !errors.As(err, &left) {
		t.Errorf("StopNow: %v, want what Run returned", err)
	}
	err := worker.end(t)
	if !errors.As(err, &left) || len(left.Tasks) != 1 || !strings.HasPrefix(left.Tasks[0], "job ") {
		t.Errorf("Run ended with %v, want the stubborn job's name", err)
	}
	s := job(t, db.Pool, obedient)
	s.requireState(t, "pending", 1, 0)
	s = job(t, db.Pool, stubborn)
	s.requireState(t, "running", 1, 0)
	if err := worker.StopNow(testContext(t)); err != nil {
		t.Errorf("of a worker that has stopped: %v", err)
	}
}

func TestStopNowWhileTheDatabaseIsAwaited(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	proxy, pool := throughProxy(t, db.Pool)
	proxy.Refuse(true)
	client := quietClient(t, pool)
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[task]) error { return nil })
	worker := startWorker(t, client, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {}}})
	eventually(t, "it runs", func() bool { return worker.Status().Running })
	if err := worker.StopNow(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if err := worker.end(t); err != nil {
		t.Error(err)
	}
}
