package pgqueuetest

import (
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/migrations"
)

// EnvDatabaseURL is the environment variable that names the server to use, by the URL of any database on it.
const EnvDatabaseURL = "PGQUEUE_TEST_DATABASE_URL"

// EnvDirectURL is the environment variable that names the same server without the pooler in between, where [EnvDatabaseURL] goes
// through one: databases are made and dropped there, and [DB].DirectURL leads there.
const EnvDirectURL = "PGQUEUE_TEST_DIRECT_URL"

// Option changes what New makes.
type Option func(*options)

type options struct {
	schema     string
	migrated   bool
	poolConfig []func(*pgxpool.Config)
}

func newOptions(opts []Option) options {
	o := options{schema: migrations.DefaultSchema, migrated: true}
	for _, opt := range opts {
		opt(&o)
	}
	return o
}

// WithSchema installs pgqueue's tables in the schema of this name, which may be one that needs quoting. The default is
// "pgqueue".
func WithSchema(name string) Option {
	return func(o *options) { o.schema = name }
}

// WithoutMigrations leaves the database empty, for tests that migrate by themselves.
func WithoutMigrations() Option {
	return func(o *options) { o.migrated = false }
}

// WithPoolConfig lets change the pool's configuration before the pool is made, for example its size (10 by default) or
// its tracer. Given more than once, the changes are made in order.
func WithPoolConfig(change func(*pgxpool.Config)) Option {
	return func(o *options) { o.poolConfig = append(o.poolConfig, change) }
}
