package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
)

// The tests run everything once, small, and look at what is printed. They say nothing about speed.

const testJobs = 2000

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
	var out, notes bytes.Buffer
	err := run(t.Context(), settings{jobs: testJobs, rounds: 1, scenarios: []string{"drain"}}, &out, &notes)
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
			if value, _ := line["value"].(float64); value <= 0 {
				t.Errorf("a ratio without a value: %v", line)
			}
			continue
		}
		figures[fmt.Sprint(line["engine"], " ", line["history"])] = true
		if rate, _ := line["jobs_per_s"].(float64); rate <= 0 || line["jobs"] != float64(testJobs) {
			t.Errorf("a drain without a rate, or of other jobs: %v", line)
		}
	}
	for _, want := range []string{"pgqueue false", "pgqueue true", "raw false", "raw true", "outbox true", "river true"} {
		if !figures[want] {
			t.Errorf("no figure for %s", want)
		}
	}
	for _, want := range []string{"pgqueue/river false", "pgqueue/river true", "pgqueue/raw false", "pgqueue/raw true", "pgqueue/outbox false", "pgqueue/outbox true"} {
		if !ratios[want] {
			t.Errorf("no ratio %s", want)
		}
	}
	if len(figures) != 6 || len(ratios) != 6 {
		t.Errorf("%d figures and %d ratios, want 6 and 6", len(figures), len(ratios))
	}
	for _, want := range []string{"fsync=on", "synchronous_commit=on", "| drain | pgqueue / river | off | ratio |"} {
		if os.Getenv("DATABASE_URL") == "" && !strings.Contains(notes.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, notes.String())
		}
	}
}

func TestProducersAndPickUpAreMeasured(t *testing.T) {
	var out, notes bytes.Buffer
	err := run(t.Context(), settings{jobs: testJobs, rounds: 1, scenarios: []string{"enqueue", "latency"}}, &out, &notes)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, line := range lines(t, out.String()) {
		seen[fmt.Sprint(line["scenario"], " ", line["engine"], " ", line["metric"])] = true
		if value, _ := line["value"].(float64); value <= 0 {
			t.Errorf("no value: %v", line)
		}
	}
	for _, engine := range []string{"pgqueue", "river"} {
		for _, metric := range []string{"enqueue %s bulk_per_s", "enqueue %s single_1_per_s", "enqueue %s single_10_per_s",
			"latency %s lone_p50_ms", "latency %s lone_max_ms"} {
			if want := fmt.Sprintf(metric, engine); !seen[want] {
				t.Errorf("no line %s", want)
			}
		}
	}
}

func TestDrainRefusesToCountWhatWasNotDone(t *testing.T) {
	server, err := openServer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer server.close()
	// A queue that keeps history leaves rows behind; measured as one without it, the figure would be that of other work.
	pool, drop, err := server.database(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer drop()
	system, err := pgqueueEngine(true).open(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	defer system.close(context.WithoutCancel(t.Context()))
	_, err = drainOnce(t.Context(), pool, system, 10, false)
	if err == nil || !strings.Contains(err.Error(), "10 successes are kept") {
		t.Errorf("error is %v, want one that names the 10 successes that are kept", err)
	}
}
