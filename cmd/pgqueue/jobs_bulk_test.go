package main

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// Half a million dead jobs come back in batches, some cannot, somebody presses Ctrl-C in between, the role has little patience, and the
// command that is printed goes on exactly there.
func TestC141_BulkRetryIsStoppedAndGoesOn(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	n := atSize(4_000, 500_000)
	insertDeadJobs(t, db, n)
	jobExec(t, db, `UPDATE pgqueue.history SET key = 'K' || id WHERE id % ($1::int / 5) = 0`, n)
	jobExec(t, db, `INSERT INTO pgqueue.jobs (queue, kind, key) SELECT 'default', 'task', key FROM pgqueue.history WHERE key IS NOT NULL`)
	jobExec(t, db, `ANALYZE`)
	name := jobValue[string](t, db, `SELECT current_database()`)
	jobExec(t, db, `ALTER DATABASE "`+name+`" SET statement_timeout = '2s'`)
	c := newCLI(t, db)

	if preview := decoded[bulkReport](c.long("jobs", "retry", "--all-matching", "--state", "dead", "--dry-run", "--json").want(exitOK)); preview.Matched != n || preview.Done != 0 {
		t.Fatalf("preview: %+v", preview)
	}
	// Nobody is there to confirm: nothing happens.
	c.long("jobs", "retry", "--all-matching", "--state", "dead").want(exitUsage).says("--yes")
	dead := func() int {
		return jobValue[int](t, db, `SELECT count(*)::int FROM pgqueue.history`)
	}
	if dead() != n {
		t.Fatal("something was done unasked")
	}
	stopped := c.stoppedAt("retried", "jobs", "retry", "--all-matching", "--state", "dead", "--finished-from", "-1d", "--spread", "1h", "--batch-size", "500", "--yes", "--json")
	stopped.want(exitStopped).says("stopped: ", "To go on:")
	first := decoded[bulkReport](stopped)
	if first.Complete || first.Cursor == "" || first.Done == 0 || first.Matched != 500 || dead() != n-first.Done {
		t.Fatalf("stopped: %+v, %d are dead", first, dead())
	}
	again := goesOn(t, stopped)
	if slices.Contains(again, "-1d") || !slices.Contains(again, "--finished-from") || !slices.Contains(again, "--spread") {
		t.Errorf("to go on: %q", again) // relative times would mean other jobs
	}
	rest := decoded[bulkReport](c.long(again...).want(exitPartial))
	if !rest.Complete || rest.Cursor != "" || first.Done+rest.Done != n-5 || first.Skipped+rest.Skipped != 5 || dead() != 5 {
		t.Errorf("the rest: %+v, %d are dead", rest, dead())
	}
	for _, skip := range slices.Concat(first.Skips, rest.Skips) {
		if skip.Reason != "key_taken" || skip.Other <= int64(n) {
			t.Errorf("skip %+v", skip)
		}
	}
	if soon := jobValue[int](t, db, `SELECT count(*)::int FROM pgqueue.jobs WHERE attempt = 3 AND run_at < now() + interval '30 minutes'`); soon < n/4 || soon > n*3/4 {
		t.Errorf("%d of %d are due within the first half of the hour", soon, n)
	}
	if audited := jobValue[int](t, db, `SELECT sum(job_count)::int FROM pgqueue.audit WHERE actor = 'tester' AND action = 'retry'`); audited != n-5 {
		t.Errorf("the audit log counts %d", audited)
	}
	// For people.
	text := c.long("jobs", "retry", "--all-matching", "--state", "dead", "--yes").want(exitPartial).says("5 jobs matched, 0 retried, 5 skipped", "has its key")
	if strings.Contains(text.err, "hint") {
		t.Errorf("stderr: %s", text.err)
	}
}

// A batch that statement_timeout ends becomes smaller, and the action goes on.
func TestC141_AShortStatementTimeout(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	insertDeadJobs(t, db, 100)
	jobExec(t, db, `CREATE FUNCTION public.slowly() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.02); RETURN OLD; END $$;
		CREATE TRIGGER slowly BEFORE DELETE ON pgqueue.history_attention FOR EACH ROW EXECUTE FUNCTION public.slowly()`)
	name := jobValue[string](t, db, `SELECT current_database()`)
	jobExec(t, db, `ALTER DATABASE "`+name+`" SET statement_timeout = '1s'`)
	r := decoded[bulkReport](newCLI(t, db).run("jobs", "delete", "--all-matching", "--state", "dead", "--yes", "--json").want(exitOK))
	if r.Done != 100 || r.Skipped != 0 || r.Batches < 3 {
		t.Errorf("%+v", r)
	}
}

// On a terminal the count is shown and the answer decides; Ctrl-C at the question ends it.
func TestBulkActionsAskOnATerminal(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	insertDeadJobs(t, db, 1_234)
	ask := func(answer string) result {
		c := newCLI(t, db)
		var out, err lockedBuffer
		in := terminal{struct {
			io.Reader
			io.Writer
		}{strings.NewReader(answer), io.Discard}}
		screen := terminal{struct {
			io.Reader
			io.Writer
		}{nil, &err}}
		args := []string{"jobs", "retry", "--all-matching", "--state", "dead", "--limit", "1000"}
		code := run(t.Context(), args, streams{in: in, out: &out, err: screen}, c.lookup)
		return result{t: t, args: args, code: code, out: out.String(), err: err.String()}
	}
	for _, answer := range []string{"n\n", "\n", ""} {
		if r := ask(answer).says("1,000 jobs match", "[y/N]"); r.code == exitOK {
			t.Errorf("the answer %q: %s", answer, r.out)
		}
	}
	if left := jobValue[int](t, db, `SELECT count(*)::int FROM pgqueue.history`); left != 1_234 {
		t.Fatalf("%d are left after three times no", left)
	}
	r := ask("y\n").want(exitOK).says("1,000 jobs matched, 1,000 retried", "To go on:", "--limit 1000")
	if r := newCLI(t, db).run(append(goesOn(t, r), "--yes")...).want(exitOK); !strings.Contains(r.out, "234 retried") {
		t.Errorf("the rest: %s", r.out)
	}
	if strings.Contains(r.err, "--yes") {
		t.Errorf("whoever was asked is asked again: %s", r.err)
	}
}

// The other actions on all that match, with what is theirs alone.
func TestBulkActions(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	jobExec(t, db, `INSERT INTO pgqueue.jobs (queue, kind, tags) SELECT 'q' || g % 2, 'task', CASE WHEN g % 4 = 0 THEN '{old}'::text[] ELSE '{}' END FROM generate_series(1, 400) g`)
	running := placeJob(t, db, "running")
	c := newCLI(t, db)
	do := func(args ...string) bulkReport {
		t.Helper()
		return decoded[bulkReport](c.run(append([]string{"jobs"}, append(args, "--all-matching", "--yes", "--json")...)...).want(exitOK))
	}
	if r := do("priority", "--to", "4", "--tag", "old"); r.Done != 100 {
		t.Errorf("priority: %+v", r)
	}
	if n := jobValue[int](t, db, `SELECT count(*)::int FROM pgqueue.jobs WHERE priority = 4`); n != 100 {
		t.Errorf("%d have it", n)
	}
	if r := do("reschedule", "--queue", "q1", "--at", "+1d", "--spread", "1h", "--batch-size", "50", "--pause", "1ms"); r.Done != 200 || r.Batches != 4 {
		t.Errorf("reschedule: %+v", r)
	}
	if n := jobValue[int](t, db, `SELECT count(*)::int FROM pgqueue.jobs WHERE run_at > now() + interval '23 h' AND run_at < now() + interval '26 h'`); n != 200 {
		t.Errorf("%d are due tomorrow", n)
	}
	if r := do("cancel", "--queue", "q0", "--queue", "q1"); r.Done != 200 {
		t.Errorf("cancel: %+v", r)
	}
	if r := do("cancel", "--queue", "default"); r.Done != 1 || r.Asked != 1 {
		t.Errorf("cancel: %+v", r)
	}
	if r := do("delete", "--state", "pending,cancelled"); r.Done != 400 {
		t.Errorf("delete: %+v", r)
	}
	if r := do("delete", "--state", "running", "--even-if-running"); r.Done != 1 || stateOf(t, db, running) != "gone" {
		t.Errorf("delete: %+v", r)
	}
	if r := do("retry", "--queue", "nothing"); r.Matched != 0 || !r.Complete {
		t.Errorf("nothing: %+v", r)
	}
}

// An action whose jobs match again afterwards is done to each of them once, however often it is stopped, and a limit counts over all parts.
func TestBulkActionsGoOnWithoutDoingAnythingTwice(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	jobExec(t, db, `INSERT INTO pgqueue.jobs (queue, kind) SELECT 'mail', 'task' FROM generate_series(1, 500)`)
	c := newCLI(t, db)
	stopped := c.stoppedAt("changed", "jobs", "priority", "--to", "3", "--all-matching", "--queue", "mail", "--limit", "350", "--batch-size", "100", "--yes").want(exitStopped)
	again := goesOn(t, stopped)
	if !strings.Contains(strings.Join(again, " "), "--limit 250") {
		t.Errorf("100 of 350 are done, and it goes on with %q", again)
	}
	r := c.run(again...).want(exitOK).says("250 changed", "the limit of 250 jobs is reached")
	c.run(goesOn(t, r)...).want(exitOK).says("150 changed")
	if n := jobValue[int](t, db, `SELECT sum(job_count)::int FROM pgqueue.audit`); n != 500 {
		t.Errorf("%d changes of 500 jobs", n)
	}
}

// What is printed to go on holds no connection string and no payload.
func TestC142_ToGoOnWithoutSecrets(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	insertDeadJobs(t, db, 30)
	jobExec(t, db, `UPDATE pgqueue.history SET payload = '{"ssn": "MARK-7788"}'`)
	c := &cli{t: t, env: map[string]string{"USER": "bob"}}
	r := c.run("jobs", "retry", "--all-matching", "--database-url", db.URL, "--payload", `{"ssn": "MARK-7788"}`, "--limit", "5", "--yes", "--verbose").want(exitOK)
	r.says("To go on:", "# with the same --payload and the same --database-url")
	if strings.Contains(r.err+r.out, "MARK-7788") || strings.Contains(r.err, db.URL) {
		t.Errorf("a secret is in what was written: %s", r.err)
	}
}

// Progress on a terminal is one line that is written over and cleared.
func TestProgressOnATerminal(t *testing.T) {
	t.Parallel()
	var screen bytes.Buffer
	line := &progressLine{to: &screen, terminal: true}
	line.show("10,000 retried")
	line.last = line.last.Add(-terminalProgress)
	line.show("done")
	line.end()
	if got := screen.String(); strings.Contains(got, "\n") || !strings.HasSuffix(got, "\r") || !strings.Contains(got, "\rdone          ") {
		t.Errorf("%q", got)
	}
}
