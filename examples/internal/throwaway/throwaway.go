// Package throwaway gives an example a database: the one that DATABASE_URL names, or a Postgres of its own that is gone
// when the example ends.
package throwaway

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/internal/pgserver"
)

// Database is where an example keeps its tables.
type Database struct {
	URL         string
	Description string // without the URL, which may hold a password
	server      *pgserver.Server
}

// Open takes DATABASE_URL, or starts a server that [Database.Close] ends.
func Open(ctx context.Context) (*Database, error) {
	if url := os.Getenv("DATABASE_URL"); url != "" {
		return &Database{URL: url, Description: "the one in DATABASE_URL"}, nil
	}
	server, err := pgserver.Start(ctx, pgserver.Options{})
	if err != nil {
		return nil, fmt.Errorf("start a Postgres: %w; a database of yours is set with DATABASE_URL", err)
	}
	return &Database{URL: server.URL("postgres"), Description: server.Binaries().Version + ", for this run only", server: server}, nil
}

// Close stops the server, if it is ours.
func (d *Database) Close() error {
	if d.server == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return d.server.Stop(ctx)
}

// Connect opens a pool of at most so many connections and makes sure that the database answers. Settings are server
// settings of each session, application_name among them.
func Connect(ctx context.Context, url string, connections int32, settings map[string]string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, errors.New("DATABASE_URL is not the URL of a database") // the parser's error may show a password
	}
	config.MaxConns = connections
	config.ConnConfig.ConnectTimeout = 10 * time.Second
	for name, value := range settings {
		config.ConnConfig.RuntimeParams[name] = value
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("connect to the database: %w", err)
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, fmt.Errorf("connect to the database: %w", err)
	}
	return pool, nil
}
