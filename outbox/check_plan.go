package outbox

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/runner"
)

// compareIndexes looks for the unique indexes that the description relies on. Without one over the key nothing is right; one
// that the producer wants is the producer's business.
func (q *Queue[P, R]) compareIndexes(ctx context.Context, tx pgx.Tx, report *CheckReport) (problems []string, err error) {
	rows, err := tx.Query(ctx, `
		SELECT i.indpred IS NOT NULL, ARRAY(SELECT a.attname::text FROM pg_catalog.unnest(i.indkey::smallint[]) WITH ORDINALITY k(attnum, ord)
		       JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum WHERE k.ord <= i.indnkeyatts)
		FROM pg_catalog.pg_index i
		WHERE i.indrelid = pg_catalog.to_regclass($1::text) AND i.indisunique AND i.indisvalid AND i.indexprs IS NULL`,
		unprepared, q.table.Name.String())
	if err != nil {
		return nil, err
	}
	var whole, all [][]string
	var partial bool
	var columns []string
	_, err = pgx.ForEachRow(rows, []any{&partial, &columns}, func() error {
		sorted := slices.Sorted(slices.Values(columns))
		all = append(all, sorted)
		if !partial {
			whole = append(whole, sorted)
		}
		columns = nil
		return nil
	})
	if err != nil {
		return nil, err
	}
	has := func(indexes [][]string, columns []string) bool {
		sorted := slices.Sorted(slices.Values(columns))
		return slices.ContainsFunc(indexes, func(index []string) bool { return slices.Equal(index, sorted) })
	}
	var key []string
	for _, k := range q.table.Key {
		key = append(key, k.Name)
	}
	if !has(whole, key) {
		problems = append(problems, fmt.Sprintf("Table.Key: there is no unique index over %s; run CREATE UNIQUE INDEX CONCURRENTLY ON %s (%s)",
			quoted(key), q.table.Name, quoted(key)))
	}
	for _, columns := range q.table.Unique {
		if !has(all, columns) {
			report.warn(fmt.Sprintf("there is no unique index over %s, on which the description says that the producer relies", quoted(columns)),
				"CREATE UNIQUE INDEX CONCURRENTLY ON %s (%s)", q.table.Name, quoted(columns))
		}
	}
	return problems, nil
}

func quoted(columns []string) string {
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = quote(c)
	}
	return strings.Join(names, ", ")
}

// explain has the planner say whether an index can serve the claim and the reaper. Scans and sorts are made so dear that they
// are left only where there is no other way: on a small table the planner would scan whatever indexes it has. It also
// finds what is wrong with Columns and Join, and rights that are missing.
func (q *Queue[P, R]) explain(ctx context.Context, tx pgx.Tx, report *CheckReport) error {
	if _, err := tx.Exec(ctx, `SELECT pg_catalog.set_config('enable_seqscan', 'off', true), pg_catalog.set_config('enable_sort', 'off', true),
		pg_catalog.set_config('enable_bitmapscan', 'off', true)`, unprepared); err != nil {
		return q.wrap("check", err)
	}
	claim := q.claimArgs(runner.ClaimRequest{Limit: 100, Lease: q.config.Lease}, forever())
	plan, err := q.plan(ctx, tx, "claim", claim)
	if err != nil {
		return err
	}
	n := q.table.names()
	first := ""
	if n.Priority != "" {
		first = n.Priority + ", "
	}
	served, err := q.served(ctx, tx, plan, "p", true)
	if err != nil {
		return err
	}
	if !served {
		report.warn("no index serves the claim: each look for due rows reads or sorts the table",
			"CREATE INDEX CONCURRENTLY ON %s (%s%s, %s) WHERE %s = %s", n.Table, first, n.NextAttempt, n.CreatedAt, n.Status, n.Pending)
	}
	reap := args{"limit": int64(100), "lease_us": q.config.Lease.Microseconds(), "max": int64(q.config.MaxAttempts)}
	maps.Copy(reap, q.claimed(nil))
	if plan, err = q.plan(ctx, tx, "reap", reap); err != nil {
		return err
	}
	if served, err = q.served(ctx, tx, plan, "x", false); err != nil {
		return err
	}
	if !served {
		report.warn("no index leads to the rows that are being processed: each look for stale claims reads the table",
			"CREATE INDEX CONCURRENTLY ON %s (%s) WHERE %s = %s", n.Table, n.AttemptedAt, n.Status, n.Processing)
	}
	return nil
}

// planNode is the part of a plan that is looked at.
type planNode struct {
	Type     string     `json:"Node Type"`
	Relation string     `json:"Relation Name"`
	Alias    string     `json:"Alias"`
	Index    string     `json:"Index Name"`
	Plans    []planNode `json:"Plans"`
}

func (q *Queue[P, R]) plan(ctx context.Context, tx pgx.Tx, name string, given args) (planNode, error) {
	s := q.sql[name]
	var text string
	err := tx.QueryRow(ctx, "EXPLAIN (FORMAT JSON) "+s.SQL, slices.Concat([]any{pgx.QueryExecModeDescribeExec}, s.values(given))...).Scan(&text)
	if code := sqlState(err); len(code) == 5 && (code[:2] == "42" || code[:2] == "22") { // syntax, names, rights; values that a column cannot hold
		return planNode{}, fmt.Errorf("%w %s: the statement %q cannot be planned: %w", ErrDescription, q.full, name, err)
	}
	if err != nil {
		return planNode{}, q.wrap("check", err)
	}
	var plans []struct{ Plan planNode }
	if err := json.Unmarshal([]byte(text), &plans); err != nil || len(plans) != 1 {
		return planNode{}, q.wrap("check", fmt.Errorf("read the plan of %q: %w", name, err))
	}
	return plans[0].Plan, nil
}

// scans collects how the table is read under this alias, and whether a sort stands above that.
func (n planNode) scans(alias string, below bool, found *[]planNode) (sorted bool) {
	below = below || n.Type == "Sort"
	if n.Relation != "" && (n.Alias == alias || strings.HasPrefix(n.Alias, alias+"_")) { // of a partition: p_1
		*found = append(*found, n)
		return below
	}
	for _, child := range n.Plans {
		sorted = child.scans(alias, below, found) || sorted
	}
	return sorted
}

// served tells whether an index leads to the rows: one that is partial, or has the status among its columns. Any other is walked over
// all the rows that have ended.
func (q *Queue[P, R]) served(ctx context.Context, tx pgx.Tx, plan planNode, alias string, ordered bool) (bool, error) {
	var scans []planNode
	if plan.scans(alias, false, &scans) && ordered {
		return false, nil
	}
	var indexes []string
	for _, scan := range scans {
		if scan.Index == "" {
			return false, nil
		}
		indexes = append(indexes, scan.Index)
	}
	var unserved int
	err := tx.QueryRow(ctx, `
		SELECT count(*) FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid
		WHERE c.relname = ANY ($1::text[]) AND (i.indrelid = pg_catalog.to_regclass($2::text)
		      OR i.indrelid IN (SELECT h.inhrelid FROM pg_catalog.pg_inherits h WHERE h.inhparent = pg_catalog.to_regclass($2::text)))
		  AND i.indpred IS NULL AND NOT EXISTS (SELECT FROM pg_catalog.pg_attribute a
		      WHERE a.attrelid = i.indrelid AND a.attname = $3::text AND a.attnum = ANY (i.indkey::smallint[]))`,
		unprepared, indexes, q.table.Name.String(), q.table.Status.Name).Scan(&unserved)
	return unserved == 0, q.wrap("check", err)
}
