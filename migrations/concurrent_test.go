package migrations_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/internal/pgserver"
	"github.com/pgqueue/pgqueue/migrations"
)

// C84: twenty instances start at once on an empty database, as goroutines with pools of one connection and as processes.
func TestC84_TwentyStartAtOnceOnAnEmptyDatabase(t *testing.T) {
	server, err := pgserver.Start(testContext(t), pgserver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := server.Stop(testContext(t)); err != nil {
			t.Error(err)
		}
	}()
	const starters = 20

	t.Run("goroutines", func(t *testing.T) {
		url := newDatabaseOn(t, server.URL("postgres"))
		ctx := testContext(t)
		barrier := make(chan struct{})
		results := make(chan error, starters)
		var connected sync.WaitGroup
		for range starters {
			pool := newPool(t, url, func(config *pgxpool.Config) { config.MaxConns = 1 })
			connected.Add(1)
			go func() {
				err := pool.Ping(ctx)
				connected.Done()
				<-barrier
				if err == nil {
					err = migrations.Up(ctx, pool, "", quiet())
				}
				results <- err
			}()
		}
		connected.Wait()
		close(barrier)
		for range starters {
			if err := <-results; err != nil {
				t.Error(err)
			}
		}
		requireInstalledOnce(t, newPool(t, url, nil))
	})

	t.Run("processes", func(t *testing.T) {
		url := newDatabaseOn(t, server.URL("postgres"))
		processes := make([]*process, starters)
		for i := range processes {
			processes[i] = startProcess(t, modeUp, url)
		}
		for _, p := range processes {
			if line, err := p.out.ReadString('\n'); err != nil || line != "ready\n" {
				t.Fatalf("a process said %q, %v: %s", line, err, p.errors.String())
			}
		}
		for _, p := range processes {
			if _, err := io.WriteString(p.in, "go\n"); err != nil {
				t.Fatal(err)
			}
		}
		for _, p := range processes {
			if err := p.cmd.Wait(); err != nil {
				t.Errorf("a process failed: %v: %s", err, p.errors.String())
			}
		}
		requireInstalledOnce(t, newPool(t, url, nil))
	})

	for line := range strings.Lines(server.Log()) {
		if strings.Contains(line, "ERROR:") || strings.Contains(line, "WARNING:") || strings.Contains(line, "FATAL:") {
			t.Errorf("the server's log has: %s", line)
		}
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
	if n := value[int64](t, pool, `SELECT pgqueue.enqueue('k')`); n != 1 {
		t.Errorf("the first job has number %d", n)
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

func startProcess(t *testing.T, mode, url string) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: exec.CommandContext(testContext(t), self)}
	p.cmd.Env = append(os.Environ(), modeEnv+"="+mode, urlEnv+"="+url)
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
