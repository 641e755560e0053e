package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// Every flag of the filter finds the one job that it describes.
func TestJobsListFilters(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	jobExec(t, db, `INSERT INTO pgqueue.jobs (queue, kind) SELECT 'default', 'task' FROM generate_series(1, 20)`)
	insertEndedJobs(t, db, `SELECT 100::bigint, 'failed', NULL`)
	jobExec(t, db, `UPDATE pgqueue.history SET errors = '[{"attempt": 1, "code": "other", "message": "m", "at": "2026-01-02T03:04:05Z"}]', finished_at = now() - interval '3 days'`)
	id := jobValue[int64](t, db, `INSERT INTO pgqueue.jobs (queue, kind, key, tags, priority, payload, created_at, run_at, state, attempt, claimed_by, claimed_at, lease_expires_at, claimed_generation)
		VALUES ('mail', 'send', 'it''s 7', '{a,b}', 2, '{"user": {"id": 9007199254740993}}', now() - interval '2 days', now() + interval '3 days', 'running', 1, 'host-1', now(), now() + interval '1 h', 1)
		RETURNING id`)
	c := newCLI(t, db)
	for _, flags := range [][]string{
		{"--queue", "mail"}, {"--kind", "send"}, {"--key", "it's 7"}, {"--tag", "a", "--tag", "b"}, {"--priority", "2"}, {"--id", number(id)}, {"--state", "running"},
		{"--payload", `{"user": {"id": 9007199254740993}}`}, {"--worker", "host-1"}, {"--created-to", "-1d"}, {"--due-from", "+2d"},
		{"--created-from", "-3d", "--created-to", "-36h", "--state", "running,pending"}, {"--min-id", number(id), "--max-id", number(id)},
	} {
		got := lines[jobLine](c.run(append([]string{"jobs", "list", "--json"}, flags...)...).want(exitOK))
		if len(got) != 1 || got[0].ID != id || got[0].Queue != "mail" || got[0].Version != "1.1" {
			t.Errorf("%q: %+v", flags, got)
		}
	}
	for _, flags := range [][]string{{"--code", "other"}, {"--finished-to", "-2d"}, {"--state", "failed"}, {"--state", "failed,dead", "--order", "latest-ended"}} {
		if got := lines[jobLine](c.run(append([]string{"jobs", "list", "--json"}, flags...)...).want(exitOK)); len(got) != 1 || got[0].ID != 100 || got[0].Code != "other" {
			t.Errorf("%q: %+v", flags, got)
		}
	}
	for _, flags := range [][]string{
		{"--queue", ""}, {"--state", ""}, {"--state", "broken"}, {"--tag", ""}, {"--created-from", "yesterday"}, {"--payload", "{"}, {"--priority", "9"},
		{"--order", "sideways"}, {"--limit", "0"}, {"--cursor", "x"}, {"--order", "next-due"}, {"--min-id", "9", "--max-id", "3"}, {"--preview", "1000000"}, {"17"},
	} {
		c.run(append([]string{"jobs", "list"}, flags...)...).want(exitUsage)
	}
	c.run("jobs", "list", "--queue", "nope").want(exitOK).says("no job matches")
}

// Pages follow one another without a gap, one cursor after the other, and --all is all of them.
func TestJobsListPages(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	jobExec(t, db, `INSERT INTO pgqueue.jobs (queue, kind) SELECT 'default', 'k' || g % 3 FROM generate_series(1, 2500) g`)
	c := newCLI(t, db)
	all := lines[jobLine](c.run("jobs", "list", "--all", "--json", "--kind", "k1").want(exitOK))
	if len(all) != 834 {
		t.Fatalf("%d jobs", len(all))
	}
	var walked []int64
	flags := []string{"jobs", "list", "--json", "--limit", "100", "--kind", "k1"}
	for from := []string(nil); ; {
		r := c.run(append(slices.Clone(flags), from...)...).want(exitOK)
		for _, job := range lines[jobLine](r) {
			walked = append(walked, job.ID)
		}
		if r.err == "" {
			break
		}
		from = []string{"--cursor", decoded[struct{ Next string }](result{t: t, out: r.err}).Next}
	}
	if len(walked) != len(all) {
		t.Fatalf("walked %d of %d", len(walked), len(all))
	}
	for n := range all {
		if all[n].ID != walked[n] {
			t.Fatalf("place %d: %d and %d", n, all[n].ID, walked[n])
		}
	}
	text := c.run("jobs", "list", "--limit", "3").want(exitOK).says("STATE", "pending", "there are more: --cursor")
	if n := strings.Count(text.out, "\n"); n != 4 {
		t.Errorf("%d lines:\n%s", n, text.out)
	}
	// More than a page at once.
	if got := lines[jobLine](c.run("jobs", "list", "--json", "--limit", "1700").want(exitOK)); len(got) != 1700 {
		t.Errorf("%d jobs of 1,700", len(got))
	}
}

// Where no index knows the answer, looking ends at a bound and says so, instead of walking over a million jobs.
func TestJobsListEndsAtItsBound(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	jobExec(t, db, `INSERT INTO pgqueue.jobs (queue, kind, tags) SELECT 'default', 'task', CASE WHEN g = 1 THEN '{rare}'::text[] ELSE '{}' END FROM generate_series(1, 3000) g`)
	jobExec(t, db, `ANALYZE pgqueue.jobs`)
	c := newCLI(t, db)
	r := c.run("jobs", "list", "--tag", "rare", "--scan", "1000").want(exitOK).says("looked at 1,0", "of which 0 match; go on with --cursor")
	if r.out != "" {
		t.Errorf("it found something: %s", r.out)
	}
	if got := lines[jobLine](c.run("jobs", "list", "--tag", "rare", "--json").want(exitOK)); len(got) != 1 {
		t.Errorf("with the usual bound: %+v", got)
	}
	if got := lines[jobLine](c.run("jobs", "list", "--tag", "rare", "--json", "--scan", "1000", "--all").want(exitOK)); len(got) != 1 {
		t.Errorf("with --all: %+v", got)
	}
}

func TestJobsCount(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	for _, state := range countedStates() {
		placeJob(t, db, state)
	}
	jobExec(t, db, `INSERT INTO pgqueue.jobs (queue, kind) SELECT 'many', 'task' FROM generate_series(1, 10100)`)
	jobExec(t, db, `ANALYZE pgqueue.jobs`)
	c := newCLI(t, db)
	c.run("jobs", "count", "--queue", "many", "--state", "pending").want(exitOK).says("10,000+")
	type counted struct {
		Total   struct{ N int }
		ByState map[string]struct {
			N    int
			More bool
		} `json:"by_state"`
	}
	exact := decoded[counted](c.run("jobs", "count", "--exact", "--json").want(exitOK))
	if exact.Total.N != 10_106 || exact.ByState["running"].N != 1 || exact.ByState["pending"].N != 10_101 || exact.ByState["pending"].More {
		t.Errorf("exact: %+v", exact)
	}
	quick := decoded[counted](c.run("jobs", "count", "--json", "--state", "dead").want(exitOK))
	if quick.Total.N != 1 || len(quick.ByState) != 1 {
		t.Errorf("dead: %+v", quick)
	}
	if audited := jobValue[int](t, db, `SELECT count(*)::int FROM pgqueue.audit`); audited != 0 {
		t.Errorf("counting left %d entries in the audit log", audited)
	}
}

func TestJobsAttention(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	c := newCLI(t, db)
	c.run("jobs", "attention").want(exitOK).says("nothing needs attention")
	insertDeadJobs(t, db, 30)
	jobExec(t, db, `UPDATE pgqueue.history SET kind = E'bad\x1b[2J' WHERE id > 20`)
	r := c.run("jobs", "attention").want(exitOK).says("boom", "task", `bad\x1b[2J`, "EXAMPLE")
	if strings.Contains(r.out, "\x1b") {
		t.Errorf("an escape reaches the terminal: %q", r.out)
	}
	type group struct {
		State, Code, Kind string
		N                 int
		Example           int64
	}
	groups := lines[group](c.run("jobs", "attention", "--json").want(exitOK))
	if len(groups) != 2 || groups[0].N != 20 || groups[1].N != 10 || groups[1].Kind != "bad\x1b[2J" || groups[0].Example == 0 {
		t.Errorf("%+v", groups)
	}
	c.run("jobs", "attention", "--state", "pending").want(exitUsage)
}

func TestJobsShowAndWhy(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	c := newCLI(t, db)
	dead, pending := placeJob(t, db, pgqueue.JobDead), placeJob(t, db, pgqueue.JobPending)
	jobExec(t, db, `UPDATE pgqueue.history SET payload = '{"n": 123456789012345678901234567890.10, "s": "\u009b2J"}', errors = jsonb_build_array(
		jsonb_build_object('attempt', 3, 'code', 'boom', 'message', E'\x1b]0;owned\x07 line\nline', 'at', '2026-01-02T03:04:05Z', 'by', 'w', 'started', '2026-01-02T03:04:03Z')) WHERE id = $1`, dead)
	jobExec(t, db, `SELECT pgqueue.pause('default', 'the relay is down')`)
	r := c.run("jobs", "show", number(dead)).want(exitOK).says("attempt 3 claimed by w", "attempt 3 failed after 2s: boom", "ended: dead", "3.1", "123456789012345678901234567890.10", `\u009b2J`)
	if strings.ContainsAny(r.out, "\x1b\x07\u009b") {
		t.Errorf("control characters reach the terminal: %q", r.out)
	}
	if record := decoded[jobRecord](c.run("jobs", "show", number(dead), "--json").want(exitOK)); len(record.Attempts) != 1 || !strings.Contains(string(record.Payload), "123456789012345678901234567890.10") {
		t.Errorf("%+v", record)
	}
	c.run("jobs", "show", number(pending)).want(exitOK).says("the relay is down")
	c.run("jobs", "why", number(pending), number(dead)).want(exitOK).says("the relay is down", fmt.Sprintf("%d: ", dead))
	several := c.run("jobs", "why", "99999", number(pending)).want(exitPartial).says("There is no job 99999", "the relay is down")
	if strings.Contains(several.out, `\n`) || !strings.Contains(several.out, "\n  Also: ") {
		t.Errorf("the lines of the answer are not lines: %s", several.out)
	}
	c.run("jobs", "why", "99999").want(exitNotFound)
	if shown := c.run("jobs", "show", number(pending)).want(exitOK).out; strings.Contains(shown, `\n`) || !strings.Contains(shown, "\n"+strings.Repeat(" ", len("not running because  "))+"Also: ") {
		t.Errorf("the lines of the answer are not lines: %s", shown)
	}
	c.run("jobs", "show", "99999").want(exitNotFound)
	c.run("jobs", "show", "x").want(exitUsage)
	c.run("jobs", "show").want(exitUsage)
	c.run("jobs", "lisst").want(exitUsage)
}
