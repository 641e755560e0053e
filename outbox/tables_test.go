package outbox_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/outbox"
	"github.com/pgqueue/pgqueue/runner"
)

// shape is a table of an application's, as the tests vary it.
type shape struct {
	name      outbox.Name
	key       []outbox.KeyColumn
	status    string // the type: "text", "enum" or "smallint"
	failures  bool
	max       bool
	priority  bool
	kind      bool
	lease     bool
	token     string // type, or none
	errors    bool
	finished  bool
	result    string // type, or none
	join      bool
	cancelled bool
	index     bool
	quoted    bool // names that need quoting
}

// row is what the handlers of the tests are given.
type row struct {
	Name string
	Body string
}

// result is what they return.
type result struct {
	Text string `json:"text"`
}

// col is the name of a column in this shape.
func (s shape) col(name string) string {
	if s.quoted {
		return map[string]string{"status": `Select`, "id": `I"d`, "attempts": "at@limit", "next_attempt_at": "Next Attempt"}[name] + strings.ToUpper(name[:1]) + name[1:]
	}
	return name
}

func quoted(name string) string { return pgx.Identifier{name}.Sanitize() }

func (s shape) values() outbox.StatusColumn {
	c := outbox.StatusColumn{Name: s.col("status"), Pending: "pending", Processing: "processing", Succeeded: "delivered", Failed: "failed",
		Dead: "dead"}
	if s.cancelled {
		c.Cancelled = `can'c\elled`
	}
	if s.status == "smallint" {
		c.Pending, c.Processing, c.Succeeded, c.Failed, c.Dead = "0", "1", "2", "3", "-4"
		if s.cancelled {
			c.Cancelled = "5"
		}
	}
	return c
}

// table describes the shape.
func (s shape) table() outbox.Table[row, result] {
	when := func(there bool, name string) string {
		if there {
			return s.col(name)
		}
		return ""
	}
	t := outbox.Table[row, result]{
		Name: s.name, Key: s.key, Status: s.values(), Attempts: s.col("attempts"), NextAttempt: s.col("next_attempt_at"),
		AttemptedAt: s.col("attempted_at"), CreatedAt: s.col("created_at"), Failures: when(s.failures, "failures"),
		MaxAttempts: when(s.max, "max_attempts"), Priority: when(s.priority, "priority"), Kind: when(s.kind, "kind"),
		LeaseUntil: when(s.lease, "lease_until"), Token: when(s.token != "", "token"), ErrorCode: when(s.errors, "error_code"),
		LastError: when(s.errors, "last_error"), FinishedAt: when(s.finished, "finished_at"),
		Columns: []string{"t.name", "t.body::text AS body"},
		Scan:    pgx.RowToStructByName[row],
	}
	if s.result != "" {
		t.Result = outbox.Column{Name: s.col("result"), Type: s.result}
		if s.result == "text" {
			t.Encode = func(r result) (string, error) { return r.Text, nil }
		}
	}
	if s.join {
		t.Columns = []string{"t.name", "n.body::text AS body"}
		t.Join = "JOIN " + s.side() + " n ON n.row_name = t.name"
	}
	return t
}

// side is the table that the join reads.
func (s shape) side() string { return outbox.Name{s.name[0], "notes"}.String() }

// create makes the table.
func (s shape) create(t testing.TB, pool *pgxpool.Pool) {
	t.Helper()
	statusType := s.status
	exec(t, pool, "CREATE SCHEMA IF NOT EXISTS "+quoted(s.name[0]))
	values := s.values()
	if s.status == "enum" {
		statusType = outbox.Name{s.name[0], "Delivery Status"}.String()
		labels := []string{values.Pending, values.Processing, values.Succeeded, values.Failed, values.Dead}
		if s.cancelled {
			labels = append(labels, values.Cancelled)
		}
		for i, label := range labels {
			labels[i] = "'" + strings.ReplaceAll(label, "'", "''") + "'"
		}
		exec(t, pool, "CREATE TYPE "+statusType+" AS ENUM ("+strings.Join(labels, ", ")+")")
	}
	var lines, keys []string
	for _, k := range s.key {
		kind := k.Type
		if kind == "" {
			kind = "bigint"
		}
		lines = append(lines, quoted(k.Name)+" "+kind)
		keys = append(keys, quoted(k.Name))
	}
	add := func(there bool, name, kind string) {
		if there {
			lines = append(lines, quoted(s.col(name))+" "+kind)
		}
	}
	pending := "'" + values.Pending + "'"
	add(true, "status", statusType+" NOT NULL DEFAULT "+pending)
	add(true, "attempts", "int NOT NULL DEFAULT 0")
	add(true, "next_attempt_at", "timestamptz NOT NULL DEFAULT now()")
	add(true, "attempted_at", "timestamptz")
	add(true, "created_at", "timestamptz NOT NULL DEFAULT now()")
	add(s.failures, "failures", "smallint NOT NULL DEFAULT 0")
	add(s.max, "max_attempts", "int")
	add(s.priority, "priority", "int NOT NULL DEFAULT 1")
	add(s.kind, "kind", "text NOT NULL DEFAULT 'alpha'")
	add(s.lease, "lease_until", "timestamptz")
	add(s.token != "", "token", s.token)
	add(s.errors, "error_code", "text")
	add(s.errors, "last_error", "text")
	add(s.finished, "finished_at", "timestamptz")
	add(s.result != "", "result", s.result)
	lines = append(lines, "name text NOT NULL", "body text DEFAULT ''", "PRIMARY KEY ("+strings.Join(keys, ", ")+")")
	exec(t, pool, fmt.Sprintf("CREATE TABLE %s (%s)", s.name, strings.Join(lines, ", ")))
	if s.join {
		exec(t, pool, "CREATE TABLE "+s.side()+" (row_name text, body text)")
	}
	if s.index {
		first := ""
		if s.priority {
			first = quoted(s.col("priority")) + ", "
		}
		exec(t, pool, fmt.Sprintf("CREATE INDEX ON %s (%s%s, %s) WHERE %s = %s", s.name, first, quoted(s.col("next_attempt_at")),
			quoted(s.col("created_at")), quoted(s.col("status")), pending))
		exec(t, pool, fmt.Sprintf("CREATE INDEX ON %s (%s) WHERE %s = '%s'", s.name, quoted(s.col("attempted_at")),
			quoted(s.col("status")), values.Processing))
	}
}

func exec(t testing.TB, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := pool.Exec(context.Background(), sql, args...); err != nil {
		t.Fatalf("%v\n%s", err, sql)
	}
}

func one[T any](t testing.TB, pool *pgxpool.Pool, sql string, args ...any) (value T) {
	t.Helper()
	if err := pool.QueryRow(context.Background(), sql, args...).Scan(&value); err != nil {
		t.Fatalf("%v\n%s", err, sql)
	}
	return value
}

// plain is the table that most tests use: a bigint key, a text status, no failures, no lease.
func plain() shape {
	return shape{name: outbox.Name{"app", "deliveries"}, key: []outbox.KeyColumn{{Name: "id"}}, status: "text", errors: true, finished: true,
		index: true}
}

// open makes the table and a queue over it.
func (s shape) open(t testing.TB, pool *pgxpool.Pool, config outbox.Config) *outbox.Queue[row, result] {
	t.Helper()
	s.create(t, pool)
	return s.queue(t, pool, config)
}

func (s shape) queue(t testing.TB, pool *pgxpool.Pool, config outbox.Config) *outbox.Queue[row, result] {
	t.Helper()
	q, err := outbox.New(pool, s.table(), config)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

type (
	queue = outbox.Queue[row, result]
	task  = runner.Task[row]
)
