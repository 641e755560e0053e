package integration

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/outbox"
	"github.com/pgqueue/pgqueue/pgqueuetest"
	"github.com/pgqueue/pgqueue/runner"
)

// deliveries is the application's table. The effects have no unique key on purpose.
const deliveries = `
	CREATE SCHEMA app;
	CREATE TABLE app.deliveries (
		id bigint PRIMARY KEY, status text NOT NULL DEFAULT 'pending', attempts int NOT NULL DEFAULT 0, failures int NOT NULL DEFAULT 0,
		next_attempt_at timestamptz NOT NULL DEFAULT now(), attempted_at timestamptz, created_at timestamptz NOT NULL DEFAULT now(),
		lease_until timestamptz);
	CREATE INDEX ON app.deliveries (next_attempt_at, created_at) WHERE status = 'pending';
	CREATE INDEX ON app.deliveries (attempted_at) WHERE status = 'processing';
	CREATE TABLE app.effects (delivery bigint NOT NULL)`

// runOutbox is a child that works off app.deliveries.
func (p program) runOutbox(ctx context.Context, pool *pgxpool.Pool, said *voice, logger *slog.Logger) error {
	queue, err := outbox.New(pool, outbox.Table[int64, struct{}]{
		Name: outbox.Name{"app", "deliveries"}, Key: []outbox.KeyColumn{{Name: "id"}},
		Status: outbox.StatusColumn{Name: "status", Pending: "pending", Processing: "processing", Succeeded: "delivered", Failed: "failed",
			Dead: "dead"},
		Attempts: "attempts", Failures: "failures", NextAttempt: "next_attempt_at", AttemptedAt: "attempted_at", CreatedAt: "created_at",
		LeaseUntil: "lease_until", Columns: []string{"t.id"}, Scan: pgx.RowTo[int64],
	}, outbox.Config{Workers: p.Workers, Lease: p.Lease, Tick: p.Reap, MaxAttempts: 1000, Logger: logger})
	if err != nil {
		return err
	}
	write := outbox.HandleTx(queue, func(ctx context.Context, tx pgx.Tx, task *runner.Task[int64]) (struct{}, error) {
		said.say(event{What: eventStart, Job: task.Payload})
		_, err := tx.Exec(ctx, "INSERT INTO app.effects VALUES ($1)", task.Payload)
		return struct{}{}, err
	})
	call := runner.HandlerFunc[int64, struct{}](func(ctx context.Context, task *runner.Task[int64]) (struct{}, error) {
		said.say(event{What: eventStart, Job: task.Payload})
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, fmt.Sprint(p.Outbox, "/", task.Payload), nil)
		if err != nil {
			return struct{}{}, err
		}
		request.Header.Set("Idempotency-Key", outbox.IdempotencyKey(task.Token))
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return struct{}{}, err
		}
		return struct{}{}, response.Body.Close()
	})
	handler := runner.Handler[int64, struct{}](call)
	if p.Outbox == "tx" {
		handler = write
	}
	worker, err := outbox.NewWorker(queue, handler)
	if err != nil {
		return err
	}
	return worker.Run(ctx)
}

// receiver notes what is delivered to it.
type receiver struct {
	mu   sync.Mutex
	keys map[string][]string // idempotency keys by row
}

func (r *receiver) ServeHTTP(_ http.ResponseWriter, request *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keys[request.URL.Path] = append(r.keys[request.URL.Path], request.Header.Get("Idempotency-Key"))
}

// Processes that work off a table are killed at random points. What a handler writes in the transaction of its row is there
// exactly once for each row. What it sends elsewhere arrives at least once, with the same idempotency key each time.
func TestC148_ProcessesAreKilledAmidDeliveries(t *testing.T) {
	t.Parallel()
	rows, kills := 150, 4
	if full() {
		rows, kills = 500, 15
	}
	for _, mode := range []string{"tx", "async"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			rows := rows
			db := pgqueuetest.New(t, pgqueuetest.WithoutMigrations())
			if _, err := db.Pool.Exec(t.Context(), deliveries); err != nil {
				t.Fatal(err)
			}
			const add = "INSERT INTO app.deliveries (id) SELECT generate_series($1::int, $2::int)"
			execute(t, db.Pool, add, 1, rows)
			received := &receiver{keys: map[string][]string{}}
			stub := httptest.NewServer(received)
			defer stub.Close()
			p := program{URL: db.URL, Workers: 4, Lease: shortLease, Reap: shortReap, Outbox: "tx"}
			if mode == "async" {
				p.Outbox = stub.URL
			}
			some := rows / (kills + 2)
			for range kills {
				// There is always enough to do, also where the one before was quicker than its death.
				n := 1 + rand.IntN(some)
				execute(t, db.Pool, add, rows+1, rows+n)
				rows += n
				victim := startChild(t, p)
				victim.await("some deliveries", n, is(eventStart))
				victim.kill()
			}
			startChild(t, p)
			for deadline := time.Now().Add(2 * patience); one[int](t, db.Pool, "SELECT count(*) FROM app.deliveries WHERE status <> 'delivered'") > 0; {
				if time.Now().After(deadline) {
					t.Fatal("rows are left")
				}
				<-time.After(20 * time.Millisecond)
			}

			if mode == "tx" {
				if n := one[int](t, db.Pool, "SELECT count(DISTINCT delivery) FROM app.effects"); n != rows {
					t.Errorf("%d of %d rows have their effect", n, rows)
				}
				if n := one[int](t, db.Pool, "SELECT count(*) FROM app.effects"); n != rows {
					t.Errorf("%d effects of %d rows", n, rows)
				}
				return
			}
			received.mu.Lock()
			defer received.mu.Unlock()
			if len(received.keys) != rows {
				t.Errorf("%d of %d rows were delivered", len(received.keys), rows)
			}
			distinct := map[string]bool{}
			for row, keys := range received.keys {
				distinct[keys[0]] = true
				if keys[0] == "" || len(slices.Compact(slices.Sorted(slices.Values(keys)))) != 1 {
					t.Errorf("row %s came with the keys %q", row, keys)
				}
			}
			if len(distinct) != rows {
				t.Errorf("%d keys for %d rows", len(distinct), rows)
			}
		})
	}
}
