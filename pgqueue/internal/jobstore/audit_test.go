package jobstore_test

import (
	"math"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// A page of the audit log comes from an index, whatever is asked for and with either kind of plan: the log of a busy year is long. So does
// what upkeep deletes.
func TestTheAuditLogIsReadByIndex(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"force_custom_plan", "force_generic_plan"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			auditByIndex(open(t, setting("plan_cache_mode", kind)))
		})
	}
}

func auditByIndex(f *fixture) {
	f.Helper()
	f.exec(`INSERT INTO %s.audit (at, job_count, role, action, actor, queue, job_ids)
		SELECT now() - (200000 - g) * interval '1 min', 3, 'someone', 'retry', 'user-' || g %% 10, 'mail', ARRAY[g, g + 1, g + 2]::bigint[] FROM generate_series(1, 200000) g`)
	f.exec(`VACUUM ANALYZE %s.audit`)
	explain := func(sql string, args ...any) string {
		rows := must(f.pool.Query(f.ctx, "EXPLAIN "+sql, append([]any{pgx.QueryExecModeCacheDescribe}, args...)...))(f)
		return strings.Join(must(pgx.CollectRows(rows, pgx.RowTo[string]))(f), "\n")
	}
	actor := "user-7"
	for name, c := range map[string]struct {
		ofJob bool
		index string
		args  []any
	}{
		"all":      {false, "audit_at", []any{"infinity", int64(math.MaxInt64), "-infinity", "infinity", nil, nil, nil, nil, nil, nil, nil, 51, 51}},
		"an actor": {false, "audit_at", []any{"infinity", int64(math.MaxInt64), "-infinity", "infinity", &actor, nil, nil, nil, nil, nil, nil, 51, 10_000}},
		"a job":    {true, "audit_job_ids", []any{"infinity", int64(math.MaxInt64), "-infinity", "infinity", nil, nil, nil, nil, nil, nil, nil, 51, 51, int64(4711)}},
	} {
		if plan := explain(f.store.AuditSQL(c.ofJob), c.args...); !strings.Contains(plan, c.index) || strings.Contains(plan, "Seq Scan on audit") {
			f.Errorf("%s:\n%s", name, plan)
		}
	}
	f.exec(`ANALYZE %s.audit`)
	if gone := query1[int](f, `SELECT %s.expire_audit('120 days', 100)`); gone != 100 {
		f.Errorf("%d deleted", gone)
	}
	if first := query1[int](f, `SELECT min(id) FROM %s.audit`); first != 101 {
		f.Errorf("the oldest entry left is %d", first)
	}
}
