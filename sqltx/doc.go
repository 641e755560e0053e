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
// What takes a pgqueue.Querier takes the result of [On], except that reading a job back (Client.Get) and the COPY of
// EnqueueCopy need pgx. Statements, checks and answers are those of pgqueue: this room only translates arguments and rows.
package sqltx
