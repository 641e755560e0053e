package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/internal/pgserver"
	"github.com/pgqueue/pgqueue/migrations"
)

//go:embed schema.sql
var schemaSQL string

// database is where the demo keeps its index: the one that DATABASE_URL names, or one of our own.
type database struct {
	url         string
	description string
	server      *pgserver.Server // nil when DATABASE_URL names one
}

// connectTimeout bounds the first contact with the database.
const connectTimeout = 10 * time.Second

// openDatabase starts the demo's own Postgres, or takes DATABASE_URL. close ends what it has started.
func openDatabase(ctx context.Context, opts options) (*database, error) {
	if opts.databaseURL != "" {
		return &database{url: opts.databaseURL, description: "the one in DATABASE_URL"}, nil
	}
	dir, err := opts.clusterDir()
	if err != nil {
		return nil, err
	}
	// Fsync, unlike in tests: what the demo measures should be what a real database does.
	server, err := pgserver.Start(ctx, pgserver.Options{DataDir: dir, Fsync: true})
	if err != nil {
		return nil, fmt.Errorf("start a Postgres in %s: %w; another folder is set with -data, a database of yours with DATABASE_URL", dir, err)
	}
	return &database{url: server.URL("postgres"), description: server.Binaries().Version + " in " + dir, server: server}, nil
}

// clusterDir is where the demo's own Postgres stays between runs.
func (o options) clusterDir() (string, error) {
	if o.dataDir != "" {
		return filepath.Abs(o.dataDir)
	}
	working, err := os.Getwd()
	if err != nil {
		return "", err
	}
	root, err := repositoryRoot(working)
	if err != nil {
		return "", err
	}
	return filepath.Join(root, ".demo"), nil
}

// close stops the server, if it is ours. Its data stays.
func (d *database) close() error {
	if d.server == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return d.server.Stop(ctx)
}

// psql is the command to look at the database with.
func (d *database) psql() string {
	if d.server == nil {
		return `psql "$DATABASE_URL"` // not the URL itself, which may hold a password
	}
	return "psql '" + d.url + "'"
}

// connect opens a pool and makes sure that the database answers.
func connect(ctx context.Context, url, application string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("read DATABASE_URL: %w", err)
	}
	config.ConnConfig.RuntimeParams["application_name"] = application
	config.ConnConfig.ConnectTimeout = connectTimeout
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("connect to the database: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, fmt.Errorf("connect to the database: %w", err)
	}
	return pool, nil
}

// errBusy means that another run of the demo uses the database.
var errBusy = errors.New("another run of the demo uses this database")

// claimDatabase makes this the only run of the demo in the database until release is called or the process ends.
func claimDatabase(ctx context.Context, pool *pgxpool.Pool) (release func(), err error) {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("claim the database: %w", err)
	}
	var got bool
	err = conn.QueryRow(ctx, `SELECT pg_try_advisory_lock(hashtextextended('pgqueue demo indexer', 0))`).Scan(&got)
	if err == nil && !got {
		err = errBusy
	}
	if err != nil {
		conn.Release()
		return nil, fmt.Errorf("claim the database: %w", err)
	}
	return func() {
		_ = conn.Hijack().Close(context.WithoutCancel(ctx)) // the lock ends with its session
	}, nil
}

// migrate makes pgqueue's tables and the demo's own.
func migrate(ctx context.Context, pool *pgxpool.Pool, logger *slog.Logger) error {
	if err := migrations.Up(ctx, pool, "", migrations.WithLogger(logger)); err != nil {
		return err
	}
	if _, err := pool.Exec(ctx, schemaSQL); err != nil {
		return fmt.Errorf("make the demo's tables: %w", err)
	}
	return nil
}

// serve runs the demo's own Postgres until ctx ends, for a look around.
func serve(ctx context.Context, opts options, out io.Writer) (err error) {
	db, err := openDatabase(ctx, opts)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.close()) }()
	if db.server != nil {
		if err := db.prepare(ctx); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "The demo's database, %s:\n\n    %s\n\nThree queries to try there:\n%s", db.description, db.psql(), suggestions())
	if db.server == nil {
		return nil
	}
	fmt.Fprintln(out, "\nCtrl-C stops it.")
	select {
	case <-ctx.Done():
		return nil
	case <-db.server.Done():
		return errors.New("the server ended by itself; its log is " + db.server.LogFile())
	}
}

// prepare makes the tables where the demo has not run yet, so that the queries find them, if empty.
func (d *database) prepare(ctx context.Context) error {
	pool, err := connect(ctx, d.url, "indexer")
	if err != nil {
		return err
	}
	defer pool.Close()
	return migrate(ctx, pool, slog.New(slog.DiscardHandler))
}
