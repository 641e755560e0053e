package sqlc_test

import (
	"database/sql"
	_ "embed"
	"errors"
	"testing"

	"github.com/lib/pq"

	"github.com/pgqueue/pgqueue/examples/databasesql/internal/signuptest"
	"github.com/pgqueue/pgqueue/examples/databasesql/sqlc"
	"github.com/pgqueue/pgqueue/examples/databasesql/sqlc/users"
	"github.com/pgqueue/pgqueue/examples/databasesql/welcome"
	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
	"github.com/pgqueue/pgqueue/sqltx"
)

//go:embed schema.sql
var schema string

func service(t *testing.T) (*sqlc.Service, *pgqueuetest.DB) {
	t.Helper()
	database := pgqueuetest.New(t)
	connector, err := pq.NewConnector(database.URL)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	t.Cleanup(func() { _ = db.Close() })
	if _, err := db.ExecContext(t.Context(), schema); err != nil {
		t.Fatal(err)
	}
	return &sqlc.Service{DB: db, Queries: users.New(db), Jobs: database.Client(t)}, database
}

func TestSignUp(t *testing.T) {
	t.Parallel()
	service, database := service(t)
	signuptest.Run(t, database, service.Jobs, service.SignUp)
	if n, err := service.Queries.CountUsers(t.Context()); err != nil || n != 1 {
		t.Errorf("%d users: %v", n, err)
	}
}

func TestAConflictIsTheDriversError(t *testing.T) {
	t.Parallel()
	service, database := service(t)
	tx, err := service.DB.BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelSerializable})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := service.Queries.WithTx(tx).CountUsers(t.Context()); err != nil {
		t.Fatal(err)
	}
	signuptest.Conflict(t, database, service.Jobs, "k")
	_, err = service.Jobs.Enqueue(t.Context(), sqltx.On(tx), welcome.Send{}, pgqueue.WithKey("k"))
	var conflict *pq.Error
	if !errors.As(err, &conflict) || conflict.Code != "40001" {
		t.Error(err)
	}
}
