package pgqueuetest

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
)

// claimedSource is what a process has whose server is named by the environment variable.
func claimedSource(t *testing.T, text string) *source {
	t.Helper()
	from, err := newSource(t.Context(), text)
	if err != nil {
		t.Fatal(err)
	}
	if err := from.claim(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { from.claimed.Close(context.Background()) })
	return from
}

func TestLeftoversOfDeadProcessesAreSwept(t *testing.T) {
	t.Parallel()
	server := NewServer(t)
	dead, living := claimedSource(t, server.URL()), claimedSource(t, server.URL())
	for _, from := range []*source{dead, living} {
		if _, err := from.create(t.Context(), newOptions(nil)); err != nil {
			t.Fatal(err)
		}
	}
	// What is not this package's stays, also when its name begins like one.
	err := living.do(t.Context(), func(conn *pgx.Conn) error {
		_, err := conn.Exec(t.Context(), "CREATE DATABASE pgqueuetest_of_the_users")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := databases(t, living, dead.mine); len(got) != 2 { // the template and its copy
		t.Fatalf("the first process made %v", got)
	}

	dead.claimed.Close(t.Context())
	// The server releases the lock a moment after the connection is closed; taking it is how one knows.
	err = living.do(t.Context(), func(conn *pgx.Conn) error {
		_, err := conn.Exec(t.Context(), "SELECT pg_advisory_lock($1)", lockKey(dead.mine))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	next := claimedSource(t, server.URL())
	for range 2 {
		if err := next.sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := databases(t, next, dead.mine); len(got) != 0 {
		t.Errorf("left behind: %v", got)
	}
	if got := databases(t, next, living.mine); len(got) != 2 {
		t.Errorf("the living process has only %v left", got)
	}
	if got := databases(t, next, "pgqueuetest_of"); len(got) != 1 {
		t.Error("a database of the user's was dropped")
	}
}

// Real test processes that share one server named by the environment variable.
func TestProcessesShareANamedServer(t *testing.T) {
	t.Parallel()
	server := NewServer(t)
	named := server.DB(t, WithoutMigrations()) // any database will do
	run := func() {
		cmd := exec.CommandContext(t.Context(), os.Args[0],
			"-test.run=^(TestParallelTestsAreIsolated|TestSchemaThatNeedsQuoting|TestTheDatabaseGoes.*)$")
		cmd.Env = append(os.Environ(), EnvDatabaseURL+"="+named.URL)
		if output, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, output)
		}
	}
	var group sync.WaitGroup
	for range 3 {
		group.Go(run)
	}
	group.Wait()
	from := claimedSource(t, named.URL)
	if got := databases(t, from, from.home); slices.ContainsFunc(got, func(name string) bool { return !strings.Contains(name, "_template") }) {
		t.Errorf("databases of ended tests: %v", got)
	}
	if one[int](t, named.Pool, "SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace") != 0 {
		t.Error("the named database was written to")
	}
}

func TestURLNamesAnotherDatabase(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"postgres://me:p%40ss@localhost:5433/mine?sslmode=disable": "postgres://me:p%40ss@localhost:5433/other?sslmode=disable",
		"postgresql://localhost?dbname=mine":                       "postgresql://localhost/other",
		"host=localhost dbname=mine user=me":                       "host=localhost dbname=mine user=me dbname=other",
	} {
		got := urlOf(text, "other")
		if got != want {
			t.Errorf("%s: %s", text, got)
		}
		config, err := pgx.ParseConfig(got)
		if err != nil || config.Database != "other" {
			t.Errorf("%s: %v", got, err)
		}
	}
}

func TestAServerThatCannotBeReachedIsAnError(t *testing.T) {
	t.Parallel()
	if _, err := newSource(t.Context(), "postgres://localhost:1/none?connect_timeout=5"); err == nil {
		t.Error("no error")
	}
}
