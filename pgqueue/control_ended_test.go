package pgqueue_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// changes are what can be done to one job, by the word for it in errors.
func changes(t testing.TB, client *pgqueue.Client, q pgqueue.Querier) map[string]func(id int64) error {
	ctx := testContext(t)
	second := func(_ pgqueue.JobState, err error) error { return err }
	return map[string]func(id int64) error{
		"retry":               func(id int64) error { return client.Retry(ctx, q, id) },
		"cancel":              func(id int64) error { return second(client.Cancel(ctx, q, id)) },
		"set max attempts of": func(id int64) error { return second(client.SetMaxAttempts(ctx, q, id, 5)) },
		"set priority of":     func(id int64) error { return second(client.SetPriority(ctx, q, id, 2)) },
		"reschedule":          func(id int64) error { return client.Reschedule(ctx, q, id, time.Time{}) },
		"edit":                func(id int64) error { return second(client.EditPayload(ctx, q, id, task{}, 0)) },
		"retry with":          func(id int64) error { return client.RetryWith(ctx, q, id, task{}, 0) },
	}
}

// A job that has ended is told from one that there is not, and both are ErrNotFound. An operator who may not read the tables is told
// that, in a transaction that is as usable as before.
func TestAJobThatHasEndedIsToldFromNone(t *testing.T) {
	t.Parallel()
	db, as := documentedRoles(t)
	exec(t, db.Pool, "CREATE ROLE acts_only LOGIN IN ROLE pgqueue_operator")
	blind := as("acts_only")
	tx := begin(t, blind, pgx.TxOptions{})
	client := quietClient(t, db.Pool)
	done := place(t, db, pgqueue.JobSucceeded)
	dead := place(t, db, pgqueue.JobDead)
	for what, change := range changes(t, client, db.Pool) {
		err := change(done)
		if !errors.Is(err, pgqueue.ErrJobEnded) || !errors.Is(err, pgqueue.ErrNotFound) || !strings.Contains(err.Error(), "it is succeeded") {
			t.Errorf("%s: %v", what, err)
		}
		if err := change(1 << 40); !errors.Is(err, pgqueue.ErrNotFound) || errors.Is(err, pgqueue.ErrJobEnded) {
			t.Errorf("%s, no such job: %v", what, err)
		}
	}
	if _, err := client.EditPayload(testContext(t), db.Pool, dead, task{}, 0); !errors.Is(err, pgqueue.ErrJobEnded) || !strings.Contains(err.Error(), "it is dead") {
		t.Errorf("an edit of a dead job: %v", err)
	}
	for what, change := range changes(t, quietClient(t, blind), tx) {
		if err := change(done); !errors.Is(err, pgqueue.ErrNotFound) || errors.Is(err, pgqueue.ErrJobEnded) {
			t.Errorf("%s by a role that may not read: %v", what, err)
		}
	}
	if err := tx.Commit(testContext(t)); err != nil {
		t.Errorf("their transaction: %v", err)
	}
}

// Without the tables every change says what to do.
func TestChangesWithoutTheSchema(t *testing.T) {
	t.Parallel()
	pool := pgqueuetest.New(t).Pool
	client := quietClient(t, pool, pgqueue.WithSchema("elsewhere"))
	calls := changes(t, client, pool)
	calls["pause"] = func(int64) error { return client.PauseQueue(testContext(t), pool, "q", "") }
	calls["resume"] = func(int64) error { return client.ResumeQueue(testContext(t), pool, "q") }
	for what, change := range calls {
		if err := change(1); !errors.Is(err, pgqueue.ErrSchema) || !strings.Contains(err.Error(), "run migrations.Up") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := pgqueue.AwaitResult[int](testContext(t), nil, 1); !errors.Is(err, pgqueue.ErrInvalid) {
		t.Errorf("a result without a client: %v", err)
	}
}
