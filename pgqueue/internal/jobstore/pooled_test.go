package jobstore_test

import (
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// pooled says that the databases of this run are behind a pooler in transaction mode (make test-poolers).
func pooled() bool { return os.Getenv(pgqueuetest.EnvDirectURL) != "" }

// everyMode are the modes of pgx: all of them, or through a pooler those that it can do.
func everyMode(tb testing.TB) []pgx.QueryExecMode {
	tb.Helper()
	modes := []pgx.QueryExecMode{pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol}
	if !pooled() {
		return append(modes, pgx.QueryExecModeCacheStatement, pgx.QueryExecModeDescribeExec)
	}
	if must(pgx.ParseConfig(os.Getenv(pgqueuetest.EnvDatabaseURL)))(tb).DefaultQueryExecMode == pgx.QueryExecModeCacheStatement {
		modes = append(modes, pgx.QueryExecModeCacheStatement)
	}
	return modes
}

// settingsDirectly makes the settings that a pool's connections would be started with, and which a pooler refuses, those of the
// database, before the pooler has a session in it.
func settingsDirectly(f *fixture, db *pgqueuetest.DB, config *pgxpool.Config) {
	f.Helper()
	if !pooled() {
		return
	}
	conn := must(pgx.Connect(f.ctx, db.DirectURL))(f)
	defer conn.Close(f.ctx)
	for name, value := range config.ConnConfig.RuntimeParams {
		delete(config.ConnConfig.RuntimeParams, name)
		must(conn.Exec(f.ctx, "ALTER DATABASE "+pgx.Identifier{config.ConnConfig.Database}.Sanitize()+
			" SET "+pgx.Identifier{name}.Sanitize()+" = '"+strings.ReplaceAll(value, "'", "''")+"'"))(f)
	}
}
