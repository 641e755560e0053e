package migrations_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/migrations"
)

func validate(t *testing.T, db migrations.Database, schema string) migrations.Drift {
	t.Helper()
	drift, err := migrations.Validate(testContext(t), db, schema)
	if err != nil {
		t.Fatalf("validate %q: %v", schema, err)
	}
	return drift
}

// requireNoDrift fails with what differs.
func requireNoDrift(t *testing.T, db migrations.Database, schema string) {
	t.Helper()
	if drift := validate(t, db, schema); !drift.Empty() || drift.String() != "" {
		t.Errorf("schema %q differs:\n%s", schema, drift)
	}
}

func TestValidate_FindsNothingInAFreshInstallationOfAnyName(t *testing.T) {
	pool := newPool(t, newDatabase(t), nil)
	for _, schema := range oddSchemas() {
		mustUp(t, pool, schema)
	}
	mustUp(t, pool, "")
	for _, schema := range append(oddSchemas(), "") { // with all the others beside it
		requireNoDrift(t, pool, schema)
	}
}

// Each thing that is changed is told, in one line, and nothing beside it.
func TestValidate_TellsWhatDiffers(t *testing.T) {
	pool := installed(t, odd)
	for _, c := range []struct{ do, want string }{
		{`DROP INDEX {s}.jobs_ready`, "missing: index jobs_ready\n"},
		{`CREATE INDEX mine ON {s}.jobs (kind)`, "not ours: index mine\n"},
		{`DROP INDEX {s}.jobs_running; CREATE INDEX jobs_running ON {s}.jobs (queue, id) WHERE state = 'running'`,
			"missing: comment index jobs_running\nchanged: index jobs_running: definition is btree (queue, id) WHERE (state = 'running'::text) and should be btree (queue, claimed_at, id) WHERE (state = 'running'::text)\n"},
		{`UPDATE pg_index SET indisvalid = false WHERE indexrelid = '{s}.jobs_key'::regclass`, "changed: index jobs_key: valid is false and should be true\n"},
		{`ALTER TABLE {s}.jobs ADD COLUMN mine int`, "not ours: column jobs.mine\n"},
		{`ALTER TABLE {s}.jobs ALTER COLUMN max_attempts SET DEFAULT 9, ALTER COLUMN queue DROP NOT NULL`,
			"changed: column jobs.max_attempts: default is 9 and should be 3\nchanged: column jobs.queue: not null is false and should be true\n"},
		{`ALTER TABLE {s}.jobs ALTER COLUMN queue SET DEFAULT 'mail'`, "changed: column jobs.queue: default is 'mail'::text and should be unset\n"},
		{`ALTER TABLE {s}.jobs ALTER COLUMN payload DROP DEFAULT`, "changed: column jobs.payload: default is unset and should be '{}'::jsonb\n"},
		{`ALTER TABLE {s}.jobs DROP CONSTRAINT jobs_state_check, ADD CONSTRAINT mine CHECK (id > 0)`,
			"missing: constraint jobs.jobs_state_check\nnot ours: constraint jobs.mine\n"},
		{`ALTER TABLE {s}.queues DROP CONSTRAINT queues_pkey`, "missing: constraint queues.queues_pkey\n"},
		{`ALTER TABLE {s}.queues SET UNLOGGED`, "changed: table queues: persistence is u and should be p\n"},
		{`ALTER TABLE {s}.jobs SET (fillfactor = 100)`, "changed: storage jobs.fillfactor: value is 100 and should be 70\n"},
		{`ALTER SEQUENCE {s}.jobs_id_seq INCREMENT BY 10`, "changed: sequence jobs_id_seq: increment is 10 and should be 1\n"},
		{`DROP FUNCTION {s}.cancel(bigint)`, "missing: function cancel(id bigint)\n"},
		{`CREATE FUNCTION {s}.cancel(id text) RETURNS text LANGUAGE sql AS 'SELECT id'`, "not ours: function cancel(id text)\n"},
		{`CREATE OR REPLACE FUNCTION {s}.goodbye(id text) RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS 'SELECT NULL'`,
			"changed: function goodbye(id text): its body differs\n"},
		{`GRANT EXECUTE ON FUNCTION {s}.goodbye(text) TO PUBLIC`, "changed: function goodbye(id text): public may execute is true and should be false\n"},
		{`DROP VIEW {s}.stuck_jobs`, "missing: view stuck_jobs\n"},
		{`DO $$ BEGIN EXECUTE 'CREATE OR REPLACE VIEW {s}.needs_attention AS SELECT * FROM (' ||
			rtrim(pg_get_viewdef('{s}.needs_attention'::regclass), ';') || ') x WHERE false'; END $$`, "changed: view needs_attention: its query differs\n"},
		{`COMMENT ON COLUMN {s}.jobs.key IS NULL; COMMENT ON TABLE {s}.jobs IS 'mine'`, "missing: comment column jobs.key\n"},
		{`DROP TABLE {s}.stats_cache`, "missing: table stats_cache\n"}, // and not its columns
		{`ALTER TABLE {s}.history DETACH PARTITION {s}.history_attention`,
			"changed: table history_attention: partition is unset and should be FOR VALUES FROM ('infinity') TO (MAXVALUE)\n"},
		{`UPDATE {s}.pgqueue_migrations SET dirty = true`, "changed: schema {name}: dirty is true and should be unset\n"},
	} {
		// Each change is rolled back, so that all start from the same.
		tx, err := pool.Begin(testContext(t))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(testContext(t), strings.ReplaceAll(c.do, "{s}", pgx.Identifier{odd}.Sanitize())); err != nil {
			t.Fatalf("%s: %v", c.do, err)
		}
		drift := validate(t, inside{tx}, odd)
		if want := strings.ReplaceAll(c.want, "{name}", odd); drift.String() != want || drift.Empty() {
			t.Errorf("%s:\n%swant\n%s", c.do, drift, want)
		}
		if err := tx.Rollback(testContext(t)); err != nil {
			t.Fatal(err)
		}
	}
	requireNoDrift(t, pool, odd)
}

// odd is a schema that needs quoting.
const odd = `My "jobs"; --`

// inside is a database that shows what a transaction has changed: it begins a savepoint.
type inside struct{ pgx.Tx }

func (i inside) BeginTx(ctx context.Context, _ pgx.TxOptions) (pgx.Tx, error) { return i.Begin(ctx) }

// The lists, for programs.
func TestValidate_ListsAreSortedAndSayBothSides(t *testing.T) {
	pool := installed(t, "")
	run(t, pool, `ALTER TABLE pgqueue.jobs ADD COLUMN b int, ADD COLUMN a int; DROP INDEX pgqueue.jobs_ready; ALTER TABLE pgqueue.jobs SET (fillfactor = 90)`)
	drift := validate(t, pool, "")
	if len(drift.Missing) != 1 || len(drift.Extra) != 2 || len(drift.Changed) != 1 {
		t.Fatalf("drift: %+v", drift)
	}
	missing, extra, changed := drift.Missing[0], drift.Extra[0], drift.Changed[0]
	if missing.Have != nil || missing.Parent != "jobs" || missing.Want["table"] != "jobs" || missing.Want["unique"] != "false" {
		t.Errorf("missing: %+v", missing)
	}
	if extra.Name != "jobs.a" || extra.Want != nil || extra.Parent != "jobs" || extra.Have["type"] != "integer" {
		t.Errorf("extra: %+v", extra)
	}
	if changed.Kind != "storage" || changed.Parent != "jobs" || changed.Want["value"] != "70" || changed.Have["value"] != "90" || changed.Explain() != "value is 90 and should be 70" {
		t.Errorf("changed: %+v", changed)
	}
}

func TestValidate_LeavesOthersAlone(t *testing.T) {
	pool := installed(t, "public")
	run(t, pool, `
		CREATE TABLE theirs (id int PRIMARY KEY, jobs_id int);
		CREATE INDEX theirs_index ON theirs (jobs_id);
		CREATE VIEW their_jobs AS SELECT * FROM jobs;
		CREATE SEQUENCE their_sequence;
		CREATE FUNCTION theirs() RETURNS int LANGUAGE sql AS 'SELECT 1';
		CREATE MATERIALIZED VIEW their_counts AS SELECT count(*) FROM jobs;
		COMMENT ON TABLE theirs IS 'theirs'; COMMENT ON TABLE jobs IS 'pgqueue, and ours';
		REVOKE EXECUTE ON FUNCTION enqueue FROM PUBLIC;
		SELECT ensure_history(20);
		DO $$ BEGIN
			EXECUTE format('ALTER TABLE history DETACH PARTITION history_%s', to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD'));
			IF current_setting('server_version_num')::int >= 150000 THEN ALTER VIEW job_log SET (security_invoker = true); END IF;
		END $$;
		SELECT enqueue('k')`)
	mustUp(t, pool, "other")
	run(t, pool, `ALTER TABLE other.jobs ADD COLUMN mine int`)
	requireNoDrift(t, pool, "public")
	if drift := validate(t, pool, "other"); drift.String() != "not ours: column jobs.mine\n" {
		t.Errorf("the other schema: %s", drift)
	}
}

func TestValidate_OtherVersionsAndNone(t *testing.T) {
	// An older one: the version, and what it has not.
	pool := at(t, 2)
	drift := validate(t, pool, "")
	for _, want := range []string{fmt.Sprintf("changed: schema pgqueue: version is 2 and should be %d\n", migrations.Latest), "missing: table workers\n", "missing: view queue_stats\n",
		"changed: function drop_history(keep interval): its body differs\n", "missing: function why_not_running(id bigint)\n"} {
		if !strings.Contains(drift.String(), want) {
			t.Errorf("version 2 lacks %q:\n%s", want, drift)
		}
	}
	if columns := strings.Count(drift.String(), " column "); len(drift.Extra) != 0 || columns != 1 || !strings.Contains(drift.String(), "missing: column queues.paused_until\n") {
		t.Errorf("version 2:\n%s", drift)
	}
	mustUp(t, pool, "")
	requireNoDrift(t, pool, "")

	// A newer one.
	if err := migrations.UpWith(testContext(t), pool, "", oneMore(t, `CREATE TABLE pgqueue.more (id int); ALTER TABLE pgqueue.jobs ADD COLUMN more int`)); err != nil {
		t.Fatal(err)
	}
	if got := validate(t, pool, "").String(); got != fmt.Sprintf("not ours: column jobs.more\nchanged: schema pgqueue: version is %d and should be %d\n", more, migrations.Latest) {
		t.Errorf("a newer version:\n%s", got)
	}

	// None at all.
	none := validate(t, pool, "nowhere")
	if len(none.Extra)+len(none.Changed) > 0 || !strings.Contains(none.String(), "missing: schema nowhere\n") || !strings.Contains(none.String(), "missing: table jobs\n") {
		t.Errorf("no schema at all:\n%s", none)
	}
}

func TestValidate_NeedsNoMoreThanTheVersionTable(t *testing.T) {
	url := newDatabase(t)
	admin := newPool(t, url, nil)
	mustUp(t, admin, "")
	role := "looks_" + value[string](t, admin, `SELECT current_database()::text`)
	run(t, admin, `CREATE ROLE `+role+` LOGIN; ALTER ROLE `+role+` SET default_transaction_read_only = on; ALTER ROLE `+role+` SET search_path = nowhere`)
	for mode, name := range map[pgx.QueryExecMode]string{pgx.QueryExecModeCacheStatement: "statement", pgx.QueryExecModeSimpleProtocol: "simple"} {
		pool := newPool(t, url, func(config *pgxpool.Config) {
			config.ConnConfig.User = role
			config.MaxConns = 1
			config.ConnConfig.DefaultQueryExecMode = mode
		})
		var pgErr *pgconn.PgError
		run(t, admin, `REVOKE ALL ON SCHEMA pgqueue FROM `+role)
		if _, err := migrations.Validate(testContext(t), pool, ""); !errors.As(err, &pgErr) || pgErr.Code != "42501" || !strings.Contains(err.Error(), `schema "pgqueue"`) {
			t.Errorf("%s: without a right: %v", name, err)
		}
		run(t, admin, `GRANT USAGE ON SCHEMA pgqueue TO `+role+`; GRANT SELECT ON pgqueue.pgqueue_migrations TO `+role)
		requireNoDrift(t, pool, "")
		if path := value[string](t, pool, `SELECT current_setting('search_path') || ' ' || current_setting('lock_timeout')`); path != "nowhere 0" {
			t.Errorf("%s: the caller's connection was left with %q", name, path)
		}
	}
	var bad *migrations.SchemaError
	if _, err := migrations.Validate(testContext(t), admin, "pg_mine"); !errors.As(err, &bad) {
		t.Errorf("a bad name: %v", err)
	}
	if _, err := migrations.Validate(testContext(t), nil, ""); err == nil {
		t.Error("no database, no error")
	}
}
