package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// Every option arrives in the job, digits of numbers included, and the audit log has who did it.
func TestEnqueueWithEverything(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	c := newCLI(t, db)
	payload := `{"big": 12345678901234567890123, "small": 1.10, "text": "ü\n"}`
	done := decoded[enqueuedView](c.run("enqueue", "bill", "--json", "--queue", "mail", "--key", "order 7", "--revision", "r1", "--priority", "3",
		"--run-at", "2099-03-01T02:30:00+02:00", "--max-attempts", "9", "--tag", "a,b", "--tag", "c", "--metadata", `{"ticket": "OPS-17"}`, "--payload", payload).want(exitOK))
	if done.Outcome != "inserted" || done.Queue != "mail" || done.Kind != "bill" {
		t.Errorf("%+v", done)
	}
	job, err := db.Client(t).Get(t.Context(), db.Pool, done.ID)
	if err != nil {
		t.Fatal(err)
	}
	if job.Key != "order 7" || job.Revision != "r1" || job.Priority != 3 || job.MaxAttempts != 9 || fmt.Sprint(job.Tags) != "[a,b c]" ||
		!job.RunAt.Equal(time.Date(2099, 3, 1, 0, 30, 0, 0, time.UTC)) || !strings.Contains(string(job.Metadata), "OPS-17") {
		t.Errorf("%+v", job)
	}
	if text := string(job.Payload); !strings.Contains(text, "12345678901234567890123") || !strings.Contains(text, "1.10") {
		t.Errorf("digits are lost: %s", text)
	}
	c.run("enqueue", "bill", "--queue", "mail", "--key", "order 7", "--revision", "r1").want(exitOK).says("same")
	c.run("enqueue", "bill", "--queue", "mail", "--key", "order 7", "--revision", "r2").want(exitOK).says("replaced")

	type entry struct{ via, actor, action, queue, kind, detail string }
	rows, err := db.Pool.Query(t.Context(), `SELECT via, actor, action, queue, kind, detail FROM `+quoted(db.Schema)+`.audit ORDER BY id`)
	if err != nil {
		t.Fatal(err)
	}
	var entries []entry
	for rows.Next() {
		var e entry
		if err := rows.Scan(&e.via, &e.actor, &e.action, &e.queue, &e.kind, &e.detail); err != nil {
			t.Fatal(err)
		}
		entries = append(entries, e)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	want := []entry{{"cli", "tester", "enqueue", "mail", "bill", "inserted"}, {"cli", "tester", "enqueue", "mail", "bill", "replaced"}}
	if fmt.Sprint(entries) != fmt.Sprint(want) {
		t.Errorf("audit log %v, want %v", entries, want)
	}
}

func quoted(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// The payload comes from a flag, a file or the input, and without any it is {}.
func TestEnqueueReadsThePayload(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	c := newCLI(t, db)
	stored := func(r result) string {
		t.Helper()
		job, err := db.Client(t).Get(t.Context(), db.Pool, decoded[enqueuedView](r.want(exitOK)).ID)
		if err != nil {
			t.Fatal(err)
		}
		return string(job.Payload)
	}
	file := written(t, "payload.json", "{\"from\": \"file\"}\n")
	for want, r := range map[string]result{
		`{}`:                c.run("enqueue", "k", "--json"),
		`{"from": "flag"}`:  c.run("enqueue", "k", "--json", "--payload", `{"from":"flag"}`),
		`{"from": "file"}`:  c.run("enqueue", "k", "--json", "--payload-file", file),
		`{"from": "input"}`: c.reading(`{"from":"input"}`).run("enqueue", "k", "--json", "--payload-file", "-"),
		`[1, 2]`:            c.run("enqueue", "k", "--json", "--payload", `[1,2]`),
	} {
		if got := stored(r); got != want {
			t.Errorf("stored %s, want %s", got, want)
		}
	}
	missing := filepath.Join(t.TempDir(), "nothing")
	c.run("enqueue", "k", "--payload-file", missing).want(exitUsage).says("--payload-file", "nothing")
	c.run("enqueue", "k", "--payload-file", "-").want(exitUsage).says("the input is empty", "{}")
	c.run("enqueue", "k", "--payload-file", "-", "--metadata-file", "-").want(exitUsage)
	c.run("enqueue", "k", "--payload", "{}", "--payload-file", "-").want(exitUsage)
}

// What is wrong is told with the flag's name, before anything is written.
func TestEnqueueRefuses(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	c := newCLI(t, db)
	for _, test := range []struct {
		says string
		args []string
	}{
		{"--payload", []string{"k", "--payload", "{nothing}"}},
		{"--priority must be from 1 to 4", []string{"k", "--priority", "9"}},
		{"--max-attempts", []string{"k", "--max-attempts", "0"}},
		{"--queue must not be empty", []string{"k", "--queue", ""}},
		{"--key must not be empty", []string{"k", "--key", ""}},
		{"--revision needs a key", []string{"k", "--revision", "r"}},
		{"--tag must not be empty", []string{"k", "--tag", "a", "--tag", ""}},
		{"--metadata must be a JSON object", []string{"k", "--metadata", "[]"}},
		{"KIND must not be empty", []string{""}},
		{"accepts 1 arg", nil},
		{"--run-at", []string{"k", "--run-at", "tomorrow"}},
		{"duration", []string{"k", "--delay", "-1h"}},
		{"belong together", []string{"k", "--idempotency-key", "x"}},
		{"belongs to --unique", []string{"k", "--unique-args", "id"}},
		{"--delay and --run-at exclude each other", []string{"k", "--run-at", "+1h", "--delay", "1h"}},
		{"--priority must be a whole number", []string{"k", "--priority", "high"}},
		{"--payload-file", []string{"k", "--payload-file", t.TempDir()}},
		{"--payload must not be empty", []string{"k", "--payload", ""}},
		{"debounce-longest", []string{"k", "--key", "x", "--debounce", "1h"}},
	} {
		c.run(append([]string{"enqueue"}, test.args...)...).want(exitUsage).says(test.says)
	}
	var n int
	if err := db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM `+quoted(db.Schema)+`.jobs`).Scan(&n); err != nil || n != 0 {
		t.Errorf("%d jobs, %v", n, err)
	}
	c.run("enqueue", "k", "--dry-run", "--payload", `{"a": 1}`, "--delay", "2h", "--key", "x", "--debounce", "1m", "--debounce-longest", "1h").want(exitUsage)
	if shown := decoded[map[string]any](c.run("enqueue", "k", "--dry-run", "--json", "--payload", `{"a": 1}`, "--delay", "2h").want(exitOK)); shown["delay_seconds"] != 7200.0 || shown["dry_run"] != true {
		t.Errorf("%v", shown)
	}
	c.run("enqueue", "k", "--dry-run", "--unique").want(exitOK).says("would enqueue", "uniqueness")
	if err := db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM `+quoted(db.Schema)+`.jobs`).Scan(&n); err != nil || n != 0 {
		t.Errorf("a dry run wrote %d jobs, %v", n, err)
	}
}

// Each rule of uniqueness has its flags.
func TestEnqueueUnique(t *testing.T) {
	t.Parallel()
	c := newCLI(t, pgqueuetest.New(t))
	for name, args := range map[string][]string{
		"unique": {"--unique"}, "args": {"--unique", "--unique-args", "/id"}, "kind": {"--unique", "--unique-kind"}, "keep": {"--unique", "--keep", "1d"},
		"period": {"--unique", "--unique-period", "24h"}, "idempotency": {"--idempotency-key", "x", "--keep", "1h"}, "throttle": {"--throttle", "1d"},
	} {
		args = append([]string{"enqueue", "k-" + name, "--json", "--payload", `{"id": 1}`}, args...)
		first := decoded[enqueuedView](c.run(args...).want(exitOK))
		second := decoded[enqueuedView](c.run(args...).want(exitOK))
		if first.Outcome != "inserted" || second.Outcome != "duplicate" || first.ID != second.ID || second.State != pgqueue.JobPending {
			t.Errorf("%s: %+v, %+v", name, first, second)
		}
	}
	c.run("enqueue", "k", "--key", "x", "--debounce", "1m", "--debounce-longest", "1h").want(exitOK).says("inserted")
}

// --wait shows how the job ended, and the exit code says whether it succeeded.
func TestEnqueueWaits(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := db.Client(t)
	mux := pgqueue.NewMux()
	mux.HandleFunc("double", func(_ context.Context, job *pgqueue.AnyJob) error {
		n, err := strconv.Atoi(string(job.Args))
		if err != nil {
			return pgqueue.Permanent(pgqueue.Coded("not_a_number", err))
		}
		return job.SetResult(map[string]int{"doubled": 2 * n})
	})
	worker, err := client.NewWorker(mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {}}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx) }()
	defer func() {
		cancel()
		<-ended
	}()
	c := newCLI(t, db)
	done := decoded[enqueuedView](c.run("enqueue", "double", "--payload", "21", "--wait", "1m", "--json").want(exitOK))
	var doubled struct{ Doubled int }
	if err := json.Unmarshal(done.Result, &doubled); err != nil || doubled.Doubled != 42 || done.State != pgqueue.JobSucceeded {
		t.Errorf("%+v, %v", done, err)
	}
	c.run("enqueue", "double", "--payload", `"x"`, "--wait", "1m").want(exitFailed).says("failed", "not_a_number")
	late := decoded[enqueuedView](c.run("enqueue", "double", "--payload", "1", "--delay", "1h", "--wait", "200ms", "--json").want(exitFailed).says("has not ended", "pgqueue jobs why"))
	if late.ID == 0 {
		t.Error("the number of the job is lost")
	}
}
