package doctor

import (
	"context"
	"fmt"
	"strings"
)

const whyRLS = "Row-level security hides rows without an error: a worker that may see none looks healthy and never works, and every number says 0."

// policyRow is one table with row-level security, seen by one role.
type policyRow struct {
	Table   string
	Role    string   // empty: the row stands for nobody, the table has row-level security and that is all
	Hidden  string   // commands that the role has a right to and for which no policy lets rows through
	Partial string   // policies that let through some rows
	Barred  []string // restrictive policies
}

// rowSecurity looks at every role that was named, and at every role that was granted anything on the table.
func rowSecurity(ctx context.Context, x *examination) ([]Finding, error) {
	rows, err := read[policyRow](ctx, x, `
		WITH t AS (
			SELECT c.* FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
			WHERE n.nspname = $1::text AND c.relrowsecurity AND c.relkind IN ('r', 'p') AND (c.relname = ANY ($3::text[]) OR c.relname ~ '^history_[0-9]{8}$')
		),
		who AS (
			SELECT t.oid AS tab, r.oid, r.rolname
			FROM t CROSS JOIN pg_roles r
			WHERE NOT r.rolsuper AND NOT r.rolbypassrls AND (t.relforcerowsecurity OR NOT pg_has_role(r.oid, t.relowner, 'USAGE'))
			  AND (r.rolname = ANY ($2::text[]) OR r.oid = t.relowner OR r.oid IN (SELECT a.grantee FROM aclexplode(t.relacl) a))
		)
		SELECT t.relname::text, coalesce(w.rolname::text, ''), coalesce(p.hidden, ''), coalesce(p.partial, ''), coalesce(p.barred, '{}')
		FROM t
		     LEFT JOIN who w ON w.tab = t.oid
		     LEFT JOIN LATERAL (
		        SELECT string_agg(DISTINCT c.name, ', ') FILTER (WHERE NOT k.covered) AS hidden,
		               string_agg(DISTINCT k.partial, ', ') AS partial,
		               (SELECT array_agg(q.polname::text ORDER BY q.polname) FROM pg_policy q
		                WHERE q.polrelid = t.oid AND NOT q.polpermissive
		                  AND EXISTS (SELECT FROM unnest(q.polroles) g WHERE g = 0 OR pg_has_role(w.oid, g, 'USAGE'))
		                  AND (coalesce(pg_get_expr(q.polqual, q.polrelid), 'true') <> 'true'
		                       OR coalesce(pg_get_expr(q.polwithcheck, q.polrelid), 'true') <> 'true')) AS barred
		        FROM (VALUES ('SELECT', 'r'), ('INSERT', 'a'), ('UPDATE', 'w'), ('DELETE', 'd')) c (name, cmd)
		             CROSS JOIN LATERAL (
		                SELECT coalesce(bool_or(y.polpermissive), false) AS covered,
		                       CASE WHEN NOT coalesce(bool_or(y.polpermissive AND y.always), false)
		                            THEN string_agg(quote_ident(y.polname), ', ') FILTER (WHERE y.polpermissive) END AS partial
		                FROM (SELECT q.polname, q.polpermissive, coalesce(pg_get_expr(q.polqual, q.polrelid), 'true') = 'true'
		                             AND coalesce(pg_get_expr(q.polwithcheck, q.polrelid), 'true') = 'true' AS always
		                      FROM pg_policy q
		                      WHERE q.polrelid = t.oid AND q.polcmd IN ('*', c.cmd::"char")
		                        AND EXISTS (SELECT FROM unnest(q.polroles) g WHERE g = 0 OR pg_has_role(w.oid, g, 'USAGE'))) y) k
		        WHERE has_table_privilege(w.oid, t.oid, c.name)) p ON w.oid IS NOT NULL
		ORDER BY 1, 2`, x.o.Schema, x.roleNames(), ownNames("table"))
	if err != nil {
		return nil, err
	}
	var found []Finding
	for _, row := range rows {
		table := ident(x.o.Schema, row.Table)
		f := Finding{Subject: "table " + row.Table, Why: whyRLS}
		open := fmt.Sprintf("CREATE POLICY %s ON %s TO %s USING (true) WITH CHECK (true)", ident(policyName(row.Role)), table, ident(row.Role))
		switch {
		case row.Role == "":
			f.Severity = Info
			f.Summary = fmt.Sprintf("Row-level security is on for %s, and no role that it concerns has a right on the table.", row.Table)
			f.Fix = "Turn it off, or give every role of docs/roles.md a policy that shows all rows."
			f.FixSQL = []string{"ALTER TABLE " + table + " DISABLE ROW LEVEL SECURITY"}
		case row.Hidden != "":
			f.Severity = Error
			f.Summary = fmt.Sprintf("Row-level security is on for %s, and no policy lets the role %q %s.", row.Table, row.Role, row.Hidden)
			f.Fix = "Give the role a policy that shows all rows, or turn row-level security off."
			f.FixSQL = []string{open}
		case len(row.Barred) > 0:
			f.Severity = Warning
			f.Summary = fmt.Sprintf("Restrictive policies hide rows of %s from the role %q: %s.", row.Table, row.Role, strings.Join(row.Barred, ", "))
			f.Fix = "Drop them: pgqueue must see every job."
			for _, name := range row.Barred {
				f.FixSQL = append(f.FixSQL, "DROP POLICY "+ident(name)+" ON "+table)
			}
		case row.Partial != "":
			f.Severity = Warning
			f.Summary = fmt.Sprintf("The policies on %s show the role %q some of the rows only: %s.", row.Table, row.Role, row.Partial)
			f.Fix = "Add one that shows all rows: pgqueue must see every job."
			f.FixSQL = []string{open}
		default:
			continue
		}
		found = append(found, f)
	}
	return found, nil
}

// policyName is the name of the policy that is proposed for a role. Postgres cuts it to 63 bytes by itself.
func policyName(role string) string { return "all for " + role }
