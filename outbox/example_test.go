package outbox_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/outbox"
	"github.com/pgqueue/pgqueue/runner"
)

// Delivery is what the handler needs of a delivery and its notification.
type Delivery struct {
	ID      int64
	Address string
	Body    string
}

// deliveries describes two tables of an application's:
//
//	CREATE TABLE app.notifications (id bigint PRIMARY KEY, body text NOT NULL);
//	CREATE TABLE app.deliveries (
//	    id bigint PRIMARY KEY, notification_id bigint NOT NULL, address text NOT NULL,
//	    status text NOT NULL DEFAULT 'pending', attempts int NOT NULL DEFAULT 0,
//	    next_attempt_at timestamptz NOT NULL DEFAULT now(), attempted_at timestamptz,
//	    created_at timestamptz NOT NULL DEFAULT now(), last_error text);
func deliveries() outbox.Table[Delivery, struct{}] {
	return outbox.Table[Delivery, struct{}]{
		Name: outbox.Name{"app", "deliveries"},
		Key:  []outbox.KeyColumn{{Name: "id", Type: "bigint"}},
		Status: outbox.StatusColumn{Name: "status", Pending: "pending", Processing: "processing", Succeeded: "delivered",
			Failed: "failed", Dead: "dead"},
		Attempts: "attempts", NextAttempt: "next_attempt_at", AttemptedAt: "attempted_at", CreatedAt: "created_at",
		LastError: "last_error",
		Columns:   []string{"t.id", "t.address", "n.body"},
		Join:      "JOIN app.notifications n ON n.id = t.notification_id",
		Scan:      pgx.RowToStructByName[Delivery],
	}
}

// deliver calls a provider. The call ends with its context, and carries a key by which the provider can tell doubles.
func deliver(ctx context.Context, task *runner.Task[Delivery]) (none struct{}, err error) {
	d := task.Payload
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://provider.example.com/send", bytes.NewReader([]byte(d.Body)))
	if err != nil {
		return none, err
	}
	request.Header.Set("Idempotency-Key", outbox.IdempotencyKey(task.Token))
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return none, err // tried again, after 30 s, 2 min, 8 min, 32 min
	}
	defer func() { _ = response.Body.Close() }()
	switch {
	case response.StatusCode == http.StatusTooManyRequests:
		return none, runner.Pause(time.Minute) // nothing is spent, and nothing is claimed for a minute
	case response.StatusCode == http.StatusUnprocessableEntity:
		return none, runner.Permanent(runner.Safef("the provider refuses this address")) // failed
	case response.StatusCode >= 300:
		return none, runner.Safef("the provider answered %d", response.StatusCode)
	}
	return none, nil
}

// A resident service.
func Example() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	pool, err := pgxpool.New(ctx, "postgres://localhost/app")
	if err != nil {
		panic(err)
	}
	defer pool.Close()
	queue, err := outbox.New(pool, deliveries(), outbox.Config{Workers: 8, Batch: 32})
	if err != nil {
		panic(err)
	}
	worker, err := outbox.NewWorker(queue, runner.HandlerFunc[Delivery, struct{}](deliver))
	if err != nil {
		panic(err)
	}
	if err := worker.Run(ctx); err != nil {
		fmt.Println(err)
	}
}

// For a cron service that calls an address each minute.
func ExampleWorker_DrainHandler() {
	pool, err := pgxpool.New(context.Background(), "postgres://localhost/app")
	if err != nil {
		panic(err)
	}
	queue, err := outbox.New(pool, deliveries(), outbox.Config{})
	if err != nil {
		panic(err)
	}
	worker, err := outbox.NewWorker(queue, runner.HandlerFunc[Delivery, struct{}](deliver))
	if err != nil {
		panic(err)
	}
	authenticated := func(next http.Handler) http.Handler { return next } // the application's
	mux := http.NewServeMux()
	mux.Handle("/internal/drain", authenticated(worker.DrainHandler()))
	_ = mux
}

// Failed and dead rows get another chance, once their cause is gone.
func ExampleQueue_ResumeWhere() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "postgres://localhost/app")
	if err != nil {
		panic(err)
	}
	queue, err := outbox.New(pool, deliveries(), outbox.Config{})
	if err != nil {
		panic(err)
	}
	resumed, err := queue.ResumeWhere(ctx, "t.status = 'dead' AND t.address LIKE $1", "%@example.com")
	fmt.Println(resumed, err)
}

// The statements, for review.
func ExampleQueue_SQL() {
	config, err := pgxpool.ParseConfig("postgres://localhost/app")
	if err != nil {
		panic(err)
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		panic(err)
	}
	defer pool.Close()
	queue, err := outbox.New(pool, deliveries(), outbox.Config{})
	if err != nil {
		panic(err)
	}
	for _, statement := range queue.SQL() {
		if statement.Name == "success" {
			fmt.Println(statement.SQL)
		}
	}
	// Output:
	// WITH l AS MATERIALIZED (
	//     SELECT f.ord, x.*
	//     FROM unnest($1::text[], $2::bigint[], $3::timestamptz[]) WITH ORDINALITY AS f(k_a, attempts, attempted_at, ord)
	//          CROSS JOIN LATERAL (
	//             SELECT x."id" FROM "app"."deliveries" x
	//             WHERE x."id" = f.k_a::bigint AND x."attempts" IS NOT DISTINCT FROM f.attempts AND x."attempted_at" IS NOT DISTINCT FROM f.attempted_at AND (x."status" IS NOT DISTINCT FROM 'processing' OR x."status" IS NOT DISTINCT FROM 'pending')
	//             FOR NO KEY UPDATE SKIP LOCKED) x
	// )
	// UPDATE "app"."deliveries" AS t
	// SET "status" = 'delivered'
	// FROM l WHERE t."id" = l."id" AND t."id" = ANY (ARRAY (SELECT w."id" FROM l w))
	// RETURNING l.ord
}

// A handler whose own write happens exactly once.
func ExampleHandleTx() {
	pool, err := pgxpool.New(context.Background(), "postgres://localhost/app")
	if err != nil {
		panic(err)
	}
	queue, err := outbox.New(pool, deliveries(), outbox.Config{})
	if err != nil {
		panic(err)
	}
	handler := outbox.HandleTx(queue, func(ctx context.Context, tx pgx.Tx, task *runner.Task[Delivery]) (none struct{}, err error) {
		// Slow work belongs here: the transaction begins at its first use.
		tag, err := tx.Exec(ctx, "UPDATE app.counters SET sent = sent + 1 WHERE address = $1", task.Payload.Address)
		if err == nil && tag.RowsAffected() == 0 {
			err = errors.New("there is no such counter")
		}
		return none, err
	})
	_, err = outbox.NewWorker(queue, handler)
	fmt.Println(err)
}
