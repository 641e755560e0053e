package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/spf13/cobra"

	"github.com/pgqueue/pgqueue/doctor"
	"github.com/pgqueue/pgqueue/migrations"
	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/schedule"
)

func newApp(t *testing.T) (*app, *lockedBuffer) {
	t.Helper()
	var err lockedBuffer
	return &app{
		streams: streams{in: strings.NewReader(""), out: io.Discard, err: &err}, secrets: &secrets{}, running: true,
		lookupEnv: func(string) (string, bool) { return "", false },
	}, &err
}

// Each kind of error has the exit code of docs/cli.md.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	wrap := func(err error) error { return fmt.Errorf("retry job 7: %w", err) }
	for _, test := range []struct {
		err  error
		code int
		hint string
	}{
		{nil, exitOK, ""},
		{errors.New("something"), exitFailed, ""},
		{&pgqueue.ValidationError{Field: "queue", Message: "must not be empty"}, exitUsage, ""},
		{&schedule.ConfigError{Field: "spec"}, exitUsage, ""},
		{&doctor.OptionError{Field: "Only"}, exitUsage, ""},
		{&migrations.SchemaError{Schema: "pg_x"}, exitUsage, ""},
		{pgqueue.ErrNotFound, exitNotFound, ""},
		{schedule.ErrNoSchedule, exitNotFound, ""},
		{pgqueue.ErrJobEnded, exitConflict, ""},
		{pgqueue.ErrJobLive, exitConflict, ""},
		{pgqueue.ErrJobRunning, exitConflict, ""},
		{&pgqueue.ChangedError{}, exitConflict, "look again"},
		{&pgqueue.KeyTakenError{}, exitConflict, ""},
		{&pgqueue.ReferencedError{}, exitConflict, ""},
		{&migrations.JobsLeftError{}, exitConflict, "--discard-jobs"},
		{&migrations.ConflictError{}, exitConflict, ""},
		{&pgconn.PgError{Code: "08006"}, exitConnect, ""},
		{&pgconn.PgError{Code: "57P01"}, exitConnect, ""},
		{io.ErrUnexpectedEOF, exitConnect, ""},
		{pgconn.ErrConnClosed, exitConnect, ""},
		{&pgconn.PgError{Code: "42501"}, exitFailed, "docs/roles.md"},
		{&pgconn.PgError{Code: "25006"}, exitFailed, "standby"},
		{pgqueue.ErrReadOnly, exitFailed, "standby"},
		{pgqueue.ErrSchema, exitFailed, "pgqueue migrate up"},
		{&exitError{code: exitPartial, err: errors.New("some were skipped")}, exitPartial, ""},
		{withHint(&exitError{code: exitNotFound, err: errors.New("no")}, "look there"), exitNotFound, "look there"},
	} {
		err := test.err
		if err != nil {
			err = wrap(err)
		}
		a, written := newApp(t)
		if code := a.exitCode(t.Context(), err); code != test.code {
			t.Errorf("%v: exit code %d, want %d", err, code, test.code)
		}
		if err != nil && (!strings.Contains(written.String(), "pgqueue: ") || !strings.Contains(written.String(), test.hint)) {
			t.Errorf("%v: wrote %q", err, written)
		}
		if test.hint == "" && strings.Contains(written.String(), "hint") {
			t.Errorf("%v: wrote %q", err, written)
		}
	}
	a, written := newApp(t)
	if code := a.exitCode(t.Context(), &exitError{code: exitFindings}); code != exitFindings || written.String() != "" {
		t.Errorf("an error without a text: %d, %q", code, written)
	}
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	if code := a.exitCode(stopped, errors.New("anything")); code != exitStopped {
		t.Errorf("stopped: %d", code)
	}
	a.running = false
	if code := a.exitCode(t.Context(), errors.New("unknown flag")); code != exitUsage {
		t.Errorf("refused by cobra: %d", code)
	}
}

// An error is text of others, too: it must not move the cursor.
func TestErrorsAreMadeVisible(t *testing.T) {
	t.Parallel()
	a, written := newApp(t)
	a.exitCode(t.Context(), withHint(errors.New("kind \x1b[2J\u202e"), "\a"))
	if strings.ContainsAny(written.String(), "\x1b\a\u202e") {
		t.Errorf("%q", written)
	}
}

// What is no command is exit code 2, below a group as well, and says what may have been meant.
func TestUnknownCommands(t *testing.T) {
	t.Parallel()
	c := newCLI(t, nil)
	c.run("migrat").want(exitUsage).says("did you mean pgqueue migrate?")
	c.run("jobs", "lsit").want(exitUsage).says("did you mean", "pgqueue jobs list")
	c.run("migrate", "xyzzy").want(exitUsage).says("--help")
	c.run("doctor", "xyzzy").want(exitUsage)
	c.run("migrate", "up", "xyzzy").want(exitUsage)
	c.run("version", "--xyzzy").want(exitUsage).says("xyzzy", "pgqueue version --help")
	c.run("enqueue").want(exitUsage).says("pgqueue enqueue --help")
	c.run().want(exitOK).says("migrate")
	c.run("jobs").want(exitOK).says("list")
}

// Every command says what it does, has an example of itself that parses, and takes --json.
func TestEveryCommandHasAnExample(t *testing.T) {
	t.Parallel()
	a, _ := newApp(t)
	call := regexp.MustCompile(`(?m)\bpgqueue((?: [a-z-]+)+)`)
	var walk func(*cobra.Command)
	walk = func(command *cobra.Command) {
		for _, child := range command.Commands() {
			walk(child)
		}
		if command.Name() == "help" {
			return
		}
		if command.Short == "" || command.Example == "" && !command.HasSubCommands() {
			t.Errorf("%s has no description or no example", command.CommandPath())
		}
		if command.Args == nil {
			t.Errorf("%s does not say which arguments it takes", command.CommandPath())
		}
		for _, match := range call.FindAllStringSubmatch(command.Example, -1) {
			found, _, err := command.Root().Find(strings.Fields(match[1]))
			if err != nil || found == command.Root() {
				t.Errorf("%s: the example calls %q: %v", command.CommandPath(), match[0], err)
			}
		}
	}
	walk(a.root())
}

// Names in JSON are snake_case, wherever they come from.
func TestVersion(t *testing.T) {
	t.Parallel()
	c := newCLI(t, nil)
	view := decoded[map[string]any](c.run("version", "--json").want(exitOK))
	if view["schema_version"] != float64(migrations.Latest) || view["version"] == "" || !strings.HasPrefix(fmt.Sprint(view["go_version"]), "go1.") {
		t.Errorf("%v", view)
	}
	c.run("version").want(exitOK).says(fmt.Sprintf("version %d", migrations.Latest))
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if r := c.run("completion", shell).want(exitOK); len(r.out) < 1000 {
			t.Errorf("%s: %q", shell, r.out)
		}
	}
	c.run("completion", "tcsh").want(exitUsage)
}

// The log of a command goes to stderr, at warnings and above unless --verbose asks for more.
func TestTheLogger(t *testing.T) {
	t.Parallel()
	a, written := newApp(t)
	a.logger().Info("quiet")
	if written.String() != "" {
		t.Errorf("%q", written)
	}
	a.flags.verbose = true
	a.logger().Info("loud", slog.String("n", "1"))
	if !strings.Contains(written.String(), "loud") {
		t.Errorf("%q", written)
	}
}

// Who acts is who was named, or else the user of the system.
func TestTheActor(t *testing.T) {
	t.Parallel()
	a, _ := newApp(t)
	env := map[string]string{"PGQUEUE_ACTOR": "oncall", "USER": "root"}
	a.lookupEnv = func(name string) (string, bool) { value, ok := env[name]; return value, ok }
	a.flags.actor = "alice"
	for _, want := range []string{"alice", "oncall", "root"} {
		if got := a.actor(); got != want {
			t.Errorf("actor %q, want %q", got, want)
		}
		if a.flags.actor != "" {
			a.flags.actor = ""
		} else {
			delete(env, "PGQUEUE_ACTOR")
		}
	}
	delete(env, "USER")
	if a.actor() == "" {
		t.Error("nobody acts")
	}
}
