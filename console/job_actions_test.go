package console

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// jobIn writes a job in a state, at attempt 3 of its input 2, with that number.
func jobIn(t testing.TB, pool *pgxpool.Pool, id int64, state pgqueue.JobState) {
	t.Helper()
	switch state {
	case pgqueue.JobPending:
		runSQL(t, pool, `INSERT INTO pgqueue.jobs (id, queue, kind, state, attempt, generation, claimed_generation, failures, payload)
			VALUES ($1, 'mail', 'send', 'pending', 3, 2, 2, 1, '{"n": 12345678901234567890}')`, id)
	case pgqueue.JobRunning:
		runSQL(t, pool, `INSERT INTO pgqueue.jobs (id, queue, kind, state, attempt, generation, claimed_generation, failures, payload, claimed_at, lease_expires_at, claimed_by)
			VALUES ($1, 'mail', 'send', 'running', 3, 2, 2, 1, '{"n": 12345678901234567890}', now(), now() + interval '1 hour', 'w1')`, id)
	default:
		runSQL(t, pool, `INSERT INTO pgqueue.history (id, run_at, created_at, claimed_at, finished_at, day, attempt, generation, error_count, priority, failures, max_attempts,
				queue, kind, state, claimed_by, payload, metadata, tags)
			VALUES ($1, now(), now(), now(), now(), CASE WHEN $2 IN ('failed', 'dead') THEN 'infinity' ELSE (now() AT TIME ZONE 'UTC')::date END,
				3, 2, 0, 1, 3, 3, 'mail', 'send', $2, 'w1', '{"n": 12345678901234567890}', '{}', '{}')`, id, string(state))
	}
	runSQL(t, pool, `SELECT setval('pgqueue.jobs_id_seq', greatest($1::bigint, (SELECT last_value FROM pgqueue.jobs_id_seq)))`, id)
}

// storedJob is all that is stored of a job, but for what its lease says.
func storedJob(t testing.TB, pool *pgxpool.Pool, id int64) (text string) {
	t.Helper()
	err := pool.QueryRow(t.Context(), `SELECT coalesce((SELECT to_jsonb(j)::text FROM pgqueue.jobs j WHERE id = $1), '')
		|| coalesce((SELECT to_jsonb(h)::text FROM pgqueue.history h WHERE id = $1), '')`, id).Scan(&text)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// actionForms are the forms of all actions, as their pages send them.
func actionForms() map[string]url.Values {
	return map[string]url.Values{
		"retry": {}, "edit-and-retry": {"payload": {`{"n": 98765432109876543210}`}}, "reschedule": {"due": {"+1h"}}, "cancel": {},
		"edit": {"payload": {`{"n": 98765432109876543210}`}}, "priority": {"priority": {"4"}}, "max-attempts": {"max_attempts": {"7"}}, "delete": {},
	}
}

func withVersion(form url.Values, version string) url.Values {
	full := url.Values{"version": {version}}
	for name, values := range form {
		full[name] = values
	}
	return full
}

// inState is a form that was made for a job in that state.
func inState(form url.Values, state pgqueue.JobState) url.Values {
	full := url.Values{"state": {string(state)}}
	for name, values := range form {
		full[name] = values
	}
	return full
}

// What was typed is not lost: where it is refused the form comes back with it, and where somebody else was faster it is shown.
func TestWhatWasTypedIsNotLost(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	c := newConsole(t, db)
	jobIn(t, db.Pool, 1, pgqueue.JobPending)
	for action, typed := range map[string]url.Values{
		"edit":         {"payload": {`{"typed": "by hand",}`}},
		"reschedule":   {"due": {"typed-by-hand"}},
		"priority":     {"priority": {"9"}},
		"max-attempts": {"max_attempts": {"-77"}},
	} {
		page := c.post("/jobs/1/"+action, withVersion(typed, "3.2")).want(t, http.StatusBadRequest)
		again := page.form(t, "/jobs/1/"+action)
		for field := range typed {
			if action == "priority" { // which offers what there is
				continue
			}
			if !strings.Contains(page.body, html.EscapeString(typed.Get(field))) {
				t.Errorf("%s: the form does not hold %q: %s", action, typed.Get(field), page.body)
			}
		}
		if !strings.Contains(page.body, `role="alert"`) || again.Get("version") != "3.2" {
			t.Errorf("%s: the page is %s", action, page.short())
		}
	}
	page := c.post("/jobs/1/edit", withVersion(url.Values{"payload": {`{"typed": "by hand"}`}}, "3.1")).want(t, http.StatusConflict)
	if !strings.Contains(page.body, "by hand") {
		t.Errorf("what was typed is lost: %s", page.short())
	}
}

// A form that was made for a dead job does not delete it when somebody has retried it meanwhile: neither attempt nor input tell of that.
func TestAnOldFormDeletesNoJobThatWasRetried(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	c := newConsole(t, db)
	jobIn(t, db.Pool, 1, pgqueue.JobDead)
	form := url.Values{"version": {"3.2"}, "state": {"dead"}}
	c.post("/jobs/1/retry", form).want(t, http.StatusSeeOther)
	page := c.post("/jobs/1/delete", form).want(t, http.StatusConflict)
	if !strings.Contains(page.body, "it is pending, no longer dead") {
		t.Errorf("the page does not say what has changed: %s", page.short())
	}
	if job, err := db.Client(t).Get(t.Context(), db.Pool, 1); err != nil || job.State != pgqueue.JobPending {
		t.Errorf("the job is %+v, %v", job, err)
	}
	if log := auditOf(t, c, 1); len(log) != 1 {
		t.Errorf("the audit log has %+v", log)
	}
	c.post("/jobs/1/delete", url.Values{"version": {"3.2"}}).want(t, http.StatusBadRequest)
	c.post("/jobs/1/delete", url.Values{"version": {"3.2"}, "state": {"pending"}}).want(t, http.StatusSeeOther)
}

// auditOf are the entries of the audit log about a job.
func auditOf(t testing.TB, c *testConsole, id int64) []pgqueue.AuditRecord {
	t.Helper()
	log, err := c.console.inspector.AuditLog(t.Context(), pgqueue.AuditFilter{Job: id}, pgqueue.AuditOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return log.Records
}

// Each action in each state does what it should, or nothing, and says 409. What was done is in the audit log, with who did it.
func TestC140_EveryActionInEveryState(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	c := newConsole(t, db)
	possible := map[pgqueue.JobState][]string{
		pgqueue.JobPending:   {"reschedule", "cancel", "edit", "priority", "max-attempts", "delete"},
		pgqueue.JobRunning:   {"cancel", "edit", "priority", "max-attempts"}, // and delete, if it says so
		pgqueue.JobSucceeded: {"delete"},
		pgqueue.JobCancelled: {"delete"},
		pgqueue.JobFailed:    {"retry", "edit-and-retry", "priority", "max-attempts", "delete"},
		pgqueue.JobDead:      {"retry", "edit-and-retry", "priority", "max-attempts", "delete"},
	}
	id := int64(0)
	for state, works := range possible {
		for action, form := range actionForms() {
			id++
			jobIn(t, db.Pool, id, state)
			path := "/jobs/" + strconv.FormatInt(id, 10)
			name := fmt.Sprintf("%s of a job that is %s", action, state)
			form = inState(form, state)
			before := storedJob(t, db.Pool, id)
			works := slices.Contains(works, action)

			confirm := http.StatusOK
			if !works && (action != "delete" || state != pgqueue.JobRunning) {
				confirm = http.StatusConflict
			}
			if got := c.get(path + "/confirm/" + action); got.status != confirm {
				t.Errorf("%s: the page that asks: %d instead of %d", name, got.status, confirm)
			}
			if got := c.as(Viewer).get(path + "/confirm/" + action); got.status != http.StatusForbidden {
				t.Errorf("%s: the page that asks, for a viewer: %d", name, got.status)
			}
			if got := c.as(Viewer).post(path+"/"+action, withVersion(form, "3.2")); got.status != http.StatusForbidden {
				t.Errorf("%s: by a viewer: %d", name, got.status)
			}
			for _, stale := range []string{"2.2", "3.1"} {
				if got := c.post(path+"/"+action, withVersion(form, stale)); got.status != http.StatusConflict {
					t.Errorf("%s: on version %s: %d", name, stale, got.status)
				}
			}
			if got := c.post(path+"/"+action, form); got.status != http.StatusBadRequest {
				t.Errorf("%s: without a version: %d", name, got.status)
			}
			if after := storedJob(t, db.Pool, id); after != before {
				t.Errorf("%s: refusals have changed it:\n%s\n%s", name, before, after)
			}

			got := c.post(path+"/"+action, withVersion(form, "3.2"))
			after, log := storedJob(t, db.Pool, id), auditOf(t, c, id)
			switch {
			case works && (got.status != http.StatusSeeOther || after == before || len(log) != 1 || log[0].Actor != "olga" || log[0].Via != "console"):
				t.Errorf("%s: %d, audit %+v, job %s", name, got.status, log, after)
			case !works && (got.status != http.StatusConflict || after != before || len(log) != 0):
				t.Errorf("%s: %d, audit %+v, job %s", name, got.status, log, after)
			}
		}
	}
	for action, form := range actionForms() { // of a job that there never was
		form = inState(form, pgqueue.JobDead)
		if got := c.post("/jobs/999999/"+action, withVersion(form, "3.2")); got.status != http.StatusNotFound {
			t.Errorf("%s of no job: %d", action, got.status)
		}
		if got := c.get("/jobs/999999/confirm/" + action); got.status != http.StatusNotFound {
			t.Errorf("the page that asks for %s of no job: %d", action, got.status)
		}
	}
}

func TestC140_ARunningJobIsDeletedOnlyKnowingly(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	c := newConsole(t, db)
	jobIn(t, db.Pool, 1, pgqueue.JobRunning)
	c.post("/jobs/1/delete", url.Values{"version": {"3.2"}, "state": {"running"}}).want(t, http.StatusConflict)
	got := c.post("/jobs/1/delete", url.Values{"version": {"3.2"}, "state": {"running"}, "running": {"yes"}}).want(t, http.StatusSeeOther)
	if storedJob(t, db.Pool, 1) != "" || got.header.Get("Location") != "/jobs?done=delete" {
		t.Errorf("%s, then %s", storedJob(t, db.Pool, 1), got.header.Get("Location"))
	}
}

// A double click, or fifty.
func TestC140_FiftyRetriesAtOnceAreOne(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	c := newConsole(t, db)
	jobIn(t, db.Pool, 1, pgqueue.JobDead)
	statuses := make([]int, 50)
	var wait sync.WaitGroup
	for n := range statuses {
		wait.Go(func() { statuses[n] = c.post("/jobs/1/retry", url.Values{"version": {"3.2"}}).status })
	}
	wait.Wait()
	counts := map[int]int{}
	for _, status := range statuses {
		counts[status]++
	}
	if counts[http.StatusSeeOther] != 1 || counts[http.StatusConflict] != 49 {
		t.Errorf("answers: %v", counts)
	}
	if log := auditOf(t, c, 1); len(log) != 1 {
		t.Errorf("audit: %+v", log)
	}
	if n := countSQL(t, db.Pool, `pgqueue.jobs WHERE id = 1 AND state = 'pending' AND attempt = 3 AND failures = 0`); n != 1 {
		t.Errorf("the job: %s", storedJob(t, db.Pool, 1))
	}
}

// A page that was loaded at attempt 3 of a job that is at attempt 4 by now.
func TestC140_AStalePageChangesNothing(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	c := newConsole(t, db)
	jobIn(t, db.Pool, 1, pgqueue.JobPending)
	form := c.get("/jobs/1/confirm/cancel").want(t, http.StatusOK).form(t, "/jobs/1/cancel")
	runSQL(t, db.Pool, `UPDATE pgqueue.jobs SET attempt = 4 WHERE id = 1`)
	got := c.post("/jobs/1/cancel", form).want(t, http.StatusConflict)
	requireText(t, got.body, "it is at attempt 4 of input 2, no longer at attempt 3 of input 2", `href="/jobs/1"`)
	if n := countSQL(t, db.Pool, `pgqueue.jobs WHERE id = 1`); n != 1 {
		t.Error("the job is gone")
	}
}

// What is edited keeps all digits, and what is no JSON is refused with the place.
func TestAnEditIsStoredAsItWasWritten(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	c := newConsole(t, db)
	jobIn(t, db.Pool, 1, pgqueue.JobDead)
	requireText(t, c.get("/jobs/1/confirm/edit-and-retry").want(t, http.StatusOK).body, "12345678901234567890")
	for payload, words := range map[string]string{"": "is missing", `{"n": }`: "at byte 7", "nul": "is no JSON", `{"n": "\u0000"}`: "payload"} {
		got := c.post("/jobs/1/edit-and-retry", url.Values{"version": {"3.2"}, "payload": {payload}}).want(t, http.StatusBadRequest)
		requireText(t, got.body, words)
	}
	c.post("/jobs/1/edit-and-retry", url.Values{"version": {"3.2"}, "payload": {"{\r\n  \"n\": 98765432109876543210.50\r\n}"}}).want(t, http.StatusSeeOther)
	if n := countSQL(t, db.Pool, `pgqueue.jobs WHERE id = 1 AND payload::text = '{"n": 98765432109876543210.50}' AND generation = 3`); n != 1 {
		t.Error(storedJob(t, db.Pool, 1))
	}
}

// The live job that has the key of one that is to be retried.
func TestARetryNamesTheJobInItsWay(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	c := newConsole(t, db)
	jobIn(t, db.Pool, 1, pgqueue.JobDead)
	jobIn(t, db.Pool, 2, pgqueue.JobPending)
	runSQL(t, db.Pool, `UPDATE pgqueue.history SET key = 'k' WHERE id = 1`)
	runSQL(t, db.Pool, `UPDATE pgqueue.jobs SET key = 'k' WHERE id = 2`)
	got := c.post("/jobs/1/retry", url.Values{"version": {"3.2"}}).want(t, http.StatusConflict)
	requireText(t, got.body, `<a href="/jobs/2">job 2</a>`)
}
