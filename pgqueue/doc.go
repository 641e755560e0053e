// Package pgqueue is the public API of a job queue in Postgres: work is a row in the table jobs, enqueueing is an INSERT
// in the transaction that writes your data, and handlers are Go functions.
//
//	client, err := pgqueue.NewClient(pool)
//
//	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
//		id, err := users.Insert(ctx, tx, user)
//		if err != nil {
//			return err
//		}
//		_, err = client.Enqueue(ctx, tx, SendWelcome{UserID: id})
//		return err
//	})
//
// The job exists exactly when the user does. Elsewhere, or in the same process:
//
//	mux := pgqueue.NewMux()
//	pgqueue.Handle(mux, func(ctx context.Context, job *pgqueue.Job[SendWelcome]) error {
//		return mailer.Welcome(ctx, job.Args.UserID)
//	})
//	worker, err := client.NewWorker(mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {Workers: 10}}})
//	err = worker.Run(ctx) // until ctx ends
//
// A job runs at least once. What a handler writes in the transaction that completes its job ([HandleTx],
// [Job.CompleteTx]) is written exactly once. An attempt that lost its lease cannot complete the job any more.
//
// # Where things are
//
// This package knows the table jobs; all of its SQL stands in .sql files of internal/jobstore. The engine that claims,
// runs and reports is package runner, which knows no SQL; package listener hears hints and package reaper returns what
// dead processes left behind. Package migrations makes the tables, and package pgqueuetest gives tests a database.
package pgqueue
