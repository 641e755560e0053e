package drivers

import (
	"database/sql"
	"errors"
	"testing"

	"github.com/lib/pq"

	"github.com/pgqueue/pgqueue/internal/sqltxtest"
	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
	"github.com/pgqueue/pgqueue/sqltx"
)

func open(t testing.TB, url string) *sql.DB {
	t.Helper()
	connector, err := pq.NewConnector(url)
	if err != nil {
		t.Fatal(err)
	}
	return sql.OpenDB(connector)
}

func TestWithPq(t *testing.T) { sqltxtest.Run(t, open) }

type greet struct{}

func (greet) Kind() string { return "greet" }

// errors.As finds the error of the driver that the application chose.
func TestTheDriversErrorIsWrapped(t *testing.T) {
	t.Parallel()
	database := pgqueuetest.New(t)
	db := open(t, database.URL)
	t.Cleanup(func() { _ = db.Close() })
	if _, err := db.ExecContext(t.Context(), "ALTER TABLE pgqueue.jobs ADD CHECK (kind <> 'greet')"); err != nil {
		t.Fatal(err)
	}
	_, err := database.Client(t).Enqueue(t.Context(), sqltx.On(db), greet{}, pgqueue.WithKey("k"))
	var fromServer *pq.Error
	if !errors.As(err, &fromServer) || fromServer.Code != "23514" {
		t.Error(err)
	}
}
