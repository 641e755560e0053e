package pgqueue

import (
	"context"
	"errors"
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
	control    string // channel of messages about single jobs
	awaits     *awaits
	store      *jobstore.Store
	logger     *slog.Logger
	maxPayload int
	hints      *hinter
	hinting    atomic.Bool // whether hints are sent
	chain      enqueueChain
	codecs     *codecs // nil: none
	observer   any     // of workers that have none of their own
	observe    hintObservers
	stale      *staleConnections // of pool
	closed     atomic.Bool
	checked    atomic.Pointer[pgxpool.Pool] // through which no pooler stood in the way, see checkPooler
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
	if err == nil && settings.citus {
		err = store.UseCitus()
	}
	if err != nil {
		return nil, fmt.Errorf("new client: %w", err)
	}
	client := &Client{
		pool: pool, schema: settings.schema, channel: channel, control: migrations.ControlChannel(settings.schema), store: store,
		logger: settings.logger, maxPayload: settings.maxPayload,
		stale: &staleConnections{pool: pool, logger: settings.logger},
	}
	if client.codecs, err = newCodecs(settings.codecs, settings.strictCodec, settings.schema, settings.maxPayload, settings.logger); err != nil {
		return nil, fmt.Errorf("new client: %w", err)
	}
	client.observer = Observers(settings.observers...)
	client.observe = newHintObservers(client.observer, settings.logger)
	if client.chain, err = client.newEnqueueChain(settings.enqueue); err != nil {
		return nil, fmt.Errorf("new client: %w", err)
	}
	client.awaits = newAwaits(client, &settings)
	client.hinting.Store(settings.hints)
	client.hints = newHinter(settings.hintWindow, settings.logger, func(ctx context.Context, queues []string) error {
		if !client.hinting.Load() {
			return nil // what was held back before they were turned off
		}
		err := store.Hint(ctx, pool, queues)
		client.observe.hintsTrailed(queues, err)
		return err
	})
	return client, nil
}

// Close sends the hints that were held back, ends the client's timer and every [Client.Await], and makes every later enqueue fail
// with [ErrClosed]. It does not stop workers and does not close the pool. A hint that cannot be sent is logged and not an
// error, because polling finds the jobs all the same; if ctx ends first, its error is returned and the client is closed
// nevertheless. Calling it again is allowed and does nothing more.
func (c *Client) Close(ctx context.Context) error {
	c.closed.Store(true)
	if err := errors.Join(c.awaits.close(ctx), c.hints.close(ctx)); err != nil {
		return fmt.Errorf("close client: %w", err)
	}
	return nil
}

// SetHints turns hints off and on again while the client is in use; [WithoutHints] says what they are, and that they may be done
// without. It is for when they do harm: NOTIFY takes a lock of the whole database during each commit, and when the server's queue of
// notifications is full, because some session listens inside an open transaction, every commit with a NOTIFY fails, those of
// the application that enqueue included. Without hints they succeed, and workers find the jobs when they poll.
//
// It holds for this client, at once, and for no transaction that has enqueued already. The functions pause, resume and retry of the
// schema hint always.
func (c *Client) SetHints(on bool) { c.hinting.Store(on) }
