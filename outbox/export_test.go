package outbox

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgtype"
)

// RecoverBefore is Recover as another process does it, of claims made before a time in place of ones older than the lease.
func (q *Queue[P, R]) RecoverBefore(ctx context.Context, tb testing.TB, limit int, before pgtype.Timestamptz) (int, error) {
	reap := *q.sql["reap"]
	lease := "$" + strconv.Itoa(slices.Index(reap.Args, "lease_us")+1)
	age := "statement_timestamp() - " + lease + "::bigint * interval '1 microsecond'"
	if q.table.LeaseUntil == "" {
		if strings.Count(reap.SQL, age) != 1 {
			tb.Fatalf("the age of a claim is not where it was:\n%s", reap.SQL)
		}
		reap.SQL = strings.Replace(reap.SQL, age, lease+"::timestamptz", 1)
	}
	other := &Queue[P, R]{table: q.table, config: q.config, pool: q.pool, log: q.log, fresh: q.fresh, sql: maps.Clone(q.sql)}
	other.sql["reap"] = &reap
	given := args{"limit": int64(limit), "lease_us": q.config.Lease.Microseconds(), "max": int64(q.config.MaxAttempts)}
	if q.table.LeaseUntil == "" {
		given["lease_us"] = before
	}
	maps.Copy(given, other.claimed(nil))
	recovered, err := other.reap(ctx, "reap", given)
	return recovered.Total(), err
}
