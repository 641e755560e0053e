package main

import (
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// Each command says which role it takes when a right is missing; and with the roles of docs/roles.md and docs/cli.md it works.
func TestRoles(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.NewServer(t).DB(t)
	for _, page := range []string{"../../docs/roles.md", "../../docs/cli.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range strings.Split(string(text), "```sql\n")[1:] {
			sql, _, _ := strings.Cut(block, "```")
			jobExec(t, db, sql)
		}
	}
	jobExec(t, db, `CREATE ROLE stranger LOGIN; GRANT USAGE ON SCHEMA pgqueue TO stranger; CREATE ROLE lone_operator LOGIN IN ROLE pgqueue_operator;
		CREATE ROLE clerk LOGIN IN ROLE pgqueue_producer, pgqueue_recorder; CREATE ROLE janitor LOGIN IN ROLE pgqueue_operator, pgqueue_viewer; GRANT DELETE ON pgqueue.jobs, pgqueue.history TO janitor; CREATE ROLE timekeeper LOGIN IN ROLE pgqueue_timekeeper`)
	as := func(role string) *cli {
		address, err := url.Parse(db.URL)
		if err != nil {
			t.Fatal(err)
		}
		address.User = url.User(role)
		return newCLI(t, db).with("PGQUEUE_DATABASE_URL", address.String())
	}
	stranger := as("stranger")
	for words, says := range map[string]string{
		"jobs list": "--purpose viewer", "queues list": "--purpose viewer", "audit": "--purpose viewer", "schedules list": "--purpose viewer",
		"jobs retry 1": "--purpose operator ", "queues pause mail": "--purpose operator ", "jobs retry --all-matching --state dead --yes": "--purpose operator,viewer",
		"enqueue task": "--purpose producer", "schedules trigger tick": "producer", "schedules delete tick": "on schedules", "migrate up": "owner", "jobs delete 1": "DELETE",
	} {
		stranger.run(strings.Fields(words)...).want(exitFailed).says(says, "docs/roles.md")
	}
	if report := stranger.run("doctor").out; !strings.Contains(report, "version unknown") || strings.Count(report, "permission denied for table pgqueue_migrations") > 2 {
		t.Errorf("the doctor says %s", report)
	}

	// An operator who may not look is told what he asked for.
	operator := as("lone_operator")
	operator.run("queues", "pause", "mail", "--until", "+1h").want(exitOK).says("queue mail: paused until")
	operator.run("queues", "resume", "mail").want(exitOK).says("queue mail: resumed")

	as("shop").run("enqueue", "task").want(exitFailed).says("record_action") // a producer without the audit log
	enqueued := decoded[enqueuedView](as("clerk").run("enqueue", "task", "--json").want(exitOK))
	timekeeper := as("timekeeper")
	timekeeper.run("schedules", "put", "tick", "--spec", "@every 10m", "--kind", "task").want(exitOK)
	timekeeper.run("schedules", "disable", "tick").want(exitOK)
	timekeeper.run("schedules", "trigger", "tick").want(exitOK)
	timekeeper.run("schedules", "list").want(exitOK).says("tick")
	watcher := as("dashboard")
	watcher.run("queues", "list").want(exitFailed).says("--purpose viewer")
	watcher.run("top", "--once").want(exitFailed).says("--purpose viewer")
	watcher.run("kinds", "paused").want(exitOK)
	watcher.run("workers", "list").want(exitOK)
	watcher.run("jobs", "why", number(enqueued.ID)).want(exitOK)
	watcher.run("jobs", "list").want(exitFailed).says("--purpose viewer")
	if r := watcher.run("jobs", "count", "--exact").want(exitFailed).says("count jobs: "); strings.Contains(r.err, "delete jobs") {
		t.Errorf("a count says %s", r.err)
	}
	as("janitor").run("jobs", "delete", "--all-matching", "--state", "dead", "--yes").want(exitOK)
	as("janitor").run("jobs", "delete", number(enqueued.ID)).want(exitOK)
	as("on_call").run("jobs", "retry", "--all-matching", "--state", "dead", "--yes").want(exitOK)
	as("on_call").run("queues", "history", "slim", "mail").want(exitFailed).says("on queues")
}
