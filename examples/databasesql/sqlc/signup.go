// Package sqlc enqueues beside the queries that sqlc generates: both take the same *sql.Tx. The folder users is what `sqlc generate`
// makes of schema.sql and query.sql.
package sqlc

import (
	"context"
	"database/sql"

	"github.com/pgqueue/pgqueue/examples/databasesql/sqlc/users"
	"github.com/pgqueue/pgqueue/examples/databasesql/welcome"
	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/sqltx"
)

// Service signs users up.
type Service struct {
	DB      *sql.DB
	Queries *users.Queries
	Jobs    *pgqueue.Client
}

// SignUp writes the user and the job, or neither. Each name is welcomed once per sign-up: a second job of the same key and revision changes
// nothing and leaves the transaction usable.
func (s *Service) SignUp(ctx context.Context, name string) (id int64, err error) {
	tx, err := s.DB.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback() }() // after Commit it does nothing

	id, err = s.Queries.WithTx(tx).InsertUser(ctx, name)
	if err != nil {
		return 0, err
	}
	for range 2 { // a program that asks twice
		_, err = s.Jobs.Enqueue(ctx, sqltx.On(tx), welcome.Send{UserID: id}, pgqueue.WithKey(name), pgqueue.WithRevision("1"))
		if err != nil {
			return 0, err
		}
	}
	return id, tx.Commit()
}
