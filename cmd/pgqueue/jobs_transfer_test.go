package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// moved is what an import must bring over, of all live jobs, in the order of their numbers.
const moved = `SELECT coalesce(string_agg(concat_ws('|', queue, kind, key, revision, priority, tags::text, payload::text, metadata::text, max_attempts,
	extract(epoch FROM run_at)), E'\n' ORDER BY payload->>'n', id), '') FROM pgqueue.jobs`

// What was exported and imported into another database is the same, digit by digit; importing it again changes nothing.
func TestExportAndImport(t *testing.T) {
	t.Parallel()
	from, to := pgqueuetest.New(t), pgqueuetest.New(t)
	n := atSize(1_200, 100_000)
	jobExec(t, from, `INSERT INTO pgqueue.jobs (queue, kind, key, revision, priority, tags, payload, metadata, max_attempts, run_at)
		SELECT 'q' || g % 3, 'k' || g % 5, CASE WHEN g % 2 = 0 THEN 'key ' || g END, CASE WHEN g % 4 = 0 THEN 'r1' END, 1 + g % 4,
			CASE WHEN g % 3 = 0 THEN ARRAY['a', 'b,"c'] ELSE '{}' END,
			jsonb_build_object('n', to_char(g, 'FM000000'), 'big', 123456789012345678901234567890.10 + g, 'text', E'line\n\u009b\u202e<&>'), '{"tenant": 7.0}', 1 + g % 30, now() + g * interval '1 s'
		FROM generate_series(1, $1::int) g`, n)
	export := newCLI(t, from).long("jobs", "export").want(exitOK)
	if strings.ContainsAny(export.out, "\u009b\u202e") || strings.Count(export.out, "\n") != n {
		t.Fatalf("%d lines", strings.Count(export.out, "\n"))
	}
	c := newCLI(t, to).reading(export.out)
	if dry := decoded[importReport](c.long("jobs", "import", "--dry-run", "--json").want(exitOK)); dry.Enqueued != n || jobValue[int](t, to, `SELECT count(*)::int FROM pgqueue.jobs`) != 0 {
		t.Fatalf("dry run: %+v", dry)
	}
	c = newCLI(t, to).reading(export.out)
	first := decoded[importReport](c.long("jobs", "import", "--json").want(exitOK))
	if first.Enqueued != n || first.Lines != n || !first.Complete || first.Batches != (n+499)/500 {
		t.Fatalf("%+v", first)
	}
	if want, got := jobValue[string](t, from, moved), jobValue[string](t, to, moved); got != want {
		t.Errorf("what was imported differs:\n%.2000s\nwant\n%.2000s", got, want)
	}
	if audited := jobValue[int](t, to, `SELECT sum(job_count)::int FROM pgqueue.audit WHERE action = 'import' AND actor = 'tester'`); audited != n {
		t.Errorf("the audit log counts %d", audited)
	}
	file := filepath.Join(t.TempDir(), "jobs.jsonl")
	if err := os.WriteFile(file, []byte(export.out), 0o600); err != nil {
		t.Fatal(err)
	}
	second := decoded[importReport](newCLI(t, to).long("jobs", "import", file, "--json").want(exitOK))
	if second.Enqueued != 0 || second.Known != n || jobValue[int](t, to, `SELECT count(*)::int FROM pgqueue.jobs`) != n {
		t.Errorf("again: %+v", second)
	}
}

// Ctrl-C in the middle of either leaves whole lines and whole batches, and both go on.
func TestExportAndImportAreStoppedAndGoOn(t *testing.T) {
	t.Parallel()
	from, to := pgqueuetest.New(t), pgqueuetest.New(t)
	n := 1_500
	jobExec(t, from, `INSERT INTO pgqueue.jobs (queue, kind, payload) SELECT 'mail', 'task', jsonb_build_object('n', g) FROM generate_series(1, $1::int) g`, n)
	c := newCLI(t, from)
	stopped := c.stoppedAt("written so far", "jobs", "export", "--queue", "mail").want(exitStopped).says("To go on:", ">> FILE")
	part := strings.Count(stopped.out, "\n")
	if part == 0 || part >= n || !strings.HasSuffix(stopped.out, "}\n") {
		t.Fatalf("%d lines were written", part)
	}
	rest := c.run(goesOn(t, stopped)...).want(exitOK)
	all := stopped.out + rest.out
	if got := strings.Count(all, "\n"); got != n {
		t.Fatalf("%d lines in both", got)
	}
	d := newCLI(t, to).reading(all)
	d.stoppedAt("enqueued", "jobs", "import", "--batch-size", "100").want(exitStopped).says("run the same command again")
	if got := jobValue[int](t, to, `SELECT count(*)::int FROM pgqueue.jobs`); got == 0 || got >= n || got%100 != 0 {
		t.Fatalf("%d jobs after the first part", got)
	}
	newCLI(t, to).reading(all).run("jobs", "import", "--batch-size", "100").want(exitOK).says("imported before")
	if got := jobValue[int](t, to, `SELECT count(DISTINCT payload)::int FROM pgqueue.jobs`); got != n || jobValue[int](t, to, `SELECT count(*)::int FROM pgqueue.jobs`) != n {
		t.Errorf("%d jobs", got)
	}
}

// Everything that is stored about a job is in its line.
func TestExportHasEverything(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := db.Client(t)
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(ctx context.Context, job *pgqueue.Job[exported]) error {
		if job.Attempt == 1 {
			return pgqueue.Coded("flaky", fmt.Errorf("not yet"))
		}
		return job.SetResult(map[string]int64{"answer": 9007199254740993})
	})
	if _, err := client.Enqueue(t.Context(), db.Pool, exported{N: 1}, pgqueue.WithKey("k"), pgqueue.WithRevision("r"), pgqueue.WithTags("a"), pgqueue.WithMetadata(map[string]int{"m": 1})); err != nil {
		t.Fatal(err)
	}
	pgqueuetest.Drain(t, client, mux)
	jobExec(t, db, `UPDATE pgqueue.jobs SET run_at = now()`)
	pgqueuetest.Drain(t, client, mux)
	got := lines[jobRecord](newCLI(t, db).run("jobs", "export").want(exitOK))
	if len(got) != 1 {
		t.Fatalf("%d lines", len(got))
	}
	job := got[0]
	if job.State != pgqueue.JobSucceeded || job.Key != "k" || job.Revision != "r" || len(job.Tags) != 1 || string(job.Metadata) != `{"m":1}` ||
		string(job.Result) != `{"answer":9007199254740993}` || len(job.Attempts) != 2 || job.Attempts[0].Code != "flaky" || job.Attempts[0].StartedAt.IsZero() ||
		job.FinishedAt.IsZero() || job.ClaimedBy == "" || job.Version != "2.1" {
		t.Errorf("%+v", job)
	}
	// An ended job is not enqueued unasked.
	r := newCLI(t, db).reading(newCLI(t, db).run("jobs", "export").out)
	r.run("jobs", "import").want(exitPartial).says("--ended")
	if n := jobValue[int](t, db, `SELECT count(*)::int FROM pgqueue.jobs`); n != 0 {
		t.Errorf("%d jobs", n)
	}
	r = newCLI(t, db).reading(newCLI(t, db).run("jobs", "export").out)
	r.run("jobs", "import", "--ended", "--to-queue", "again").want(exitOK).says("1 job enqueued")
	if n := jobValue[int](t, db, `SELECT count(*)::int FROM pgqueue.jobs WHERE queue = 'again' AND key = 'k' AND attempt = 0`); n != 1 {
		t.Errorf("%d jobs", n)
	}
}

type exported struct {
	N int `json:"n"`
}

func (exported) Kind() string { return "exported" }

// A line that cannot be stored is named by its number, and nothing of it is quoted; the batches before it stay.
func TestImportRefuses(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	good := func(n int) string {
		return fmt.Sprintf(`{"kind": "task", "import_id": "i%d", "payload": {"n": %d}}`, n, n)
	}
	for name, line := range map[string]string{
		"is not JSON":                 `{"kind": "task", "payload": {"ssn": "MARK-3"},,}`,
		"not a JSON object":           `["MARK-3"]`,
		"no kind":                     `{"payload": {"ssn": "MARK-3"}, "import_id": "x"}`,
		`"prioritty" that no job has`: `{"kind": "task", "prioritty": "MARK-3", "import_id": "x"}`,
		"priority is not a whole":     `{"kind": "task", "priority": "MARK-3", "import_id": "x"}`,
		`the member "key" twice`:      `{"kind": "task", "key": "a", "payload": {"ssn": "MARK-3"}, "key": "b", "import_id": "x"}`,
		"RFC 3339":                    `{"kind": "task", "run_at": "MARK-3", "import_id": "x"}`,
		"neither an import_id":        `{"kind": "task", "payload": {"ssn": "MARK-3"}}`,
		"priority must be from 1":     `{"kind": "task", "priority": 9, "payload": {"ssn": "MARK-3"}, "import_id": "x"}`,
		"encoded":                     `{"kind": "task", "payload": {"ssn": "MARK-3"}, "import_id": "x", "sealed": {"payload": {"size": 3, "reason": "no key"}}}`,
		"was cut":                     `{"kind": "task", "import_id": "x", "cut": {"payload": {"text": "MARK-3", "size": 9}}}`,
	} {
		jobExec(t, db, `TRUNCATE pgqueue.jobs, pgqueue.unique_keys`)
		input := good(1) + "\n\n" + good(2) + "\n" + good(3) + "\n" + line + "\n" + good(4) + "\n"
		r := newCLI(t, db).reading(input).run("jobs", "import", "--batch-size", "2").want(exitUsage).says("line 5: ", name)
		if strings.Contains(r.err+r.out, "MARK-3") {
			t.Errorf("%s: the line is quoted: %s", name, r.err)
		}
		if n := jobValue[int](t, db, `SELECT count(*)::int FROM pgqueue.jobs`); n != 2 {
			t.Errorf("%s: %d jobs, want those of the first batch", name, n)
		}
	}
	// With the mistake mended the same file goes in, and no line of it twice.
	r := newCLI(t, db).reading(good(1)+"\n"+good(2)+"\n"+good(3)+"\n"+good(4)).run("jobs", "import").want(exitOK)
	r.says("2 jobs enqueued, 2 imported before")
	// Jobs of other databases have the same numbers, and are not the same.
	same := `{"kind": "task", "id": 7, "created_at": "2026-01-02T03:04:05.000001Z"}` + "\n"
	other := strings.Replace(same, "000001Z", "000002Z", 1)
	newCLI(t, db).reading(same+other+same).run("jobs", "import").want(exitOK).says("2 jobs enqueued, 1 imported before")
	// --again does not look at what was before.
	newCLI(t, db).reading(`{"kind": "task"}`+"\n"+`{"kind": "task"}`).run("jobs", "import", "--again").want(exitOK).says("2 jobs enqueued")
	newCLI(t, db).run("jobs", "import", "--batch-size", "0").want(exitUsage)
	newCLI(t, db).run("jobs", "import", "--remember", "0s").want(exitUsage).says("--remember", "--again")
	for line := range strings.Lines(newCLI(t, db).reading(good(9)+"\nx").run("jobs", "import", "--json", "--batch-size", "1").want(exitUsage).err) {
		if !json.Valid([]byte(line)) {
			t.Errorf("with --json standard error has the line %q", line)
		}
	}
	newCLI(t, db).run("jobs", "import", filepath.Join(t.TempDir(), "none")).want(exitUsage)
	newCLI(t, db).run("jobs", "import").want(exitOK).says("0 jobs enqueued")
}
