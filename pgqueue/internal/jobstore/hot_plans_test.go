package jobstore_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// The statements that run all the time keep their plans whatever the size of the table and whatever the statistics say: each
// finds its rows by an index or where they lie, sorts nothing but its own arguments, and visits few rows that it does not return.
// Stale statistics are those of the empty table, of one on which nothing has run yet, and of one that others filled.
func TestHotStatementsKeepTheirPlans(t *testing.T) {
	t.Parallel()
	sizes := []int{0, 1000, 30_000}
	if os.Getenv("PGQUEUE_TEST_FULL") == "1" {
		sizes = append(sizes, 1_000_000)
	}
	for _, size := range sizes {
		for _, statistics := range []string{"fresh", "of the empty table", "from before the first claim", "of other kinds"} {
			t.Run(fmt.Sprintf("%d jobs, statistics %s", size, statistics), func(t *testing.T) {
				t.Parallel()
				f := open(t)
				f.exec(`ALTER TABLE %s.jobs SET (autovacuum_enabled = off)`)
				analyze := func(when string) {
					if when == statistics {
						f.exec(`VACUUM ANALYZE %s.jobs`)
					}
				}
				analyze("of the empty table")
				if statistics == "of other kinds" { // which have been done since
					f.exec(`INSERT INTO %s.jobs (queue, kind) SELECT $1, 'other' FROM generate_series(1, $2::int)`, queueName, size)
					analyze(statistics)
					f.exec(`DELETE FROM %s.jobs`)
				}
				f.insert(size)
				f.exec(`INSERT INTO %s.jobs (queue, kind, run_at) SELECT $1, 'k', now() + interval '1 day' FROM generate_series(1, $2::int)`, queueName, size/10)
				analyze("from before the first claim")
				hot := hotStatements(f, min(size, hotBatch))
				analyze("fresh")
				for _, statement := range hot {
					statement.check(t, f, size)
				}
			})
		}
	}
}

const hotBatch = 512

// hotStatement is a statement with arguments and what its plan may do.
type hotStatement struct {
	name    string
	args    []any
	returns int    // rows of jobs that it is about, or reads on purpose
	by      string // the indexes by which it finds them; "" = none, they lie where they were
	sorts   bool   // its own arguments, or the first row of each priority
}

// hotStatements are about claimed jobs of f.
func hotStatements(f *fixture, claimed int) []hotStatement {
	var ids []int64
	var attempts []int32
	var places []string
	if claimed > 0 {
		for _, task := range f.claim(claimed) {
			ids, attempts = append(ids, task.Payload.ID), append(attempts, int32(task.Payload.Attempt))
			places = append(places, query1[string](f, `SELECT ctid::text FROM %s.jobs WHERE id = $1`, task.Payload.ID))
		}
	}
	n := len(ids)
	words, empty := make([]string, n), make([]*string, n)
	for i := range words {
		words[i] = "retry"
	}
	finish := []any{queueName, ids, attempts, words, make([]*int64, n), empty, empty, empty, words, make([]*int32, n)}
	begin := []string{"-infinity", "-infinity", "-infinity", "-infinity"}
	one := []any{queueName, "k", `{"n":1}`, "{}", "{}", 1, nil, nil, 3}
	keyed := []any{queueName, []string{"k"}, []string{"a key"}, []*string{nil}, []string{"{}"}, []string{"{}"}, []string{"{}"}, []int16{1},
		[]*string{nil}, []*int64{nil}, []int16{3}, nil}
	return []hotStatement{
		{"enqueue_one", one, 0, "", false},
		{"enqueue_one_hint", append(one, "channel"), 0, "", false},
		{"enqueue", keyed, 0, "jobs_key", true},
		{"probe", []any{[]string{queueName}, begin, make([]int64, 4), []string{"k"}}, 100, "jobs_ready", true},
		{"claim", []any{queueName, 64, int64(30e6), "w", []string{"k"}, []int16{1, 2, 3, 4}, begin, make([]int64, 4)}, 64, "jobs_ready jobs_pkey", false},
		{"complete_at", []any{queueName, ids, attempts, places, false}, n, "", false},
		{"complete_forget_at", []any{queueName, ids, attempts, places}, n, "", false},
		{"complete", []any{queueName, ids, attempts, false}, n, "jobs_pkey", false},
		{"complete_forget", []any{queueName, ids, attempts}, n, "jobs_pkey", false},
		{"finish", finish, n, "jobs_pkey", false},
		{"put_back", finish, n, "jobs_pkey", false},
		{"renew", []any{queueName, ids, attempts, int64(30e6)}, n, "jobs_pkey", false},
		{"look", []any{queueName, ids}, n, "jobs_pkey", false},
		{"reap", []any{queueName, 100, "-infinity"}, n, "jobs_running", false}, // nothing has expired: it reads what runs
		{"lapsed", []any{[]string{queueName}, []string{"-infinity"}}, n + 1, "jobs_running", false},
		{"reap_from", []any{queueName, "-infinity"}, n, "jobs_running", false},
	}
}

// planNode is a node of EXPLAIN (FORMAT JSON).
type planNode struct {
	Type     string     `json:"Node Type"`
	Relation string     `json:"Relation Name"`
	Index    string     `json:"Index Name"`
	Rows     float64    `json:"Actual Rows"`
	Loops    float64    `json:"Actual Loops"`
	Filtered float64    `json:"Rows Removed by Filter"`
	Plans    []planNode `json:"Plans"`
}

// all calls visit for the node and every one below it.
func (p *planNode) all(visit func(*planNode)) {
	visit(p)
	for i := range p.Plans {
		p.Plans[i].all(visit)
	}
}

// reads tells whether rows of relation come out of a scan below the node.
func (p *planNode) reads(relation string) (found bool) {
	p.all(func(node *planNode) {
		found = found || node.Relation == relation && strings.HasSuffix(node.Type, "Scan") && node.Loops > 0
	})
	return found
}

// check runs the statement, takes it back, and looks at its plan.
func (h hotStatement) check(t *testing.T, f *fixture, size int) {
	t.Helper()
	tx := must(f.pool.Begin(f.ctx))(t)
	defer func() { _ = tx.Rollback(f.ctx) }()
	var raw string
	args := append([]any{pgx.QueryExecModeExec}, h.args...)
	if err := tx.QueryRow(f.ctx, "EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) "+f.store.SQL(h.name), args...).Scan(&raw); err != nil {
		t.Fatalf("%s: %v", h.name, err)
	}
	var plans []struct{ Plan planNode }
	if err := json.Unmarshal([]byte(raw), &plans); err != nil || len(plans) != 1 {
		t.Fatalf("%s: %v in %s", h.name, err, raw)
	}
	// Postgres reads a table of a few pages as fast as it looks some numbers up in an index, and may choose either, or to sort what it read.
	either := size <= 1000 && (h.by == "jobs_pkey" || h.name == "reap" || h.name == "lapsed")
	visited, scans := 0.0, 0
	plans[0].Plan.all(func(node *planNode) {
		if strings.HasSuffix(node.Type, "Sort") && node.reads("jobs") && !h.sorts && !either && size > 0 {
			t.Errorf("%s sorts rows of jobs:\n%s", h.name, raw)
		}
		if node.Relation != "jobs" || !strings.HasSuffix(node.Type, "Scan") {
			return
		}
		scans++
		visited += (node.Rows + node.Filtered) * node.Loops
		// Of an empty table nothing is read, in whatever way.
		if node.Type == "Seq Scan" && size > 0 && !either {
			t.Errorf("%s reads the whole table:\n%s", h.name, raw)
		}
		if h.by != "" && node.Index != "" && !slices.Contains(strings.Fields(h.by), node.Index) && node.Rows+node.Filtered > 0 {
			t.Errorf("%s goes by %s instead of %s:\n%s", h.name, node.Index, h.by, raw)
		}
		if h.by == "" && node.Type != "Tid Scan" && size > 0 {
			t.Errorf("%s looks up by %s what lies where it was:\n%s", h.name, node.Type, raw)
		}
	})
	if size > 0 && !either && visited > float64(5*max(h.returns, 1)) {
		t.Errorf("%s visits %v rows for %d:\n%s", h.name, visited, h.returns, raw)
	}
	if scans == 0 && !strings.HasPrefix(h.name, "enqueue_one") {
		t.Errorf("%s: no scan of jobs was found in\n%s", h.name, raw)
	}
}
