package outbox_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/outbox"
	"github.com/pgqueue/pgqueue/pgqueuetest"
	"github.com/pgqueue/pgqueue/runner"
	"github.com/pgqueue/pgqueue/runner/queuetest"
)

// keys are the kinds of keys that the suite runs with, and how the item with a number is called in each.
func keys() map[string]struct {
	columns []outbox.KeyColumn
	values  func(n int) []any
} {
	uuid := func(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) }
	return map[string]struct {
		columns []outbox.KeyColumn
		values  func(n int) []any
	}{
		"bigint": {[]outbox.KeyColumn{{Name: "id"}}, func(n int) []any { return []any{int64(n)} }},
		"uuid":   {[]outbox.KeyColumn{{Name: "id", Type: "uuid"}}, func(n int) []any { return []any{uuid(n)} }},
		"text":   {[]outbox.KeyColumn{{Name: "id", Type: "text"}}, func(n int) []any { return []any{fmt.Sprintf(`{"no, %d}\`, n)} }},
		"composite": {[]outbox.KeyColumn{{Name: "tenant", Type: "uuid"}, {Name: "day", Type: "date"}, {Name: "no", Type: "integer"}},
			func(n int) []any { return []any{uuid(n % 3), "2026-05-01", int32(n)} }},
	}
}

// TestConformance runs the suite of package queuetest for every type of key and of status. What else a table may have is
// spread over these, so that each column is there in some and not in others.
func TestConformance(t *testing.T) {
	t.Parallel()
	i := 0
	for _, key := range []string{"bigint", "uuid", "text", "composite"} {
		for _, status := range []string{"text", "enum", "smallint"} {
			n := i
			i++
			s := shape{
				name: outbox.Name{"app", "deliveries"}, key: keys()[key].columns, status: status, cancelled: true, result: "jsonb",
				failures: n%2 == 0, priority: n%3 == 0, kind: n%3 != 1, lease: n%4 == 1, errors: n%5 != 2, finished: n%2 == 1, max: n%3 == 2,
				join: n%4 == 2, index: n%3 != 2,
			}
			switch n % 6 {
			case 3:
				s.token = "uuid"
			case 5:
				s.token = "text"
			}
			t.Run(key+"_"+status, func(t *testing.T) {
				t.Parallel()
				conform(t, s, keys()[key].values)
			})
		}
	}
}

// TestConformanceOfModes runs the suite once in every mode in which pgx sends statements, and with other isolation levels.
func TestConformanceOfModes(t *testing.T) {
	t.Parallel()
	mode := func(m pgx.QueryExecMode) func(*pgxpool.Config) {
		return func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = m }
	}
	setting := func(name, value string) func(*pgxpool.Config) {
		return func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams[name] = value }
	}
	for name, change := range map[string]func(*pgxpool.Config){
		"cache_describe":  mode(pgx.QueryExecModeCacheDescribe),
		"describe_exec":   mode(pgx.QueryExecModeDescribeExec),
		"exec":            mode(pgx.QueryExecModeExec),
		"simple_protocol": mode(pgx.QueryExecModeSimpleProtocol),
		"repeatable_read": setting("default_transaction_isolation", "repeatable read"),
		"serializable":    setting("default_transaction_isolation", "serializable"),
		"foreign_path":    setting("search_path", "pg_temp"),
	} {
		if !full() && (name == "cache_describe" || name == "describe_exec" || name == "serializable") {
			continue // planned as the default mode does, and as repeatable read
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := shape{name: outbox.Name{"app", "deliveries"}, key: keys()["composite"].columns, status: "enum", cancelled: true, result: "jsonb",
				failures: true, priority: true, kind: true, lease: true, errors: true, finished: true, join: true, index: true}
			conform(t, s, keys()["composite"].values, change)
		})
	}
}

// C77: names that need quoting, with the suite as the full flow.
func TestC77_NamesThatNeedQuoting(t *testing.T) {
	t.Parallel()
	schemas := []string{`we"ird @limit`, "O'Neil", strings.Repeat("ü", 31), "Jobs-App", "a.b", "select"}
	if !full() {
		schemas = schemas[:1]
	}
	for _, schema := range schemas {
		t.Run(schema, func(t *testing.T) {
			t.Parallel()
			s := shape{name: outbox.Name{schema, "Order Events"}, key: []outbox.KeyColumn{{Name: `I"d {{.x}}`}}, status: "enum", quoted: true,
				cancelled: true, result: "jsonb", failures: true, priority: true, kind: true, lease: true, token: "uuid", errors: true,
				finished: true, index: true}
			conform(t, s, keys()["bigint"].values)
		})
	}
}

// conform runs the suite on one database that is emptied for each case.
func conform(t *testing.T, s shape, values func(n int) []any, change ...func(*pgxpool.Config)) {
	options := []pgqueuetest.Option{pgqueuetest.WithoutMigrations()}
	for _, c := range change {
		options = append(options, pgqueuetest.WithPoolConfig(c))
	}
	db := pgqueuetest.New(t, options...)
	s.create(t, db.Pool)
	queuetest.Run(t, func(tb testing.TB) queuetest.Harness[row, result] {
		exec(tb, db.Pool, "DELETE FROM "+s.name.String())
		config := outbox.Config{MaxAttempts: 3, Lease: 0}
		if s.max {
			config.MaxAttempts = 50
		}
		return harness(tb, s, db.Pool, s.queue(tb, db.Pool, config), values)
	})
}

// harness gives the suite a queue over a table of this shape.
func harness(tb testing.TB, s shape, pool *pgxpool.Pool, q *queue, values func(n int) []any) queuetest.Harness[row, result] {
	numbers := map[string]int{}
	key := func(name string) []any {
		if _, ok := numbers[name]; !ok {
			numbers[name] = len(numbers) + 1
		}
		return values(numbers[name])
	}
	// is finds the row of an item: "id" = $1 AND …
	is := func() string {
		var conditions []string
		for i, k := range s.key {
			kind := k.Type
			if kind == "" {
				kind = "bigint"
			}
			conditions = append(conditions, fmt.Sprintf("%s = $%d::%s", quoted(k.Name), i+1, kind))
		}
		return strings.Join(conditions, " AND ")
	}()
	put := func(item queuetest.NewItem, body string) {
		columns, places, args := []string{}, []string{}, key(item.Name)
		add := func(column, place string, value any) {
			args = append(args, value)
			columns, places = append(columns, quoted(column)), append(places, fmt.Sprintf(place, len(args)))
		}
		for i, k := range s.key {
			kind := k.Type
			if kind == "" {
				kind = "bigint"
			}
			columns, places = append(columns, quoted(k.Name)), append(places, fmt.Sprintf("$%d::%s", i+1, kind))
		}
		add("name", "$%d::text", item.Name)
		add(s.col("next_attempt_at"), "now() + $%d::bigint * interval '1 microsecond'", item.Due.Microseconds())
		if s.kind {
			add(s.col("kind"), "$%d::text", item.Kind)
		}
		if s.priority {
			add(s.col("priority"), "$%d::int", int32(item.Class))
		}
		if s.max {
			add(s.col("max_attempts"), "$%d::int", int32(3))
		}
		exec(tb, pool, fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s)", s.name, strings.Join(columns, ", "), strings.Join(places, ", ")), args...)
		if s.join {
			exec(tb, pool, "DELETE FROM "+s.side()+" WHERE row_name = $1", item.Name)
			if body != "undecodable" {
				exec(tb, pool, "INSERT INTO "+s.side()+" VALUES ($1, $2)", item.Name, body)
			}
			return
		}
		set := "''"
		if body == "undecodable" {
			set = "NULL" // no string
		}
		exec(tb, pool, fmt.Sprintf("UPDATE %s SET body = %s WHERE %s", s.name, set, is), key(item.Name)...)
	}
	var before pgtype.Timestamptz
	h := queuetest.Harness[row, result]{
		Queue:   q.Engine(),
		Budget:  3,
		Without: []queuetest.Capability{queuetest.Revisions, queuetest.Eligibility, queuetest.CancelRequests},
		Add:     func(item queuetest.NewItem) { put(item, "") },
		Delete: func(name string) {
			exec(tb, pool, fmt.Sprintf("DELETE FROM %s WHERE %s", s.name, is), key(name)...)
		},
		Look: func(name string) queuetest.Item { return look(tb, s, pool, is, key(name)) },
		Name: func(task runner.Task[row]) string { return task.Payload.Name },
		MakeDue: func(name string) {
			exec(tb, pool, fmt.Sprintf("UPDATE %s SET %s = statement_timestamp() WHERE %s", s.name, quoted(s.col("next_attempt_at")), is), key(name)...)
		},
		ExpireLeases: func() {
			before = one[pgtype.Timestamptz](tb, pool, "SELECT clock_timestamp()")
			if s.lease {
				exec(tb, pool, fmt.Sprintf("UPDATE %s SET %s = now() - interval '1 second' WHERE %[2]s IS NOT NULL", s.name, quoted(s.col("lease_until"))))
			}
		},
		Recover: func(ctx context.Context, limit int) (int, error) {
			if !before.Valid { // nothing was let run out
				return q.RecoverBefore(ctx, tb, limit, pgtype.Timestamptz{InfinityModifier: pgtype.NegativeInfinity, Valid: true})
			}
			return q.RecoverBefore(ctx, tb, limit, before)
		},
		Result:    func(text string) result { return result{text} },
		BadResult: func() result { return result{"\x00"} },
		Lock: func(name string) func() {
			return lock(tb, pool, fmt.Sprintf("SELECT FROM %s WHERE %s FOR UPDATE", s.name, is), key(name))
		},
		AddUndecodable: func(name string) {
			put(queuetest.NewItem{Name: name, Kind: queuetest.KindA, Class: runner.ClassFresh}, "undecodable")
		},
	}
	for capability, there := range map[queuetest.Capability]bool{queuetest.Classes: s.priority, queuetest.Kinds: s.kind,
		queuetest.FailureCount: s.failures, queuetest.Renewal: s.lease} {
		if !there {
			h.Without = append(h.Without, capability)
		}
	}
	return h
}

// lock holds a row as another session does.
func lock(tb testing.TB, pool *pgxpool.Pool, sql string, args []any) func() {
	tx, err := pool.Begin(context.Background())
	if err != nil {
		tb.Fatal(err)
	}
	if tag, err := tx.Exec(context.Background(), sql, args...); err != nil || tag.RowsAffected() != 1 {
		tb.Fatalf("lock: %v, %d rows", err, tag.RowsAffected())
	}
	return func() { _ = tx.Rollback(context.Background()) }
}

// look reads how a row stands.
func look(tb testing.TB, s shape, pool *pgxpool.Pool, is string, key []any) (item queuetest.Item) {
	failures, stored := "0", "NULL"
	if s.failures {
		failures = quoted(s.col("failures"))
	}
	if s.result != "" {
		stored = quoted(s.col("result")) + "->>'text'"
	}
	var status string
	var text *string
	var due int64
	err := pool.QueryRow(context.Background(), fmt.Sprintf(`SELECT %s::text, %s, %s, %s, (extract(epoch FROM %s - clock_timestamp()) * 1e6)::bigint
		FROM %s WHERE %s`, quoted(s.col("status")), quoted(s.col("attempts")), failures, stored, quoted(s.col("next_attempt_at")), s.name, is), key...).
		Scan(&status, &item.Attempts, &item.Failures, &text, &due)
	if err == pgx.ErrNoRows {
		return item
	}
	if err != nil {
		tb.Fatal(err)
	}
	v := s.values()
	item.State = map[string]queuetest.State{v.Pending: queuetest.Waiting, v.Processing: queuetest.Claimed, v.Succeeded: queuetest.Succeeded,
		v.Failed: queuetest.Failed, v.Dead: queuetest.Dead, v.Cancelled: queuetest.Cancelled}[status]
	item.DueIn = time.Duration(due) * time.Microsecond
	if text != nil {
		item.HasResult, item.Result = true, *text
	}
	return item
}
