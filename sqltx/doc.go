// Package sqltx lets pgqueue enqueue inside a transaction of database/sql, with any driver for Postgres: services that
// use sqlc, GORM, bun, or database/sql itself get the same promise as with pgx, that a job exists exactly when the data
// does that was written in the same transaction.
//
//	tx, err := db.BeginTx(ctx, nil)
//	…
//	_, err = client.Enqueue(ctx, sqltx.On(tx), SendWelcome{UserID: id})
//	…
//	err = tx.Commit()
//
// The client itself, and its workers, keep a pgx pool: claims and completions are pgqueue's own and gain nothing from
// another driver. A service that only enqueues may give the pool MaxConns 1; it is used for trailing hints alone.
//
// What takes a pgqueue.Querier takes the result of [On]: Enqueue, EnqueueMany, Get, Retry, Cancel, SetMaxAttempts, PauseQueue,
// ResumeQueue, SetHistory. EnqueueCopy needs pgx, because database/sql has no COPY (it does not compile with a [Querier]), and so does an
// Inspector. Statements, checks and answers are those of pgqueue: this room only translates arguments and rows.
//
// The errors are the driver's, wrapped: errors.As finds a *pgconn.PgError with pgx's own driver and a *pq.Error with lib/pq, and both
// have a method SQLState.
//
// examples/databasesql shows it with sqlc, GORM and bun.
package sqltx
