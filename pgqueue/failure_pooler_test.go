package pgqueue_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/migrations"
	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
	"github.com/pgqueue/pgqueue/runner"
)

// sessionless are the modes of pgx for connections whose session is somebody else's a moment later.
var sessionless = [...]pgx.QueryExecMode{pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeCacheDescribe}

// Nothing depends on a session: not on prepared statements, settings, advisory locks, nor on what a connection was started
// with.
func TestC14_BehindATransactionPooler(t *testing.T) {
	t.Parallel()
	for _, mode := range sessionless {
		t.Run("another session for each transaction, "+mode.String(), func(t *testing.T) {
			t.Parallel()
			db := pgqueuetest.New(t, pgqueuetest.WithoutMigrations())
			noted := &refusals{}
			pooler, pool := throughPooler(t, db.Pool, func(c *pgxpool.Config) {
				c.ConnConfig.DefaultQueryExecMode, c.ConnConfig.Tracer = mode, noted
			})
			if a, b := one[int](t, pool, "SELECT pg_backend_pid()"), one[int](t, pool, "SELECT pg_backend_pid()"); a == b {
				t.Fatal("two statements had one session: this pooler proves nothing")
			}
			withoutSessions(t, db, pool)
			if codes := noted.seen(); len(codes) != 0 {
				t.Errorf("statements were refused: %v", codes)
			}
			for name := range pooler.sent() {
				if name != "user" && name != "database" && name != "application_name" {
					t.Errorf("a connection was started with %s, which a pooler refuses", name)
				}
			}
		})
		t.Run("DISCARD ALL, "+mode.String(), func(t *testing.T) {
			t.Parallel()
			db := pgqueuetest.New(t, pgqueuetest.WithoutMigrations())
			noted := &refusals{}
			pool := poolLike(t, db.Pool, func(c *pgxpool.Config) {
				c.ConnConfig.DefaultQueryExecMode, c.ConnConfig.Tracer = mode, noted
				c.PrepareConn = func(ctx context.Context, conn *pgx.Conn) (bool, error) {
					_, err := conn.PgConn().Exec(ctx, "DISCARD ALL").ReadAll()
					return err == nil, err
				}
			})
			withoutSessions(t, db, pool)
			if codes := noted.seen(); len(codes) != 0 {
				t.Errorf("statements were refused: %v", codes)
			}
		})
	}
}

// withoutSessions migrates, works, pauses and goes on over pool, in a schema of its own. Only the listener's connection is
// direct.
func withoutSessions(t *testing.T, db *pgqueuetest.DB, pool *pgxpool.Pool) {
	t.Helper()
	const schema = `behind "it"`
	ctx := testContext(t)
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(migrations.Up(ctx, pool, schema, migrations.WithLogger(slog.New(slog.DiscardHandler))))
	status, err := migrations.Status(ctx, pool, schema)
	check(err)
	if !status.Current() {
		t.Errorf("the migrations: %+v", status)
	}
	client := quietClient(t, pool, pgqueue.WithSchema(schema))
	jobs := pgx.Identifier{schema, "jobs"}.Sanitize()
	ran := make(chan string, 100)
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(_ context.Context, job *pgqueue.Job[task]) error {
		if job.Args.Do == "fail" && job.Attempt == 1 {
			return runner.RetryAfter(time.Millisecond, fmt.Errorf("not yet"))
		}
		ran <- fmt.Sprintf("%s %d", job.Queue, job.Args.N)
		return nil
	})
	pgqueue.HandleTx(mux, func(ctx context.Context, tx pgx.Tx, job *pgqueue.Job[other]) error {
		for range 2 { // all of a transaction is in one session
			if _, err := client.Enqueue(ctx, tx, task{N: job.Args.N + 1}, pgqueue.OnQueue(job.Queue), pgqueue.WithKey("next")); err != nil {
				return err
			}
		}
		return nil
	})
	worker := startWorker(t, client, mux, pgqueue.WorkerConfig{
		// The listener brings the jobs of a: no test lives to see its poll. That of b brings what failed.
		Queues: pgqueue.Queues{"a": {Poll: 10 * time.Minute}, "b": {Poll: 100 * time.Millisecond}}, ReapInterval: 50 * time.Millisecond,
		ListenerConn: func(ctx context.Context) (*pgx.Conn, error) {
			return pgx.Connect(ctx, db.DirectURL)
		},
	})
	eventually(t, "the listener listens", func() bool { return worker.Status().Listener.Connected })
	want := func(names ...string) {
		t.Helper()
		missing := map[string]bool{}
		for _, name := range names {
			missing[name] = true
		}
		for range names {
			delete(missing, receive(t, ran, "a job of "+fmt.Sprint(names)))
		}
		if len(missing) > 0 {
			t.Errorf("of %v, these did not run: %v", names, missing)
		}
	}
	enqueue(t, client, pool, task{N: 1}, pgqueue.OnQueue("a"))
	enqueue(t, client, pool, other{N: 1}, pgqueue.OnQueue("b"))
	want("a 1", "b 2")
	tx := begin(t, pool, pgx.TxOptions{})
	_, err = client.EnqueueMany(ctx, tx, []pgqueue.NewJob{
		{Args: task{N: 3}, Options: []pgqueue.EnqueueOption{pgqueue.OnQueue("a"), pgqueue.WithKey("k")}},
		{Args: task{N: 4, Do: "fail"}, Options: []pgqueue.EnqueueOption{pgqueue.OnQueue("b")}},
	})
	check(err)
	_, err = client.EnqueueCopy(ctx, tx, []pgqueue.NewJob{{Args: task{N: 5}, Options: []pgqueue.EnqueueOption{pgqueue.OnQueue("a")}}})
	check(err)
	check(tx.Commit(ctx))
	want("a 3", "b 4", "a 5")
	// A stale lease comes back by the reaper.
	exec(t, pool, `INSERT INTO `+jobs+` (queue, kind, payload, state, attempt, claimed_generation, claimed_at, lease_expires_at)
		VALUES ('a', 'task', '{"n": 6}', 'running', 1, 1, now() - interval '10 seconds', now() - interval '1 second')`)
	want("a 6")
	check(client.PauseQueue(ctx, pool, "a", "a reason"))
	eventually(t, "the worker knows of the pause", func() bool { return !worker.Status().Queues["a"].QueuePaused.IsZero() })
	enqueue(t, client, pool, task{N: 7}, pgqueue.OnQueue("a"))
	enqueue(t, client, pool, task{N: 8}, pgqueue.OnQueue("b"))
	want("b 8")
	stats, err := client.Stats(ctx, "a")
	check(err)
	if stats[0].Ready[0].N+stats[0].Ready[1].N+stats[0].Ready[2].N+stats[0].Ready[3].N != 1 || stats[0].PausedReason != "a reason" {
		t.Errorf("the paused queue: %+v", stats[0])
	}
	check(client.ResumeQueue(ctx, pool, "a"))
	want("a 7")
	eventually(t, "all jobs are settled", func() bool { return one[int](t, pool, "SELECT count(*) FROM "+jobs) == 0 })
	if one[bool](t, db.Pool, "SELECT to_regclass('pgqueue.jobs') IS NOT NULL OR to_regclass('public.jobs') IS NOT NULL") {
		t.Error("tables were made in another schema")
	}
	check(worker.Stop(ctx))
}
