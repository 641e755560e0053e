// Package bun enqueues inside a transaction of bun.
package bun

import (
	"context"
	"database/sql"

	"github.com/uptrace/bun"

	"github.com/pgqueue/pgqueue/examples/databasesql/welcome"
	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/sqltx"
)

// User is a row of the application.
type User struct {
	ID   int64  `bun:",pk,autoincrement"`
	Name string `bun:",unique"`
}

// Service signs users up.
type Service struct {
	DB   *bun.DB
	Jobs *pgqueue.Client
	// TxOptions are those of the transaction; nil is Postgres's default.
	TxOptions *sql.TxOptions
}

// SignUp writes the user and the job, or neither. A bun.Tx writes its arguments into the text of the query, at question marks; pgqueue's
// statements have Postgres's own parameters. So what is passed is the *sql.Tx inside it.
func (s *Service) SignUp(ctx context.Context, name string) (id int64, err error) {
	user := User{Name: name}
	err = s.DB.RunInTx(ctx, s.TxOptions, func(ctx context.Context, tx bun.Tx) error {
		if _, err := tx.NewInsert().Model(&user).Exec(ctx); err != nil {
			return err
		}
		for range 2 { // a program that asks twice
			_, err := s.Jobs.Enqueue(ctx, sqltx.On(tx.Tx), welcome.Send{UserID: user.ID}, pgqueue.WithKey(name), pgqueue.WithRevision("1"))
			if err != nil {
				return err
			}
		}
		return nil
	})
	return user.ID, err
}
