package migrations_test

import (
	"bufio"
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/internal/pgserver"
	"github.com/pgqueue/pgqueue/migrations"
)

// The test binary is also the processes that the tests start.
const (
	modeEnv   = "PGQUEUE_MIGRATIONS_TEST_MODE"
	modeUp    = "up"    // says ready, waits for a line on stdin, migrates, says so, waits again, runs a job
	modeBlock = "block" // migrates with a step (stepEnv) that waits for blockKey
	modePsql  = "psql"  // stands in for psql: ADDRESS -c SQL

	urlEnv  = "PGQUEUE_MIGRATIONS_TEST_URL"
	stepEnv = "PGQUEUE_MIGRATIONS_TEST_STEP"

	// blockKey is the advisory lock on which a blocked step waits.
	blockKey = 4711
	// patience is how long a test waits for what must happen soon.
	patience = 2 * time.Minute
)

// quiet keeps the tests' output short.
func quiet() migrations.Option {
	return migrations.WithLogger(slog.New(slog.DiscardHandler))
}

func TestMain(m *testing.M) {
	switch mode := os.Getenv(modeEnv); mode {
	case "":
		os.Exit(runTests(m))
	default:
		if err := runProcess(mode); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

// sharedServer starts the server that the tests of this run share, when the first of them asks. Not before the tests run: go test
// would not learn that its environment variables matter, and answer for one version of Postgres with the cached result of another.
var sharedServer = sync.OnceValues(func() (*pgserver.Server, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	server, err := pgserver.Start(ctx, pgserver.Options{})
	started.Store(server)
	return server, err
})

// started is what there is to stop at the end.
var started atomic.Pointer[pgserver.Server]

func runTests(m *testing.M) int {
	code := m.Run()
	if server := started.Load(); server != nil {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := server.Stop(ctx); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	return code
}

func runProcess(mode string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if mode == modePsql {
		conn, err := pgx.Connect(ctx, os.Args[1])
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close(ctx) }()
		_, err = conn.Exec(ctx, os.Args[3])
		return err
	}
	config, err := pgxpool.ParseConfig(os.Getenv(urlEnv))
	if err != nil {
		return err
	}
	config.MaxConns = 1
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	defer pool.Close()
	if mode == modeBlock {
		step, err := strconv.ParseUint(os.Getenv(stepEnv), 10, 8)
		if err != nil {
			return err
		}
		files, err := blockingFiles(migrations.DefaultSchema, uint(step))
		if err != nil {
			return err
		}
		return migrations.UpWith(ctx, pool, "", migrations.Source{Files: files, Latest: migrations.Latest})
	}
	in := bufio.NewReader(os.Stdin)
	fmt.Println("ready")
	if _, err := in.ReadString('\n'); err != nil {
		return err
	}
	if err := migrations.Up(ctx, pool, "", quiet()); err != nil {
		return err
	}
	fmt.Println("migrated")
	if _, err := in.ReadString('\n'); err != nil {
		return err
	}
	return runAJob(ctx, pool, "", fmt.Sprintf("process-%d", os.Getpid()))
}

// upFile is the name of the file of a version among files.
func upFile(files fs.FS, version uint) (string, error) {
	names, err := fs.Glob(files, fmt.Sprintf("%04d_*.up.sql", version))
	if err != nil {
		return "", err
	}
	if len(names) != 1 {
		return "", fmt.Errorf("%d files of version %d: %q", len(names), version, names)
	}
	return names[0], nil
}

// blockingFiles are the real files, but one step waits at its end for blockKey.
func blockingFiles(schema string, step uint) (fstest.MapFS, error) {
	files, err := copyFiles(schema)
	if err != nil {
		return nil, err
	}
	name, err := upFile(files, step)
	if err != nil {
		return nil, err
	}
	blocked := files[name]
	blocked.Data = append(blocked.Data, fmt.Sprintf("\nSET LOCAL lock_timeout = 0; SELECT pg_advisory_xact_lock(%d);\n", blockKey)...)
	return files, nil
}

// copyFiles are the real files, in a form that a test can change.
func copyFiles(schema string) (fstest.MapFS, error) {
	files, err := migrations.FS(schema)
	if err != nil {
		return nil, err
	}
	names, err := fs.Glob(files, "*")
	if err != nil {
		return nil, err
	}
	all := fstest.MapFS{}
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		all[name] = &fstest.MapFile{Data: text, Mode: 0o644}
	}
	return all, nil
}

// testContext ends before the test run would be killed.
func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

var databases atomic.Int64 // numbers the databases of a test run

// newDatabase makes an empty database and returns its address.
func newDatabase(t *testing.T) string {
	t.Helper()
	server, err := sharedServer()
	if err != nil {
		t.Fatal(err)
	}
	return newDatabaseOn(t, server.URL("postgres"))
}

func newDatabaseOn(t *testing.T, server string) string {
	t.Helper()
	ctx := testContext(t)
	name := fmt.Sprintf("migrations_%d_%d", os.Getpid(), databases.Add(1))
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	defer func() { _ = conn.Close(ctx) }()
	if _, err := conn.Exec(ctx, `CREATE DATABASE `+name); err != nil {
		t.Fatalf("create database: %v", err)
	}
	return strings.Replace(server, "/postgres?", "/"+name+"?", 1)
}

// newPool opens a pool on a database; change may be nil.
func newPool(t *testing.T, url string, change func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatalf("parse %s: %v", url, err)
	}
	if change != nil {
		change(config)
	}
	pool, err := pgxpool.NewWithConfig(testContext(t), config)
	if err != nil {
		t.Fatalf("open pool: %v", err)
	}
	t.Cleanup(func() { // Close waits for connections that were not given back
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			pool.Close()
		}()
		select {
		case <-closed:
		case <-time.After(10 * time.Second):
			t.Errorf("%d connections were not given back", pool.Stat().AcquiredConns())
		}
	})
	return pool
}

// installed gives a pool on a database of its own with pgqueue in the given schema.
func installed(t *testing.T, schema string) *pgxpool.Pool {
	t.Helper()
	pool := newPool(t, newDatabase(t), nil)
	mustUp(t, pool, schema)
	return pool
}

func mustUp(t *testing.T, db migrations.Database, schema string) {
	t.Helper()
	if err := migrations.Up(testContext(t), db, schema, quiet()); err != nil {
		t.Fatalf("up of %q: %v", schema, err)
	}
}

func mustDown(t *testing.T, db migrations.Database, schema string) {
	t.Helper()
	if err := migrations.Down(testContext(t), db, schema, quiet()); err != nil {
		t.Fatalf("down of %q: %v", schema, err)
	}
}

func run(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := pool.Exec(testContext(t), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// value reads one value.
func value[T any](t *testing.T, db interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}, sql string, args ...any) T {
	t.Helper()
	var v T
	if err := db.QueryRow(testContext(t), sql, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// rows reads one text column.
func rows(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) []string {
	t.Helper()
	result, err := pool.Query(testContext(t), sql, args...)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	list, err := pgx.CollectRows(result, pgx.RowTo[string])
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return list
}

// waitFor asks again until a condition that only SQL can tell holds.
func waitFor(t *testing.T, pool *pgxpool.Pool, what, condition string, args ...any) {
	t.Helper()
	ctx := testContext(t)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if value[bool](t, pool, `SELECT `+condition, args...) {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("waited in vain for: %s", what)
		case <-tick.C:
		}
	}
}

// objects lists all that lies in a schema.
func objects(t *testing.T, pool *pgxpool.Pool, schema string) []string {
	t.Helper()
	return rows(t, pool, `
		WITH n AS (SELECT oid FROM pg_namespace WHERE nspname = $1)
		SELECT 'relation ' || c.relname || ' ' || c.relkind::text FROM pg_class c, n WHERE c.relnamespace = n.oid
		UNION ALL SELECT 'type ' || t.typname FROM pg_type t, n WHERE t.typnamespace = n.oid
		UNION ALL SELECT 'function ' || p.oid::regprocedure::text FROM pg_proc p, n WHERE p.pronamespace = n.oid
		UNION ALL SELECT 'constraint ' || k.conname FROM pg_constraint k, n WHERE k.connamespace = n.oid
		ORDER BY 1`, schema)
}
