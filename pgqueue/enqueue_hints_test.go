package pgqueue_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// At most a burst of hints goes out with transactions; the rest is announced by the client, at the latest by Close.
func TestHintsAreBounded(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	hints := listen(t, db.Pool, "pgqueue")
	client := newClient(t, db.Pool, pgqueue.WithHintWindow(time.Minute))
	const jobs = 30
	for i := range jobs {
		if i%2 == 0 {
			enqueue(t, client, db.Pool, greet{})
		} else {
			enqueue(t, client, db.Pool, greet{}, pgqueue.WithKey("k"))
		}
	}
	if got := len(hints.until(t, db.Pool, "pgqueue")); got != 20 {
		t.Fatalf("%d hints for %d jobs, want the burst of 20", got, jobs)
	}
	if err := client.Close(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if got := hints.until(t, db.Pool, "pgqueue"); len(got) != 1 || got[0] != pgqueue.DefaultQueue {
		t.Fatalf("Close sent %q, want one hint", got)
	}
}

// A held-back hint comes by itself, in a transaction of the client's own.
func TestTrailingHintArrives(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	hints := listen(t, db.Pool, "pgqueue")
	client := newClient(t, db.Pool, pgqueue.WithHintWindow(2*time.Second))
	for range 30 {
		enqueue(t, client, db.Pool, greet{})
	}
	hints.until(t, db.Pool, "pgqueue") // all that the thirty sent themselves
	notification, err := hints.conn.WaitForNotification(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	if notification.Payload != pgqueue.DefaultQueue {
		t.Fatalf("a hint of %q", notification.Payload)
	}
}

// What changed nothing wakes nobody, and hints can be turned off.
func TestNoNeedlessHints(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	hints := listen(t, db.Pool, "pgqueue")
	client := newClient(t, db.Pool)
	same := []pgqueue.EnqueueOption{pgqueue.WithKey("k"), pgqueue.WithRevision("1")}
	enqueue(t, client, db.Pool, greet{}, same...)
	hints.until(t, db.Pool, "pgqueue")
	for range 50 {
		requireOutcome(t, enqueue(t, client, db.Pool, greet{}, same...), pgqueue.Same)
	}
	if err := client.Close(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if got := hints.until(t, db.Pool, "pgqueue"); len(got) != 0 {
		t.Fatalf("%d hints for nothing", len(got))
	}

	silent := newClient(t, db.Pool, pgqueue.WithoutHints())
	enqueue(t, silent, db.Pool, greet{})
	enqueue(t, silent, db.Pool, greet{}, pgqueue.WithKey("l"))
	if err := silent.Close(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if got := hints.until(t, db.Pool, "pgqueue"); len(got) != 0 {
		t.Fatalf("%d hints of a client without", len(got))
	}
}

func TestClientClosed(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := newClient(t, db.Pool)
	for range 2 {
		if err := client.Close(testContext(t)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := client.Enqueue(testContext(t), db.Pool, greet{}); !errors.Is(err, pgqueue.ErrClosed) {
		t.Fatalf("error %v, want ErrClosed", err)
	}
	if _, err := client.EnqueueMany(testContext(t), db.Pool, nil); !errors.Is(err, pgqueue.ErrClosed) {
		t.Fatalf("error %v, want ErrClosed", err)
	}
}

func TestNewClientRefuses(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(context.Background(), "postgres://localhost:1/nowhere") // connects at first use only
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	for field, make := range map[string]func() (*pgqueue.Client, error){
		"pool":        func() (*pgqueue.Client, error) { return pgqueue.NewClient(nil) },
		"schema":      func() (*pgqueue.Client, error) { return pgqueue.NewClient(pool, pgqueue.WithSchema("pg_x")) },
		"max_payload": func() (*pgqueue.Client, error) { return pgqueue.NewClient(pool, pgqueue.WithMaxPayload(1<<30)) },
		"hint_window": func() (*pgqueue.Client, error) { return pgqueue.NewClient(pool, pgqueue.WithHintWindow(-1)) },
	} {
		client, err := make()
		requireInvalid(t, err, field)
		if client != nil {
			t.Fatalf("%s: a client beside an error", field)
		}
	}
	client := newClient(t, pool, nil, pgqueue.WithLogger(nil), pgqueue.WithSchema("")) // sends no SQL
	var none *pgxpool.Pool
	for _, q := range []pgqueue.Querier{nil, none} {
		_, err := client.Enqueue(context.Background(), q, greet{})
		requireInvalid(t, err, "querier")
	}
}
