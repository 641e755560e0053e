package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/migrations"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// odd is a schema that needs quoting, in SQL and in a shell.
const odd = `My "jobs"; --`

// Without the tables every command says what to do, in words that can be pasted.
func TestWithoutTheTables(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	c := newCLI(t, db).with("PGQUEUE_SCHEMA", odd)
	pasted := `pgqueue migrate up --schema 'My "jobs"; --'`
	for _, args := range [][]string{{"enqueue", "greet"}, {"jobs", "list"}, {"queues", "list"}, {"serve", "--read-only", "--listen", "127.0.0.1:0"}} {
		c.run(args...).want(exitFailed).says("pgqueue is not installed in schema", pasted)
	}
	c.run("migrate", "validate").want(exitFindings).says(pasted)
	c.run("migrate", "status").want(exitFindings).says("nothing is installed", pasted)
	c.run("doctor").want(exitFindings).says("schema-version")
	c.run("migrate", "down", "--yes").want(exitOK).says("nothing is installed")
	if state := decoded[stateView](c.run("migrate", "status", "--json").want(exitFindings)); state.Version != 0 || state.Current || state.Schema != odd || state.Latest != migrations.Latest {
		t.Errorf("%+v", state)
	}
	var refused struct {
		Error, Hint, Code string
		ExitCode          int `json:"exit_code"`
	}
	r := c.run("enqueue", "greet", "--json").want(exitFailed)
	r.out, r.err = r.err, r.out
	if refused = decoded[struct {
		Error, Hint, Code string
		ExitCode          int `json:"exit_code"`
	}](r); refused.Code != "failed" || refused.ExitCode != exitFailed || !strings.Contains(refused.Hint, pasted) || r.err != "" {
		t.Errorf("%+v, stdout %q", refused, r.err)
	}
}

func TestMigrateUpAndDown(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	c := newCLI(t, db).with("PGQUEUE_SCHEMA", "")
	c.run("migrate", "up", "--schema", odd).want(exitOK).says("installed version")
	if done := decoded[changedView](c.run("migrate", "up", "--schema", odd, "--json").want(exitOK)); done.From != migrations.Latest || done.To != migrations.Latest {
		t.Errorf("%+v", done)
	}
	c.run("migrate", "status", "--schema", odd).want(exitOK).says("up to date")
	c.run("migrate", "validate", "--schema", odd).want(exitOK).says("as the migrations make it")
	c.run("enqueue", "greet", "--schema", odd).want(exitOK)

	// A script says --yes, a person is asked, and live jobs are not deleted by accident.
	c.run("migrate", "down", "--schema", odd).want(exitUsage).says("--yes")
	c.run("migrate", "down", "--schema", odd, "--yes").want(exitConflict).says("1 pending", "--discard-jobs")
	c.run("migrate", "status", "--schema", odd).want(exitOK)
	for answer, code := range map[string]int{"\n": exitFailed, "no\n": exitFailed, "": exitFailed} {
		asked := *c
		asked.in = terminal{bytes.NewBufferString(answer)}
		if asked.onTerminal("migrate", "down", "--schema", odd, "--discard-jobs").want(code); true {
			c.run("migrate", "status", "--schema", odd).want(exitOK)
		}
	}
	asked := *c
	asked.in = terminal{bytes.NewBufferString("yes\n")}
	asked.onTerminal("migrate", "down", "--schema", odd, "--discard-jobs").want(exitOK).says("ALL LIVE JOBS", "[y/N]", "removed version")
	c.run("migrate", "status", "--schema", odd).want(exitFindings)
}

// onTerminal runs a command with somebody in front of it.
func (c *cli) onTerminal(args ...string) result {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	var out, err lockedBuffer
	streams := c.streams(&out, terminal{struct {
		io.Reader
		io.Writer
	}{nil, &err}})
	code := run(ctx, args, streams, c.lookup)
	return result{t: c.t, args: args, code: code, out: out.String(), err: err.String()}
}

// What somebody changed by hand is found, and exit code 7 says so.
func TestMigrateValidateFindsDrift(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	c := newCLI(t, db)
	if _, err := db.Pool.Exec(t.Context(), `DROP INDEX `+pgx.Identifier{db.Schema, "jobs_ready"}.Sanitize()); err != nil {
		t.Fatal(err)
	}
	c.run("migrate", "validate").want(exitFindings).says("jobs_ready", "pgqueue doctor")
	drift := decoded[struct {
		Schema      string
		Valid       bool
		Differences []differenceView
	}](c.run("migrate", "validate", "--json").want(exitFindings))
	if drift.Valid || len(drift.Differences) != 1 || drift.Differences[0].Problem != "missing" || drift.Differences[0].Name != "jobs_ready" {
		t.Errorf("%+v", drift)
	}
}

// The scripts do what up and down do, the version included, for any name and from any version.
func TestMigrateSQL(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	execute := func(script result) error {
		script.want(exitOK)
		_, err := db.Pool.Exec(t.Context(), script.out)
		if err != nil {
			_, _ = db.Pool.Exec(t.Context(), `ROLLBACK`)
		}
		return err
	}
	for _, schema := range []string{odd, `it's $guard$ "here"`, "plain"} {
		c := newCLI(t, db).with("PGQUEUE_SCHEMA", schema)
		offline := newCLI(t, nil).with("PGQUEUE_SCHEMA", schema)
		if err := execute(offline.run("migrate", "sql")); err != nil {
			t.Fatalf("%s: %v", schema, err)
		}
		c.run("migrate", "status").want(exitOK)
		c.run("migrate", "validate").want(exitOK)
		c.run("migrate", "up").want(exitOK).says("as before")
		if err := execute(offline.run("migrate", "sql", "--from", "2")); err == nil || !strings.Contains(err.Error(), "for a schema of version 2") {
			t.Errorf("an upgrade of another version: %v", err)
		}
		if err := execute(offline.run("migrate", "sql", "--down")); err != nil {
			t.Fatalf("%s: %v", schema, err)
		}
		c.run("migrate", "status").want(exitFindings)
	}
	offline := newCLI(t, nil).with("PGQUEUE_SCHEMA", "plain")
	table := `"plain".pgqueue_migrations`
	for from := 1; from < migrations.Latest; from++ { // what a migrator of that time left
		whole := offline.run("migrate", "sql").want(exitOK).out
		cut := strings.Index(whole, "-- 000"+string(rune('0'+from+1)))
		if cut < 0 {
			t.Fatalf("version %d is not in the script", from+1)
		}
		old := whole[:cut] + `INSERT INTO ` + table + ` VALUES (` + string(rune('0'+from)) + `, false); COMMIT;`
		if err := execute(result{t: t, out: old}); err != nil {
			t.Fatal(err)
		}
		if err := execute(offline.run("migrate", "sql", "--from", string(rune('0'+from)))); err != nil {
			t.Fatalf("from %d: %v", from, err)
		}
		newCLI(t, db).with("PGQUEUE_SCHEMA", "plain").run("migrate", "validate").want(exitOK)
		if err := execute(offline.run("migrate", "sql", "--down")); err != nil {
			t.Fatal(err)
		}
	}
	offline.run("migrate", "sql", "--from", "99").want(exitUsage)
	offline.run("migrate", "sql", "--citus").want(exitOK).says("create_distributed_table")
}

func TestMigrateSQLFiles(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "sql")
	c := newCLI(t, nil)
	c.run("migrate", "sql", "--dir", dir, "--schema", odd).want(exitOK)
	text, err := os.ReadFile(filepath.Join(dir, "0001_core.up.sql"))
	if err != nil || !strings.Contains(string(text), `"My ""jobs""; --".jobs`) {
		t.Errorf("%v: %.200s", err, text)
	}
	c.run("migrate", "sql", "--dir", dir, "--down").want(exitUsage)
	c.run("migrate", "sql", "--schema", "pg_catalog").want(exitUsage).says("pg_catalog")
}

// A migration that finds no moment gives up at its timeout, changes nothing, and says what to look at.
func TestMigrateGivesUp(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	tx, err := db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	if _, err := tx.Exec(t.Context(), `LOCK TABLE `+pgx.Identifier{db.Schema, "jobs"}.Sanitize()+` IN ACCESS SHARE MODE`); err != nil {
		t.Fatal(err)
	}
	c := newCLI(t, db)
	c.run("migrate", "down", "--yes", "--timeout", "1500ms", "--verbose").want(exitFailed).says("no moment was found", "migration waits", "pgqueue doctor")
	if r := c.run("migrate", "down", "--yes", "--timeout", "1s").want(exitFailed); strings.Contains(r.err, "level=INFO") {
		t.Errorf("it logs without --verbose: %s", r.err)
	}
	c.run("migrate", "status").want(exitOK)
	c.run("migrate", "up", "--timeout", "0").want(exitUsage)
}
