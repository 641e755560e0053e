package main

import (
	"bytes"
	"log/slog"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// TestMain lets the test binary be its own worker process, as the program is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == workerCommand {
		os.Exit(command(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// runCommand runs the program on this database and returns the exit code, what it printed, and the last line of that.
func runCommand(t *testing.T, url string, args ...string) (code int, output, last string) {
	t.Helper()
	t.Setenv("DATABASE_URL", url)
	var out, errs bytes.Buffer
	code = command(args, strings.NewReader(""), &out, &errs)
	output = out.String() + errs.String()
	lines := strings.Split(strings.TrimSpace(output), "\n")
	return code, output, lines[len(lines)-1]
}

func database(t testing.TB) *pgqueuetest.DB {
	t.Helper()
	return pgqueuetest.New(t, pgqueuetest.WithoutMigrations()) // the example needs no table of pgqueue's
}

var lastLine = regexp.MustCompile(`^outbox ok notifications=(\d+) delivered=(\d+) failed=(\d+) dead=(\d+) sends=(\d+) rate_limited=(\d+) ` +
	`repeated=(\d+) doubled=0 lost=0 interrupted=(\d+) recovered_s=(\d+)\.\d seconds=\d+\.\d$`)

// TestDemo runs the whole thing on a few notifications, with a kill.
func TestDemo(t *testing.T) {
	db := database(t)
	const notifications = 600
	// Few workers, so that the kill finds some at work, and a timeout that a busy machine keeps.
	code, output, last := runCommand(t, db.URL, "-notifications", strconv.Itoa(notifications), "-workers", "6", "-timeout", "1s", "-backoff", "100ms")
	match := lastLine.FindStringSubmatch(last)
	if code != 0 || match == nil {
		t.Fatalf("exit code %d:\n%s", code, output)
	}
	n := make([]int, len(match))
	for i, text := range match[1:] {
		n[i+1], _ = strconv.Atoi(text)
	}
	total, delivered, failed, dead, sends, limited, repeated, interrupted, recovered := n[1], n[2], n[3], n[4], n[5], n[6], n[7], n[8], n[9]
	if total != notifications || delivered+failed+dead != total || failed == 0 || dead == 0 {
		t.Errorf("the counts do not add up: %s", last)
	}
	if sends <= total || limited == 0 || repeated == 0 {
		t.Errorf("the providers were too good: %s", last)
	}
	// The claims of the killed process hold for a lease from when they were made, and each send that it had begun was at
	// most a timeout old: sooner means that nobody was killed.
	if least := (options{workers: 6, timeout: time.Second}).lease() - 3*time.Second; interrupted == 0 || time.Duration(recovered+1)*time.Second < least {
		t.Errorf("was anybody killed? %s", last)
	}
	var rows int
	if err := db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM notify.deliveries WHERE status = 'delivered' AND receipt IS NOT NULL`).Scan(&rows); err != nil {
		t.Fatal(err)
	}
	if rows != delivered {
		t.Errorf("%d rows are delivered, the program said %d", rows, delivered)
	}
	if code, output, last := runCommand(t, db.URL, "-notifications", "10"); code != 1 || !strings.Contains(last, "of an earlier run") {
		t.Errorf("a second run on the same tables: exit code %d:\n%s", code, output)
	}
}

func TestBadInputEndsWithOneClearLine(t *testing.T) {
	for _, args := range [][]string{{"-notifications", "0"}, {"-workers", "1"}, {"-timeout", "0s"}, {"-backoff", "-1s"}, {"-seed", "x"}, {"more"}} {
		if code, output, _ := runCommand(t, "", args...); code != 2 || output == "" {
			t.Errorf("%q: exit code %d, %q", args, code, output)
		}
	}
	if code, output, last := runCommand(t, "postgres://127.0.0.1:1/nothing"); code != 1 || !strings.HasPrefix(last, "outbox failed: connect to the database") {
		t.Errorf("exit code %d:\n%s", code, output)
	}
	if code, _, _ := runCommand(t, "", "-help"); code != 0 {
		t.Errorf("-help: exit code %d", code)
	}
}

func TestSQLIsPrinted(t *testing.T) {
	code, output, _ := runCommand(t, "postgres://127.0.0.1:1/nothing", "sql")
	if code != 0 || !strings.Contains(output, "-- claim\n") || !strings.Contains(output, `"notify"."deliveries"`) {
		t.Errorf("exit code %d:\n%s", code, output)
	}
}

// The tables are as the description says, and have the indexes that package outbox wants.
func TestTheDescriptionFitsTheTables(t *testing.T) {
	db := database(t)
	if _, err := db.Pool.Exec(t.Context(), schemaSQL); err != nil {
		t.Fatal(err)
	}
	queue, err := newQueue(db.Pool, options{workers: 24, timeout: time.Second, backoff: time.Second}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	report, err := queue.Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, warning := range report.Warnings {
		t.Errorf("%s; run %s", warning.Message, warning.Statement)
	}
}

// However the flags are set, a claim holds for long enough: package outbox would refuse one that does not.
func TestTheLeaseCoversTheWorstCase(t *testing.T) {
	db := database(t)
	for _, workers := range []int{2, 3, 24, 31, 32, 33, 500} {
		for _, timeout := range []time.Duration{time.Millisecond, 500 * time.Millisecond, 10 * time.Second, time.Hour} {
			if _, err := newQueue(db.Pool, options{workers: workers, timeout: timeout, backoff: time.Second}, slog.New(slog.DiscardHandler)); err != nil {
				t.Errorf("workers %d, timeout %v: %v", workers, timeout, err)
			}
		}
	}
}

// What was rolled back does not exist, and there are exactly as many as were asked for.
func TestProduce(t *testing.T) {
	db := database(t)
	if _, err := db.Pool.Exec(t.Context(), schemaSQL); err != nil {
		t.Fatal(err)
	}
	if err := produce(t.Context(), db.Pool, 1010); err != nil {
		t.Fatal(err)
	}
	var notifications, deliveries, highest int
	err := db.Pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM notify.notifications), count(*), max(notification_id) FROM notify.deliveries`).
		Scan(&notifications, &deliveries, &highest)
	if err != nil {
		t.Fatal(err)
	}
	if notifications != 1010 || deliveries != 1010 || highest <= 1010 {
		t.Errorf("%d notifications and %d deliveries, the highest is %d: want 1010 of each, and some that were rolled back", notifications, deliveries, highest)
	}
}
