package main

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/runner"
)

// drain embeds what is due.
func (f *fixture) drain(h runner.Handler[Document, Vector]) runner.Outcomes {
	f.Helper()
	r, err := runner.New(f.queue, h, runner.Config{})
	if err != nil {
		f.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	done, err := r.Drain(ctx)
	if err != nil {
		f.Fatal(err)
	}
	return done.Outcomes
}

func (f *fixture) embedder() *embedder { return &embedder{readers: f.pool} }

func (f *fixture) state(id int64) (state string) {
	f.Helper()
	if err := f.pool.QueryRow(context.Background(), `SELECT state FROM search.embeddings WHERE document_id = $1`, id).Scan(&state); err != nil {
		f.Fatal(err)
	}
	return state
}

func TestTheSameContentIsNoWork(t *testing.T) {
	f := open(t)
	f.save(1, "a text")
	if got := f.drain(f.embedder()); got.Succeeded != 1 {
		t.Fatalf("%+v", got)
	}
	f.save(1, "a text")
	if got := f.state(1); got != "stored" {
		t.Errorf("after the same content the embedding is %s", got)
	}
	f.save(1, "another text")
	if got := f.state(1); got != "waiting" {
		t.Errorf("after other content the embedding is %s", got)
	}
}

func TestAChangeThatIsRolledBackIsNoWork(t *testing.T) {
	f := open(t)
	f.save(1, "a text")
	f.drain(f.embedder())
	tx, err := f.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := saveDocument(t.Context(), tx, 1, "another text"); err != nil {
		t.Fatal(err)
	}
	if err := saveDocument(t.Context(), tx, 2, "a new one"); err != nil {
		t.Fatal(err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := f.drain(f.embedder()); got.Total() != 0 {
		t.Errorf("work was done: %+v", got)
	}
}

// The application withdraws a document and takes its time to commit. A report in between must not decide on the past.
func TestAReportDoesNotOvertakeAWithdrawal(t *testing.T) {
	f := open(t)
	f.save(1, "a text")
	tasks, err := f.queue.Claim(t.Context(), runner.ClaimRequest{Limit: 1, Lease: time.Hour})
	if err != nil || len(tasks) != 1 {
		t.Fatal(tasks, err)
	}
	vector := embed("a text")
	report := func() runner.Outcome {
		t.Helper()
		outcomes, err := f.queue.Report(t.Context(), []runner.Verdict[Vector]{{Token: tasks[0].Token, Decision: runner.Succeed, Result: &vector}})
		if err != nil {
			t.Fatal(err)
		}
		return outcomes[0]
	}
	err = pgx.BeginFunc(t.Context(), f.pool, func(tx pgx.Tx) error {
		// The document alone, as an application would that knows nothing of embeddings.
		if _, err := tx.Exec(t.Context(), `UPDATE search.documents SET withdrawn = true WHERE id = 1`); err != nil {
			return err
		}
		if got := report(); got != runner.Busy {
			t.Errorf("before the commit the report was answered %d, want Busy", got)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := report(); got != runner.Ineligible {
		t.Errorf("after the commit the report was answered %d, want Ineligible", got)
	}
	if item := f.look(1); item.HasResult {
		t.Error("a withdrawn document has a vector")
	}
}

// A document is withdrawn during a run, and then edited, which is no work. Whatever the run says, that is the end: its
// revision will never be readable again, and a handler that waits for it would do so for ever.
func TestAWithdrawnDocumentIsNotWaitedFor(t *testing.T) {
	f := open(t)
	decisions := []runner.Decision{runner.Succeed, runner.Retry, runner.Fail, runner.Cancel, runner.Snooze, runner.Release, runner.Confirm}
	for _, decision := range decisions {
		f.save(int64(decision), "a text")
	}
	for _, task := range f.claim() {
		if err := withdrawDocument(t.Context(), f.pool, task.Payload.ID); err != nil {
			t.Fatal(err)
		}
		f.save(task.Payload.ID, "another text")
		vector := embed("a text")
		verdict := runner.Verdict[Vector]{Token: task.Token, Decision: runner.Decision(task.Payload.ID), Result: &vector}
		if got := f.report(verdict); got[0] != runner.Ineligible {
			t.Errorf("decision %d: outcome %d, want Ineligible", verdict.Decision, got[0])
		}
		if got := f.state(task.Payload.ID); got != "cancelled" {
			t.Errorf("decision %d: the embedding is %s", verdict.Decision, got)
		}
	}
	if got := f.drain(f.embedder()); got.Total() != 0 {
		t.Errorf("there was work left: %+v", got)
	}
}

// A replica that has not seen the document yet costs the task a moment, and no attempt.
func TestAReplicaThatIsBehindSpendsNothing(t *testing.T) {
	f, replica := open(t), open(t)
	f.save(1, "a text")
	late := &embedder{readers: replica.pool}
	if got := f.drain(late); got.Snoozed != 1 || got.Total() != 1 {
		t.Fatalf("%+v", got)
	}
	if item := f.look(1); item.Failures != 0 || item.DueIn <= 0 {
		t.Errorf("%+v", item)
	}
	replica.save(1, "a text")
	f.exec(`UPDATE search.embeddings SET due_at = statement_timestamp()`)
	if got := f.drain(late); got.Succeeded != 1 {
		t.Errorf("%+v", got)
	}
}

// A document that is edited again before its vector is stored has been stale since the first edit, not since the last.
func TestFreshnessCountsFromTheFirstChange(t *testing.T) {
	f := open(t)
	f.save(1, "a text")
	f.exec(`UPDATE search.embeddings SET stale_since = stale_since - interval '1 hour'`)
	f.save(1, "another text")
	if now, err := measureLag(t.Context(), f.pool); err != nil || now.behind != 1 || now.oldest < time.Hour {
		t.Errorf("the lag is %+v (%v), want one document for an hour", now, err)
	}
	f.drain(f.embedder())
	if got := f.queue.freshness.summary(); got.stored != 1 || got.max < time.Hour {
		t.Errorf("the freshness is %+v, want an hour", got)
	}
	f.save(1, "a third text")
	f.drain(f.embedder())
	if got := f.queue.freshness.summary(); got.stored != 2 || got.p50 >= time.Hour {
		t.Errorf("the freshness is %+v: the second vector was an hour late too", got)
	}
	if now, err := measureLag(t.Context(), f.pool); err != nil || now != (lag{}) {
		t.Errorf("the lag is %+v (%v), want none", now, err)
	}
}

func TestVectorsThatCannotBeStored(t *testing.T) {
	if embed("").check() != nil || embed("a text of some words").check() != nil {
		t.Error("a good vector is refused")
	}
	for name, v := range map[string]Vector{"short": make(Vector, dimensions-1), "none": {}} {
		if v.check() == nil {
			t.Errorf("%s: not refused", name)
		}
	}
}
