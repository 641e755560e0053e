package doctor

import (
	"strings"
	"testing"

	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// provocation is one thing gone wrong: SQL brings it about, a check must find it, and the statements of its finding must mend it.
type provocation struct {
	name    string
	check   string // the check that must find it
	subject string // part of the finding's subject
	// do brings it about, statement by statement; {s} is the quoted schema.
	do []string
	// options for the examination; nil: the defaults.
	options *Options
	// severity, if it is not the check's worst.
	severity Severity
}

// run provokes, finds, mends as the findings say, and sees that everything is well again: not this check alone, all of them.
func (p provocation) run(t *testing.T, db *pgqueuetest.DB) {
	t.Helper()
	var options Options
	if p.options != nil {
		options = *p.options
	}
	for _, sql := range p.do {
		execute(t, db.Pool, strings.ReplaceAll(sql, "{s}", ident(db.Schema)))
	}
	f := await(t, db, options, p.check, p.subject)
	want := p.severity
	if want == 0 {
		for _, c := range Checks() {
			if c.ID == p.check {
				want = c.Severity
			}
		}
	}
	if f.Severity != want {
		t.Errorf("it is found as %v, want %v: %s", f.Severity, want, f.Summary)
	}
	mend(t, db, options)
}

// mend executes the statements of all findings in their order, twice at most: a fix may bring to light what it covered, such as a
// table that was detached by half.
func mend(t *testing.T, db *pgqueuetest.DB, options Options) {
	t.Helper()
	for range 2 {
		for _, f := range quiet(examine(t, db, options).Findings) {
			apply(t, db, f)
		}
		if len(quiet(examine(t, db, options).Findings)) == 0 {
			return
		}
	}
	report := examine(t, db, options)
	if len(quiet(report.Findings)) > 0 {
		t.Errorf("mended, and still not well:\n%s", report)
	}
}

// runAll runs provocations, each in a database of its own whose schema needs quoting.
func runAll(t *testing.T, all []provocation) {
	for _, p := range all {
		t.Run(p.check+" "+p.name, func(t *testing.T) {
			t.Parallel()
			p.run(t, pgqueuetest.New(t, pgqueuetest.WithSchema(odd)))
		})
	}
}

func TestDriftOfTablesAndColumns(t *testing.T) {
	t.Parallel()
	runAll(t, []provocation{
		{check: "drift-table", name: "jobs is gone", subject: "jobs", do: []string{`DROP TABLE {s}.jobs CASCADE`}},
		{check: "drift-table", name: "history is gone", subject: "history", do: []string{`DROP TABLE {s}.history CASCADE`}},
		{check: "drift-table", name: "history_attention is gone", subject: "history_attention", do: []string{`DROP TABLE {s}.history_attention CASCADE`}},
		{check: "drift-table", name: "queues is gone", subject: "queues", do: []string{`DROP TABLE {s}.queues CASCADE`}},
		{check: "drift-table", name: "workers is gone", subject: "workers", do: []string{`DROP TABLE {s}.workers CASCADE`}},
		{check: "drift-table", name: "stats_cache is gone", subject: "stats_cache", do: []string{`DROP TABLE {s}.stats_cache CASCADE`}},
		{check: "drift-table", name: "jobs is unlogged", subject: "jobs", do: []string{`ALTER TABLE {s}.jobs SET UNLOGGED`}},
		{check: "drift-table", name: "replica identity", subject: "jobs", severity: Info, do: []string{`ALTER TABLE {s}.jobs REPLICA IDENTITY FULL`}},
		{check: "drift-table", name: "history_attention is detached", subject: "history_attention",
			do: []string{`ALTER TABLE {s}.history DETACH PARTITION {s}.history_attention`}},

		{check: "drift-column", name: "dropped", subject: "jobs.tags", do: []string{`ALTER TABLE {s}.jobs DROP COLUMN tags CASCADE`}},
		{check: "drift-column", name: "dropped with its index and constraint", subject: "jobs.key", do: []string{`ALTER TABLE {s}.jobs DROP COLUMN key CASCADE`}},
		{check: "drift-column", name: "dropped from history", subject: "history.result", do: []string{`ALTER TABLE {s}.history DROP COLUMN result CASCADE`}},
		{check: "drift-column", name: "added", subject: "jobs.tenant", severity: Warning, do: []string{`ALTER TABLE {s}.jobs ADD COLUMN tenant text`}},
		{check: "drift-column", name: "added and required", subject: "jobs.tenant", do: []string{`ALTER TABLE {s}.jobs ADD COLUMN tenant text NOT NULL`}},
		{check: "drift-column", name: "another type", subject: "queues.paused_reason",
			do: []string{`DROP VIEW {s}.paused CASCADE`, `ALTER TABLE {s}.queues ALTER COLUMN paused_reason TYPE varchar(10)`}},
		{check: "drift-column", name: "another type with a default", subject: "jobs.error_count",
			do: []string{`DO $$ DECLARE v text; BEGIN
				FOREACH v IN ARRAY ARRAY (SELECT c.oid::regclass::text FROM pg_class c WHERE c.relnamespace = quote_ident('My "jobs"; --')::regnamespace AND c.relkind = 'v') LOOP
					EXECUTE 'DROP VIEW IF EXISTS ' || v || ' CASCADE';
				END LOOP; END $$`, `ALTER TABLE {s}.jobs ALTER COLUMN error_count TYPE bigint`}},
		{check: "drift-column", name: "another default", subject: "jobs.max_attempts", do: []string{`ALTER TABLE {s}.jobs ALTER COLUMN max_attempts SET DEFAULT 1`}},
		{check: "drift-column", name: "no default", subject: "jobs.payload", do: []string{`ALTER TABLE {s}.jobs ALTER COLUMN payload DROP DEFAULT`}},
		{check: "drift-column", name: "a default where none is", subject: "jobs.queue", do: []string{`ALTER TABLE {s}.jobs ALTER COLUMN queue SET DEFAULT 'mail'`}},
		{check: "drift-column", name: "may be null", subject: "jobs.queue", do: []string{`ALTER TABLE {s}.jobs ALTER COLUMN queue DROP NOT NULL`}},
		{check: "drift-column", name: "may not be null", subject: "jobs.errors", do: []string{`ALTER TABLE {s}.jobs ALTER COLUMN errors SET NOT NULL`}},
		{check: "drift-column", name: "no numbers", subject: "jobs.id", do: []string{`ALTER TABLE {s}.jobs ALTER COLUMN id DROP IDENTITY`}},
	})
}

func TestDriftOfConstraintsIndexesAndSequences(t *testing.T) {
	t.Parallel()
	runAll(t, []provocation{
		{check: "drift-constraint", name: "dropped", subject: "jobs.jobs_state_check", severity: Warning,
			do: []string{`ALTER TABLE {s}.jobs DROP CONSTRAINT jobs_state_check`}},
		{check: "drift-constraint", name: "no primary key", subject: "jobs.jobs_pkey", do: []string{`ALTER TABLE {s}.jobs DROP CONSTRAINT jobs_pkey`}},
		{check: "drift-constraint", name: "no primary key of history", subject: "history.history_pkey",
			do: []string{`ALTER TABLE {s}.history DROP CONSTRAINT history_pkey`}},
		{check: "drift-constraint", name: "added", subject: "jobs.mine", severity: Warning,
			do: []string{`ALTER TABLE {s}.jobs ADD CONSTRAINT mine CHECK (queue <> 'x')`}},
		{check: "drift-constraint", name: "added and unique", subject: "queues.mine", severity: Warning,
			do: []string{`ALTER TABLE {s}.queues ADD CONSTRAINT mine UNIQUE (created_at)`}},
		{check: "drift-constraint", name: "changed", subject: "jobs.jobs_priority_check", severity: Warning,
			do: []string{`ALTER TABLE {s}.jobs DROP CONSTRAINT jobs_priority_check, ADD CONSTRAINT jobs_priority_check CHECK (priority BETWEEN 1 AND 9)`}},
		{check: "drift-constraint", name: "not validated", subject: "jobs.jobs_kind_check", severity: Warning,
			do: []string{`ALTER TABLE {s}.jobs DROP CONSTRAINT jobs_kind_check, ADD CONSTRAINT jobs_kind_check CHECK (octet_length(kind) BETWEEN 1 AND 128) NOT VALID`}},

		{check: "drift-index", name: "dropped", subject: "jobs_ready", do: []string{`DROP INDEX {s}.jobs_ready`}},
		{check: "drift-index", name: "dropped, a unique one", subject: "jobs_key", do: []string{`DROP INDEX {s}.jobs_key`}},
		{check: "drift-index", name: "of another shape", subject: "jobs_running",
			do: []string{`DROP INDEX {s}.jobs_running`, `CREATE INDEX jobs_running ON {s}.jobs (queue, id) WHERE state = 'running'`}},
		{check: "drift-index", name: "no longer unique", subject: "jobs_key",
			do: []string{`DROP INDEX {s}.jobs_key`, `CREATE INDEX jobs_key ON {s}.jobs (queue, kind, key) WHERE key IS NOT NULL`}},
		{check: "drift-index", name: "a fifth", subject: "jobs_by_tag", severity: Warning, do: []string{`CREATE INDEX jobs_by_tag ON {s}.jobs USING gin (tags)`}},
		{check: "drift-index", name: "one more on history_attention", subject: "by_kind", severity: Info,
			do: []string{`CREATE INDEX by_kind ON {s}.history_attention (kind)`}},

		{check: "drift-sequence", name: "steps", subject: "jobs_id_seq", do: []string{`ALTER SEQUENCE {s}.jobs_id_seq INCREMENT BY 10`}},
		{check: "drift-sequence", name: "a circle", subject: "jobs_id_seq", do: []string{`ALTER SEQUENCE {s}.jobs_id_seq CYCLE MAXVALUE 1000`}},
		{check: "drift-sequence", name: "small numbers", subject: "jobs_id_seq", do: []string{`ALTER SEQUENCE {s}.jobs_id_seq AS int`}},
	})
}

func TestDriftOfFunctionsViewsAndTheRest(t *testing.T) {
	t.Parallel()
	runAll(t, []provocation{
		{check: "drift-function", name: "dropped", subject: "cancel", do: []string{`DROP FUNCTION {s}.cancel(bigint)`}},
		{check: "drift-function", name: "one of two of the same name", subject: "in_words(span interval)", do: []string{`DROP FUNCTION {s}.in_words(interval)`}},
		{check: "drift-function", name: "another body", subject: "goodbye", do: []string{
			`CREATE OR REPLACE FUNCTION {s}.goodbye(id text) RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS 'SELECT NULL'`}},
		{check: "drift-function", name: "other settings", subject: "ensure_history", do: []string{`ALTER FUNCTION {s}.ensure_history(int) SET lock_timeout = '1h'`}},
		{check: "drift-function", name: "the caller's rights", subject: "drop_history", do: []string{`ALTER FUNCTION {s}.drop_history(interval) SECURITY INVOKER`}},
		{check: "drift-function", name: "another result", subject: "goodbye", do: []string{`DROP FUNCTION {s}.goodbye(text)`,
			`CREATE FUNCTION {s}.goodbye(id text) RETURNS int LANGUAGE sql AS 'SELECT 1'`}},
		{check: "drift-function", name: "another default", subject: "ensure_history", do: []string{
			`CREATE OR REPLACE FUNCTION {s}.ensure_history(ahead int DEFAULT 1) RETURNS int LANGUAGE sql AS 'SELECT 1'`}},
		{check: "drift-function", name: "doubled", subject: "cancel(id text)", severity: Warning,
			do: []string{`CREATE FUNCTION {s}.cancel(id text) RETURNS text LANGUAGE sql AS 'SELECT id'`}},
		{check: "drift-function", name: "for everybody", subject: "retry", severity: Warning, do: []string{`GRANT EXECUTE ON FUNCTION {s}.retry(bigint) TO PUBLIC`}},

		{check: "drift-trigger", name: "dropped", subject: "schedule_changed", do: []string{`DROP TRIGGER schedule_changed ON {s}.schedules`}},
		{check: "drift-trigger", name: "off", subject: "schedule_changed", do: []string{`ALTER TABLE {s}.schedules DISABLE TRIGGER ALL`}},
		{check: "drift-trigger", name: "of another shape", subject: "schedule_changed", do: []string{`DROP TRIGGER schedule_changed ON {s}.schedules`,
			`CREATE TRIGGER schedule_changed AFTER DELETE ON {s}.schedules FOR EACH ROW EXECUTE FUNCTION {s}.schedule_changed()`}},
		{check: "drift-function", name: "dropped with its trigger", subject: "schedule_changed", do: []string{`DROP FUNCTION {s}.schedule_changed() CASCADE`}},
		{check: "drift-table", name: "dropped with its trigger", subject: "schedules", do: []string{`DROP TABLE {s}.schedules CASCADE`}},
		{check: "drift-table", name: "dropped with the views on it", subject: "paused_kinds", do: []string{`DROP TABLE {s}.paused_kinds CASCADE`}},
		{check: "drift-column", name: "dropped with the views on it", subject: "queues.paused_until", do: []string{`ALTER TABLE {s}.queues DROP COLUMN paused_until CASCADE`}},
		{check: "drift-view", name: "dropped", subject: "stuck_jobs", do: []string{`DROP VIEW {s}.stuck_jobs CASCADE`}},
		{check: "drift-view", name: "another query", subject: "needs_attention", severity: Warning, do: []string{
			`DO $$ BEGIN EXECUTE 'CREATE OR REPLACE VIEW {s}.needs_attention AS SELECT * FROM (' ||
				rtrim(pg_get_viewdef('{s}.needs_attention'::regclass), ';') || ') x WHERE false'; END $$`}},
		{check: "drift-view", name: "other columns", subject: "live_workers", do: []string{
			`DROP VIEW {s}.live_workers CASCADE`, `CREATE VIEW {s}.live_workers AS SELECT * FROM {s}.workers`}},

		{check: "drift-storage", name: "fillfactor", subject: "jobs", do: []string{`ALTER TABLE {s}.jobs SET (fillfactor = 100)`}},
		{check: "drift-storage", name: "back to the default", subject: "jobs", do: []string{`ALTER TABLE {s}.jobs RESET (autovacuum_vacuum_threshold)`}},
		{check: "drift-storage", name: "one more", subject: "jobs", severity: Info, do: []string{`ALTER TABLE {s}.jobs SET (autovacuum_vacuum_cost_limit = 1000)`}},
		{check: "drift-storage", name: "of the toast table", subject: "workers", do: []string{`ALTER TABLE {s}.workers SET (toast.autovacuum_vacuum_threshold = 9)`}},

		{check: "drift-comment", name: "a few", subject: "schema", do: []string{
			`COMMENT ON TABLE {s}.jobs IS NULL`, `COMMENT ON COLUMN {s}.jobs.key IS NULL`, `COMMENT ON INDEX {s}.jobs_key IS NULL`,
			`COMMENT ON FUNCTION {s}.retry(bigint) IS NULL`, `COMMENT ON VIEW {s}.attempts IS NULL`, `COMMENT ON SEQUENCE {s}.jobs_id_seq IS NULL`,
			`COMMENT ON COLUMN {s}.live_workers.id IS NULL`}},
	})
}
