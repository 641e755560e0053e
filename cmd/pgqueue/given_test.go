package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pgqueue/pgqueue/migrations"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// A flag that is given and empty never means "not given": no flag of any command takes it.
func TestNoFlagMayBeEmpty(t *testing.T) {
	t.Parallel()
	c := newCLI(t, nil).with("PGQUEUE_DATABASE_URL", "postgres://nobody@127.0.0.1:1/nothing") // whoever gets this far has exit code 6
	a, _ := newApp(t)
	var walk func(*cobra.Command)
	walk = func(command *cobra.Command) {
		for _, child := range command.Commands() {
			walk(child)
		}
		if command.Name() == "help" || command.HasSubCommands() && !command.Runnable() {
			return
		}
		words := strings.Fields(command.CommandPath())[1:]
		try := func(flag *pflag.Flag) {
			if flag.Value.Type() == "bool" {
				return
			}
			c.run(append(append([]string{}, words...), "--"+flag.Name+"=")...).want(exitUsage).says("--" + flag.Name + " must not be empty")
			if flag.Value.Type() == "stringSlice" {
				c.run(append(append([]string{}, words...), "--"+flag.Name, "a,")...).want(exitUsage).says("--" + flag.Name + " must not be empty")
			}
		}
		command.Flags().VisitAll(try)
		command.Root().PersistentFlags().VisitAll(try)
	}
	walk(a.root())
}

// The tables of the database that the environment names stay, where a script named another one by a variable that is not set.
func TestAnEmptyConnectionIsNoOther(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	c := newCLI(t, db)
	for _, flag := range []string{"--service", "--database-url", "--schema"} {
		c.run("migrate", "down", "--yes", flag, "").want(exitUsage).says(flag + " must not be empty")
		c.run("queues", "pause", "prod", flag+"=").want(exitUsage)
	}
	c.run("kinds", "pause", "k", "--queue", "").want(exitUsage).says("--queue")
	c.run("serve", "--users", "", "--read-only").want(exitUsage).says("--users")
	c.run("serve", "--read-only", "--hide=").want(exitUsage).says("--hide")
	if state, err := migrations.Status(t.Context(), db.Pool, db.Schema); err != nil || !state.Current() {
		t.Errorf("%+v, %v", state, err)
	}
	if n := jobValue[int](t, db, `SELECT count(*)::int FROM pgqueue.paused`); n != 0 {
		t.Errorf("%d pauses", n)
	}
}

// Empty arguments are refused before anything is sent, also behind others.
func TestNoArgumentMayBeEmpty(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	c := newCLI(t, db)
	for name, words := range map[string]string{
		"QUEUE": "queues pause qa  qb", "SCHEDULE": "schedules disable tick ", "KIND": "kinds pause ", "FILE": "jobs import ", "NAME": "serve user ", "SPEC": "schedules set-spec tick ",
	} {
		c.run(strings.Split(words, " ")...).want(exitUsage).says(name + " must not be empty")
	}
	if n := jobValue[int](t, db, `SELECT count(*)::int FROM pgqueue.audit`); n != 0 {
		t.Errorf("%d things were done", n)
	}
}

// Mistakes are told in the words of a command line, and not in those of a library.
func TestMistakesInOurWords(t *testing.T) {
	t.Parallel()
	c := newCLI(t, nil).with("PGQUEUE_DATABASE_URL", "postgres://nobody@127.0.0.1:1/nothing")
	for says, words := range map[string]string{
		"--limit must be a whole number, not \"x\"": "jobs list --limit x",
		"--limit is beyond all bounds":              "jobs list --limit 99999999999999999999",
		"--from must be a whole number that is not": "migrate sql --from -1",
		"--timeout must be a duration such as":      "migrate up --timeout 5",
		"--all is true or false":                    "jobs list --all=perhaps",
		"--spec must be given":                      "schedules put tick --kind k",
		"--tls-key must be given too":               "serve --tls-cert x",
		"--id is a number from 1 on":                "jobs list --id 0",
		"no job has another":                        "jobs list --id 3,-1",
		"--min-id is a number from 1 on":            "jobs list --min-id -5",
		"--batch-size must be at least 1":           "jobs retry --all-matching --state dead --batch-size 0",
		"--window must be longer":                   "top --window 0s",
		"--catch-up-limit":                          "schedules put tick --spec @hourly --kind k --catch-up-limit 3",
		"--job is a number from 1 on":               "audit --job 0",
		"--until must be in the future":             "queues pause mail --until -1h",
		"has no command \"bogus\"":                  "help bogus",
		"pgqueue jobs has no command \"bogus\"":     "help jobs bogus",
	} {
		r := c.run(strings.Split(words, " ")...).want(exitUsage).says(says)
		for _, strange := range []string{"strconv", "if any flags", "time: "} {
			if strings.Contains(r.err, strange) {
				t.Errorf("%s says %s", words, r.err)
			}
		}
	}
	c.run("help", "jobs", "list").want(exitOK).says("pgqueue jobs list [--FILTER")
	for _, words := range []string{"jobs retry", "jobs list", "jobs edit", "doctor"} {
		if help := c.run(append(strings.Fields(words), "--help")...).want(exitOK).out; containsAny(help, "default []", "default 0s", "--if-version pgqueue", "`") {
			t.Errorf("the help of %s is %s", words, help)
		}
	}
}

func containsAny(text string, parts ...string) bool {
	for _, part := range parts {
		if strings.Contains(text, part) {
			return true
		}
	}
	return false
}
