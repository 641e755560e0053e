package jobstore_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/pgqueue/internal/jobstore"
	"github.com/pgqueue/pgqueue/runner"
)

// insertKind writes n due jobs of a kind.
func (f *fixture) insertKind(kind string, n int) {
	f.Helper()
	f.exec(`INSERT INTO %s.jobs (queue, kind) SELECT $1, $2 FROM generate_series(1, $3::int)`, queueName, kind, n)
}

// claimKinds counts what a claim brings, by kind.
func (f *fixture) claimKinds(limit int) map[string]int {
	f.Helper()
	counts := map[string]int{}
	for _, task := range f.claim(limit) {
		counts[task.Kind]++
	}
	return counts
}

// await looks until something is true; the deadline is the fixture's.
func (f *fixture) await(what string, done func() bool) {
	f.Helper()
	for !done() {
		if f.ctx.Err() != nil {
			f.Fatalf("%s: it never came", what)
		}
		must(f.pool.Exec(f.ctx, `SELECT pg_sleep(0.01)`))(f)
	}
}

func (f *fixture) pausedKinds() []string {
	var names []string
	for _, p := range f.queue.PausedKinds() {
		names = append(names, p.Kind)
	}
	slices.Sort(names)
	return names
}

// The claim leaves out paused kinds, whatever form the answer comes in, and a kind that goes on is found at once, although the marks have
// passed its jobs.
func TestClaimLeavesOutPausedKinds(t *testing.T) {
	t.Parallel()
	for _, m := range everyMode(t) {
		f := open(t, mode(m), kinds("a", `b "2"`, "c"))
		f.insertKind("a", 3)
		f.insertKind(`b "2"`, 3)
		f.insertKind("c", 3)
		f.exec(`SELECT %s.pause_kind('b "2"'), %[1]s.pause_kind('c', $1, now() + interval '1 h'), %[1]s.pause_kind('a', 'another'), %[1]s.pause_kind('a', $1, now())`, queueName)
		if got := f.claimKinds(10); len(got) != 1 || got["a"] != 3 {
			t.Fatalf("%s: claimed %v, want those of a", m, got)
		}
		if got := f.pausedKinds(); !slices.Equal(got, []string{`b "2"`, "c"}) {
			t.Fatalf("%s: paused %v", m, got)
		}
		for _, p := range f.queue.PausedKinds() {
			if left := time.Until(p.Until); p.Until.IsZero() == (p.Kind == "c") || p.Kind == "c" && (left < 50*time.Minute || left > time.Hour+time.Minute) {
				t.Errorf("%s: %s is paused until %s", m, p.Kind, p.Until)
			}
		}
		for range 3 { // the marks of what is asked now move on
			if got := f.claimKinds(10); len(got) != 0 {
				t.Fatalf("%s: claimed %v", m, got)
			}
			f.queue.OnlyMarks()
		}
		f.exec(`UPDATE %s.jobs SET run_at = run_at - interval '1 h' WHERE state = 'pending'`) // far behind any mark
		f.exec(`SELECT %s.resume_kind('b "2"')`)
		if got := f.claimKinds(10); got[`b "2"`] != 3 || len(got) != 1 {
			t.Fatalf("%s: after the pause of b: %v", m, got)
		}
		f.exec(`SELECT %s.resume_kind('c', $1)`, queueName)
		if wait, ok, err := f.queue.NextDue(f.ctx); err != nil || !ok || wait > 0 {
			t.Errorf("%s: NextDue = %v, %v, %v, want now: a kind goes on", m, wait, ok, err)
		}
		if got := f.claimKinds(10); got["c"] != 3 {
			t.Fatalf("%s: after the pause of c: %v", m, got)
		}
	}
}

// The probe does not take jobs of paused kinds for due, and tells when they will be.
func TestProbeLeavesOutPausedKinds(t *testing.T) {
	t.Parallel()
	f := open(t, kinds("a", "b"))
	f.insertKind("b", 5)
	f.exec(`SELECT %s.pause_kind('b')`)
	if wait, ok, err := f.queue.NextDue(f.ctx); err != nil || ok {
		t.Fatalf("NextDue = %v, %v, %v, want nothing", wait, ok, err)
	}
	f.exec(`INSERT INTO %s.jobs (queue, kind, run_at) VALUES ($1, 'a', now() + interval '2 h')`, queueName)
	near := func(want time.Duration) {
		t.Helper()
		if wait, ok, err := f.queue.NextDue(f.ctx); err != nil || !ok || wait > want || wait < want-time.Minute {
			t.Fatalf("NextDue = %v, %v, %v, want about %s", wait, ok, err, want)
		}
	}
	near(2 * time.Hour)
	f.exec(`SELECT %s.resume_kind('b'), %[1]s.pause_kind('b', until => now() + interval '1 h'), %[1]s.pause_kind('theirs', until => now() + interval '1 min')`)
	near(time.Hour)
	f.exec(`SELECT %s.pause_until($1, now() + interval '3 h')`, queueName)
	var paused *runner.PausedError
	if _, _, err := f.queue.NextDue(f.ctx); !errors.As(err, &paused) || paused.For > 3*time.Hour || paused.For < 3*time.Hour-time.Minute {
		t.Fatalf("of a paused queue: %v", err)
	}
	if _, err := f.queue.Claim(f.ctx, runner.ClaimRequest{Limit: 1, Lease: time.Minute}); !errors.As(err, &paused) || paused.For < 3*time.Hour-time.Minute {
		t.Fatalf("a claim of a paused queue: %v", err)
	}
	f.exec(`SELECT %s.pause($1)`, queueName)
	if _, _, err := f.queue.NextDue(f.ctx); !errors.Is(err, runner.ErrPaused) || errors.As(err, new(*runner.PausedError)) {
		t.Fatalf("of a queue that is paused until somebody resumes it: %v", err)
	}
}

// A pause whose time has come is none, for claims, probes and numbers, although nobody has cleared it.
func TestPausesEndByTheDatabasesClock(t *testing.T) {
	t.Parallel()
	f := open(t, kinds("a", "b"))
	f.insertKind("a", 1)
	f.insertKind("b", 1)
	f.exec(`SELECT %s.pause_until($1, statement_timestamp() + interval '700 ms', 'why'), %[1]s.pause_kind('b', until => statement_timestamp() + interval '1400 ms')`, queueName)
	ends := query1[time.Time](f, `SELECT paused_until FROM %s.queues`)
	endsB := query1[time.Time](f, `SELECT paused_until FROM %s.paused_kinds`)
	stats := must(f.store.Stats(f.ctx, f.pool, []string{queueName}, 10))(t)
	if !stats[0].PausedUntil.Equal(ends) || stats[0].PausedReason != "why" || stats[0].PausedAt.IsZero() {
		t.Errorf("while it is paused: %+v", stats[0])
	}
	first := map[string]time.Time{}
	f.await("both jobs", func() bool {
		tasks, err := f.queue.Claim(f.ctx, runner.ClaimRequest{Limit: 10, Lease: time.Minute})
		if err != nil && !errors.Is(err, runner.ErrPaused) {
			t.Fatal(err)
		}
		for _, task := range tasks {
			first[task.Kind] = task.Claimed
		}
		return len(first) == 2
	})
	if first["a"].Before(ends) || first["b"].Before(endsB) {
		t.Errorf("claimed at %v, the pauses ended at %s and %s", first, ends, endsB)
	}
	if n := query1[int](f, `SELECT (SELECT count(*) FROM %s.queues WHERE paused_at IS NOT NULL) + (SELECT count(*) FROM %[1]s.paused_kinds)`); n != 2 {
		t.Fatalf("somebody has cleared them: the test shows nothing")
	}
	stats = must(f.store.Stats(f.ctx, f.pool, []string{queueName}, 10))(t)
	if !stats[0].PausedAt.IsZero() || !stats[0].PausedUntil.IsZero() || stats[0].PausedReason != "" {
		t.Errorf("after its end: %+v", stats[0])
	}
	if list := must(f.store.PausedKinds(f.ctx, f.pool, 10))(t); len(list) != 0 {
		t.Errorf("after its end: %+v", list)
	}
	if f.exec(`SELECT %s.resume($1), %[1]s.resume_kind('b')`, queueName); query1[bool](f, `SELECT %s.resume($1)`, queueName) {
		t.Error("a pause that had ended was resumed")
	}
}

// statementCounts counts the claims that are sent.
type statementCounts struct{ claims, probes atomic.Int64 }

func (s *statementCounts) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if strings.Contains(data.SQL, "claimed_generation = j.generation") {
		s.claims.Add(1)
	}
	if strings.Contains(data.SQL, "took_us") {
		s.probes.Add(1)
	}
	return ctx
}
func (s *statementCounts) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// A claim for a paused kind walks over all of its jobs to find none: none is sent, but for the one that finds out.
func TestBacklogOfAPausedKindIsNotWalked(t *testing.T) {
	t.Parallel()
	sent := &statementCounts{}
	f := open(t, kinds("b"), traced(sent))
	f.insertKind("b", 5000)
	f.exec(`SELECT %s.pause_kind('b')`)
	for range 5 {
		if got := f.claimKinds(10); len(got) != 0 {
			t.Fatalf("claimed %v", got)
		}
	}
	if n := sent.claims.Load(); n != 1 || sent.probes.Load() != 4 {
		t.Errorf("%d claims and %d probes were sent, want 1 and 4", n, sent.probes.Load())
	}
	f.exec(`SELECT %s.resume_kind('b')`)
	if got := f.claimKinds(10); got["b"] != 10 {
		t.Errorf("after the pause: %v", got)
	}
}

// The table of paused kinds is read once a claim, whether it is empty or not, and the plan is the same: nothing is looked up by row.
func TestClaimPlanWithPausedKinds(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.exec(`ALTER TABLE %s.jobs SET (autovacuum_enabled = off)`)
	f.exec(`VACUUM ANALYZE %s.jobs`)
	f.insert(5000)
	for _, n := range []int{0, 1000} {
		f.exec(`INSERT INTO %s.paused_kinds (kind, queue) SELECT 'other ' || n, CASE WHEN n %% 2 = 0 THEN $1 ELSE '' END FROM generate_series(1, $2::int) n`, queueName, n)
		f.exec(`ANALYZE %s.paused_kinds`)
		rows := must(f.pool.Query(f.ctx, "EXPLAIN (ANALYZE) "+f.store.ClaimSQL(), pgx.QueryExecModeExec, queueName, 10, int64(1e9), "w", []string{"k"},
			[]int16{1, 2, 3, 4}, []string{"-infinity", "-infinity", "-infinity", "-infinity"}, []int64{0, 0, 0, 0}))(t)
		plan := strings.Join(must(pgx.CollectRows(rows, pgx.RowTo[string]))(t), "\n")
		if !strings.Contains(plan, "Index Scan using jobs_ready on jobs") || strings.Contains(plan, "Seq Scan on jobs") || strings.Contains(plan, "Sort") {
			t.Errorf("%d kinds are paused, and the claim does not walk its index:\n%s", n, plan)
		}
		scans := regexp.MustCompile(`paused_kinds h.*loops=(\d+)`).FindAllStringSubmatch(plan, -1)
		for _, scan := range scans {
			if scan[1] != "1" {
				t.Errorf("%d kinds are paused, and the table is read %s times:\n%s", n, scan[1], plan)
			}
		}
		if len(scans) == 0 {
			t.Errorf("no scan was found in\n%s", plan)
		}
	}
}

// Where the statistics say that one kind is nearly all there is, leaving paused kinds out must not look as if it left hardly a row: the
// claim would read and sort the backlog.
func TestClaimPlanWithOneFrequentKind(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.exec(`ALTER TABLE %s.jobs SET (autovacuum_enabled = off)`)
	f.insert(20_000)
	f.exec(`VACUUM ANALYZE %s.jobs`)
	for _, kinds := range [][]string{nil, {"k"}} {
		rows := must(f.pool.Query(f.ctx, "EXPLAIN (ANALYZE) "+f.store.ClaimSQL(), pgx.QueryExecModeExec, queueName, 100, int64(1e9), "w", kinds,
			[]int16{1, 2, 3, 4}, []string{"-infinity", "-infinity", "-infinity", "-infinity"}, []int64{0, 0, 0, 0}))(t)
		plan := strings.Join(must(pgx.CollectRows(rows, pgx.RowTo[string]))(t), "\n")
		walk := regexp.MustCompile(`Index Scan using jobs_ready on jobs r .* rows=(\d+) width.*actual time`).FindStringSubmatch(plan)
		if walk == nil || len(walk[1]) < 3 || strings.Contains(plan, "Sort") {
			t.Errorf("kinds %q: the claim does not walk its index as one of which most rows pass:\n%s", kinds, plan)
		}
	}
}

// A job of a paused kind waits for the end of the pause, not for a worker that knows it.
func TestUnknownKindsLeavesOutPausedOnes(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.insertKind("unknown", 2)
	f.exec(`INSERT INTO %s.jobs (queue, kind) VALUES ('other', 'unknown')`)
	look := func(want string) {
		t.Helper()
		found := must(f.store.UnknownKinds(f.ctx, f.pool, []string{queueName, "other"}, []string{"k"}))(t)
		if got := fmt.Sprint(found); got != want {
			t.Errorf("found %s, want %s", got, want)
		}
	}
	look(fmt.Sprint(map[string]string{queueName: "unknown", "other": "unknown"}))
	f.exec(`SELECT %s.pause_kind('unknown', $1)`, queueName)
	look("map[other:unknown]")
	f.exec(`SELECT %s.pause_kind('unknown')`)
	look("map[]")
}

// Every heartbeat clears what has ended, so that programs that know paused_at alone go on, and wakes them.
func TestHeartbeatsClearEndedPauses(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.exec(`INSERT INTO %s.queues (name, paused_at, paused_until, paused_reason) VALUES ('ended', now(), now() - interval '1 s', 'r'), ('later', now(), now() + interval '1 h', 'r'),
		('endless', now(), NULL, 'r'), ('locked', now(), now() - interval '1 s', 'r')`)
	f.exec(`INSERT INTO %s.paused_kinds (kind, paused_until) VALUES ('ended', now() - interval '1 s'), ('later', now() + interval '1 h'), ('endless', NULL)`)
	tx := must(f.pool.Begin(f.ctx))(t)
	must(tx.Exec(f.ctx, f.sql(`SELECT FROM %s.queues WHERE name = 'locked' FOR UPDATE`)))(t)
	beat := func() {
		t.Helper()
		if err := f.store.Heartbeat(f.ctx, f.pool, jobstore.Heartbeat{ID: "w1", Host: "h", PID: 1, Every: 5 * time.Second, Queues: "{}", Kinds: "{}"}); err != nil {
			t.Fatal(err)
		}
	}
	beat() // and does not wait for the locked row
	const left = `SELECT string_agg(x, ' ' ORDER BY x) FROM (SELECT name FROM %s.queues WHERE paused_at IS NOT NULL UNION ALL SELECT 'kind ' || kind FROM %[1]s.paused_kinds) p(x)`
	if got := query1[string](f, left); got != "endless kind endless kind later later locked" {
		t.Errorf("still paused: %s", got)
	}
	if n := query1[int](f, `SELECT count(*) FROM %s.queues WHERE name = 'ended' AND paused_until IS NULL AND paused_reason IS NULL`); n != 1 {
		t.Error("the pause left something behind")
	}
	_ = tx.Rollback(f.ctx)
	beat()
	if got := query1[string](f, left); got != "endless kind endless kind later later" {
		t.Errorf("still paused: %s", got)
	}
}
