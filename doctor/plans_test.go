package doctor

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// size is small in every run and full where PGQUEUE_TEST_FULL asks for it.
func size(small, full int) int {
	if os.Getenv("PGQUEUE_TEST_FULL") != "" {
		return full
	}
	return small
}

// Whatever the statistics say, jobs are read by index: each query that names them is planned again, set up as the doctor did it.
func TestJobsAreReadByIndex(t *testing.T) {
	t.Parallel()
	sent := &statementsSent{}
	db := pgqueuetest.New(t, pgqueuetest.WithPoolConfig(func(c *pgxpool.Config) { c.ConnConfig.Tracer = sent }))
	execute(t, db.Pool, `ALTER TABLE pgqueue.jobs SET (autovacuum_enabled = off)`)
	fill := func() {
		execute(t, db.Pool, `INSERT INTO pgqueue.jobs (queue, kind, priority, run_at)
			SELECT 'q' || i % 3, 'k' || i % 7, 1 + i % 4, now() + i % 5 * interval '1 hour' - interval '2 hours' FROM generate_series(1, $1::int) i`, size(5_000, 1_000_000))
	}
	analyze := func() { execute(t, db.Pool, `ANALYZE pgqueue.jobs`) }
	for i, name := range []string{"analyzed when it was empty", "analyzed"} {
		analyze()
		if i == 0 {
			fill()
		}
		before := len(sent.take())
		report := examine(t, db, Options{})
		planned := 0
		var setUp sentStatement
		for _, s := range sent.take()[before:] {
			switch {
			case strings.Contains(s.sql, "set_config('search_path'"):
				setUp = s
			case strings.Contains(s.sql, `"pgqueue".jobs j`):
				planned++
				plan := explain(t, db.Pool, setUp, s)
				if strings.Contains(plan, "Seq Scan on jobs j") || strings.Contains(plan, "Bitmap Heap Scan on jobs j") {
					t.Errorf("%s: a query that reads the whole table:\n%s\n%s", name, s.sql, plan)
				}
			}
		}
		if planned < 7 {
			t.Errorf("%s: %d queries that name jobs", name, planned)
		}
		t.Logf("%s: all checks in %v", name, report.Took)
	}
}

// explain plans a query of the doctor under its settings.
func explain(t *testing.T, pool *pgxpool.Pool, setUp, query sentStatement) string {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	if _, err := tx.Exec(t.Context(), setUp.sql, setUp.args...); err != nil {
		t.Fatal(err)
	}
	rows, err := tx.Query(t.Context(), "EXPLAIN "+query.sql, append([]any{pgx.QueryExecModeExec}, query.args...)...)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(slices.Clip(lines), "\n")
}
