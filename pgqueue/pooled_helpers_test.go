package pgqueue_test

import (
	"cmp"
	"context"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// The whole suite also runs through a pooler in transaction mode (make test-poolers): pgqueuetest's databases are behind it then, and
// what needs a session of its own, such as LISTEN, has to go past it.

// pooled says that the databases of this run are behind a pooler.
func pooled() bool { return os.Getenv(pgqueuetest.EnvDirectURL) != "" }

// directly turns a configuration that leads to the pooler into one that leads past it. Any other stays as it is, such as that of a
// server of the test's own, or of a proxy.
func directly(t testing.TB, config *pgx.ConnConfig) *pgx.ConnConfig {
	t.Helper()
	config = config.Copy()
	if !pooled() {
		return config
	}
	parse := func(name string) *pgx.ConnConfig {
		parsed, err := pgx.ParseConfig(os.Getenv(name))
		if err != nil {
			t.Fatal(err)
		}
		return parsed
	}
	pooler, server := parse(pgqueuetest.EnvDatabaseURL), parse(pgqueuetest.EnvDirectURL)
	if config.Host == pooler.Host && config.Port == pooler.Port {
		config.Host, config.Port, config.Fallbacks = server.Host, server.Port, nil
	}
	return config
}

// everyMode are the modes of pgx: all of them, or through a pooler those that it can do; TestPoolerWrongModeIsNamedAtTheStart has the others.
func everyMode(t testing.TB) []pgx.QueryExecMode {
	t.Helper()
	modes := []pgx.QueryExecMode{pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol}
	if !pooled() {
		return append(modes, pgx.QueryExecModeCacheStatement, pgx.QueryExecModeDescribeExec)
	}
	config, err := pgx.ParseConfig(os.Getenv(pgqueuetest.EnvDatabaseURL))
	if err != nil {
		t.Fatal(err)
	}
	if config.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement {
		modes = append(modes, pgx.QueryExecModeCacheStatement)
	}
	return modes
}

// listenDirectly gives a worker's listener a connection past the pooler, as docs/poolers.md has it, unless the test gave it one.
func listenDirectly(t testing.TB, client *pgqueue.Client, config *pgqueue.WorkerConfig) {
	t.Helper()
	if !pooled() || config.ListenerConn != nil {
		return
	}
	given := cmp.Or(config.Pool, client.Pool()).Config().ConnConfig
	direct := directly(t, given)
	if direct.Host == given.Host && direct.Port == given.Port {
		return // past it already
	}
	config.ListenerConn = func(ctx context.Context) (*pgx.Conn, error) { return pgx.ConnectConfig(ctx, direct.Copy()) }
}
