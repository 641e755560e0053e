package doctor

import (
	"context"
	"fmt"
	"strings"
)

// debris is what an interrupted REINDEX CONCURRENTLY leaves behind: the index that it was making, or the one that it replaced.
func debris(index string) bool {
	return strings.Contains(index, "_ccnew") || strings.Contains(index, "_ccold")
}

// invalidIndexes of our tables that nobody is building at the moment.
func invalidIndexes(ctx context.Context, x *examination) ([]Finding, error) {
	rows, err := x.brokenIndexes(ctx)
	if err != nil {
		return nil, err
	}
	var found []Finding
	for _, r := range rows {
		if debris(r.Name) {
			continue
		}
		found = append(found, Finding{
			Severity: Error, Subject: "index " + r.Name,
			Summary: fmt.Sprintf("The index %s of %s is not valid.", r.Name, r.Table),
			Why:     "Every change pays for it and no query may use it: claims read whole tables, or two live jobs have the same key.",
			Fix:     "Build it again; nobody is blocked meanwhile. If it is unique and refuses, look for the rows that are there twice.",
			FixSQL:  []string{"REINDEX INDEX CONCURRENTLY " + ident(x.o.Schema, r.Name)},
		})
	}
	return found, nil
}

// indexDebris is what an interrupted REINDEX or CREATE INDEX CONCURRENTLY left behind.
func indexDebris(ctx context.Context, x *examination) ([]Finding, error) {
	rows, err := x.brokenIndexes(ctx)
	if err != nil {
		return nil, err
	}
	var found []Finding
	for _, r := range rows {
		if !debris(r.Name) {
			continue
		}
		found = append(found, Finding{
			Severity: Warning, Subject: "index " + r.Name,
			Summary: fmt.Sprintf("The index %s of %s was left behind by an interrupted REINDEX CONCURRENTLY.", r.Name, r.Table),
			Why:     "Every change of the table pays for it, and no query uses it.",
			Fix:     "Drop it, and start the REINDEX again if it was meant.",
			FixSQL:  []string{"DROP INDEX CONCURRENTLY " + ident(x.o.Schema, r.Name)},
		})
	}
	return found, nil
}

type brokenIndex struct{ Name, Table string }

func (x *examination) brokenIndexes(ctx context.Context) ([]brokenIndex, error) {
	return read[brokenIndex](ctx, x, `
		SELECT i.relname::text, c.relname::text
		FROM pg_index k JOIN pg_class i ON i.oid = k.indexrelid JOIN pg_class c ON c.oid = k.indrelid
		WHERE i.relkind = 'i' AND `+ourTables+` AND (NOT k.indisvalid OR NOT k.indisready OR NOT k.indislive)
		  AND NOT EXISTS (SELECT FROM pg_stat_progress_create_index p WHERE p.relid = c.oid)
		ORDER BY 1`, x.o.Schema, ownNames("table"))
}
