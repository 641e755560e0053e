package sqltx_test

import (
	"context"
	"database/sql"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/sqltx"
)

type sendWelcome struct {
	UserID int64 `json:"user_id"`
}

func (sendWelcome) Kind() string { return "send_welcome" }

func signUp(ctx context.Context, db *sql.DB, client *pgqueue.Client, name string) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	var id int64
	if err := tx.QueryRowContext(ctx, "INSERT INTO users (name) VALUES ($1) RETURNING id", name).Scan(&id); err != nil {
		return err
	}
	if _, err := client.Enqueue(ctx, sqltx.On(tx), sendWelcome{UserID: id}); err != nil {
		return err
	}
	return tx.Commit()
}

// The job exists exactly when the user does.
func ExampleOn() {
	var (
		ctx    context.Context
		db     *sql.DB
		client *pgqueue.Client
	)
	_ = func() error { return signUp(ctx, db, client, "Ada") }
}
