package doctor

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/migrations"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// patience is how long a test waits for what must happen; only a broken program makes it wait so long.
const patience = 60 * time.Second

// odd is a schema that needs quoting.
const odd = `My "jobs"; --`

// sprintf is fmt.Sprintf.
func sprintf(format string, args ...any) string { return fmt.Sprintf(format, args...) }

func execute(t testing.TB, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// value returns the single value of a query.
func value[T any](t testing.TB, pool *pgxpool.Pool, sql string, args ...any) (v T) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), sql, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// connect opens a session of the test's own.
func connect(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

// in runs SQL on a session.
func in(t testing.TB, conn *pgx.Conn, sql string) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func migrate(t testing.TB, db *pgqueuetest.DB, schema string) {
	t.Helper()
	if err := migrations.Up(t.Context(), db.Pool, schema, migrations.WithLogger(slog.New(slog.DiscardHandler))); err != nil {
		t.Fatal(err)
	}
}

// examine is Examine, which must work.
func examine(t testing.TB, db *pgqueuetest.DB, options Options) *Report {
	t.Helper()
	options.Schema = db.Schema
	report, err := Examine(t.Context(), db.Pool, options)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// quiet leaves out what the servers of tests are like: they are started without fsync.
func quiet(found []Finding) []Finding {
	return slices.DeleteFunc(slices.Clone(found), func(f Finding) bool { return f.Check == "setting-durability" && f.Subject == "server" })
}

// eventually waits until ready says so.
func eventually(t testing.TB, what string, ready func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ready() {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
		<-tick.C
	}
}

// await examines until a finding is there: statistics and slots need a moment.
func await(t testing.TB, db *pgqueuetest.DB, options Options, check, subject string) Finding {
	t.Helper()
	var found Finding
	options.Only = []string{check}
	eventually(t, check+" finds "+subject, func() bool {
		report := examine(t, db, options)
		for _, s := range report.Skipped {
			t.Fatalf("skipped: %+v", s)
		}
		for _, f := range report.Findings {
			if strings.Contains(f.Subject, subject) {
				found = f
				return true
			}
		}
		return false
	})
	return found
}

// awaitNone examines until a check finds nothing more.
func awaitNone(t testing.TB, db *pgqueuetest.DB, options Options, check string) {
	t.Helper()
	options.Only = []string{check}
	var last *Report
	well := false
	defer func() {
		if !well {
			t.Log(last)
		}
	}()
	eventually(t, check+" finds nothing more", func() bool {
		last = examine(t, db, options)
		well = len(quiet(last.Findings)) == 0
		return well
	})
}

// apply executes the statements of a finding as they stand, each by itself.
func apply(t testing.TB, db *pgqueuetest.DB, f Finding) {
	t.Helper()
	requireComplete(t, f)
	if len(f.FixSQL) == 0 {
		t.Errorf("%s of %s has no statement", f.Check, f.Subject)
	}
	for _, sql := range f.FixSQL {
		execute(t, db.Pool, sql)
	}
}

// requireComplete checks that a finding says what, why and how.
func requireComplete(t testing.TB, f Finding) {
	t.Helper()
	if f.Check == "" || f.Severity == 0 || f.Subject == "" || f.Summary == "" || f.Why == "" || f.Fix == "" {
		t.Errorf("a finding lacks something: %+v", f)
	}
}

// sentStatement is a statement as it was sent.
type sentStatement struct {
	sql  string
	args []any
}

// statementsSent is a tracer that keeps every statement.
type statementsSent struct {
	mutex sync.Mutex
	all   []sentStatement
}

// TraceQueryStart implements pgx.QueryTracer.
func (s *statementsSent) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.all = append(s.all, sentStatement{data.SQL, data.Args})
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (s *statementsSent) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (s *statementsSent) take() []sentStatement {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return slices.Clone(s.all)
}
