package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const testJobs = 60

func lines(t *testing.T, text string) []map[string]any {
	t.Helper()
	var all []map[string]any
	for line := range strings.Lines(text) {
		var one map[string]any
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Fatalf("not a JSON object: %q: %v", line, err)
		}
		all = append(all, one)
	}
	return all
}

func TestEveryEngineDrainsAndIsCompared(t *testing.T) {
	t.Parallel()
	var out, notes bytes.Buffer
	folder := t.TempDir()
	err := run(t.Context(), settings{jobs: testJobs, rounds: 1, scenarios: []int{1}, docs: folder,
		engines: []string{"pgqueue", "raw", "outbox", "river", "gue"}}, &out, &notes)
	if err != nil {
		t.Fatal(err)
	}
	figures, ratios := map[string]bool{}, map[string]bool{}
	for _, line := range lines(t, out.String()) {
		if line["scenario"] != "drain" {
			t.Errorf("scenario is %v, want drain", line["scenario"])
		}
		if line["metric"] == "ratio" {
			ratios[fmt.Sprint(line["of"], "/", line["to"], " ", line["history"])] = true
			if value, _ := line["value"].(float64); value <= 0 || line["figure"] != "jobs_per_s" {
				t.Errorf("a ratio without a value, or of another figure: %v", line)
			}
			continue
		}
		figures[fmt.Sprint(line["engine"], " ", line["history"])] = true
		if rate, _ := line["jobs_per_s"].(float64); rate <= 0 || line["value"] != rate || line["jobs"] != float64(testJobs) || line["settings"] == nil {
			t.Errorf("a drain without a rate or settings, or of other jobs: %v", line)
		}
	}
	for _, want := range []string{"pgqueue false", "pgqueue true", "pgqueue-defaults false", "pgqueue-defaults true", "raw false", "raw true",
		"outbox true", "river true", "river-defaults true", "gue false"} {
		if !figures[want] {
			t.Errorf("no figure for %s", want)
		}
	}
	for _, want := range []string{"pgqueue/river false", "pgqueue/river true", "pgqueue/raw false", "pgqueue/raw true", "pgqueue/outbox false",
		"pgqueue/outbox true", "pgqueue-defaults/river-defaults false", "pgqueue-defaults/river-defaults true", "pgqueue/gue false", "pgqueue/gue true"} {
		if !ratios[want] {
			t.Errorf("no ratio %s", want)
		}
	}
	for _, not := range []string{"pgqueue/raw-defaults false", "pgqueue/river-defaults true", "pgqueue-defaults/river true", "pgqueue-defaults/raw true"} {
		if ratios[not] {
			t.Errorf("%s is no comparison", not)
		}
	}
	for _, want := range []string{"fsync=on", "synchronous_commit=on", "| drain | pgqueue / river | off | ratio |"} {
		if os.Getenv("DATABASE_URL") == "" && !strings.Contains(notes.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, notes.String())
		}
	}
	for _, name := range []string{"README.md", "01-drain.md", "01-drain.svg"} {
		if text, err := os.ReadFile(filepath.Join(folder, name)); err != nil || len(text) == 0 {
			t.Errorf("%s was not written: %v", name, err)
		}
	}
}

func TestDrainRefusesToCountWhatWasNotDone(t *testing.T) {
	t.Parallel()
	// A queue that keeps history leaves rows behind; measured as one without it, the figure would be that of other work.
	at := &site{server: testServer(t), engine: pgqueueEngine(tuned, true), jobs: 10}
	err := at.with(t.Context(), wiring{}, func(db *database, system system) error {
		_, err := drainOnce(t.Context(), db, system, load{}, 10, false)
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "10 successes are kept") {
		t.Errorf("error is %v, want one that names the 10 successes that are kept", err)
	}
}
