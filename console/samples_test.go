package console

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// seedHistory stores finished jobs that are a second apart, the last of them a minute ago; each waited 250 ms and ran for 1.5 s.
// Every tenth had failed once before, every hundredth is dead.
func seedHistory(t *testing.T, db *pgqueuetest.DB, jobs int) {
	t.Helper()
	schema := quotedName(db.Schema)
	_, err := db.Pool.Exec(t.Context(), fmt.Sprintf(`
WITH j AS (
    SELECT g AS id, statement_timestamp() - interval '1 min' - (%[2]d - g) * interval '1 s' AS at,
           CASE WHEN g %% 100 = 0 THEN 'dead' ELSE 'succeeded' END AS state, g %% 10 = 0 AS erred
    FROM generate_series(1, %[2]d) g)
INSERT INTO %[1]s.history (id, run_at, created_at, claimed_at, finished_at, day, attempt, generation, error_count, priority, failures, max_attempts,
    queue, kind, state, claimed_by, payload, metadata, tags, errors)
SELECT j.id, j.at - interval '1750 ms', j.at - interval '1 h', j.at - interval '1500 ms', j.at,
       CASE WHEN j.state = 'dead' THEN 'infinity' ELSE (j.at AT TIME ZONE 'UTC')::date END, CASE WHEN j.erred THEN 2 ELSE 1 END, 1,
       j.erred::int, 1, j.erred::int, 2, CASE WHEN j.id %% 2 = 0 THEN 'even' ELSE 'odd' END, 'kind' || j.id %% 3, j.state, 'w' || j.id %% 2,
       '{"secret": true}', '{}', '{}',
       CASE WHEN j.erred THEN jsonb_build_array(jsonb_build_object('attempt', 1, 'code', 'timeout', 'message', 'secret', 'by', 'w',
           'started', to_jsonb(j.at - interval '10 s'), 'at', to_jsonb(j.at - interval '8 s'))) END
FROM j`, schema, jobs))
	if err != nil {
		t.Fatal(err)
	}
}

func quotedName(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

func TestSamplesAreSentAsColumns(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	seedHistory(t, db, 1000)
	ui := newConsole(t, db).as(Viewer)
	answer := ui.get("/api/samples?window=all")
	if answer.status != http.StatusOK || answer.header.Get("Content-Type") != "application/octet-stream" || answer.header.Get("Content-Encoding") != "" {
		t.Fatalf("status %d, headers %v: %.200s", answer.status, answer.header, answer.body)
	}
	if strings.Contains(answer.body, "secret") {
		t.Error("samples quote what is stored")
	}
	read := readSamples(t, []byte(answer.body))
	if !read.ended || read.more || read.samples != len(read.rows) || len(read.rows) != 1100 {
		t.Fatalf("ended %v, more %v, says %d samples, has %d, want 1000 last attempts and 100 that were retried", read.ended, read.more, read.samples, len(read.rows))
	}
	count := map[string]int{}
	for _, row := range read.rows {
		count[row.outcome]++
		wait, run, attempt := 250.0, 1500.0, 1
		switch row.outcome {
		case "retried":
			wait, run = math.NaN(), 2000
		case "dead":
			attempt = 2
		default:
			attempt = row.attempt
		}
		if !same(row.wait, wait) || !same(row.run, run) || row.attempt != attempt {
			t.Fatalf("wait %v, run %v in %+v, want %v and %v", row.wait, row.run, row, wait, run)
		}
		if age := time.Since(row.finished); age < 30*time.Second || age > 3*time.Hour {
			t.Fatalf("an attempt finished at %s", row.finished)
		}
	}
	if count["succeeded"] != 990 || count["dead"] != 10 || count["retried"] != 100 {
		t.Errorf("outcomes %v", count)
	}
	if newest := read.rows[0]; time.Since(newest.finished) > 10*time.Minute {
		t.Errorf("the first sample finished at %s, not the latest", newest.finished)
	}
}

func same(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }

func TestSamplesOfAQueueAKindAndAWindow(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	seedHistory(t, db, 1000)
	ui := newConsole(t, db)
	for query, want := range map[string]int{
		"window=all&queue=odd":                     500,
		"window=all&queue=even&kind=kind1":         167 + 34, // and those that were retried
		"window=all&queue=none":                    0,
		"window=all&queue=" + "%27%3B--%22%3Cx%3E": 0,
		"window=all&limit=10":                      10,
	} {
		read := readSamples(t, []byte(ui.get("/api/samples?"+query).body))
		if got := len(read.rows); got != want {
			t.Errorf("%s: %d samples, want %d", query, got, want)
		}
		if limited := query == "window=all&limit=10"; read.more != limited {
			t.Errorf("%s: more is %v", query, read.more)
		}
	}
	// Of the six minutes the last has none, and of the other five the half that is odd. The test itself takes some seconds.
	for _, row := range readSamples(t, []byte(ui.get("/api/samples?window=6m&queue=odd").body)).rows {
		if age := time.Since(row.finished); age > 6*time.Minute+waitAtMost || row.queue != "odd" {
			t.Fatalf("%s old, of queue %q", age, row.queue)
		}
	}
	for _, query := range []string{"window=yesterday", "window=-1h", "limit=0", "limit=1000001", "limit=x", "queue=" + strings.Repeat("q", 200)} {
		if answer := ui.get("/api/samples?" + query); answer.status != http.StatusBadRequest {
			t.Errorf("%s: status %d, want 400", query, answer.status)
		}
	}
	if answer := ui.as(0).get("/api/samples"); answer.status != http.StatusUnauthorized {
		t.Errorf("nobody gets status %d", answer.status)
	}
}

// What a browser accepts is packed; it is the same when it is unpacked.
func TestSamplesArePackedForWhoAcceptsIt(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	seedHistory(t, db, 100)
	ui := newConsole(t, db)
	request := ui.request(http.MethodGet, "/api/samples?window=all", nil)
	request.Header.Set("Accept-Encoding", "br;q=1.0, gzip;q=0.8")
	answer := ui.send(request)
	if answer.header.Get("Content-Encoding") != "gzip" || answer.header.Get("Vary") != "Accept-Encoding" {
		t.Fatalf("headers %v", answer.header)
	}
	unpacked, err := gzip.NewReader(strings.NewReader(answer.body))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(unpacked)
	if err != nil {
		t.Fatal(err)
	}
	if read := readSamples(t, text); !read.ended || len(read.rows) != 110 {
		t.Errorf("%d samples", len(read.rows))
	}
	for accepted, want := range map[string]bool{"": false, "gzip": true, "br": false, "gzip;q=0": false, "identity, GZIP": true, "gzip ; q=0.1": true} {
		if got := acceptsGzip(accepted); got != want {
			t.Errorf("accept %q: %v", accepted, got)
		}
	}
}

// The statement that reads samples is cancelled when the browser leaves, and gives its place and its connection back.
func TestLeavingCancelsTheReadingOfSamples(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	schema := quotedName(db.Schema)
	// A lock that the statement has to wait for holds it up for as long as the test likes.
	seedHistory(t, db, 10)
	blocker, err := db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = blocker.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := blocker.Exec(t.Context(), "LOCK TABLE "+schema+".history IN ACCESS EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	ui := newConsole(t, db)
	waiting := func() (n int) {
		err := db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for range samplesAtOnce + 2 { // more than have a place at once: each gives its own back
		ctx, leave := context.WithCancel(t.Context())
		ended := make(chan struct{})
		request := ui.request(http.MethodGet, "/api/samples?window=all", nil).WithContext(ctx)
		go func() {
			defer close(ended)
			if answer, err := http.DefaultClient.Do(request); err == nil {
				_ = answer.Body.Close()
			}
		}()
		until(t, "the statement waits for the lock", func() bool { return waiting() == 1 })
		leave()
		<-ended
		until(t, "it is cancelled", func() bool { return waiting() == 0 })
		until(t, "its place is free", func() bool { return len(ui.console.sampling) == 0 })
	}
}

// No more than samplesAtOnce read at once: the others are told so, at once.
func TestSamplesAreReadByFewAtOnce(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	ui := newConsole(t, db)
	for range samplesAtOnce {
		ui.console.sampling <- struct{}{}
	}
	answer := ui.get("/api/samples")
	if answer.status != http.StatusTooManyRequests || answer.header.Get("Retry-After") == "" {
		t.Errorf("status %d, headers %v", answer.status, answer.header)
	}
	<-ui.console.sampling
	if answer := ui.get("/api/samples"); answer.status != http.StatusOK {
		t.Errorf("status %d with a free place", answer.status)
	}
	<-ui.console.sampling
}

// until polls for what only the database, or another goroutine, can tell.
func until(t *testing.T, what string, reached func() bool) {
	t.Helper()
	deadline := time.NewTimer(waitAtMost)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !reached() {
		select {
		case <-deadline.C:
			t.Fatalf("waited %s for: %s", waitAtMost, what)
		case <-tick.C:
		}
	}
}
