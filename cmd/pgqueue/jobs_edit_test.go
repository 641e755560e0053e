package main

import (
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// payloadOf is the payload of a live job.
func payloadOf(t testing.TB, db *pgqueuetest.DB, id int64) string {
	t.Helper()
	return jobValue[string](t, db, `SELECT payload::text FROM pgqueue.jobs WHERE id = $1`, id)
}

func TestJobsEditFromAFile(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	c := newCLI(t, db)
	file := filepath.Join(t.TempDir(), "fixed.json")
	if err := os.WriteFile(file, []byte("{\n  \"n\": 123456789012345678901234567890.50\n}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	pending, dead := placeJob(t, db, pgqueue.JobPending), placeJob(t, db, pgqueue.JobDead)
	c.run("jobs", "edit", number(pending), "--payload", file).want(exitOK).says("edited")
	c.run("jobs", "edit", number(dead), "--payload", file).want(exitConflict).says("--retry")
	c.run("jobs", "edit", number(dead), "--payload", file, "--retry", "--if-version", "3.1").want(exitOK).says("retried")
	for _, id := range []int64{pending, dead} {
		if got := payloadOf(t, db, id); got != `{"n": 123456789012345678901234567890.50}` {
			t.Errorf("job %d: %s", id, got)
		}
	}
	running := placeJob(t, db, pgqueue.JobRunning)
	c.run("jobs", "edit", number(running), "--payload", file).want(exitConflict).says("--supersede")
	c.run("jobs", "edit", number(running), "--payload", file, "--supersede").want(exitOK).says("runs again")
	for _, bad := range []string{"{", "", "nul", "{} {}", "{\n\"secret\": \"MARK-1\",,\n}"} {
		r := c.reading(bad).run("jobs", "edit", number(pending), "--payload", "-").want(exitUsage)
		if strings.Contains(r.err, "MARK-1") {
			t.Errorf("the payload is in the error: %s", r.err)
		}
	}
	c.reading(`{"$pgqueue": 1}`).run("jobs", "edit", number(pending), "--payload", "-").want(exitUsage)
	c.run("jobs", "edit", number(pending), "--payload", filepath.Join(t.TempDir(), "none.json")).want(exitUsage)
	c.run("jobs", "edit", number(pending)).want(exitUsage).says("--payload FILE")
	c.reading("{}").run("jobs", "edit", "99999", "--payload", "-").want(exitNotFound)
}

// On a terminal the payload is opened in an editor, in a file that nobody else can read; what is left as it was changes nothing, and what
// cannot be stored is not lost.
func TestJobsEditInAnEditor(t *testing.T) {
	if runtime.GOOS == "windows" {
		return // the editors below are shell scripts
	}
	db := pgqueuetest.New(t)
	id := placeJob(t, db, pgqueue.JobPending)
	jobExec(t, db, `UPDATE pgqueue.jobs SET payload = '{"n": 9007199254740993, "ssn": "MARK-2"}' WHERE id = $1`, id)
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	edit := func(script string) result {
		t.Helper()
		editor := filepath.Join(t.TempDir(), "editor")
		if err := os.WriteFile(editor, []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		c := newCLI(t, db).with("EDITOR", editor+" --wait")
		var out, errors lockedBuffer
		type both struct {
			io.Reader
			io.Writer
		}
		args := []string{"jobs", "edit", number(id)}
		code := run(t.Context(), args, streams{in: terminal{both{strings.NewReader(""), io.Discard}}, out: &out, err: terminal{both{nil, &errors}}}, c.lookup)
		return result{t: t, args: args, code: code, out: out.String(), err: errors.String()}
	}
	files := func() int {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	edit(`[ "$1" = --wait ] && cp "$2" "` + dir + `/seen" && ls -l "$2" > "` + dir + `/mode"`).want(exitOK).says("nothing was done")
	seen, _ := os.ReadFile(filepath.Join(dir, "seen"))
	mode, _ := os.ReadFile(filepath.Join(dir, "mode"))
	if !strings.Contains(string(seen), "9007199254740993") || !strings.HasPrefix(string(mode), "-rw------- ") || files() != 2 {
		t.Errorf("the editor saw %q, mode %q; %d files are left", seen, mode, files())
	}
	edit(`sed -i.bak 's/9007199254740993/9007199254740995/' "$2"; rm "$2.bak"`).want(exitOK).says("edited")
	if got := payloadOf(t, db, id); !strings.Contains(got, "9007199254740995") || files() != 2 {
		t.Errorf("the payload is %s; %d files are left", got, files())
	}
	// Somebody claims the job while it is being edited: the edit is refused, and kept.
	claimed := make(chan struct{})
	go func() {
		defer close(claimed)
		eventually(t, "the editor is open", func() bool { _, err := os.Stat(filepath.Join(dir, "open")); return err == nil })
		jobExec(t, db, `UPDATE pgqueue.jobs SET attempt = attempt + 1 WHERE id = $1`, id)
		if err := os.Remove(filepath.Join(dir, "open")); err != nil {
			t.Error(err)
		}
	}()
	r := edit(`echo '{"n": 1}' > "$2"; touch "` + dir + `/open"; while [ -e "` + dir + `/open" ]; do sleep 0.05; done`).want(exitConflict)
	r.says("has changed", "what you wrote is in")
	<-claimed
	if got := payloadOf(t, db, id); !strings.Contains(got, "9007199254740995") || files() != 3 {
		t.Errorf("the payload is %s; %d files are left", got, files())
	}
	r = edit(`echo '{broken' > "$2"`).want(exitUsage).says("what you wrote is in")
	if strings.Contains(r.err, "broken") || files() != 4 {
		t.Errorf("%d files are left: %s", files(), r.err)
	}
	edit(`exit 3`).want(exitFailed).says("the editor", "the payload is in")
}

// Between being read and being edited the job was claimed: nothing is changed.
func TestC140_EditOfAJobThatWasClaimedMeanwhile(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	id := placeJob(t, db, pgqueue.JobPending)
	c := newCLI(t, db)
	version := decoded[jobRecord](c.run("jobs", "show", number(id), "--json").want(exitOK)).Version
	jobExec(t, db, `UPDATE pgqueue.jobs SET attempt = attempt + 1 WHERE id = $1`, id)
	c.reading(`{"n": 7}`).run("jobs", "edit", number(id), "--payload", "-", "--if-version", version).want(exitConflict).says("has changed")
	if got := payloadOf(t, db, id); got != `{"n": 1}` {
		t.Errorf("the payload is %s", got)
	}
}
