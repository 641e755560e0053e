package pgqueue_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueue"
)

func newInspector(t testing.TB, q pgqueue.Querier) *pgqueue.Inspector {
	t.Helper()
	inspector, err := pgqueue.NewInspector(q, pgqueue.InspectorConfig{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return inspector
}

// endedColumns are the columns of history that tests fill, and endedValues values for the others.
const (
	endedColumns = `run_at, created_at, generation, error_count, priority, failures, max_attempts, payload, metadata, tags`
	endedValues  = `now(), now(), 1, 0, 1, 0, 3, '{}', '{}', '{}'`
)

// insertEnded writes jobs that have ended: for each row of from, the columns id, queue, kind, state, attempt, finished.
func insertEnded(t testing.TB, pool *pgxpool.Pool, from string, args ...any) {
	t.Helper()
	exec(t, pool, `INSERT INTO pgqueue.history (id, queue, kind, state, attempt, finished_at, day, `+endedColumns+`)
		SELECT id, queue, kind, state, attempt, finished,
		       CASE WHEN state IN ('failed', 'dead') THEN 'infinity' ELSE (finished AT TIME ZONE 'UTC')::date END, `+endedValues+`
		FROM (`+from+`) x (id, queue, kind, state, attempt, finished)`, args...)
}

// insertDead writes n dead jobs with the numbers behind first, a second apart, the last one a minute ago.
func insertDead(t testing.TB, pool *pgxpool.Pool, first, n int) {
	t.Helper()
	insertEnded(t, pool, `SELECT $1::bigint + g, 'default', 'task', 'dead', 3, now() - interval '1 minute' - ($2::int - g) * interval '1 s'
		FROM generate_series(1, $2::int) g`, first, n)
}

// sent records the statements of a pool's batches with their arguments, to explain them afterwards.
type sent struct {
	mutex   sync.Mutex
	queries []pgx.TraceBatchQueryData
}

func (s *sent) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}
func (s *sent) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
func (s *sent) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}
func (s *sent) TraceBatchQuery(_ context.Context, _ *pgx.Conn, data pgx.TraceBatchQueryData) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.queries = append(s.queries, data)
}
func (s *sent) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

func (s *sent) take() []pgx.TraceBatchQueryData {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	taken := s.queries
	s.queries = nil
	return taken
}

// planNode is a node of a plan that was run.
type planNode struct {
	Type     string     `json:"Node Type"`
	Relation string     `json:"Relation Name"`
	Index    string     `json:"Index Name"`
	Rows     float64    `json:"Actual Rows"`
	Removed  float64    `json:"Rows Removed by Filter"`
	Loops    float64    `json:"Actual Loops"`
	Plans    []planNode `json:"Plans"`
}

// each visits every node.
func (n *planNode) each(visit func(*planNode)) {
	visit(n)
	for i := range n.Plans {
		n.Plans[i].each(visit)
	}
}

// read is how many rows were read from tables and their indexes.
func (n *planNode) read() (rows float64) {
	n.each(func(n *planNode) {
		if n.Relation != "" {
			rows += (n.Rows + n.Removed) * n.Loops
		}
	})
	return rows
}

// plan runs a batch that was sent before once more, and explains its last statement.
func plan(t testing.TB, pool *pgxpool.Pool, queries []pgx.TraceBatchQueryData) (node planNode, text string) {
	t.Helper()
	batch := &pgx.Batch{}
	for _, query := range queries[:len(queries)-1] {
		batch.Queue(query.SQL, query.Args...)
	}
	last := queries[len(queries)-1]
	var raw []byte
	batch.Queue("EXPLAIN (ANALYZE, FORMAT JSON) "+last.SQL, last.Args...).QueryRow(func(row pgx.Row) error { return row.Scan(&raw) })
	if err := pool.SendBatch(testContext(t), batch).Close(); err != nil {
		t.Fatalf("%s: %v", last.SQL, err)
	}
	var plans []struct{ Plan planNode }
	if err := json.Unmarshal(raw, &plans); err != nil {
		t.Fatal(err)
	}
	return plans[0].Plan, string(raw)
}

// requireIndexed runs what sends reads, and checks that each of them was planned on indexes, and read at most so many rows.
func requireIndexed(t testing.TB, pool *pgxpool.Pool, record *sent, name string, most float64, do func()) {
	t.Helper()
	record.take()
	do()
	queries := record.take()
	for i := 0; i+1 < len(queries); i += 2 { // by_index, statement
		node, text := plan(t, pool, queries[i:i+2])
		node.each(func(n *planNode) {
			if strings.Contains(n.Type, "Seq Scan") && (n.Relation == "jobs" || strings.HasPrefix(n.Relation, "history")) {
				t.Errorf("%s: %s of %s:\n%s\n%s", name, n.Type, n.Relation, queries[i+1].SQL, text)
			}
		})
		if rows := node.read(); rows > most {
			t.Errorf("%s: read %.0f rows, at most %.0f are needed:\n%s\n%s", name, rows, most, queries[i+1].SQL, text)
		}
	}
}

// ids are the numbers of jobs.
func ids(jobs []pgqueue.JobSummary) []int64 {
	numbers := make([]int64, len(jobs))
	for i := range jobs {
		numbers[i] = jobs[i].ID
	}
	return numbers
}

func list(t testing.TB, inspector *pgqueue.Inspector, filter pgqueue.Filter, options pgqueue.ListOptions) *pgqueue.JobPage {
	t.Helper()
	page, err := inspector.List(testContext(t), filter, options)
	if err != nil {
		t.Fatalf("list %+v %+v: %v", filter, options, err)
	}
	return page
}

// walk goes from page to page and returns what it saw. It fails where a list does not end.
func walk(t testing.TB, inspector *pgqueue.Inspector, filter pgqueue.Filter, options pgqueue.ListOptions) (seen []int64, last *pgqueue.JobPage) {
	t.Helper()
	for range 100_000 {
		last = list(t, inspector, filter, options)
		seen = append(seen, ids(last.Jobs)...)
		if last.Next == "" {
			return seen, last
		}
		options.Cursor = last.Next
	}
	t.Fatal("the list does not end")
	return nil, nil
}

// equal compares two lists of numbers.
func equal(a, b []int64) bool { return fmt.Sprint(a) == fmt.Sprint(b) }
