package pgqueue_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// A mode of pgx that prepares statements is refused at the start, behind a pooler that gives each transaction another session: also to a
// pool of one connection, for which it would go well most of the time. Integration tests do the same with PgBouncer.
func TestC14_AWrongModeBehindAPoolerIsNamed(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeDescribeExec} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			db := pgqueuetest.New(t)
			_, pool := throughPooler(t, db.Pool, func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode, c.MaxConns = mode, 1 })
			client := quietClient(t, pool)
			config := pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {Workers: 1}}, DisableListener: true}
			mux := pgqueue.NewMux()
			pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[task]) error { return nil })
			worker, err := client.NewWorker(mux, config)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(testContext(t), patience)
			defer cancel()
			run := worker.Run(ctx)
			_, drain := client.Drain(ctx, mux, config)
			for name, err := range map[string]error{"Run": run, "Drain": drain} {
				if !errors.Is(err, pgqueue.ErrPooler) || !strings.Contains(err.Error(), "default_query_exec_mode=exec") {
					t.Errorf("%s: %v, want one that names the pooler and the mode to use", name, err)
				}
			}
		})
	}
}

// What Postgres and poolers say is no help; what is added to it names the cause. It stays in the error, and other errors stay as they are.
func TestC14_WhatAPoolerSaysIsExplained(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ code, message, want string }{
		{"26000", `prepared statement "stmtcache_1" does not exist`, "default_query_exec_mode=exec"},
		{"42P05", `prepared statement "stmtcache_1" already exists`, "default_query_exec_mode=exec"},
		{"08P01", `bind message supplies 8 parameters, but prepared statement "" requires 2`, "default_query_exec_mode=exec"},
		{"08P01", "unsupported startup parameter: statement_timeout", "ALTER ROLE"},
		{"08P01", "unsupported startup parameter in options: work_mem", "ignore_startup_parameters"},
		{"08P01", "transaction blocks not allowed in statement pooling mode", "pool_mode=statement"},
		{"08P01", "query_wait_timeout", ""},
		{"08P01", "invalid message format", ""},
		{"23505", "duplicate key", ""},
	} {
		cause := &pgconn.PgError{Code: c.code, Message: c.message}
		err := pgqueue.PoolerError(fmt.Errorf("what was done: %w", cause))
		if errors.Is(err, pgqueue.ErrPooler) != (c.want != "") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s: %v", c.code, c.message, err)
		}
		var kept *pgconn.PgError
		if !errors.As(err, &kept) || kept != cause {
			t.Errorf("%s: Postgres's error is gone from %v", c.code, err)
		}
		if again := pgqueue.PoolerError(err); again.Error() != err.Error() {
			t.Errorf("explained twice: %v", again)
		}
	}
	if err := pgqueue.PoolerError(context.Canceled); err != context.Canceled {
		t.Errorf("error %v", err)
	}
}
