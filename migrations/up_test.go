package migrations_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/migrations"
)

// oddSchemas are names that break naive quoting.
func oddSchemas() []string {
	return []string{
		`we"ird`, `a.b`, `select`, `O'Neil`, `back\slash`, `Upper Case`, `100%sI %I %L`, `x$body$y`, `{schema}`, `ünïcödé`, "two\nlines --", `$1`,
		strings.Repeat("n", 63), strings.Repeat(`"`, 63), `enqueue`, `jobs`,
	}
}

func status(t *testing.T, db migrations.Database, schema string) migrations.State {
	t.Helper()
	state, err := migrations.Status(testContext(t), db, schema)
	if err != nil {
		t.Fatalf("status of %q: %v", schema, err)
	}
	return state
}

func TestUp_DownLeavesNothing_UpAgain(t *testing.T) {
	pool := newPool(t, newDatabase(t), nil)
	run(t, pool, `CREATE SCHEMA pgqueue; CREATE TABLE pgqueue.theirs (id int PRIMARY KEY); CREATE FUNCTION pgqueue.theirs() RETURNS int LANGUAGE sql AS 'SELECT 1'`)
	before := objects(t, pool, "pgqueue")
	if state := status(t, pool, ""); state.Exists || state.Version != 0 || state.Current() {
		t.Fatalf("before: %+v", state)
	}

	mustUp(t, pool, "")
	first := objects(t, pool, "pgqueue")
	if state := status(t, pool, ""); !state.Current() || state.Version != migrations.Latest || state.Latest != migrations.Latest {
		t.Fatalf("after up: %+v", state)
	}
	mustUp(t, pool, "") // nothing to do

	run(t, pool, `INSERT INTO pgqueue.history (id, run_at, created_at, finished_at, day, attempt, generation, error_count, priority, failures,
	                   max_attempts, queue, kind, state, payload, metadata, tags)
	               SELECT g, now(), now(), now(), CASE WHEN g % 2 = 0 THEN 'infinity' ELSE (now() AT TIME ZONE 'UTC')::date END, 1, 1, 0, 1, 0,
	                   3, 'q', 'k', CASE WHEN g % 2 = 0 THEN 'dead' ELSE 'succeeded' END, '{}', '{}', '{}' FROM generate_series(1, 10000) g`)
	// A partition that somebody detached is still ours.
	run(t, pool, `DO $$ BEGIN EXECUTE format('ALTER TABLE pgqueue.history DETACH PARTITION pgqueue.history_%s', to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD')); END $$`)
	mustDown(t, pool, "")
	if after := objects(t, pool, "pgqueue"); !slices.Equal(before, after) {
		t.Errorf("down left or took something:\nbefore %q\nafter  %q", before, after)
	}
	mustDown(t, pool, "") // nothing to do

	mustUp(t, pool, "")
	if again := objects(t, pool, "pgqueue"); !slices.Equal(first, again) {
		t.Errorf("the second up differs:\nfirst  %q\nsecond %q", first, again)
	}
}

func TestDown_RefusesWhileThereAreLiveJobs(t *testing.T) {
	pool := installed(t, "")
	run(t, pool, `SELECT pgqueue.enqueue('k') FROM generate_series(1, 3)`)
	run(t, pool, `UPDATE pgqueue.jobs SET state = 'running', claimed_at = now(), lease_expires_at = now() WHERE id = 1`)
	before := objects(t, pool, "pgqueue")

	err := migrations.Down(testContext(t), pool, "", quiet())
	var left *migrations.JobsLeftError
	if !errors.As(err, &left) || left.Pending != 2 || left.Running != 1 || left.Schema != "pgqueue" {
		t.Fatalf("down with live jobs: %v", err)
	}
	if after := objects(t, pool, "pgqueue"); !slices.Equal(before, after) || value[int](t, pool, `SELECT count(*) FROM pgqueue.jobs`) != 3 {
		t.Error("a refused down changed something")
	}
	if err := migrations.Down(testContext(t), pool, "", quiet(), migrations.DiscardJobs()); err != nil {
		t.Fatalf("down that discards: %v", err)
	}
}

func TestDown_NamesWhatIsBuiltUponOurTables(t *testing.T) {
	pool := installed(t, "")
	run(t, pool, `CREATE VIEW public.their_view AS SELECT id FROM pgqueue.queues q, pgqueue.jobs j WHERE q.name = j.queue`)
	before := objects(t, pool, "pgqueue")
	err := migrations.Down(testContext(t), pool, "", quiet())
	var conflict *migrations.ConflictError
	if !errors.As(err, &conflict) || !strings.Contains(err.Error(), "their_view") {
		t.Fatalf("down below a view: %v", err)
	}
	if after := objects(t, pool, "pgqueue"); !slices.Equal(before, after) || !status(t, pool, "").Current() {
		t.Error("a refused down changed something")
	}
}

func TestUp_AnySchemaName(t *testing.T) {
	pool := newPool(t, newDatabase(t), nil)
	for _, schema := range oddSchemas() {
		t.Run(schema, func(t *testing.T) {
			before := objects(t, pool, schema)
			mustUp(t, pool, schema)
			if !status(t, pool, schema).Current() {
				t.Error("not current after up")
			}
			name := pgx.Identifier{schema}.Sanitize()
			listening, err := pgx.ConnectConfig(testContext(t), pool.Config().ConnConfig)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = listening.Close(context.Background()) }()
			if _, err := listening.Exec(testContext(t), `LISTEN `+pgx.Identifier{migrations.Channel(schema)}.Sanitize()); err != nil {
				t.Fatal(err)
			}
			first := value[int64](t, pool, `SELECT `+name+`.enqueue('k', '{"n": 1}', key => 'a', revision => '1')`)
			note, err := listening.WaitForNotification(testContext(t))
			if err != nil || note.Payload != "default" || note.Channel != migrations.Channel(schema) {
				t.Errorf("hint: %+v, %v", note, err)
			}
			if second := value[int64](t, pool, `SELECT `+name+`.enqueue('k', '{"n": 1}', key => 'a', revision => '1')`); second != first {
				t.Errorf("same revision: job %d, then %d", first, second)
			}
			if made := value[int](t, pool, `SELECT `+name+`.ensure_history(16)`); made != 2 {
				t.Errorf("ensure_history(16) made %d partitions, want the 2 that 14 had left out", made)
			}
			run(t, pool, `SELECT `+name+`.drop_history('1 day'), `+name+`.expire_attention('1 day')`)
			if err := migrations.Down(testContext(t), pool, schema, quiet(), migrations.DiscardJobs()); err != nil {
				t.Fatal(err)
			}
			if after := objects(t, pool, schema); !slices.Equal(before, after) {
				t.Errorf("down left %q", after)
			}
		})
	}
}

func TestUp_BackslashesMeanTheSameInTheOldStringSyntax(t *testing.T) {
	pool := newPool(t, newDatabase(t), func(config *pgxpool.Config) { config.ConnConfig.RuntimeParams["standard_conforming_strings"] = "off" })
	const schema = `back\'slash`
	mustUp(t, pool, schema)
	name := pgx.Identifier{schema}.Sanitize()
	run(t, pool, `SELECT `+name+`.enqueue('k'), `+name+`.ensure_history(15), `+name+`.drop_history('0')`)
	if err := migrations.Down(testContext(t), pool, schema, quiet(), migrations.DiscardJobs()); err != nil {
		t.Error(err)
	}
}

// catalogWithoutComment lists every table, column, index, sequence and function of a schema that has none.
const catalogWithoutComment = `
	WITH n AS (SELECT oid FROM pg_namespace WHERE nspname = $1)
	SELECT 'schema' FROM n WHERE obj_description(n.oid, 'pg_namespace') IS NULL
	UNION ALL
	SELECT c.relkind::text || ' ' || c.relname FROM pg_class c, n
	WHERE c.relnamespace = n.oid AND coalesce(obj_description(c.oid, 'pg_class'), '') !~ '^pgqueue: .*\.$'
	UNION ALL
	SELECT 'column ' || c.relname || '.' || a.attname
	FROM n JOIN pg_class c ON c.relnamespace = n.oid JOIN pg_attribute a ON a.attrelid = c.oid
	WHERE c.relkind IN ('r', 'p', 'v') AND a.attnum > 0 AND NOT a.attisdropped AND coalesce(col_description(c.oid, a.attnum), '') !~ '\.$'
	UNION ALL
	SELECT 'function ' || p.oid::regprocedure FROM pg_proc p, n
	WHERE p.pronamespace = n.oid AND coalesce(obj_description(p.oid, 'pg_proc'), '') !~ '^pgqueue: .*\.$'`

func TestUp_EverythingCarriesAComment(t *testing.T) {
	pool := installed(t, "")
	if bare := rows(t, pool, catalogWithoutComment, "pgqueue"); len(bare) > 0 {
		t.Errorf("without a comment: %q", bare)
	}
	run(t, pool, `COMMENT ON COLUMN pgqueue.jobs.key IS NULL; COMMENT ON FUNCTION pgqueue.drop_history(interval) IS NULL`)
	if bare := rows(t, pool, catalogWithoutComment, "pgqueue"); len(bare) != 2 {
		t.Errorf("the check itself finds %q, want 2", bare)
	}
}

func TestUp_RightsStayNarrow(t *testing.T) {
	pool := installed(t, "")
	open := rows(t, pool, `SELECT p.proname::text FROM pg_proc p WHERE p.pronamespace = 'pgqueue'::regnamespace AND p.prosecdef
		AND (has_function_privilege('public', p.oid, 'EXECUTE') OR NOT p.proconfig::text LIKE '%search_path=pg_catalog, pg_temp%')`)
	if len(open) > 0 {
		t.Errorf("SECURITY DEFINER functions that everybody may call, or without a fixed search_path: %q", open)
	}
	if n := value[int](t, pool, `SELECT count(*) FROM pg_proc WHERE pronamespace = 'pgqueue'::regnamespace AND prosecdef`); n < 14 {
		t.Errorf("%d SECURITY DEFINER functions, want 14 or more", n)
	}
}

// checkSettings is put at the end of a step and fails it if a setting of the role reaches it.
const checkSettings = `
DO $$ BEGIN
	IF current_setting('statement_timeout') <> '0' OR current_setting('idle_in_transaction_session_timeout') <> '0'
	   OR current_setting('lock_timeout') <> '500ms' OR current_setting('search_path') <> 'pg_catalog, pg_temp'
	   OR current_setting('transaction_isolation') <> 'read committed' OR current_setting('transaction_read_only') <> 'off' THEN
		RAISE EXCEPTION 'a setting of the role reached the migration';
	END IF;
END $$;
`

func TestUp_WorksWhateverTheRoleAndTheConnectionAreSetTo(t *testing.T) {
	url := newDatabase(t)
	admin := newPool(t, url, nil)
	role := "strange_" + value[string](t, admin, `SELECT current_database()::text`)
	run(t, admin, `CREATE ROLE `+role+` LOGIN`)
	run(t, admin, `GRANT CREATE ON DATABASE `+value[string](t, admin, `SELECT current_database()::text`)+` TO `+role)
	for _, setting := range []string{
		`default_transaction_isolation = 'serializable'`, `default_transaction_read_only = on`, `statement_timeout = '20s'`,
		`idle_in_transaction_session_timeout = '20s'`,
		`search_path = 'nowhere'`, `timezone = 'Pacific/Kiritimati'`, `datestyle = 'SQL, DMY'`, `intervalstyle = 'sql_standard'`,
	} {
		run(t, admin, `ALTER ROLE `+role+` SET `+setting)
	}
	for mode, name := range map[pgx.QueryExecMode]string{
		pgx.QueryExecModeCacheStatement: "statement", pgx.QueryExecModeCacheDescribe: "describe",
		pgx.QueryExecModeDescribeExec: "describe_exec", pgx.QueryExecModeExec: "exec", pgx.QueryExecModeSimpleProtocol: "simple",
	} {
		t.Run(name, func(t *testing.T) {
			pool := newPool(t, url, func(config *pgxpool.Config) {
				config.MaxConns = 1
				config.ConnConfig.User = role
				config.ConnConfig.DefaultQueryExecMode = mode
			})
			files, err := copyFiles(name)
			if err != nil {
				t.Fatal(err)
			}
			files["0001_core.up.sql"].Data = append(files["0001_core.up.sql"].Data, checkSettings...)
			if err := migrations.UpWith(testContext(t), pool, name, migrations.Source{Files: files, Latest: migrations.Latest}); err != nil {
				t.Fatal(err)
			}
			if !status(t, admin, name).Current() {
				t.Error("not current after up")
			}
			if days := rows(t, admin, `SELECT c.relname::text FROM pg_class c WHERE c.relnamespace = $1::text::regnamespace AND c.relname = 'history_' || to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD')`, name); len(days) != 1 {
				t.Error("the partition of this UTC day is missing")
			}
			// Nothing of ours stays on the caller's connection.
			if path := value[string](t, pool, `SELECT current_setting('search_path') || ' ' || current_setting('lock_timeout')`); path != "nowhere 0" {
				t.Errorf("the caller's connection was left with %q", path)
			}
			mustDown(t, pool, name)
		})
	}
}

func TestUp_NeedsNoRightOnTheDatabaseWhenTheSchemaExists(t *testing.T) {
	url := newDatabase(t)
	admin := newPool(t, url, nil)
	role := "modest_" + value[string](t, admin, `SELECT current_database()::text`)
	run(t, admin, `CREATE ROLE `+role+` LOGIN`)
	run(t, admin, `CREATE SCHEMA mine AUTHORIZATION `+role)
	pool := newPool(t, url, func(config *pgxpool.Config) { config.ConnConfig.User = role; config.MaxConns = 2 })
	mustUp(t, pool, "mine")
	mustDown(t, pool, "mine")
}

func TestUp_TakesASingleConnectionToo(t *testing.T) {
	ctx := testContext(t)
	conn, err := pgx.Connect(ctx, newDatabase(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	mustUp(t, conn, "")
	mustDown(t, conn, "")
	if value[int](t, conn, `SELECT 1`) != 1 {
		t.Error("the connection does not work any more")
	}
}

func TestUp_BadArguments(t *testing.T) {
	pool := newPool(t, newDatabase(t), nil)
	var bad *migrations.SchemaError
	for _, schema := range []string{"pg_mine", "information_schema", "nul\x00", "\xff", strings.Repeat("n", 64)} {
		if err := migrations.Up(testContext(t), pool, schema); !errors.As(err, &bad) {
			t.Errorf("up of %q: %v", schema, err)
		}
	}
	if err := migrations.Up(testContext(t), nil, ""); err == nil {
		t.Error("up of no database succeeded")
	}
}
