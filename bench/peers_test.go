//go:build peers

package main

import (
	"bytes"
	"fmt"
	"testing"
	"time"
)

// The tests of what needs more than Go and Postgres; make test-bench-peers installs it.

func TestPeersDrain(t *testing.T) {
	t.Parallel()
	var out, notes bytes.Buffer
	engines := []string{"pgqueue-tuned", "graphile-worker", "pg-boss"}
	if err := testServer(t).has(t.Context(), "pgq"); err == nil {
		engines = append(engines, "pgq")
	} else {
		t.Logf("pgq is left out: %v", err)
	}
	err := run(t.Context(), settings{jobs: testJobs, rounds: 1, scenarios: []int{1}, engines: engines}, &out, &notes)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, line := range lines(t, out.String()) {
		if line["metric"] != "ratio" {
			found[fmt.Sprint(line["engine"])] = true
		}
	}
	for _, engine := range append(engines[1:], "pgqueue") {
		if !found[engine] {
			t.Errorf("no figure for %s: %s", engine, out.String())
		}
	}
}

func nodePeers(variant string) []engine {
	return []engine{nodeEngine("graphile-worker", variant), nodeEngine("pg-boss", variant)}
}

func TestPeersPassEnqueueAndCost(t *testing.T) {
	t.Parallel()
	for _, e := range nodePeers(tuned) {
		wantPositive(t, measured(t, "continuous", e, 0, 900*time.Millisecond), "jobs_per_s")
		wantPositive(t, measured(t, "enqueue", e, testJobs, 0), "bulk_per_s", "single_1_per_s", "single_16_per_s", "single_64_per_s")
		wantPositive(t, measured(t, "cost", e, testJobs, 0), "jobs_per_s", "client_cpu_us_per_job", "wal_bytes_per_job", "commits_per_job_worked")
	}
}

func TestPeersPickUp(t *testing.T) {
	t.Parallel()
	for _, e := range nodePeers(tuned) {
		wantPositive(t, measured(t, "latency", e, 1, 20*time.Millisecond), "lone_p50_ms", "second_p50_ms", "rate_20_p50_ms", "rate_2000_p99_ms")
	}
}

func TestPeersRunInProcesses(t *testing.T) {
	t.Parallel()
	wantPositive(t, measured(t, "processes", nodeEngine("graphile-worker", tuned), testJobs, 0), "processes_4_handlers_64_per_s")
}

func TestPeersSurviveAKill(t *testing.T) {
	t.Parallel()
	found := measured(t, "killed", nodeEngine("graphile-worker", defaults), 3, 100*time.Millisecond)
	if found["in_flight"] != 3 || found["rerun_share"] != 0 {
		t.Errorf("%v of 3 jobs were in flight, of which %v started again, want 3 and none: its locks last hours", found["in_flight"], found["rerun_share"])
	}
}

func TestPeersIdleAndSchedule(t *testing.T) {
	t.Parallel()
	found := measured(t, "idle", nodeEngine("graphile-worker", defaults), 0, 2*time.Second)
	if _, ok := found["transactions_per_s_per_client"]; !ok {
		t.Errorf("no transactions: %v", found)
	}
	wantPositive(t, measured(t, "scheduled", nodeEngine("graphile-worker", tuned), 2, 0), "late_max_ms")
}
