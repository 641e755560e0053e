package pgqueuetest

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// setupTimeout bounds one call of New, which may include the download of a server.
const setupTimeout = 5 * time.Minute

// cleanupTimeout bounds each step of a clean-up.
const cleanupTimeout = 30 * time.Second

// poolSize is the pool's default MaxConns: enough for a worker beside the test, small enough for many tests at once.
const poolSize = 10

// DB is a database that belongs to one test. It may be used by several goroutines.
type DB struct {
	// Pool is connected to the database. It is closed when the test ends; closing it earlier is allowed. Its application_name
	// is the test's name.
	Pool *pgxpool.Pool
	// URL is the connection string, for connections and processes of the test's own. Those still open at the end of the test
	// are ended by the server.
	URL string
	// DirectURL is the same, past the pooler where URL goes through one; see [EnvDirectURL]. A listener needs it.
	DirectURL string
	// Schema is the schema that pgqueue's tables are in.
	Schema string
}

// New gives the test a migrated database of its own, and drops it when the test ends. It must be called from the test's own
// goroutine, since it ends the test when there is no server or the database cannot be made. Parallel tests may call it.
func New(t testing.TB, opts ...Option) *DB {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), setupTimeout)
	defer cancel()
	from, err := sharedSource()
	if err != nil {
		t.Fatalf("pgqueuetest: %v", err)
	}
	return newDB(ctx, t, from, newOptions(opts))
}

// newDB makes a database on the source's server and hands it to the test.
func newDB(ctx context.Context, t testing.TB, from *source, o options) *DB {
	t.Helper()
	name, err := from.create(ctx, o)
	if err != nil {
		t.Fatalf("pgqueuetest: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), cleanupTimeout)
		defer cancel()
		if err := from.drop(ctx, name); err != nil {
			t.Logf("pgqueuetest: the database stays: %v", err)
		}
	})

	db := &DB{URL: urlOf(from.text, name), DirectURL: urlOf(from.direct, name), Schema: o.schema}
	config, err := pgxpool.ParseConfig(db.URL)
	if err != nil {
		t.Fatalf("pgqueuetest: %v", err)
	}
	config.MaxConns = poolSize
	config.ConnConfig.RuntimeParams["application_name"] = truncate(t.Name(), 63)
	for _, change := range o.poolConfig {
		change(config)
	}
	db.Pool, err = pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatalf("pgqueuetest: %v", err)
	}
	t.Cleanup(func() { closePool(t, db.Pool) })
	return db
}

// poolPatience is how long closePool waits for connections that somebody still holds.
const poolPatience = 2 * time.Second

// closePool closes the pool, but does not wait for ever for a connection that the test never gave back: the database is
// dropped under it.
func closePool(t testing.TB, pool *pgxpool.Pool) {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		pool.Close()
	}()
	patience := time.NewTimer(poolPatience)
	defer patience.Stop()
	select {
	case <-closed:
	case <-patience.C:
		t.Logf("pgqueuetest: %d connections of the pool were never released", pool.Stat().AcquiredConns())
	}
}

// truncate cuts text to at most n bytes without cutting a character.
func truncate(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && text[n]&0xC0 == 0x80 { // inside a character of UTF-8
		n--
	}
	return text[:n]
}
