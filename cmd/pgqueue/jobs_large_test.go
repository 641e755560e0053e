package main

import (
	"context"
	"io"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// counting counts what is written, and keeps the beginning.
type counting struct {
	n    atomic.Int64
	head lockedBuffer
}

func (c *counting) Write(p []byte) (int, error) {
	if c.n.Load() < 4_096 {
		c.head.Write(p)
	}
	c.n.Add(int64(len(p)))
	return len(p), nil
}

// Fifty jobs with payloads and errors of megabytes: a list reads and writes none of it, show shows the beginning, and --full all of it.
func TestC138_HugePayloads(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	payload, message := atSize(400_000, 20<<20), atSize(100_000, 5<<20)
	// Letters that do not compress, so that they are stored as large as they are.
	jobExec(t, db, `CREATE FUNCTION public.noise(n int) RETURNS text LANGUAGE sql AS $$
		SELECT string_agg(encode(sha256((random()::text || g)::bytea), 'hex'), '') FROM generate_series(1, n / 64) g $$`)
	jobExec(t, db, `INSERT INTO pgqueue.history (id, queue, kind, state, attempt, finished_at, day, run_at, created_at, generation, error_count, priority, failures,
			max_attempts, payload, metadata, tags, errors)
		SELECT g, 'default', 'huge', 'dead', 3, now(), 'infinity', now(), now(), 1, 1, 1, 1, 3, jsonb_build_object('text', public.noise($1)), '{}', '{}',
			jsonb_build_array(jsonb_build_object('attempt', 3, 'code', 'boom', 'message', public.noise($2), 'at', '2026-01-02T03:04:05Z'))
		FROM generate_series(1, 50) g`, payload, message)
	c := newCLI(t, db)
	var peak atomic.Uint64
	var base runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&base)
	ctx, cancel := context.WithCancel(t.Context())
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			var now runtime.MemStats
			runtime.ReadMemStats(&now)
			peak.Store(max(peak.Load(), now.HeapAlloc))
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}()
	for _, flags := range [][]string{{}, {"--json"}, {"--preview", "1024"}, {"--json", "--preview", "1024"}, {"--json", "--state", "dead", "--order", "latest-ended"}} {
		r := c.long(append([]string{"jobs", "list", "--limit", "50"}, flags...)...).want(exitOK)
		if len(r.out) > 300_000 || strings.Count(r.out, "\n") < 50 {
			t.Errorf("%q: %d bytes, %d lines", flags, len(r.out), strings.Count(r.out, "\n"))
		}
	}
	cancel()
	<-watched
	if grown := int64(peak.Load()) - int64(base.HeapAlloc); grown > 50<<20 {
		t.Errorf("the heap grew by %d MB", grown>>20)
	}
	shown := c.long("jobs", "show", "17").want(exitOK).says("the first 64.0 kB of", "--full shows all")
	if len(shown.out) > 64<<10+8_192 {
		t.Errorf("show wrote %d bytes", len(shown.out))
	}
	for _, flags := range [][]string{nil, {"--json"}} {
		out := &counting{}
		long, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		code := run(long, append([]string{"jobs", "show", "17", "--full"}, flags...), streams{in: strings.NewReader(""), out: out, err: io.Discard}, c.lookup)
		cancel()
		if want := int64(payload / 64 * 64); code != exitOK || out.n.Load() < want {
			t.Errorf("show --full %q: exit code %d, %d bytes, want %d at least", flags, code, out.n.Load(), want)
		}
	}
}

// On a large table each page is fast, walking all pages meets every job that stays exactly once while others come and go, and what
// nobody waits for any more is cancelled.
func TestC137_WalkingWhileJobsComeAndGo(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	n := atSize(6_000, 3_000_000)
	jobExec(t, db, `INSERT INTO pgqueue.history (id, queue, kind, state, attempt, finished_at, day, run_at, created_at, generation, error_count, priority, failures,
			max_attempts, payload, metadata, tags)
		SELECT g, 'q' || g % 5, 'k' || g % 20, 'succeeded', 1, at, (at AT TIME ZONE 'UTC')::date, at, at, 1, 0, 1, 0, 3, '{}', '{}', '{}'
		FROM (SELECT g, now() - interval '1 minute' * (g / 10000 % 60) AS at FROM generate_series(1, $1::int) g) x WHERE g % 10 <> 0`, n)
	jobExec(t, db, `INSERT INTO pgqueue.jobs (id, queue, kind, run_at) SELECT g, 'q' || g % 5, 'k' || g % 20, now() + interval '1 d' FROM generate_series(1, $1::int) g WHERE g % 10 = 0`, n)
	jobExec(t, db, `SELECT setval('pgqueue.jobs_id_seq', $1)`, n)
	jobExec(t, db, `ANALYZE`)
	c := newCLI(t, db)
	slowest, where := time.Duration(0), ""
	for _, flags := range [][]string{
		{}, {"--order", "oldest"}, {"--state", "succeeded"}, {"--state", "pending"}, {"--kind", "k7", "--state", "succeeded"}, {"--kind", "nope"}, {"--queue", "q3"},
		{"--queue", "q0", "--state", "pending", "--order", "next-due"}, {"--min-id", "100", "--max-id", "200"}, {"--tag", "rare", "--scan", "10000"},
	} {
		began := time.Now()
		c.run(append([]string{"jobs", "list", "--limit", "50"}, flags...)...).want(exitOK)
		if took := time.Since(began); took > slowest {
			slowest, where = took, strings.Join(flags, " ")
		}
	}
	t.Logf("%d jobs: the slowest list took %s: %s", n, slowest, where)

	// One of three live jobs is deleted while somebody walks, and new ones come.
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for id := 30; ; id += 30 {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := db.Pool.Exec(context.Background(), `WITH gone AS (DELETE FROM pgqueue.jobs WHERE id = $1) INSERT INTO pgqueue.jobs (queue, kind) VALUES ('new', 'new')`, id%n); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	seen := map[int64]int{}
	for _, line := range lines[struct{ ID int64 }](c.long("jobs", "list", "--all", "--json")) {
		seen[line.ID]++
	}
	close(stop)
	<-done
	for id := int64(1); id <= int64(n); id++ {
		if stays := id%30 != 0; stays && seen[id] != 1 || seen[id] > 1 {
			t.Fatalf("job %d was met %d times", id, seen[id])
		}
	}

	// Whoever presses Ctrl-C leaves no query behind.
	name := jobValue[string](t, db, `SELECT current_database()`)
	running := func() int {
		return jobValue[int](t, db, `SELECT count(*)::int FROM pg_stat_activity WHERE datname = $1 AND application_name = 'pgqueue' AND state = 'active'`, name)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var out, errors lockedBuffer
	ended := make(chan int)
	locked, err := db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = locked.Rollback(context.Background()) }()
	if _, err := locked.Exec(t.Context(), `LOCK TABLE pgqueue.jobs IN ACCESS EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
	go func() { ended <- run(ctx, []string{"jobs", "list"}, c.streams(&out, &errors), c.lookup) }()
	eventually(t, "the query runs", func() bool { return running() == 1 })
	cancel()
	if code := <-ended; code != exitStopped {
		t.Errorf("exit code %d: %s", code, errors.String())
	}
	eventually(t, "the query has ended", func() bool { return running() == 0 })
}

// What reads works where nothing may be written, as on a standby; what writes says why it does not.
func TestReadingWhereNothingMayBeWritten(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	dead, pending := placeJob(t, db, pgqueue.JobDead), placeJob(t, db, pgqueue.JobPending)
	name := jobValue[string](t, db, `SELECT current_database()`)
	jobExec(t, db, `ALTER DATABASE "`+name+`" SET default_transaction_read_only = on`)
	c := newCLI(t, db)
	for _, args := range [][]string{
		{"list"}, {"list", "--created-from", "-1h"}, {"count"}, {"count", "--exact"}, {"show", number(pending)}, {"why", number(pending)}, {"attention"}, {"export"},
		{"retry", "--all-matching", "--state", "dead", "--dry-run"},
	} {
		c.run(append([]string{"jobs"}, args...)...).want(exitOK)
	}
	c.run("jobs", "retry", number(dead)).want(exitFailed).says("read-only")
	c.run("jobs", "retry", "--all-matching", "--state", "dead", "--yes").want(exitFailed).says("read-only")
}

// Nothing that a producer wrote is in what goes to stderr, and the log of what is done, which goes there too, holds no payload.
func TestC142_PayloadsAreNotInMessages(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	c := newCLI(t, db)
	const mark = "MARK-4711"
	ids := []int64{placeJob(t, db, pgqueue.JobDead), placeJob(t, db, pgqueue.JobDead), placeJob(t, db, pgqueue.JobDead), placeJob(t, db, pgqueue.JobDead)}
	jobExec(t, db, `UPDATE pgqueue.history SET payload = '{"ssn": "`+mark+`"}'`)
	jobExec(t, db, `CREATE FUNCTION public.no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not this one'; END $$;
		CREATE TRIGGER no BEFORE DELETE ON pgqueue.history_attention FOR EACH ROW WHEN (OLD.id = `+number(ids[3])+`) EXECUTE FUNCTION public.no()`)
	search := `{"ssn": "` + mark + `"}`
	for _, args := range [][]string{
		{"list", "--payload", search}, {"list", "--payload", search + "}"}, {"count", "--payload", search}, {"export", "--payload", search},
		{"show", number(ids[0])}, {"retry", number(ids[0])}, {"edit", number(ids[1]), "--retry", "--payload", "-"}, {"edit", number(ids[0]), "--payload", "-"},
		{"edit", number(ids[3]), "--retry", "--payload", "-"}, {"retry", "--all-matching", "--payload", search, "--yes"}, {"retry", "--all-matching", "--payload", search},
		{"delete", "--all-matching", "--state", "dead", "--payload", search, "--yes"}, {"cancel", "--all-matching", "--payload", search, "--limit", "1", "--yes"},
		{"import", "--again"}, {"attention", "--payload", search},
	} {
		for _, verbose := range []string{"--verbose", "--json"} {
			r := c.reading(`{"kind": "task", "ssn": "` + mark + `"}`).run(append([]string{"jobs", verbose}, args...)...)
			if strings.Contains(r.err, mark) {
				t.Errorf("%q: stderr has the payload: %s", args, r.err)
			}
			if args[0] != "show" && args[0] != "export" && strings.Contains(r.out, mark) {
				t.Errorf("%q: stdout has the payload: %s", args, r.out)
			}
		}
	}
	if n := jobValue[int](t, db, `SELECT count(*)::int FROM pgqueue.audit a WHERE a::text LIKE '%`+mark+`%'`); n > 0 {
		t.Errorf("%d entries of the audit log have the payload", n)
	}
}
