package doctor

import (
	"context"
	"fmt"
	"strings"
)

// publications that decode every change of our tables.
func publications(ctx context.Context, x *examination) ([]Finding, error) {
	type row struct {
		Name          string
		All           bool
		Publish, Root string
		Ours, Others  []string // quoted, with their schemas
		Whole         []string // schemas that are published as a whole
	}
	schemas := `NULL::text[]`
	if x.server.Number >= 150000 {
		schemas = `(SELECT array_agg(quote_ident(n.nspname)) FROM pg_publication_namespace s JOIN pg_namespace n ON n.oid = s.pnnspid
		            WHERE s.pnpubid = p.oid AND n.nspname = $1::text)`
	}
	// pg_publication_tables shows a partitioned table as itself or as its partitions; pg_publication_rel has what was written.
	rows, err := read[row](ctx, x, `
		SELECT p.pubname::text, p.puballtables,
		       concat_ws(', ', CASE WHEN p.pubinsert THEN 'insert' END, CASE WHEN p.pubupdate THEN 'update' END,
		                 CASE WHEN p.pubdelete THEN 'delete' END, CASE WHEN p.pubtruncate THEN 'truncate' END), p.pubviaroot::text,
		       coalesce(t.ours, '{}'), coalesce(o.others, '{}'), coalesce(`+schemas+`, '{}')
		FROM pg_publication p
		     CROSS JOIN LATERAL (
		        SELECT array_agg(format('%I.%I', n.nspname, c.relname) ORDER BY c.relname) AS ours
		        FROM pg_publication_rel r JOIN pg_class c ON c.oid = r.prrelid JOIN pg_namespace n ON n.oid = c.relnamespace
		        WHERE r.prpubid = p.oid AND `+ourTables+`) t
		     CROSS JOIN LATERAL (
		        SELECT array_agg(format('%I.%I', v.schemaname, v.tablename) ORDER BY v.schemaname, v.tablename) AS others
		        FROM pg_publication_tables v
		        WHERE v.pubname = p.pubname AND p.puballtables
		          AND NOT (v.schemaname = $1::text AND (v.tablename = ANY ($2::text[]) OR v.tablename ~ '^history_[0-9]{8}$'))) o
		WHERE p.puballtables OR t.ours IS NOT NULL OR `+schemas+` IS NOT NULL
		ORDER BY 1`, x.o.Schema, ownNames("table"))
	if err != nil {
		return nil, err
	}
	var found []Finding
	for _, r := range rows {
		f := Finding{
			Severity: Warning, Subject: "publication " + r.Name,
			Why: "Every job's insert, updates and deletion are decoded and sent, a multiple of the work that it takes to do the job; " +
				"a subscriber that lags retains all of it as WAL, and its copy is no queue that anybody could work on.",
		}
		name := ident(r.Name)
		if r.All {
			f.Summary = fmt.Sprintf("The publication %q is FOR ALL TABLES, pgqueue's included.", r.Name)
			f.Fix = "Name the tables that subscribers need. This makes the publication anew, in one transaction; its subscriptions must be refreshed."
			tables := ""
			if len(r.Others) > 0 {
				tables = " FOR TABLE " + strings.Join(r.Others, ", ")
			}
			f.FixSQL = []string{fmt.Sprintf("DROP PUBLICATION %s; CREATE PUBLICATION %[1]s%s WITH (publish = %s, publish_via_partition_root = %s)",
				name, tables, literal(r.Publish), r.Root)}
			found = append(found, f)
			continue
		}
		f.Fix = "Take them out; its subscriptions must be refreshed."
		var what []string
		if len(r.Ours) > 0 {
			what = append(what, strings.Join(r.Ours, ", "))
			f.FixSQL = append(f.FixSQL, "ALTER PUBLICATION "+name+" DROP TABLE "+strings.Join(r.Ours, ", "))
		}
		if len(r.Whole) > 0 {
			what = append(what, "the whole schema")
			f.FixSQL = append(f.FixSQL, "ALTER PUBLICATION "+name+" DROP TABLES IN SCHEMA "+strings.Join(r.Whole, ", "))
		}
		f.Summary = fmt.Sprintf("The publication %q has tables of pgqueue: %s.", r.Name, strings.Join(what, " and "))
		found = append(found, f)
	}
	return found, nil
}

// foreignKeys of other tables that point at ours.
func foreignKeys(ctx context.Context, x *examination) ([]Finding, error) {
	type row struct{ Name, From, To string }
	rows, err := read[row](ctx, x, `
		SELECT k.conname::text, k.conrelid::regclass::text, c.relname::text
		FROM pg_constraint k JOIN pg_class c ON c.oid = k.confrelid
		WHERE k.contype = 'f' AND k.conparentid = 0 AND `+ourTables+`
		ORDER BY 2, 1`, x.o.Schema, ownNames("table"))
	if err != nil {
		return nil, err
	}
	var found []Finding
	for _, r := range rows {
		found = append(found, Finding{
			Severity: Error, Subject: "table " + r.From,
			Summary: fmt.Sprintf("The foreign key %q of %s points at %s.", r.Name, r.From, r.To),
			Why: "A job that has finished leaves its table: with the foreign key, completions and retention fail for a whole batch, for ever; " +
				"and each insert there locks the job's row.",
			Fix:    "Drop it and keep the number as a plain column.",
			FixSQL: []string{fmt.Sprintf("ALTER TABLE %s DROP CONSTRAINT %s", r.From, ident(r.Name))},
		})
	}
	return found, nil
}

// inheritance other than that of partitions: what is in a child is in its parent for every statement.
func inheritance(ctx context.Context, x *examination) ([]Finding, error) {
	type row struct {
		Child, Parent, Ours string // the first two quoted, with their schemas
		IsParent            bool   // ours is the parent
	}
	rows, err := read[row](ctx, x, `
		SELECT format('%I.%I', cn.nspname, k.relname), format('%I.%I', pn.nspname, p.relname), c.relname::text, c.oid = p.oid
		FROM pg_inherits i
		     JOIN pg_class k ON k.oid = i.inhrelid AND NOT k.relispartition JOIN pg_namespace cn ON cn.oid = k.relnamespace
		     JOIN pg_class p ON p.oid = i.inhparent AND p.relkind IN ('r', 'f') JOIN pg_namespace pn ON pn.oid = p.relnamespace
		     JOIN pg_class c ON c.oid IN (k.oid, p.oid)
		WHERE `+ourTables+`
		ORDER BY 1, 2`, x.o.Schema, ownNames("table"))
	if err != nil {
		return nil, err
	}
	var found []Finding
	for _, r := range rows {
		f := Finding{
			Severity: Error, Subject: "table " + r.Ours,
			Summary: fmt.Sprintf("The table %s inherits from %s.", r.Child, r.Parent),
			Why: "Its rows are rows of pgqueue's table for every statement: they are claimed and counted, no index or unique key of the " +
				"parent covers them, and a job number may be there twice.",
			Fix:    "Take it out; its rows stay in it. Enqueue again what was meant to run.",
			FixSQL: []string{fmt.Sprintf("ALTER TABLE %s NO INHERIT %s", r.Child, r.Parent)},
		}
		if !r.IsParent {
			f.Severity = Warning
			f.Why = "Whoever reads or changes the other table does so with the jobs as well, and its new columns appear here."
		}
		found = append(found, f)
	}
	return found, nil
}

// triggers and rules of others on our tables. Our own are the business of drift-trigger.
func triggers(ctx context.Context, x *examination) ([]Finding, error) {
	type row struct{ Kind, Name, Table, What string }
	rows, err := read[row](ctx, x, `
		SELECT 'TRIGGER', t.tgname::text, c.relname::text, regexp_replace(pg_get_triggerdef(t.oid), '^CREATE \w+ ', '')
		FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
		WHERE NOT t.tgisinternal AND t.tgparentid = 0 AND c.relname || '.' || t.tgname <> ALL ($3::text[]) AND `+ourTables+`
		UNION ALL
		SELECT 'RULE', r.rulename::text, c.relname::text, 'on ' || CASE r.ev_type WHEN '1' THEN 'select' WHEN '2' THEN 'update' WHEN '3' THEN 'insert' ELSE 'delete' END
		FROM pg_rewrite r JOIN pg_class c ON c.oid = r.ev_class
		WHERE c.relkind IN ('r', 'p') AND `+ourTables+`
		ORDER BY 3, 2`, x.o.Schema, ownNames("table"), ownNames("trigger"))
	if err != nil {
		return nil, err
	}
	var found []Finding
	for _, r := range rows {
		kind := strings.ToLower(r.Kind)
		found = append(found, Finding{
			Severity: Warning, Subject: "table " + r.Table,
			Summary: fmt.Sprintf("There is a %s %q on %s: %s.", kind, r.Name, r.Table, excerpt(r.What)),
			Why: "It runs inside claims and completions: what it costs is paid per job, what it raises fails a whole batch, and what it changes " +
				"breaks the bookkeeping of attempts and leases.",
			Fix:    "Drop it. What should happen with a job belongs into its handler or an observer.",
			FixSQL: []string{fmt.Sprintf("DROP %s %s ON %s", r.Kind, ident(r.Name), ident(x.o.Schema, r.Table))},
		})
	}
	return found, nil
}
