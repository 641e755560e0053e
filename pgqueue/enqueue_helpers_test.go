package pgqueue_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// greet is the kind of job that these tests enqueue.
type greet struct {
	Name string `json:"name,omitempty"`
}

func (greet) Kind() string { return "greet" }

// testContext ends with the test, or long after anything here should have happened.
func testContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func newClient(t testing.TB, pool *pgxpool.Pool, options ...pgqueue.ClientOption) *pgqueue.Client {
	t.Helper()
	client, err := pgqueue.NewClient(pool, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return client
}

func begin(t testing.TB, pool *pgxpool.Pool, options pgx.TxOptions) pgx.Tx {
	t.Helper()
	tx, err := pool.BeginTx(testContext(t), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return tx
}

func exec(t testing.TB, q interface {
	Exec(context.Context, string, ...any) (pgconn.CommandTag, error)
}, sql string, args ...any) {
	t.Helper()
	if _, err := q.Exec(testContext(t), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// one reads a single value.
func one[T any](t testing.TB, q interface {
	QueryRow(context.Context, string, ...any) pgx.Row
}, sql string, args ...any) T {
	t.Helper()
	var value T
	if err := q.QueryRow(testContext(t), sql, args...).Scan(&value); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return value
}

func enqueue(t testing.TB, client *pgqueue.Client, q pgqueue.Querier, args pgqueue.Args, options ...pgqueue.EnqueueOption) pgqueue.Enqueued {
	t.Helper()
	enqueued, err := client.Enqueue(testContext(t), q, args, options...)
	if err != nil {
		t.Fatal(err)
	}
	if enqueued.ID == 0 {
		t.Fatal("an enqueue answered with id 0")
	}
	return enqueued
}

func requireOutcome(t testing.TB, got pgqueue.Enqueued, want pgqueue.EnqueueOutcome) {
	t.Helper()
	if got.Outcome != want {
		t.Fatalf("outcome %s, want %s", got.Outcome, want)
	}
}

// requireInvalid checks that err is a ValidationError of that field.
func requireInvalid(t testing.TB, err error, field string) {
	t.Helper()
	var invalid *pgqueue.ValidationError
	if !errors.As(err, &invalid) || !errors.Is(err, pgqueue.ErrInvalid) {
		t.Fatalf("error %v, want a ValidationError of %s", err, field)
	}
	if invalid.Field != field {
		t.Fatalf("the error names %q, want %q: %v", invalid.Field, field, err)
	}
}

// statementCounter counts what is sent.
type statementCounter struct{ n atomic.Int64 }

func (c *statementCounter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.n.Add(1)
	return ctx
}
func (c *statementCounter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
func (c *statementCounter) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	c.n.Add(1)
	return ctx
}
func (c *statementCounter) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (c *statementCounter) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

// poolLike is a second pool on the same database with its configuration changed.
func poolLike(t testing.TB, pool *pgxpool.Pool, change func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	config := pool.Config()
	change(config)
	changed, err := pgxpool.NewWithConfig(testContext(t), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(changed.Close)
	return changed
}

// hintListener is a raw LISTEN connection.
type hintListener struct{ conn *pgx.Conn }

func listen(t testing.TB, pool *pgxpool.Pool, channel string) *hintListener {
	t.Helper()
	conn, err := pgx.ConnectConfig(testContext(t), directly(t, pool.Config().ConnConfig))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	exec(t, conn, "LISTEN "+pgx.Identifier{channel}.Sanitize())
	return &hintListener{conn}
}

// until collects the hints that came before a mark, which is sent behind them: no waiting for what does not come.
func (l *hintListener) until(t testing.TB, pool *pgxpool.Pool, channel string) []string {
	t.Helper()
	const mark = "the mark of this test"
	exec(t, pool, "SELECT pg_notify($1, $2)", channel, mark)
	var hints []string
	for {
		notification, err := l.conn.WaitForNotification(testContext(t))
		if err != nil {
			t.Fatal(err)
		}
		if notification.Payload == mark {
			return hints
		}
		hints = append(hints, notification.Payload)
	}
}

func rawJob(payload string) pgqueue.Raw {
	return pgqueue.Raw{Name: "greet", Payload: json.RawMessage(payload)}
}

func isCode(err error, code string) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && pgErr.Code == code
}
