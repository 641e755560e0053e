package doctor

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/internal/pgserver"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// soon are thresholds that a test need not wait for.
var soon = Thresholds{TransactionAge: time.Millisecond, XminAge: 1}

// burn takes some transaction numbers.
func burn(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	for range 5 {
		execute(t, pool, `SELECT pg_current_xact_id()`)
	}
}

// The session that holds back vacuum is named with its query, age and application, and ended by the statement.
func TestTheOldestXmin(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	options := Options{Thresholds: soon}
	url := db.URL
	for _, begin := range []string{"BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 42", "BEGIN; SELECT pg_current_xact_id()"} {
		conn := connect(t, url)
		in(t, conn, `SET application_name = 'nightly report'`)
		in(t, conn, begin)
		burn(t, db.Pool)
		f := await(t, db, options, "oldest-xmin", "session")
		for _, part := range []string{"nightly report", "idle in transaction", "postgres", "transaction", "SELECT"} {
			if !strings.Contains(f.Summary, part) {
				t.Errorf("%q is not in: %s", part, f.Summary)
			}
		}
		if all := examine(t, db, Options{Only: []string{"oldest-xmin"}}).Findings; len(all) != 0 {
			t.Errorf("a transaction of a moment is a finding by default: %+v", all)
		}
		apply(t, db, f)
		awaitNone(t, db, options, "oldest-xmin")
	}

	// In another database a session holds back none of our tables; and an idle transaction without a snapshot nobody at all.
	other := connect(t, pgqueuetest.New(t).URL)
	in(t, other, `BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1`)
	idle := connect(t, db.URL)
	in(t, idle, `BEGIN; SELECT 1`)
	awaitNone(t, db, options, "oldest-xmin")
}

func TestPreparedTransactions(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.NewServer(t, pgqueuetest.WithSetting("max_prepared_transactions", "5")).DB(t)
	conn := connect(t, db.URL)
	in(t, conn, `BEGIN; CREATE TABLE mine (n int); PREPARE TRANSACTION 'it''s \mine'`)
	options := Options{Thresholds: soon}
	apply(t, db, await(t, db, options, "prepared-transaction", `it's \mine`))
	awaitNone(t, db, options, "prepared-transaction")
}

func TestReplicationSlots(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.NewServer(t, pgqueuetest.WithSetting("wal_level", "logical")).DB(t)
	execute(t, db.Pool, `SELECT pg_create_physical_replication_slot('standby_2', true)`)
	execute(t, db.Pool, `SELECT pg_create_logical_replication_slot('cdc', 'pgoutput')`)
	if f := await(t, db, Options{}, "replication-slot", "cdc"); f.Severity != Warning {
		t.Errorf("severity %v of %s", f.Severity, f.Summary)
	}
	execute(t, db.Pool, `CREATE TABLE filler AS SELECT repeat('x', 100) FROM generate_series(1, 1000)`)
	options := Options{Thresholds: Thresholds{RetainedWAL: 1000}}
	for _, slot := range []string{"standby_2", "cdc"} {
		f := await(t, db, options, "replication-slot", slot)
		if f.Severity != Error {
			t.Errorf("severity %v of %s", f.Severity, f.Summary)
		}
		apply(t, db, f)
	}
	awaitNone(t, db, options, "replication-slot")
}

// C70: a session that listens inside an open transaction pins the NOTIFY queue of the whole server. It is found, from another database
// too, long before the queue is full.
func TestC70_NotifyQueue(t *testing.T) {
	t.Parallel()
	server := pgqueuetest.NewServer(t)
	db := server.DB(t)
	rogue := connect(t, server.URL())
	in(t, rogue, `LISTEN whatever`)
	in(t, rogue, `BEGIN`)
	in(t, rogue, `SELECT 'rogue'`)
	innocent := connect(t, server.URL())
	in(t, innocent, `BEGIN`)
	in(t, innocent, `SELECT 'innocent'`)
	sender := connect(t, server.URL())
	for i := range 40 {
		in(t, sender, `SELECT pg_notify('whatever', repeat('x', 7000) || '`+strings.Repeat("y", i)+`')`)
	}
	options := Options{Thresholds: Thresholds{NotifyUsage: 1e-6}}
	f := await(t, db, options, "notify-queue", "notify queue")
	if !strings.Contains(f.Summary, "SELECT 'rogue'") || f.Severity != Error {
		t.Errorf("%+v", f)
	}
	if all := examine(t, db, Options{Only: []string{"notify-queue"}}).Findings; len(all) != 0 {
		t.Errorf("by default, %+v", all)
	}
	apply(t, db, f)
	awaitNone(t, db, options, "notify-queue")
}

// A primary and a standby that streams from it, made of a copy: reports run on the standby, tell what a standby is, and find there what
// holds back vacuum on the primary.
func TestAStandby(t *testing.T) {
	t.Parallel()
	primaryDir := filepath.Join(t.TempDir(), "primary")
	standbyDir := filepath.Join(t.TempDir(), "standby")
	start := func(options pgserver.Options) (*pgserver.Server, *pgqueuetest.DB) {
		server, err := pgserver.Start(t.Context(), options)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = server.Stop(context.WithoutCancel(t.Context())) })
		pool, err := pgxpool.New(t.Context(), server.URL("postgres"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		return server, &pgqueuetest.DB{Pool: pool, URL: server.URL("postgres"), Schema: "pgqueue"}
	}
	server, primary := start(pgserver.Options{DataDir: primaryDir})
	migrate(t, primary, "pgqueue")
	primary.Pool.Close()
	if err := server.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if output, err := exec.CommandContext(t.Context(), "cp", "-Rp", primaryDir, standbyDir).CombinedOutput(); err != nil {
		t.Fatalf("copy: %v %s", err, output)
	}
	signals, err := filepath.Glob(filepath.Join(standbyDir, "*", "PG_VERSION"))
	if err != nil || len(signals) != 1 {
		t.Fatalf("the data directory is not where it was: %v %v", signals, err)
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(signals[0]), "standby.signal"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	server, primary = start(pgserver.Options{DataDir: primaryDir})
	_, standby := start(pgserver.Options{DataDir: standbyDir, Settings: map[string]string{
		"primary_conninfo":     strings.Replace(server.URL("postgres"), "postgres?", "postgres?application_name=replica&", 1),
		"hot_standby_feedback": "on", "wal_receiver_status_interval": "1s",
	}})

	// A viewer's report is complete there, and the standby is a note; for a worker it is a warning.
	report := examine(t, standby, Options{})
	if got := report.Of("standby"); len(got) != 1 || got[0].Severity != Info || !report.Server.Standby || len(report.Checked) != len(Checks()) {
		t.Errorf("on the standby: %s", report)
	}
	for _, s := range report.Skipped {
		if s.Check != "rights" {
			t.Errorf("skipped on the standby: %+v", s)
		}
	}
	worker := Options{Roles: []Role{{Purposes: []Purpose{Worker}}}}
	f := await(t, standby, worker, "standby", "server")
	if f.Severity != Warning || len(f.FixSQL) != 0 { // a statement would be executed, and split the cluster
		t.Errorf("for a worker, %+v", f)
	}
	requireComplete(t, f)

	// A long query there holds back vacuum here.
	reader := connect(t, standby.URL)
	in(t, reader, `BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pgqueue.jobs`)
	for range 5 {
		burn(t, primary.Pool)
	}
	options := Options{Thresholds: soon}
	requireComplete(t, await(t, primary, options, "standby-feedback", ""))
	in(t, reader, `ROLLBACK`)
	burn(t, primary.Pool)
	options.Thresholds.XminAge = 20
	awaitNone(t, primary, options, "standby-feedback")

	execute(t, standby.Pool, `SELECT pg_promote()`)
	awaitNone(t, standby, worker, "standby")
}

func TestConnectionsRunOut(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.NewServer(t, pgqueuetest.WithSetting("max_connections", "20"), pgqueuetest.WithSetting("max_wal_senders", "0")).DB(t)
	options := Options{Thresholds: Thresholds{Connections: 0.5}}
	awaitNone(t, db, options, "connections")
	for range 11 {
		connect(t, db.URL)
	}
	requireComplete(t, await(t, db, options, "connections", "server"))
	execute(t, db.Pool, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name = ''`)
	awaitNone(t, db, options, "connections")
	eventually(t, "the sessions are gone", func() bool {
		return value[int](t, db.Pool, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = ''`) == 0
	})

	// The limits of the database and of a role.
	execute(t, db.Pool, `CREATE ROLE app LOGIN CONNECTION LIMIT 1`)
	execute(t, db.Pool, `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I CONNECTION LIMIT 12', current_database()); END $$`)
	app := as(t, db, "app")
	execute(t, app.Pool, `SELECT 1`)
	named := Options{Roles: []Role{{Name: "app"}}, Thresholds: Thresholds{Connections: 0.1}}
	apply(t, db, await(t, db, named, "connections", "role app"))
	apply(t, db, await(t, db, named, "connections", "database"))
	named.Thresholds = Thresholds{}
	awaitNone(t, db, named, "connections")
}
