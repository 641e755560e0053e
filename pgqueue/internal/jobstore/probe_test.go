package jobstore_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pgqueue/pgqueue/pgqueue/internal/jobstore"
	"github.com/pgqueue/pgqueue/runner"
)

// several makes consumers of more queues in one fixture.
func several(f *fixture, names ...string) []*jobstore.Queue {
	f.Helper()
	var queues []*jobstore.Queue
	for _, name := range names {
		queues = append(queues, must(f.store.Queue(f.pool, jobstore.QueueConfig{Name: name, WorkerID: "w1", Kinds: []string{"k"}}))(f))
	}
	return queues
}

func TestProbeOfSeveralQueues(t *testing.T) {
	t.Parallel()
	f := open(t)
	queues := several(f, "later", "empty", "now's", "paused", "theirs")
	f.exec(`INSERT INTO %s.jobs (queue, kind, priority, run_at) VALUES ('later', 'k', 3, now() + '1 h'), ('later', 'k', 1, now() + '2 h'),
		('now''s', 'k', 4, now()), ('paused', 'k', 1, now()), ('theirs', 'other', 1, now()), ('elsewhere', 'k', 1, now())`)
	if err := f.store.Pause(f.ctx, f.pool, "paused", ""); err != nil {
		t.Fatal(err)
	}
	for range 3 { // with marks of any age
		probes := must(jobstore.Probe(f.ctx, queues))(t)
		if p := probes[0]; p.Paused || !p.Scheduled || p.Wait < 50*time.Minute || p.Wait > time.Hour {
			t.Errorf("later: %+v", p)
		}
		if p := probes[2]; p.Paused || !p.Scheduled || p.Wait > 0 {
			t.Errorf("now: %+v", p)
		}
		if p := probes[3]; !p.Paused {
			t.Errorf("paused: %+v", p)
		}
		for _, i := range []int{1, 4} {
			if p := probes[i]; p.Paused || p.Scheduled {
				t.Errorf("queue %d: %+v", i, p)
			}
		}
		for _, q := range queues {
			q.OnlyMarks()
		}
	}
	if _, err := jobstore.Probe(f.ctx, []*jobstore.Queue{queues[0], f.queue}); err == nil {
		t.Error("queues of different kinds were probed together")
	}
	if probes, err := jobstore.Probe(f.ctx, nil); err != nil || len(probes) != 0 {
		t.Errorf("no queue: %v, %v", probes, err)
	}
}

// Each queue is read from its own marks, wherever it stands in the list.
func TestProbeReadsFromEachQueuesMarks(t *testing.T) {
	t.Parallel()
	f := open(t)
	queues := several(f, "claimed", "fresh")
	if tasks := must(queues[0].Claim(f.ctx, runner.ClaimRequest{Limit: 1, Lease: time.Minute}))(t); len(tasks) > 0 {
		t.Fatal("something was claimed")
	}
	must(jobstore.Probe(f.ctx, queues))(t)
	for _, order := range [][]int{{0, 1}, {1, 0}} {
		// Below the marks of the first, which has been claimed from, and not below those of the second.
		f.exec(`DELETE FROM %s.jobs`)
		f.exec(`INSERT INTO %s.jobs (queue, kind, priority, run_at) SELECT queue, 'k', priority, now() - interval '1 h'
			FROM unnest(ARRAY['claimed', 'fresh']) queue, generate_series(1, 4) priority`)
		for _, q := range queues {
			q.OnlyMarks()
		}
		probes := must(jobstore.Probe(f.ctx, []*jobstore.Queue{queues[order[0]], queues[order[1]]}))(t)
		if claimed, fresh := probes[order[0]], probes[order[1]]; claimed.Scheduled || !fresh.Scheduled {
			t.Errorf("order %v: from the mark %+v, from the beginning %+v", order, claimed, fresh)
		}
	}
}

// Each queue's own cost rations its full scans: one that walks the dead must not make the others look dear.
func TestProbeMeasuresEachQueue(t *testing.T) {
	t.Parallel()
	f := open(t)
	queues := several(f, "clean before", "dirty", "clean after")
	f.exec(`ALTER TABLE %s.jobs SET (autovacuum_enabled = off)`)
	f.exec(`INSERT INTO %s.jobs (queue, kind) SELECT 'dirty', 'k' FROM generate_series(1, 40000)`)
	horizon := must(f.pool.BeginTx(f.ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}))(t)
	t.Cleanup(func() { _ = horizon.Rollback(f.ctx) })
	must(horizon.Exec(f.ctx, `SELECT`))(t)
	f.exec(`DELETE FROM %s.jobs`)
	best := [3]time.Duration{time.Hour, time.Hour, time.Hour}
	for range 5 {
		must(jobstore.Probe(f.ctx, queues))(t)
		for i, q := range queues {
			best[i] = min(best[i], q.LastFullCost())
			q.FullScan()
		}
	}
	if best[1] < time.Millisecond || best[1] < 3*best[0] || best[1] < 3*best[2] {
		t.Errorf("the scans cost %v, want the second to be the dear one", best)
	}
}

// What is asked often or of a whole database walks indexes and stops at its bound, whatever the statistics say: they may be
// fresh, or from when the table was empty.
func TestPlansOfProbeAndStats(t *testing.T) {
	t.Parallel()
	for _, fresh := range []bool{true, false} {
		f := open(t)
		f.exec(`ALTER TABLE %s.jobs SET (autovacuum_enabled = off)`)
		f.exec(`ALTER TABLE %s.history_attention SET (autovacuum_enabled = off)`)
		f.exec(`VACUUM ANALYZE %s.jobs`)
		f.exec(`INSERT INTO %s.jobs (queue, kind, priority, run_at, state, claimed_at, lease_expires_at)
			SELECT 'q' || g %% 3, 'k', 1 + g %% 4, now() + CASE WHEN g %% 7 < 3 THEN 1 ELSE -1 END * interval '1 h',
				CASE WHEN g %% 5 = 0 THEN 'running' ELSE 'pending' END, now(), now() FROM generate_series(1, 60000) g`)
		f.exec(`INSERT INTO %s.history (id, run_at, created_at, finished_at, day, attempt, generation, error_count, priority, failures,
				max_attempts, queue, kind, state, payload, metadata, tags)
			SELECT g, now(), now(), now(), 'infinity', 1, 1, 1, 1, 1, 1, 'q' || g %% 3, 'k', 'dead', '{}', '{}', '{}' FROM generate_series(1, 20000) g`)
		if fresh {
			f.exec(`ANALYZE %[1]s.jobs; ANALYZE %[1]s.history`)
		}
		begin := []string{"-infinity", "-infinity", "-infinity", "-infinity"}
		for name, args := range map[string][]any{
			"probe":  {[]string{"q0", "q1"}, append(begin, begin...), make([]int64, 8), []string{"k"}},
			"stats":  {[]string{"q0", "q1"}, 1000},
			"queues": {100},
			"read":   {int64(7)},
		} {
			tx := must(f.pool.Begin(f.ctx))(t)
			if name == "stats" || name == "queues" {
				must(tx.Exec(f.ctx, f.store.SQL("by_index")))(t)
			}
			args = append([]any{pgx.QueryExecModeExec}, args...)
			rows := must(tx.Query(f.ctx, "EXPLAIN (ANALYZE, TIMING OFF) "+f.store.SQL(name), args...))(t)
			plan := strings.Join(must(pgx.CollectRows(rows, pgx.RowTo[string]))(t), "\n")
			_ = tx.Rollback(f.ctx)
			for _, bad := range []string{"Seq Scan on jobs", "Seq Scan on history_attention", "Bitmap Heap Scan on (?:jobs|history)", `Rows Removed by Filter: \d{3}`, "JIT"} {
				// A bitmap of one row by its primary key is as good as an index scan.
				if regexp.MustCompile(bad).MatchString(plan) && (name != "read" || !strings.HasPrefix(bad, "Bitmap")) {
					t.Errorf("%s has a %s:\n%s", name, bad, plan)
				}
			}
			scans := regexp.MustCompile(`Scan[^\n]* on (?:jobs|history_attention)[^\n]*rows=(\d+)(?:\.\d+)? loops`).FindAllStringSubmatch(plan, -1)
			for _, scan := range scans {
				var n int
				if _, err := fmt.Sscan(scan[1], &n); err != nil || n > 1001 {
					t.Errorf("%s reads %d rows of a range, %v:\n%s", name, n, err, plan)
				}
			}
			if len(scans) == 0 {
				t.Errorf("no scan was found in\n%s", plan)
			}
		}
	}
}

// timeLog collects the finite times among the arguments of statements.
type timeLog struct{ times []time.Time }

func (l *timeLog) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	for _, arg := range data.Args {
		var all []pgtype.Timestamptz
		switch arg := arg.(type) {
		case pgtype.Timestamptz:
			all = []pgtype.Timestamptz{arg}
		case []pgtype.Timestamptz:
			all = arg
		}
		for _, at := range all {
			if at.InfinityModifier == pgtype.Finite {
				l.times = append(l.times, at.Time)
			}
		}
	}
	return ctx
}

func (l *timeLog) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// C37: the times in marks come from the database, which counts in microseconds; a Go clock counts in nanoseconds.
func TestC37_MarksAreTheDatabasesTimes(t *testing.T) {
	t.Parallel()
	log := &timeLog{}
	f := open(t, traced(log))
	for range 10 {
		f.claim(1) // moves the marks and starts from them
		f.queue.OnlyMarks()
		if _, _, err := f.queue.NextDue(f.ctx); err != nil {
			t.Fatal(err)
		}
		must(f.queue.Recover(f.ctx, 10))(t)
	}
	if len(log.times) < 10*4 {
		t.Fatalf("only %d times were sent: the test shows nothing", len(log.times))
	}
	for _, at := range log.times {
		if at.Nanosecond()%1000 != 0 {
			t.Fatalf("%s was made by this process", at)
		}
	}
}
