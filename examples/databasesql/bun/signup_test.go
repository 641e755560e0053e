package bun_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"

	example "github.com/pgqueue/pgqueue/examples/databasesql/bun"
	"github.com/pgqueue/pgqueue/examples/databasesql/internal/signuptest"
	"github.com/pgqueue/pgqueue/examples/databasesql/welcome"
	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
	"github.com/pgqueue/pgqueue/sqltx"
)

func service(t *testing.T) (*example.Service, *pgqueuetest.DB) {
	t.Helper()
	database := pgqueuetest.New(t)
	config, err := pgx.ParseConfig(database.URL)
	if err != nil {
		t.Fatal(err)
	}
	db := bun.NewDB(stdlib.OpenDB(*config), pgdialect.New())
	t.Cleanup(func() { _ = db.Close() })
	if _, err := db.NewCreateTable().Model((*example.User)(nil)).Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	return &example.Service{DB: db, Jobs: database.Client(t)}, database
}

func TestSignUp(t *testing.T) {
	t.Parallel()
	service, database := service(t)
	signuptest.Run(t, database, service.Jobs, service.SignUp)
}

func TestAConflictIsTheDriversError(t *testing.T) {
	t.Parallel()
	service, database := service(t)
	err := service.DB.RunInTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelSerializable}, func(ctx context.Context, tx bun.Tx) error {
		if _, err := tx.NewSelect().Model((*example.User)(nil)).Count(ctx); err != nil {
			return err
		}
		signuptest.Conflict(t, database, service.Jobs, "k")
		_, err := service.Jobs.Enqueue(ctx, sqltx.On(tx.Tx), welcome.Send{}, pgqueue.WithKey("k"))
		return err
	})
	var conflict *pgconn.PgError
	if !errors.As(err, &conflict) || conflict.Code != "40001" {
		t.Error(err)
	}
}
