package main

import (
	"slices"
	"testing"
	"time"

	"github.com/pgqueue/pgqueue/runner"
)

// claim claims what is due.
func (f *fixture) claim() []runner.Task[Document] {
	f.Helper()
	tasks, err := f.queue.Claim(f.Context(), runner.ClaimRequest{Limit: 10, Lease: time.Hour})
	if err != nil {
		f.Fatal(err)
	}
	return tasks
}

func (f *fixture) report(verdicts ...runner.Verdict[Vector]) []runner.Outcome {
	f.Helper()
	outcomes, err := f.queue.Report(f.Context(), verdicts)
	if err != nil {
		f.Fatal(err)
	}
	return outcomes
}

func success(task runner.Task[Document], v Vector) runner.Verdict[Vector] {
	return runner.Verdict[Vector]{Token: task.Token, Decision: runner.Succeed, Result: &v}
}

// A worker that was thought dead and the one that took over are the same process, and both reports are in one batch.
func TestReportsOfAnOldAndANewClaimInOneBatch(t *testing.T) {
	f := open(t)
	f.save(1, "a text")
	old := f.claim()
	f.exec(`UPDATE search.embeddings SET lease_expires_at = statement_timestamp()`)
	if _, err := f.queue.Recover(t.Context(), 10); err != nil {
		t.Fatal(err)
	}
	fresh := f.claim()
	got := f.report(success(old[0], vectorOf("old")), success(fresh[0], vectorOf("fresh")))
	if !slices.Equal(got, []runner.Outcome{runner.Lost, runner.Succeeded}) {
		t.Errorf("outcomes %v, want Lost and Succeeded", got)
	}
	if item := f.look(1); item.Result != "fresh" {
		t.Errorf("the vector is %q", item.Result)
	}
}

// It must not take the batch with it: the runner would send the same batch again and again.
func TestAReportOfABadVectorFailsAlone(t *testing.T) {
	f := open(t)
	f.save(1, "a text")
	f.save(2, "another one")
	tasks := f.claim()
	got := f.report(success(tasks[0], Vector{1, 2, 3}), success(tasks[1], embed("another one")))
	if !slices.Equal(got, []runner.Outcome{runner.Failed, runner.Succeeded}) {
		t.Errorf("outcomes %v, want Failed and Succeeded", got)
	}
	var code, message string
	if err := f.pool.QueryRow(t.Context(), `SELECT error_code, error_message FROM search.embeddings WHERE document_id = 1`).Scan(&code, &message); err != nil {
		t.Fatal(err)
	}
	if code != "bad_vector" || message != "the vector has 3 dimensions, not 64" {
		t.Errorf("stored %q, %q", code, message)
	}
}
