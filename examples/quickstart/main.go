// Command quickstart is the program of the README: it enqueues a job in a transaction and works until it is
// interrupted.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/migrations"
	"github.com/pgqueue/pgqueue/pgqueue"
)

type SendWelcome struct {
	UserID int64 `json:"user_id"`
}

func (SendWelcome) Kind() string { return "send_welcome" }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	check(err)
	check(migrations.Up(ctx, pool, ""))
	client, err := pgqueue.NewClient(pool)
	check(err)

	check(pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		_, err := client.Enqueue(ctx, tx, SendWelcome{UserID: 42}) // beside your own statements
		return err
	}))

	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(ctx context.Context, job *pgqueue.Job[SendWelcome]) error {
		fmt.Println("welcome, user", job.Args.UserID)
		return nil
	})
	worker, err := client.NewWorker(mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {Workers: 10}}})
	check(err)
	check(worker.Run(ctx)) // until ctx ends; then it lets running handlers finish
	check(client.Close(context.WithoutCancel(ctx)))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
