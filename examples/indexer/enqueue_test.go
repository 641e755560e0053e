package main

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// openDemo returns a database with all tables of the demo.
func openDemo(t *testing.T) (*pgxpool.Pool, *pgqueue.Client) {
	t.Helper()
	pool := pgqueuetest.New(t).Pool
	quiet := slog.New(slog.DiscardHandler)
	if err := migrate(t.Context(), pool, quiet); err != nil {
		t.Fatal(err)
	}
	client, err := pgqueue.NewClient(pool, pgqueue.WithLogger(quiet))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close(context.Background()) })
	return pool, client
}

// enqueueTree does what a run does before its workers work, and returns the paths that it enqueued.
func enqueueTree(t *testing.T, pool *pgxpool.Pool, client *pgqueue.Client, root string) []string {
	t.Helper()
	tree, err := walkTree(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	diff, err := diffTree(t.Context(), pool, tree)
	if err != nil {
		t.Fatal(err)
	}
	if err := removeVanished(t.Context(), pool, diff.vanished); err != nil {
		t.Fatal(err)
	}
	var placed atomic.Int64
	if err := enqueueChanged(t.Context(), pool, client, diff.changed, &placed); err != nil {
		t.Fatal(err)
	}
	if int(placed.Load()) != len(diff.changed) {
		t.Errorf("%d placed, want %d", placed.Load(), len(diff.changed))
	}
	paths := []string{}
	for _, file := range diff.changed {
		paths = append(paths, file.path)
	}
	return paths
}

// liveJobs returns the revision of each live job by key.
func liveJobs(t *testing.T, pool *pgxpool.Pool) map[string]string {
	t.Helper()
	rows, err := pool.Query(t.Context(), `SELECT key, revision FROM pgqueue.jobs WHERE queue = $1 AND kind = $2`, indexQueue, IndexFile{}.Kind())
	if err != nil {
		t.Fatal(err)
	}
	jobs := map[string]string{}
	var key, revision string
	if _, err := pgx.ForEachRow(rows, []any{&key, &revision}, func() error { jobs[key] = revision; return nil }); err != nil {
		t.Fatal(err)
	}
	return jobs
}

func TestOnlyChangedFilesAreEnqueued(t *testing.T) {
	pool, client := openDemo(t)
	root := writeTree(t, map[string]string{"a.go": "package a\n", "b/b.go": "package b\n", "b/notes.txt": "no Go\n", "c.go": "package c\n"})
	for _, step := range []struct {
		name   string
		change func()
		want   []string
	}{
		{"everything at first", func() {}, []string{"a.go", "b/b.go", "c.go"}},
		{"nothing when nothing changed", func() {}, []string{}},
		{"what changed", func() { writeFile(t, root, "b/b.go", "package b // new\n") }, []string{"b/b.go"}},
		{"what is new", func() { writeFile(t, root, "d.go", "package d\n") }, []string{"d.go"}},
		{"what changed back", func() { writeFile(t, root, "b/b.go", "package b\n") }, []string{"b/b.go"}},
	} {
		step.change()
		if got := enqueueTree(t, pool, client, root); !slices.Equal(got, step.want) {
			t.Errorf("%s: got %q, want %q", step.name, got, step.want)
		}
	}
	jobs := liveJobs(t, pool)
	if len(jobs) != 4 {
		t.Errorf("%d live jobs for 4 files: %v", len(jobs), jobs)
	}
	if want := hashOf([]byte("package b\n")); jobs["b/b.go"] != want {
		t.Errorf("the job has revision %q, want that of the latest content, %q", jobs["b/b.go"], want)
	}
}

func TestVanishedFilesAreForgotten(t *testing.T) {
	pool, client := openDemo(t)
	enqueueTree(t, pool, client, writeTree(t, map[string]string{"a.go": "package a\n", "b.go": "package b\n"}))
	if got := enqueueTree(t, pool, client, writeTree(t, map[string]string{"b.go": "package b\n"})); len(got) != 0 {
		t.Errorf("enqueued %q", got)
	}
	recorded, err := recordedFiles(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := recorded["a.go"]; ok || len(recorded) != 1 {
		t.Errorf("recorded: %v", recorded)
	}
}

func TestRecordAndJobAreCommittedTogether(t *testing.T) {
	pool, client := openDemo(t)
	// The key of the second file is too long for pgqueue, which says so after the first statement of the transaction.
	files := []sourceFile{{path: "a.go", hash: "1"}, {path: strings.Repeat("long/", 200) + "b.go", hash: "2"}}
	var placed atomic.Int64
	err := enqueueChanged(t.Context(), pool, client, files, &placed)
	var invalid *pgqueue.ValidationError
	if !errors.As(err, &invalid) || invalid.Field != "jobs[1].key" {
		t.Fatalf("got %v, want a ValidationError for jobs[1].key", err)
	}
	recorded, err := recordedFiles(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	if len(recorded) != 0 || len(liveJobs(t, pool)) != 0 || placed.Load() != 0 {
		t.Errorf("something was committed: %v, %v, %d", recorded, liveJobs(t, pool), placed.Load())
	}
}

func TestFilesThatFailedForAnotherReasonAreTriedAgain(t *testing.T) {
	pool, client := openDemo(t)
	root := writeTree(t, map[string]string{"a.go": "package a\n", "bad.go": "package\n", "c.go": "package c\n"})
	enqueueTree(t, pool, client, root)
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(_ context.Context, job *pgqueue.Job[IndexFile]) error {
		switch job.Args.Path {
		case "a.go":
			return pgqueue.Permanent(pgqueue.Coded(codeChanged, errors.New("changed")))
		case "bad.go":
			return pgqueue.Permanent(pgqueue.Coded(codeParse, errors.New("no Go")))
		default:
			return nil
		}
	})
	if _, err := client.Drain(t.Context(), mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{indexQueue: {}}}); err != nil {
		t.Fatal(err)
	}
	if got := enqueueTree(t, pool, client, root); !slices.Equal(got, []string{"a.go"}) {
		t.Errorf("enqueued %q, want a.go: bad.go cannot parse until it changes, and c.go was done", got)
	}
}
