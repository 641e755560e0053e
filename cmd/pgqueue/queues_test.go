package main

import (
	"testing"
	"time"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// enqueueRaw puts a job of a kind into a queue.
func enqueueRaw(t *testing.T, db *pgqueuetest.DB, queue, kind string, options ...pgqueue.EnqueueOption) int64 {
	t.Helper()
	enqueued, err := db.Client(t).Enqueue(t.Context(), db.Pool, pgqueue.Raw{Name: kind}, append(options, pgqueue.OnQueue(queue))...)
	if err != nil {
		t.Fatal(err)
	}
	return enqueued.ID
}

func TestQueuesListCounts(t *testing.T) {
	db := pgqueuetest.New(t)
	pg := newCLI(t, db)
	if lines := decoded[[]queueLine](pg.run("queues", "list", "--json").want(exitOK)); len(lines) != 0 {
		t.Errorf("an empty schema lists %+v", lines)
	}
	enqueueRaw(t, db, "mail", "send")
	enqueueRaw(t, db, "mail", "send", pgqueue.WithPriority(4))
	enqueueRaw(t, db, "mail", "send", pgqueue.WithDelay(time.Hour))
	enqueueRaw(t, db, "billing", "charge")
	lines := decoded[[]queueLine](pg.run("queues", "list", "--json").want(exitOK))
	if len(lines) != 2 || lines[1].Queue != "mail" || lines[1].Ready[0].N != 1 || lines[1].Ready[3].N != 1 || lines[1].Scheduled.N != 1 {
		t.Errorf("queues are %+v", lines)
	}
	pg.run("queues", "list", "billing").want(exitOK).says("billing", "READY")
}

func TestQueuesPauseAndResume(t *testing.T) {
	db := pgqueuetest.New(t)
	pg := newCLI(t, db)
	enqueueRaw(t, db, "mail", "send")
	pg.run("queues", "pause", "mail", "billing", "--reason", "the relay is\x1b[2J down").want(exitOK).says("queue mail: paused", "queue billing: paused")
	lines := decoded[[]queueLine](pg.run("queues", "list", "mail", "--json").want(exitOK))
	if len(lines) != 1 || lines[0].PausedAt == nil || lines[0].PausedUntil != nil || lines[0].PausedReason == "" {
		t.Errorf("after a pause the queue is %+v", lines)
	}
	if out := pg.run("queues", "list").want(exitOK).out; !containsAll(out, "since ", `the relay is\x1b[2J down`) {
		t.Errorf("the reason is not shown, or reaches the terminal as it is: %q", out)
	}
	pg.run("queues", "resume", "mail").want(exitOK)
	pg.run("queues", "pause", "mail", "--until", "+30m").want(exitOK)
	lines = decoded[[]queueLine](pg.run("queues", "list", "mail", "--json").want(exitOK))
	if len(lines) != 1 || lines[0].PausedUntil == nil || time.Until(*lines[0].PausedUntil) < 20*time.Minute {
		t.Errorf("after a pause until a time the queue is %+v", lines)
	}
	pg.run("queues", "pause", "mail", "--until", "tomorrow-ish").want(exitUsage).says("--until is a time")
	pg.run("queues", "pause").want(exitUsage)
	pg.run("queues", "pause", "").want(exitUsage)

	actions := decodedLines[auditLine](t, pg.run("audit", "--queue", "mail", "--json").want(exitOK).out)
	var names []string
	for _, line := range actions {
		names = append(names, line.Action)
		if line.Actor != "tester" || line.Via != "cli" {
			t.Errorf("the audit log says %+v", line)
		}
	}
	if want := []string{"pause", "resume", "pause"}; !equal(names, want) {
		t.Errorf("the audit log has %v, want %v", names, want)
	}
}

func TestQueuesHistory(t *testing.T) {
	db := pgqueuetest.New(t)
	pg := newCLI(t, db)
	pg.run("queues", "history", "slim", "mail").want(exitOK)
	if lines := decoded[[]queueLine](pg.run("queues", "list", "--json").want(exitOK)); len(lines) != 1 || lines[0].History != "slim" {
		t.Errorf("queues are %+v", lines)
	}
	pg.run("queues", "history", "some", "mail").want(exitUsage).says("full, slim or off")
}

func TestQueuesPurgeDeletesWhatHasEnded(t *testing.T) {
	db := pgqueuetest.New(t)
	pg := newCLI(t, db)
	live := enqueueRaw(t, db, "mail", "send")
	for _, queue := range []string{"mail", "mail", "billing"} {
		ended := enqueueRaw(t, db, queue, "send")
		if _, err := db.Client(t).Cancel(t.Context(), db.Pool, ended); err != nil {
			t.Fatal(err)
		}
	}
	pg.run("queues", "purge", "mail", "--dry-run").want(exitOK).says("2 jobs match")
	pg.run("queues", "purge", "mail").want(exitUsage).says("--yes")
	report := decoded[bulkReport](pg.run("queues", "purge", "mail", "--yes", "--json").want(exitOK))
	if report.Done != 2 || !report.Complete {
		t.Errorf("purge says %+v", report)
	}
	if _, err := db.Client(t).Get(t.Context(), db.Pool, live); err != nil {
		t.Errorf("the live job: %v", err)
	}
	pg.run("jobs", "count", "--queue", "billing", "--exact").want(exitOK).says("1")
}

func TestKindsPauseAndResume(t *testing.T) {
	db := pgqueuetest.New(t)
	pg := newCLI(t, db)
	pg.run("kinds", "pause", "send", "--queue", "mail", "--until", "+1h", "--reason", "wrong template").want(exitOK).says("kind send: paused in queue mail")
	pg.run("kinds", "pause", "charge").want(exitOK).says("in all queues")
	pg.run("kinds", "paused").want(exitOK).says("send", "mail", "wrong template", "charge", "(all)")
	pg.run("kinds", "resume", "send").want(exitOK)
	pg.run("kinds", "resume", "charge").want(exitOK)
	type line struct {
		Kind, Queue string
		Until       *time.Time
	}
	lines := decoded[[]line](pg.run("kinds", "paused", "--json").want(exitOK))
	if len(lines) != 1 || lines[0].Kind != "send" || lines[0].Queue != "mail" || lines[0].Until == nil {
		t.Errorf("a pause by name ends with that name alone; paused are %+v", lines)
	}
}

func TestWorkersList(t *testing.T) {
	db := pgqueuetest.New(t)
	pg := newCLI(t, db)
	pg.run("workers", "list").want(exitOK).says("no worker process")
	if _, err := db.Pool.Exec(t.Context(), `SELECT pgqueue.heartbeat('w-1', 'host\e[2J'::text, 42, 'v7', pg_catalog.statement_timestamp(), interval '30 s', false,
		'{"mail": {"workers": 8, "in_flight": 3, "stuck": 1}}', '{"send": {"workers": 0}}')`); err != nil {
		t.Fatal(err)
	}
	pg.run("workers", "list").want(exitOK).says("w-1", "alive", "mail 3/8 (1 stuck)", "send", "v7")
	lines := decoded[[]workerLine](pg.run("workers", "list", "--json").want(exitOK))
	if len(lines) != 1 || lines[0].State != "alive" || lines[0].Queues["mail"].InFlight != 3 {
		t.Errorf("workers are %+v", lines)
	}
}
