package main

import (
	"cmp"
	"context"
	"fmt"
	neturl "net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/internal/pgserver"
)

// poolSize is the same for every engine.
const poolSize = 10

// server is the Postgres that is measured.
type server struct {
	url   string
	close func()
	next  atomic.Int64 // numbers the databases
}

// openServer takes the server at DATABASE_URL, or starts one that keeps every promise of durability: fsync,
// synchronous_commit and full_page_writes are on.
func openServer(ctx context.Context) (*server, error) {
	if url := os.Getenv("DATABASE_URL"); url != "" {
		return &server{url: url, close: func() {}}, nil
	}
	started, err := pgserver.Start(ctx, pgserver.Options{
		BinDir: ownBinaries(), Fsync: true, MaxConnections: 700,
		Settings: map[string]string{
			"shared_buffers": "1GB", "max_wal_size": "8GB", "checkpoint_timeout": "30min",
			"log_min_messages": "fatal",
		},
		WALSegmentMB: 16,
	})
	if err != nil {
		return nil, err
	}
	return &server{url: started.URL("postgres"), close: func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		_ = started.StopImmediate(ctx) // its directory is thrown away
	}}, nil
}

// ownBinaries is the copy of Debian's server with PgQ that scripts/setup-bench.sh makes, unless the environment asks for another; empty
// means any.
func ownBinaries() string {
	copied := filepath.Join("..", ".cache", "bench-postgres", "usr", "lib", "postgresql", "15", "bin")
	if os.Getenv("PGQUEUE_POSTGRES_BIN") != "" || os.Getenv("PGQUEUE_POSTGRES_VERSION") != "" {
		return ""
	}
	if _, err := os.Stat(filepath.Join(copied, "postgres")); err != nil {
		return ""
	}
	absolute, err := filepath.Abs(copied)
	if err != nil {
		return ""
	}
	return absolute
}

// database is an empty database for one measurement, so that none inherits another's dead rows.
type database struct {
	url  string
	pool *pgxpool.Pool
	size int // of the pool
	drop func()
}

// wiring is how a measurement is connected.
type wiring struct {
	pool   int             // connections; 0 means poolSize
	tracer pgx.QueryTracer // of every statement that this process sends; nil means none
}

func (s *server) database(ctx context.Context, wiring wiring) (*database, error) {
	name := fmt.Sprintf("pgqueue_bench_%d_%d", os.Getpid(), s.next.Add(1))
	if err := s.admin(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize()); err != nil {
		return nil, err
	}
	drop := func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := s.admin(ctx, "DROP DATABASE "+pgx.Identifier{name}.Sanitize()+" WITH (FORCE)"); err != nil {
			fmt.Fprintln(os.Stderr, "bench: drop", name+":", err)
		}
	}
	url, err := withDatabase(s.url, name)
	if err != nil {
		drop()
		return nil, err
	}
	db, err := connect(ctx, url, wiring)
	if err != nil {
		drop()
		return nil, err
	}
	db.drop = func() { db.pool.Close(); drop() }
	return db, nil
}

// connect opens a pool of its own to the database at url.
func connect(ctx context.Context, url string, wiring wiring) (*database, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	size := cmp.Or(wiring.pool, poolSize)
	config.MaxConns = int32(size)
	config.ConnConfig.Tracer = wiring.tracer
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	return &database{url: url, pool: pool, size: size, drop: pool.Close}, nil
}

// withDatabase names another database in a URL or a list of keywords and values.
func withDatabase(url, name string) (string, error) {
	if !strings.Contains(url, "://") {
		return url + " dbname=" + name, nil // the last one counts
	}
	parsed, err := neturl.Parse(url)
	if err != nil {
		return "", err
	}
	parsed.Path = "/" + name
	return parsed.String(), nil
}

// warm opens all connections of the pool, so that none is opened while something is timed.
func (d *database) warm(ctx context.Context) error {
	var held []*pgxpool.Conn
	defer func() {
		for _, conn := range held {
			conn.Release()
		}
	}()
	for range d.size {
		conn, err := d.pool.Acquire(ctx)
		if err != nil {
			return err
		}
		held = append(held, conn)
	}
	return nil
}

// exec runs a statement that has no result.
func (d *database) exec(ctx context.Context, sql string) error {
	_, err := d.pool.Exec(ctx, sql)
	return err
}

// settings are those of the server that decide about durability and speed, for the report.
func (s *server) settings(ctx context.Context) (string, error) {
	conn, err := pgx.Connect(ctx, s.url)
	if err != nil {
		return "", err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var text string
	err = conn.QueryRow(ctx, `SELECT 'PostgreSQL ' || current_setting('server_version') || ', ' || string_agg(name || '=' ||
		current_setting(name), ' ' ORDER BY name) FROM pg_settings WHERE name IN ('fsync', 'synchronous_commit',
		'full_page_writes', 'shared_buffers', 'max_wal_size')`).Scan(&text)
	return text, err
}

func (s *server) admin(ctx context.Context, sql string) error {
	conn, err := pgx.Connect(ctx, s.url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = conn.Exec(ctx, sql)
	return err
}
