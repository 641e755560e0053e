// Package signuptest is what the three services have in common, as a test.
package signuptest

import (
	"context"
	"errors"
	"testing"

	"github.com/pgqueue/pgqueue/examples/databasesql/welcome"
	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// Run signs users up, the second of them in vain, and works the jobs off. The table of users is there, with a unique name.
func Run(t *testing.T, database *pgqueuetest.DB, client *pgqueue.Client, signUp func(context.Context, string) (int64, error)) {
	t.Helper()
	ctx := t.Context()
	ada, err := signUp(ctx, "ada")
	if err != nil {
		t.Fatal(err)
	}
	if job := pgqueuetest.RequireEnqueued[welcome.Send](t, database.Pool); job.Args.UserID != ada {
		t.Errorf("the job is for user %d, not %d", job.Args.UserID, ada)
	}
	if _, err := signUp(ctx, "ada"); err == nil { // the name is taken: the user is not written, nor is a job
		t.Error("two users have one name")
	}

	// COMMIT fails, after the job was enqueued: it must be gone with the user.
	_, err = database.Pool.Exec(ctx, `
		CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''no eve''; END';
		CREATE CONSTRAINT TRIGGER eve AFTER INSERT ON users DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.name = 'eve') EXECUTE FUNCTION refuse()`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := signUp(ctx, "eve"); err == nil {
		t.Error("eve was let in")
	}
	pgqueuetest.RequireEnqueued[welcome.Send](t, database.Pool) // still the one

	// The enqueue fails, after the user was written: neither is kept, and the service sees the error of Postgres.
	if _, err := database.Pool.Exec(ctx, "ALTER TABLE pgqueue.jobs ADD CONSTRAINT refused CHECK (key <> 'bob')"); err != nil {
		t.Fatal(err)
	}
	_, err = signUp(ctx, "bob")
	var fromServer interface{ SQLState() string }
	if !errors.As(err, &fromServer) || fromServer.SQLState() != "23514" {
		t.Errorf("signing bob up: %v", err)
	}
	var users int
	if err := database.Pool.QueryRow(ctx, "SELECT count(*) FROM users").Scan(&users); err != nil || users != 1 {
		t.Errorf("%d users: %v", users, err)
	}
	pgqueuetest.RequireEnqueued[welcome.Send](t, database.Pool)

	mux := pgqueue.NewMux()
	var welcomed []int64
	pgqueue.Handle(mux, func(_ context.Context, job *pgqueue.Job[welcome.Send]) error {
		welcomed = append(welcomed, job.Args.UserID)
		return nil
	})
	pgqueuetest.Drain(t, client, mux)
	if len(welcomed) != 1 || welcomed[0] != ada {
		t.Errorf("welcomed %v, want %d", welcomed, ada)
	}
}

// Conflict enqueues the key of a transaction that is open and has read already, from elsewhere. The open one must fail with 40001
// when it enqueues the same key: it is told to begin again, and the errors of pgqueue do not hide it.
func Conflict(t *testing.T, database *pgqueuetest.DB, client *pgqueue.Client, key string) {
	t.Helper()
	if _, err := client.Enqueue(t.Context(), database.Pool, welcome.Send{UserID: -1}, pgqueue.WithKey(key)); err != nil {
		t.Fatal(err)
	}
}
