package migrations

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5"
)

// Database is what migrations are applied to: a *pgxpool.Pool or a *pgx.Conn. A pool needs one free connection; it gets it back in the
// state in which it was, for all settings end with the transaction. Neither is ever closed.
//
// It must be a Postgres, not a transaction: each step is a transaction of its own.
type Database interface {
	BeginTx(ctx context.Context, options pgx.TxOptions) (pgx.Tx, error)
}

// Option changes how Up and Down work.
type Option func(*migrator)

// WithLogger sets where waiting, repairs and applied versions are reported. Default: [slog.Default].
func WithLogger(logger *slog.Logger) Option {
	return func(m *migrator) {
		if logger != nil {
			m.logger = logger
		}
	}
}

// DiscardJobs lets Down delete live jobs. Without it Down refuses while there are any.
func DiscardJobs() Option {
	return func(m *migrator) { m.discardJobs = true }
}

// State says what is installed in a schema.
type State struct {
	// Version is the version of the schema; 0 = nothing is installed.
	Version uint
	// Latest is the version that this binary knows, see [Latest].
	Latest uint
	// Dirty is true after the golang-migrate command line was killed or failed in a step. Up and Down find out what is there and go on.
	Dirty bool
	// Exists is true if the version table exists.
	Exists bool
}

// Current says whether the schema has exactly the version that this binary knows.
func (s State) Current() bool {
	return s.Exists && !s.Dirty && s.Version == s.Latest
}

// Status reads what is installed in a schema ("" = [DefaultSchema]): the version that is written down, see [Validate] for what is really
// there. It changes nothing and takes no lock that anybody could notice.
func Status(ctx context.Context, db Database, schema string) (State, error) {
	m, err := newMigrator(db, schema, nil)
	if err != nil {
		return State{}, err
	}
	state, err := m.status(ctx)
	if err != nil {
		return State{}, fmt.Errorf("migrations: status of schema %q: %w", m.schema, err)
	}
	return state, nil
}

// Up brings a schema ("" = [DefaultSchema]) to version [Latest]. It makes the schema if it does not exist, which needs the right to
// create in the database; an existing schema needs that right for itself only. A schema that is up to date costs one query.
//
// Any number of processes may call it at once: one works, the others wait until it is done. An upgrade is one transaction a version, a
// first installation is one for all: after an error, a crash or the end of ctx it is applied or it is not. A step gives up its locks
// after half a second and tries again while ctx allows, so that nobody queues behind a migration that waits for a long transaction; give
// ctx a deadline.
//
// It trusts the version that is written down: [Validate] compares what is really there.
//
// Errors: [*SchemaError], [*NewerSchemaError], [*ConflictError] if an object of one of our names is there already, else the error of
// Postgres or of ctx, wrapped.
func Up(ctx context.Context, db Database, schema string, options ...Option) error {
	m, err := newMigrator(db, schema, options)
	if err != nil {
		return err
	}
	return m.up(ctx)
}

// Down removes everything that Up made in a schema ("" = [DefaultSchema]), history and version table included. The schema itself stays,
// because grants and objects of others may live in it; DROP SCHEMA removes an empty one. Where nothing is installed it does nothing. It is
// one transaction. What others put on our tables goes with them; [Validate] lists it before.
//
// It refuses with a [*JobsLeftError] while there are live jobs, unless [DiscardJobs] is given; with a [*ConflictError] if others
// have built upon our tables (views, foreign keys); and with a [*NewerSchemaError] if the schema is newer than this binary. Locks
// and waiting are as for Up: stop the workers first, or it may find no moment.
func Down(ctx context.Context, db Database, schema string, options ...Option) error {
	m, err := newMigrator(db, schema, options)
	if err != nil {
		return err
	}
	return m.down(ctx)
}

// newMigrator checks the arguments and fills in the defaults.
func newMigrator(db Database, schema string, options []Option) (*migrator, error) {
	if db == nil {
		return nil, errors.New("migrations: the database must not be nil")
	}
	schema, err := schemaOrDefault(schema)
	if err != nil {
		return nil, err
	}
	files, err := FS(schema)
	if err != nil {
		return nil, err
	}
	m := &migrator{db: db, schema: schema, files: files, latest: Latest, probe: probe, logger: slog.Default()}
	for _, option := range options {
		if option != nil {
			option(m)
		}
	}
	return m, nil
}
