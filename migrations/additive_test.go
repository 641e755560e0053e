package migrations_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/migrations"
)

// at brings an empty database to an older version; 0 leaves it empty.
func at(t *testing.T, version uint) *pgxpool.Pool {
	t.Helper()
	pool := newPool(t, newDatabase(t), nil)
	if version == 0 {
		return pool
	}
	files, err := copyFiles("pgqueue")
	if err != nil {
		t.Fatal(err)
	}
	if err := migrations.UpWith(testContext(t), pool, "", migrations.Source{Files: files, Latest: version}); err != nil {
		t.Fatal(err)
	}
	return pool
}

// Programs that were built for version 2 work on version 3: all that they use is as it was.
func TestVersion3_TakesNothingAwayFromVersion2(t *testing.T) {
	pool := at(t, 2)
	// Tables with their columns, indexes, constraints and settings, and the functions' signatures.
	describe := func() []string {
		t.Helper()
		return rows(t, pool, `
			SELECT format('%s.%s %s %s %s', attrelid::regclass, attname, format_type(atttypid, atttypmod), attnotnull, pg_get_expr(d.adbin, d.adrelid))
			FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
			WHERE attrelid IN ('pgqueue.jobs'::regclass, 'pgqueue.history'::regclass, 'pgqueue.history_attention'::regclass, 'pgqueue.queues'::regclass) AND attnum > 0
			UNION ALL SELECT pg_get_indexdef(indexrelid) FROM pg_index
			WHERE indrelid IN ('pgqueue.jobs'::regclass, 'pgqueue.history'::regclass, 'pgqueue.history_attention'::regclass, 'pgqueue.queues'::regclass)
			UNION ALL SELECT conrelid::regclass || ' ' || pg_get_constraintdef(oid) FROM pg_constraint WHERE connamespace = 'pgqueue'::regnamespace
			                 AND conrelid IN ('pgqueue.jobs'::regclass, 'pgqueue.history'::regclass, 'pgqueue.queues'::regclass) AND contype <> 'n'
			UNION ALL SELECT relname || ' ' || coalesce(reloptions::text, '') FROM pg_class WHERE oid IN ('pgqueue.jobs'::regclass, 'pgqueue.history_attention'::regclass)
			UNION ALL SELECT p.oid::regprocedure || ' ' || pg_get_function_result(p.oid) || ' ' || p.provolatile::text || ' ' || p.prosecdef || ' ' || coalesce(p.proacl::text, '') FROM pg_proc p
			WHERE p.pronamespace = 'pgqueue'::regnamespace AND p.proname IN ('enqueue', 'ensure_history', 'drop_history', 'expire_attention', 'pause', 'resume', 'retry', 'cancel', 'set_max_attempts')
			ORDER BY 1`)
	}
	before, objectsBefore := describe(), objects(t, pool, "pgqueue")
	mustUp(t, pool, "")
	if after := describe(); !slices.Equal(before, after) {
		t.Errorf("before:\n%s\nafter:\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
	}
	now := objects(t, pool, "pgqueue")
	for _, object := range objectsBefore {
		if !slices.Contains(now, object) {
			t.Errorf("%s is gone", object)
		}
	}
	if len(before) < 80 {
		t.Errorf("only %d things were compared", len(before))
	}
}

// Version 3, down by itself, leaves version 2 to the letter, with jobs in it.
func TestVersion3_DownIsVersion2(t *testing.T) {
	pool := at(t, 2)
	whole := func() []string {
		return append(objects(t, pool, "pgqueue"), rows(t, pool, `SELECT pg_get_functiondef(oid) || obj_description(oid, 'pg_proc') || coalesce(proacl::text, '') FROM pg_proc
			WHERE pronamespace = 'pgqueue'::regnamespace ORDER BY proname`)...)
	}
	before := whole()
	mustUp(t, pool, "")
	jobsOfEveryKind(t, pool)
	run(t, pool, `SELECT pgqueue.cached_stats('0')`)
	down, err := templateText("0003_seeing.down.sql")
	if err != nil {
		t.Fatal(err)
	}
	run(t, pool, down)
	if after := whole(); !slices.Equal(before, after) {
		t.Errorf("before:\n%s\nafter:\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
	}
	run(t, pool, `UPDATE pgqueue.pgqueue_migrations SET version = 2`)
	mustUp(t, pool, "")
	requireWords(t, why(t, pool, 1), `^Job 1 `)
}

// Without a primary key, a publication for all tables would refuse every UPDATE and DELETE.
func TestEveryTableHasAPrimaryKey(t *testing.T) {
	pool := installed(t, "")
	if bare := rows(t, pool, `SELECT c.relname::text FROM pg_class c WHERE c.relnamespace = 'pgqueue'::regnamespace AND c.relkind IN ('r', 'p')
		AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary)`); len(bare) > 0 {
		t.Errorf("without a primary key: %q", bare)
	}
}
