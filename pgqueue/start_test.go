package pgqueue_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/migrations"
	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// requireRefused checks that a start ended with a StartError of that reason and returns it.
func requireRefused(t testing.TB, err error, reason pgqueue.StartReason) *pgqueue.StartError {
	t.Helper()
	var refused *pgqueue.StartError
	if !errors.As(err, &refused) || refused.Reason != reason {
		t.Errorf("error %v, want a StartError for %s", err, reason)
		return nil
	}
	return refused
}

// starts tries both ways to start a worker on a pool, and returns what they said. A worker that starts is stopped at once.
func starts(t testing.TB, pool *pgxpool.Pool, options ...pgqueue.ClientOption) []error {
	t.Helper()
	client := quietClient(t, pool, options...)
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[task]) error { return nil })
	config := pgqueue.WorkerConfig{Queues: pgqueue.Queues{"nobody's": {}}}
	worker, err := client.NewWorker(mux, config)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	ended := make(chan error, 1)
	ctx, stop := context.WithCancel(testContext(t))
	defer stop()
	go func() { ended <- worker.Run(ctx) }()
	var ran error
	done := false
	eventually(t, "the worker starts or ends", func() bool {
		select {
		case ran = <-ended:
			done = true
		default:
		}
		return done || worker.Health().Loops[0].Name != "worker"
	})
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("the start took %s", took)
	}
	if !done {
		stop()
		ran = receive(t, ended, "the end of the worker")
	}
	_, drained := client.Drain(testContext(t), mux, config)
	return []error{ran, drained}
}

func requireStarts(t testing.TB, pool *pgxpool.Pool, options ...pgqueue.ClientOption) {
	t.Helper()
	for _, err := range starts(t, pool, options...) {
		if err != nil {
			t.Errorf("the start: %v", err)
		}
	}
}

// Each GRANT of the page that is missing keeps a worker from starting, and is named; but for those that serve to report itself, for what
// handlers may do beside their work, and for schedulers.
func TestC78_EveryMissingGrantIsNamed(t *testing.T) {
	t.Parallel()
	db, as := documentedRoles(t)
	app := as("app")
	requireStarts(t, app)
	exec(t, db.Pool, `REVOKE pgqueue_producer FROM app`) // it has rights on jobs, too
	optional := []string{
		"heartbeat", "goodbye", "cached_stats", "live_workers", "job_progress", "expire_progress", "expire_unique_keys", "expire_audit",
		"pause_until", "pause_kind", "schedules", "schedule_ticks",
	}
	rows, err := db.Pool.Query(testContext(t), `
		SELECT 'SCHEMA', n.nspname::text, 'pgqueue', 'schema pgqueue', a.privilege_type FROM pg_namespace n, aclexplode(n.nspacl) a
		WHERE n.nspname = 'pgqueue' AND a.grantee = 'pgqueue_worker'::regrole
		UNION ALL
		SELECT 'TABLE', c.relname::text, c.oid::regclass::text, 'table pgqueue.' || c.relname, a.privilege_type FROM pg_class c, aclexplode(c.relacl) a
		WHERE c.relnamespace = 'pgqueue'::regnamespace AND a.grantee = 'pgqueue_worker'::regrole
		UNION ALL
		SELECT 'FUNCTION', p.proname::text, p.oid::regprocedure::text, 'function pgqueue.' || p.proname, a.privilege_type FROM pg_proc p, aclexplode(p.proacl) a
		WHERE p.pronamespace = 'pgqueue'::regnamespace AND a.grantee = 'pgqueue_worker'::regrole`)
	if err != nil {
		t.Fatal(err)
	}
	granted, err := pgx.CollectRows(rows, pgx.RowToStructByPos[struct{ Kind, Name, Target, Said, Privilege string }])
	if err != nil || len(granted) < 12 {
		t.Fatalf("%d grants, %v", len(granted), err)
	}
	for _, g := range granted {
		right := g.Privilege + " ON " + g.Kind + " " + g.Target
		exec(t, db.Pool, "REVOKE "+right+" FROM pgqueue_worker")
		if slices.Contains(optional, g.Name) {
			requireStarts(t, app)
		} else {
			for _, err := range starts(t, app) {
				refused := requireRefused(t, err, pgqueue.StartMissingRights)
				if refused == nil {
					continue
				}
				if len(refused.Rights) != 1 || refused.Rights[0].Privilege != g.Privilege || !strings.HasPrefix(refused.Rights[0].Object, g.Said) ||
					refused.Role != "app" || !strings.Contains(err.Error(), g.Privilege+" on "+g.Said) {
					t.Errorf("without %s: %v", right, err)
				}
			}
		}
		exec(t, db.Pool, "GRANT "+right+" TO pgqueue_worker")
	}
	requireStarts(t, app)
	// Several at once, as before anybody has granted anything.
	exec(t, db.Pool, `CREATE ROLE newcomer LOGIN; GRANT USAGE ON SCHEMA pgqueue TO newcomer`)
	for _, err := range starts(t, as("newcomer")) {
		if refused := requireRefused(t, err, pgqueue.StartMissingRights); refused != nil && (len(refused.Rights) != 12 ||
			!strings.Contains(err.Error(), "SELECT, UPDATE, DELETE on table pgqueue.jobs; SELECT, INSERT, DELETE on table pgqueue.history")) {
			t.Errorf("%d rights: %v", len(refused.Rights), err)
		}
	}
	// A producer learns where to look.
	client := quietClient(t, as("newcomer"))
	if _, err := client.Enqueue(testContext(t), as("newcomer"), task{}); !isCode(err, "42501") || !strings.Contains(err.Error(), "docs/roles.md") {
		t.Errorf("enqueue without rights: %v", err)
	}
}

// Row-level security that hides the jobs is named at the start; with a policy that shows them all is well, and one that shows some is
// told in the log. FORCE takes in the owner, who is not concerned otherwise.
func TestC79_RowLevelSecurityHidesTheQueue(t *testing.T) {
	t.Parallel()
	db, as := documentedRoles(t)
	app := as("app")
	requireRLS := func(pool *pgxpool.Pool, role, rights string) {
		t.Helper()
		for _, err := range starts(t, pool) {
			refused := requireRefused(t, err, pgqueue.StartRowSecurity)
			if refused != nil && (refused.Role != role || !strings.Contains(err.Error(), "row-level security") || !strings.Contains(err.Error(), rights)) {
				t.Errorf("error %v, want it to name %q and %q", err, role, rights)
			}
		}
	}
	exec(t, db.Pool, `ALTER TABLE pgqueue.jobs ENABLE ROW LEVEL SECURITY`)
	requireRLS(app, "app", "SELECT, UPDATE, DELETE on table pgqueue.jobs")
	requireStarts(t, db.Pool) // a superuser

	exec(t, db.Pool, `CREATE POLICY reads ON pgqueue.jobs FOR SELECT TO pgqueue_worker USING (true)`)
	requireRLS(app, "app", "UPDATE, DELETE on table pgqueue.jobs")
	exec(t, db.Pool, `CREATE POLICY everything ON pgqueue.jobs TO pgqueue_worker, pgqueue_producer USING (true)`)
	requireStarts(t, app)
	client := quietClient(t, app)
	id := enqueue(t, client, app, task{}, pgqueue.WithKey("K")).ID
	requireOutcome(t, enqueue(t, client, app, task{N: 2}, pgqueue.WithKey("K")), pgqueue.Replaced)
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[task]) error { return nil })
	if result := drain(t, client, mux, pgqueue.WorkerConfig{}); result.Outcomes.Succeeded != 1 {
		t.Errorf("with a policy: %+v", result)
	}
	job(t, db.Pool, id).requireState(t, "succeeded", 1, 0)

	for _, table := range []string{"history", "queues", "pgqueue_migrations"} {
		exec(t, db.Pool, `ALTER TABLE pgqueue.`+table+` ENABLE ROW LEVEL SECURITY`)
		requireRLS(app, "app", "SELECT")
		requireRLS(app, "app", "on table pgqueue."+table)
		exec(t, db.Pool, `ALTER TABLE pgqueue.`+table+` DISABLE ROW LEVEL SECURITY`)
	}

	// Some rows: it may be meant so.
	warned := func() int64 {
		t.Helper()
		var n atomic.Int64
		loud := newClient(t, app, pgqueue.WithLogger(slog.New(countingLog{n: &n})))
		drain(t, loud, mux, pgqueue.WorkerConfig{})
		return n.Load()
	}
	if n := warned(); n != 0 {
		t.Errorf("%d warnings although the policy shows everything", n)
	}
	exec(t, db.Pool, `CREATE POLICY less ON pgqueue.jobs AS RESTRICTIVE TO pgqueue_worker USING (queue <> 'secret')`)
	if n := warned(); n != 1 {
		t.Errorf("%d warnings of a restrictive policy, want 1", n)
	}
	exec(t, db.Pool, `DROP POLICY less ON pgqueue.jobs; DROP POLICY everything ON pgqueue.jobs; DROP POLICY reads ON pgqueue.jobs;
		CREATE POLICY part ON pgqueue.jobs TO pgqueue_worker USING (queue = 'default')`)
	if n := warned(); n != 1 {
		t.Errorf("%d warnings of a policy that shows a part, want 1", n)
	}

	exec(t, db.Pool, `DROP POLICY part ON pgqueue.jobs; CREATE ROLE proprietor LOGIN; GRANT ALL ON SCHEMA pgqueue TO proprietor;
		DO $$ DECLARE o regclass; BEGIN
			FOR o IN SELECT oid FROM pg_class WHERE relnamespace = 'pgqueue'::regnamespace AND relkind IN ('r', 'p', 'v') LOOP
				EXECUTE format('ALTER TABLE %s OWNER TO proprietor', o);
			END LOOP;
		END $$; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA pgqueue TO proprietor`)
	requireStarts(t, as("proprietor"))
	exec(t, db.Pool, `ALTER TABLE pgqueue.jobs FORCE ROW LEVEL SECURITY`)
	requireRLS(as("proprietor"), "proprietor", "SELECT, UPDATE, DELETE on table pgqueue.jobs")
	exec(t, db.Pool, `CREATE POLICY everything ON pgqueue.jobs USING (true)`)
	requireStarts(t, as("proprietor"))
	exec(t, db.Pool, `DROP POLICY everything ON pgqueue.jobs; ALTER ROLE proprietor BYPASSRLS`)
	requireStarts(t, as("proprietor"))
}

// A condition that is just false lets nothing through, whatever the command it is for; nor does one that is not there. USING and WITH CHECK
// may come from different policies.
func TestC79_PoliciesThatLetNothingThrough(t *testing.T) {
	t.Parallel()
	db, as := documentedRoles(t)
	app := as("app")
	exec(t, db.Pool, `ALTER TABLE pgqueue.jobs ENABLE ROW LEVEL SECURITY; ALTER TABLE pgqueue.history ENABLE ROW LEVEL SECURITY;
		CREATE POLICY everything ON pgqueue.history USING (true)`)
	const reads = `CREATE POLICY r ON pgqueue.jobs FOR SELECT USING (true); CREATE POLICY d ON pgqueue.jobs FOR DELETE USING (true); `
	for _, c := range []struct{ policies, hidden string }{ // hidden is empty where the worker starts
		{`CREATE POLICY a ON pgqueue.jobs USING (true) WITH CHECK (false)`, "for UPDATE on table pgqueue.jobs;"},
		{`CREATE POLICY a ON pgqueue.jobs USING (false)`, "for SELECT, UPDATE, DELETE on table pgqueue.jobs;"},
		{`CREATE POLICY a ON pgqueue.jobs WITH CHECK (true)`, "for SELECT, UPDATE, DELETE on table pgqueue.jobs;"},
		{reads + `CREATE POLICY a ON pgqueue.jobs FOR UPDATE USING (false)`, "for UPDATE on table pgqueue.jobs;"},
		{reads + `CREATE POLICY a ON pgqueue.jobs FOR UPDATE USING (true) WITH CHECK (false)`, "for UPDATE on table pgqueue.jobs;"},
		{
			reads + `CREATE POLICY a ON pgqueue.jobs FOR UPDATE USING (true) WITH CHECK (false);
			CREATE POLICY b ON pgqueue.jobs FOR UPDATE USING (false) WITH CHECK (true)`, "",
		},
		{`CREATE POLICY a ON pgqueue.jobs USING (true); CREATE POLICY b ON pgqueue.jobs USING (false)`, ""},
		{
			`CREATE POLICY a ON pgqueue.jobs USING (true); CREATE POLICY b ON pgqueue.jobs AS RESTRICTIVE USING (false)`,
			"for SELECT, UPDATE, DELETE on table pgqueue.jobs;",
		},
		{
			`CREATE POLICY a ON pgqueue.jobs USING (true);
			CREATE POLICY b ON pgqueue.history AS RESTRICTIVE FOR INSERT WITH CHECK (false)`, "for INSERT on table pgqueue.history;",
		},
	} {
		exec(t, db.Pool, c.policies)
		if c.hidden == "" {
			requireWorksOff(t, app, db.Pool)
		} else {
			for _, err := range starts(t, app) {
				if refused := requireRefused(t, err, pgqueue.StartRowSecurity); refused != nil && !strings.Contains(err.Error(), c.hidden) {
					t.Errorf("%s: error %v, want it to say %q", c.policies, err, c.hidden)
				}
			}
		}
		exec(t, db.Pool, `DROP POLICY IF EXISTS a ON pgqueue.jobs; DROP POLICY IF EXISTS b ON pgqueue.jobs; DROP POLICY IF EXISTS b ON pgqueue.history;
			DROP POLICY IF EXISTS r ON pgqueue.jobs; DROP POLICY IF EXISTS d ON pgqueue.jobs`)
	}
}

// With row_security off Postgres refuses the statements of whom row-level security holds for, also under a policy that shows everything.
func TestC79_RowSecuritySettingOff(t *testing.T) {
	t.Parallel()
	db, as := documentedRoles(t)
	exec(t, db.Pool, `ALTER ROLE app SET row_security = off`)
	app := as("app")
	requireStarts(t, app) // no table has row-level security
	for _, table := range []string{"jobs", "pgqueue_migrations"} {
		exec(t, db.Pool, `ALTER TABLE pgqueue.`+table+` ENABLE ROW LEVEL SECURITY; CREATE POLICY everything ON pgqueue.`+table+` USING (true)`)
		for _, err := range starts(t, app) {
			refused := requireRefused(t, err, pgqueue.StartRowSecurity)
			if refused != nil && (refused.Role != "app" || len(refused.Rights) == 0 || !strings.Contains(err.Error(), "row_security is off") ||
				!strings.Contains(err.Error(), "on table pgqueue."+table)) {
				t.Errorf("with row-level security on %s: %v", table, err)
			}
		}
		exec(t, db.Pool, `ALTER TABLE pgqueue.`+table+` DISABLE ROW LEVEL SECURITY`)
	}
	exec(t, db.Pool, `ALTER TABLE pgqueue.jobs ENABLE ROW LEVEL SECURITY; ALTER ROLE app BYPASSRLS`)
	requireWorksOff(t, app, db.Pool)
}

// requireWorksOff checks that a worker starts and does a job, which the administrator enqueues.
func requireWorksOff(t *testing.T, pool, admin *pgxpool.Pool) {
	t.Helper()
	requireStarts(t, pool)
	client := quietClient(t, pool)
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[task]) error { return nil })
	enqueue(t, client, admin, task{})
	if result := drain(t, client, mux, pgqueue.WorkerConfig{}); result.Outcomes.Succeeded != 1 {
		t.Errorf("the worker did nothing: %+v", result)
	}
}

// The version of the schema is that of the program, or the next one.
func TestStartLooksAtTheVersion(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	for _, c := range []struct {
		version int
		dirty   bool
		reason  pgqueue.StartReason // empty: it starts
	}{
		{migrations.Latest, false, ""}, {migrations.Latest + 1, false, ""},
		{migrations.Latest - 1, false, pgqueue.StartSchemaOlder}, {migrations.Latest, true, pgqueue.StartSchemaDirty},
		{migrations.Latest + 2, false, pgqueue.StartSchemaNewer},
	} {
		exec(t, db.Pool, `UPDATE pgqueue.pgqueue_migrations SET version = $1, dirty = $2`, c.version, c.dirty)
		if c.reason == "" {
			requireStarts(t, db.Pool)
			continue
		}
		for _, err := range starts(t, db.Pool) {
			refused := requireRefused(t, err, c.reason)
			if refused != nil && (!errors.Is(err, pgqueue.ErrSchema) || !strings.Contains(err.Error(), fmt.Sprintf("version %d", c.version)) || refused.Schema != "pgqueue") {
				t.Errorf("error %v", err)
			}
		}
	}
}

// The look at the session costs one statement and needs nothing to be there.
func TestStartOfARoleThatMayDoNothing(t *testing.T) {
	t.Parallel()
	db, as := documentedRoles(t)
	exec(t, db.Pool, `CREATE ROLE nobody_in_particular LOGIN`)
	pool := as("nobody_in_particular")
	for _, err := range starts(t, pool) {
		if refused := requireRefused(t, err, pgqueue.StartMissingRights); refused != nil && !strings.Contains(err.Error(), "USAGE on schema pgqueue") {
			t.Errorf("error %v", err)
		}
	}
	for _, err := range starts(t, pool, pgqueue.WithSchema(`no "such" schema`)) {
		if refused := requireRefused(t, err, pgqueue.StartSchemaOlder); refused != nil && !strings.Contains(err.Error(), "version 0") {
			t.Errorf("error %v", err)
		}
	}
}
