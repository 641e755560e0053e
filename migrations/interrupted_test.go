package migrations_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/golang-migrate/migrate/v4/database"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/migrations"
)

// blocker holds an advisory lock, or whatever sql takes, until release is called.
func blocker(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) (release func()) {
	t.Helper()
	tx, err := pool.Begin(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(testContext(t), sql, args...); err != nil {
		t.Fatal(err)
	}
	release = func() { _ = tx.Rollback(context.Background()) }
	t.Cleanup(release)
	return release
}

// waitLog closes seen when a migrator reports that it waits.
type waitLog struct {
	slog.Handler
	once sync.Once
	seen chan struct{}
}

func (*waitLog) Enabled(context.Context, slog.Level) bool { return true }

func (l *waitLog) Handle(_ context.Context, record slog.Record) error {
	if strings.Contains(record.Message, "migration waits") {
		l.once.Do(func() { close(l.seen) })
	}
	return nil
}

// more is a version after ours.
const more = migrations.Latest + 1

// oneMore are the real files and one version more.
func oneMore(t *testing.T, last string) migrations.Source {
	t.Helper()
	files, err := copyFiles("pgqueue")
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("%04d_more", more)
	files[name+".up.sql"] = &fstest.MapFile{Data: []byte(last)}
	files[name+".down.sql"] = &fstest.MapFile{Data: []byte(`DROP TABLE pgqueue.more`)}
	return migrations.Source{Files: files, Latest: more, Probe: `EXISTS (SELECT FROM pg_class WHERE relname = 'more') AND $1::text IS NOT NULL`}
}

func TestUp_AStepThatFailsIsRolledBackAndTheNextUpGoesOn(t *testing.T) {
	pool := installed(t, "")
	bad := oneMore(t, `CREATE TABLE pgqueue.more (id int); SELECT 1/0;`)
	for range 2 {
		err := migrations.UpWith(testContext(t), pool, "", bad)
		var pgErr *pgconn.PgError
		if !errors.As(err, &pgErr) || pgErr.Code != "22012" || !strings.Contains(err.Error(), fmt.Sprintf("version %d", more)) {
			t.Fatalf("up with a failing step: %v", err)
		}
		if state := status(t, pool, ""); state.Version != migrations.Latest || state.Dirty {
			t.Fatalf("after the failure: %+v", state)
		}
	}
	if value[bool](t, pool, `SELECT to_regclass('pgqueue.more') IS NOT NULL`) {
		t.Error("half of the step stayed")
	}
	good := oneMore(t, `CREATE TABLE pgqueue.more (id int);`)
	if err := migrations.UpWith(testContext(t), pool, "", good); err != nil {
		t.Fatal(err)
	}
	if state := status(t, pool, ""); state.Version != more || state.Dirty {
		t.Fatalf("after the good step: %+v", state)
	}
	if err := migrations.DownWith(testContext(t), pool, "", good); err != nil {
		t.Fatal(err)
	}
	if left := objects(t, pool, "pgqueue"); len(left) > 0 {
		t.Errorf("down of all versions left %q", left)
	}
}

// C87: what the command line leaves behind when it is killed before, in or after a file.
func TestC87_ADirtyVersionIsPutRight(t *testing.T) {
	for _, c := range []struct {
		name     string
		recorded int
		applied  uint // the version that is really there
	}{
		{"up to 1 killed before the file", 1, 0},
		{"up to 1 killed after the file", 1, 1},
		{"up to 2 killed before the file", 2, 1},
		{"up to 2 killed after the file", 2, 2},
		{"up to 3 killed before the file", 3, 2},
		{"up to 3 killed after the file", 3, 3},
		{"up to 4 killed before the file", 4, 3},
		{"up to 4 killed after the file", 4, 4},
		{"down to 3 killed before the file", 3, 4},
		{"down to 3 killed after the file", 3, 3},
		{"down to 2 killed before the file", 2, 3},
		{"down to 2 killed after the file", 2, 2},
		{"down to 1 killed before the file", 1, 2},
		{"down to 1 killed after the file", 1, 1},
		{"down to nothing killed before the file", -1, 1},
		{"down to nothing killed after the file", -1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			pool := installed(t, "")
			full := objects(t, pool, "pgqueue")
			dirty := func() {
				t.Helper()
				mustDown(t, pool, "")
				if c.applied == 0 {
					run(t, pool, `CREATE TABLE pgqueue.pgqueue_migrations (version bigint not null primary key, dirty boolean not null)`)
					run(t, pool, `INSERT INTO pgqueue.pgqueue_migrations VALUES ($1, true)`, c.recorded)
				} else {
					files, err := copyFiles("pgqueue")
					if err != nil {
						t.Fatal(err)
					}
					if err := migrations.UpWith(testContext(t), pool, "", migrations.Source{Files: files, Latest: c.applied}); err != nil {
						t.Fatal(err)
					}
					run(t, pool, `UPDATE pgqueue.pgqueue_migrations SET version = $1, dirty = true`, c.recorded)
				}
				if state := status(t, pool, ""); !state.Dirty || state.Current() {
					t.Fatalf("status does not show it: %+v", state)
				}
			}
			dirty()
			mustUp(t, pool, "")
			if got := objects(t, pool, "pgqueue"); !slices.Equal(got, full) || !status(t, pool, "").Current() {
				t.Errorf("after up: %+v, %q", status(t, pool, ""), got)
			}
			dirty()
			mustDown(t, pool, "")
			if got := objects(t, pool, "pgqueue"); len(got) > 0 {
				t.Errorf("after down: %q", got)
			}
		})
	}
}

func TestUp_WaitsForTheCommandLine(t *testing.T) {
	pool := newPool(t, newDatabase(t), nil)
	key, err := database.GenerateAdvisoryLockId("/"+value[string](t, pool, `SELECT current_database()::text`), "pgqueue", migrations.VersionTable)
	if err != nil {
		t.Fatal(err)
	}
	release := blocker(t, pool, `SELECT pg_advisory_xact_lock(`+key+`)`)
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	logs := &waitLog{seen: make(chan struct{})}
	result := make(chan error, 1)
	go func() { result <- migrations.Up(ctx, pool, "", migrations.WithLogger(slog.New(logs))) }()
	<-logs.seen
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "another process is migrating") {
		t.Errorf("up beside the command line: %v", err)
	}
	if left := objects(t, pool, "pgqueue"); len(left) > 0 {
		t.Errorf("it changed something meanwhile: %q", left)
	}
	release()
	mustUp(t, pool, "")
}

func TestUp_EndsWithTheContext(t *testing.T) {
	pool := newPool(t, newDatabase(t), nil)
	ctx, cancel := context.WithCancel(testContext(t))
	cancel()
	if err := migrations.Up(ctx, pool, "", quiet()); !errors.Is(err, context.Canceled) {
		t.Errorf("up with a context that has ended: %v", err)
	}
	if n := pool.Stat().AcquiredConns(); n != 0 {
		t.Errorf("%d connections were not given back", n)
	}
}
