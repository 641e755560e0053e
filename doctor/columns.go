package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// tunedColumns tells which columns have statistics or a storage of their own. The migrations set neither.
func tunedColumns(ctx context.Context, x *examination) ([]Finding, error) {
	type row struct {
		Table, Column, What, Value, Default string
		Partitioned                         bool
	}
	rows, err := read[row](ctx, x, `
		SELECT c.relname::text, a.attname::text, w.what, w.value, w.fallback, c.relkind = 'p'
		FROM pg_class c
		     JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
		     JOIN pg_type t ON t.oid = a.atttypid
		     CROSS JOIN LATERAL (
		        -- NULL from version 17 on, -1 before
		        SELECT 'STATISTICS' AS what, a.attstattarget::text AS value, '-1' AS fallback WHERE a.attstattarget >= 0
		        UNION ALL
		        SELECT 'STORAGE', s.value, s.fallback
		        FROM (SELECT CASE a.attstorage WHEN 'p' THEN 'PLAIN' WHEN 'e' THEN 'EXTERNAL' WHEN 'm' THEN 'MAIN' ELSE 'EXTENDED' END AS value,
		                     CASE t.typstorage WHEN 'p' THEN 'PLAIN' WHEN 'e' THEN 'EXTERNAL' WHEN 'm' THEN 'MAIN' ELSE 'EXTENDED' END AS fallback) s
		        WHERE a.attstorage <> t.typstorage
		        UNION ALL
		        SELECT 'option ' || o.option_name, o.option_value, '' FROM pg_options_to_table(a.attoptions) o
		        WHERE o.option_name IN ('n_distinct', 'n_distinct_inherited')) w
		WHERE c.relkind IN ('r', 'p') AND `+ourTables+`
		ORDER BY c.relkind = 'r', 1, 2, 3`, x.o.Schema, ownNames("table"))
	if err != nil {
		return nil, err
	}
	var found []Finding
	for _, r := range rows {
		// A partition that differs as its parent does is mended with it; statistics and options are not handed down.
		parent := func(f Finding) bool {
			return f.Subject == "column history."+r.Column && strings.Contains(f.Summary, "STORAGE")
		}
		if r.What == "STORAGE" && strings.HasPrefix(r.Table, "history_") && slices.ContainsFunc(found, parent) {
			continue
		}
		f := Finding{
			Severity: Info, Subject: "column " + r.Table + "." + r.Column,
			Summary: fmt.Sprintf("%s of %s.%s is %s.", r.What, r.Table, r.Column, r.Value),
			Why:     "pgqueue's statements are written and measured for the statistics and the storage that its migrations leave as they are.",
			Fix:     "Set it back; statistics take effect with the next analyze, and storage for rows that are written from now on.",
		}
		set := fmt.Sprintf("ALTER TABLE %s ALTER COLUMN %s ", ident(x.o.Schema, r.Table), ident(r.Column))
		option, isOption := strings.CutPrefix(r.What, "option ")
		switch {
		case isOption:
			f.Summary = fmt.Sprintf("%s.%s has %s = %s.", r.Table, r.Column, option, r.Value)
			f.FixSQL = []string{set + "RESET (" + option + ")"}
		default:
			f.FixSQL = []string{set + "SET " + r.What + " " + r.Default}
		}
		switch {
		case r.What == "STATISTICS" && r.Value == "0":
			f.Severity, f.Why = Warning, "Without statistics the planner guesses: claims and what people look at may scan whole tables."
		case r.What == "STORAGE" && (r.Value == "EXTERNAL" || r.Value == "PLAIN"):
			f.Severity, f.Why = Warning, "Texts and payloads are stored without compression: the tables, their toast and the WAL grow to several times their size; PLAIN refuses long ones."
		}
		found = append(found, f)
	}
	return found, nil
}
