package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// right is one privilege on one object of the schema.
type right struct {
	kind      string // schema, table, sequence, function
	object    string // empty for the schema
	privilege string
}

// needs are the rights behind a purpose: what docs/roles.md grants, which a test compares.
func needs(purpose Purpose) []right {
	all := []right{{"schema", "", "USAGE"}}
	on := func(kind, objects string, privileges ...string) {
		for _, object := range strings.Fields(objects) {
			for _, privilege := range privileges {
				all = append(all, right{kind, object, privilege})
			}
		}
	}
	switch purpose {
	case Worker:
		on("table", "jobs", "SELECT", "UPDATE", "DELETE")
		on("table", "history", "SELECT", "INSERT", "DELETE")
		on("table", "queues paused_kinds live_workers pgqueue_migrations", "SELECT")
		on("table", "job_progress schedules schedule_ticks", "SELECT", "INSERT", "UPDATE", "DELETE")
		on("function", "ensure_history drop_history expire_attention heartbeat goodbye cached_stats", "EXECUTE")
		on("function", "expire_unique_keys expire_progress expire_audit pause_until pause_kind", "EXECUTE")
	case Producer:
		on("table", "jobs", "SELECT", "INSERT", "UPDATE")
		on("table", "unique_keys", "SELECT", "INSERT", "UPDATE")
		on("sequence", "jobs_id_seq", "USAGE")
	case Operator:
		on("function", "pause resume retry cancel set_max_attempts", "EXECUTE")
		on("function", "pause_until pause_kind resume_kind reschedule set_priority edit_payload retry_with release_key", "EXECUTE")
		on("function", "record_action", "EXECUTE")
	case Watcher, Viewer:
		on("table", "paused paused_kinds schedule_ticks", "SELECT")
		on("table", "queue_stats active_jobs stuck_jobs needs_attention job_log attempts live_workers workers queues pgqueue_migrations", "SELECT")
		on("function", "queue_names count_queues cached_stats why_not_running", "EXECUTE")
		if purpose == Viewer {
			on("table", "jobs history schedules unique_keys job_progress audit", "SELECT")
			on("sequence", "jobs_id_seq", "SELECT")
		}
	}
	return all
}

// mayMiss says which rights a role does its work without. A worker then does not report itself, knows nothing of the others, has no numbers
// of the database among its metrics, keeps no schedules, deletes nothing of the audit log, and its handlers report no progress and pause nothing; a producer knows no unique keys.
func mayMiss(purpose Purpose, object string) bool {
	switch purpose {
	case Worker:
		return slices.Contains([]string{"heartbeat", "goodbye", "cached_stats", "live_workers", "job_progress", "schedules", "schedule_ticks",
			"expire_unique_keys", "expire_progress", "expire_audit", "pause_until", "pause_kind"}, object)
	case Producer:
		return object == "unique_keys"
	}
	return false
}

// roles returns the roles to look at: those of the options with their names filled in, else the connection's.
func (x *examination) roles() []Role {
	if len(x.o.Roles) == 0 {
		return []Role{{Name: x.server.Role}}
	}
	roles := slices.Clone(x.o.Roles)
	for i := range roles {
		if roles[i].Name == "" {
			roles[i].Name = x.server.Role
		}
	}
	return roles
}

// names of the roles to look at.
func (x *examination) roleNames() []string {
	var names []string
	for _, role := range x.roles() {
		names = append(names, role.Name)
	}
	return names
}

// missingRole tells which role of the options does not exist.
func missingRole(ctx context.Context, x *examination) ([]Finding, error) {
	missing, err := read[one[string]](ctx, x, `
		SELECT DISTINCT w.name FROM unnest($1::text[]) w (name) WHERE NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = w.name) ORDER BY 1`,
		x.roleNames())
	if err != nil {
		return nil, err
	}
	var found []Finding
	for _, role := range missing {
		found = append(found, Finding{
			Severity: Error, Subject: "role " + role.Value,
			Summary: fmt.Sprintf("There is no role %q.", role.Value),
			Why:     "What is meant to connect as it cannot.",
			Fix:     "Make it, with a password or as your server authenticates, or correct the name.",
			FixSQL:  []string{"CREATE ROLE " + ident(role.Value) + " LOGIN"},
		})
	}
	return found, nil
}

// rightRow is one right of one role that is missing.
type rightRow struct {
	Role      string
	Purpose   Purpose
	Privilege string
	Object    string // its name
	Target    string // the same as GRANT takes it
}

// missingRights tells which rights a role lacks for what it is meant to do. Rights count in whatever way the role has them: by
// membership, as the owner, as a superuser.
func missingRights(ctx context.Context, x *examination) ([]Finding, error) {
	var roles, its, kinds, objects, privileges []string
	for _, role := range x.roles() {
		for _, purpose := range role.Purposes {
			for _, need := range needs(purpose) {
				roles, its, kinds = append(roles, role.Name), append(its, string(purpose)), append(kinds, need.kind)
				objects, privileges = append(objects, need.object), append(privileges, need.privilege)
			}
		}
	}
	if len(roles) == 0 {
		x.skip("the options say of no role what it is meant to do")
		return nil, nil
	}
	rows, err := read[rightRow](ctx, x, `
		SELECT w.role, w.purpose, w.privilege, w.object, o.target
		FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[]) WITH ORDINALITY AS w (role, purpose, kind, object, privilege, ord)
		     JOIN pg_roles r ON r.rolname = w.role
		     JOIN pg_namespace n ON n.nspname = $1::text
		     CROSS JOIN LATERAL (
		        SELECT 'SCHEMA ' || quote_ident(n.nspname) AS target, has_schema_privilege(r.oid, n.oid, w.privilege) AS has
		        WHERE w.kind = 'schema'
		        UNION ALL
		        SELECT CASE c.relkind WHEN 'S' THEN 'SEQUENCE ' ELSE 'TABLE ' END || format('%I.%I', n.nspname, c.relname),
		               CASE c.relkind WHEN 'S' THEN has_sequence_privilege(r.oid, c.oid, w.privilege) ELSE has_table_privilege(r.oid, c.oid, w.privilege) END
		        FROM pg_class c WHERE c.relnamespace = n.oid AND c.relname = w.object AND w.kind IN ('table', 'sequence')
		        UNION ALL
		        SELECT 'FUNCTION ' || p.oid::regprocedure::text, has_function_privilege(r.oid, p.oid, w.privilege)
		        FROM pg_proc p WHERE p.pronamespace = n.oid AND p.proname = w.object AND w.kind = 'function') o
		WHERE NOT o.has
		ORDER BY w.ord`, x.o.Schema, roles, its, kinds, objects, privileges)
	if err != nil {
		return nil, err
	}
	type who struct {
		role    string
		purpose Purpose
	}
	by := map[who]*Finding{}
	var order []who
	for _, row := range rows {
		w := who{row.Role, row.Purpose}
		f := by[w]
		if f == nil {
			f = &Finding{
				Severity: Warning, Subject: "role " + row.Role,
				Why: "The worker works, but does not report itself or know of the others: nobody sees that it lives, nor the numbers of its database.",
				Fix: "Grant it, or make the role a member of one that has it; docs/roles.md has all of them.",
			}
			by[w], order = f, append(order, w)
		}
		if !mayMiss(row.Purpose, row.Object) {
			f.Severity, f.Why = Error, "The first statement that needs the right fails with 42501, perhaps long after the start."
		}
		f.FixSQL = append(f.FixSQL, fmt.Sprintf("GRANT %s ON %s TO %s", row.Privilege, row.Target, ident(row.Role)))
		kind, name, _ := strings.Cut(row.Target, " ")
		f.Summary += ", " + row.Privilege + " on " + strings.ToLower(kind) + " " + name
	}
	var found []Finding
	for _, w := range order {
		f := by[w]
		f.Summary = fmt.Sprintf("The role %q lacks rights of a %s: %s.", w.role, w.purpose, strings.TrimPrefix(f.Summary, ", "))
		found = append(found, *f)
	}
	return found, nil
}

// foreignOwners tells which functions and views belong to somebody who may not do what they do.
func foreignOwners(ctx context.Context, x *examination) ([]Finding, error) {
	type row struct{ Object, Owner, Table, Wanted string }
	rows, err := read[row](ctx, x, `
		SELECT o.target, pg_get_userbyid(o.owner)::text, t.relname::text, pg_get_userbyid(t.relowner)::text
		FROM pg_namespace n
		     JOIN pg_class t ON t.relnamespace = n.oid AND t.relname = 'jobs'
		     CROSS JOIN LATERAL (
		        SELECT 'FUNCTION ' || p.oid::regprocedure::text AS target, p.proowner AS owner FROM pg_proc p
		        WHERE p.pronamespace = n.oid AND p.prosecdef AND p.proname = ANY ($2::text[])
		        UNION ALL
		        SELECT CASE c.relkind WHEN 'v' THEN 'VIEW ' ELSE 'TABLE ' END || format('%I.%I', n.nspname, c.relname), c.relowner FROM pg_class c
		        WHERE c.relnamespace = n.oid AND c.relname = ANY ($3::text[]) AND c.relkind IN ('r', 'p', 'v')) o
		WHERE n.nspname = $1::text AND o.owner <> t.relowner
		  AND NOT (SELECT r.rolsuper FROM pg_roles r WHERE r.oid = o.owner) AND NOT pg_has_role(o.owner, t.relowner, 'USAGE')
		ORDER BY 1`, x.o.Schema, ownNames("function"), append(ownNames("table"), ownNames("view")...))
	if err != nil {
		return nil, err
	}
	var found []Finding
	for _, row := range rows {
		kind, name, _ := strings.Cut(row.Object, " ")
		found = append(found, Finding{
			Severity: Error, Subject: strings.ToLower(kind) + " " + name,
			Summary: fmt.Sprintf("It belongs to %q and the table %s to %q.", row.Owner, row.Table, row.Wanted),
			Why:     "Functions and views work with the rights of their owner, and only a table's owner may add and drop its partitions: with another they fail.",
			Fix:     "Give everything in the schema the same owner.",
			FixSQL:  []string{fmt.Sprintf("ALTER %s OWNER TO %s", row.Object, ident(row.Wanted))},
		})
	}
	return found, nil
}
