package console

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// liveJobs writes n pending jobs, due so many seconds ago.
func liveJobs(t testing.TB, db *pgqueuetest.DB, n int, queue, kind string, priority, dueAgo, failures int) {
	t.Helper()
	runSQL(t, db.Pool, `INSERT INTO pgqueue.jobs (queue, kind, payload, priority, run_at, failures)
		SELECT $2, $3, '{}', $4, now() - $5::int * interval '1 s', $6 FROM generate_series(1, $1::int)`, n, queue, kind, priority, dueAgo, failures)
}

func TestTheQueuesScreenCounts(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	c := newConsole(t, db)
	c.get("/queues").want(t, http.StatusOK).tells(t, "No queue has been used yet")

	liveJobs(t, db, 3, "mail", "send", 1, 90, 0)
	liveJobs(t, db, 2, "mail", "send", 4, 30, 0)
	liveJobs(t, db, 4, "mail", "send", 1, -3600, 0)
	liveJobs(t, db, 1, "mail", "send", 1, -3600, 1)
	deadJobs(t, db, 1000, 2, "dead", "mail", "send", "smtp")
	deadJobs(t, db, 2000, 1, "failed", "mail", "send", "bad")
	runSQL(t, db.Pool, `SELECT pgqueue.pause('bulk', 'the warehouse')`)
	runSQL(t, db.Pool, `SELECT pgqueue.pause_kind('send', 'mail'), pgqueue.pause_kind('other')`)
	runSQL(t, db.Pool, `INSERT INTO pgqueue.queues (name, history) VALUES ('raw', 'off')`)

	page := c.get("/queues").want(t, http.StatusOK)
	if row := page.row(t, "mail"); !strings.Contains(row, "mail kinds paused: 2 5 1 min 30 s 4 1 0 1 2 ") {
		t.Errorf("the row of mail says %q", row)
	}
	if row := page.row(t, "bulk"); !strings.HasPrefix(row, "bulk paused kinds paused: 1 0 – 0 0 0 0 0") {
		t.Errorf("the row of bulk says %q", row)
	}
	if row := page.row(t, "raw"); !strings.Contains(row, "no history") {
		t.Errorf("the row of raw says %q", row)
	}
	if !strings.Contains(page.body, "data-live") || !strings.Contains(page.body, `href="/jobs?queue=mail&amp;state=dead"`) {
		t.Errorf("neither live nor linked: %s", page.body)
	}

	page = c.get("/queues/mail").want(t, http.StatusOK).tells(t, "Queue mail", "Ready 5", "Oldest ready 1 min 30 s", "Scheduled 4", "Retrying 1",
		"Failed 1", "Dead 2", "no live worker serves this queue", "send in this queue", "other in all queues")
	if row := page.row(t, "4"); !strings.HasPrefix(row, "4 2 catch-up") {
		t.Errorf("priority 4 says %q", row)
	}
	c.get("/queues/bulk").want(t, http.StatusOK).tells(t, "until somebody resumes it. The reason: “the warehouse”.")
	c.get("/queues/nobody").want(t, http.StatusOK).tells(t, "Nothing is in this queue")
	c.get("/queues/"+strings.Repeat("x", 200)).want(t, http.StatusBadRequest)

	for _, path := range []string{"/queues", "/queues/mail", "/kinds"} { // no buttons for those who may not
		if seen := c.as(Viewer).get(path).want(t, http.StatusOK); strings.Contains(seen.body, "/confirm") {
			t.Errorf("%s offers actions to a viewer", path)
		}
		c.as(0).get(path).want(t, http.StatusUnauthorized)
	}
}

func TestAQueueShowsWhatGetsDoneAndByWhom(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	c := newConsole(t, db)
	runSQL(t, db.Pool, `INSERT INTO pgqueue.history (id, queue, kind, state, attempt, claimed_at, finished_at, day, run_at, created_at, generation, error_count,
			priority, failures, max_attempts, payload, metadata, tags)
		SELECT g, 'mail', 'send', 'succeeded', 1, now() - interval '12 s', now() - interval '10 s', (now() AT TIME ZONE 'UTC')::date, now() - interval '17 s',
			now(), 1, 0, 1, 0, 3, '{}', '{}', '{}' FROM generate_series(1, 30) g`)
	liveJobs(t, db, 1, "mail", "send", 1, -3600, 0)
	runSQL(t, db.Pool, `SELECT pgqueue.heartbeat('w-1', 'host', 7, 'v2', now(), interval '5 s', false, '{"mail": {"workers": 4, "in_flight": 3, "stuck": 1}}', '{}')`)
	c.get("/queues/mail").want(t, http.StatusOK).tells(t, "Succeeded 30", "Wait 5.0 s", "Run 2.0 s", "Live worker processes: 1. They run 4 of its jobs at once", "w-1 3 4 0 1")
	if row := c.get("/queues").want(t, http.StatusOK).row(t, "mail"); !strings.Contains(row, "0.1") || !strings.Contains(row, "5.0 s 2.0 s") {
		t.Errorf("the row says %q", row)
	}
}

// The list counts to a thousand, once for all who look, and anew where somebody has changed something.
func TestTheListOfQueuesCountsLittle(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	c := newConsole(t, db)
	liveJobs(t, db, 1_500, "mail", "send", 1, 60, 0)
	if row := c.get("/queues").want(t, http.StatusOK).row(t, "mail"); !strings.HasPrefix(row, "mail 1,000+ 1 min") {
		t.Errorf("the row says %q", row)
	}
	c.get("/queues/mail").want(t, http.StatusOK).tells(t, "Ready 1,500")
	c.console.counts.page("mail").until = time.Now().Add(time.Hour) // counting took six minutes
	runSQL(t, db.Pool, `DELETE FROM pgqueue.jobs WHERE id > (SELECT min(id) FROM pgqueue.jobs)`)
	if row := c.get("/queues").want(t, http.StatusOK).row(t, "mail"); !strings.HasPrefix(row, "mail 1,000+") {
		t.Errorf("it was counted anew: %q", row)
	}
	c.answer("/queues/mail/confirm/pause", "/queues/mail/pause", nil).want(t, http.StatusSeeOther)
	if row := c.get("/queues").want(t, http.StatusOK).row(t, "mail"); !strings.HasPrefix(row, "mail paused 1 1 min") {
		t.Errorf("it was not counted anew: %q", row)
	}
	for n := range 3 * countedPages {
		c.console.counts.page(fmt.Sprint(n))
	}
	if n := len(c.console.counts.pages); n > countedPages {
		t.Errorf("%d pages are remembered", n)
	}
}

func TestFiveHundredQueuesArePaged(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	c := newConsole(t, db)
	runSQL(t, db.Pool, `INSERT INTO pgqueue.jobs (queue, kind, payload) SELECT 'queue ' || to_char(g, 'FM000') || CASE WHEN g % 7 = 0 THEN ' É' ELSE '' END, 'k', '{}' FROM generate_series(1, 500) g`)
	seen, path := map[string]int{}, "/queues"
	for pages := 0; path != ""; pages++ {
		page := c.get(path).want(t, http.StatusOK)
		if len(page.body) > 300_000 {
			t.Errorf("%s has %d bytes", path, len(page.body))
		}
		for _, part := range strings.Split(page.body, `<th scope="row" data-label="Queue"><a href="`)[1:] {
			name, _, _ := strings.Cut(part[strings.Index(part, ">")+1:], "<")
			seen[name]++
		}
		if path = ""; strings.Contains(page.body, ">Next page<") {
			path = c.link(page, "Next page")
		}
		if pages > 10 {
			t.Fatal("the pages have no end")
		}
	}
	if len(seen) != 500 {
		t.Errorf("%d queues were shown, want 500", len(seen))
	}
	for name, n := range seen {
		if n != 1 {
			t.Errorf("%q was shown %d times", name, n)
		}
	}
	c.get("/queues?q=QUEUE+49").want(t, http.StatusOK).tells(t, "1 to 10 of 10 that match")
	c.get("/queues?q=none").want(t, http.StatusOK).tells(t, "No queue with jobs or settings", "Open the page of the queue with exactly this name")
}

func TestAQueueIsPausedAndResumed(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	c := newConsole(t, db, func(config *Config) { config.Prefix = "/admin/jobs" })
	state := func() string {
		t.Helper()
		return valueOf[string](t, db.Pool, `SELECT coalesce((SELECT concat_ws('|', paused_reason, CASE WHEN paused_until IS NULL THEN 'open' ELSE round(extract(epoch FROM paused_until - now()) / 60)::text END)
			FROM pgqueue.queues WHERE name = 'mail' AND paused_at IS NOT NULL), 'runs')`)
	}
	c.as(Viewer).get("/queues/mail/confirm/pause").want(t, http.StatusForbidden)
	c.as(Viewer).post("/queues/mail/pause", url.Values{"seen": {"none"}}).want(t, http.StatusForbidden)
	c.get("/queues/mail/pause").want(t, http.StatusMethodNotAllowed)
	c.get("/queues/mail/confirm/burn").want(t, http.StatusNotFound)
	c.answer("/queues/mail/confirm/resume", "/queues/mail/resume", nil).want(t, http.StatusConflict).tells(t, "It is not paused; nothing was changed")
	if state() != "runs" {
		t.Fatal("something was changed")
	}

	c.led(c.answer("/queues/mail/confirm/pause", "/queues/mail/pause", url.Values{"for": {"1h"}, "reason": {"<b>relay</b>"}}), "/queues/mail?done=pause")
	if state() != "<b>relay</b>|60" {
		t.Errorf("paused as %q", state())
	}
	c.get("/queues/mail?done=pause").want(t, http.StatusOK).tells(t, "Paused.", "when it goes on by itself. The reason: “<b>relay</b>”.")
	c.answer("/queues/mail/confirm/pause", "/queues/mail/pause", url.Values{"for": {"15m"}}).want(t, http.StatusConflict).tells(t, "No pause shortens another")
	c.answer("/queues/mail/confirm/pause", "/queues/mail/pause", url.Values{"until": {"2020-01-01T00:00"}}).want(t, http.StatusBadRequest).tells(t, "has passed")
	for _, wrong := range []string{"-1h", "x", "90000h"} {
		c.answer("/queues/mail/confirm/pause", "/queues/mail/pause", url.Values{"for": {wrong}}).want(t, http.StatusBadRequest)
	}
	c.answer("/queues/mail/confirm/pause", "/queues/mail/pause", url.Values{"reason": {strings.Repeat("r", 2000)}}).want(t, http.StatusBadRequest)
	c.led(c.answer("/queues/mail/confirm/pause", "/queues/mail/pause", url.Values{"until": {"2998-01-31T09:00"}, "reason": {"r"}}), "/queues/mail?done=pause")
	c.led(c.answer("/queues/mail/confirm/pause", "/queues/mail/pause", url.Values{"reason": {"for good"}}), "/queues/mail?done=pause")
	if state() != "for good|open" {
		t.Errorf("paused as %q", state())
	}

	// Somebody else gives another reason after the page was shown: what is to be ended is another pause than the one that was seen.
	form := c.get("/queues/mail/confirm/resume").want(t, http.StatusOK).tells(t, "until somebody resumes it: for good").form(t, "/admin/jobs/queues/mail/resume")
	runSQL(t, db.Pool, `SELECT pgqueue.pause('mail', 'a fire')`)
	c.post("/queues/mail/resume", form).want(t, http.StatusConflict).tells(t, "Somebody else was faster", "a fire")
	if state() != "a fire|open" {
		t.Errorf("paused as %q", state())
	}
	c.led(c.answer("/queues/mail/confirm/resume", "/queues/mail/resume", nil), "/queues/mail?done=resume")
	if state() != "runs" {
		t.Errorf("paused as %q", state())
	}
	lines := strings.Join(audited(t, db.Pool), "\n")
	for _, line := range []string{"olga console pause mail until ", "<b>relay</b>", "olga console pause mail for good", "olga console resume mail"} {
		if !strings.Contains(lines, line) {
			t.Errorf("the audit log lacks %q: %s", line, lines)
		}
	}
	if n := strings.Count(lines, "\n") + 1; n != 4 {
		t.Errorf("%d lines in the audit log, want 4: %s", n, lines)
	}
}

// Of many who decide on the same thing that they have seen, one does it, and the others are told.
func TestC140_OneOfManyPausesTheQueue(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	c := newConsole(t, db)
	form := c.get("/queues/mail/confirm/pause").want(t, http.StatusOK).form(t, "/queues/mail/pause")
	statuses := make([]int, 50)
	var all sync.WaitGroup
	for n := range statuses {
		mine := url.Values{"reason": {fmt.Sprint("number ", n)}, "seen": form["seen"]}
		all.Go(func() { statuses[n] = c.post("/queues/mail/pause", mine).status })
	}
	all.Wait()
	counts := map[int]int{}
	for _, status := range statuses {
		counts[status]++
	}
	if counts[http.StatusSeeOther] != 1 || counts[http.StatusConflict] != 49 {
		t.Errorf("answers %v, want one 303 and 49 409", counts)
	}
	if lines := audited(t, db.Pool); len(lines) != 1 {
		t.Errorf("the audit log has %q, want one line", lines)
	}
}

func TestTheHistorySettingOfAQueue(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	c := newConsole(t, db)
	form := c.get("/queues/mail/confirm/history").want(t, http.StatusOK).tells(t, "slim: everything but the payload").form(t, "/queues/mail/history")
	if form.Get("seen") != "full" {
		t.Fatalf("form %v", form)
	}
	c.led(c.post("/queues/mail/history", url.Values{"seen": {"full"}, "history": {"slim"}}), "/queues/mail?done=history")
	c.get("/queues/mail").want(t, http.StatusOK).tells(t, "History slim")
	c.post("/queues/mail/history", url.Values{"seen": {"full"}, "history": {"off"}}).want(t, http.StatusConflict).tells(t, `The setting is "slim" now`)
	c.post("/queues/mail/history", url.Values{"seen": {"slim"}, "history": {"none"}}).want(t, http.StatusBadRequest)
	if got := valueOf[string](t, db.Pool, `SELECT history FROM pgqueue.queues WHERE name = 'mail'`); got != "slim" {
		t.Errorf("history %q", got)
	}
}

func TestAKindIsPausedAndResumed(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	c := newConsole(t, db)
	c.get("/kinds").want(t, http.StatusOK).tells(t, "No kind is paused")
	c.as(Viewer).get("/kinds/confirm/pause").want(t, http.StatusForbidden)
	c.as(Viewer).post("/kinds/pause", url.Values{"kind": {"send"}, "seen": {"none"}}).want(t, http.StatusForbidden)
	c.get("/kinds/confirm/pause").want(t, http.StatusOK).tells(t, "Kind, as it stands with the jobs")
	c.get("/kinds/confirm/resume").want(t, http.StatusBadRequest)
	c.get("/kinds/confirm/burn?kind=x").want(t, http.StatusNotFound)
	c.led(c.answer("/kinds/confirm/pause?kind=send&queue=mail", "/kinds/pause", url.Values{"for": {"4h"}, "reason": {"a bad release"}}), "/kinds?done=pause")
	c.led(c.answer("/kinds/confirm/pause?kind=send&queue=", "/kinds/pause", nil), "/kinds?done=pause")
	page := c.get("/kinds").want(t, http.StatusOK).tells(t, "a bad release")
	if strings.Count(page.body, ">Resume<") != 2 {
		t.Errorf("not two kinds: %s", page.shownText())
	}
	c.answer("/kinds/confirm/pause?kind=send&queue=", "/kinds/pause", url.Values{"for": {"4h"}}).want(t, http.StatusConflict).tells(t, "No pause shortens another")
	form := c.get("/kinds/confirm/resume?kind=send&queue=mail").want(t, http.StatusOK).tells(t, "a bad release").form(t, "/kinds/resume")
	runSQL(t, db.Pool, `SELECT pgqueue.resume_kind('send', 'mail')`)
	c.post("/kinds/resume", form).want(t, http.StatusConflict).tells(t, "It is not paused now")
	c.answer("/kinds/confirm/resume?kind=send&queue=mail", "/kinds/resume", nil).want(t, http.StatusConflict).tells(t, "It is not paused in queue mail")
	c.led(c.answer("/kinds/confirm/resume?kind=send&queue=", "/kinds/resume", nil), "/kinds?done=resume")
	if n := countSQL(t, db.Pool, "pgqueue.paused"); n != 0 {
		t.Errorf("%d pauses are left", n)
	}
	if lines := audited(t, db.Pool); len(lines) != 3 {
		t.Errorf("the audit log has %q, want three lines", lines)
	}
}

// C134, and every other name that is legal: the link from the list leads to the queue, and what is done there is done to it.
func TestC134_HostileNamesOfQueues(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	c := newConsole(t, db, func(config *Config) { config.Prefix = "/a" })
	for _, name := range hostileNames() {
		runSQL(t, db.Pool, `INSERT INTO pgqueue.jobs (queue, kind, payload) VALUES ($1, $1, '{}')`, name)
	}
	list := c.get("/queues").want(t, http.StatusOK)
	for _, name := range hostileNames() {
		path := "/queues/" + segment(name)
		if !list.linksTo("/a" + path) {
			t.Errorf("the list has no link to %q, which is %s", name, path)
		}
		c.get(path).want(t, http.StatusOK).tells(t, strings.Join(strings.Fields("Queue "+name), " "), "Ready 1")
		c.led(c.answer(path+"/confirm/pause", path+"/pause", url.Values{"reason": {name}}), path+"?done=pause")
		kind := url.Values{"kind": {name}, "queue": {name}}
		c.answer("/kinds/confirm/pause?"+kind.Encode(), "/kinds/pause", url.Values{"reason": {name}}).want(t, http.StatusSeeOther)
	}
	if n := countSQL(t, db.Pool, "pgqueue.queues WHERE name = paused_reason"); n != len(hostileNames()) {
		t.Errorf("%d queues are paused under their own names, want %d", n, len(hostileNames()))
	}
	for _, path := range []string{"/queues", "/kinds"} {
		for _, e := range elements(c.get(path).want(t, http.StatusOK).body) {
			for _, a := range e.attributes {
				if e.name == "img" || strings.HasPrefix(a.name, "on") || strings.HasPrefix(strings.ToLower(strings.TrimSpace(a.value)), "javascript:") {
					t.Errorf("%s has %s", path, e.shape())
				}
			}
		}
	}
}
