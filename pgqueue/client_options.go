package pgqueue

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/migrations"
)

// Defaults of a client, and the bounds of what may be set.
const (
	DefaultMaxPayload = 1 << 20                // bytes
	DefaultHintWindow = 250 * time.Millisecond // the listener's window, too

	// A jsonb value may have 256 MiB; JSON of short numbers grows sixfold on its way there.
	largestMaxPayload = 32 << 20
	minHintWindow     = 10 * time.Millisecond
	maxHintWindow     = time.Minute
)

// ClientOption sets something of a [Client]; see [NewClient].
type ClientOption func(*clientSettings)

type clientSettings struct {
	schema     string
	logger     *slog.Logger
	maxPayload int
	hints      bool
	hintWindow time.Duration
	enqueue    []func(EnqueueFunc) EnqueueFunc
	observers  []any
	citus      bool
	awaitDeaf  bool
	awaitPoll  time.Duration // between two looks at most, for tests; zero: lastAwaitPoll
	awaitConn  func(context.Context) (*pgx.Conn, error)

	codecs      []Codec
	strictCodec bool
}

// WithSchema names the schema with pgqueue's tables. Any name that Postgres takes works. The default is
// [migrations.DefaultSchema]; the empty string means the default.
func WithSchema(schema string) ClientOption {
	return func(s *clientSettings) { s.schema = schema }
}

// WithLogger sets where the client, and its workers unless they say otherwise, log to. The default, and nil, is
// slog.Default().
func WithLogger(logger *slog.Logger) ClientOption {
	return func(s *clientSettings) { s.logger = logger }
}

// WithMaxPayload bounds the size of a payload, and of metadata, in bytes of JSON; a number with an exponent counts as
// long as Postgres writes it, without. The default is [DefaultMaxPayload], 1 MiB; at most 32 MiB. Zero means the
// default. Large data is better kept in a table of its own, with its id in the payload.
func WithMaxPayload(bytes int) ClientOption {
	return func(s *clientSettings) { s.maxPayload = bytes }
}

// WithoutHints makes the client send no NOTIFY: workers find its jobs when they poll, within a second by default. For
// transactions that PREPARE TRANSACTION ends, which Postgres refuses after a NOTIFY, and for very many small producers:
// each NOTIFY takes a lock of the whole database during its commit, and the limit of [WithHintWindow] holds per client,
// so a thousand processes that enqueue once a second each are not slowed down by it. [Client.SetHints] does the same at run time.
func WithoutHints() ClientOption {
	return func(s *clientSettings) { s.hints = false }
}

// WithCitus is for tables that Citus has distributed by queue (docs/scaling.md): statements are sent in forms that it can plan. They do
// the same on one Postgres, where those about several queues become one for each. Without it, on Citus, an enqueue of one
// job fails with SQLSTATE 0A000, and idle workers cannot look for due jobs.
func WithCitus() ClientOption {
	return func(s *clientSettings) { s.citus = true }
}

// WithoutAwaitListener has [Client.Await] ask the database and open no connection to listen on: where the pool goes through a pooler
// in transaction mode, which forwards no messages, or where connections are dear. An Await then returns within a second of the job's end
// instead of milliseconds.
func WithoutAwaitListener() ClientOption {
	return func(s *clientSettings) { s.awaitDeaf = true }
}

// WithAwaitConn sets how [Client.Await] makes the one connection on which it listens, as [WorkerConfig].ListenerConn does for a worker:
// past a pooler, say. The default is a new connection with the settings of the client's pool.
func WithAwaitConn(connect func(ctx context.Context) (*pgx.Conn, error)) ClientOption {
	return func(s *clientSettings) { s.awaitConn = connect }
}

// WithHintWindow sets how often the client hints that a queue has work: in the long run once per queue and window, after
// a burst of twenty. What is held back is announced at the end of the window, and once more a window later, in a
// transaction of the client's own. The default is [DefaultHintWindow], 250 ms; from 10 ms to 1 min. Zero means the
// default.
func WithHintWindow(window time.Duration) ClientOption {
	return func(s *clientSettings) { s.hintWindow = window }
}

// WithObserver sets who is told what happens: it may implement any of the observer interfaces of this package, and those of
// runner, listener and reaper for the workers of this client that have no [WorkerConfig].Observer of their own. Given several
// times, all of them are told.
func WithObserver(observer any) ClientOption {
	return func(s *clientSettings) { s.observers = append(s.observers, observer) }
}

// newClientSettings applies the options to the defaults and checks the result.
func newClientSettings(options []ClientOption) (clientSettings, error) {
	s := clientSettings{hints: true}
	for _, option := range options {
		if option != nil {
			option(&s)
		}
	}
	if s.schema == "" {
		s.schema = migrations.DefaultSchema
	}
	if s.logger == nil {
		s.logger = slog.Default()
	}
	if s.maxPayload == 0 {
		s.maxPayload = DefaultMaxPayload
	}
	if s.hintWindow == 0 {
		s.hintWindow = DefaultHintWindow
	}
	if err := migrations.ValidateSchema(s.schema); err != nil {
		return s, &ValidationError{Field: "schema", Message: "is no usable name: " + err.Error(), cause: err}
	}
	if s.maxPayload < 2 || s.maxPayload > largestMaxPayload {
		return s, invalid("max_payload", fmt.Sprintf("must be from 2 to %d bytes, is %d", largestMaxPayload, s.maxPayload))
	}
	if s.hintWindow < minHintWindow || s.hintWindow > maxHintWindow {
		return s, invalid("hint_window", fmt.Sprintf("must be from %s to %s, is %s", minHintWindow, maxHintWindow, s.hintWindow))
	}
	return s, nil
}
