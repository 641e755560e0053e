package pgqueuetest_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// The service: whoever signs up is sent a welcome, and the handler counts it.

type SendWelcome struct {
	UserID int64 `json:"user_id"`
}

func (SendWelcome) Kind() string { return "send_welcome" }

func signUp(ctx context.Context, tx pgx.Tx, client *pgqueue.Client, name string) (userID int64, err error) {
	err = tx.QueryRow(ctx, "INSERT INTO users (name) VALUES ($1) RETURNING id", name).Scan(&userID)
	if err != nil {
		return 0, err
	}
	_, err = client.Enqueue(ctx, tx, SendWelcome{UserID: userID}, pgqueue.OnQueue("mail"))
	return userID, err
}

func sendWelcome(ctx context.Context, tx pgx.Tx, job *pgqueue.Job[SendWelcome]) error {
	_, err := tx.Exec(ctx, "UPDATE users SET welcomes = welcomes + 1 WHERE id = $1", job.Args.UserID)
	return err
}

// Its test: everything happens in one transaction, which is rolled back, so nothing has to be cleaned up.
func testSignUp(t *testing.T) {
	ctx := t.Context()
	db := pgqueuetest.New(t) // a database of this test's own
	client := db.Client(t)
	tx, err := db.Pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(ctx)
	_, err = tx.Exec(ctx, "CREATE TABLE users (id bigserial, name text, welcomes int DEFAULT 0)") // or your migrations
	if err != nil {
		t.Fatal(err)
	}

	userID, err := signUp(ctx, tx, client, "Ada")
	if err != nil {
		t.Fatal(err)
	}

	// The job is there, in the transaction.
	pgqueuetest.RequireEnqueued[SendWelcome](t, tx, pgqueuetest.OnQueue("mail"), pgqueuetest.WithArgs(SendWelcome{UserID: userID}))

	// It does what it should, still in the transaction.
	mux := pgqueue.NewMux()
	pgqueue.HandleTx(mux, sendWelcome)
	result := pgqueuetest.DrainTx(t, tx, client, mux, "mail")
	if result.Outcomes.Succeeded != 1 {
		t.Errorf("outcomes %+v", result.Outcomes)
	}
	var welcomes int
	if err := tx.QueryRow(ctx, "SELECT welcomes FROM users WHERE id = $1", userID).Scan(&welcomes); err != nil || welcomes != 1 {
		t.Errorf("%d welcomes, %v", welcomes, err)
	}
	pgqueuetest.RequireNotEnqueued[SendWelcome](t, tx)
}

// In a file of yours, testSignUp is called TestSignUp and go test runs it.
func Example() {
	_ = testSignUp
}
