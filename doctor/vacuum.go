package doctor

import (
	"context"
	"fmt"
)

// ourTables is the condition on pg_class c for the tables of pgqueue, partitions included; $1 the schema, $2 the names.
const ourTables = `c.relnamespace = (SELECT n.oid FROM pg_namespace n WHERE n.nspname = $1::text)
	AND (c.relname = ANY ($2::text[]) OR c.relname ~ '^history_[0-9]{8}$')`

// deadRows compares the dead rows of each table with the threshold from which on autovacuum means to work.
func deadRows(ctx context.Context, x *examination) ([]Finding, error) {
	type row struct {
		Table           string
		Dead, Live      int64
		Threshold       float64
		Vacuumed, Sleep float64 // seconds since the last vacuum, -1 = never; autovacuum's pause
		Auto            bool    // autovacuum is on for it
	}
	rows, err := read[row](ctx, x, `
		SELECT c.relname::text, s.n_dead_tup, s.n_live_tup, v.threshold,
		       coalesce(extract(epoch FROM now() - greatest(s.last_vacuum, s.last_autovacuum)), -1)::float8,
		       (SELECT g.setting::float8 FROM pg_settings g WHERE g.name = 'autovacuum_naptime'),
		       current_setting('autovacuum')::boolean AND NOT EXISTS (
		          SELECT FROM pg_options_to_table(c.reloptions) o WHERE o.option_name = 'autovacuum_enabled' AND NOT o.option_value::boolean)
		FROM pg_class c
		     JOIN pg_stat_all_tables s ON s.relid = c.oid
		     CROSS JOIN LATERAL (
		        SELECT least(coalesce(max(o.option_value) FILTER (WHERE o.option_name = 'autovacuum_vacuum_threshold'), current_setting('autovacuum_vacuum_threshold'))::float8
		                     + coalesce(max(o.option_value) FILTER (WHERE o.option_name = 'autovacuum_vacuum_scale_factor'), current_setting('autovacuum_vacuum_scale_factor'))::float8
		                     * greatest(c.reltuples, 0),
		                     nullif(greatest(current_setting('autovacuum_vacuum_max_threshold', true)::float8, 0), 0)) AS threshold
		        FROM pg_options_to_table(c.reloptions) o) v
		WHERE c.relkind = 'r' AND `+ourTables+` AND s.n_dead_tup > v.threshold * $3::float8
		ORDER BY s.n_dead_tup DESC LIMIT 10`, x.o.Schema, ownNames("table"), x.o.Thresholds.DeadRows)
	if err != nil {
		return nil, err
	}
	var found []Finding
	for _, r := range rows {
		if r.Vacuumed < 0 && r.Auto {
			if young, err := x.youngerThan(ctx, 2*r.Sleep); err != nil || young {
				if err != nil {
					return nil, err
				}
				continue // autovacuum had no time to come by
			}
		}
		f := Finding{
			Severity: Warning, Subject: "table " + r.Table,
			Summary: fmt.Sprintf("%s has %s and %s; autovacuum means to work from %.0f on", r.Table, plural(r.Dead, "dead row"), plural(r.Live, "live row"), r.Threshold),
			Why:     "Every claim walks past dead rows: with some ten thousand of them it is ten times slower.",
			Fix:     "Vacuum it now. If it comes back, autovacuum has too few workers or too much of a brake, or somebody holds the horizon: see oldest-xmin.",
			FixSQL:  []string{"VACUUM (ANALYZE) " + ident(x.o.Schema, r.Table)},
		}
		switch {
		case r.Vacuumed < 0:
			f.Summary += ", and has never been here."
		case r.Vacuumed > 2*r.Sleep:
			f.Summary += fmt.Sprintf(", and the last vacuum was %s ago.", seconds(r.Vacuumed))
		case float64(r.Dead) > 10*r.Threshold*x.o.Thresholds.DeadRows:
			f.Summary += fmt.Sprintf("; a vacuum %s ago could not remove them.", seconds(r.Vacuumed))
		default:
			continue // autovacuum is at it
		}
		found = append(found, f)
	}
	return found, nil
}

// youngerThan says whether nothing shows that the installation is older than so many seconds. The catalog has no time at which a table
// was made. Evidence of age is a partition of days before (the first one is that of the day before the migration), a worker that has been at work for longer, and any visit of vacuum or
// analyze before.
func (x *examination) youngerThan(ctx context.Context, seconds float64) (bool, error) {
	old, err := readOne[one[bool]](ctx, x, `
		SELECT EXISTS (SELECT FROM pg_class c
		               WHERE `+ourTables+` AND c.relname ~ '^history_[0-9]{8}$'
		                 AND c.relname < 'history_' || to_char(now() AT TIME ZONE 'UTC' - $3::float8 * interval '1 second' - interval '1 day', 'YYYYMMDD'))
		    OR EXISTS (SELECT FROM pg_class c JOIN pg_stat_all_tables s ON s.relid = c.oid
		               WHERE `+ourTables+`
		                 AND least(s.last_vacuum, s.last_autovacuum, s.last_analyze, s.last_autoanalyze) < now() - $3::float8 * interval '1 second')`,
		x.o.Schema, ownNames("table"), seconds)
	if err != nil || old.Value {
		return false, err
	}
	worked, err := readOne[one[bool]](ctx, x, `
		SELECT EXISTS (SELECT FROM {schema}.live_workers w WHERE w.started_at < now() - $1::float8 * interval '1 second')`, seconds)
	if _, refused := reasonToSkip(err); refused {
		return false, nil // not to be known: tell what is there
	}
	return !worked.Value, err
}

// autovacuumOff: switched off for one of our tables, or for the whole server.
func autovacuumOff(ctx context.Context, x *examination) ([]Finding, error) {
	type row struct{ Table, Parameter string }
	rows, err := read[row](ctx, x, `
		SELECT c.relname::text, o.parameter
		FROM pg_class c
		     LEFT JOIN pg_class t ON t.oid = c.reltoastrelid
		     CROSS JOIN LATERAL (
		        SELECT x.option_name AS parameter, x.option_value AS value FROM pg_options_to_table(c.reloptions) x
		        UNION ALL
		        SELECT 'toast.' || x.option_name, x.option_value FROM pg_options_to_table(t.reloptions) x) o
		WHERE c.relkind = 'r' AND `+ourTables+` AND o.parameter LIKE '%autovacuum_enabled' AND NOT o.value::boolean
		ORDER BY 1, 2 LIMIT 100`, x.o.Schema, ownNames("table"))
	if err != nil {
		return nil, err
	}
	const why = "Dead rows stay for ever, and every claim walks past them."
	var found []Finding
	for _, r := range rows {
		found = append(found, Finding{
			Severity: Error, Subject: "table " + r.Table,
			Summary: fmt.Sprintf("Autovacuum is off for %s (%s).", r.Table, r.Parameter), Why: why,
			Fix: "Turn it on again.", FixSQL: []string{fmt.Sprintf("ALTER TABLE %s RESET (%s)", ident(x.o.Schema, r.Table), r.Parameter)},
		})
	}
	settings, err := x.badSettings(ctx, "autovacuum-off")
	return append(found, settings...), err
}

// oldRows: tables whose oldest row is near the end of the transaction numbers.
func oldRows(ctx context.Context, x *examination) ([]Finding, error) {
	type row struct {
		Table string
		Age   int64
	}
	rows, err := read[row](ctx, x, `
		SELECT c.relname::text, a.age
		FROM pg_class c
		     LEFT JOIN pg_class t ON t.oid = c.reltoastrelid
		     CROSS JOIN LATERAL (SELECT greatest(age(c.relfrozenxid), mxid_age(c.relminmxid), age(t.relfrozenxid), mxid_age(t.relminmxid))::bigint AS age) a
		WHERE c.relkind = 'r' AND `+ourTables+` AND a.age > $3::bigint
		ORDER BY a.age DESC LIMIT 10`, x.o.Schema, ownNames("table"), x.o.Thresholds.XIDAge)
	if err != nil {
		return nil, err
	}
	var found []Finding
	for _, r := range rows {
		severity := Warning
		if r.Age > 1_600_000_000 {
			severity = Error
		}
		found = append(found, Finding{
			Severity: severity, Subject: "table " + r.Table,
			Summary: fmt.Sprintf("The oldest row of %s is %d transactions old and not frozen.", r.Table, r.Age),
			Why:     "At about 2.1 billion Postgres takes no more writes, in any table, until it is vacuumed by hand.",
			Fix:     "Vacuum it now, and find out what keeps autovacuum from it: see oldest-xmin, prepared-transaction and replication-slot.",
			FixSQL:  []string{"VACUUM (FREEZE) " + ident(x.o.Schema, r.Table)},
		})
	}
	return found, nil
}

// bloat estimates, from sizes and statistics alone, what tables and indexes take beyond what their rows need.
func bloat(ctx context.Context, x *examination) ([]Finding, error) {
	type row struct {
		Kind, Name   string
		Size, Needed int64
	}
	// Twice the estimate before anything counts as too much: it knows neither padding nor the shape of a tree.
	rows, err := read[row](ctx, x, `
		WITH t AS (
			SELECT c.oid, c.relname, c.relkind, c.reltoastrelid, greatest(c.reltuples, pg_stat_get_live_tuples(c.oid), 0)::float8 AS n,
			       (SELECT sum(s.avg_width * (1 - s.null_frac)) FROM pg_stats s WHERE s.schemaname = $1::text AND s.tablename = c.relname)::float8 AS width,
			       coalesce((SELECT o.option_value::float8 FROM pg_options_to_table(c.reloptions) o WHERE o.option_name = 'fillfactor'), 100) / 100 AS fill
			FROM pg_class c
			WHERE c.relkind = 'r' AND `+ourTables+`
		),
		e AS (
			SELECT 'table' AS kind, t.relname AS name, pg_relation_size(t.oid) AS size,
			       CASE WHEN t.n = 0 THEN 0 ELSE t.n * (t.width + 28) / t.fill END AS needed
			FROM t
			UNION ALL
			SELECT 'index', i.relname, pg_relation_size(i.oid),
			       CASE WHEN t.n = 0 THEN 0 ELSE t.n * 16 / 0.7 + t.n / 0.7 *
			            (SELECT sum(s.avg_width) FROM pg_stats s JOIN pg_attribute a ON a.attname = s.attname
			             WHERE s.schemaname = $1::text AND s.tablename = t.relname AND a.attrelid = i.oid) END
			FROM t JOIN pg_index x ON x.indrelid = t.oid JOIN pg_class i ON i.oid = x.indexrelid
		)
		SELECT e.kind, e.name::text, e.size, e.needed::bigint
		FROM e
		WHERE e.size - 2 * e.needed > $3::bigint
		ORDER BY e.size DESC LIMIT 10`, x.o.Schema, ownNames("table"), x.o.Thresholds.BloatBytes)
	if err != nil {
		return nil, err
	}
	var found []Finding
	for _, r := range rows {
		f := Finding{
			Severity: Info, Subject: r.Kind + " " + r.Name,
			Summary: fmt.Sprintf("The %s %s takes %s; by estimate its rows need %s.", r.Kind, r.Name, bytesText(r.Size), bytesText(r.Needed)),
			Why:     "Empty pages are read by every scan and kept in memory and in backups.",
			Fix:     "Make the index anew; nobody is blocked meanwhile.",
			FixSQL:  []string{"REINDEX INDEX CONCURRENTLY " + ident(x.o.Schema, r.Name)},
		}
		if r.Kind == "table" {
			f.Fix = "Leave it if the next backlog will fill it again. Otherwise write it anew, in a quiet minute: everybody waits as long as it takes."
			f.FixSQL = []string{"VACUUM (FULL, ANALYZE) " + ident(x.o.Schema, r.Name)}
		}
		found = append(found, f)
	}
	return found, nil
}
