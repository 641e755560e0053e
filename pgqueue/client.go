package pgqueue

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/migrations"
	"github.com/pgqueue/pgqueue/pgqueue/internal/jobstore"
)

// Client enqueues jobs and makes workers for one schema of one database. Make one per process and share it: it is safe
// for concurrent use, and its limit on hints works the better the more goes through it. The zero value is not usable.
type Client struct {
	pool       *pgxpool.Pool
	schema     string
	channel    string // of hints
	store      *jobstore.Store
	logger     *slog.Logger
	maxPayload int
	hints      *hinter // nil: none are sent
	closed     atomic.Bool
}

// NewClient makes a client over pool, which stays the caller's to close, after the client. It sends no SQL: whether the
// schema is there shows at first use. What is wrong with an option, or a nil pool, is a [*ValidationError].
//
// The pool is used for what the client does by itself (trailing hints, workers); an enqueue runs on what it is given.
//
// Every mode of pgx works (default_query_exec_mode). Behind a pooler in transaction mode use exec, simple_protocol or
// cache_describe: nothing depends on a session then, except for the listener, see [WorkerConfig].ListenerConn.
func NewClient(pool *pgxpool.Pool, options ...ClientOption) (*Client, error) {
	if pool == nil {
		return nil, fmt.Errorf("new client: %w", invalid("pool", "must not be nil"))
	}
	settings, err := newClientSettings(options)
	if err != nil {
		return nil, fmt.Errorf("new client: %w", err)
	}
	channel := migrations.Channel(settings.schema)
	store, err := jobstore.New(settings.schema, channel)
	if err != nil {
		return nil, fmt.Errorf("new client: %w", err)
	}
	client := &Client{
		pool: pool, schema: settings.schema, channel: channel, store: store,
		logger: settings.logger, maxPayload: settings.maxPayload,
	}
	if settings.hints {
		client.hints = newHinter(settings.hintWindow, settings.logger, func(ctx context.Context, queues []string) error {
			return store.Hint(ctx, pool, queues)
		})
	}
	return client, nil
}

// Close sends the hints that were held back, ends the client's timer and makes every later enqueue fail with
// [ErrClosed]. It does not stop workers and does not close the pool. A hint that cannot be sent is logged and not an
// error, because polling finds the jobs all the same; if ctx ends first, its error is returned and the client is closed
// nevertheless. Calling it again is allowed and does nothing more.
func (c *Client) Close(ctx context.Context) error {
	c.closed.Store(true)
	if c.hints == nil {
		return nil
	}
	if err := c.hints.close(ctx); err != nil {
		return fmt.Errorf("close client: %w", err)
	}
	return nil
}
