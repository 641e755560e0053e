package migrations_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/internal/pgserver"
	"github.com/pgqueue/pgqueue/migrations"
)

// C84: many instances start at once on an empty database, as goroutines and as processes, each with a pool of one connection; then each
// of them works.
func TestC84_ManyStartAtOnceOnAnEmptyDatabase(t *testing.T) {
	server, err := pgserver.Start(testContext(t), pgserver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := server.Stop(testContext(t)); err != nil {
			t.Error(err)
		}
	}()
	starters := size(8, 20)

	// What the migrators bring about is no error in the log. (A worker that stops cancels its queries, which is one.)
	requireQuiet := func() {
		t.Helper()
		for line := range strings.Lines(server.Log()) {
			if strings.Contains(line, "ERROR:") && !strings.Contains(line, "canceling statement due to user request") ||
				strings.Contains(line, "WARNING:") || strings.Contains(line, "FATAL:") {
				t.Errorf("the server's log has: %s", line)
			}
		}
	}

	t.Run("goroutines", func(t *testing.T) {
		url := newDatabaseOn(t, server.URL("postgres"))
		ctx := testContext(t)
		barrier := make(chan struct{})
		results := make(chan error, starters)
		all := func() {
			t.Helper()
			for range starters {
				if err := <-results; err != nil {
					t.Error(err)
				}
			}
		}
		var pools []*pgxpool.Pool
		for range starters {
			pool := newPool(t, url, func(config *pgxpool.Config) { config.MaxConns = 1 })
			if err := pool.Ping(ctx); err != nil {
				t.Fatal(err)
			}
			pools = append(pools, pool)
			go func() {
				<-barrier
				results <- migrations.Up(ctx, pool, "", quiet())
			}()
		}
		start := time.Now()
		close(barrier)
		all()
		if took := time.Since(start); took > 30*time.Second {
			t.Errorf("it took %v", took)
		}
		requireQuiet()
		requireInstalledOnce(t, pools[0])
		for i, pool := range pools {
			go func() { results <- runAJob(ctx, pool, "", fmt.Sprintf("starter-%d", i)) }()
		}
		all()
		requireRan(t, pools[0], starters)
	})

	t.Run("processes", func(t *testing.T) {
		url := newDatabaseOn(t, server.URL("postgres"))
		processes := make([]*process, starters)
		for i := range processes {
			processes[i] = startProcess(t, modeUp, url)
		}
		// All of them say something, and then all may go on.
		step := func(says string) {
			t.Helper()
			for _, p := range processes {
				if line, err := p.out.ReadString('\n'); err != nil || line != says+"\n" {
					t.Fatalf("a process said %q, %v: %s", line, err, p.errors.String())
				}
			}
		}
		goOn := func() {
			t.Helper()
			for _, p := range processes {
				if _, err := io.WriteString(p.in, "go\n"); err != nil {
					t.Fatal(err)
				}
			}
		}
		step("ready")
		start := time.Now()
		goOn()
		step("migrated")
		if took := time.Since(start); took > 30*time.Second {
			t.Errorf("it took %v", took)
		}
		pool := newPool(t, url, nil)
		requireQuiet()
		requireInstalledOnce(t, pool)
		goOn()
		for _, p := range processes {
			if err := p.cmd.Wait(); err != nil {
				t.Errorf("a process failed: %v: %s", err, p.errors.String())
			}
		}
		requireRan(t, pool, starters)
	})
}

// requireRan wants one job of each starter in history.
func requireRan(t *testing.T, pool *pgxpool.Pool, starters int) {
	t.Helper()
	if got := value[string](t, pool, `SELECT count(*) || ' ' || count(DISTINCT queue) FROM pgqueue.history WHERE state = 'succeeded'`); got != fmt.Sprintf("%d %d", starters, starters) {
		t.Errorf("%s jobs and queues have succeeded, want %d each", got, starters)
	}
}

func requireInstalledOnce(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	if got := rows(t, pool, `SELECT format('%s %s', version, dirty) FROM pgqueue.pgqueue_migrations`); len(got) != 1 || got[0] != fmt.Sprintf("%d f", migrations.Latest) {
		t.Errorf("version rows %q, want one, clean", got)
	}
	if n := value[int](t, pool, `SELECT count(*) FROM pg_class WHERE relname = 'pgqueue_migrations'`); n != 1 {
		t.Errorf("%d version tables", n)
	}
	if n := value[int](t, pool, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`); n != 0 {
		t.Errorf("%d advisory locks are left", n)
	}
}

// process is this test binary in another mode.
type process struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	errors bytes.Buffer
}

func startProcess(t *testing.T, mode, url string, env ...string) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: exec.CommandContext(testContext(t), self)}
	p.cmd.Env = append(append(os.Environ(), modeEnv+"="+mode, urlEnv+"="+url), env...)
	p.cmd.Stderr = &p.errors
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out = bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return p
}
