package main

import (
	"context"
	"strings"
	"testing"

	"github.com/pgqueue/pgqueue/internal/pgserver"
)

// What reads works on a standby, and what writes says that it is one.
func TestOnAStandby(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	first, err := pgserver.Start(ctx, pgserver.Options{Settings: map[string]string{"wal_keep_size": "128MB"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = first.StopImmediate(context.Background()) })
	onPrimary := newCLI(t, nil).with("DATABASE_URL", first.URL("postgres"))
	onPrimary.run("migrate", "up").want(exitOK)
	onPrimary.run("enqueue", "greet", "--queue", "mail", "--payload", `{"n": 1}`).want(exitOK)
	second, err := first.StartStandby(ctx, pgserver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = second.StopImmediate(context.Background()) })

	c := newCLI(t, nil).with("DATABASE_URL", second.URL("postgres"))
	eventually(t, "the job is on the standby", func() bool {
		r := c.run("jobs", "list")
		return r.code == exitOK && strings.Contains(r.out, "greet")
	})
	for _, args := range [][]string{
		{"migrate", "status"}, {"migrate", "validate"}, {"migrate", "up"}, {"jobs", "count"}, {"jobs", "show", "1"}, {"jobs", "why", "1"},
		{"jobs", "attention"}, {"queues", "list"}, {"kinds", "paused"}, {"workers", "list"}, {"schedules", "list"}, {"audit"}, {"enqueue", "greet", "--dry-run"},
	} {
		c.run(args...).want(exitOK)
	}
	c.run("doctor", "--fail-on", "never").want(exitOK).says("a standby")
	for _, args := range [][]string{
		{"enqueue", "greet"}, {"jobs", "cancel", "1", "--yes"}, {"queues", "pause", "mail"}, {"migrate", "down", "--yes", "--discard-jobs"},
	} {
		c.run(args...).want(exitFailed).says("hint: ", "standby", "primary")
	}
}
