package pgqueue_test

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueue"
)

type charge struct {
	OrderID int64 `json:"order_id"`
}

func (charge) Kind() string { return "charge" }

// A client that got no answer asks again. The second request finds the job of the first, also when that has long been done.
func ExampleWithIdempotencyKey() {
	handler := func(pool *pgxpool.Pool, client *pgqueue.Client) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			err := pgx.BeginFunc(r.Context(), pool, func(tx pgx.Tx) error {
				job, err := client.Enqueue(r.Context(), tx, charge{OrderID: 17},
					pgqueue.WithIdempotencyKey(r.Header.Get("Idempotency-Key"), 24*time.Hour))
				if err != nil {
					return err
				}
				if job.Outcome == pgqueue.Duplicate {
					w.Header().Set("Idempotent-Replayed", "true") // of job.ID, which is pending, running, or done
				}
				return nil
			})
			switch {
			case errors.Is(err, pgqueue.ErrInvalid): // such as a request without the header
				http.Error(w, "a valid Idempotency-Key is needed", http.StatusBadRequest)
			case err != nil:
				http.Error(w, "try again", http.StatusServiceUnavailable)
			}
		}
	}
	_ = handler
}

// One sync of a customer at a time, however many ask; what the rest of the arguments says is that of the first.
func ExampleWithUnique() {
	run := func(ctx context.Context, client *pgqueue.Client, tx pgx.Tx) error {
		_, err := client.Enqueue(ctx, tx, pgqueue.Raw{Name: "sync", Payload: []byte(`{"customer": 42, "asked_by": "ada"}`)},
			pgqueue.WithUnique(pgqueue.Unique{Args: []string{"customer"}}))
		return err
	}
	_ = run
}

// dailyReport is enqueued at most once a day, whoever asks.
type dailyReport struct{}

func (dailyReport) Kind() string { return "daily_report" }

// EnqueueOptions makes the rule part of the type.
func (dailyReport) EnqueueOptions() []pgqueue.EnqueueOption {
	return []pgqueue.EnqueueOption{pgqueue.WithUnique(pgqueue.Unique{Period: 24 * time.Hour})}
}

// A rule may belong to the type, and then holds wherever it is enqueued.
func ExampleWithUnique_period() {
	run := func(ctx context.Context, client *pgqueue.Client, pool *pgxpool.Pool) (bool, error) {
		job, err := client.Enqueue(ctx, pool, dailyReport{})
		return job.Outcome == pgqueue.Inserted, err
	}
	_ = run
}

// The search index of a document is built when its author has paused for ten seconds, and every five minutes at least.
func ExampleWithDebounce() {
	saved := func(ctx context.Context, client *pgqueue.Client, tx pgx.Tx, document string) error {
		_, err := client.Enqueue(ctx, tx, pgqueue.Raw{Name: "index", Payload: []byte(`{}`)},
			pgqueue.WithKey(document), pgqueue.WithDebounce(10*time.Second, 5*time.Minute))
		return err
	}
	_ = saved
}

// At most one mail an hour to each customer; what comes in between is dropped.
func ExampleWithThrottle() {
	remind := func(ctx context.Context, client *pgqueue.Client, tx pgx.Tx, customer string) error {
		_, err := client.Enqueue(ctx, tx, pgqueue.Raw{Name: "remind", Payload: []byte(`{}`)},
			pgqueue.WithKey(customer), pgqueue.WithThrottle(time.Hour))
		return err
	}
	_ = remind
}
