package jobstore_test

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueue/internal/jobstore"
	"github.com/pgqueue/pgqueue/runner"
)

// C21: RETURNING gives rows in the order of the plan, not of the claim.
func TestClaimIsInOrder(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.queue.AlwaysFull()
	for _, limit := range []int{1, 17, 200} {
		for _, classes := range [][]runner.Class{{1, 2, 3, 4}, {4, 1, 2, 3}} {
			f.exec(`TRUNCATE %s.jobs`)
			// Many share an instant; neither priority nor time follows the id.
			f.exec(`INSERT INTO %s.jobs (queue, kind, priority, run_at)
				SELECT $1, 'k', 1 + (n * 7) %% 4, now() - make_interval(secs => (n * 13) %% 5) FROM generate_series(1, 400) n`, queueName)
			f.exec(`ANALYZE %s.jobs`)
			claimed := 0
			for {
				tasks := must(f.queue.Claim(f.ctx, runner.ClaimRequest{Limit: limit, Classes: classes, Lease: time.Minute}))(t)
				if len(tasks) == 0 {
					break
				}
				claimed += len(tasks)
				if !slices.IsSortedFunc(tasks, func(a, b runner.Task[*jobstore.Row]) int {
					return cmp.Or(cmp.Compare(slices.Index(classes, a.Class), slices.Index(classes, b.Class)),
						a.Due.Compare(b.Due), cmp.Compare(a.Payload.ID, b.Payload.ID))
				}) {
					t.Fatalf("limit %d, classes %v: not in order", limit, classes)
				}
			}
			if claimed != 400 {
				t.Fatalf("claimed %d of 400", claimed)
			}
		}
	}
}

// A subquery with LIMIT that is not an InitPlan may run again for each outer row. The settings push the planner there.
func TestClaimTakesNoMoreThanItsLimit(t *testing.T) {
	t.Parallel()
	f := open(t, setting("enable_hashjoin", "off"), setting("enable_mergejoin", "off"), setting("enable_hashagg", "off"),
		setting("enable_material", "off"), setting("enable_sort", "off"), setting("enable_memoize", "off"))
	f.exec(`ANALYZE %s.jobs`)
	f.insert(200)
	for i := range 10 {
		if got := len(f.claim(3)); got != 3 {
			t.Fatalf("claim returned %d, the limit is 3", got)
		}
		if got := query1[int](f, `SELECT count(*) FROM %s.jobs WHERE state = 'running'`); got != 3*(i+1) {
			t.Fatalf("%d jobs are running after %d claims of 3", got, i+1)
		}
	}
}

// C22: statistics from an empty table and no time for new ones.
func TestC22_ClaimPlan(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.exec(`ALTER TABLE %s.jobs SET (autovacuum_enabled = off)`)
	f.exec(`VACUUM ANALYZE %s.jobs`)
	f.insert(5000) // in a table of a few pages reading all of it is right
	rows := must(f.pool.Query(f.ctx, "EXPLAIN (ANALYZE) "+f.store.ClaimSQL(), pgx.QueryExecModeExec, queueName, 10, int64(1e9), "w", []string{"k"},
		[]int16{1, 2, 3, 4}, []string{"-infinity", "-infinity", "-infinity", "-infinity"}, []int64{0, 0, 0, 0}))(t)
	plan := strings.Join(must(pgx.CollectRows(rows, pgx.RowTo[string]))(t), "\n")
	if !strings.Contains(plan, "Index Scan using jobs_ready on jobs") || strings.Contains(plan, "Seq Scan on jobs") || strings.Contains(plan, "Sort") {
		t.Fatalf("the claim does not walk its index:\n%s", plan)
	}
}

// C22: a pool that keeps prepared statements must not keep their plans.
func TestC22_NoPlanIsKept(t *testing.T) {
	t.Parallel()
	f := open(t, mode(pgx.QueryExecModeCacheStatement), func(pool *pgxpool.Config, _ *jobstore.QueueConfig) { pool.MaxConns = 1 })
	for range 12 {
		row := f.claim1()
		f.report([]verdict{fail(row, runner.Retry)}, runner.Retrying)
		row = f.claim1()
		f.report([]verdict{succeed(row)}, runner.Succeeded)
		must(f.queue.Renew(f.ctx, []runner.Token{row}, time.Minute))(t)
		must(f.queue.Recover(f.ctx, 10))(t)
		if _, _, err := f.queue.NextDue(f.ctx); err != nil {
			t.Fatal(err)
		}
		f.exec(`TRUNCATE %s.jobs`)
	}
	got := query1[int](f, `SELECT coalesce(sum(generic_plans), 0)::int FROM pg_prepared_statements WHERE strpos(statement, '%s.jobs') > 0 AND statement LIKE 'WITH%%'`)
	if got != 0 {
		t.Fatalf("%d executions used a plan that was kept", got)
	}
}

// Raw SQL can write what Go's time has no words for.
func TestInfiniteTimes(t *testing.T) {
	t.Parallel()
	for _, m := range everyMode(t) {
		f := open(t, mode(m))
		f.exec(`INSERT INTO %s.jobs (queue, kind, run_at, created_at) VALUES ($1, 'k', 'infinity', 'infinity')`, queueName)
		if wait, ok, err := f.queue.NextDue(f.ctx); err != nil || ok {
			t.Fatalf("NextDue = %v, %v, %v, want nothing: infinity never comes", wait, ok, err)
		}
		f.exec(`INSERT INTO %s.jobs (queue, kind, run_at, created_at) SELECT $1, 'k', '-infinity', 'infinity' FROM generate_series(1, 4)`, queueName)
		f.insert(1)
		if wait, ok, err := f.queue.NextDue(f.ctx); err != nil || !ok || wait > 0 {
			t.Fatalf("NextDue = %v, %v, %v, want now", wait, ok, err)
		}
		first := f.claim(2) // full: the mark is at -infinity now
		f.queue.OnlyMarks()
		tasks := append(first, f.claim(10)...)
		if len(tasks) != 5 {
			t.Fatalf("claimed %d jobs, want 5", len(tasks))
		}
		for i, task := range tasks {
			if task.Err != nil || (i < 4) != task.Due.IsZero() {
				t.Fatalf("job %d: due %v, error %v", i, task.Due, task.Err)
			}
			f.report([]verdict{succeed(task.Payload)}, runner.Succeeded)
		}
	}
}

func TestClaimOnlyItsKinds(t *testing.T) {
	t.Parallel()
	f := open(t, kinds("a", "b"))
	f.exec(`INSERT INTO %s.jobs (queue, kind) SELECT $1, k FROM unnest(ARRAY['a', 'b', 'c']) k`, queueName)
	claimed := func(names ...string) string {
		var got []string
		for _, task := range must(f.queue.Claim(f.ctx, runner.ClaimRequest{Limit: 10, Lease: time.Minute, Kinds: names}))(t) {
			got = append(got, task.Kind)
		}
		return strings.Join(got, ",")
	}
	for _, step := range []struct{ kinds, want string }{{"c", ""}, {"b c", "b"}, {"", "a"}} {
		if got := claimed(strings.Fields(step.kinds)...); got != step.want && step.kinds != "" {
			t.Fatalf("kinds %q: claimed %q, want %q", step.kinds, got, step.want)
		}
	}
	if got := claimed(); got != "a" {
		t.Fatalf("claimed %q, want a", got)
	}
}

// A claim for a part of the kinds passes over the others' jobs; its mark must not hide them from the rest.
func TestMarkOfAPartIsNoMarkOfTheWhole(t *testing.T) {
	t.Parallel()
	f := open(t, kinds("a", "b"))
	f.claim(1)
	f.queue.OnlyMarks()
	f.exec(`INSERT INTO %s.jobs (queue, kind) VALUES ($1, 'b')`, queueName)
	f.exec(`SELECT pg_sleep(1.2) -- %s`) // longer than the margin
	only := func(kinds ...string) int {
		return len(must(f.queue.Claim(f.ctx, runner.ClaimRequest{Limit: 10, Lease: time.Minute, Kinds: kinds}))(t))
	}
	if got := only("a"); got != 0 {
		t.Fatalf("claimed %d", got)
	}
	f.queue.OnlyMarks()
	if got := only("a", "b"); got != 1 {
		t.Fatalf("claimed %d, want the job of b", got)
	}
}

// What commits late is found within the margin by any claim, and beyond it by the next full scan.
func TestMarks(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.insert(3)
	f.claim(10)
	f.queue.OnlyMarks()
	f.exec(`INSERT INTO %s.jobs (queue, kind, run_at) VALUES ($1, 'k', now() - interval '100 ms'), ($1, 'old', now() - interval '1 h')`, queueName)
	tasks := f.claim(10)
	if len(tasks) != 1 || tasks[0].Kind != "k" {
		t.Fatalf("claimed %d jobs from the mark, want the one inside the margin", len(tasks))
	}
	f.queue.FullScan()
	if tasks := f.claim(10); len(tasks) != 1 || tasks[0].Kind != "old" {
		t.Fatalf("claimed %d jobs by a full scan, want the old one", len(tasks))
	}

	// A job that this process puts back is found at once.
	f.queue.OnlyMarks()
	f.exec(`INSERT INTO %s.jobs (queue, kind) VALUES ($1, 'again')`, queueName)
	row := f.claim(1)[0].Payload
	f.exec(`UPDATE %s.jobs SET run_at = now() - interval '1 h' WHERE id = $1`, row.ID)
	f.report([]verdict{{Token: row, Decision: runner.Release}}, runner.Released)
	if tasks := f.claim(1); len(tasks) != 1 {
		t.Fatal("a released job below the mark was not found")
	}
}

// A bulk insert gives all rows one run_at: the mark is the place inside it, and nothing is passed over.
func TestMarkInsideOneInstant(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.exec(`INSERT INTO %s.jobs (queue, kind, priority, run_at) SELECT $1, 'k', 1 + n %% 2, now() - interval '1 h' FROM generate_series(1, 500) n`, queueName)
	claimed := 0
	for {
		tasks := f.claim(30)
		f.queue.OnlyMarks()
		if len(tasks) == 0 {
			break
		}
		claimed += len(tasks)
	}
	if claimed != 500 {
		t.Fatalf("claimed %d of 500", claimed)
	}
}

// A paused queue answers nothing, which says nothing about what is there: the marks stay.
func TestPause(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.claim(1)
	f.queue.OnlyMarks()
	f.exec(`INSERT INTO %s.jobs (queue, kind) VALUES ($1, 'k')`, queueName)
	if err := f.store.Pause(f.ctx, f.pool, queueName, "why"); err != nil {
		t.Fatal(err)
	}
	f.exec(`SELECT FROM %s.jobs, pg_sleep(1.2)`) // longer than the margin
	if tasks, err := f.queue.Claim(f.ctx, runner.ClaimRequest{Limit: 1, Lease: time.Minute}); len(tasks) > 0 || !errors.Is(err, runner.ErrPaused) {
		t.Fatalf("a claim of a paused queue: %v, %v", tasks, err)
	}
	if wait, ok, err := f.queue.NextDue(f.ctx); !errors.Is(err, runner.ErrPaused) || ok {
		t.Fatalf("NextDue = %v, %v, %v of a paused queue", wait, ok, err)
	}
	if got := query1[string](f, `SELECT paused_reason FROM %s.queues WHERE name = $1`, queueName); got != "why" {
		t.Fatalf("reason %q", got)
	}
	if err := f.store.Resume(f.ctx, f.pool, queueName); err != nil {
		t.Fatal(err)
	}
	if got := len(f.claim(1)); got != 1 {
		t.Fatal("the job was not found after the pause")
	}
}

// Other people's jobs do not make an idle worker look for work that is not its own.
func TestNextDueIsAboutItsKinds(t *testing.T) {
	t.Parallel()
	f := open(t, kinds("ours"))
	f.exec(`INSERT INTO %s.jobs (queue, kind) SELECT $1, 'theirs' FROM generate_series(1, 50)`, queueName)
	if wait, ok, err := f.queue.NextDue(f.ctx); err != nil || ok {
		t.Fatalf("NextDue = %v, %v, %v, want nothing", wait, ok, err)
	}
	f.exec(`INSERT INTO %s.jobs (queue, kind, run_at) VALUES ($1, 'ours', now() + '1 h')`, queueName)
	if wait, ok, err := f.queue.NextDue(f.ctx); err != nil || !ok || wait < 50*time.Minute || wait > time.Hour {
		t.Fatalf("NextDue = %v, %v, %v, want an hour", wait, ok, err)
	}
	f.exec(`INSERT INTO %s.jobs (queue, kind) SELECT $1, 'theirs' FROM generate_series(1, 200)`, queueName)
	if wait, ok, err := f.queue.NextDue(f.ctx); err != nil || !ok || wait <= 0 || wait > time.Minute {
		t.Fatalf("NextDue = %v, %v, %v, want an early guess that is not now", wait, ok, err)
	}
}

func TestClaimRequestIsChecked(t *testing.T) {
	t.Parallel()
	f := open(t)
	for _, request := range []runner.ClaimRequest{{Limit: 0, Lease: time.Minute}, {Limit: 1}} {
		if _, err := f.queue.Claim(f.ctx, request); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", queueName)) {
			t.Errorf("%+v: error %v", request, err)
		}
	}
}
