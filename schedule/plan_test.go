package schedule

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// The one statement that is sent all the time reads ranges of the index, however many schedules there are.
func TestALookReadsTheIndexAndSortsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "2021-01-01 00:00:00Z")
	w.exec(`INSERT INTO pgqueue.schedules (name, spec, kind, next_run_at)
		SELECT 's' || i, '@daily', 'k', now() + (i - 200) * interval '1 min' FROM generate_series(1, 10000) i`)
	w.exec("UPDATE pgqueue.schedules SET failures = 1, retry_at = now() WHERE name LIKE 's7%'")
	w.exec("ANALYZE pgqueue.schedules")
	look := newStore(w.db.Schema, databaseNow).texts["due"]
	rows, err := w.db.Pool.Query(t.Context(), "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) "+look, []string{}, []string{}, dueLimit)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	if plan := strings.Join(lines, "\n"); strings.Contains(plan, "Sort") || strings.Contains(plan, "Seq Scan") || strings.Count(plan, "schedules_due") != 3 ||
		strings.Count(plan, "schedules_failing") != 1 {
		t.Error(plan)
	}
}
