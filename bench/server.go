package main

import (
	"context"
	"fmt"
	"os"
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
	next  int // numbers the databases
}

// openServer takes the server at DATABASE_URL, or starts one that keeps every promise of durability: fsync,
// synchronous_commit and full_page_writes are on.
func openServer(ctx context.Context) (*server, error) {
	if url := os.Getenv("DATABASE_URL"); url != "" {
		return &server{url: url, close: func() {}}, nil
	}
	started, err := pgserver.Start(ctx, pgserver.Options{
		Fsync: true,
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

// database makes an empty database for one measurement, so that none inherits another's dead rows.
func (s *server) database(ctx context.Context) (*pgxpool.Pool, func(), error) {
	s.next++
	name := fmt.Sprintf("pgqueue_bench_%d_%d", os.Getpid(), s.next)
	if err := s.admin(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize()); err != nil {
		return nil, nil, err
	}
	drop := func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := s.admin(ctx, "DROP DATABASE "+pgx.Identifier{name}.Sanitize()+" WITH (FORCE)"); err != nil {
			fmt.Fprintln(os.Stderr, "bench: drop", name+":", err)
		}
	}
	config, err := pgxpool.ParseConfig(s.url)
	if err != nil {
		drop()
		return nil, nil, err
	}
	config.ConnConfig.Database = name
	config.MaxConns = poolSize
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		drop()
		return nil, nil, err
	}
	return pool, func() { pool.Close(); drop() }, nil
}

// with calls measure with a system of engine in a database of its own.
func (s *server) with(ctx context.Context, engine engine, measure func(*pgxpool.Pool, system) error) error {
	pool, drop, err := s.database(ctx)
	if err != nil {
		return err
	}
	defer drop()
	system, err := engine.open(ctx, pool)
	if err != nil {
		return fmt.Errorf("set up %s: %w", engine, err)
	}
	defer system.close(context.WithoutCancel(ctx))
	if err := measure(pool, system); err != nil {
		return fmt.Errorf("%s: %w", engine, err)
	}
	return nil
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
