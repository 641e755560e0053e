package console

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// A form that was made for one value does not change another, which somebody else has set meanwhile.
func TestAnOldFormChangesNoOtherValue(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	c := newConsole(t, db)
	jobIn(t, db.Pool, 1, pgqueue.JobPending)
	for action, values := range map[string][2]url.Values{
		"reschedule":   {{"due": {"+1h"}}, {"due": {"+2h"}}},
		"priority":     {{"priority": {"4"}}, {"priority": {"3"}}},
		"max-attempts": {{"max_attempts": {"7"}}, {"max_attempts": {"8"}}},
	} {
		old := c.get("/jobs/1/confirm/"+action).want(t, http.StatusOK).form(t, "/jobs/1/"+action)
		fill := func(form url.Values, with url.Values) url.Values {
			for field, given := range with {
				form[field] = given
			}
			return form
		}
		c.post("/jobs/1/"+action, fill(c.get("/jobs/1/confirm/"+action).form(t, "/jobs/1/"+action), values[0])).want(t, http.StatusSeeOther)
		before := storedJob(t, db.Pool, 1)
		requireText(t, c.post("/jobs/1/"+action, fill(old, values[1])).want(t, http.StatusConflict).body, "Somebody else was faster", "no longer")
		if after := storedJob(t, db.Pool, 1); after != before {
			t.Errorf("%s: the old form has changed the job: %s", action, after)
		}
	}
	// Nor does it change a job that has come back, or has ended, since.
	jobIn(t, db.Pool, 2, pgqueue.JobDead)
	form := c.get("/jobs/2/confirm/priority").want(t, http.StatusOK).form(t, "/jobs/2/priority")
	form.Set("priority", "4")
	c.post("/jobs/2/retry", withVersion(nil, "3.2")).want(t, http.StatusSeeOther)
	requireText(t, c.post("/jobs/2/priority", form).want(t, http.StatusConflict).body, "it is pending, no longer dead")
}

// Where somebody else is at the job in the same moment, what he leaves behind is what counts.
func TestAFormWaitsForWhoeverIsAtTheJob(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	c := newConsole(t, db)
	jobIn(t, db.Pool, 1, pgqueue.JobPending)
	form := c.get("/jobs/1/confirm/priority").want(t, http.StatusOK).form(t, "/jobs/1/priority")
	form.Set("priority", "4")
	err := pgx.BeginFunc(t.Context(), db.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), `SELECT pgqueue.set_priority(1, 2::smallint)`); err != nil {
			return err
		}
		sent := make(chan *reply, 1)
		go func() { sent <- c.post("/jobs/1/priority", form) }()
		waiting := "pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
		for countSQL(t, db.Pool, waiting) == 0 {
			select {
			case early := <-sent:
				t.Fatalf("it did not wait: %d", early.status)
			default:
			}
		}
		if err := tx.Commit(t.Context()); err != nil {
			return err
		}
		requireText(t, (<-sent).want(t, http.StatusConflict).body, "the priority of job 1 is 2 now, no longer 1")
		return nil
	})
	if err != nil && !strings.Contains(err.Error(), "tx is closed") {
		t.Fatal(err)
	}
	if n := countSQL(t, db.Pool, "pgqueue.jobs WHERE id = 1 AND priority = 2"); n != 1 {
		t.Error(storedJob(t, db.Pool, 1))
	}
}

// A form whose token is too old comes again with another, and with what was typed; nothing is done before it is sent once more.
func TestATooOldFormComesAgain(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	c := newConsole(t, db)
	jobIn(t, db.Pool, 1, pgqueue.JobDead)
	before := storedJob(t, db.Pool, 1)
	sent := url.Values{"version": {"3.2"}, "state": {"dead"}, "payload": {`{"typed": "for an hour"}`}, csrfField: {"old"}}
	page := c.post("/jobs/1/edit-and-retry", sent).want(t, http.StatusForbidden)
	requireText(t, page.body, `role="alert"`, "too old", "{&#34;typed&#34;: &#34;for an hour&#34;}</textarea>")
	if after := storedJob(t, db.Pool, 1); after != before {
		t.Errorf("something was done: %s", after)
	}
	token := csrfToken(c.secret, Identity{Name: testName(Operator)})
	requireText(t, page.body, `name="csrf" value="`+token+`"`)
	if got := c.as(Viewer).post("/jobs/1/edit-and-retry", sent); got.status != http.StatusForbidden || strings.Contains(got.body, "<form") {
		t.Errorf("a viewer gets a form: %d %s", got.status, got.short())
	}
	foreign := c.postRequest("/jobs/1/edit-and-retry", sent)
	foreign.Header.Set("Sec-Fetch-Site", "cross-site")
	if got := c.send(foreign); got.status != http.StatusForbidden || strings.Contains(got.body, "for an hour") {
		t.Errorf("another site gets a form: %d %s", got.status, got.short())
	}
}

// Where a payload was replaced while somebody wrote another, both are shown, and the form that comes back is about the new one.
func TestAConflictOfEditsShowsBoth(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	c := newConsole(t, db)
	jobIn(t, db.Pool, 1, pgqueue.JobPending)
	form := c.get("/jobs/1/confirm/edit").want(t, http.StatusOK).form(t, "/jobs/1/edit")
	form.Set("payload", `{"mine": 1}`)
	c.post("/jobs/1/edit", withVersion(url.Values{"payload": {`{"theirs": 2}`}}, form.Get("version"))).want(t, http.StatusSeeOther)
	page := c.post("/jobs/1/edit", form).want(t, http.StatusConflict)
	requireText(t, page.body, `role="alert"`, "{&#34;mine&#34;: 1}</textarea>", "&#34;theirs&#34;: 2")
	again := page.form(t, "/jobs/1/edit")
	again.Set("payload", `{"mine": 1}`)
	c.post("/jobs/1/edit", again).want(t, http.StatusSeeOther)
	if n := countSQL(t, db.Pool, `pgqueue.jobs WHERE id = 1 AND payload = '{"mine": 1}'`); n != 1 {
		t.Error(storedJob(t, db.Pool, 1))
	}
}
