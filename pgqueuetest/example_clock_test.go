package pgqueuetest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
	"github.com/pgqueue/pgqueue/runner"
)

type Remind struct {
	OrderID int64 `json:"order_id"`
}

func (Remind) Kind() string { return "remind" }

var errMailDown = pgqueue.Coded("mail_down", errors.New("the mail server is down"))

// A reminder is sent three hours after the order, and tried again until the mail server is up: hours in a moment.
func testReminder(t *testing.T) {
	db := pgqueuetest.New(t)
	clock := pgqueuetest.NewClock(t, db)
	client := db.Client(t)
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(_ context.Context, job *pgqueue.Job[Remind]) error {
		if job.Attempt < 3 {
			return errMailDown
		}
		return nil
	})

	worker, err := client.NewWorker(mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{pgqueue.DefaultQueue: {}}})
	if err != nil {
		t.Fatal(err)
	}
	sub, err := worker.Subscribe(pgqueue.SubscribeConfig{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- worker.Run(ctx) }()

	enqueued, err := client.Enqueue(ctx, db.Pool, Remind{OrderID: 7}, pgqueue.WithDelay(3*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	clock.Advance(3 * time.Hour)
	for range 2 {
		event := pgqueuetest.WaitFor(t, sub, func(e pgqueue.Event) bool { return e.Job.ID == enqueued.ID })
		if event.Outcome != runner.Retrying || event.Code != "mail_down" {
			t.Errorf("%+v", event)
		}
		clock.Advance(event.Delay)
	}
	job := pgqueuetest.Await(t, client, enqueued.ID)
	if job.State != pgqueue.JobSucceeded || len(job.Failed) != 2 {
		t.Errorf("%+v", job)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// In a file of yours, testReminder is called TestReminder and go test runs it.
func ExampleNewClock() {
	_ = testReminder
}

// One handler, in a transaction that is rolled back.
func testWelcomeHandler(t *testing.T) {
	db := pgqueuetest.New(t)
	client := db.Client(t)
	tx, err := db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	mux := pgqueue.NewMux()
	pgqueue.HandleResult(mux, func(ctx context.Context, job *pgqueue.Job[SendWelcome]) (string, error) {
		_, err := client.Enqueue(ctx, tx, Remind{OrderID: job.Args.UserID}) // as a service would in its own transaction
		return "sent", err
	})

	worked := pgqueuetest.WorkArgsTx(t, tx, client, mux, SendWelcome{UserID: 7})
	if worked.Outcome != runner.Succeeded || string(worked.After.Result) != `"sent"` {
		t.Errorf("%v: %+v", worked.Err, worked)
	}
	pgqueuetest.RequireEnqueued[Remind](t, tx, pgqueuetest.WithArgs(Remind{OrderID: 7}))
}

func ExampleWorkTx() {
	_ = testWelcomeHandler
}
