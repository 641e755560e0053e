package migrations_test

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/golang-migrate/migrate/v4"
	pgxmigrate "github.com/golang-migrate/migrate/v4/database/pgx/v5"
	"github.com/golang-migrate/migrate/v4/source/iofs"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/migrations"
)

// C92: an object of somebody else has one of our names.
func TestC92_ExistingObjectsWithOurNamesAreNamedAndUntouched(t *testing.T) {
	url := newDatabase(t)
	pool := newPool(t, url, nil)
	for object, create := range map[string]string{
		"jobs":               `CREATE TABLE %s.jobs (theirs text); INSERT INTO %s.jobs SELECT g::text FROM generate_series(1, 10) g`,
		"history":            `CREATE VIEW %s.history AS SELECT 1 AS theirs`,
		"queues":             `CREATE TYPE %s.queues AS ENUM ('theirs')`,
		"jobs_ready":         `CREATE TABLE %s.theirs (theirs text); CREATE INDEX jobs_ready ON %s.theirs (theirs)`,
		"jobs_id_seq":        `CREATE SEQUENCE %s.jobs_id_seq`,
		"history_20240229":   `CREATE TABLE %s.history_20240229 (theirs text)`,
		"enqueue":            `CREATE FUNCTION %s.enqueue(theirs text) RETURNS text LANGUAGE sql AS 'SELECT ''theirs''::text'`,
		"ensure_history":     `CREATE PROCEDURE %s.ensure_history() LANGUAGE sql AS 'SELECT 1'`,
		"pgqueue_migrations": `CREATE TABLE %s.pgqueue_migrations (theirs text)`,
	} {
		t.Run(object, func(t *testing.T) {
			schema := "with_" + object
			run(t, pool, `CREATE SCHEMA `+schema+`; `+strings.ReplaceAll(create, "%s", schema))
			before := objects(t, pool, schema)
			err := migrations.Up(testContext(t), pool, schema, quiet())
			var conflict *migrations.ConflictError
			if !errors.As(err, &conflict) || !strings.Contains(err.Error(), object) || conflict.Schema != schema {
				t.Errorf("up: %v", err)
			}
			if after := objects(t, pool, schema); !slices.Equal(before, after) {
				t.Errorf("something was changed:\nbefore %q\nafter  %q", before, after)
			}
		})
	}
	if n := value[int](t, pool, `SELECT count(*) FROM with_jobs.jobs`); n != 10 {
		t.Errorf("%d of their 10 rows are left", n)
	}
}

// C92 in a later step: the versions before it stay, complete and clean, and the next Up goes on from there.
func TestC92_ANameThatALaterVersionNeeds(t *testing.T) {
	pool := newPool(t, newDatabase(t), nil)
	run(t, pool, `CREATE SCHEMA pgqueue; CREATE FUNCTION pgqueue.retry(theirs text) RETURNS text LANGUAGE sql AS 'SELECT ''theirs''::text'`)
	err := migrations.Up(testContext(t), pool, "", quiet())
	var conflict *migrations.ConflictError
	if !errors.As(err, &conflict) || !strings.Contains(err.Error(), "function retry already exists") {
		t.Fatalf("up: %v", err)
	}
	if state := status(t, pool, ""); state.Version != 1 || state.Dirty {
		t.Errorf("after the refusal: %+v", state)
	}
	if n := value[int](t, pool, `SELECT count(*) FROM pg_proc WHERE pronamespace = 'pgqueue'::regnamespace AND proname IN ('retry', 'pause')`); n != 1 {
		t.Errorf("%d functions of these names, want theirs alone", n)
	}
	run(t, pool, `ALTER FUNCTION pgqueue.retry(text) RENAME TO their_retry`)
	mustUp(t, pool, "")
	mustDown(t, pool, "")
}

// The list of names at the head of each step covers all that it makes.
func TestUp_KnowsAllOfItsOwnNames(t *testing.T) {
	pool := installed(t, "")
	names := rows(t, pool, `SELECT relname::text FROM pg_class WHERE relnamespace = 'pgqueue'::regnamespace AND relname NOT LIKE 'pgqueue\_migrations%'
		UNION SELECT proname::text FROM pg_proc WHERE pronamespace = 'pgqueue'::regnamespace`)
	var checks strings.Builder
	for file, first := range map[string]string{"0001_core.up.sql": `CREATE TABLE "pgqueue"`, "0002_control.up.sql": `CREATE FUNCTION "pgqueue"`,
		"0003_seeing.up.sql": `CREATE TABLE "pgqueue"`} {
		text, err := templateText(file)
		if err != nil {
			t.Fatal(err)
		}
		check, _, _ := strings.Cut(text, first)
		checks.WriteString(check)
	}
	check := checks.String()
	for _, name := range names {
		if !strings.HasPrefix(name, "history_2") && !strings.Contains(check, "'"+name+"'") {
			t.Errorf("the check for names that are taken does not know %s", name)
		}
	}
	if len(names) < 15 {
		t.Errorf("only %d names found: %q", len(names), names)
	}
}

func templateText(name string) (string, error) {
	files, err := migrations.FS("pgqueue")
	if err != nil {
		return "", err
	}
	text, err := fs.ReadFile(files, name)
	return string(text), err
}

// application migrates tables of its own with golang-migrate's default settings.
func application(t *testing.T, url string, versions int) {
	t.Helper()
	files := fstest.MapFS{
		"20240131120000_a.up.sql": {Data: []byte(`CREATE TABLE app_a (id int)`)},
		"20240131130000_b.up.sql": {Data: []byte(`CREATE TABLE app_b (id int)`)},
	}
	source, err := iofs.New(files, ".")
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("pgx/v5", url)
	if err != nil {
		t.Fatal(err)
	}
	driver, err := pgxmigrate.WithInstance(db, &pgxmigrate.Config{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := migrate.NewWithInstance("app", source, "app", driver)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = m.Close() }()
	if err := m.Steps(versions); err != nil {
		t.Fatalf("the application's migration: %v", err)
	}
}

// C88: the application uses golang-migrate with default settings in the same database.
func TestC88_TheApplicationsOwnVersionTableIsNeverMet(t *testing.T) {
	for _, schema := range []string{"pgqueue", "public"} {
		t.Run(schema, func(t *testing.T) {
			url := newDatabase(t)
			pool := newPool(t, url, nil)
			version := func() string {
				t.Helper()
				return strings.Join(rows(t, pool, `SELECT format('%s %s %s', ctid, version, dirty) FROM public.schema_migrations`), ",")
			}
			application(t, url, 1)
			before := version()
			mustUp(t, pool, schema)
			if after := version(); after != before {
				t.Errorf("the application's version went from %q to %q", before, after)
			}
			application(t, url, 1)
			before = version()
			mustUp(t, pool, schema)
			if !status(t, pool, schema).Current() {
				t.Errorf("ours: %+v", status(t, pool, schema))
			}
			mustDown(t, pool, schema)
			mustUp(t, pool, schema)
			if after := version(); after != before {
				t.Errorf("the application's version went from %q to %q", before, after)
			}
			if n := value[int](t, pool, `SELECT count(*) FROM pg_class WHERE relname IN ('app_a', 'app_b')`); n != 2 {
				t.Errorf("%d of the application's 2 tables", n)
			}
		})
	}
}

// C89: the search path changes between two runs.
func TestC89_TheVersionTableStaysWhereItIs(t *testing.T) {
	url := newDatabase(t)
	admin := newPool(t, url, nil)
	role := "svc_" + value[string](t, admin, `SELECT current_database()::text`)
	run(t, admin, `CREATE ROLE `+role+` LOGIN SUPERUSER`)
	as := func(path string) *pgxpool.Pool {
		return newPool(t, url, func(config *pgxpool.Config) {
			config.ConnConfig.User = role
			if path != "" {
				config.ConnConfig.RuntimeParams["search_path"] = path
			}
		})
	}
	mustUp(t, as(""), "")
	before := objects(t, admin, "pgqueue")
	run(t, admin, `CREATE SCHEMA `+role)
	for _, path := range []string{"", `public, "$user"`, "pgqueue", "nowhere"} {
		pool := as(path)
		mustUp(t, pool, "")
		if !status(t, pool, "").Current() {
			t.Errorf("search_path %q: %+v", path, status(t, pool, ""))
		}
	}
	if after := objects(t, admin, "pgqueue"); !slices.Equal(before, after) {
		t.Errorf("something changed:\nbefore %q\nafter  %q", before, after)
	}
	if n := value[int](t, admin, `SELECT count(*) FROM pg_class WHERE relname ~ 'migrations' AND relkind = 'r'`); n != 1 {
		t.Errorf("%d version tables", n)
	}
}

// C90: the caller's pool is used, and it is the caller's afterwards.
func TestC90_TheCallersPoolIsNeitherClosedNorLeaked(t *testing.T) {
	prepared := 0
	pool := newPool(t, newDatabase(t), func(config *pgxpool.Config) {
		config.MaxConns = 1
		config.BeforeConnect = func(context.Context, *pgx.ConnConfig) error { prepared++; return nil }
	})
	mustUp(t, pool, "")
	mustDown(t, pool, "")
	mustUp(t, pool, "")
	if value[int](t, pool, `SELECT 1`) != 1 || pool.Stat().AcquiredConns() != 0 || pool.Stat().NewConnsCount() != 1 || prepared != 1 {
		t.Errorf("acquired %d, opened %d, prepared %d; want 0, 1, 1", pool.Stat().AcquiredConns(), pool.Stat().NewConnsCount(), prepared)
	}
}
