package migrations_test

import (
	"fmt"
	"regexp"
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
	upTo(t, pool, version)
	return pool
}

// upTo brings a database to a version that is newer than its own.
func upTo(t *testing.T, pool *pgxpool.Pool, version uint) {
	t.Helper()
	files, err := copyFiles("pgqueue")
	if err != nil {
		t.Fatal(err)
	}
	if err := migrations.UpWith(testContext(t), pool, "", migrations.Source{Files: files, Latest: version}); err != nil {
		t.Fatal(err)
	}
}

// Programs that were built for a version work on the next: all that they use is as it was.
func TestEachVersionTakesNothingAwayFromTheOneBefore(t *testing.T) {
	for version := uint(2); version < migrations.Latest; version++ {
		t.Run(fmt.Sprintf("%d to %d", version, version+1), func(t *testing.T) {
			pool := at(t, version)
			// The columns of tables and views, indexes, constraints, storage parameters, and what functions take, return and are allowed.
			describe := func() []string {
				t.Helper()
				return rows(t, pool, `
					WITH r AS (SELECT oid FROM pg_class WHERE relnamespace = 'pgqueue'::regnamespace AND relkind IN ('r', 'p', 'v')
					           AND relname !~ '^(history_[0-9]{8}|pgqueue_migrations)$')
					SELECT format('%s.%s %s %s %s', attrelid::regclass, attname, format_type(atttypid, atttypmod), attnotnull, pg_get_expr(d.adbin, d.adrelid))
					FROM pg_attribute a JOIN r ON r.oid = attrelid LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum WHERE attnum > 0
					UNION ALL SELECT pg_get_indexdef(indexrelid) FROM pg_index JOIN r ON r.oid = indrelid
					UNION ALL SELECT conrelid::regclass || ' ' || pg_get_constraintdef(k.oid) FROM pg_constraint k JOIN r ON r.oid = conrelid AND contype <> 'n'
					UNION ALL SELECT relname || ' ' || coalesce(reloptions::text, '') FROM pg_class JOIN r USING (oid)
					UNION ALL SELECT concat_ws(' ', p.oid::regprocedure, pg_get_function_result(p.oid), p.provolatile, p.prosecdef, p.proacl,
					                           pg_get_function_arguments(p.oid))
					          FROM pg_proc p WHERE p.pronamespace = 'pgqueue'::regnamespace
					ORDER BY 1`)
			}
			missing := func(from, in []string) (lost []string) {
				for _, line := range from {
					if !slices.Contains(in, line) {
						lost = append(lost, line)
					}
				}
				return lost
			}
			before, objectsBefore := describe(), objects(t, pool, "pgqueue")
			upTo(t, pool, version+1)
			now := describe()
			if lost := missing(append(before, objectsBefore...), append(now, objects(t, pool, "pgqueue")...)); len(lost) > 0 {
				t.Errorf("gone, or other than before:\n%s", strings.Join(lost, "\n"))
			}
			if len(before) < 80 {
				t.Errorf("only %d things were compared", len(before))
			}
			// Every job pays for what jobs and history carry: nothing may be added in passing.
			for _, line := range missing(now, before) {
				if regexp.MustCompile(`pgqueue\.(jobs|history|history_attention)\b(\.| USING)`).MatchString(line) {
					t.Errorf("new: %s", line)
				}
			}
		})
	}
}

// Each version, down by itself, leaves the one before to the letter, with jobs in it.
func TestEachVersionDownIsTheOneBefore(t *testing.T) {
	for version := uint(3); version <= migrations.Latest; version++ {
		t.Run(fmt.Sprintf("%d", version), func(t *testing.T) {
			pool := at(t, version-1)
			whole := func() []string {
				return append(objects(t, pool, "pgqueue"), rows(t, pool, `
					SELECT pg_get_functiondef(oid) || obj_description(oid, 'pg_proc') || coalesce(proacl::text, '') FROM pg_proc WHERE pronamespace = 'pgqueue'::regnamespace
					UNION ALL SELECT oid::regclass || pg_get_viewdef(oid) || obj_description(oid, 'pg_class') || coalesce(relacl::text, '') FROM pg_class WHERE relnamespace = 'pgqueue'::regnamespace AND relkind = 'v'
					UNION ALL SELECT format('%s.%s %s %s', attrelid::regclass, attname, format_type(atttypid, atttypmod), col_description(attrelid, attnum))
					FROM pg_attribute JOIN pg_class c ON c.oid = attrelid
					WHERE c.relnamespace = 'pgqueue'::regnamespace AND c.relkind IN ('r', 'p', 'v') AND attnum > 0 AND NOT attisdropped
					ORDER BY 1`)...)
			}
			run(t, pool, `GRANT SELECT ON ALL TABLES IN SCHEMA pgqueue TO PUBLIC; GRANT SELECT ON ALL TABLES IN SCHEMA pgqueue TO pg_monitor WITH GRANT OPTION`)
			before := whole()
			upTo(t, pool, version)
			jobsOfEveryKind(t, pool)
			run(t, pool, `SELECT pgqueue.cached_stats('0')`)
			down, err := downText(version)
			if err != nil {
				t.Fatal(err)
			}
			run(t, pool, down)
			after := whole()
			for i := range max(len(before), len(after)) {
				if i >= len(before) || i >= len(after) || before[i] != after[i] {
					t.Fatalf("before:\n%s\nafter:\n%s", strings.Join(before[min(i, len(before)):min(i+3, len(before))], "\n"), strings.Join(after[min(i, len(after)):min(i+3, len(after))], "\n"))
				}
			}
			run(t, pool, `UPDATE pgqueue.pgqueue_migrations SET version = $1`, version-1)
			mustUp(t, pool, "")
			requireNoDrift(t, pool, "")
			requireWords(t, why(t, pool, 1), `^Job 1 `)
		})
	}
}

// Without a primary key, a publication for all tables would refuse every UPDATE and DELETE.
func TestEveryTableHasAPrimaryKey(t *testing.T) {
	pool := installed(t, "")
	if bare := rows(t, pool, `SELECT c.relname::text FROM pg_class c WHERE c.relnamespace = 'pgqueue'::regnamespace AND c.relkind IN ('r', 'p')
		AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary)`); len(bare) > 0 {
		t.Errorf("without a primary key: %q", bare)
	}
}
