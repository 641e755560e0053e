package doctor

import (
	"context"
	"fmt"
	"strings"
)

// openToAll tells what PUBLIC may do with our tables, their columns, views, sequences and the schema itself. Functions are those of
// drift-function: the migrations take that right away, and the comparison sees it.
func openToAll(ctx context.Context, x *examination) ([]Finding, error) {
	type row struct {
		Kind, Name, Column string
		Privileges         []string
	}
	rows, err := read[row](ctx, x, `
		SELECT 'schema', n.nspname::text, '', array_agg(DISTINCT a.privilege_type ORDER BY a.privilege_type)
		FROM pg_namespace n, aclexplode(n.nspacl) a
		WHERE n.nspname = $1::text AND a.grantee = 0 AND (n.nspname <> 'public' OR a.privilege_type <> 'USAGE')
		GROUP BY n.nspname
		UNION ALL
		SELECT k.kind, c.relname::text, g.column_name, array_agg(DISTINCT g.privilege_type ORDER BY g.privilege_type)
		FROM pg_class c
		     CROSS JOIN LATERAL (SELECT CASE c.relkind WHEN 'v' THEN 'view' WHEN 'S' THEN 'sequence' ELSE 'table' END AS kind) k
		     CROSS JOIN LATERAL (
		        SELECT '' AS column_name, a.privilege_type FROM aclexplode(c.relacl) a WHERE a.grantee = 0
		        UNION ALL
		        SELECT t.attname::text, a.privilege_type FROM pg_attribute t, aclexplode(t.attacl) a
		        WHERE t.attrelid = c.oid AND NOT t.attisdropped AND a.grantee = 0) g
		WHERE c.relkind IN ('r', 'p', 'v', 'S') AND `+ourTables+`
		GROUP BY k.kind, c.relname, g.column_name
		ORDER BY 1, 2, 3`, x.o.Schema, append(append(ownNames("table"), ownNames("view")...), ownNames("sequence")...))
	if err != nil {
		return nil, err
	}
	var found []Finding
	for _, r := range rows {
		subject, target, privileges := r.Kind+" "+r.Name, strings.ToUpper(r.Kind)+" "+ident(x.o.Schema, r.Name), strings.Join(r.Privileges, ", ")
		switch r.Kind {
		case "schema":
			target = "SCHEMA " + ident(r.Name)
		case "view":
			target = ident(x.o.Schema, r.Name)
		}
		if r.Column != "" {
			subject = "column " + r.Name + "." + r.Column
			for i := range r.Privileges {
				r.Privileges[i] += " (" + ident(r.Column) + ")"
			}
		}
		f := Finding{
			Severity: Warning, Subject: subject,
			Summary: fmt.Sprintf("Everybody has %s on the %s.", privileges, subject),
			Why:     "Every role of the server that may connect reads what is in it: payloads, results and errors among them.",
			Fix:     "Take it from PUBLIC, after granting to those who need it what docs/roles.md has for them: they may have lived by this.",
			FixSQL:  []string{fmt.Sprintf("REVOKE %s ON %s FROM PUBLIC", strings.Join(r.Privileges, ", "), target)},
		}
		switch {
		case r.Kind == "schema" && privileges == "USAGE":
			f.Severity = Info
			f.Why = "It opens nothing by itself; it takes away the one door before tables and functions that somebody opens by mistake."
		case r.Kind == "schema":
			f.Why = "Whoever may create in the schema puts functions and tables beside those of pgqueue that are taken for them."
		case privileges != "SELECT" && r.Kind != "sequence":
			f.Severity = Error
			f.Why = "Every role of the server that may connect changes or deletes jobs, or makes some that run as anybody's."
		case r.Kind == "sequence":
			f.Why = "Whoever may set or use up the job numbers can make enqueues fail."
		}
		found = append(found, f)
	}
	return found, nil
}
