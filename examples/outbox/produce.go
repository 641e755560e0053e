package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// notify is the producer's side: a notification and its delivery, in the application's own transaction, and a hint that
// Postgres delivers when that commits. There is nothing of pgqueue in it.
func notify(ctx context.Context, tx pgx.Tx, recipient, subject, provider string) error {
	_, err := tx.Exec(ctx, `
		WITH notification AS (
			INSERT INTO notify.notifications (recipient, subject) VALUES ($1, $2) RETURNING id
		), delivery AS (
			INSERT INTO notify.deliveries (notification_id, provider) SELECT id, $3 FROM notification RETURNING id
		)
		SELECT pg_notify($4, 'deliveries') FROM delivery`, recipient, subject, provider, channel)
	if err != nil {
		return fmt.Errorf("notify %s: %w", recipient, err)
	}
	return nil
}

// perTransaction is how many notifications one transaction of the example makes.
const perTransaction = 20

// errThoughtBetter is a transaction that is rolled back.
var errThoughtBetter = errors.New("rolled back")

// produce makes so many notifications. Now and then a transaction is rolled back, and its notifications do not exist.
func produce(ctx context.Context, pool *pgxpool.Pool, count int) error {
	for transaction, made := 0, 0; made < count; transaction++ {
		batch := min(perTransaction, count-made)
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			for i := range batch {
				n := made + i
				if err := notify(ctx, tx, fmt.Sprintf("user%d@example.com", n), fmt.Sprintf("News %d", n), providers[n%len(providers)]); err != nil {
					return err
				}
			}
			if transaction%25 == 24 {
				return errThoughtBetter
			}
			return nil
		})
		switch {
		case errors.Is(err, errThoughtBetter):
		case err != nil:
			return err
		default:
			made += batch
		}
	}
	return nil
}
