package pgqueuetest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgqueue/pgqueue/migrations"
)

// namePrefix begins the name of every database that this package makes.
const namePrefix = "pgqueuetest"

// source makes databases on one server. It is safe for concurrent use. It keeps no connection open, other than the one that
// claims its names.
type source struct {
	config  *pgx.ConnConfig // of the database that statements like CREATE DATABASE are sent from
	text    string          // the connection string that tests get, perhaps of a pooler
	direct  string          // the connection string of config
	mine    string          // the beginning of the names made here: prefix, database, process, random
	home    string          // the beginning of the names that all processes make which use the same database
	copying string          // how CREATE DATABASE copies: "" or " STRATEGY file_copy"
	counter atomic.Int64
	migrate func(ctx context.Context, conn *pgx.Conn, schema string) error
	passing bool      // the server goes with the test: nothing needs to be dropped
	claimed *pgx.Conn // says to other processes that this one lives

	mu        sync.Mutex
	templates map[string]*template // by schema
}

// newSource connects once, to learn what the server is.
func newSource(ctx context.Context, text string) (*source, error) {
	return newPooledSource(ctx, text, text)
}

// newPooledSource has tests go through the pooler of text, while databases are made directly.
func newPooledSource(ctx context.Context, text, direct string) (*source, error) {
	config, err := pgx.ParseConfig(direct)
	if err != nil {
		return nil, err
	}
	from := &source{config: config, text: text, direct: direct, templates: map[string]*template{}, migrate: migrateUp}
	var oid uint32
	var version int
	var fsync bool
	err = whenReady(ctx, startingUp, func() error {
		return from.do(ctx, func(conn *pgx.Conn) error {
			return conn.QueryRow(ctx, `SELECT oid, current_setting('server_version_num')::int, current_setting('fsync')::bool
				FROM pg_catalog.pg_database WHERE datname = current_database()`).Scan(&oid, &version, &fsync)
		})
	})
	if err != nil {
		return nil, err
	}
	// Copying files needs two checkpoints, which are cheap only where nothing is flushed. Elsewhere, and before version 15,
	// the server's own way is the better one.
	if version >= 150000 && !fsync {
		from.copying = " STRATEGY file_copy"
	}
	from.home = fmt.Sprintf("%s_%d_", namePrefix, oid)
	from.mine = fmt.Sprintf("%s%d%s_", from.home, os.Getpid(), strings.ToLower(rand.Text()[:8]))
	return from, nil
}

func migrateUp(ctx context.Context, conn *pgx.Conn, schema string) error {
	// What goes wrong comes back as an error; the rest is noise in somebody's test output.
	return migrations.Up(ctx, conn, schema, migrations.WithLogger(slog.New(slog.DiscardHandler)))
}

// do runs f on a connection to the source's own database.
func (s *source) do(ctx context.Context, f func(conn *pgx.Conn) error) error {
	return on(ctx, s.config.Copy(), f)
}

// on runs f on a new connection and closes it.
func on(ctx context.Context, config *pgx.ConnConfig, f func(conn *pgx.Conn) error) error {
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx)) // the server ends it otherwise
	return f(conn)
}

// name returns a new database name of this process.
func (s *source) name(kind string) string {
	return fmt.Sprintf("%s%s%d", s.mine, kind, s.counter.Add(1))
}

// urlOf returns the connection string of another database on the same server.
func urlOf(text, database string) string {
	if strings.HasPrefix(text, "postgres://") || strings.HasPrefix(text, "postgresql://") {
		if location, err := url.Parse(text); err == nil {
			location.Path = "/" + database
			// The parameters may name a database too, and would win.
			query := location.Query()
			query.Del("dbname")
			query.Del("database")
			location.RawQuery = query.Encode()
			return location.String()
		}
	}
	return text + " dbname=" + database // keywords and values: the last one counts
}

// create makes a database as the options say and returns its name. It waits for a server that is not there at the moment.
func (s *source) create(ctx context.Context, o options) (name string, err error) {
	err = whenReady(ctx, away, func() (err error) {
		name, err = s.createOnce(ctx, o)
		return err
	})
	return name, err
}

func (s *source) createOnce(ctx context.Context, o options) (string, error) {
	from := "template0" // never template1: copying that fails while anybody is connected to it
	if o.migrated {
		made, err := s.template(o.schema).get(ctx, s)
		if err != nil {
			return "", fmt.Errorf("making the template for schema %q: %w", o.schema, err)
		}
		from = made
	}
	name := s.name("t")
	if err := s.copy(ctx, name, from); err != nil {
		var fromServer *pgconn.PgError
		if errors.As(err, &fromServer) && fromServer.Code == "55006" { // object_in_use
			return "", fmt.Errorf("copying the template: nobody may be connected to %q meanwhile: %w: %s", from, err, fromServer.Detail)
		}
		return "", fmt.Errorf("copying the template: %w", err)
	}
	return name, nil
}

// copy makes the database name as a copy of another one, to which nobody may be connected.
func (s *source) copy(ctx context.Context, name, from string) error {
	return s.do(ctx, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "CREATE DATABASE "+quote(name)+" TEMPLATE "+quote(from)+s.copying)
		return err
	})
}

// drop drops a database whoever is connected to it.
func (s *source) drop(ctx context.Context, name string) error {
	if s.passing {
		return nil // the test may have halted the server
	}
	return s.do(ctx, func(conn *pgx.Conn) error { return drop(ctx, conn, name) })
}

func drop(ctx context.Context, conn *pgx.Conn, name string) error {
	// First nobody may come back: a client that reconnects between the end of its connection and the DROP makes it fail.
	if _, err := conn.Exec(ctx, "ALTER DATABASE "+quote(name)+" ALLOW_CONNECTIONS false"); err != nil {
		return err
	}
	_, err := conn.Exec(ctx, "DROP DATABASE "+quote(name)+" WITH (FORCE)")
	return err
}

func quote(name string) string { return pgx.Identifier{name}.Sanitize() }
