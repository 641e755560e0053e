package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// goTree makes a tree of so many files, of which every hundredth does not parse.
func goTree(t *testing.T, files int) (root string, bad int) {
	t.Helper()
	tree := make(map[string]string, files)
	for i := range files {
		name := fmt.Sprintf("p%02d/f%03d.go", i%20, i)
		tree[name] = fmt.Sprintf("package p%02d\n\n// F%d is documented.\nfunc F%d() {}\n\nfunc G%d() {}\n", i%20, i, i, i)
		if i%100 == 0 {
			tree[name] = "package p\nfunc {\n"
			bad++
		}
	}
	return writeTree(t, tree), bad
}

// numbersOf reads the last line of a run that went well.
func numbersOf(t *testing.T, output, last string) map[string]float64 {
	t.Helper()
	if !regexp.MustCompile(`^demo ok files=\d+ failed=\d+ jobs_per_s=\d+ recovered_s=\d+\.\d doubled=0 lost=0$`).MatchString(last) {
		t.Fatalf("the last line is %q; all of it:\n%s", last, output)
	}
	numbers := map[string]float64{}
	for _, field := range strings.Fields(last)[2:] {
		name, text, _ := strings.Cut(field, "=")
		number, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatal(err)
		}
		numbers[name] = number
	}
	return numbers
}

// count asks for one number.
func count(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) int {
	t.Helper()
	var number int
	if err := pool.QueryRow(t.Context(), sql, args...).Scan(&number); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return number
}

// TestDemo runs the whole thing on a small tree, with a kill, and then again after a few changes.
func TestDemo(t *testing.T) {
	db := pgqueuetest.New(t)
	const files = 400
	root, bad := goTree(t, files)

	code, output, last := runCommand(t, db.URL, "-root", root, "-kill-from", "100", "-lease", "3s", "-pause", "10ms")
	if code != 0 {
		t.Fatalf("exit code %d:\n%s", code, output)
	}
	numbers := numbersOf(t, output, last)
	if numbers["files"] != float64(files-bad) || numbers["failed"] != float64(bad) || numbers["jobs_per_s"] < 1 {
		t.Errorf("of %d files, %d bad: %s", files, bad, last)
	}
	// The killed process's leases run out 3 s after they were given or renewed, and the job before the kill is at most
	// one renewal old: sooner means that nobody was killed.
	if numbers["recovered_s"] < 1 {
		t.Errorf("recovered_s=%.1f: was anybody killed?", numbers["recovered_s"])
	}
	if held := count(t, db.Pool, `SELECT count(*) FROM pgqueue.history WHERE queue = 'index' AND errors -> 0 ->> 'code' = 'lease_expired'`); held == 0 {
		t.Error("no job has lost its lease, so the killed process held none")
	}
	if processes := count(t, db.Pool, `SELECT count(DISTINCT worker_pid) FROM demo.runs`); processes != workerProcesses {
		t.Errorf("%d processes did the work, want %d", processes, workerProcesses)
	}
	for _, part := range []string{"with SIGKILL: SQL showed", "distinct_revisions", "The largest packages", "all 20 packages", "all by the other process"} {
		if !strings.Contains(output, part) {
			t.Errorf("the output lacks %q:\n%s", part, output)
		}
	}
	for _, query := range suggestedQueries() {
		if !strings.Contains(output, indent(query.sql)) {
			t.Errorf("not suggested: %s", query.what)
		}
		if got, err := ask(t.Context(), db.Pool, query.sql); err != nil || len(got.rows) == 0 {
			t.Errorf("%s: %d rows, %v", query.what, len(got.rows), err)
		}
	}

	runAgainAfterChanges(t, db, root, files, bad)
}

// runAgainAfterChanges repairs a file, breaks one, changes one, removes one and adds none.
func runAgainAfterChanges(t *testing.T, db *pgqueuetest.DB, root string, files, bad int) {
	t.Helper()
	runs := count(t, db.Pool, `SELECT count(*) FROM demo.runs`)
	writeFile(t, root, "p00/f000.go", "package p00\n") // repaired
	writeFile(t, root, "p01/f001.go", "package\n")     // broken
	writeFile(t, root, "p02/f002.go", "package p02\n") // changed
	if err := os.Remove(filepath.Join(root, "p03", "f003.go")); err != nil {
		t.Fatal(err)
	}
	code, output, last := runCommand(t, db.URL, "-root", root, "-kill-from", "100")
	if code != 0 {
		t.Fatalf("exit code %d:\n%s", code, output)
	}
	numbers := numbersOf(t, output, last)
	if numbers["files"] != float64(files-bad-1) || numbers["failed"] != float64(bad) || numbers["recovered_s"] != 0 {
		t.Errorf("after the changes: %s", last)
	}
	for _, part := range []string{"3 new or changed, 1 vanished, 0 left", "no process was killed"} {
		if !strings.Contains(output, part) {
			t.Errorf("the output lacks %q:\n%s", part, output)
		}
	}
	// Two of the changed files were indexed before and three rows are gone: those of the broken, the changed and the
	// vanished file. Two were added.
	if now := count(t, db.Pool, `SELECT count(*) FROM demo.runs`); now != runs-1 {
		t.Errorf("%d rows in the log, want %d: files that did not change were indexed again", now, runs-1)
	}

	code, output, last = runCommand(t, db.URL, "-root", root)
	numbers = numbersOf(t, output, last)
	if code != 0 || numbers["files"] != float64(files-bad-1) || numbers["jobs_per_s"] != 0 || !strings.Contains(output, "no worker is started") {
		t.Errorf("nothing changed: exit code %d\n%s", code, output)
	}
}

// TestDoubledAndLostAreSeen spoils a good index by hand.
func TestDoubledAndLostAreSeen(t *testing.T) {
	db := pgqueuetest.New(t)
	root, _ := goTree(t, 10)
	if code, output, _ := runCommand(t, db.URL, "-root", root); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, output)
	}
	for _, spoil := range []struct{ sql, want string }{
		{`INSERT INTO demo.runs SELECT * FROM demo.runs LIMIT 1`, "doubled=1"},
		{`DELETE FROM demo.source_index WHERE path = 'p01/f001.go'`, "lost=1"},
	} {
		if _, err := db.Pool.Exec(t.Context(), spoil.sql); err != nil {
			t.Fatal(err)
		}
		code, output, last := runCommand(t, db.URL, "-root", root)
		if code != 1 || !strings.Contains(output, spoil.want) || !strings.HasPrefix(last, "demo failed: ") {
			t.Errorf("%s: exit code %d\n%s", spoil.sql, code, output)
		}
	}
}

// TestInterruptedRunIsContinued ends a run in the middle, as Ctrl-C does.
func TestInterruptedRunIsContinued(t *testing.T) {
	db := pgqueuetest.New(t)
	const files = 300
	root, bad := goTree(t, files)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	out := &until{text: "indexing ", then: interrupt}
	opts := options{root: root, databaseURL: db.URL, killFrom: defaultKillFrom}
	opts.pause = 1e9 // nothing but a stop ends the jobs that are under way
	if _, err := demo(ctx, opts, out); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want context.Canceled\n%s", err, out.String())
	}
	awaitNoSessions(t, db.Pool)
	if running := count(t, db.Pool, `SELECT count(*) FROM pgqueue.jobs WHERE state = 'running'`); running != 0 {
		t.Errorf("%d jobs were not released", running)
	}

	code, output, last := runCommand(t, db.URL, "-root", root)
	if code != 0 {
		t.Fatalf("exit code %d:\n%s", code, output)
	}
	if numbers := numbersOf(t, output, last); numbers["files"] != float64(files-bad) || numbers["failed"] != float64(bad) {
		t.Errorf("after the interruption: %s", last)
	}
}

// awaitNoSessions waits until Postgres has seen all connections of the demo and its workers go: it takes a moment to
// notice that a client has closed one.
func awaitNoSessions(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for {
		left := count(t, pool, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'indexer%'`)
		if left == 0 {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("%d sessions of the demo are left", left)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// until calls then when text is written.
type until struct {
	bytes.Buffer
	text string
	then func()
}

func (u *until) Write(text []byte) (int, error) {
	if strings.Contains(string(text), u.text) {
		u.then()
	}
	return u.Buffer.Write(text)
}

func TestTwoRunsAtOnceAreRefused(t *testing.T) {
	db := pgqueuetest.New(t)
	release, err := claimDatabase(t.Context(), db.Pool)
	if err != nil {
		t.Fatal(err)
	}
	root, _ := goTree(t, 5)
	if code, output, last := runCommand(t, db.URL, "-root", root); code != 1 || !strings.Contains(last, errBusy.Error()) {
		t.Errorf("beside another run: exit code %d\n%s", code, output)
	}
	release()
	if code, output, _ := runCommand(t, db.URL, "-root", root); code != 0 {
		t.Errorf("after the other run: exit code %d\n%s", code, output)
	}
}

// TestWorkerEndsWithItsParent closes a worker's stdin, which is what the death of the parent does.
func TestWorkerEndsWithItsParent(t *testing.T) {
	db := pgqueuetest.New(t)
	worker, err := startWorker(t.Context(), options{root: t.TempDir(), databaseURL: db.URL})
	if err != nil {
		t.Fatal(err)
	}
	if worker.id == "" || !worker.running() {
		t.Errorf("id %q, running %v", worker.id, worker.running())
	}
	if err := worker.stop(); err != nil {
		t.Error(err)
	}
	if worker.running() {
		t.Error("the worker is still there")
	}
	if err := worker.stop(); err != nil {
		t.Errorf("a second stop: %v", err)
	}
}

func TestWorkerThatCannotStartSaysWhy(t *testing.T) {
	_, err := startWorker(t.Context(), options{root: t.TempDir(), databaseURL: "postgres://127.0.0.1:1/nothing"})
	if err == nil || !strings.Contains(err.Error(), "connect to the database") {
		t.Errorf("got %v", err)
	}
}

// TestServe asks the three queries of a database that the demo has not filled yet.
func TestServe(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	out := &until{text: "Ctrl-C"}
	out.then = func() {
		defer stop()
		_, url, _ := strings.Cut(out.String(), "psql '")
		url, _, found := strings.Cut(url, "'")
		if !found {
			t.Errorf("no URL:\n%s", out.String())
			return
		}
		pool, err := connect(t.Context(), url, "test")
		if err != nil {
			t.Error(err)
			return
		}
		defer pool.Close()
		for _, query := range suggestedQueries() {
			if _, err := ask(t.Context(), pool, query.sql); err != nil {
				t.Errorf("%s: %v", query.what, err)
			}
		}
	}
	if err := serve(ctx, options{dataDir: t.TempDir()}, out); err != nil {
		t.Fatal(err)
	}
}
