package console

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/internal/pgserver"
	"github.com/pgqueue/pgqueue/migrations"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

func TestTheDatabaseScreen(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	c := newConsole(t, db)
	page := c.as(Viewer).get("/database").want(t, http.StatusOK).tells(t, "Database health", fmt.Sprintf("Schema pgqueue , version %d.", migrations.Latest),
		"Dead rows in jobs 0", "NOTIFY queue 0 %", "Connections", "History ahead 14 days", "Transaction numbers",
		"autovacuum_naptime", "made ahead", "today", "stats_cache")
	for _, name := range []string{"jobs", "history_attention", "workers", "audit"} {
		if row := page.row(t, name); !strings.Contains(row, "kB") {
			t.Errorf("%s: %q", name, row)
		}
	}
	c.as(0).get("/database").want(t, http.StatusUnauthorized)
	if strings.Contains(page.body, "<form") {
		t.Error("the screen has a form: it changes nothing")
	}
}

// Every statement of database.sql runs on this version of Postgres, and none is refused to a superuser.
func TestEveryFigureIsRead(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	figures, err := readDatabase(t.Context(), db.Pool, db.Schema)
	if err != nil {
		t.Fatal(err)
	}
	for name, missing := range map[string]string{
		"server": figures.Server.Missing, "tables": figures.Tables.Missing, "partitions": figures.Partitions.Missing, "holders": figures.Holders.Missing,
		"hidden": figures.Hidden.Missing, "slots": figures.Slots.Missing, "standbys": figures.Standbys.Missing, "notify": figures.Notify.Missing,
		"connections": figures.Connections.Missing, "vacuuming": figures.Vacuuming.Missing, "settings": figures.Settings.Missing,
	} {
		if missing != "" {
			t.Errorf("%s: %s", name, missing)
		}
	}
	if figures.HiddenNote != "" || len(figures.Tables.Rows) < 11 || len(figures.Partitions.Rows) < 15 || len(figures.Settings.Rows) < 20 {
		t.Errorf("figures %+v", figures)
	}
	for _, setting := range figures.Settings.Rows {
		if setting.Means() == "" {
			t.Errorf("nothing is said of %s", setting.Name)
		}
	}
}

// A finding says what, why, and how to mend it, with the statement; what others named is text.
func TestFindingsSayWhyAndHow(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	c := newConsole(t, db)
	runSQL(t, db.Pool, `ALTER TABLE pgqueue.jobs SET (autovacuum_enabled = false)`)
	runSQL(t, db.Pool, `CREATE TABLE public."<script>1</script>" (id bigint, day date, FOREIGN KEY (id, day) REFERENCES pgqueue.history_attention (id, day))`)
	page := c.get("/database").want(t, http.StatusOK).tells(t, "autovacuum-off : table jobs", "Autovacuum is off for jobs", "Why it matters: Dead rows stay for ever",
		"What to do: Turn it on again", `ALTER TABLE "pgqueue"."jobs" RESET (autovacuum_enabled)`, "<script>1</script>", "outside of a transaction")
	if !regexp.MustCompile(`<pre class="code">ALTER TABLE [^<]*RESET \(autovacuum_enabled\);</pre>`).MatchString(page.body) {
		t.Errorf("the statement is not in pre.code: %s", page.body)
	}
	for _, e := range elements(page.body) {
		if e.name == "script" && e.attribute("src") == "" {
			t.Errorf("a script without an address: %s", e.shape())
		}
	}
	// The report is shared for a while; who asks for a new one gets it.
	runSQL(t, db.Pool, `ALTER TABLE pgqueue.jobs RESET (autovacuum_enabled)`)
	c.get("/database").want(t, http.StatusOK).tells(t, "Autovacuum is off for jobs")
	c.console.examinations.at = time.Now().Add(-freshReportAge)
	c.get("/database?again=1").want(t, http.StatusOK).conceals(t, "Autovacuum is off for jobs")
}

// openTransaction opens a transaction on a connection of its own, which ends with the test.
func openTransaction(t *testing.T, url string, statements ...string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	for _, statement := range append([]string{"BEGIN"}, statements...) {
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	return conn
}

func TestWhoHoldsBackVacuumIsNamed(t *testing.T) {
	t.Parallel()
	server := pgqueuetest.NewServer(t, pgqueuetest.WithSetting("max_prepared_transactions", "2"), pgqueuetest.WithSetting("wal_level", "logical"),
		pgqueuetest.WithSetting("max_replication_slots", "2"), pgqueuetest.WithSetting("max_wal_senders", "2"))
	db := server.DB(t)
	c := newConsole(t, db)
	c.get("/database").want(t, http.StatusOK).tells(t, "Held back by nobody", "No slots and no standbys")
	runSQL(t, db.Pool, `SELECT pg_create_logical_replication_slot('forgotten', 'pgoutput')`) // waits for all transactions, so it comes first
	runSQL(t, db.Pool, `SELECT pg_create_physical_replication_slot('gone', true)`)
	openTransaction(t, db.URL, `SET application_name = '<i>nightly</i>'`, `SELECT pg_current_xact_id()`)
	openTransaction(t, db.URL, `SELECT pg_current_xact_id()`, `PREPARE TRANSACTION 'it''s "left"'`)
	page := c.get("/database").want(t, http.StatusOK).tells(t, "session", "<i>nightly</i>", "idle in transaction",
		`prepared transaction it's "left"`, "replication slot forgotten", "nobody reads from it")
	if row := page.row(t, "gone physical nobody"); !strings.Contains(row, "reserved") {
		t.Errorf("the slot: %q", row)
	}
	if strings.Contains(page.shownText(), "pg_current_xact_id") {
		t.Error("the query of another session is shown")
	}
	runSQL(t, db.Pool, `ROLLBACK PREPARED 'it''s "left"'`)
}

// A role without pg_monitor sees the page, is told what it does not see, and sees it once it may.
func TestWhatARoleMayNotSee(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	pool := roleWith(t, db, "v", viewerGrants()...)
	c := newConsole(t, db, func(config *Config) { config.Pool = pool })
	openTransaction(t, db.URL, `SELECT pg_current_xact_id()`)
	role := pool.Config().ConnConfig.User
	c.get("/database").want(t, http.StatusOK).tells(t, "sessions of other roles are hidden", "Not visible to this role: GRANT pg_monitor TO "+pgx.Identifier{role}.Sanitize(),
		"Checks that could not be made, or not completely")
	runSQL(t, db.Pool, fmt.Sprintf(`GRANT pg_monitor TO %q`, role))
	c.console.examinations.at = time.Time{}
	c.get("/database?again=1").want(t, http.StatusOK).tells(t, "idle in transaction").conceals(t, "are hidden")
}

// What somebody has locked costs that one figure, and nobody waits.
func TestALockedTableCostsOneFigure(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	openTransaction(t, db.URL, `LOCK TABLE pgqueue.workers IN ACCESS EXCLUSIVE MODE`)
	figures, err := readDatabase(t.Context(), db.Pool, db.Schema)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(figures.Tables.Missing, "Somebody holds a lock") || figures.Partitions.Missing != "" || len(figures.Settings.Rows) == 0 {
		t.Errorf("tables %q, partitions %q", figures.Tables.Missing, figures.Partitions.Missing)
	}
	c := newConsole(t, db)
	c.get("/database").want(t, http.StatusOK).tells(t, "Somebody holds a lock on it; look again in a moment")
}

// Reading leaves nothing behind: no transaction stays open, and no connection is kept, also where the browser leaves in the midst of it.
func TestFiguresLeaveNoTransaction(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t, pgqueuetest.WithPoolConfig(func(config *pgxpool.Config) { config.MaxConns = 1 }))
	openTransaction(t, db.URL, `LOCK TABLE pgqueue.workers IN ACCESS EXCLUSIVE MODE`)
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond) // the tables wait for twice that
		_, err := readDatabase(ctx, db.Pool, db.Schema)
		cancel()
		if err == nil {
			t.Error("a context that has ended is no error")
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), waitAtMost)
	defer cancel()
	if err := db.Pool.Ping(ctx); err != nil {
		t.Fatalf("the connection is gone: %v", err)
	}
	if n := valueOf[int](t, db.Pool, `SELECT count(*)::int FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in%' AND query NOT LIKE 'LOCK%'`); n != 0 {
		t.Errorf("%d transactions are open", n)
	}
}

func TestADatabaseWithoutTables(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t, pgqueuetest.WithoutMigrations())
	c := newConsole(t, db)
	c.get("/database").want(t, http.StatusOK).tells(t, "schema-version", "There is no partition of a day")
	for _, path := range []string{"/queues", "/queues/mail", "/schedules", "/workers"} {
		c.get(path).want(t, http.StatusServiceUnavailable).tells(t, "pgqueue migrate up")
	}
}

// On a standby all that reads works, and what acts says that it needs the primary.
func TestTheScreensOnAStandby(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	connect := func(server *pgserver.Server) *pgxpool.Pool {
		pool, err := pgxpool.New(ctx, server.URL("postgres"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		return pool
	}
	first, err := pgserver.Start(ctx, pgserver.Options{Settings: map[string]string{"wal_keep_size": "128MB"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = first.StopImmediate(context.Background()) })
	primary := &pgqueuetest.DB{Pool: connect(first), Schema: migrations.DefaultSchema}
	if err := migrations.Up(ctx, primary.Pool, ""); err != nil {
		t.Fatal(err)
	}
	putSchedule(t, primary, "daily", "30 2 * * *", "UTC")
	liveJobs(t, primary, 3, "mail", "send", 1, 90, 0)
	report(t, primary, "w-1", false, 0)
	holds(t, primary, "w-1", 20)
	primary.Pool.Reset()
	second, err := first.StartStandby(ctx, pgserver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = second.StopImmediate(context.Background()) })
	c := newConsole(t, &pgqueuetest.DB{Pool: connect(second), Schema: migrations.DefaultSchema})
	for path, words := range map[string]string{
		"/queues": "mail", "/queues/mail": "Ready 3", "/kinds": "No kind is paused", "/schedules": "daily", "/schedules/daily": "30 2 * * *",
		"/workers": "w-1", "/workers/w-1": "What it holds", "/database": "This is a standby",
	} {
		c.get(path).want(t, http.StatusOK).tells(t, words)
	}
	c.get("/database").want(t, http.StatusOK).tells(t, "A standby has none: nobody can listen here")
	runSQL(t, primary.Pool, `SELECT pgqueue.pause('mail', 'of the primary')`)
	arrived(t, c, "/queues/mail", "of the primary")
	c.get("/database").want(t, http.StatusOK).tells(t, "The last transaction that was replayed here", "Received and not replayed")
	for path, post := range map[string]string{
		"/queues/mail/confirm/pause": "/queues/mail/pause", "/kinds/confirm/pause?kind=k": "/kinds/pause", "/schedules/daily/confirm/disable": "/schedules/daily/disable",
		"/queues/mail/confirm/history": "/queues/mail/history",
	} {
		c.answer(path, post, url.Values{"history": {"slim"}}).want(t, http.StatusServiceUnavailable).tells(t, "actions need the primary")
	}
	if n := countSQL(t, primary.Pool, "pgqueue.audit"); n != 0 {
		t.Errorf("%d lines in the audit log, want none", n)
	}
	onPrimary := newConsole(t, primary)
	onPrimary.get("/database").want(t, http.StatusOK).tells(t, pgserver.StandbyName, "streaming")
}

// arrived waits until a page says something.
func arrived(t *testing.T, c *testConsole, path, words string) {
	t.Helper()
	for until := time.Now().Add(waitAtMost); !strings.Contains(c.get(path).want(t, http.StatusOK).shownText(), words); {
		if time.Now().After(until) {
			t.Fatalf("%s does not say %q", path, words)
		}
	}
}
