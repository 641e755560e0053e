package console

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// watchedPool is a pool whose statements are noted, and whose received bytes are counted.
type watchedPool struct {
	*pgxpool.Pool
	received atomic.Int64
	mutex    sync.Mutex
	sent     []string
}

func watch(t testing.TB, db *pgqueuetest.DB) *watchedPool {
	t.Helper()
	w := &watchedPool{}
	config := db.Pool.Config().Copy()
	config.ConnConfig.Tracer = w
	dial := config.ConnConfig.DialFunc
	config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		return &countedConn{Conn: conn, received: &w.received}, err
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	w.Pool = pool
	return w
}

type countedConn struct {
	net.Conn
	received *atomic.Int64
}

func (c *countedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.received.Add(int64(n))
	return n, err
}

func (w *watchedPool) note(sql string) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.sent = append(w.sent, sql)
}

func (w *watchedPool) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	w.note(data.SQL)
	return ctx
}
func (w *watchedPool) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
func (w *watchedPool) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}
func (w *watchedPool) TraceBatchQuery(_ context.Context, _ *pgx.Conn, data pgx.TraceBatchQueryData) {
	w.note(data.SQL)
}
func (w *watchedPool) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// take are the statements since the last call, but for the settings that are sent with each.
func (w *watchedPool) take() []string {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	taken := slices.DeleteFunc(w.sent, func(sql string) bool { return strings.HasPrefix(sql, "SELECT set_config(") })
	w.sent = nil
	return taken
}

// onPool serves the console through another pool.
func onPool(pool *pgxpool.Pool) func(*Config) { return func(config *Config) { config.Pool = pool } }

// manyJobs writes n jobs, 90 % of them done, in 20 queues and of 10 kinds, 10,000 of each moment.
func manyJobs(t testing.TB, pool *pgxpool.Pool, n int) {
	t.Helper()
	runSQL(t, pool, `INSERT INTO pgqueue.history (id, run_at, created_at, claimed_at, finished_at, day, attempt, generation, error_count, priority, failures, max_attempts,
			queue, kind, state, claimed_by, payload, metadata, tags)
		SELECT g, x.at, x.at, x.at, x.at, (x.at AT TIME ZONE 'UTC')::date, 1, 1, 0, 1, 0, 3, 'q' || g % 20, 'k' || g % 10,
			CASE WHEN g % 100 = 1 THEN 'cancelled' ELSE 'succeeded' END, 'w' || g % 7, jsonb_build_object('user', jsonb_build_object('id', g)), '{}', ARRAY['t' || g % 3]
		FROM generate_series(1, $1::int) g, LATERAL (SELECT now() - ($1::int - g) / 10000 * interval '1 s' - interval '1 s' AS at) x WHERE g % 10 < 9`, n)
	runSQL(t, pool, `INSERT INTO pgqueue.history (id, run_at, created_at, claimed_at, finished_at, day, attempt, generation, error_count, priority, failures, max_attempts,
			queue, kind, state, claimed_by, payload, metadata, tags, errors)
		SELECT g, x.at, x.at, x.at, x.at, 'infinity', 3, 1, 3, 1, 3, 3, 'q' || g % 20, 'k' || g % 10, CASE WHEN g % 100 = 9 THEN 'failed' ELSE 'dead' END, 'w' || g % 7,
			jsonb_build_object('user', jsonb_build_object('id', g)), '{}', '{}', jsonb_build_array(jsonb_build_object('code', CASE WHEN g % 1000 = 19 THEN 'rare' ELSE 'timeout' END, 'message', 'no answer', 'attempt', 3))
		FROM generate_series(1, $1::int) g, LATERAL (SELECT now() - ($1::int - g) / 10000 * interval '1 s' - interval '1 s' AS at) x WHERE g % 10 = 9 AND g % 30 < 20`, n)
	runSQL(t, pool, `INSERT INTO pgqueue.jobs (id, created_at, run_at, queue, kind, payload, tags, priority)
		SELECT g, now(), now() + (g % 5 - 2) * interval '1 h', 'q' || g % 20, 'k' || g % 10, jsonb_build_object('user', jsonb_build_object('id', g)), '{}', 1 + g % 4
		FROM generate_series(1, $1::int) g WHERE g % 10 = 9 AND g % 30 >= 20`, n)
	runSQL(t, pool, `UPDATE pgqueue.jobs SET state = 'running', attempt = 1, claimed_at = now(), lease_expires_at = now() + interval '1 h', claimed_by = 'w1' WHERE id % 3000 = 29`)
	runSQL(t, pool, `SELECT setval('pgqueue.jobs_id_seq', $1)`, n)
	runSQL(t, pool, `ANALYZE pgqueue.jobs`)
	runSQL(t, pool, `ANALYZE pgqueue.history`)
}

// listQuestions are addresses of the list that ask for what it can be asked.
func listQuestions(n int) []string {
	day := url.QueryEscape(time.Now().Add(-time.Hour).UTC().Format(time.RFC3339))
	return []string{
		"", "order=oldest", "state=pending", "state=running", "state=failed", "state=dead", "state=succeeded", "state=cancelled", "state=failed&state=dead&order=latest-ended",
		"state=dead&order=first-ended&queue=q9", "state=pending&queue=q9&order=next-due", "queue=q9", "kind=k9&state=dead", "kind=k9&state=pending", "queue=q9&kind=k1", "queue=nobody",
		"tag=t1", "priority=4", "key=nothing", "code=timeout", "code=rare", "code=nothing&state=dead", "worker=w1", "worker=nobody", "payload_path=user.id&payload_value=" + strconv.Itoa(n/2),
		"payload=" + url.QueryEscape(`{"user":{}}`), "created_from=-1h", "created_to=" + day, "finished_from=-10m&state=succeeded", "due_from=now&state=pending", "id=9&id=19&id=1",
		"min_id=1&max_id=60", "max_id=60&order=oldest", "state=pending&limit=200", "count=1&code=rare", "state=dead&queue=q9&kind=k9&code=timeout&finished_from=-1d",
	}
}

// Every page of the list is a bounded number of bounded statements, whatever is asked.
func TestC137_EveryListIsBounded(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	pool := watch(t, db)
	c := newConsole(t, db, onPool(pool.Pool))
	n, full := 30_000, os.Getenv("PGQUEUE_TEST_FULL") != ""
	if full {
		n = 3_000_000
	}
	manyJobs(t, db.Pool, n)
	skips := regexp.MustCompile(`(?i)\bOFFSET\s+(\$|[1-9])`)
	slowest, slowestOf := time.Duration(0), ""
	for _, question := range listQuestions(n) {
		path := "/jobs?" + question
		for turn := range 3 { // the first page, the next one, the one before
			pool.take()
			started := time.Now()
			got := c.get(path).want(t, http.StatusOK)
			if took := time.Since(started); took > slowest {
				slowest, slowestOf = took, path
			}
			sent, most := pool.take(), 3 // two for the page at most, and one for the counts
			if turn > 0 {
				most = 2
			}
			if len(sent) > most || len(sent) == 0 {
				t.Errorf("%s: %d statements", path, len(sent))
			}
			for _, sql := range sent {
				if turn > 0 && strings.Contains(sql, "count(*) AS scanned") {
					t.Errorf("%s: counts again", path)
				}
				if skips.MatchString(sql) || !strings.Contains(sql, "LIMIT") && !strings.Contains(sql, "= ANY") {
					t.Errorf("%s: not bounded: %s", path, sql)
				}
			}
			if path = got.link("next"); turn == 1 {
				path = got.link("prev")
			}
			if path == "" {
				break
			}
		}
	}
	t.Logf("%d jobs: the slowest page took %s: %s", n, slowest, slowestOf)
	if full && slowest > 500*time.Millisecond {
		t.Errorf("a page took %s: %s", slowest, slowestOf)
	}
	for _, path := range []string{"/", "/jobs/9", "/jobs/29", "/jobs/1", "/?window=24h"} {
		started := time.Now()
		c.get(path).want(t, http.StatusOK)
		t.Logf("%s took %s", path, time.Since(started))
	}
}

// link is the address of the link with that rel, below the prefix; empty: there is none.
func (r *reply) link(rel string) string {
	found := regexp.MustCompile(`rel="` + rel + `" href="([^"]*)"`).FindStringSubmatch(r.body)
	if found == nil {
		return ""
	}
	return strings.ReplaceAll(found[1], "&amp;", "&")
}

// jobsOn are the numbers of the jobs on a page, in its order.
func (r *reply) jobsOn(t testing.TB) (ids []int64) {
	t.Helper()
	for _, found := range regexp.MustCompile(`<tr id="job-([0-9]+)">`).FindAllStringSubmatch(r.body, -1) {
		id, err := strconv.ParseInt(found[1], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	return ids
}

// Whoever walks all pages while jobs are made, finished and deleted meets each that stays exactly once, forth and back.
func TestC137_AWalkMeetsEachJobOnce(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	c := newConsole(t, db)
	manyJobs(t, db.Pool, 1_500)
	rows, err := db.Pool.Query(t.Context(), `SELECT id FROM pgqueue.jobs UNION ALL SELECT id FROM pgqueue.history`)
	if err != nil {
		t.Fatal(err)
	}
	present, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		t.Fatal(err)
	}
	for _, way := range []string{"order=newest", "order=oldest"} {
		met, turn := map[int64]int{}, int64(0)
		for path := "/jobs?" + way; path != ""; turn++ {
			got := c.get(path).want(t, http.StatusOK)
			for _, id := range got.jobsOn(t) {
				met[id]++
			}
			runSQL(t, db.Pool, `DELETE FROM pgqueue.history WHERE id % 7 = 0 AND id % 13 = $1`, turn%13)
			runSQL(t, db.Pool, `INSERT INTO pgqueue.jobs (queue, kind) SELECT 'new', 'new' FROM generate_series(1, 20)`)
			runSQL(t, db.Pool, `SELECT pgqueue.retry(h.id) FROM pgqueue.history h WHERE h.state IN ('failed', 'dead') AND h.id % 30 = 9 AND h.id % 11 = $1`, turn%11)
			path = got.link("next")
		}
		for _, id := range present {
			if id%7 != 0 && met[id] != 1 { // the others may have been deleted before
				t.Errorf("%s: job %d was met %d times", way, id, met[id])
			}
		}
		for id, times := range met {
			if times != 1 {
				t.Errorf("%s: job %d was met %d times", way, id, times)
			}
		}
	}
}

// Fifty jobs with large payloads and errors: neither the page nor what Postgres is asked for is large, and what is cut can be had whole.
func TestC138_LargePayloadsInAList(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	pool := watch(t, db)
	c := newConsole(t, db, onPool(pool.Pool))
	payload, message := 300<<10, 400<<10
	if os.Getenv("PGQUEUE_TEST_FULL") != "" {
		payload, message = 20<<20, 5<<20
	}
	large := func(size int) string {
		var b strings.Builder
		for n := uint64(1); b.Len() < size; n = n*6364136223846793005 + 1442695040888963407 { // compresses badly
			b.WriteString(strconv.FormatUint(n, 36))
		}
		return b.String()[:size]
	}
	text := large(payload)
	runSQL(t, db.Pool, `INSERT INTO pgqueue.history (id, run_at, created_at, finished_at, day, attempt, generation, error_count, priority, failures, max_attempts,
			queue, kind, state, payload, metadata, tags, errors)
		SELECT g, now(), now(), now(), 'infinity', 3, 1, 1, 1, 3, 3, 'q', 'k', 'dead', jsonb_build_object('text', $1::text || g), '{}',
			ARRAY(SELECT repeat('<', 255) FROM generate_series(1, 50)), jsonb_build_array(jsonb_build_object('code', 'c', 'message', $2::text, 'attempt', 3))
		FROM generate_series(1, 50) g`, text, large(message))
	for _, path := range []string{"/jobs", "/jobs?state=dead&order=latest-ended", "/jobs?state=dead&queue=q", "/"} {
		before := pool.received.Load()
		got := c.get(path).want(t, http.StatusOK)
		if received := pool.received.Load() - before; len(got.body) > 300_000 || received > 300_000 {
			t.Errorf("%s: %d bytes, of %d from Postgres", path, len(got.body), received)
		}
		if path != "/" && len(got.jobsOn(t)) != 50 {
			t.Errorf("%s: %d jobs", path, len(got.jobsOn(t)))
		}
	}
	before := pool.received.Load()
	got := c.get("/jobs/7").want(t, http.StatusOK)
	if received := pool.received.Load() - before; len(got.body) > 300_000 || received > 300_000 {
		t.Errorf("the page of a job: %d bytes, of %d from Postgres", len(got.body), received)
	}
	requireText(t, got.body, "This is the beginning of", `href="/jobs/7/download/payload"`)
	if whole := c.get("/jobs/7/download/payload").want(t, http.StatusOK); whole.body != fmt.Sprintf(`{"text": "%s7"}`, text) {
		t.Errorf("the download has %d bytes", len(whole.body))
	}
}

// What is wrong with an address is said on the page, with the form as it was.
func TestTheListSaysWhatIsWrongWithAFilter(t *testing.T) {
	t.Parallel()
	c := newConsole(t, pgqueuetest.New(t))
	for query, words := range map[string]string{
		"state=unknown": "is no state of a job", "created_from=yesterday": "created_from", "priority=9": "priority", "order=next-due": "is for the pending jobs of one queue",
		"cursor=x": "is not one that a list returned", "limit=1000": "must be at most 200", "payload=%7B": "payload",
	} {
		got := c.get("/jobs?queue=kept&"+query).want(t, http.StatusBadRequest)
		requireText(t, got.body, words, `name="queue" value="kept"`)
	}
	requireText(t, c.get("/jobs?tag=a&queue=q&state=dead").want(t, http.StatusOK).body, "tag: a", `href="/jobs?queue=q&state=dead"`, "No job matches")
}

// A page that found little says how much it has looked at, and goes on.
func TestAShortPageGoesOn(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	c := newConsole(t, db)
	manyJobs(t, db.Pool, 25_000)
	page := c.get("/jobs?payload_path=user.id&payload_value=3").want(t, http.StatusOK)
	requireText(t, page.body, "Looked at 10,000 jobs, found 0", "Go on looking")
	for n := 0; len(page.jobsOn(t)) == 0; n++ {
		next := page.link("next")
		if next == "" || n > 5 {
			t.Fatalf("after %d pages: %s", n, page.body)
		}
		page = c.get(next).want(t, http.StatusOK)
	}
	if found := page.jobsOn(t); !slices.Equal(found, []int64{3}) {
		t.Errorf("found %v", found)
	}
}

// Operators tick jobs, and act on all that match; viewers see neither.
func TestTheListLeadsToBulkActions(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	c := newConsole(t, db)
	jobIn(t, db.Pool, 1, pgqueue.JobDead)
	page := c.get("/jobs?state=dead&finished_from=-1h").want(t, http.StatusOK).body
	requireText(t, page, `name="id" value="1" form="selected"`, `name="scope" value="selection"`, "/bulk/confirm?action=retry&finished_from=20")
	refuseText(t, page, "action=cancel&")
	refuseText(t, c.as(Viewer).get("/jobs?state=dead").want(t, http.StatusOK).body, "/bulk/confirm?", `type="checkbox"`)
}
