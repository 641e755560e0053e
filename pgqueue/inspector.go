package pgqueue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/migrations"
	"github.com/pgqueue/pgqueue/pgqueue/internal/jobstore"
)

// Inspector is for people and their tools: it looks at jobs, queues and workers, and acts on them, one by one or all that
// match a [Filter]. The command line and the console are built on it. It needs no [Client], and runs no
// job.
//
// Every read is bounded: it takes its rows from an index, and looks at a fixed number of them whatever the tables hold. So
// it may be asked at ten million rows, and on a read-only standby. What that means for a list whose filter has no index is
// said at [Inspector.List].
//
// Reading needs the rights of a viewer, the single actions those of an operator, deletion more; see docs/roles.md and
// docs/inspector.md.
//
// An Inspector is safe for concurrent use, as far as what it runs on is. It has nothing to close. The zero value is not
// usable.
type Inspector struct {
	q      Querier
	store  *jobstore.Store
	client *Client // for what both can do: it has a store and nothing else
	logger *slog.Logger
	audit  AuditFunc
	actor  string
}

// InspectorConfig sets up an [Inspector]. The zero value is usable.
type InspectorConfig struct {
	// Schema is the schema with pgqueue's tables. The default, and the empty string, is [migrations.DefaultSchema].
	Schema string
	// Logger gets one line for each bulk action, with numbers and no payload. The default, and nil, is slog.Default().
	Logger *slog.Logger
	// Audit is told of every action before it is committed, and can refuse it. Nil: nobody is told. See [AuditFunc].
	Audit AuditFunc
	// Codecs are those of [WithCodec], so that what is stored encoded can be shown, and searched as far as it is not. Without
	// them, or without the key, such values are shown as such, see [JobStatus].Sealed.
	Codecs []Codec
	// Citus is for tables that Citus has distributed, see [WithCitus]. Without it, there, only Queues fails.
	Citus bool
}

// NewInspector makes an inspector that runs on q: a *pgxpool.Pool, a *pgx.Conn, or whatever else can query. It sends no SQL.
// What is wrong with its arguments is a [*ValidationError].
//
// For the bulk actions, and for single ones with an Audit or a condition, q must be able to begin a transaction.
func NewInspector(q Querier, config InspectorConfig) (*Inspector, error) {
	if err := runsOn(q); err != nil {
		return nil, fmt.Errorf("new inspector: %w", err)
	}
	if config.Schema == "" {
		config.Schema = migrations.DefaultSchema
	}
	if err := migrations.ValidateSchema(config.Schema); err != nil {
		return nil, fmt.Errorf("new inspector: %w", &ValidationError{Field: "schema", Message: "is no usable name: " + err.Error(), cause: err})
	}
	if config.Logger == nil {
		config.Logger = slog.Default()
	}
	store, err := jobstore.New(config.Schema, migrations.Channel(config.Schema))
	if err == nil && config.Citus {
		err = store.UseCitus()
	}
	if err != nil {
		return nil, fmt.Errorf("new inspector: %w", err)
	}
	codecs, err := newCodecs(config.Codecs, false, config.Schema, largestMaxPayload, config.Logger)
	if err != nil {
		return nil, fmt.Errorf("new inspector: %w", err)
	}
	return &Inspector{
		q: q, store: store, client: &Client{store: store, schema: config.Schema, logger: config.Logger, codecs: codecs}, logger: config.Logger, audit: config.Audit,
	}, nil
}

// On is the same inspector on something else: on a transaction of yours, so that a single action becomes true with its
// COMMIT, together with what you write there. Bulk actions refuse a transaction: each of their batches is one.
func (i *Inspector) On(q Querier) *Inspector {
	other := *i
	other.q = q
	return &other
}

// As is the same inspector in the name of actor, for the audit log: a user's name, say. It decides nothing. What Postgres cannot
// store as text, NUL and invalid UTF-8, becomes U+FFFD.
func (i *Inspector) As(actor string) *Inspector {
	other := *i
	other.actor = strings.ReplaceAll(strings.ToValidUTF8(actor, "\uFFFD"), "\x00", "\uFFFD")
	return &other
}

// txBeginner can begin a transaction of its own, as a pool and a connection do. A pgx.Tx cannot.
type txBeginner interface {
	BeginTx(ctx context.Context, options pgx.TxOptions) (pgx.Tx, error)
}

// inTx runs fn in a transaction: a new one in READ COMMITTED, whatever the role's default is, or a savepoint of the one that
// the inspector runs on. An error undoes what fn did, and no more.
func (i *Inspector) inTx(ctx context.Context, fn func(pgx.Tx) error) error {
	switch q := i.q.(type) {
	case txBeginner:
		tx, err := q.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
		if err != nil {
			return fmt.Errorf("begin: %w", err)
		}
		return endTx(ctx, tx, fn(tx))
	case pgx.Tx:
		tx, err := q.Begin(ctx)
		if err != nil {
			return fmt.Errorf("begin: %w", err)
		}
		return endTx(ctx, tx, fn(tx))
	default:
		return invalid("querier", "must be able to begin a transaction for this")
	}
}

// endTx commits tx, or rolls it back where there is an error.
func endTx(ctx context.Context, tx pgx.Tx, err error) error {
	if err != nil {
		_ = tx.Rollback(context.WithoutCancel(ctx))
		return err
	}
	if err := tx.Commit(ctx); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

// explained tells what a tool can say better than Postgres: that the tables of this version are not there.
func explained(err error) error {
	if errors.Is(err, ErrSchema) {
		return err
	}
	switch postgresCode(err) {
	case "42P01", "42883", "42703", "3F000": // no such table, function, column, schema
		return fmt.Errorf("%w: %w", ErrSchema, err)
	}
	return err
}

// postgresCode is the SQLSTATE of err, or "".
func postgresCode(err error) string {
	code, _ := serverError(err)
	return code
}
