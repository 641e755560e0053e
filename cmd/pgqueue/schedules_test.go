package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pgqueue/pgqueue/pgqueuetest"
)

func containsAll(text string, parts ...string) bool {
	return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(text, part) })
}

func equal(x, y []string) bool { return slices.Equal(x, y) }

// decodedLines are the JSON documents of an output, one a line.
func decodedLines[T any](t *testing.T, out string) (values []T) {
	t.Helper()
	for line := range strings.Lines(out) {
		var value T
		if err := json.Unmarshal([]byte(line), &value); err != nil {
			t.Fatalf("the line %q: %v", line, err)
		}
		values = append(values, value)
	}
	return values
}

func TestSchedulesLife(t *testing.T) {
	db := pgqueuetest.New(t)
	pg := newCLI(t, db)
	pg.run("schedules", "list").want(exitOK).says("there is no schedule")
	pg.run("schedules", "put", "report", "--spec", "0 3 * * *", "--time-zone", "Europe/Copenhagen", "--kind", "report", "--queue", "slow", "--priority", "4",
		"--tag", "night", "--payload", `{"n": 12345678901234567890}`, "--jitter", "1m").want(exitOK).says("schedule report: made")
	pg.run("schedules", "put", "report", "--spec", "0 3 * * *", "--kind", "report", "--payload", `{"n": 12345678901234567890}`).want(exitOK).says("schedule report: changed")
	detail := decoded[scheduleDetail](pg.run("schedules", "show", "report", "--json").want(exitOK))
	if detail.State != "enabled" || detail.TimeZone != "UTC" || !strings.Contains(string(detail.Payload), "12345678901234567890") {
		t.Errorf("the schedule is %+v", detail)
	}

	pg.run("schedules", "set-spec", "report", "30 4 * * *", "--time-zone", "Asia/Kathmandu").want(exitOK)
	pg.run("schedules", "set-spec", "report", "45 4 * * *").want(exitOK)
	detail = decoded[scheduleDetail](pg.run("schedules", "show", "report", "--json").want(exitOK))
	if detail.Spec != "45 4 * * *" || detail.TimeZone != "Asia/Kathmandu" {
		t.Errorf("after set-spec it is %+v", detail)
	}

	triggered := decoded[struct{ Job int64 }](pg.run("schedules", "trigger", "report", "--json").want(exitOK))
	job, err := db.Client(t).Get(t.Context(), db.Pool, triggered.Job)
	if err != nil || job.Kind != "report" {
		t.Fatalf("the triggered job is %+v, %v", job, err)
	}
	pg.run("schedules", "disable", "report").want(exitOK)
	pg.run("schedules", "show", "report").want(exitOK).says("disabled", "45 4 * * *")
	pg.run("schedules", "enable", "report").want(exitOK)
	pg.run("schedules", "list").want(exitOK).says("report", "enabled")
	pg.run("schedules", "delete", "report").want(exitOK)
	for _, args := range [][]string{{"show"}, {"enable"}, {"disable"}, {"delete"}, {"trigger"}} {
		pg.run(append([]string{"schedules"}, append(args, "report")...)...).want(exitNotFound)
	}

	entries := decodedLines[auditLine](t, pg.run("audit", "--schedule", "report", "--json").want(exitOK).out)
	var actions []string
	for _, entry := range entries {
		actions = append(actions, entry.Action)
	}
	want := []string{"schedule_delete", "schedule_enable", "schedule_disable", "schedule_trigger", "schedule_put", "schedule_put", "schedule_put", "schedule_put"}
	if !equal(actions, want) {
		t.Errorf("the audit log has %v, want %v: what was refused is no action", actions, want)
	}
}

func TestSchedulesRefuseBeforeTheyConnect(t *testing.T) {
	pg := newCLI(t, nil).with("PGQUEUE_DATABASE_URL", "postgres://nobody@127.0.0.1:1/none")
	pg.run("schedules", "put", "report", "--spec", "0 3 * * *", "--kind", "report", "--payload", "{").want(exitUsage).says("no JSON")
	pg.run("schedules", "put", "report", "--kind", "report").want(exitUsage).says("spec")
	pg.run("schedules", "show", "report", "--ticks", "0").want(exitUsage)
	pg.run("schedules", "preview", "61 * * * *").want(exitUsage)
	pg.run("schedules", "preview", "0 3 * * *", "--time-zone", "Mars/Olympus").want(exitUsage)
	pg.run("schedules", "preview", "0 3 * * *", "-n", "0").want(exitUsage)
	pg.run("schedules", "list").want(exitConnect)
}

func TestSchedulesPreviewNeedsNoDatabase(t *testing.T) {
	pg := newCLI(t, nil)
	ticks := decoded[[]time.Time](pg.run("schedules", "preview", "30 2 1 * *", "-n", "3", "--json").want(exitOK))
	if len(ticks) != 3 || ticks[0].Day() != 1 || ticks[0].Hour() != 2 || !ticks[1].After(ticks[0]) {
		t.Errorf("the next ticks are %v", ticks)
	}
	pg.run("schedules", "preview", "30 2 1 * *", "--time-zone", "Asia/Kathmandu").want(exitOK).says("02:30:00 +0545")
}

func TestAuditFilters(t *testing.T) {
	db := pgqueuetest.New(t)
	pg := newCLI(t, db)
	id := enqueueRaw(t, db, "mail", "send")
	pg.run("jobs", "cancel", itoa(id)).want(exitOK)
	pg.with("PGQUEUE_ACTOR", "alice").run("queues", "pause", "mail").want(exitOK)
	for _, test := range []struct {
		args []string
		want int
	}{
		{nil, 2},
		{[]string{"--by", "alice"}, 1},
		{[]string{"--job", itoa(id)}, 1},
		{[]string{"--action", "pause", "--action", "cancel"}, 2},
		{[]string{"--via", "console"}, 0},
		{[]string{"--from", "-1h"}, 2},
		{[]string{"--to", "-1h"}, 0},
		{[]string{"--limit", "1"}, 1},
	} {
		result := pg.run(append([]string{"audit", "--json"}, test.args...)...).want(exitOK)
		if lines := decodedLines[auditLine](t, result.out); len(lines) != test.want {
			t.Errorf("audit %v lists %d entries, want %d: %s", test.args, len(lines), test.want, result.out)
		}
	}
	first := pg.run("audit", "--limit", "1").want(exitOK).says("alice", "pause", "queue mail", "--cursor")
	_, cursor, _ := strings.Cut(first.err, "--cursor ")
	pg.run("audit", "--limit", "1", "--cursor", strings.TrimSpace(cursor)).want(exitOK).says("tester", "cancel", "job "+itoa(id))
	pg.run("audit", "--by", strings.Repeat("x", 10), "--cursor", strings.TrimSpace(cursor)).want(exitUsage)
}
