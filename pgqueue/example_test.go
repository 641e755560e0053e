package pgqueue_test

import (
	"context"
	"log"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// SendWelcome are the arguments of one kind of job.
type SendWelcome struct {
	UserID int64 `json:"user_id"`
}

// Kind names the kind; it is stored with each job.
func (SendWelcome) Kind() string { return "send_welcome" }

// The job exists exactly when the user does: both are written by one transaction.
func ExampleClient_Enqueue() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "postgres://localhost/app")
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	client, err := pgqueue.NewClient(pool)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = client.Close(ctx) }()

	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		var userID int64
		err := tx.QueryRow(ctx, "INSERT INTO users (name) VALUES ($1) RETURNING id", "Ada").Scan(&userID)
		if err != nil {
			return err
		}
		_, err = client.Enqueue(ctx, tx, SendWelcome{UserID: userID})
		return err
	})
	if err != nil {
		log.Print(err)
	}
}

// Many jobs in one round trip. A key with a revision is run once per revision.
func ExampleClient_EnqueueMany() {
	index := func(ctx context.Context, client *pgqueue.Client, tx pgx.Tx, hashes map[string]string) error {
		var jobs []pgqueue.NewJob
		for path, hash := range hashes {
			jobs = append(jobs, pgqueue.NewJob{
				Args:    pgqueue.Raw{Name: "index_file"},
				Options: []pgqueue.EnqueueOption{pgqueue.WithKey(path), pgqueue.WithRevision(hash)},
			})
		}
		_, err := client.EnqueueMany(ctx, tx, jobs)
		return err
	}
	_ = index
}
