package pgqueue_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// What is stored of an attempt that failed says when it began and when it ended, whoever ended it: the handler, with a retry or
// for good, or the reaper, who gives the job back or buries it.
func TestFailedAttemptsHaveAStartAndAnEnd(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	ids := map[string]int64{}
	for _, do := range []string{"retried", "permanent", "dead", "cancelled"} {
		ids[do] = enqueue(t, client, db.Pool, task{Do: do}, pgqueue.WithMaxAttempts(3)).ID
	}
	claimed := map[int64]time.Time{}
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(_ context.Context, job *pgqueue.Job[task]) error {
		if job.Args.Do != "retried" || job.Attempt < 3 {
			claimed[job.ID] = job.ClaimedAt
		}
		switch {
		case job.Args.Do == "permanent":
			return pgqueue.Permanent(errors.New("no"))
		case job.Args.Do == "cancelled":
			return pgqueue.Cancel(errors.New("no"))
		case job.Attempt < 3 || job.Args.Do == "dead":
			return pgqueue.RetryAfter(time.Microsecond, errors.New("no"))
		}
		return nil
	})
	config := pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {Workers: 1}}}
	for _, do := range []string{"retried", "dead"} {
		abandon(t, db.Pool, ids[do]) // attempt 1 of both
	}
	last := enqueue(t, client, db.Pool, task{Do: "lease"}, pgqueue.WithMaxAttempts(1), pgqueue.WithDelay(time.Hour)).ID
	abandon(t, db.Pool, last)
	eventually(t, "all have ended", func() bool {
		drain(t, client, mux, config)
		return one[int](t, db.Pool, `SELECT count(*) FROM pgqueue.jobs`) == 0
	})
	for do, want := range map[string]int{"retried": 2, "permanent": 1, "dead": 3, "cancelled": 1} {
		status, err := client.Get(testContext(t), db.Pool, ids[do])
		if err != nil {
			t.Fatal(err)
		}
		if len(status.Failed) != want {
			t.Fatalf("%s: %+v", do, status.Failed)
		}
		for _, failed := range status.Failed {
			if failed.Started.IsZero() || failed.Started.After(failed.At) || failed.By == "" || failed.Code == "" {
				t.Errorf("%s: %+v", do, failed)
			}
		}
		if newest := status.Failed[want-1]; !newest.Started.Equal(claimed[ids[do]]) {
			t.Errorf("%s: started %v, and was claimed %v", do, newest.Started, claimed[ids[do]])
		}
	}
	status, err := client.Get(testContext(t), db.Pool, last)
	if err != nil {
		t.Fatal(err)
	}
	if failed := status.Failed[0]; status.State != pgqueue.JobDead || failed.Code != "lease_expired" || failed.At.Sub(failed.Started) < 30*time.Second {
		t.Errorf("of a dead worker: %+v", failed)
	}
}

// An enqueue into a schema that is not there, or too old, says what to do, and keeps Postgres's own error.
func TestEnqueueWithoutASchema(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t, pgqueuetest.WithoutMigrations())
	jobs := []pgqueue.NewJob{{Args: task{}}, {Args: task{}, Options: []pgqueue.EnqueueOption{pgqueue.WithKey("k")}}}
	for _, schema := range []string{"", "elsewhere"} {
		client := quietClient(t, db.Pool, pgqueue.WithSchema(schema))
		_, one := client.Enqueue(testContext(t), db.Pool, task{})
		_, many := client.EnqueueMany(testContext(t), db.Pool, jobs)
		_, copied := client.EnqueueCopy(testContext(t), db.Pool, jobs[:1])
		for what, err := range map[string]error{"Enqueue": one, "EnqueueMany": many, "EnqueueCopy": copied} {
			if !errors.Is(err, pgqueue.ErrSchema) || !isCode(err, "42P01") && !isCode(err, "3F000") {
				t.Errorf("%s in schema %q: %v", what, schema, err)
			}
		}
	}
	// Any other error of Postgres is none of the schema.
	migrated := pgqueuetest.New(t)
	exec(t, migrated.Pool, `ALTER TABLE pgqueue.jobs ADD CONSTRAINT none CHECK (false) NOT VALID`)
	if _, err := quietClient(t, migrated.Pool).Enqueue(testContext(t), migrated.Pool, task{}); errors.Is(err, pgqueue.ErrSchema) || !isCode(err, "23514") {
		t.Errorf("a constraint: %v", err)
	}
}
