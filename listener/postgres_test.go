package listener_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/internal/pgproxy"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// database is an empty Postgres database for one test, with a pool to send from and to look with.
type database struct {
	t    *testing.T
	url  string
	pool *pgxpool.Pool
}

func newDatabase(t *testing.T) *database {
	t.Helper()
	db := pgqueuetest.New(t, pgqueuetest.WithoutMigrations())
	return &database{t: t, url: db.URL, pool: db.Pool}
}

// connect opens a connection as a listener should be given one.
func (db *database) connect(ctx context.Context) (*pgx.Conn, error) { return pgx.Connect(ctx, db.url) }

// via opens connections through a proxy.
func (db *database) via(proxy *pgproxy.Proxy) func(ctx context.Context) (*pgx.Conn, error) {
	return func(ctx context.Context) (*pgx.Conn, error) {
		config, err := pgx.ParseConfig(db.url)
		if err != nil {
			return nil, err
		}
		config.Host, config.Port, config.TLSConfig, config.Fallbacks = proxy.Host(), proxy.Port(), nil, nil
		return pgx.ConnectConfig(ctx, config)
	}
}

// proxy starts a proxy in front of the server.
func (db *database) proxy() *pgproxy.Proxy {
	db.t.Helper()
	config := db.pool.Config().ConnConfig
	proxy, err := pgproxy.Start(pgconn.NetworkAddress(config.Host, config.Port))
	if err != nil {
		db.t.Fatal(err)
	}
	db.t.Cleanup(proxy.Close)
	return proxy
}

// send is a Config.Send over the pool.
func (db *database) send(ctx context.Context, channel, payload string) error {
	_, err := db.pool.Exec(ctx, "SELECT pg_notify($1, $2)", channel, payload)
	return err
}

func (db *database) notify(channel, payload string) {
	db.t.Helper()
	if err := db.send(context.Background(), channel, payload); err != nil {
		db.t.Fatal(err)
	}
}

func (db *database) exec(sql string, args ...any) {
	db.t.Helper()
	if _, err := db.pool.Exec(context.Background(), sql, args...); err != nil {
		db.t.Fatal(err)
	}
}

// listeners are the backends of this database whose last statement was a LISTEN, oldest first.
func (db *database) listeners() []int32 {
	db.t.Helper()
	rows, err := db.pool.Query(context.Background(), `SELECT pid FROM pg_catalog.pg_stat_activity
		WHERE datname = pg_catalog.current_database() AND query ILIKE 'listen %' ORDER BY backend_start`)
	if err != nil {
		db.t.Fatal(err)
	}
	pids, err := pgx.CollectRows(rows, pgx.RowTo[int32])
	if err != nil {
		db.t.Fatal(err)
	}
	return pids
}

// until asks the server again and again until holds says yes: for what nothing but SQL can tell.
func (db *database) until(what string, holds func() bool) {
	db.t.Helper()
	deadline := time.Now().Add(patience)
	for !holds() {
		if time.Now().After(deadline) {
			db.t.Fatalf("not within %s: %s", patience, what)
		}
		db.exec("SELECT pg_catalog.pg_sleep(0.02)")
	}
}
