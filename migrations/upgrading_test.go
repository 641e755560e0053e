package migrations_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/migrations"
)

// sqlBlocks returns the blocks of SQL of a page.
func sqlBlocks(t *testing.T, page string) []string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, m := range regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		blocks = append(blocks, m[1])
	}
	return blocks
}

// granted runs SQL in a transaction that is rolled back, for roles belong to the whole server, and returns all rights that came of it.
func granted(t *testing.T, pool *pgxpool.Pool, blocks ...string) []string {
	t.Helper()
	ctx := testContext(t)
	tx, err := pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(ctx) }()
	for _, block := range blocks {
		if _, err := tx.Exec(ctx, block); err != nil {
			t.Fatalf("%v:\n%s", err, block)
		}
	}
	found, err := tx.Query(ctx, `
		WITH acl AS (
			SELECT 'schema' AS object, nspacl AS acl FROM pg_namespace WHERE nspname = 'pgqueue'
			UNION ALL SELECT relname::text, relacl FROM pg_class WHERE relnamespace = 'pgqueue'::regnamespace
			UNION ALL SELECT oid::regprocedure::text, proacl FROM pg_proc WHERE pronamespace = 'pgqueue'::regnamespace)
		SELECT format('%s: %s %s', r.rolname, e.privilege_type, acl.object)
		FROM acl CROSS JOIN LATERAL aclexplode(acl.acl) e JOIN pg_roles r ON r.oid = e.grantee WHERE r.rolname LIKE 'pgqueue\_%'
		UNION ALL
		SELECT format('%s is a %s', m.rolname, r.rolname) FROM pg_auth_members a JOIN pg_roles r ON r.oid = a.roleid JOIN pg_roles m ON m.oid = a.member
		WHERE r.rolname LIKE 'pgqueue\_%'
		ORDER BY 1`)
	if err != nil {
		t.Fatal(err)
	}
	list, err := pgx.CollectRows(found, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// The grants of docs/upgrading.md, version by version, come to those of docs/roles.md, and each runs on the version that it is for.
func TestThePageOnUpgradingHasTheGrantsOfEachVersion(t *testing.T) {
	steps := sqlBlocks(t, "../docs/upgrading.md")
	if len(steps) != migrations.Latest {
		t.Fatalf("%d blocks for %d versions", len(steps), migrations.Latest)
	}
	for version := uint(1); version <= migrations.Latest; version++ {
		pool := at(t, version)
		have := granted(t, pool, steps[:version]...)
		if version < migrations.Latest {
			continue
		}
		want := granted(t, pool, sqlBlocks(t, "../docs/roles.md")[0])
		if len(want) < 30 || !slices.Equal(have, want) {
			t.Errorf("docs/upgrading.md:\n%s\ndocs/roles.md:\n%s", strings.Join(have, "\n"), strings.Join(want, "\n"))
		}
	}
}

// Claims read a table that version 4 brings. Roles of version 3 may do so as soon as it is there: nobody has to be quick with the GRANTs.
func TestUpgrade_ToVersion4KeepsWorkersOfNarrowRightsAtWork(t *testing.T) {
	pool := at(t, 3)
	name := value[string](t, pool, `SELECT current_database()::text`)
	worker, other := "worker \"of "+name, "other_of_"+name
	run(t, pool, `CREATE ROLE `+pgx.Identifier{worker}.Sanitize()+`; CREATE ROLE `+other)
	run(t, pool, `GRANT SELECT, UPDATE ON pgqueue.queues TO `+pgx.Identifier{worker}.Sanitize()+`; GRANT SELECT ON pgqueue.jobs TO `+other)
	mustUp(t, pool, "")
	for role, want := range map[string]string{worker: "t f", other: "f f"} {
		if got := value[string](t, pool, `SELECT concat_ws(' ', has_table_privilege($1, 'pgqueue.paused_kinds', 'SELECT'), has_table_privilege($1, 'pgqueue.paused_kinds', 'UPDATE'))`, role); got != want {
			t.Errorf("%s may SELECT and UPDATE paused_kinds: %s, want %s", role, got, want)
		}
	}
}
