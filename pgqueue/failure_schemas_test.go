package pgqueue_test

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/doctor"
	"github.com/pgqueue/pgqueue/migrations"
	"github.com/pgqueue/pgqueue/outbox"
	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
	"github.com/pgqueue/pgqueue/runner"
)

// codesInLog makes a server write the SQLSTATE of each line.
func codesInLog() pgqueuetest.ServerOption {
	return pgqueuetest.WithSetting("log_line_prefix", "%m [%p] (%e) ")
}

// requireNoErrors checks that the server's log has none of these SQLSTATEs.
func requireNoErrors(t *testing.T, server *pgqueuetest.Server, codes string) {
	t.Helper()
	lines := regexp.MustCompile(`(?m)^.*\((`+codes+`)\) ERROR.*\n(?:.*STATEMENT:.*)?`).FindAllString(server.Log(), -1)
	if len(lines) > 0 {
		t.Errorf("the server's log has %d errors, the first: %s", len(lines), lines[0])
	}
}

// everything does with a schema what the library can do: migrations up, down and up, the whole flow of C13, a worker with listener,
// reaper, upkeep and heartbeat, the readers, and a table of the application's. It returns what the flow has stored.
func everything(t *testing.T, pool *pgxpool.Pool, schema string) string {
	t.Helper()
	ctx := testContext(t)
	quiet := migrations.WithLogger(slog.New(slog.DiscardHandler))
	for _, migrate := range []func(context.Context, migrations.Database, string, ...migrations.Option) error{migrations.Up, migrations.Down, migrations.Up} {
		if err := migrate(ctx, pool, schema, quiet); err != nil {
			t.Fatal(err)
		}
	}
	story := wholeFlow(t, pool, schema)

	client := quietClient(t, pool, pgqueue.WithSchema(schema))
	ran := make(chan int, 10)
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(_ context.Context, job *pgqueue.Job[task]) error {
		ran <- job.Args.N
		return nil
	})
	worker := startWorker(t, client, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"hinted": {Poll: 10 * time.Minute}}})
	eventually(t, "the worker listens, reports itself and is ready", func() bool {
		return worker.Status().Listener.Connected && worker.Health().Ready &&
			one[int](t, pool, `SELECT count(*) FROM `+pgx.Identifier{schema, "live_workers"}.Sanitize()) == 1
	})
	enqueue(t, client, pool, task{N: 7}, pgqueue.OnQueue("hinted"))
	if n := receive(t, ran, "a job that only a hint tells of"); n != 7 {
		t.Errorf("job %d ran", n)
	}
	inspector, err := pgqueue.NewInspector(pool, pgqueue.InspectorConfig{Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	waiting := enqueue(t, client, pool, other{}, pgqueue.OnQueue("hinted")).ID
	if answer, err := inspector.WhyNotRunning(ctx, waiting); err != nil || answer == "" {
		t.Errorf("why_not_running: %q, %v", answer, err)
	}
	if _, err := inspector.Counts(ctx, pgqueue.Filter{}); err != nil {
		t.Error(err)
	}
	if report, err := doctor.Examine(ctx, pool, doctor.Options{Schema: schema, Only: []string{"schema-version", "drift-table", "drift-column", "drift-constraint", "drift-index", "drift-function", "drift-view", "rights", "row-security", "owner"}}); err != nil || report.Worst() == doctor.Error {
		t.Errorf("the doctor: %v, %v", report, err)
	}
	for _, view := range []string{"queue_stats", "active_jobs", "stuck_jobs", "needs_attention", "job_log", "attempts"} {
		_ = one[int](t, pool, `SELECT count(*) FROM `+pgx.Identifier{schema, view}.Sanitize())
	}
	if err := worker.end(t); err != nil {
		t.Error(err)
	}
	workOutbox(t, pool, schema)
	return story
}

// workOutbox works a table of the application's, whose names need quoting.
func workOutbox(t *testing.T, pool *pgxpool.Pool, schema string) {
	t.Helper()
	table := pgx.Identifier{schema, "Order Events"}.Sanitize()
	exec(t, pool, `CREATE TABLE `+table+` ("Id" bigint PRIMARY KEY, "Select" text NOT NULL DEFAULT 'pending', "Group" int NOT NULL DEFAULT 0,
		"Order" timestamptz NOT NULL DEFAULT now(), "From" timestamptz, "Where" timestamptz NOT NULL DEFAULT now(), "Limit" text)`)
	exec(t, pool, `INSERT INTO `+table+` ("Id") VALUES (1), (2), (3)`)
	queue, err := outbox.New(pool, outbox.Table[int64, struct{}]{
		Name: outbox.Name{schema, "Order Events"},
		Key:  []outbox.KeyColumn{{Name: "Id", Type: "bigint"}},
		Status: outbox.StatusColumn{Name: "Select", Pending: "pending", Processing: "processing", Succeeded: "done",
			Failed: "failed", Dead: "dead"},
		Attempts: "Group", NextAttempt: "Order", AttemptedAt: "From", CreatedAt: "Where", LastError: "Limit",
		Columns: []string{`t."Id"`},
		Scan:    pgx.RowTo[int64],
	}, outbox.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	worker, err := outbox.NewWorker(queue, runner.HandlerFunc[int64, struct{}](func(context.Context, *runner.Task[int64]) (none struct{}, err error) {
		return none, nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(testContext(t))
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx) }()
	eventually(t, "the rows are worked", func() bool {
		return one[int](t, pool, `SELECT count(*) FROM `+table+` WHERE "Select" = 'done'`) == 3
	})
	stop()
	if err := receive(t, ended, "the end of the outbox's worker"); err != nil {
		t.Error(err)
	}
}

// Nothing depends on a search_path: neither where it is empty, nor where it names a schema with tables of the same names.
func TestC76_ForeignSearchPath(t *testing.T) {
	t.Parallel()
	server := pgqueuetest.NewServer(t, codesInLog())
	admin := server.DB(t, pgqueuetest.WithoutMigrations()).Pool
	exec(t, admin, `CREATE ROLE jobsys LOGIN; ALTER ROLE jobsys SET search_path = ''`)
	exec(t, admin, `CREATE SCHEMA jobsys AUTHORIZATION jobsys`)
	as := func(change func(*pgxpool.Config)) *pgxpool.Pool {
		return poolLike(t, admin, func(config *pgxpool.Config) {
			config.ConnConfig.User = "jobsys"
			change(config)
		})
	}
	everything(t, as(func(*pgxpool.Config) {}), "jobsys")

	// Decoys of all tables and functions, which the path finds first.
	exec(t, admin, `CREATE SCHEMA decoys AUTHORIZATION jobsys; GRANT CREATE ON SCHEMA jobsys TO jobsys;
		DO $$ DECLARE o record; BEGIN
			FOR o IN SELECT relname FROM pg_class WHERE relnamespace = 'jobsys'::regnamespace AND relkind IN ('r', 'p', 'v') AND relname !~ '^history_' LOOP
				EXECUTE format('CREATE TABLE decoys.%1$I AS SELECT * FROM jobsys.%1$I WITH NO DATA', o.relname);
				EXECUTE format('ALTER TABLE decoys.%I OWNER TO jobsys', o.relname);
			END LOOP;
			FOR o IN SELECT DISTINCT proname FROM pg_proc WHERE pronamespace = 'jobsys'::regnamespace LOOP
				EXECUTE format('CREATE FUNCTION decoys.%I(VARIADIC "any") RETURNS void LANGUAGE internal AS ''pg_num_nulls''', o.proname);
			END LOOP;
		END $$; DROP TABLE jobsys."Order Events"`)
	exec(t, admin, `DROP FUNCTION IF EXISTS decoys.count_queues("any")`)
	decoyed := as(func(config *pgxpool.Config) {
		config.PrepareConn = func(ctx context.Context, conn *pgx.Conn) (bool, error) {
			_, err := conn.Exec(ctx, `SET search_path = decoys, pg_catalog`)
			return err == nil, err
		}
	})
	// Down deletes what the first round has left.
	exec(t, admin, `DELETE FROM jobsys.jobs`)
	everything(t, decoyed, "jobsys")
	for _, table := range []string{"jobs", "history", "queues", "workers", "stats_cache", "pgqueue_migrations"} {
		if n := one[int](t, admin, `SELECT count(*) FROM decoys.`+table); n != 0 {
			t.Errorf("%d rows went into the decoy of %s", n, table)
		}
	}
	requireNoErrors(t, server, "42P01|42704|42883|42P02|42703")
}

// Any name that Postgres takes is a name for the schema.
func TestC77_NamesThatNeedQuoting(t *testing.T) {
	t.Parallel()
	names := []string{"Jobs-App", `we"ird`, "a.b", "select", "O'Neil", strings.Repeat("x", 60) + "ü" + "y", `back\slash $1 {schema}`}
	stories := make([]string, len(names))
	t.Run("names", func(t *testing.T) {
		for i, name := range names {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				if i == 5 && len(name) != 63 {
					t.Fatalf("the name has %d bytes", len(name))
				}
				db := pgqueuetest.New(t, pgqueuetest.WithoutMigrations())
				stories[i] = everything(t, db.Pool, name)
			})
		}
	})
	for i, story := range stories {
		if story == "" || story != stories[0] {
			t.Errorf("%s:\n%s\nwant, as in %s:\n%s", names[i], story, names[0], stories[0])
		}
	}
	db := pgqueuetest.New(t)
	for _, bad := range []string{strings.Repeat("x", 64), "nul\x00", "pg_mine", "\xff"} {
		if _, err := pgqueue.NewClient(db.Pool, pgqueue.WithSchema(bad)); err == nil {
			t.Errorf("schema %q was taken", bad)
		} else {
			requireInvalid(t, err, "schema")
		}
		if err := migrations.Up(testContext(t), db.Pool, bad); err == nil {
			t.Errorf("schema %q was migrated", bad)
		}
	}
}

// The owner needs no more than CREATE on one schema that exists already, and each role no more than the page gives it: in normal use
// nothing is forbidden.
func TestC78_LeastPrivilege(t *testing.T) {
	t.Parallel()
	server := pgqueuetest.NewServer(t, codesInLog())
	db := server.DB(t, pgqueuetest.WithoutMigrations())
	exec(t, db.Pool, `CREATE ROLE owner LOGIN; CREATE SCHEMA pgqueue; GRANT USAGE, CREATE ON SCHEMA pgqueue TO owner`)
	exec(t, db.Pool, fmt.Sprintf(`REVOKE ALL ON DATABASE %s FROM PUBLIC`, pgx.Identifier{db.Pool.Config().ConnConfig.Database}.Sanitize()))
	exec(t, db.Pool, fmt.Sprintf(`GRANT CONNECT ON DATABASE %s TO PUBLIC; REVOKE ALL ON SCHEMA public FROM PUBLIC`,
		pgx.Identifier{db.Pool.Config().ConnConfig.Database}.Sanitize()))
	as := func(role string) *pgxpool.Pool {
		return poolLike(t, db.Pool, func(config *pgxpool.Config) { config.ConnConfig.User = role })
	}
	owner := as("owner")
	quiet := migrations.WithLogger(slog.New(slog.DiscardHandler))
	for _, migrate := range []func(context.Context, migrations.Database, string, ...migrations.Option) error{migrations.Up, migrations.Down, migrations.Up} {
		if err := migrate(testContext(t), owner, "", quiet); err != nil {
			t.Fatalf("as a role that may create in one schema and nowhere else: %v", err)
		}
	}
	// Roles are made by somebody with CREATEROLE, everything else is granted by the owner. The schema is not the owner's here.
	for _, block := range rolesPage(t) {
		for statement := range strings.SplitSeq(block, ";\n") {
			by := owner
			if regexp.MustCompile(`(?m)^(CREATE ROLE|GRANT pgqueue_|GRANT USAGE ON SCHEMA)`).MatchString(statement) {
				by = db.Pool
			}
			exec(t, by, statement)
		}
	}

	app, shop := as("app"), as("shop")
	client, producer := quietClient(t, app), quietClient(t, shop)
	mux := modeMux(app, func(string, modeArgs) {})
	worker := startWorker(t, client, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {Workers: 4}}, ReapInterval: 200 * time.Millisecond, KeepAttention: 24 * time.Hour})
	eventually(t, "the worker is ready and listens", func() bool { return worker.Health().Ready && worker.Status().Listener.Connected })
	kinds := []string{"plain", "tx", "batch", "result", "own", "fails", "never", "snoozes", "cancels"}
	var stale int64
	for i, kind := range kinds {
		enqueue(t, producer, shop, newModeArgs(kind))
		enqueue(t, producer, shop, newModeArgs(kind), pgqueue.WithKey("K"+kind), pgqueue.WithRevision("1"))
		enqueue(t, producer, shop, newModeArgs(kind), pgqueue.WithKey("K"+kind), pgqueue.WithRevision("2"))
		if _, err := producer.EnqueueMany(testContext(t), shop, []pgqueue.NewJob{{Args: newModeArgs(kind)}, {Args: newModeArgs(kind), Options: []pgqueue.EnqueueOption{pgqueue.WithKey(fmt.Sprint(i))}}}); err != nil {
			t.Fatal(err)
		}
		if _, err := producer.EnqueueCopy(testContext(t), shop, []pgqueue.NewJob{{Args: newModeArgs(kind)}}); err != nil {
			t.Fatal(err)
		}
		exec(t, shop, `SELECT pgqueue.enqueue($1, '{"n": 9007199254740993}')`, kind)
		stale = enqueue(t, producer, shop, newModeArgs("plain"), pgqueue.WithDelay(time.Hour)).ID
	}
	exec(t, db.Pool, `UPDATE pgqueue.jobs SET state = 'running', attempt = 1, claimed_generation = generation, claimed_by = 'dead', run_at = now(),
		claimed_at = now() - interval '1 minute', lease_expires_at = now() - interval '1 second' WHERE id = $1`, stale)
	awaitState(t, db.Pool, stale, "succeeded")
	eventually(t, "all jobs have ended, or wait for another time", func() bool {
		return one[bool](t, db.Pool, `SELECT NOT EXISTS (SELECT FROM pgqueue.jobs WHERE state = 'running' OR run_at <= now())`)
	})

	readAll := func(role string) {
		t.Helper()
		pool := as(role)
		inspector := newInspector(t, pool)
		for _, filter := range []pgqueue.Filter{{}, {States: []pgqueue.JobState{pgqueue.JobSucceeded}}} {
			for range inspector.All(testContext(t), filter, pgqueue.ListOptions{}) {
				continue
			}
		}
		for what, read := range map[string]func() error{
			"Counts":    func() error { _, err := inspector.Counts(testContext(t), pgqueue.Filter{}); return err },
			"Attention": func() error { _, err := inspector.Attention(testContext(t), pgqueue.Filter{}); return err },
			"Queues":    func() error { _, err := inspector.Queues(testContext(t)); return err },
			"Workers":   func() error { _, err := inspector.Workers(testContext(t)); return err },
			"Why":       func() error { _, err := inspector.WhyNotRunning(testContext(t), stale); return err },
			"Get":       func() error { _, err := inspector.Get(testContext(t), stale); return err },
			"Stats":     func() error { _, err := quietClient(t, pool).Stats(testContext(t)); return err },
		} {
			if err := read(); err != nil {
				t.Errorf("%s, by %s: %v", what, role, err)
			}
		}
	}
	readAll("on_call")
	operator := quietClient(t, as("on_call"))
	if err := operator.PauseQueue(testContext(t), as("on_call"), "default", ""); err != nil {
		t.Error(err)
	}
	if err := operator.ResumeQueue(testContext(t), as("on_call"), "default"); err != nil {
		t.Error(err)
	}
	for _, view := range []string{"queue_stats", "active_jobs", "stuck_jobs", "needs_attention", "job_log", "attempts", "live_workers"} {
		_ = one[int](t, as("dashboard"), `SELECT count(*) FROM pgqueue.`+view)
	}
	_ = one[int](t, as("dashboard"), `SELECT count(*) FROM pgqueue.cached_stats('0')`)
	if err := worker.end(t); err != nil {
		t.Error(err)
	}
	// Those that wait for another time may have become due.
	if result := drain(t, client, mux, pgqueue.WorkerConfig{}); result.Claimed != int(result.Outcomes.Retrying+result.Outcomes.Snoozed) {
		t.Errorf("drained %+v", result)
	}
	requireNoErrors(t, server, "42501")
	// The doctor tries what it may not see, and says what that was.
	for _, role := range []string{"app", "shop", "on_call", "dashboard", "owner"} {
		if _, err := doctor.Examine(testContext(t), as(role), doctor.Options{}); err != nil {
			t.Errorf("the doctor, by %s: %v", role, err)
		}
	}
	if err := migrations.Down(testContext(t), owner, "", quiet, migrations.DiscardJobs()); err != nil {
		t.Errorf("down: %v", err)
	}
}
