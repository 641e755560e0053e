package pgqueue_test

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// A retry changes neither attempt nor input, so a version alone does not tell a dead job from one that waits to run again.
func TestADeletionIsForAState(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	inspector := newInspector(t, db.Pool)
	for _, state := range []pgqueue.JobState{
		pgqueue.JobPending, pgqueue.JobRunning, pgqueue.JobSucceeded, pgqueue.JobCancelled, pgqueue.JobFailed, pgqueue.JobDead,
	} {
		other := pgqueue.JobDead
		if state == pgqueue.JobDead {
			other = pgqueue.JobPending
		}
		id := place(t, db, state)
		version := inspect(t, inspector, id).Version()
		err := inspector.Delete(testContext(t), id, pgqueue.IfVersion(version), pgqueue.IfState(other), pgqueue.EvenIfRunning())
		var changed *pgqueue.ChangedError
		if !errors.As(err, &changed) || changed.ID != id || changed.WantState != other || changed.HaveState != state || changed.Have != version {
			t.Errorf("a %s job as %s: %v", state, other, err)
		}
		if job := inspect(t, inspector, id); job.State != state {
			t.Errorf("a %s job is %s afterwards", state, job.State)
		}
		if err := inspector.Delete(testContext(t), id, pgqueue.IfState(state), pgqueue.EvenIfRunning()); err != nil {
			t.Errorf("a %s job: %v", state, err)
		}
		if _, err := inspector.Get(testContext(t), id); !errors.Is(err, pgqueue.ErrNotFound) {
			t.Errorf("a %s job is still there: %v", state, err)
		}
		if err := inspector.Delete(testContext(t), id, pgqueue.IfState(state)); !errors.Is(err, pgqueue.ErrNotFound) {
			t.Errorf("a job that is gone: %v", err)
		}
	}
}

// A deletion that waits for a retry decides on what that leaves behind.
func TestADeletionWaitsForTheStateItIsFor(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	inspector := newInspector(t, db.Pool)
	id := place(t, db, pgqueue.JobDead)
	tx := begin(t, db.Pool, pgx.TxOptions{})
	if err := inspector.On(tx).Retry(testContext(t), id); err != nil {
		t.Fatal(err)
	}
	deleted := make(chan error, 1)
	go func() { deleted <- inspector.Delete(testContext(t), id, pgqueue.IfState(pgqueue.JobDead)) }()
	eventually(t, "the deletion waits", func() bool {
		return one[bool](t, db.Pool, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database())`)
	})
	if err := tx.Commit(testContext(t)); err != nil {
		t.Fatal(err)
	}
	var changed *pgqueue.ChangedError
	if err := <-deleted; !errors.As(err, &changed) || changed.HaveState != pgqueue.JobPending {
		t.Errorf("the deletion: %v", err)
	}
	if job := inspect(t, inspector, id); job.State != pgqueue.JobPending {
		t.Errorf("the job is %s", job.State)
	}
}
