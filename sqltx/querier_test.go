package sqltx_test

import (
	"database/sql"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/pgqueue/pgqueue/internal/sqltxtest"
	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
	"github.com/pgqueue/pgqueue/sqltx"
)

func openPgx(t testing.TB, url string) *sql.DB {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	return stdlib.OpenDB(*config)
}

func TestWithPgx(t *testing.T) { sqltxtest.Run(t, openPgx) }

// The modes in which poolers want pgx send arguments as text.
func TestWithPgxInTheSimpleProtocol(t *testing.T) {
	sqltxtest.Run(t, func(t testing.TB, url string) *sql.DB {
		config, err := pgx.ParseConfig(url)
		if err != nil {
			t.Fatal(err)
		}
		config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
		return stdlib.OpenDB(*config)
	})
}

// errors.As finds the error of the driver that the application chose.
func TestTheDriversErrorIsWrapped(t *testing.T) {
	t.Parallel()
	database := pgqueuetest.New(t)
	db := openPgx(t, database.URL)
	t.Cleanup(func() { _ = db.Close() })
	if _, err := db.ExecContext(t.Context(), "ALTER TABLE pgqueue.jobs ADD CHECK (kind <> 'send_welcome')"); err != nil {
		t.Fatal(err)
	}
	_, err := database.Client(t).Enqueue(t.Context(), sqltx.On(db), sendWelcome{}, pgqueue.WithKey("k"))
	var fromServer *pgconn.PgError
	if !errors.As(err, &fromServer) || fromServer.Code != "23514" {
		t.Error(err)
	}
}
