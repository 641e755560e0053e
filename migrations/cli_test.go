package migrations_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/migrations"
)

// documented returns the shell blocks of the README that the tests have to run.
func documented(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, part := range strings.Split(string(text), "<!-- The tests run this block as it stands")[1:] {
		_, part, _ = strings.Cut(part, "```sh\n")
		block, _, _ := strings.Cut(part, "```")
		blocks = append(blocks, block)
	}
	if len(blocks) != 2 {
		t.Fatalf("the README has %d blocks to run, want 2: %q", len(blocks), blocks)
	}
	return blocks
}

// commandLine is a directory with the golang-migrate command line, as our go.mod pins it, and a psql.
func commandLine(t *testing.T) string {
	t.Helper()
	bin := t.TempDir()
	build := exec.CommandContext(testContext(t), "go", "build", "-tags", "pgx5", "-o", filepath.Join(bin, "migrate"), "github.com/golang-migrate/migrate/v4/cmd/migrate")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the command line: %v\n%s", err, out)
	}
	if _, err := exec.LookPath("psql"); err != nil {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		script := "#!/bin/sh\n" + modeEnv + "=" + modePsql + " exec '" + self + "' \"$@\"\n"
		if err := os.WriteFile(filepath.Join(bin, "psql"), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return bin
}

// shell makes a command that runs a script in a directory, with the command line in its PATH and the database in DB.
func shell(t *testing.T, bin, dir, url, script string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	cmd := exec.CommandContext(testContext(t), "sh", "-e", "-c", script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"), "DB="+strings.TrimPrefix(url, "postgres://"))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	return cmd, &out
}

func mustShell(t *testing.T, bin, dir, url, script string) {
	t.Helper()
	cmd, out := shell(t, bin, dir, url, script)
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s\n%v\n%s", script, err, out)
	}
}

func TestCommandLine_TheDocumentedCommandsWorkAndGoAgrees(t *testing.T) {
	bin := commandLine(t)
	blocks := documented(t)
	for i, schema := range []string{"pgqueue", `we"ird`} {
		t.Run(schema, func(t *testing.T) {
			up := blocks[i]
			down := strings.Replace(up, " up\n", " down -all\n", 1)
			url := newDatabase(t)
			pool := newPool(t, url, nil)
			dir := t.TempDir()
			if err := migrations.WriteFiles(filepath.Join(dir, "pgqueue-sql"), schema); err != nil {
				t.Fatal(err)
			}

			// The command line installs, Go agrees and removes.
			mustShell(t, bin, dir, url, up)
			if !status(t, pool, schema).Current() {
				t.Fatalf("status after the command line: %+v", status(t, pool, schema))
			}
			requireNoDrift(t, pool, schema)
			byCommandLine := objects(t, pool, schema)
			if bare := rows(t, pool, catalogWithoutComment, schema); !slices.Equal(bare, []string{"schema"}) {
				t.Errorf("without a comment: %q, want the schema alone, which psql made", bare)
			}
			mustUp(t, pool, schema)
			if got := objects(t, pool, schema); !slices.Equal(got, byCommandLine) {
				t.Errorf("Go's up changed what the command line had made")
			}
			mustDown(t, pool, schema)
			if left := objects(t, pool, schema); len(left) > 0 {
				t.Errorf("Go's down left %q", left)
			}

			// Go installs, the command line agrees and removes.
			mustUp(t, pool, schema)
			if got := objects(t, pool, schema); !slices.Equal(got, byCommandLine) {
				t.Errorf("Go and the command line differ:\ngo  %q\ncli %q", got, byCommandLine)
			}
			cmd, out := shell(t, bin, dir, url, up)
			if err := cmd.Run(); err != nil || !strings.Contains(out.String(), "no change") {
				t.Errorf("the command line after Go: %v, %s", err, out)
			}
			mustShell(t, bin, dir, url, down)
			if state := status(t, pool, schema); state.Version != 0 || state.Dirty || !state.Exists {
				t.Errorf("status after the command line's down: %+v", state)
			}
			mustUp(t, pool, schema)
			mustDown(t, pool, schema)

			// Nothing got lost on the way to some other schema.
			if n := value[int](t, pool, `SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relname ~ 'migrations' AND n.nspname !~ '^pg_'`); n != 0 {
				t.Errorf("%d version tables are left", n)
			}
		})
	}
}

// Go is in the middle of a step when the command line comes.
func TestCommandLine_AndGoTakeTheSameLock(t *testing.T) {
	bin := commandLine(t)
	url := newDatabase(t)
	pool := newPool(t, url, func(config *pgxpool.Config) { config.MaxConns = 8 })
	dir := t.TempDir()
	if err := migrations.WriteFiles(filepath.Join(dir, "pgqueue-sql"), ""); err != nil {
		t.Fatal(err)
	}
	release := blocker(t, pool, `SELECT pg_advisory_xact_lock($1)`, blockKey)
	p := startProcess(t, modeBlock, url, stepEnv+"=1") // Go is in the middle of a step
	waitFor(t, pool, "the step to reach its end", `EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = $1 AND NOT granted)`, blockKey)
	cmd, out := shell(t, bin, dir, url, strings.Replace(documented(t)[0], "CREATE SCHEMA IF NOT EXISTS", "SELECT 1 AS", 1))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, pool, "the command line to wait for Go's lock", `(SELECT count(*) = 2 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)`)
	release()
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("Go: %v: %s", err, p.errors.String())
	}
	if err := cmd.Wait(); err != nil || !strings.Contains(out.String(), "no change") {
		t.Errorf("the command line: %v: %s", err, out)
	}
	requireInstalledOnce(t, pool)
}
