//go:build citus

package citus

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/migrations"
	"github.com/pgqueue/pgqueue/pgqueue"
)

// patience is how long anything may take on a busy machine.
const patience = 2 * time.Minute

// cluster is a schema of its own on the cluster, distributed.
type cluster struct {
	testing.TB
	ctx    context.Context
	url    string
	schema string
	pool   *pgxpool.Pool // for anything
	strict *pgxpool.Pool // fails every statement that asks more than one shard
	client *pgqueue.Client
}

// connect makes the schema, which ends with the test.
func connect(t testing.TB) *cluster {
	t.Helper()
	url := os.Getenv("PGQUEUE_CITUS_URL")
	if url == "" {
		t.Fatal("PGQUEUE_CITUS_URL is not set: it names a database on the coordinator of a Citus cluster (scripts/citus-cluster.sh starts one)")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*patience)
	t.Cleanup(cancel)
	c := &cluster{TB: t, ctx: ctx, url: url, schema: fmt.Sprintf("citus_test_%08x", rand.Uint32())}
	c.pool = c.open(nil)
	c.strict = c.open(map[string]string{"citus.multi_task_query_log_level": "error"})
	c.drop() // also tells whether a schema can be dropped at all
	if err := migrations.Up(ctx, c.pool, c.schema, migrations.WithLogger(slog.New(slog.DiscardHandler))); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.drop)
	if _, benchmark := t.(*testing.B); !benchmark || c.hasCitus() {
		for range 2 { // the second time it changes nothing
			c.distribute()
		}
	}
	// Upkeep looks for old jobs and keys in all shards, and drains do upkeep.
	for _, function := range []string{"expire_attention(interval, int)", "expire_unique_keys(int)", "expire_progress(bigint, int)"} {
		c.exec("ALTER FUNCTION %s." + function + " SET citus.multi_task_query_log_level = 'off'")
	}
	c.client = c.newClient(c.strict, pgqueue.WithCitus())
	return c
}

func (c *cluster) open(settings map[string]string) *pgxpool.Pool {
	c.Helper()
	config, err := pgxpool.ParseConfig(c.url)
	if err != nil {
		c.Fatal(err)
	}
	config.MaxConns = 20
	for name, value := range settings {
		config.ConnConfig.RuntimeParams[name] = value
	}
	pool, err := pgxpool.NewWithConfig(c.ctx, config)
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(pool.Close)
	return pool
}

func (c *cluster) hasCitus() bool {
	return query[bool](c, "SELECT EXISTS (SELECT FROM pg_extension WHERE extname = 'citus')")
}

// distribute applies the file; few shards are enough to be told apart, and are made faster.
func (c *cluster) distribute() {
	c.Helper()
	text, err := migrations.CitusSQL(c.schema)
	if err != nil {
		c.Fatal(err)
	}
	err = pgx.BeginFunc(c.ctx, c.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(c.ctx, "SET LOCAL citus.shard_count = 8"); err != nil {
			return err
		}
		_, err := tx.Exec(c.ctx, text)
		return err
	})
	if err != nil {
		c.Fatal(err)
	}
}

func (c *cluster) drop() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := c.pool.Exec(ctx, "DROP SCHEMA IF EXISTS "+pgx.Identifier{c.schema}.Sanitize()+" CASCADE"); err != nil {
		c.Errorf("drop the schema: %v", err)
	}
}

func (c *cluster) newClient(pool *pgxpool.Pool, options ...pgqueue.ClientOption) *pgqueue.Client {
	c.Helper()
	options = append(options, pgqueue.WithSchema(c.schema), pgqueue.WithLogger(slog.New(&complaints{TB: c})))
	client, err := pgqueue.NewClient(pool, options...)
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() { _ = client.Close(context.Background()) })
	return client
}

// query reads one value; the schema's name stands for each %s.
func query[T any](c *cluster, sql string, args ...any) T {
	c.Helper()
	rows, err := c.pool.Query(c.ctx, c.sql(sql), args...)
	if err != nil {
		c.Fatal(err)
	}
	value, err := pgx.CollectOneRow(rows, pgx.RowTo[T])
	if err != nil {
		c.Fatalf("%s: %v", sql, err)
	}
	return value
}

func (c *cluster) exec(sql string, args ...any) {
	c.Helper()
	if _, err := c.pool.Exec(c.ctx, c.sql(sql), args...); err != nil {
		c.Fatalf("%s: %v", sql, err)
	}
}

func (c *cluster) sql(text string) string {
	return strings.ReplaceAll(text, "%s", pgx.Identifier{c.schema}.Sanitize())
}

// must returns the value of a call that may not fail.
func must[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// complaints is a log in which a statement that failed is a failure of the test, also where a worker goes on without it.
type complaints struct {
	testing.TB
	mu sync.Mutex
}

func (*complaints) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }
func (l *complaints) WithAttrs([]slog.Attr) slog.Handler             { return l }
func (l *complaints) WithGroup(string) slog.Handler                  { return l }

func (l *complaints) Handle(_ context.Context, record slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := record.Message
	record.Attrs(func(a slog.Attr) bool {
		text += fmt.Sprintf(" %s=%v", a.Key, a.Value)
		return true
	})
	if strings.Contains(text, "SQLSTATE") {
		l.Errorf("the log complains: %s", text)
	}
	return nil
}
