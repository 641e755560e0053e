package console

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// The times that lie furthest away are shown as what they are, and none of them means now.
func TestTimesThatAreFarAway(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	c := newConsole(t, db)
	jobIn(t, db.Pool, 1, pgqueue.JobPending)
	form := func(due string) url.Values {
		form := c.get("/jobs/1/confirm/reschedule").want(t, http.StatusOK).form(t, "/jobs/1/reschedule")
		form.Set("due", due)
		return form
	}
	before := storedJob(t, db.Pool, 1)
	requireText(t, c.post("/jobs/1/reschedule", form("0001-01-01")).want(t, http.StatusBadRequest).body, "must be a time")
	if after := storedJob(t, db.Pool, 1); after != before {
		t.Errorf("it was rescheduled all the same: %s", after)
	}
	c.post("/jobs/1/reschedule", form("9999-12-31")).want(t, http.StatusSeeOther)
	requireText(t, c.get("/jobs/1").want(t, http.StatusOK).body, "<dt>Due</dt><dd><time datetime=\"9999-12-31T00:00:00.000Z\"")
	runSQL(t, db.Pool, `UPDATE pgqueue.jobs SET run_at = 'infinity' WHERE id = 1`)
	requireText(t, c.get("/jobs/1").want(t, http.StatusOK).body, "at no date: run_at is infinity")
}
