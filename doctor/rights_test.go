package doctor

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// documentedRoles runs the SQL of docs/roles.md as it stands, on a server of the test's own: roles belong to a whole server.
func documentedRoles(t *testing.T) *pgqueuetest.DB {
	t.Helper()
	db := pgqueuetest.NewServer(t).DB(t)
	text, err := os.ReadFile("../docs/roles.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range strings.Split(string(text), "```sql\n")[1:] {
		sql, _, _ := strings.Cut(block, "```")
		execute(t, db.Pool, sql)
	}
	return db
}

// as connects with the same database as another role.
func as(t *testing.T, db *pgqueuetest.DB, role string) *pgqueuetest.DB {
	t.Helper()
	config := db.Pool.Config()
	config.ConnConfig.User = role
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return &pgqueuetest.DB{Pool: pool, Schema: db.Schema, URL: db.URL}
}

func TestNeedsAreTheGrantsOfThePage(t *testing.T) {
	t.Parallel()
	db := documentedRoles(t)
	for _, purpose := range purposes() {
		rows, err := db.Pool.Query(t.Context(), `
			WITH RECURSIVE r AS (SELECT oid FROM pg_roles WHERE rolname = 'pgqueue_' || $1::text
			                     UNION SELECT m.roleid FROM pg_auth_members m JOIN r ON r.oid = m.member)
			SELECT 'schema', '', a.privilege_type FROM pg_namespace n, aclexplode(n.nspacl) a, r WHERE n.nspname = 'pgqueue' AND a.grantee = r.oid
			UNION
			SELECT CASE c.relkind WHEN 'S' THEN 'sequence' ELSE 'table' END, c.relname::text, a.privilege_type
			FROM pg_class c, aclexplode(c.relacl) a, r WHERE c.relnamespace = 'pgqueue'::regnamespace AND a.grantee = r.oid
			UNION
			SELECT 'function', p.proname::text, a.privilege_type
			FROM pg_proc p, aclexplode(p.proacl) a, r WHERE p.pronamespace = 'pgqueue'::regnamespace AND a.grantee = r.oid`, purpose)
		if err != nil {
			t.Fatal(err)
		}
		granted, err := pgx.CollectRows(rows, pgx.RowToStructByPos[rightRowOfThePage])
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range granted {
			if !slices.Contains(needs(purpose), right{g.Kind, g.Object, g.Privilege}) {
				t.Errorf("docs/roles.md grants the %s %+v, and the doctor does not know", purpose, g)
			}
		}
		for _, n := range needs(purpose) {
			if !slices.Contains(granted, rightRowOfThePage{n.kind, n.object, n.privilege}) {
				t.Errorf("the doctor asks for %+v of a %s, and docs/roles.md does not grant it", n, purpose)
			}
		}
	}
}

type rightRowOfThePage struct{ Kind, Object, Privilege string }

// Each right that is taken away is missed, and given back by the statement of the finding.
func TestMissingRights(t *testing.T) {
	t.Parallel()
	db := documentedRoles(t)
	execute(t, db.Pool, `GRANT pgqueue_worker TO on_call`) // rights by membership count
	all := []Role{{Name: "on_call", Purposes: purposes()[2:]}}
	for _, purpose := range purposes() {
		all = append(all, Role{Name: "pgqueue_" + string(purpose), Purposes: []Purpose{purpose}})
	}
	options := Options{Roles: all, Only: []string{"rights", "role-missing"}}
	if found := examine(t, db, options).Findings; len(found) != 0 {
		t.Fatalf("the page's roles lack something: %+v", found)
	}
	for _, purpose := range purposes() {
		role := "pgqueue_" + string(purpose)
		options.Roles = []Role{{Name: role, Purposes: []Purpose{purpose}}}
		for _, need := range needs(purpose) {
			target := "SCHEMA pgqueue"
			switch need.kind {
			case "table", "sequence":
				target = need.kind + " pgqueue." + need.object
			case "function":
				target = "FUNCTION " + value[string](t, db.Pool, `SELECT oid::regprocedure::text FROM pg_proc WHERE pronamespace = 'pgqueue'::regnamespace AND proname = $1`, need.object)
			}
			from := role
			if purpose == Viewer {
				from += ", pgqueue_watcher" // a viewer is one, too
			}
			execute(t, db.Pool, "REVOKE "+need.privilege+" ON "+target+" FROM "+from)
			f := await(t, db, options, "rights", role)
			if len(f.FixSQL) != 1 || !strings.Contains(f.Summary, need.privilege) || !strings.Contains(f.Summary, need.object) {
				t.Errorf("without %s on %s: %+v", need.privilege, target, f)
			}
			want := Error
			if mayMiss(purpose, need.object) {
				want = Warning
			}
			if f.Severity != want {
				t.Errorf("without %s on %s: %v, want %v", need.privilege, target, f.Severity, want)
			}
			apply(t, db, f)
			awaitNone(t, db, options, "rights")
			if purpose == Viewer {
				execute(t, db.Pool, "GRANT "+need.privilege+" ON "+target+" TO pgqueue_watcher")
			}
		}
	}
}

func TestARoleThatDoesNotExist(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.NewServer(t).DB(t)
	options := Options{Roles: []Role{{Name: `no "one"`, Purposes: []Purpose{Producer}}}, Only: []string{"role-missing", "rights"}}
	apply(t, db, await(t, db, options, "role-missing", `no "one"`))
	mend(t, db, options)
	if found := examine(t, db, options).Findings; len(found) != 0 {
		t.Errorf("%+v", found)
	}
}

func TestOwners(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.NewServer(t).DB(t)
	execute(t, db.Pool, `CREATE ROLE deployer; CREATE ROLE former;
		DO $$ DECLARE o text; BEGIN
			FOR o IN SELECT c.oid::regclass FROM pg_class c WHERE c.relnamespace = 'pgqueue'::regnamespace AND c.relkind IN ('r', 'p', 'v') LOOP
				EXECUTE 'ALTER TABLE ' || o || ' OWNER TO deployer';
			END LOOP;
			FOR o IN SELECT p.oid::regprocedure FROM pg_proc p WHERE p.pronamespace = 'pgqueue'::regnamespace LOOP
				EXECUTE 'ALTER FUNCTION ' || o || ' OWNER TO deployer';
			END LOOP;
		END $$`)
	awaitNone(t, db, Options{}, "owner")
	execute(t, db.Pool, `ALTER FUNCTION pgqueue.drop_history(interval) OWNER TO former; ALTER VIEW pgqueue.job_log OWNER TO former; ALTER TABLE pgqueue.history OWNER TO former`)
	found := examine(t, db, Options{Only: []string{"owner"}}).Findings
	if len(found) != 3 {
		t.Errorf("%d findings, want 3: %+v", len(found), found)
	}
	for _, f := range found {
		apply(t, db, f)
	}
	awaitNone(t, db, Options{}, "owner")
}

// C79: row-level security that hides the queue from the worker is an error that names it, whoever examines; with a policy all is well.
func TestC79_RowLevelSecurityHidesTheQueue(t *testing.T) {
	t.Parallel()
	db := documentedRoles(t)
	worker := as(t, db, "app")
	options := Options{Only: []string{"row-security"}}
	named := Options{Only: options.Only, Roles: []Role{{Name: "app", Purposes: []Purpose{Worker}}}}
	execute(t, db.Pool, `ALTER TABLE pgqueue.jobs ENABLE ROW LEVEL SECURITY`)
	for name, report := range map[string]*Report{
		"the superuser": examine(t, db, options), "the worker": examine(t, worker, options), "asked by name": examine(t, db, named),
	} {
		if report.Worst() != Error || !strings.Contains(report.String(), "Row-level security") || !strings.Contains(report.String(), "pgqueue_worker") {
			t.Errorf("%s sees %s", name, report)
		}
	}
	for _, f := range examine(t, db, named).Findings {
		if strings.Contains(f.Summary, `"app"`) || strings.Contains(f.Summary, `"pgqueue_worker"`) || strings.Contains(f.Summary, `"pgqueue_producer"`) ||
			strings.Contains(f.Summary, `"pgqueue_viewer"`) {
			apply(t, db, f)
		}
	}
	awaitNone(t, db, named, "row-security")

	// A policy that shows a part, and one that takes something away.
	execute(t, db.Pool, `DROP POLICY "all for app" ON pgqueue.jobs; DROP POLICY "all for pgqueue_worker" ON pgqueue.jobs; DROP POLICY "all for pgqueue_producer" ON pgqueue.jobs;
		CREATE POLICY part ON pgqueue.jobs TO pgqueue_worker, pgqueue_producer USING (queue = 'mail')`)
	f := await(t, db, named, "row-security", "jobs")
	if f.Severity != Warning {
		t.Errorf("a policy that shows a part: %+v", f)
	}
	for _, f := range examine(t, db, named).Findings {
		apply(t, db, f)
	}
	awaitNone(t, db, named, "row-security")
	execute(t, db.Pool, `CREATE POLICY "no, not that" ON pgqueue.jobs AS RESTRICTIVE TO app USING (queue <> 'mail')`)
	apply(t, db, await(t, db, named, "row-security", "jobs"))
	awaitNone(t, db, named, "row-security")
}

// FORCE takes the owner in, too; and a table that concerns nobody is a note.
func TestForcedRowSecurity(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.NewServer(t).DB(t)
	execute(t, db.Pool, `CREATE ROLE deployer; ALTER TABLE pgqueue.queues OWNER TO deployer; ALTER TABLE pgqueue.queues ENABLE ROW LEVEL SECURITY`)
	options := Options{Only: []string{"row-security"}}
	f := await(t, db, options, "row-security", "queues")
	if f.Severity != Info {
		t.Errorf("nobody is concerned: %+v", f)
	}
	execute(t, db.Pool, `ALTER TABLE pgqueue.queues FORCE ROW LEVEL SECURITY`)
	found := examine(t, db, options).Findings
	if len(found) != 1 || found[0].Severity != Error || !strings.Contains(found[0].Summary, "deployer") {
		t.Errorf("the owner is concerned: %+v", found)
	}
	apply(t, db, found[0])
	awaitNone(t, db, options, "row-security")
	execute(t, db.Pool, `DROP POLICY "all for deployer" ON pgqueue.queues; ALTER TABLE pgqueue.queues NO FORCE ROW LEVEL SECURITY`)
	apply(t, db, await(t, db, options, "row-security", "queues"))
	awaitNone(t, db, options, "row-security")
}
