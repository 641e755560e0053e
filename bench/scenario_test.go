package main

import (
	"testing"
	"time"
)

func TestContinuousCountsWhatPasses(t *testing.T) {
	t.Parallel()
	for _, e := range []engine{pgqueueEngine(tuned, true), riverEngine(tuned)} {
		wantPositive(t, measured(t, "continuous", e, testJobs, 1500*time.Millisecond), "jobs_per_s")
	}
}

func TestEnqueueIsMeasuredInBulkAndSingly(t *testing.T) {
	t.Parallel()
	singles := []string{"bulk_per_s", "single_1_per_s", "single_16_per_s", "single_64_per_s"}
	with := []string{"single_1_50_listeners_per_s", "single_16_50_listeners_per_s", "single_64_50_listeners_per_s"}
	without := []string{"single_1_no_hints_per_s", "single_16_no_hints_per_s", "single_64_no_hints_per_s"}
	found := measured(t, "enqueue", pgqueueEngine(tuned, true), testJobs, 0)
	wantPositive(t, found, append(append(singles, with...), without...)...)
	wantPositive(t, measured(t, "enqueue", riverEngine(tuned), testJobs, 0), append(singles, with...)...)
	wantPositive(t, measured(t, "enqueue", gueEngine(tuned), testJobs, 0), singles...)
}

func TestPickUpIsTimedAloneAndAtRates(t *testing.T) {
	t.Parallel()
	for _, e := range []engine{pgqueueEngine(defaults, true), pgqueueEngine(window10, true), riverEngine(tuned), gueEngine(tuned)} {
		wantPositive(t, measured(t, "latency", e, 1, 50*time.Millisecond), "lone_p50_ms", "lone_max_ms", "second_p50_ms", "second_max_ms",
			"rate_20_p50_ms", "rate_200_p99_ms", "rate_2000_max_ms", "rate_2000_reached_per_s")
	}
}

func TestScheduledJobsAreTimedFromTheirDueTime(t *testing.T) {
	t.Parallel()
	found := measured(t, "scheduled", pgqueueEngine(defaults, true), 3, 0)
	wantPositive(t, found, "late_p50_ms", "late_p99_ms", "late_max_ms")
	if found["late_max_ms"] >= 1500 {
		t.Errorf("late_max_ms is %v: that is the time since enqueueing", found["late_max_ms"])
	}
}

func TestHeldSnapshotComparesTenths(t *testing.T) {
	t.Parallel()
	for _, e := range []engine{pgqueueEngine(tuned, true), riverEngine(tuned)} {
		wantPositive(t, measured(t, "held-snapshot", e, 500, time.Second), "first_tenth_per_s", "last_tenth_per_s", "last_to_first",
			"claim_p99_first_ms", "after_s", "after_to_first")
	}
}

func TestAdversitiesTimeClaims(t *testing.T) {
	t.Parallel()
	found := measured(t, "adversity", pgqueueEngine(tuned, true), 20, time.Second)
	for _, name := range []string{"none", "readers", "scheduled", "unknown", "queues"} {
		wantPositive(t, found, name+"_per_s", name+"_claim_p99_ms")
	}
	wantPositive(t, found, "overload_reached", "overload_claim_p99_ms")
}

func TestProcessesShareADrain(t *testing.T) {
	t.Parallel()
	wantPositive(t, measured(t, "processes", pgqueueEngine(tuned, true), testJobs, 0),
		"processes_1_handlers_16_per_s", "processes_1_handlers_256_per_s", "processes_4_handlers_64_per_s")
}

func TestKilledJobsStartAgain(t *testing.T) {
	t.Parallel()
	// A job of gue is free again as soon as the connection of its process is gone.
	found := measured(t, "killed", gueEngine(defaults), 5, 30*time.Second)
	wantPositive(t, found, "all_rerun_s")
	if found["in_flight"] != 5 || found["rerun_share"] != 1 {
		t.Errorf("%v of 5 jobs were in flight, of which %v started again, want all", found["in_flight"], found["rerun_share"])
	}
	// One of pgqueue only when its lease has run out, which is later than this waits.
	found = measured(t, "killed", pgqueueEngine(defaults, true), 5, 100*time.Millisecond)
	if found["in_flight"] != 5 || found["rerun_share"] != 0 {
		t.Errorf("%v of 5 jobs were in flight, of which %v started again, want 5 and none", found["in_flight"], found["rerun_share"])
	}
}

func TestIdleClientsAreCounted(t *testing.T) {
	t.Parallel()
	found := measured(t, "idle", pgqueueEngine(defaults, true), 0, 1500*time.Millisecond)
	wantPositive(t, found, "statements_per_s_per_client")
	for _, metric := range []string{"transactions_per_s_per_client", "rows_written_per_s_per_client", "heartbeat_rows_per_s_per_client"} {
		if _, ok := found[metric]; !ok {
			t.Errorf("no %s", metric)
		}
	}
}

func TestCostIsCountedPerJob(t *testing.T) {
	t.Parallel()
	found := measured(t, "cost", pgqueueEngine(tuned, false), testJobs, 3*time.Second)
	wantPositive(t, found, "jobs_per_s", "client_cpu_us_per_job", "go_allocations_per_job", "go_bytes_per_job", "wal_bytes_per_job",
		"wal_bytes_per_job_worked", "renewals_hot_share")
	if !countsAtOnce(t) {
		return
	}
	wantPositive(t, found, "commits_per_job_worked")
	// One inserted, updated and deleted row, and what else the worker writes.
	if rows := found["rows_written_per_job"]; rows < 3 || rows > 5 {
		t.Errorf("%v rows are written for a job, want 3 and little more", rows)
	}
	if share := found["renewals_hot_share"]; share > 1.05 {
		t.Errorf("%v of the renewals are HOT", share)
	}
	wantPositive(t, measured(t, "cost", riverEngine(tuned), testJobs, 0), "wal_bytes_per_job", "rows_written_per_job_worked")
}

// countsAtOnce tells whether the server's counters are in shared memory, as from Postgres 15 on. Before, a collector has them seconds later, and
// a run of a few jobs is over by then.
func countsAtOnce(t *testing.T) bool {
	t.Helper()
	db, err := testServer(t).database(t.Context(), wiring{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.drop()
	var version int
	if err := db.pool.QueryRow(t.Context(), `SELECT current_setting('server_version_num')::int`).Scan(&version); err != nil {
		t.Fatal(err)
	}
	return version >= 150000
}

func TestGrowthComparesWithAnEmptyStart(t *testing.T) {
	t.Parallel()
	wantPositive(t, measured(t, "growth", pgqueueEngine(tuned, true), 400, 0), "empty_per_s", "grown_per_s", "backlog_per_s", "grown_to_empty",
		"jobs_table_grown_mb", "jobs_table_backlog_mb", "jobs_table_emptied_mb")
}

func TestHoldKeepsASnapshotUntilItIsReleased(t *testing.T) {
	t.Parallel()
	db, err := testServer(t).database(t.Context(), wiring{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.drop()
	held := func() (n int) {
		err := db.pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
			AND state = 'idle in transaction' AND backend_xmin IS NOT NULL`).Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	release, err := hold(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if n := held(); n != 1 {
		t.Errorf("%d transactions hold a snapshot, want 1", n)
	}
	release()
	for deadline := time.Now().Add(30 * time.Second); held() > 0; {
		if time.Now().After(deadline) {
			t.Fatal("the transaction is still open 30 s after its release")
		}
	}
}
