package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgxpool"
)

// The proof, in SQL. Anybody can run these against the database after the demo.
const (
	// Every completed run appended one row to demo.runs, in the transaction that completed the job, and no unique key
	// kept it from appending twice.
	onceSQL = `
SELECT count(*)                                            AS appended,
       count(DISTINCT (path, revision))                    AS distinct_revisions,
       count(*) - count(DISTINCT (path, revision))         AS doubled,
       (SELECT count(*) FROM demo.source_index)            AS indexed
FROM demo.runs`

	// demo.files is the tree. A file is lost when it is neither indexed at its present hash nor has a failed job with it.
	lostSQL = `
SELECT count(*) AS files,
       count(*) FILTER (WHERE NOT EXISTS (
           SELECT FROM demo.source_index i WHERE i.path = f.path AND i.revision = f.hash
       ) AND NOT EXISTS (
           SELECT FROM pgqueue.history h
           WHERE h.queue = 'index' AND h.state = 'failed' AND h.key = f.path AND h.revision = f.hash
       )) AS lost
FROM demo.files f`

	// The last failure of each file that is not indexed at its present hash.
	failedSQL = `
SELECT code, count(*) AS files
FROM (SELECT DISTINCT ON (h.key) h.errors -> -1 ->> 'code' AS code
      FROM pgqueue.history h
      JOIN demo.files f ON f.path = h.key AND f.hash = h.revision
      WHERE h.queue = 'index' AND h.state = 'failed'
        AND NOT EXISTS (SELECT FROM demo.source_index i WHERE i.path = f.path AND i.revision = f.hash)
      ORDER BY h.key, h.finished_at DESC) last_failures
GROUP BY code
ORDER BY code`
)

// suggestion is a query to try in psql.
type suggestion struct{ what, sql string }

func suggestedQueries() []suggestion {
	return []suggestion{
		{"Which files failed, and why?", `
SELECT key, errors -> -1 ->> 'code' AS code, finished_at
FROM pgqueue.history
WHERE queue = 'index' AND state = 'failed'
ORDER BY key LIMIT 10`},
		{"Which jobs needed a second attempt, because their worker was killed?", `
SELECT key, attempt, errors -> 0 ->> 'code' AS first_error, claimed_by AS done_by, finished_at - created_at AS took
FROM pgqueue.history
WHERE queue = 'index' AND failures > 0 AND state = 'succeeded'
ORDER BY took DESC LIMIT 10`},
		{"Which packages export most, and how well are they documented?", `
SELECT import_path, sum(cardinality(exported)) AS exported, 100 * sum(documented) / sum(cardinality(exported)) AS percent
FROM demo.source_index
WHERE cardinality(exported) > 0 AND path NOT LIKE '%\_test.go'
GROUP BY import_path
ORDER BY exported DESC LIMIT 10`},
	}
}

// suggestions are the three queries as text.
func suggestions() string {
	var text strings.Builder
	for _, query := range suggestedQueries() {
		fmt.Fprintf(&text, "\n    -- %s%s;\n", query.what, indent(query.sql))
	}
	return text.String()
}

func indent(sql string) string { return strings.ReplaceAll(sql, "\n", "\n    ") }

// answer is what a query returned, as text.
type answer struct {
	columns []string
	rows    [][]string
	numbers []bool // by column: all values are numbers
}

// ask runs a query.
func ask(ctx context.Context, pool *pgxpool.Pool, sql string) (answer, error) {
	rows, err := pool.Query(ctx, sql)
	if err != nil {
		return answer{}, fmt.Errorf("ask %q: %w", strings.TrimSpace(sql), err)
	}
	defer rows.Close()
	var a answer
	for _, field := range rows.FieldDescriptions() {
		a.columns = append(a.columns, field.Name)
		a.numbers = append(a.numbers, true)
	}
	for rows.Next() {
		values, err := rows.Values()
		if err != nil {
			return answer{}, fmt.Errorf("ask %q: %w", strings.TrimSpace(sql), err)
		}
		row := make([]string, len(values))
		for i, value := range values {
			if _, ok := value.(int64); !ok {
				a.numbers[i] = false
			}
			if value != nil {
				row[i] = fmt.Sprint(value)
			}
		}
		a.rows = append(a.rows, row)
	}
	if err := rows.Err(); err != nil {
		return answer{}, fmt.Errorf("ask %q: %w", strings.TrimSpace(sql), err)
	}
	return a, nil
}

// count returns a number from the first row.
func (a answer) count(column string) (int, error) {
	for i, name := range a.columns {
		if name == column && len(a.rows) > 0 {
			return strconv.Atoi(a.rows[0][i])
		}
	}
	return 0, fmt.Errorf("the answer has no %s", column)
}

// print writes the answer as psql would, numbers to the right.
func (a answer) print(out io.Writer) {
	widths := make([]int, len(a.columns))
	for _, row := range append([][]string{a.columns}, a.rows...) {
		for i, value := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(value))
		}
	}
	line := func(row []string) {
		var text strings.Builder
		for i, value := range row {
			fill := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(value))
			if i > 0 {
				text.WriteString(" | ")
			}
			if a.numbers[i] {
				text.WriteString(fill + value)
			} else {
				text.WriteString(value + fill)
			}
		}
		fmt.Fprintln(out, "    "+strings.TrimRight(text.String(), " "))
	}
	rule := make([]string, len(widths))
	for i, width := range widths {
		rule[i] = strings.Repeat("-", width)
	}
	line(a.columns)
	fmt.Fprintln(out, "    "+strings.Join(rule, "-+-"))
	for _, row := range a.rows {
		line(row)
	}
}
