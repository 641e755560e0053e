package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// What was done, and cannot be answered, is told: nobody is to do it again.
func TestDoneAndNotAnswered(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	c := newCLI(t, db)
	dead, other := placeJob(t, db, pgqueue.JobDead), placeJob(t, db, pgqueue.JobDead)
	for n, test := range []struct{ words, says string }{
		{"enqueue task", "job 3 was enqueued, but writing the answer failed: no space left"},
		{"enqueue task --json", "job 4 was enqueued, but writing"},
		{"queues pause mail", "queue mail: paused, but writing"},
		{"queues resume mail --json", "queue mail: resumed, but writing"},
		{"schedules put tick --spec @hourly --kind k", "schedule tick: made, but writing"},
		{fmt.Sprintf("jobs retry %d", dead), fmt.Sprintf("job %d: retried, but writing", dead)},
		{"jobs retry --all-matching --state dead --yes --json", "1 job matched, 1 retried, but writing"},
		{"migrate up", "as before, but writing"},
	} {
		var written lockedBuffer
		code := run(t.Context(), strings.Fields(test.words), streams{in: strings.NewReader(""), out: full{}, err: &written}, c.lookup)
		if code != exitFailed || !strings.Contains(written.String(), test.says) {
			t.Errorf("%d, %s: exit code %d, %s", n, test.words, code, written.String())
		}
	}
	c.run("jobs", "why", number(other)).want(exitOK).says("does not run") // it came back
}

// Stopped while it waits for a job, the command says that the job stays, and not how Go calls that.
func TestStoppedWhileWaiting(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out, written lockedBuffer
	ended := make(chan int, 1)
	c := newCLI(t, db)
	go func() {
		ended <- run(ctx, []string{"enqueue", "task", "--wait", "10m"}, c.streams(&out, &written), c.lookup)
	}()
	eventually(t, "the job is enqueued", func() bool { return strings.Contains(out.String(), "job 1 inserted") })
	cancel()
	if code := <-ended; code != exitStopped || !strings.Contains(written.String(), "stopped waiting for job 1") || strings.Contains(written.String(), "context") {
		t.Errorf("exit code %d: %s", code, written.String())
	}
}

// With --json the next page of the audit log is JSON, and so is everything else on standard error.
func TestAuditPagesAsJSON(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	pg := newCLI(t, db)
	pg.run("queues", "pause", "a", "b", "c").want(exitOK)
	first := pg.run("audit", "--limit", "2", "--json").want(exitOK)
	next := decodedLines[struct{ Next string }](t, first.err)
	if len(next) != 1 || next[0].Next == "" {
		t.Fatalf("standard error: %s", first.err)
	}
	if rest := decodedLines[auditLine](t, pg.run("audit", "--limit", "2", "--json", "--cursor", next[0].Next).want(exitOK).out); len(rest) != 1 || rest[0].Queue != "a" {
		t.Errorf("%+v", rest)
	}
	dead := placeJob(t, db, pgqueue.JobSucceeded)
	if refused := lines[jobOutcome](pg.run("jobs", "retry", number(dead), "--json").want(exitConflict)); len(refused) != 1 || refused[0].Name != "conflict" {
		t.Errorf("%+v", refused)
	}
}

// The last line of a timeline is the end, and a queue that is not paused says nothing of a pause.
func TestSmallThingsOfAnswers(t *testing.T) {
	t.Parallel()
	at := time.Now()
	job := &pgqueue.JobDetail{}
	job.State, job.CreatedAt, job.FinishedAt = pgqueue.JobFailed, at.Add(-time.Minute), at
	job.Attempts = []pgqueue.Attempt{{Number: 1, State: pgqueue.AttemptFailed, StartedAt: at.Add(-time.Second), EndedAt: at.Add(time.Microsecond), Code: "boom"}}
	if rows := timeline(job); len(rows) != 4 || rows[3][1] != "ended: failed" {
		t.Errorf("%q", rows)
	}
	var out lockedBuffer
	report := &pgqueue.WorkerReport{Queues: map[string]pgqueue.WorkerQueue{"mail": {Workers: 8}, "slow": {PausedUntil: at}}}
	if err := writeJSONTo(&out, newWorkerQueues(report)); err != nil || strings.Count(out.String(), "paused_until") != 1 || !strings.Contains(out.String(), `"workers":8`) {
		t.Errorf("%s, %v", out.String(), err)
	}
	c := newCLI(t, pgqueuetest.New(t))
	c.run("jobs", "delete", "--all-matching", "--state", "running", "--yes").want(exitUsage).says("--even-if-running")
	c.run("enqueue", "task").want(exitOK)
	if left := c.run("migrate", "down", "--yes").want(exitConflict).says("1 pending and 0 running jobs", "--discard-jobs"); strings.Contains(left.err, "DiscardJobs") {
		t.Errorf("%s", left.err)
	}
	r := newCLI(t, nil).run("queues", "list", "--service", "nosuch").want(exitUsage).says("the connection of --service names a service")
	if strings.Contains(r.err, "postgres://") {
		t.Errorf("it tells of encoding where nothing is encoded: %s", r.err)
	}
}
