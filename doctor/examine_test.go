package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/migrations"
	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

func contains(text, part string) bool { return strings.Contains(text, part) }

type task struct{}

func (task) Kind() string { return "task" }

// A fresh installation has nothing to find: whoever looks, in a schema of any name, and while a worker works.
func TestAHealthyInstallation(t *testing.T) {
	t.Parallel()
	server := pgqueuetest.NewServer(t, pgqueuetest.WithDurability())
	for _, schema := range []string{"pgqueue", odd} {
		db := server.DB(t, pgqueuetest.WithSchema(schema))
		options := Options{Roles: []Role{{Purposes: purposes()}}}
		report := examine(t, db, options)
		if len(report.Findings) != 0 || len(report.Skipped) != 0 || len(report.Checked) != len(Checks()) {
			t.Fatalf("fresh:\n%s", report)
		}
		t.Logf("schema %q: %d checks in %v", schema, len(report.Checked), report.Took)

		client := db.Client(t)
		mux := pgqueue.NewMux()
		done := make(chan struct{}, 10_000)
		pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[task]) error { done <- struct{}{}; return nil })
		worker, err := client.NewWorker(mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {Workers: 10}}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- worker.Run(ctx) }()
		for range 8 {
			for range 50 {
				if _, err := client.Enqueue(t.Context(), db.Pool, task{}); err != nil {
					t.Fatal(err)
				}
			}
			report := examine(t, db, options)
			if len(report.Findings) != 0 || len(report.Skipped) != 0 {
				t.Fatalf("at work:\n%s", report)
			}
		}
		for range 8 * 50 {
			<-done
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// C76: a search_path without our schema, or with decoys in front, changes nothing.
func TestC76_ForeignSearchPath(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	execute(t, db.Pool, `CREATE SCHEMA decoy`)
	for _, table := range []string{"jobs", "history", "queues", "workers", "pg_class", "pg_stat_activity"} {
		execute(t, db.Pool, `CREATE TABLE decoy.`+table+` (nothing int)`)
	}
	execute(t, db.Pool, `CREATE FUNCTION decoy.quote_ident(name) RETURNS text LANGUAGE sql AS 'SELECT 1 / 0'`)
	for _, path := range []string{`''`, `decoy, pg_catalog`} {
		execute(t, db.Pool, `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = `+strings.ReplaceAll(path, `'`, `''`)+`', current_database()); END $$`)
		db.Pool.Reset()
		report := examine(t, db, Options{Roles: []Role{{Purposes: purposes()}}})
		if len(quiet(report.Findings)) != 0 || len(report.Skipped) != 0 {
			t.Errorf("search_path %s:\n%s", path, report)
		}
	}
}

// C91 and its neighbours: older, newer, interrupted, gone.
func TestC91_SchemaVersions(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t, pgqueuetest.WithSchema(odd))
	table := ident(odd, "pgqueue_migrations")
	find := func(severity Severity, parts ...string) Finding {
		t.Helper()
		report := examine(t, db, Options{})
		found := report.Of("schema-version")
		if len(found) != 1 || found[0].Severity != severity {
			t.Fatalf("want %v of schema-version:\n%s", severity, report)
		}
		for _, part := range parts {
			if !contains(found[0].Summary+found[0].Fix, part) {
				t.Errorf("%q is not in %+v", part, found[0])
			}
		}
		requireComplete(t, found[0])
		return found[0]
	}
	set := func(version any, dirty bool) {
		execute(t, db.Pool, `UPDATE `+table+` SET version = $1, dirty = $2`, version, dirty)
	}

	set(migrations.Latest+1, false)
	find(Info, sprintf("version %d", migrations.Latest+1), sprintf("up to %d", migrations.Latest), "newer binary")
	set(migrations.Latest+2, false)
	find(Error, sprintf("version %d", migrations.Latest+2), "newer binary")
	set(migrations.Latest, true)
	find(Error, "migrations.Up")
	migrate(t, db, odd)
	mend(t, db, Options{})

	execute(t, db.Pool, `DROP TABLE `+table)
	apply(t, db, find(Error, "the table with their version"))
	execute(t, db.Pool, `DO $$ BEGIN IF (SELECT count(*) FROM `+table+`) <> 1 THEN RAISE 'no version'; END IF; END $$`)
	awaitNone(t, db, Options{}, "schema-version")

	if err := migrations.Down(t.Context(), db.Pool, odd); err != nil {
		t.Fatal(err)
	}
	find(Error, "not installed", "migrations.Up")
	execute(t, db.Pool, `CREATE TABLE `+ident(odd, "jobs")+` (id int)`) // somebody else's: still nothing is installed
	if f := find(Error, "not installed"); len(f.FixSQL) != 0 {
		t.Errorf("%+v", f)
	}
	execute(t, db.Pool, `DROP TABLE `+ident(odd, "jobs"))
	migrate(t, db, odd)
	mend(t, db, Options{})

	empty := pgqueuetest.New(t, pgqueuetest.WithoutMigrations())
	migrateTo(t, empty, 2)
	report := examine(t, empty, Options{})
	if found := report.Of("schema-version"); len(found) != 1 || !contains(found[0].Summary, "version 2") {
		t.Errorf("an older schema: %+v", found)
	}
	for _, f := range report.Findings {
		if strings.HasPrefix(f.Check, "drift-") {
			t.Errorf("the schema of another version is compared: %+v", f)
		}
	}
	if !slices.ContainsFunc(report.Skipped, func(s Skipped) bool { return s.Check == "drift-table" && contains(s.Reason, "version 2") }) {
		t.Errorf("that it is not compared is not said: %+v", report.Skipped)
	}
	migrate(t, empty, empty.Schema)
	mend(t, empty, Options{})
}

// migrateTo applies the first migrations by hand.
func migrateTo(t *testing.T, db *pgqueuetest.DB, version int) {
	t.Helper()
	execute(t, db.Pool, `CREATE SCHEMA pgqueue; CREATE TABLE pgqueue.pgqueue_migrations (version bigint NOT NULL PRIMARY KEY, dirty boolean NOT NULL)`)
	files, err := migrations.FS("pgqueue")
	if err != nil {
		t.Fatal(err)
	}
	names, err := os.ReadDir("../migrations/sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if !strings.HasSuffix(name.Name(), ".up.sql") || name.Name() > sprintf("%04d~", version) {
			continue
		}
		file, err := files.Open(name.Name())
		if err != nil {
			t.Fatal(err)
		}
		info, _ := file.Stat()
		text := make([]byte, info.Size())
		if _, err := file.Read(text); err != nil {
			t.Fatal(err)
		}
		execute(t, db.Pool, string(text))
	}
	execute(t, db.Pool, `INSERT INTO pgqueue.pgqueue_migrations VALUES ($1, false)`, version)
}

// A viewer gets all that its rights allow, a stranger the rest, and both are told what was left out.
func TestWithoutRights(t *testing.T) {
	t.Parallel()
	db := documentedRoles(t)
	execute(t, db.Pool, `CREATE ROLE stranger LOGIN`)
	other := connect(t, db.URL)
	in(t, other, `BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1`)
	skipped := func(role string) map[string]string {
		report := examine(t, as(t, db, role), Options{Roles: []Role{{Purposes: []Purpose{Viewer}}}})
		reasons := map[string]string{}
		for _, s := range report.Skipped {
			reasons[s.Check] = s.Reason
		}
		for _, f := range quiet(report.Findings) {
			if role == "on_call" {
				t.Errorf("%s finds %+v", role, f)
			}
		}
		return reasons
	}
	viewer := skipped("on_call")
	for check, reason := range viewer {
		if !slices.Contains([]string{"oldest-xmin", "standby-feedback", "sequence-behind", "sequence-limit"}, check) {
			t.Errorf("a viewer cannot do %s: %s", check, reason)
		}
	}
	if !contains(viewer["oldest-xmin"], "pg_read_all_stats") {
		t.Errorf("sessions are hidden and it is not said: %v", viewer)
	}
	execute(t, db.Pool, `GRANT pg_read_all_stats TO on_call; GRANT SELECT ON SEQUENCE pgqueue.jobs_id_seq TO on_call`)
	if left := skipped("on_call"); len(left) != 0 {
		t.Errorf("with all rights to read, still skipped: %v", left)
	}
	stranger := skipped("stranger")
	for _, check := range []string{"schema-version", "lease-expired", "queue-paused", "sequence-behind"} {
		if !contains(stranger[check], "no right") {
			t.Errorf("a stranger does %s: %v", check, stranger)
		}
	}
}

// The doctor changes nothing, waits for nobody, leaves no transaction open, and its connections as they were.
func TestTheDoctorDoesNoHarm(t *testing.T) {
	t.Parallel()
	sent := &statementsSent{}
	db := pgqueuetest.New(t, pgqueuetest.WithPoolConfig(func(c *pgxpool.Config) { c.ConnConfig.Tracer = sent }))
	locker := connect(t, db.URL)
	in(t, locker, `BEGIN`)
	in(t, locker, `LOCK TABLE pgqueue.jobs, pgqueue.queues IN ACCESS EXCLUSIVE MODE`)
	start := time.Now()
	report := examine(t, db, Options{})
	if report.Took > 30*time.Second || time.Since(start) > 30*time.Second {
		t.Errorf("it waited: %v", report.Took)
	}
	if !slices.ContainsFunc(report.Skipped, func(s Skipped) bool { return s.Check == "queue-paused" && contains(s.Reason, "lock") }) {
		t.Errorf("what is locked was not told: %+v", report.Skipped)
	}
	in(t, locker, `ROLLBACK`)
	if n := value[int](t, db.Pool, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND state LIKE 'idle in transaction%'`); n != 0 {
		t.Errorf("%d sessions are left in a transaction", n)
	}
	if got := value[string](t, db.Pool, `SELECT current_setting('statement_timeout') || current_setting('enable_seqscan') || current_setting('search_path')`); got != `0on"$user", public` {
		t.Errorf("the pool's connections are changed: %s", got)
	}
	begins := 0
	for _, s := range sent.take() {
		sql := s.sql
		if sql = strings.ToLower(strings.TrimSpace(sql)); strings.HasPrefix(sql, "begin") {
			begins++
			if !contains(sql, "read only") {
				t.Errorf("a transaction that may write: %s", sql)
			}
		} else if !strings.HasPrefix(sql, "select") && !strings.HasPrefix(sql, "with") && !strings.HasPrefix(sql, "--") && sql != "rollback" && sql != "commit" {
			t.Errorf("no query: %s", sql)
		}
	}
	if begins < len(Checks())/2 {
		t.Errorf("%d transactions for %d checks", begins, len(Checks()))
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Examine(ctx, db.Pool, Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled examination: %v", err)
	}
	// The shortest timeout: on a busy machine even the doctor's first question exceeds it.
	report, err := Examine(t.Context(), db.Pool, Options{Schema: db.Schema, StatementTimeout: time.Nanosecond, Only: []string{"drift-table"}})
	if err == nil && len(report.Checked)+len(report.Skipped) == 0 || err != nil && !contains(err.Error(), "SQLSTATE 57014") {
		t.Errorf("under the shortest timeout: %+v, %v", report, err)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	for field, options := range map[string]Options{
		"Schema":                      {Schema: "pg_toast"},
		"Only[1]":                     {Only: []string{"rights", "everything"}},
		"Roles[0].Purposes":           {Roles: []Role{{Name: "app", Purposes: []Purpose{"boss"}}}},
		"StatementTimeout":            {StatementTimeout: -1},
		"Thresholds.DeadRows":         {Thresholds: Thresholds{DeadRows: math.NaN()}},
		"Thresholds.HistoryAhead":     {Thresholds: Thresholds{HistoryAhead: -1}},
		"Thresholds.TransactionAge":   {Thresholds: Thresholds{TransactionAge: -time.Second}},
		"Thresholds.RetainedWAL":      {Thresholds: Thresholds{RetainedWAL: -1}},
		"Thresholds.Connections":      {Thresholds: Thresholds{Connections: -0.1}},
		"Thresholds.StatementTimeout": {Thresholds: Thresholds{StatementTimeout: -1}},
	} {
		_, err := Examine(t.Context(), db.Pool, options)
		var refused *OptionError
		if !errors.As(err, &refused) || refused.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	var schema *migrations.SchemaError
	if _, err := Examine(t.Context(), db.Pool, Options{Schema: "pg_x"}); !errors.As(err, &schema) {
		t.Errorf("%v", err)
	}
	if _, err := Examine(t.Context(), nil, Options{}); err == nil {
		t.Error("no database, no error")
	}
	report := examine(t, db, Options{Only: []string{"rights", "trigger"}})
	if !slices.Equal(report.Checked, []string{"rights", "trigger"}) {
		t.Errorf("checked %v", report.Checked)
	}
}

// The text and the JSON of a report, for command line and console.
func TestReport(t *testing.T) {
	t.Parallel()
	report := &Report{
		Schema: "pgqueue", SchemaVersion: 3, Latest: 3, Server: Server{Version: "17.2", Number: 170002, Database: "shop", Role: "app", Standby: true},
		Findings: []Finding{{Check: "trigger", Severity: Warning, Subject: "table \x1b[31mjobs", Summary: "What.", Why: "Why.", Fix: "How.", FixSQL: []string{"DROP\nTRIGGER x"}}},
		Checked:  []string{"trigger", "rights"}, Skipped: []Skipped{{"rights", "no right"}},
		At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Took: time.Second,
	}
	const text = `schema pgqueue, version 3 of 3, in database shop of PostgreSQL 17.2, a standby, seen as app

WARNING trigger: table  [31mjobs
  what: What.
  why:  Why.
  fix:  How.
        DROP
        TRIGGER x;

not checked:
  rights: no right

2 checks: 0 errors, 1 warnings, 0 notes; 1 skipped or in part
`
	if got := report.String(); got != text {
		t.Errorf("got\n%s\nwant\n%s", got, text)
	}
	const document = `{"schema":"pgqueue","schema_version":3,"latest_version":3,"server":{"version":"17.2","number":170002,"database":"shop","role":"app",` +
		`"superuser":false,"standby":true},"findings":[{"check":"trigger","severity":"warning","subject":"table \u001b[31mjobs","summary":"What.",` +
		`"why":"Why.","fix":"How.","fix_sql":["DROP\nTRIGGER x"]}],"checked":["trigger","rights"],"skipped":[{"check":"rights","reason":"no right"}],` +
		`"at":"2026-01-02T03:04:05Z","took":1000000000}`
	got, err := json.Marshal(report)
	if err != nil || string(got) != document {
		t.Errorf("got  %s\nwant %s (%v)", got, document, err)
	}
	var again Report
	if err := json.Unmarshal(got, &again); err != nil || again.Worst() != Warning || len(again.Of("trigger")) != 1 {
		t.Errorf("read again: %+v %v", again, err)
	}
	if (&Report{}).Worst() != 0 || new(Severity).UnmarshalText([]byte("bad")) == nil {
		t.Error("nothing is something")
	}
}

// docs/doctor.md lists every check as the registry has it, and no other.
func TestThePageListsTheChecks(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/doctor.md")
	if err != nil {
		t.Fatal(err)
	}
	var listed []Check
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\| (\\w+) \\| (.*) \\|$").FindAllStringSubmatch(string(text), -1) {
		var severity Severity
		if err := severity.UnmarshalText([]byte(m[2])); err != nil {
			t.Error(err)
		}
		listed = append(listed, Check{ID: m[1], Severity: severity, Meaning: m[3]})
	}
	if !slices.Equal(listed, Checks()) {
		t.Errorf("the page lists\n%+v\nand there are\n%+v", listed, Checks())
	}
	seen := map[string]bool{}
	for _, c := range Checks() {
		if seen[c.ID] || c.Meaning == "" || c.Severity == 0 {
			t.Errorf("%+v", c)
		}
		seen[c.ID] = true
	}
}

// A version that may not be read is unknown, and not none; and what one missing right keeps from many checks is said once.
func TestTheReportOfAStranger(t *testing.T) {
	t.Parallel()
	report := &Report{Schema: "pgqueue", VersionUnknown: true, Latest: 5, Skipped: []Skipped{{"a", "no right"}, {"b", "no time"}, {"c", "no right"}, {"a", "no right"}}}
	text := report.String()
	for _, want := range []string{"version unknown (this binary knows 5)", "\n  a, c: no right\n  b: no time\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("it does not say %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "version 0") {
		t.Errorf("%s", text)
	}
}
