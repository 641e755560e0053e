package main

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// stateOf is the state in which a job is now, or "gone".
func stateOf(t testing.TB, db *pgqueuetest.DB, id int64) string {
	t.Helper()
	return jobValue[string](t, db, `SELECT coalesce((SELECT state FROM pgqueue.jobs WHERE id = $1), (SELECT state FROM pgqueue.history WHERE id = $1), 'gone')`, id)
}

// Each action in each state does what the table says, and nothing else; each success has its line in the audit log, and no refusal has.
func TestC140_EveryActionInEveryState(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	c := newCLI(t, db).with("PGQUEUE_ACTOR", "alice")
	states := []pgqueue.JobState{"pending", "running", "succeeded", "cancelled", "failed", "dead", "gone"}
	type row struct {
		args   []string
		action string
		codes  []int    // by state
		after  []string // by state; "" is as before
	}
	for _, r := range []row{
		{[]string{"retry"}, "retry", []int{4, 4, 4, 4, 0, 0, 3}, []string{"", "", "", "", "pending", "pending", ""}},
		{[]string{"cancel"}, "cancel", []int{0, 0, 4, 4, 4, 4, 3}, []string{"cancelled", "", "", "", "", "", ""}},
		{[]string{"delete"}, "delete", []int{0, 4, 0, 0, 0, 0, 3}, []string{"gone", "", "gone", "gone", "gone", "gone", ""}},
		{[]string{"delete", "--even-if-running"}, "delete", []int{0, 0, 0, 0, 0, 0, 3}, []string{"gone", "gone", "gone", "gone", "gone", "gone", ""}},
		{[]string{"reschedule", "--at", "+1h"}, "reschedule", []int{0, 4, 4, 4, 4, 4, 3}, make([]string, 7)},
		{[]string{"priority", "--to", "4"}, "set_priority", []int{0, 0, 4, 4, 0, 0, 3}, make([]string, 7)},
		{[]string{"max-attempts", "--to", "20"}, "set_max_attempts", []int{0, 0, 4, 4, 0, 0, 3}, make([]string, 7)},
		{[]string{"edit", "--payload", "-"}, "edit", []int{0, 4, 4, 4, 4, 4, 3}, make([]string, 7)},
		{[]string{"edit", "--payload", "-", "--supersede"}, "edit", []int{0, 0, 4, 4, 4, 4, 3}, make([]string, 7)},
		{[]string{"edit", "--payload", "-", "--retry"}, "retry_with", []int{4, 4, 4, 4, 0, 0, 3}, []string{"", "", "", "", "pending", "pending", ""}},
	} {
		for n, state := range states {
			id := int64(1_000_000)
			if state != "gone" {
				id = placeJob(t, db, state)
			}
			name := fmt.Sprintf("%s of a job that is %s", strings.Join(r.args, " "), state)
			args := append([]string{"jobs"}, append(slices.Clone(r.args), number(id))...)
			got := c.reading(`{"n": 2}`).run(args...)
			if got.code != r.codes[n] {
				t.Errorf("%s: exit code %d, want %d\n%s%s", name, got.code, r.codes[n], got.out, got.err)
			}
			after := r.after[n]
			if after == "" {
				after = string(state)
			}
			if is := stateOf(t, db, id); is != after {
				t.Errorf("%s: it is %s now, want %s", name, is, after)
			}
			told := jobValue[[]string](t, db, `SELECT coalesce(array_agg(actor || ' ' || action || ' ' || via), '{}') FROM pgqueue.audit WHERE job_ids @> ARRAY[$1::bigint]`, id)
			want := []string{}
			if got.code == exitOK {
				want = []string{"alice " + r.action + " cli"}
			}
			if !slices.Equal(told, want) {
				t.Errorf("%s: the audit log has %q, want %q", name, told, want)
			}
			if got.code != exitOK && (got.out != "" || got.err == "") {
				t.Errorf("%s: stdout %q, stderr %q", name, got.out, got.err)
			}
		}
	}
}

// Of many who retry one job at once, one succeeds.
func TestC140_FiftyRetriesAtOnce(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	id := placeJob(t, db, pgqueue.JobDead)
	c := newCLI(t, db)
	var succeeded, refused atomic.Int64
	var group sync.WaitGroup
	for range atSize(12, 50) {
		group.Go(func() {
			switch r := c.run("jobs", "retry", number(id)); r.code {
			case exitOK:
				succeeded.Add(1)
			case exitConflict:
				refused.Add(1)
			default:
				t.Errorf("exit code %d: %s", r.code, r.err)
			}
		})
	}
	group.Wait()
	if succeeded.Load() != 1 || refused.Load() != int64(atSize(12, 50))-1 {
		t.Errorf("%d succeeded, %d were refused", succeeded.Load(), refused.Load())
	}
	if n := jobValue[int](t, db, `SELECT count(*)::int FROM pgqueue.audit`); n != 1 {
		t.Errorf("%d entries in the audit log", n)
	}
}

// What somebody decided while looking at attempt 3 is not done to attempt 4.
func TestC140_AnotherVersionThanTheOneSeen(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	c := newCLI(t, db)
	for _, args := range [][]string{
		{"retry"}, {"delete"}, {"priority", "--to", "2"}, {"max-attempts", "--to", "9"}, {"edit", "--retry", "--payload", "-"},
	} {
		id := placeJob(t, db, pgqueue.JobDead) // attempt 3
		args = append([]string{"jobs"}, append(args, number(id), "--if-version")...)
		jobExec(t, db, `UPDATE pgqueue.history SET attempt = 4 WHERE id = $1`, id)
		c.reading("{}").run(append(slices.Clone(args), "3.1")...).want(exitConflict).says("it is at attempt 4 of input 1, no longer at attempt 3")
		if got := stateOf(t, db, id); got != "dead" {
			t.Errorf("%q: it is %s", args, got)
		}
		c.reading("{}").run(append(slices.Clone(args), "4.1")...).want(exitOK)
	}
	id := placeJob(t, db, pgqueue.JobPending)
	for _, action := range []string{"cancel", "reschedule"} {
		c.run("jobs", action, number(id), "--if-version", "1.1").want(exitConflict)
		c.run("jobs", action, number(id), "--if-version", "nonsense").want(exitUsage)
	}
	c.run("jobs", "cancel", number(id), number(id+1), "--if-version", "0.1").want(exitUsage)
	c.run("jobs", "cancel", number(id), "--if-version", "0.1").want(exitOK)
}

// Several jobs: each is done or refused on its own, and the exit code says whether all were done.
func TestActionsOnSeveralJobs(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	c := newCLI(t, db)
	a, b, live := placeJob(t, db, pgqueue.JobDead), placeJob(t, db, pgqueue.JobFailed), placeJob(t, db, pgqueue.JobPending)
	r := c.run("jobs", "retry", number(a), number(live), "777777", number(b), number(a), "--json").want(exitPartial)
	outcomes := lines[jobOutcome](r)
	if len(outcomes) != 4 || outcomes[0] != (jobOutcome{ID: a, Outcome: "retried"}) || outcomes[1].Code != exitConflict || outcomes[2].Code != exitNotFound || outcomes[3].Outcome != "retried" {
		t.Errorf("%+v", outcomes)
	}
	c.run("jobs", "retry", number(a), number(b)).want(exitConflict).says("the job is live")
	c.run("jobs", "cancel", number(a), number(b)).want(exitOK).says(number(a)+": cancelled", number(b)+": cancelled")
	running := placeJob(t, db, pgqueue.JobRunning)
	c.run("jobs", "cancel", number(running)).want(exitOK).says("asked to stop")
	c.run("jobs", "show", number(running)).want(exitOK).says("running, asked to stop")
	// A key that a newer job has.
	jobExec(t, db, `INSERT INTO pgqueue.jobs (queue, kind, key) VALUES ('default', 'task', 'K')`)
	jobExec(t, db, `SELECT setval('pgqueue.jobs_id_seq', 9000)`)
	insertEndedJobs(t, db, `SELECT 8000::bigint, 'dead', 'K'`)
	c.run("jobs", "retry", "8000").want(exitConflict).says("has its key")
	for _, args := range [][]string{
		{"retry"}, {"retry", "0"}, {"retry", "-5"}, {"retry", "1", "--all-matching"}, {"retry", "--all-matching", "--yes"}, {"retry", "--queue", "q"}, {"retry", "1", "--queue", "q"},
		{"retry", "1", "--dry-run"}, {"retry", "1", "--spread", "1m"}, {"retry", "--all-matching", "--queue", ""}, {"cancel", "--all-matching", "--queue", "q", "--spread", "1m"},
		{"priority", "1"}, {"priority", "1", "--to", "7"}, {"max-attempts", "1", "--to", "0"}, {"max-attempts", "--all-matching"}, {"reschedule", "1", "--at", "later"},
		{"delete", "--all-matching", "--queue", "q", "--yes"}, {"retry", "--all-matching", "--state", "pending", "--yes"}, {"retry", "--all-matching", "--state", "dead", "--yes", "--batch-size", "10001"},
		{"delete", "--all-matching", "--state", "running", "--yes"},
	} {
		if r := c.run(append([]string{"jobs"}, args...)...); r.code != exitUsage {
			t.Errorf("%q: exit code %d: %s%s", args, r.code, r.out, r.err)
		}
	}
}
