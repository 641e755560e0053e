package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// partition is a table that is, or by its name might be, a partition of history.
type partition struct {
	Name     string
	Bound    string // empty: it is not attached
	Pending  bool   // a DETACH CONCURRENTLY was interrupted
	Day, End string // as text, empty where the name is none of a day
	Today    string // by the database clock
	Distance int64  // days from today; negative is past
}

// attached says whether it takes part in history.
func (p partition) attached() bool { return p.Bound != "" }

// expectedBound is the bound of a day's partition.
func (p partition) expectedBound() string {
	return fmt.Sprintf("FOR VALUES FROM ('%s') TO ('%s')", p.Day, p.End)
}

// partitions reads them all: there are a few dozen.
func (x *examination) partitions(ctx context.Context) ([]partition, error) {
	return read[partition](ctx, x, `
		SELECT c.relname::text, coalesce(pg_get_expr(c.relpartbound, c.oid), ''), coalesce(i.inhdetachpending, false),
		       coalesce(to_char(d.day, 'YYYY-MM-DD'), ''), coalesce(to_char(d.day + 1, 'YYYY-MM-DD'), ''), to_char(t.today, 'YYYY-MM-DD'),
		       coalesce(d.day - t.today, 0)::bigint
		FROM pg_namespace n
		     JOIN pg_class h ON h.relnamespace = n.oid AND h.relname = 'history' AND h.relkind = 'p'
		     CROSS JOIN LATERAL (SELECT (statement_timestamp() AT TIME ZONE 'UTC')::date AS today) t
		     JOIN pg_class c ON c.relkind IN ('r', 'p', 'f')
		     LEFT JOIN pg_inherits i ON i.inhparent = h.oid AND i.inhrelid = c.oid
		     -- Digits are not always a day: 20261345 and 20260231 are none, and count as somebody else's.
		     LEFT JOIN LATERAL (
		        SELECT make_date(m[1]::int, m[2]::int, 1) + (m[3]::int - 1) AS day
		        FROM regexp_matches(c.relname, '^history_((?!0000)\d{4})(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])$') m) d
		        ON to_char(d.day, 'YYYYMMDD') = right(c.relname, 8)
		WHERE n.nspname = $1::text AND (i.inhrelid IS NOT NULL OR c.relnamespace = n.oid AND d.day IS NOT NULL)
		ORDER BY c.relname`, x.o.Schema)
}

// historyAhead: days in the near future, or today, without a partition.
func historyAhead(ctx context.Context, x *examination) ([]Finding, error) {
	all, err := x.partitions(ctx)
	if err != nil {
		return nil, err
	}
	if !x.hasHistory(all) {
		return nil, nil
	}
	today, err := time.Parse(time.DateOnly, all[0].Today)
	if err != nil {
		return nil, fmt.Errorf("the server's date: %w", err)
	}
	taken := map[string]bool{}
	for _, p := range all { // one that is there and not attached is history-detached's
		taken[p.Day] = true
	}
	var missing []string
	for i := range x.o.Thresholds.HistoryAhead + 1 {
		if day := today.AddDate(0, 0, i).Format(time.DateOnly); !taken[day] {
			missing = append(missing, day)
		}
	}
	if len(missing) == 0 {
		return nil, nil
	}
	f := Finding{
		Severity: Warning, Subject: "table history",
		Summary: fmt.Sprintf("There is no partition of history for %s.", strings.Join(missing, ", ")),
		Why:     "Workers make them two weeks ahead, so none has worked for days, or none may. The completion that comes first has to make the partition itself.",
		Fix:     "Make them, and see whether a worker lives and may call ensure_history.",
		FixSQL:  []string{"SELECT " + ident(x.o.Schema, "ensure_history") + "(14)"},
	}
	if missing[0] == all[0].Today {
		f.Severity = Error
	}
	return []Finding{f}, nil
}

// hasHistory says whether the partitions are those of a history that exists.
func (x *examination) hasHistory(all []partition) bool {
	if len(all) == 0 {
		x.skip("history is no partitioned table, or has no partition at all: see drift-table")
		return false
	}
	return true
}

// historyOld: partitions that retention should have dropped.
func historyOld(ctx context.Context, x *examination) ([]Finding, error) {
	all, err := x.partitions(ctx)
	if err != nil {
		return nil, err
	}
	keep := int64(x.o.Thresholds.KeepHistory / (24 * time.Hour))
	var old []string
	for _, p := range all {
		if p.Day != "" && p.Bound == p.expectedBound() && !p.Pending && p.Distance < -keep-2 {
			old = append(old, p.Name)
		}
	}
	if len(old) == 0 {
		return nil, nil
	}
	f := Finding{
		Severity: Warning, Subject: "table history",
		Summary: fmt.Sprintf("%s of history older than the %d days that it is kept: %s.", plural(int64(len(old)), "partition"), keep, strings.Join(old[:min(3, len(old))], ", ")),
		Why:     "Workers drop one after the other as soon as it is old enough: none works, none may, or somebody always reads it.",
		Fix:     "Drop them; each call drops one, and returns NULL if somebody was reading. If you keep history longer, tell the doctor (KeepHistory).",
	}
	for range old {
		f.FixSQL = append(f.FixSQL, fmt.Sprintf("SELECT %s(interval '%d days')", ident(x.o.Schema, "drop_history"), keep))
	}
	return []Finding{f}, nil
}

// historyDetached: a DETACH that was interrupted, and tables of a day that are not attached.
func historyDetached(ctx context.Context, x *examination) ([]Finding, error) {
	all, err := x.partitions(ctx)
	if err != nil {
		return nil, err
	}
	history := ident(x.o.Schema, "history")
	keep := int64(x.o.Thresholds.KeepHistory / (24 * time.Hour))
	var found []Finding
	for _, p := range all {
		table := ident(x.o.Schema, p.Name)
		switch {
		case p.Pending:
			found = append(found, Finding{
				Severity: Error, Subject: "table " + p.Name,
				Summary: fmt.Sprintf("A DETACH PARTITION %s CONCURRENTLY was interrupted.", p.Name),
				Why:     "Queries that began later no longer see its rows, no other partition can be detached, and its day cannot be attached again.",
				Fix:     "Finish it. The table is then one like any other: drop it or attach it again.",
				FixSQL:  []string{"ALTER TABLE " + history + " DETACH PARTITION " + table + " FINALIZE"},
			})
		case p.Day == "" || p.attached():
		case p.Distance < -keep:
			found = append(found, Finding{
				Severity: Warning, Subject: "table " + p.Name,
				Summary: fmt.Sprintf("The table %s is no partition of history, and old enough to go.", p.Name),
				Why:     "It was detached and not dropped; retention looks at partitions only, so its space is never freed.",
				Fix:     "Drop it, unless somebody detached it to keep it; then give it another name.",
				FixSQL:  []string{"DROP TABLE " + table},
			})
		default:
			found = append(found, Finding{
				Severity: Error, Subject: "table " + p.Name,
				Summary: fmt.Sprintf("The table %s exists and is not attached to history.", p.Name),
				Why:     "No other partition of that day is made while it has the name: what finishes on that day cannot be written.",
				Fix:     "Attach it.",
				FixSQL:  []string{"ALTER TABLE " + history + " ATTACH PARTITION " + table + " " + p.expectedBound()},
			})
		}
	}
	return found, nil
}

// historyForeign: partitions that are not of our making.
func historyForeign(ctx context.Context, x *examination) ([]Finding, error) {
	all, err := x.partitions(ctx)
	if err != nil {
		return nil, err
	}
	var found []Finding
	for _, p := range all {
		if !p.attached() || p.Name == "history_attention" || p.Day != "" && p.Bound == p.expectedBound() {
			continue
		}
		f := Finding{
			Severity: Warning, Subject: "table " + p.Name,
			Summary: fmt.Sprintf("%s is a partition of history %s, which pgqueue did not make.", p.Name, p.Bound),
			Why:     "It takes the days of partitions that pgqueue will want to make, and retention does not know it.",
			Fix:     "Detach it, in a quiet minute. Its rows stay in the table.",
			FixSQL:  []string{"ALTER TABLE " + ident(x.o.Schema, "history") + " DETACH PARTITION " + ident(x.o.Schema, p.Name)},
		}
		if p.Bound == "DEFAULT" {
			f.Why = "Beside a default partition none can be detached concurrently, and a single stray row in it keeps a day from being attached, for good."
		}
		found = append(found, f)
	}
	return found, nil
}
