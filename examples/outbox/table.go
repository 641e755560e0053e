package main

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/outbox"
	"github.com/pgqueue/pgqueue/runner"
)

// Message is what a handler needs of a delivery and its notification.
type Message struct {
	Notification int64  `db:"notification"`
	Provider     string `db:"provider"`
	Recipient    string `db:"recipient"`
	Subject      string `db:"subject"`
}

// Receipt is what a provider calls a message that it has accepted.
type Receipt string

// providers are where deliveries go.
var providers = []string{"email", "sms", "push"}

// channel is where the producer says that there is work.
const channel = "notify_deliveries"

// deliveries describes notify.deliveries: which column means what. Package outbox writes the SQL; `outbox sql` prints it.
func deliveries() outbox.Table[Message, Receipt] {
	return outbox.Table[Message, Receipt]{
		Name: outbox.Name{"notify", "deliveries"},
		Key:  []outbox.KeyColumn{{Name: "id"}},
		Status: outbox.StatusColumn{
			Name: "status", Pending: "pending", Processing: "processing", Succeeded: "delivered", Failed: "failed", Dead: "dead",
		},
		Attempts: "attempts", NextAttempt: "next_attempt_at", AttemptedAt: "attempted_at", CreatedAt: "created_at",
		Failures: "failures", Kind: "provider", FinishedAt: "finished_at", ErrorCode: "error_code", LastError: "last_error",
		Result: outbox.Column{Name: "receipt", Type: "text"},
		Encode: func(receipt Receipt) (string, error) { return string(receipt), nil },
		// What the handler reads comes with the claim.
		Columns: []string{"t.notification_id AS notification", "t.provider", "n.recipient", "n.subject"},
		Join:    "JOIN notify.notifications n ON n.id = t.notification_id",
		Scan:    pgx.RowToStructByName[Message],
		Unique:  [][]string{{"notification_id", "provider"}},
	}
}

// Budgets of time. A send may take providerTimeout, which is why nothing that a handler does lasts for ever, and why the
// lease can be computed; see lease.
const (
	storageTimeout = time.Second
	cleanUp        = 500 * time.Millisecond
	batch          = 32
)

// lease is how long a claim must hold: the worst case of a batch, as outbox.Config says, and a little more. A shorter one is
// refused by outbox.New. After a kill the claims of the dead process come back when it has passed.
func (o options) lease() time.Duration {
	rounds := (batch+o.workers-1)/o.workers + 1
	worst := time.Duration(rounds)*(o.deadline()+cleanUp) + 2*storageTimeout
	return (worst + worst/8).Round(100*time.Millisecond) + 100*time.Millisecond
}

// deadline bounds one attempt: the send, and what is around it.
func (o options) deadline() time.Duration { return o.timeout + 250*time.Millisecond }

// newQueue makes the queue.
func newQueue(pool *pgxpool.Pool, opts options, logger *slog.Logger) (*outbox.Queue[Message, Receipt], error) {
	config := outbox.Config{
		MaxAttempts: 5, // sends that may fail
		Workers:     opts.workers, Batch: batch,
		Timeout: opts.deadline(), CleanUp: cleanUp, StorageTimeout: storageTimeout, Lease: opts.lease(),
		Tick: time.Second, Channel: channel, Logger: logger,
		// The default is 30 s, 2 min, 8 min, 32 min. An example does not want to wait for an hour.
		Backoff: runner.Exponential{Base: opts.backoff, Max: 8 * opts.backoff, Factor: 4, Jitter: 0.15},
	}
	for _, provider := range providers {
		// Half of the workers at most, so that a provider which hangs leaves the other two room.
		config.Kinds = append(config.Kinds, runner.KindConfig{Name: provider, Workers: max(1, opts.workers/2)})
	}
	queue, err := outbox.New(pool, deliveries(), config)
	if err != nil {
		return nil, fmt.Errorf("describe the deliveries: %w", err)
	}
	return queue, nil
}
