package outbox_test

import (
	"testing"
	"time"

	"github.com/pgqueue/pgqueue/outbox"
	"github.com/pgqueue/pgqueue/runner"
)

// claim takes up to limit rows.
func claim(t testing.TB, q *queue, limit int) []task {
	t.Helper()
	tasks, err := q.Claim(t.Context(), runner.ClaimRequest{Limit: limit, Lease: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	return tasks
}

// report ends one claim and returns what became of it.
func report(t testing.TB, q *queue, task task, decision runner.Decision) runner.Outcome {
	t.Helper()
	outcomes, err := q.Report(t.Context(), []runner.Verdict[result]{{Token: task.Token, Decision: decision}})
	if err != nil {
		t.Fatal(err)
	}
	return outcomes[0]
}

// A success without a result that comes after the reaper counts, unless somebody has claimed the row again.
func TestLateSuccess(t *testing.T) {
	t.Parallel()
	db := database(t)
	q := plain().open(t, db.Pool, outbox.Config{})
	insert(t, db.Pool, 1, 2)
	tasks := claim(t, q, 2)
	exec(t, db.Pool, `UPDATE app.deliveries SET status = 'pending', next_attempt_at = now()`) // as the reaper does
	if got := report(t, q, tasks[0], runner.Succeed); got != runner.Succeeded {
		t.Errorf("a late success was answered %d", got)
	}
	again := claim(t, q, 2)
	if len(again) != 1 {
		t.Fatalf("claimed %d", len(again))
	}
	if got := report(t, q, tasks[1], runner.Succeed); got != runner.Lost {
		t.Errorf("a success after another claim was answered %d", got)
	}
	if got := report(t, q, again[0], runner.Succeed); got != runner.Succeeded {
		t.Errorf("the success of that claim was answered %d", got)
	}
}

// The attempts are a part of the fence beside the time: clocks are set back, and two claims may have one time.
func TestClaimsWithOneTimeAreToldApart(t *testing.T) {
	t.Parallel()
	db := database(t)
	q := plain().open(t, db.Pool, outbox.Config{})
	insert(t, db.Pool, 1, 2)
	tasks := claim(t, q, 2)
	exec(t, db.Pool, `UPDATE app.deliveries SET attempts = attempts + 1`)
	for i, decision := range []runner.Decision{runner.Succeed, runner.Retry} {
		if got := report(t, q, tasks[i], decision); got != runner.Lost {
			t.Errorf("decision %d was answered %d", decision, got)
		}
	}
}

// While claims of a backlog start where the last one ended, a row that belongs before them is found in time.
func TestARowBeforeTheMarkIsFoundAmidABacklog(t *testing.T) {
	t.Parallel()
	db := database(t)
	q := plain().open(t, db.Pool, outbox.Config{})
	insert(t, db.Pool, 1, 2000)
	claim(t, q, 10)
	exec(t, db.Pool, `INSERT INTO app.deliveries (id, name, next_attempt_at) VALUES (5000, 'late', now() - interval '1 day')`)
	for i := 10; i < 2000; i++ {
		tasks := claim(t, q, 1)
		if len(tasks) == 1 && tasks[0].Payload.Name == "late" {
			return
		}
	}
	t.Error("it was not found before the backlog was over")
}
