package migrations_test

import (
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	neturl "net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/golang-migrate/migrate/v4"
	pgxmigrate "github.com/golang-migrate/migrate/v4/database/pgx/v5"
	"github.com/golang-migrate/migrate/v4/source/iofs"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/migrations"
)

// C92: an object of somebody else has one of our names, of the first version or of the last.
func TestC92_ExistingObjectsWithOurNamesAreNamedAndUntouched(t *testing.T) {
	pool := newPool(t, newDatabase(t), nil)
	const ten = `SELECT g::text FROM generate_series(1, 10) g`
	for object, create := range map[string]string{
		"jobs":               `CREATE TABLE {s}.jobs (theirs text); INSERT INTO {s}.jobs ` + ten,
		"history":            `CREATE VIEW {s}.history AS SELECT theirs FROM {s}.theirs`,
		"queues":             `CREATE TYPE {s}.queues AS ENUM ('theirs')`,
		"jobs_ready":         `CREATE INDEX jobs_ready ON {s}.theirs (theirs)`,
		"jobs_id_seq":        `CREATE SEQUENCE {s}.jobs_id_seq`,
		"history_20240229":   `CREATE TABLE {s}.history_20240229 (theirs text); INSERT INTO {s}.history_20240229 ` + ten,
		"enqueue":            `CREATE FUNCTION {s}.enqueue(theirs text) RETURNS text LANGUAGE sql AS 'SELECT ''theirs''::text'`,
		"ensure_history":     `CREATE PROCEDURE {s}.ensure_history() LANGUAGE sql AS 'SELECT 1'`,
		"pgqueue_migrations": `CREATE TABLE {s}.pgqueue_migrations (theirs text); INSERT INTO {s}.pgqueue_migrations ` + ten,
		"retry":              `CREATE FUNCTION {s}.retry(theirs text) RETURNS text LANGUAGE sql AS 'SELECT ''theirs''::text'`,
		"workers":            `CREATE TABLE {s}.workers (theirs text); INSERT INTO {s}.workers ` + ten,
		"job_log":            `CREATE MATERIALIZED VIEW {s}.job_log AS ` + ten,
		"attempts":           `CREATE DOMAIN {s}.attempts AS text`,
		"stats_cache_pkey":   `CREATE INDEX stats_cache_pkey ON {s}.theirs (theirs)`,
		"schedules":          `CREATE TABLE {s}.schedules (theirs text); INSERT INTO {s}.schedules ` + ten,
		"unique_keys":        `CREATE DOMAIN {s}.unique_keys AS text`,
		"paused":             `CREATE VIEW {s}.paused AS SELECT theirs FROM {s}.theirs`,
		"pause_kind":         `CREATE PROCEDURE {s}.pause_kind() LANGUAGE sql AS 'SELECT 1'`,
		"audit":              `CREATE TABLE {s}.audit (theirs text); INSERT INTO {s}.audit ` + ten,
		"record_action":      `CREATE FUNCTION {s}.record_action(theirs text) RETURNS text LANGUAGE sql AS 'SELECT ''theirs''::text'`,
		"why_not_running":    `CREATE FUNCTION {s}.why_not_running() RETURNS int LANGUAGE sql AS 'SELECT 1'`,
	} {
		t.Run(object, func(t *testing.T) {
			schema := "with_" + object
			run(t, pool, strings.ReplaceAll(`CREATE SCHEMA {s}; CREATE TABLE {s}.theirs (theirs text); INSERT INTO {s}.theirs `+ten+`; `+create, "{s}", schema))
			look := func() (all []string) {
				t.Helper()
				all = append(objects(t, pool, schema), rows(t, pool, `SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = $1::text::regnamespace ORDER BY oid`, schema)...)
				for _, table := range rows(t, pool, `SELECT oid::regclass::text FROM pg_class WHERE relnamespace = $1::text::regnamespace AND relkind IN ('r', 'm', 'v') ORDER BY 1`, schema) {
					content := rows(t, pool, `SELECT theirs::text FROM (SELECT to_jsonb(x) AS theirs FROM `+table+` x) y ORDER BY 1`)
					if len(content) != 10 {
						t.Errorf("%s has %d rows, want 10", table, len(content))
					}
					all = append(all, content...)
				}
				return all
			}
			before := look()
			err := migrations.Up(testContext(t), pool, schema, quiet())
			var conflict *migrations.ConflictError
			if !errors.As(err, &conflict) || !strings.Contains(err.Error(), object) || conflict.Schema != schema {
				t.Errorf("up: %v", err)
			}
			if after := look(); !slices.Equal(before, after) {
				t.Errorf("something was changed:\nbefore %q\nafter  %q", before, after)
			}
		})
	}
}

// C92 in an upgrade: the versions before it stay, complete and clean, and the next Up goes on from there.
func TestC92_ANameThatALaterVersionNeeds(t *testing.T) {
	pool := at(t, 1)
	run(t, pool, `CREATE VIEW pgqueue.attempts AS SELECT 1 AS theirs`)
	err := migrations.Up(testContext(t), pool, "", quiet())
	var conflict *migrations.ConflictError
	if !errors.As(err, &conflict) || !strings.Contains(err.Error(), "relation attempts already exists") {
		t.Fatalf("up: %v", err)
	}
	if state := status(t, pool, ""); state.Version != 2 || state.Dirty {
		t.Errorf("after the refusal: %+v", state)
	}
	if n := value[int](t, pool, `SELECT theirs FROM pgqueue.attempts`); n != 1 {
		t.Error("their view is another")
	}
	if value[bool](t, pool, `SELECT to_regclass('pgqueue.workers') IS NOT NULL`) {
		t.Error("half of the step stayed")
	}
	run(t, pool, `ALTER VIEW pgqueue.attempts RENAME TO their_attempts`)
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
		"0003_seeing.up.sql": `CREATE TABLE "pgqueue"`, "0004_time.up.sql": `EXECUTE format('ALTER TABLE`, "0005_audit.up.sql": `CREATE TABLE "pgqueue"`} {
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

// downText is the down file of a version, for the schema pgqueue.
func downText(version uint) (string, error) {
	names, err := filepath.Glob(fmt.Sprintf("sql/%04d_*.down.sql", version))
	if err != nil {
		return "", err
	}
	if len(names) != 1 {
		return "", fmt.Errorf("%d down files of version %d", len(names), version)
	}
	return templateText(filepath.Base(names[0]))
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
	run(t, admin, `CREATE ROLE `+role+` LOGIN; GRANT CREATE ON SCHEMA public TO `+role)
	run(t, admin, `GRANT CREATE ON DATABASE `+value[string](t, admin, `SELECT current_database()::text`)+` TO `+role)
	as := func(path string) *pgxpool.Pool { // by the option of the URL
		address := url
		if path != "" {
			address += "&search_path=" + neturl.QueryEscape(path)
		}
		return newPool(t, address, func(config *pgxpool.Config) { config.ConnConfig.User = role })
	}
	mustUp(t, as(""), "")
	look := func() []string {
		return append(objects(t, admin, "pgqueue"), rows(t, admin, `SELECT format('%s %s %s', ctid, version, dirty) FROM pgqueue.pgqueue_migrations`)...)
	}
	before := look()
	run(t, admin, `CREATE SCHEMA `+role+` AUTHORIZATION `+role)
	for _, path := range []string{"", `public, "$user"`, "pgqueue", "nowhere"} {
		pool := as(path)
		mustUp(t, pool, "")
		requireNoDrift(t, pool, "")
		if !status(t, pool, "").Current() {
			t.Errorf("search_path %q: %+v", path, status(t, pool, ""))
		}
	}
	if after := look(); !slices.Equal(before, after) {
		t.Errorf("something changed:\nbefore %q\nafter  %q", before, after)
	}
	if n := value[int](t, admin, `SELECT count(*) FROM pg_class WHERE relname ~ 'migrations' AND relkind = 'r'`); n != 1 {
		t.Errorf("%d version tables", n)
	}
}
