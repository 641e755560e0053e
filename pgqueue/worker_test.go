package pgqueue_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// welcome is the job of these tests.
type welcome struct {
	Name string `json:"name"`
}

func (welcome) Kind() string { return "welcome" }

func TestWorkerRunsWhatATransactionEnqueued(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client, err := pgqueue.NewClient(db.Pool)
	if err != nil {
		t.Fatal(err)
	}
	mux := pgqueue.NewMux()
	greeted := make(chan string, 10)
	pgqueue.Handle(mux, func(_ context.Context, job *pgqueue.Job[welcome]) error {
		greeted <- job.Args.Name
		return nil
	})
	config := pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {Poll: time.Minute}}}
	listenDirectly(t, client, &config)
	worker, err := client.NewWorker(mux, config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx) }()

	err = pgx.BeginFunc(ctx, db.Pool, func(tx pgx.Tx) error {
		_, err := client.Enqueue(ctx, tx, welcome{Name: "Ada"})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case name := <-greeted:
		if name != "Ada" {
			t.Errorf("greeted %q", name)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the job did not run")
	}
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	var live, succeeded int
	if err := db.Pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM pgqueue.jobs),
		(SELECT count(*) FROM pgqueue.history WHERE state = 'succeeded' AND attempt = 1)`).Scan(&live, &succeeded); err != nil {
		t.Fatal(err)
	}
	if live != 0 || succeeded != 1 {
		t.Errorf("%d live and %d succeeded jobs, want 0 and 1", live, succeeded)
	}
}
