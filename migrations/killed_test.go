package migrations_test

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pgqueue/pgqueue/migrations"
)

// blockedStep says that a step has reached its end and waits for blockKey.
const blockedStep = `EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = $1 AND NOT granted)`

// C87: kill -9 in each step, of an upgrade and of a first installation.
func TestC87_KilledInTheMiddleOfAStepLeavesNothingAndGoesOn(t *testing.T) {
	for step := uint(1); step <= migrations.Latest; step++ {
		for _, from := range slices.Compact([]uint{0, step - 1}) {
			t.Run(fmt.Sprintf("step %d from %d", step, from), func(t *testing.T) {
				pool := at(t, from)
				before := objects(t, pool, "pgqueue")
				release := blocker(t, pool, `SELECT pg_advisory_xact_lock($1)`, blockKey)
				p := startProcess(t, modeBlock, pool.Config().ConnString(), fmt.Sprintf("%s=%d", stepEnv, step))
				waitFor(t, pool, "the step to reach its end", blockedStep, blockKey)
				if err := p.cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
				_ = p.cmd.Wait()

				// The server has not noticed yet: the next one has to wait for the lock, then starts from what was there.
				logs := &waitLog{seen: make(chan struct{})}
				result := make(chan error, 1)
				go func() { result <- migrations.Up(testContext(t), pool, "", migrations.WithLogger(slog.New(logs))) }()
				select {
				case <-logs.seen:
				case err := <-result:
					t.Fatalf("up beside the dead migrator's transaction: %v", err)
				}
				if state := status(t, pool, ""); state.Dirty || state.Version != from || !slices.Equal(objects(t, pool, "pgqueue"), before) {
					t.Errorf("while the dead migrator's transaction is open: %+v", state)
				}
				release()
				if err := <-result; err != nil {
					t.Fatalf("up after a kill: %v", err)
				}
				requireInstalledOnce(t, pool)
				requireNoDrift(t, pool, "")
			})
		}
	}
}

// C87: each step meets a name that is taken. Nothing of it stays, and the next Up goes on from there.
func TestC87_AStepThatFailsLeavesNothingAndGoesOn(t *testing.T) {
	for step, clash := range map[uint]struct{ make, name, drop string }{
		1: {`CREATE TABLE pgqueue.queues (theirs int)`, "relation queues", `DROP TABLE pgqueue.queues`},
		2: {`CREATE FUNCTION pgqueue.set_max_attempts(int) RETURNS int LANGUAGE sql AS 'SELECT 1'`, "function set_max_attempts", `DROP FUNCTION pgqueue.set_max_attempts(int)`},
		3: {`CREATE VIEW pgqueue.live_workers AS SELECT 1 AS theirs`, "relation live_workers", `DROP VIEW pgqueue.live_workers`},
		4: {`CREATE TYPE pgqueue.schedules AS ENUM ('theirs')`, "type schedules", `DROP TYPE pgqueue.schedules`},
		5: {`CREATE TABLE pgqueue.audit (theirs int)`, "relation audit", `DROP TABLE pgqueue.audit`},
	} {
		t.Run(fmt.Sprintf("step %d", step), func(t *testing.T) {
			pool := at(t, step-1)
			run(t, pool, `CREATE SCHEMA IF NOT EXISTS pgqueue`)
			run(t, pool, clash.make)
			before := objects(t, pool, "pgqueue")
			for range 2 {
				err := migrations.Up(testContext(t), pool, "", quiet())
				var conflict *migrations.ConflictError
				if !errors.As(err, &conflict) || !strings.Contains(err.Error(), clash.name) || !strings.Contains(err.Error(), fmt.Sprintf("version %d", step)) {
					t.Fatalf("up: %v", err)
				}
				if state := status(t, pool, ""); state.Version != step-1 || state.Dirty {
					t.Errorf("after the refusal: %+v", state)
				}
				if after := objects(t, pool, "pgqueue"); !slices.Equal(before, after) {
					t.Errorf("something stayed:\nbefore %q\nafter  %q", before, after)
				}
			}
			run(t, pool, clash.drop)
			mustUp(t, pool, "")
			requireNoDrift(t, pool, "")
		})
	}
	if migrations.Latest != 5 {
		t.Error("the steps after the fifth are missing here")
	}
}

// C87: the command line is killed in each step. Up repairs it, and so does what the README says for those who have the command line alone.
func TestC87_TheCommandLineKilledInTheMiddleOfAStepIsRepaired(t *testing.T) {
	bin := commandLine(t)
	for step := uint(1); step <= migrations.Latest; step++ {
		for _, repair := range []string{"go", "force"} {
			t.Run(fmt.Sprintf("step %d %s", step, repair), func(t *testing.T) {
				pool := at(t, step-1)
				url := pool.Config().ConnString()
				dir := t.TempDir()
				files, err := blockingFiles("pgqueue", step)
				if err != nil {
					t.Fatal(err)
				}
				if err := os.CopyFS(filepath.Join(dir, "pgqueue-sql"), files); err != nil {
					t.Fatal(err)
				}
				release := blocker(t, pool, `SELECT pg_advisory_xact_lock($1)`, blockKey)
				// exec: the kill must hit the command line, not the shell around it.
				cmd, out := shell(t, bin, dir, url, strings.Replace(documented(t)[0], "\nmigrate ", "\nexec migrate ", 1))
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				waitFor(t, pool, "the step to reach its end", blockedStep, blockKey)
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
				_ = cmd.Wait()
				if state := status(t, pool, ""); !state.Dirty || state.Version != step {
					t.Errorf("the command line left %+v: %s", state, out)
				}
				release()
				// Whether the server had noticed or not, and thus whether the step was done: both look after its end.
				if repair == "go" {
					mustUp(t, pool, "")
				} else {
					waitFor(t, pool, "the killed step to end", `NOT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend' AND state <> 'idle')`)
					if err := migrations.WriteFiles(filepath.Join(dir, "pgqueue-sql"), ""); err != nil {
						t.Fatal(err)
					}
					// The rule of the README.
					version := value[string](t, pool, `SELECT CASE WHEN to_regclass('pgqueue.audit') IS NOT NULL THEN '5' WHEN to_regclass('pgqueue.schedules') IS NOT NULL THEN '4' WHEN to_regclass('pgqueue.workers') IS NOT NULL THEN '3'
						WHEN EXISTS (SELECT FROM pg_proc WHERE pronamespace = 'pgqueue'::regnamespace AND proname = 'pause') THEN '2'
						WHEN to_regclass('pgqueue.jobs') IS NOT NULL THEN '1' ELSE '-1' END`)
					mustShell(t, bin, dir, url, strings.Replace(documented(t)[0], " up\n", " force "+version+"\n", 1))
					if version != fmt.Sprint(migrations.Latest) {
						mustShell(t, bin, dir, url, documented(t)[0])
					}
				}
				requireInstalledOnce(t, pool)
				requireNoDrift(t, pool, "")
			})
		}
	}
}
