package main

import (
	"strings"
	"testing"
	"time"

	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// done is what a command says it did, as JSON.
type done struct {
	Queue, Kind, Schedule, Done, Reason, Error, Code string
	PausedUntil                                      *time.Time `json:"paused_until"`
}

// "paused" is said of what is paused, and of nothing else: a time that has passed is refused, and a longer pause that was there is shown.
func TestAPauseThatIsNone(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	pg := newCLI(t, db)
	for _, until := range []string{"-1h", "now", "2020-01-02", "+0s"} {
		pg.run("queues", "pause", "mail", "--until", until).want(exitUsage).says("--until must be in the future")
		pg.run("kinds", "pause", "send", "--until", until).want(exitUsage).says("--until must be in the future")
	}
	if n := jobValue[int](t, db, `SELECT count(*)::int FROM pgqueue.audit`); n != 0 {
		t.Errorf("the audit log has %d entries", n)
	}
	pg.run("queues", "pause", "mail", "--until", "+2h", "--reason", "the relay\x1b[2J is down").want(exitOK).says("queue mail: paused until ")
	pg.run("queues", "pause", "mail", "--until", "+1h", "--reason", "other").want(exitOK).says("queue mail: stays paused until ", `: the relay\x1b[2J is down`)
	stays := decoded[done](pg.run("queues", "pause", "mail", "--until", "+1h", "--json").want(exitOK))
	if stays.Done != "stays paused" || stays.PausedUntil == nil || time.Until(*stays.PausedUntil) < 90*time.Minute || !strings.HasPrefix(stays.Reason, "the relay") {
		t.Errorf("%+v", stays)
	}
	longer := decoded[done](pg.run("queues", "pause", "mail", "--until", "+3h", "--json").want(exitOK))
	if longer.Done != "paused" || longer.PausedUntil == nil || time.Until(*longer.PausedUntil) < 150*time.Minute {
		t.Errorf("%+v", longer)
	}
	pg.run("kinds", "pause", "send", "--queue", "mail").want(exitOK)
	pg.run("kinds", "pause", "send", "--queue", "mail", "--until", "+1h").want(exitOK).says("kind send: stays paused in queue mail until somebody resumes it")
	pg.run("kinds", "pause", "send", "--until", "+1h").want(exitOK).says("kind send: paused in all queues until ")
}

// To resume what is not paused does nothing, says so, and is no entry of the audit log.
func TestResumeWhatIsNotPaused(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	pg := newCLI(t, db)
	pg.run("queues", "resume", "nosuch").want(exitOK).says("queue nosuch: was not paused")
	pg.run("kinds", "resume", "nosuch", "--queue", "mail").want(exitOK).says("kind nosuch: was not paused in queue mail")
	if n := jobValue[int](t, db, `SELECT count(*)::int FROM pgqueue.audit`); n != 0 {
		t.Errorf("the audit log has %d entries", n)
	}
	pg.run("queues", "pause", "mail").want(exitOK)
	pg.run("queues", "resume", "mail", "mail").want(exitOK).says("queue mail: resumed")
	if n := jobValue[int](t, db, `SELECT count(*)::int FROM pgqueue.audit`); n != 2 {
		t.Errorf("the audit log has %d entries", n)
	}
}

// All names are looked at before the first is acted on, and one that is not there holds up no other.
func TestSeveralNames(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	pg := newCLI(t, db)
	for _, name := range []string{"tick", "tock"} {
		pg.run("schedules", "put", name, "--spec", "@every 10m", "--kind", "k").want(exitOK)
	}
	tooLong := strings.Repeat("x", 10_000)
	pg.run("queues", "pause", "qa", tooLong).want(exitUsage)
	pg.run("schedules", "disable", "tick", tooLong).want(exitUsage)
	if n := jobValue[int](t, db, `SELECT count(*)::int FROM pgqueue.audit WHERE action <> 'schedule_put'`); n != 0 {
		t.Errorf("%d things were done before a name that cannot be", n)
	}
	r := pg.run("schedules", "disable", "tick", "nosuch", "tock", "--json").want(exitPartial)
	if out := decodedLines[done](t, r.out); len(out) != 2 || out[1].Schedule != "tock" || out[1].Done != "disabled" {
		t.Errorf("%+v", out)
	}
	if refused := decodedLines[done](t, r.err); len(refused) != 1 || refused[0].Schedule != "nosuch" || refused[0].Code != "not_found" || refused[0].Error == "" {
		t.Errorf("%s", r.err)
	}
	pg.run("schedules", "enable", "nosuch", "tick").want(exitPartial).says("nosuch", "schedule tick: enabled")
	pg.run("schedules", "delete", "nosuch", "neither").want(exitNotFound)
	pg.run("schedules", "delete", "nosuch").want(exitNotFound).says("nosuch")
}

// What a terminal would obey is an escape in the JSON of every command.
func TestJSONIsSafeForATerminal(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	pg := newCLI(t, db)
	const bad = "x\u009b2J\u202e"
	outputs := []string{
		pg.run("enqueue", bad, "--queue", bad, "--json").want(exitOK).out,
		pg.run("queues", "pause", bad, "--reason", bad, "--json").want(exitOK).out,
		pg.run("queues", "list", "--json").want(exitOK).out,
		pg.run("kinds", "pause", bad, "--reason", bad, "--json").want(exitOK).out,
		pg.run("kinds", "paused", "--json").want(exitOK).out,
		pg.run("schedules", "put", bad, "--spec", "@every 10m", "--kind", bad, "--json").want(exitOK).out,
		pg.run("schedules", "list", "--json").want(exitOK).out,
		pg.run("schedules", "show", bad, "--json").want(exitOK).out,
		pg.run("top", "--once", "--json").want(exitOK).out,
	}
	for _, out := range outputs {
		if strings.ContainsAny(out, "\u009b\u202e") || !strings.Contains(out, `\u009b`) {
			t.Errorf("%q", out)
		}
	}
}
