package pgqueue_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// million fills the tables as the case wants them: 90 % done, jobs of the same instant in blocks.
func million(t testing.TB, pool *pgxpool.Pool, n int) {
	t.Helper()
	const made = `SELECT g AS id, 'q' || g % 5 AS queue, 'k' || (g::bigint * 7) % 20 AS kind, (g::bigint * 104729) % 100 AS x,
		now() - interval '20 hours' + (g / greatest($1::int / 300, 1)) * interval '1 minute' AS at FROM generate_series(1, $1::int) g`
	exec(t, pool, `INSERT INTO pgqueue.history (id, queue, kind, state, run_at, created_at, finished_at, day, attempt, generation, error_count, priority,
			failures, max_attempts, payload, metadata, tags, errors)
		SELECT id, queue, kind, state, at, at, at, CASE WHEN state IN ('failed', 'dead') THEN 'infinity' ELSE (at AT TIME ZONE 'UTC')::date END,
			1, 1, (x >= 88)::int, 1, 0, 3, jsonb_build_object('n', id), '{}', CASE WHEN x = 0 THEN ARRAY['rare'] ELSE '{}' END,
			CASE WHEN x >= 88 THEN jsonb_build_array(jsonb_build_object('code', 'code' || x, 'message', 'm', 'attempt', 1)) END
		FROM (SELECT m.*, CASE WHEN x < 85 THEN 'succeeded' WHEN x < 88 THEN 'cancelled' WHEN x = 88 THEN 'failed' ELSE 'dead' END AS state
		      FROM (`+made+`) m WHERE x < 90) z`, n)
	exec(t, pool, `INSERT INTO pgqueue.jobs (id, queue, kind, state, run_at, created_at, claimed_at, lease_expires_at, priority, claimed_by)
		SELECT id, queue, kind, CASE WHEN id % 500 = 0 THEN 'running' ELSE 'pending' END, at, at, now(), now() + interval '1 h', 1 + id % 4, 'w'
		FROM (`+made+`) m WHERE x >= 90`, n)
	exec(t, pool, `SELECT setval('pgqueue.jobs_id_seq', $1)`, n)
	exec(t, pool, `ANALYZE`)
}

// pageCases are the questions of a console.
func pageCases(n int) map[string]struct {
	filter  pgqueue.Filter
	options pgqueue.ListOptions
} {
	one := func(states ...pgqueue.JobState) []pgqueue.JobState { return states }
	type question = struct {
		filter  pgqueue.Filter
		options pgqueue.ListOptions
	}
	return map[string]question{
		"newest":        {},
		"oldest":        {options: pgqueue.ListOptions{Order: pgqueue.OrderOldest}},
		"large page":    {options: pgqueue.ListOptions{Limit: pgqueue.MaxListLimit}},
		"pending":       {filter: pgqueue.Filter{States: one("pending")}},
		"running":       {filter: pgqueue.Filter{States: one("running")}},
		"succeeded":     {filter: pgqueue.Filter{States: one("succeeded")}},
		"dead":          {filter: pgqueue.Filter{States: one("dead")}},
		"a queue":       {filter: pgqueue.Filter{Queue: "q3"}},
		"kind, state":   {filter: pgqueue.Filter{Kind: "k7", States: one("dead")}},
		"no such kind":  {filter: pgqueue.Filter{Kind: "nope"}},
		"no such queue": {filter: pgqueue.Filter{Queue: "nope", States: one("pending", "running", "failed", "dead")}},
		"a tag":         {filter: pgqueue.Filter{Tags: []string{"rare"}}},
		"a code":        {filter: pgqueue.Filter{ErrorCode: "code89"}},
		"a payload":     {filter: pgqueue.Filter{Payload: json.RawMessage(fmt.Sprintf(`{"n": %d}`, n/2))}},
		"numbers":       {filter: pgqueue.Filter{IDs: []int64{1, int64(n / 2), int64(n)}}},
		"a range":       {filter: pgqueue.Filter{MinID: int64(n / 2), MaxID: int64(n/2 + 100)}},
		"created":       {filter: pgqueue.Filter{Created: pgqueue.TimeRange{To: time.Now().Add(-time.Hour)}}},
		"finished":      {filter: pgqueue.Filter{Finished: pgqueue.TimeRange{From: time.Now().Add(-16 * time.Hour)}}},
		"latest ended":  {filter: pgqueue.Filter{States: one("failed", "dead")}, options: pgqueue.ListOptions{Order: pgqueue.OrderLatestEnded}},
		"of a queue":    {filter: pgqueue.Filter{States: one("dead"), Queue: "q1"}, options: pgqueue.ListOptions{Order: pgqueue.OrderLatestEnded}},
		"next due":      {filter: pgqueue.Filter{States: one("pending"), Queue: "q1"}, options: pgqueue.ListOptions{Order: pgqueue.OrderNextDue}},
	}
}

// Every list answers page by page from indexes, and looks at no more rows than it says; so do counts and groups. With all of them walked
// while jobs come, run, end and are deleted, each that stays is met exactly once.
func TestC137_AMillionRows(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	n := size(30_000, 3_000_000)
	million(t, db.Pool, n)
	record := &sent{}
	inspector := newInspector(t, poolLike(t, db.Pool, func(config *pgxpool.Config) { config.ConnConfig.Tracer = record }))
	slowest, where := time.Duration(0), ""
	for name, question := range pageCases(n) {
		options := question.options
		for range size(3, 20) { // some pages, and back from the last of them
			began := time.Now()
			page := list(t, inspector, question.filter, options)
			if took := time.Since(began); took > slowest {
				slowest, where = took, name
			}
			if statements := len(record.take()) / 2; statements > 2 {
				t.Errorf("%s: %d statements a page, want 2 at most", name, statements)
			}
			if options.Cursor = page.Next; options.Cursor == "" {
				break
			}
		}
		// The scan, twice where the page stays short, and what an index was asked in vain.
		most := float64(2*(pgqueue.DefaultListScan+30) + pgqueue.MaxListLimit)
		if slices.Contains([]string{"newest", "oldest", "numbers", "a range", "latest ended", "of a queue", "next due"}, name) {
			most = 400 + float64(n)/300 // the page, and the block of one instant in which it ends
		}
		requireIndexed(t, db.Pool, record, name, most, func() { list(t, inspector, question.filter, question.options) })
		if options.Cursor != "" {
			requireIndexed(t, db.Pool, record, name+", later", most, func() { list(t, inspector, question.filter, options) })
		}
		requireIndexed(t, db.Pool, record, "counts of "+name, 4*(pgqueue.MaxStatsCount+30), func() {
			if _, err := inspector.Counts(testContext(t), question.filter); err != nil {
				t.Fatal(err)
			}
		})
	}
	requireIndexed(t, db.Pool, record, "attention", pgqueue.MaxStatsCount+30, func() {
		if _, err := inspector.Attention(testContext(t), pgqueue.Filter{}); err != nil {
			t.Fatal(err)
		}
	})
	t.Logf("%d jobs, the slowest page took %s (%s)", n, slowest, where)
	if slowest > size(patience, 500*time.Millisecond) {
		t.Errorf("a page took %s (%s)", slowest, where)
	}
}

func TestC137_PagesWhileRowsMove(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	const n = 3_000
	million(t, db.Pool, n)
	client := quietClient(t, db.Pool)
	inspector := newInspector(t, db.Pool)
	for _, order := range []pgqueue.ListOrder{pgqueue.OrderNewest, pgqueue.OrderOldest} {
		var before []int64
		for job, err := range inspector.All(testContext(t), pgqueue.Filter{}, pgqueue.ListOptions{Order: order}) {
			if err != nil {
				t.Fatal(err)
			}
			before = append(before, job.ID)
		}
		seen := map[int64]int{}
		options := pgqueue.ListOptions{Order: order, Limit: 50}
		for round := 0; ; round++ {
			page := list(t, inspector, pgqueue.Filter{}, options)
			for _, job := range page.Jobs {
				seen[job.ID]++
			}
			if options.Cursor = page.Next; options.Cursor == "" {
				break
			}
			// Everything that may happen to jobs, all over the list.
			exec(t, db.Pool, `SELECT pgqueue.cancel(id) FROM (SELECT id FROM pgqueue.jobs ORDER BY random() LIMIT 5) x`)
			exec(t, db.Pool, `SELECT r.* FROM (SELECT id FROM pgqueue.history WHERE day = 'infinity' ORDER BY random() LIMIT 5) x CROSS JOIN LATERAL pgqueue.retry(x.id) r`)
			exec(t, db.Pool, `DELETE FROM pgqueue.history WHERE id IN (SELECT id FROM pgqueue.history ORDER BY random() LIMIT 2)`)
			if round < 5 {
				enqueue(t, client, db.Pool, task{})
			}
		}
		for _, id := range before {
			there := one[bool](t, db.Pool, `SELECT EXISTS (SELECT FROM pgqueue.jobs WHERE id = $1) OR EXISTS (SELECT FROM pgqueue.history WHERE id = $1)`, id)
			if there && seen[id] != 1 {
				t.Errorf("%s: job %d was met %d times", order, id, seen[id])
			}
		}
		for id, times := range seen {
			if times > 1 {
				t.Errorf("%s: job %d was met %d times", order, id, times)
			}
		}
	}
}

// What a browser gives up is given up by the server.
func TestC137_ADisconnectEndsTheQuery(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	exec(t, db.Pool, `CREATE FUNCTION public.slow(jsonb, jsonb) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(600); RETURN true; END $$;
		CREATE OPERATOR public.@> (FUNCTION = public.slow, LEFTARG = jsonb, RIGHTARG = jsonb)`)
	million(t, db.Pool, 100)
	ctx, cancel := context.WithCancel(testContext(t))
	pool := poolLike(t, db.Pool, func(config *pgxpool.Config) {
		config.ConnConfig.RuntimeParams["search_path"] = "public, pg_catalog" // so that @> is the slow one
		config.ConnConfig.RuntimeParams["application_name"] = "the console"
	})
	ended := make(chan error, 1)
	go func() {
		_, err := newInspector(t, pool).List(ctx, pgqueue.Filter{Payload: json.RawMessage(`{"n": 1}`)}, pgqueue.ListOptions{})
		ended <- err
	}()
	// Asleep in the filter: a cancel that comes before the statement has begun ends nothing.
	active := func() bool {
		return one[bool](t, db.Pool, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'the console' AND wait_event = 'PgSleep')`)
	}
	eventually(t, "the query runs", active)
	cancel()
	if err := receive(t, ended, "the end of the list"); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	eventually(t, "the server has given it up", func() bool { return !active() })
}

// Not parallel, because it counts what the process allocates.
func TestC138_HugePayloadsInLists(t *testing.T) {
	db := pgqueuetest.New(t)
	megabytes, jobs := size(1, 20), size(10, 50)
	// Random text; and, as job 2, one that compresses to almost nothing.
	const insert = `INSERT INTO pgqueue.history (id, queue, kind, state, attempt, finished_at, day, run_at, created_at, generation, error_count, priority,
			failures, max_attempts, metadata, tags, payload, errors)
		SELECT g, 'q', 'k', 'dead', 1, now(), 'infinity', now(), now(), 1, 1, 1, 1, 1, '{}', array_fill(repeat('t', 300), ARRAY[100]), `
	exec(t, db.Pool, insert+`jsonb_build_object('text', repeat('x', 1000 * 1000)), jsonb_build_array(jsonb_build_object('code', 'small', 'attempt', 1))
		FROM generate_series(2, 2) g`)
	exec(t, db.Pool, `ALTER TABLE pgqueue.history_attention ALTER payload SET STORAGE EXTERNAL, ALTER errors SET STORAGE EXTERNAL`)
	exec(t, db.Pool, `CREATE TABLE public.big (payload jsonb, errors jsonb); ALTER TABLE public.big ALTER payload SET STORAGE EXTERNAL, ALTER errors SET STORAGE EXTERNAL`)
	exec(t, db.Pool, `INSERT INTO public.big SELECT jsonb_build_object('text', text), jsonb_build_array(jsonb_build_object('code', 'big', 'attempt', 1, 'message', left(text, $2::int)))
		FROM (SELECT string_agg(md5(g::text), '') AS text FROM generate_series(1, $1::int) g) x`, megabytes*32768, megabytes*250_000)
	exec(t, db.Pool, insert+`payload, errors FROM generate_series(1, $1::int) g, public.big WHERE g <> 2`, jobs)
	exec(t, db.Pool, `SELECT setval('pgqueue.jobs_id_seq', $1)`, jobs)
	small := newClient(t, db.Pool)
	last := enqueue(t, small, db.Pool, task{N: 7, Do: "ü"}).ID
	inspector := newInspector(t, db.Pool)

	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	page := list(t, inspector, pgqueue.Filter{}, pgqueue.ListOptions{Limit: jobs + 1})
	runtime.ReadMemStats(&after)
	if grown := (after.TotalAlloc - before.TotalAlloc) >> 20; grown > 5 {
		t.Errorf("a list allocated %d MB", grown)
	}
	text, err := json.Marshal(page)
	if err != nil {
		t.Fatal(err)
	}
	if len(page.Jobs) != jobs+1 || len(text) > 300<<10*(jobs+1)/50 {
		t.Errorf("%d jobs, %d bytes of JSON", len(page.Jobs), len(text))
	}
	for _, job := range page.Jobs {
		switch {
		case job.ID == last && (job.Payload.Cut || !strings.Contains(job.Payload.Text, "ü")):
			t.Errorf("a small payload: %+v", job.Payload)
		case job.ID == 2 && (!job.Payload.Cut || len(job.Payload.Text) > pgqueue.DefaultListPreview):
			t.Errorf("a payload that compresses: %+v", job.Payload)
		case job.ID != last && job.ID != 2 && (job.Payload.Text != "" || !job.Payload.Cut || job.Payload.Size < megabytes<<20/2):
			t.Errorf("a large payload: %+v", job.Payload)
		}
	}
	// A preview ends at a character, not in one.
	if page = list(t, inspector, pgqueue.Filter{IDs: []int64{last}}, pgqueue.ListOptions{Preview: 9}); page.Jobs[0].Payload.Text != `{"n": 7, ` {
		t.Errorf("preview %q", page.Jobs[0].Payload.Text)
	}
	if at := strings.Index(one[string](t, db.Pool, `SELECT payload::text FROM pgqueue.jobs WHERE id = $1`, last), "ü"); at > 0 {
		page = list(t, inspector, pgqueue.Filter{IDs: []int64{last}}, pgqueue.ListOptions{Preview: at + 1})
		if got := page.Jobs[0].Payload; len(got.Text) != at || !got.Cut {
			t.Errorf("preview %+v, want %d bytes", got, at)
		}
	}

	// A page of one job: what is large is cut, and everything is there when it is asked for.
	peek, err := inspector.Peek(testContext(t), 1, 64<<10)
	if err != nil {
		t.Fatal(err)
	}
	cut := peek.Cut["payload"]
	if peek.Payload != nil || !cut.Cut || len(cut.Text) != 64<<10 || cut.Size < megabytes<<20 || string(peek.Metadata) != "{}" {
		t.Errorf("peek: %d bytes of %d, metadata %s", len(cut.Text), cut.Size, peek.Metadata)
	}
	if len(peek.Attempts) != 1 || peek.Attempts[0].Code != "big" || len(peek.Attempts[0].Message) != 2048 {
		t.Errorf("attempts of a peek: %d", len(peek.Attempts))
	}
	full, err := inspector.Get(testContext(t), 1)
	if err != nil || len(full.Payload) < megabytes<<20 || len(full.Attempts[0].Message) != megabytes*250_000 || full.Cut != nil {
		t.Errorf("get: %d bytes, %v", len(full.Payload), err)
	}
	if peek, err = inspector.Peek(testContext(t), last, 64<<10); err != nil || peek.Cut != nil || !json.Valid(peek.Payload) {
		t.Errorf("peek at a small job: %+v, %v", peek, err)
	}

	// What is looked at for a payload is bounded in bytes, too: the page is short, and goes on.
	found, pages := []int64{}, 0
	for options := (pgqueue.ListOptions{}); ; pages++ {
		page = list(t, inspector, pgqueue.Filter{Payload: json.RawMessage(`{"n": 7}`), Queue: "default"}, options)
		found = append(found, ids(page.Jobs)...)
		if options.Cursor = page.Next; options.Cursor == "" {
			break
		}
	}
	if !slices.Equal(found, []int64{last}) {
		t.Errorf("found %v, want job %d", found, last)
	}
	if most := jobs * megabytes >> 6; pages < most/2 {
		t.Errorf("%d pages: more than 64 MB were unpacked for one", pages)
	}
}

// From a page that has become empty meanwhile, Prev leads back to what was seen last, all of it.
func TestPrevOfAnEmptyPage(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	inspector := newInspector(t, db.Pool)
	insertDead(t, db.Pool, 0, 10)
	exec(t, db.Pool, `INSERT INTO pgqueue.jobs (id, queue, kind) SELECT 10 + g, 'default', 'task' FROM generate_series(1, 10) g`)
	dead, pending := []pgqueue.JobState{pgqueue.JobDead}, []pgqueue.JobState{pgqueue.JobPending}
	for order, filter := range map[pgqueue.ListOrder]pgqueue.Filter{
		pgqueue.OrderNewest: none, pgqueue.OrderOldest: none, pgqueue.OrderLatestEnded: {States: dead}, pgqueue.OrderFirstEnded: {States: dead},
		pgqueue.OrderNextDue: {States: pending, Queue: "default"},
	} {
		options := pgqueue.ListOptions{Order: order, Limit: 4}
		first := list(t, inspector, filter, options)
		if first.Prev != "" || first.Next == "" {
			t.Errorf("%s: the first page has Prev %q, Next %q", order, first.Prev, first.Next)
		}
		tx := begin(t, db.Pool, pgx.TxOptions{})
		exec(t, tx, `DELETE FROM pgqueue.jobs WHERE id <> ALL ($1)`, ids(first.Jobs))
		exec(t, tx, `DELETE FROM pgqueue.history WHERE id <> ALL ($1)`, ids(first.Jobs))
		inside := inspector.On(tx)
		options.Cursor = first.Next
		empty := list(t, inside, filter, options)
		if len(empty.Jobs) != 0 || empty.Next != "" {
			t.Errorf("%s: the second page: %v", order, ids(empty.Jobs))
		}
		options.Cursor = empty.Prev
		again := list(t, inside, filter, options)
		if !equal(ids(again.Jobs), ids(first.Jobs)) || again.Prev != "" {
			t.Errorf("%s: back at %v, was %v", order, ids(again.Jobs), ids(first.Jobs))
		}
		_ = tx.Rollback(testContext(t))
	}
}

func TestListRefusesBadInput(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	counter := &statementCounter{}
	inspector := newInspector(t, poolLike(t, db.Pool, func(config *pgxpool.Config) { config.ConnConfig.Tracer = counter }))
	year := func(y int) time.Time { return time.Date(y, 1, 1, 0, 0, 0, 0, time.UTC) }
	for field, filter := range map[string]pgqueue.Filter{
		"filter.queue":       {Queue: "\xff"},
		"filter.kind":        {Kind: strings.Repeat("k", 129)},
		"filter.key":         {Key: "a\x00"},
		"filter.claimed_by":  {ClaimedBy: "\xff"},
		"filter.error_code":  {ErrorCode: "\xff"},
		"filter.tags[1]":     {Tags: []string{"a", ""}},
		"filter.priority":    {Priority: 5},
		"filter.states[1]":   {States: []pgqueue.JobState{"dead", "done"}},
		"filter.min_id":      {MinID: 7, MaxID: 6},
		"filter.max_id":      {MaxID: -1},
		"filter.ids":         {IDs: make([]int64, pgqueue.MaxFilterIDs+1)},
		"filter.payload":     {Payload: json.RawMessage(`{"a"`)},
		"filter.created":     {Created: pgqueue.TimeRange{From: year(2001), To: year(2000)}},
		"filter.finished.to": {Finished: pgqueue.TimeRange{To: year(10000)}},
		"filter.due.from":    {Due: pgqueue.TimeRange{From: year(-1)}},
		"filter.payload.a":   {Payload: json.RawMessage(`{"a": "\u0000"}`)},
	} {
		_, err := inspector.List(testContext(t), filter, pgqueue.ListOptions{})
		requireInvalid(t, err, field)
		_, err = inspector.Counts(testContext(t), filter)
		requireInvalid(t, err, field)
	}
	exec(t, db.Pool, `INSERT INTO pgqueue.jobs (queue, kind) SELECT 'default', 'task' FROM generate_series(1, 2)`)
	cursor := list(t, newInspector(t, db.Pool), none, pgqueue.ListOptions{Order: pgqueue.OrderOldest, Limit: 1}).Next
	if page := list(t, newInspector(t, db.Pool), none, pgqueue.ListOptions{Cursor: cursor, Order: pgqueue.OrderOldest}); len(page.Jobs) != 1 {
		t.Errorf("the second page: %v", ids(page.Jobs))
	}
	_, err := inspector.List(testContext(t), pgqueue.Filter{Queue: "default"}, pgqueue.ListOptions{Cursor: cursor, Order: pgqueue.OrderOldest})
	requireInvalid(t, err, "options.cursor")
	plain, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		t.Fatal(err)
	}
	sideways := base64.RawURLEncoding.EncodeToString(bytes.Replace(plain, []byte(",n,"), []byte(",x,"), 1))
	for field, options := range map[string]pgqueue.ListOptions{
		"options.limit":   {Limit: 1001},
		"options.scan":    {Scan: -1},
		"options.preview": {Preview: 1 << 20},
		"options.order":   {Order: "sideways"},
		"options.cursor":  {Cursor: cursor},
	} {
		_, err := inspector.List(testContext(t), pgqueue.Filter{}, options)
		requireInvalid(t, err, field)
	}
	for _, cursor := range []string{"!", "e30", cursor[:len(cursor)-2], sideways} {
		_, err := inspector.List(testContext(t), pgqueue.Filter{}, pgqueue.ListOptions{Cursor: cursor, Order: pgqueue.OrderOldest})
		requireInvalid(t, err, "options.cursor")
	}
	for _, order := range []pgqueue.ListOrder{pgqueue.OrderLatestEnded, pgqueue.OrderFirstEnded, pgqueue.OrderNextDue} {
		_, err := inspector.List(testContext(t), pgqueue.Filter{States: []pgqueue.JobState{"pending", "dead"}, Queue: "q"}, pgqueue.ListOptions{Order: order})
		requireInvalid(t, err, "options.order")
	}
	_, err = inspector.Attention(testContext(t), pgqueue.Filter{States: []pgqueue.JobState{"pending"}})
	requireInvalid(t, err, "filter.states")
	_, err = pgqueue.NewInspector(nil, pgqueue.InspectorConfig{})
	requireInvalid(t, err, "querier")
	_, err = pgqueue.NewInspector(db.Pool, pgqueue.InspectorConfig{Schema: "\x00"})
	requireInvalid(t, err, "schema")
	_, err = inspector.On(nil).List(testContext(t), pgqueue.Filter{}, pgqueue.ListOptions{})
	requireInvalid(t, err, "querier")
	if n := counter.n.Load(); n != 0 {
		t.Errorf("%d statements were sent", n)
	}
	// No job is named: none is found. (A nil slice names none either, and means any.)
	if page := list(t, inspector, pgqueue.Filter{IDs: []int64{}}, pgqueue.ListOptions{}); len(page.Jobs) != 0 || page.Next != "" {
		t.Errorf("of no numbers: %+v", page)
	}
}
