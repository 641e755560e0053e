package doctor

import (
	"context"
	"fmt"
)

// connections: the server, the database or a role is about to take no more of them.
func connections(ctx context.Context, x *examination) ([]Finding, error) {
	type row struct {
		What, Name  string
		Used, Limit int64
	}
	rows, err := read[row](ctx, x, `
		SELECT l.what, l.name, l.used, l.most
		FROM (
			SELECT 'server' AS what, '' AS name, (SELECT sum(d.numbackends) FROM pg_stat_database d WHERE d.datid <> 0)::bigint AS used,
			       current_setting('max_connections')::bigint - current_setting('superuser_reserved_connections')::bigint
			       - coalesce(current_setting('reserved_connections', true)::bigint, 0) AS most
			UNION ALL
			SELECT 'database', d.datname::text, (SELECT s.numbackends FROM pg_stat_database s WHERE s.datid = d.oid), d.datconnlimit
			FROM pg_database d WHERE d.datname = current_database() AND d.datconnlimit > 0
			UNION ALL
			SELECT 'role', r.rolname::text, (SELECT count(*) FROM pg_stat_activity a WHERE a.usesysid = r.oid), r.rolconnlimit
			FROM pg_roles r WHERE r.rolname = ANY ($2::text[]) AND r.rolconnlimit > 0 AND NOT r.rolsuper) l
		WHERE l.used >= $1::float8 * l.most`, x.o.Thresholds.Connections, x.roleNames())
	if err != nil {
		return nil, err
	}
	var found []Finding
	for _, r := range rows {
		f := Finding{
			Severity: Warning, Subject: "server",
			Summary: fmt.Sprintf("%d of the %d connections that ordinary roles may have are in use.", r.Used, r.Limit),
			Why:     "When none is left, workers cannot reconnect and leases run out, while nothing is wrong with the jobs.",
			Fix: "Look in pg_stat_activity for pools that are larger than they need be, and put a pooler in front. More max_connections needs a restart. " +
				"A worker needs two connections and one for its listener.",
		}
		switch r.What {
		case "database":
			f.Subject, f.Summary = "database "+r.Name, fmt.Sprintf("%d of the %d connections of the database %q are in use.", r.Used, r.Limit, r.Name)
			f.FixSQL = []string{"ALTER DATABASE " + ident(r.Name) + " CONNECTION LIMIT -1"}
			f.Fix = "Take the limit away, or raise it."
		case "role":
			f.Subject, f.Summary = "role "+r.Name, fmt.Sprintf("%d of the %d connections of the role %q are in use.", r.Used, r.Limit, r.Name)
			f.FixSQL = []string{"ALTER ROLE " + ident(r.Name) + " CONNECTION LIMIT -1"}
			f.Fix = "Take the limit away, or raise it."
		}
		found = append(found, f)
	}
	return found, nil
}
