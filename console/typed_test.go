package console

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// What somebody typed is not lost when it is refused: the form comes again, with the reason, and is still about what was seen.
func TestARefusedPauseKeepsWhatWasTyped(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	c := newConsole(t, db)
	for ask, post := range map[string]string{"/queues/mail/confirm/pause": "/queues/mail/pause", "/kinds/confirm/pause?kind=send&queue=": "/kinds/pause"} {
		form := c.get(ask).want(t, http.StatusOK).form(t, post)
		form.Set("until", "2020-01-01T00:00")
		form.Set("for", "4h")
		form.Set("reason", `a "long" story`)
		// Meanwhile somebody pauses the queue. (Of a kind, that alone would be the answer.)
		if post == "/queues/mail/pause" {
			runSQL(t, db.Pool, `SELECT pgqueue.pause('mail', 'a fire')`)
		}
		page := c.post(post, form).want(t, http.StatusBadRequest)
		requireText(t, page.body, `role="alert"`, "has passed")
		again := page.form(t, post)
		for name := range form {
			if again.Get(name) != form.Get(name) {
				t.Errorf("%s: %s is %q, and was sent as %q", post, name, again.Get(name), form.Get(name))
			}
		}
		// The form that came back still is about what was seen; the one that comes with the conflict is about what that shows.
		again.Set("until", "2998-01-01T00:00")
		if post == "/kinds/pause" {
			runSQL(t, db.Pool, `SELECT pgqueue.pause_kind('send', '', NULL, 'a fire')`)
		}
		page = c.post(post, again).want(t, http.StatusConflict)
		requireText(t, page.body, `role="alert"`, "Somebody else was faster", "a fire")
		last := page.form(t, post)
		if last.Get("reason") != form.Get("reason") || last.Get("until") != again.Get("until") || last.Get("seen") == again.Get("seen") {
			t.Errorf("%s: after a conflict: %v", post, last)
		}
		last.Set("until", "")
		last.Set("for", "")
		c.post(post, last).want(t, http.StatusSeeOther)
	}
	page := c.post("/queues/mail/history", url.Values{"seen": {"off"}, "history": {"slim"}}).want(t, http.StatusConflict)
	requireText(t, page.body, `role="alert"`, `value="slim" required checked`)
}

// So with a bulk action: what is wrong begins anew, and all else stays, with the jobs that are meant.
func TestARefusedBulkActionKeepsWhatWasTyped(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	c := newConsole(t, db)
	form := c.get("/bulk/confirm?action=cancel&queue=mail").want(t, http.StatusOK).form(t, "/bulk") // of no jobs at all
	placeJob(t, db, false)
	runSQL(t, db.Pool, `UPDATE pgqueue.jobs SET queue = 'mail'`)
	if end := ended(t, c.begun(c.post("/bulk", form))); end.Result.Matched != 0 {
		t.Errorf("a job was cancelled that came afterwards: %+v", end)
	}
	runSQL(t, db.Pool, `DELETE FROM pgqueue.jobs`)

	deadJobs(t, db, 0, 3, "dead", "mail", "send", "timeout")
	form = c.get("/bulk/confirm?action=retry&queue=mail").want(t, http.StatusOK).form(t, "/bulk")
	form.Set("spread", time.Hour.String())
	form.Set("batch", "99999")
	page := c.post("/bulk", form).want(t, http.StatusBadRequest)
	requireText(t, page.body, `role="alert"`, "batch_size", "Nothing was begun")
	again := page.form(t, "/bulk")
	if again.Get("spread") != "1h0m0s" || again.Get("batch") != "" || again.Get("queue") != "mail" || again.Get("max_id") != form.Get("max_id") {
		t.Errorf("the form has %v", again)
	}
	ended(t, c.begun(c.post("/bulk", again)))
	if n := countSQL(t, db.Pool, "pgqueue.jobs WHERE queue = 'mail'"); n != 3 {
		t.Errorf("%d were retried", n)
	}

	deadJobs(t, db, 100, 3, "dead", "mail", "send", "timeout")
	form = c.get("/bulk/confirm?action=delete&state=dead&queue=mail").want(t, http.StatusOK).form(t, "/bulk")
	form.Set("batch", "2")
	page = c.post("/bulk", form).want(t, http.StatusBadRequest)
	requireText(t, page.body, `role="alert"`, "tick the box")
	if again := page.form(t, "/bulk"); again.Get("batch") != "2" || again.Get("operation") == form.Get("operation") {
		t.Errorf("the form has %v", again)
	}
	if n := countSQL(t, db.Pool, "pgqueue.history"); n != 3 {
		t.Errorf("%d are left", n)
	}
}

// A RedactFunc that hides nothing may still write a payload anew, with other blanks. It can be edited all the same.
func TestAPayloadThatWasWrittenAnewCanBeEdited(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	hide := false
	c := newConsole(t, db, func(config *Config) {
		config.Redact = func(_ context.Context, _ Redaction, value json.RawMessage) json.RawMessage {
			var compact bytes.Buffer
			if hide || json.Compact(&compact, value) != nil {
				return nil
			}
			return compact.Bytes()
		}
	})
	jobIn(t, db.Pool, 1, pgqueue.JobPending)
	requireText(t, c.get("/jobs/1/confirm/edit").want(t, http.StatusOK).body, "&#34;n&#34;: 12345678901234567890")
	hide = true
	requireText(t, c.get("/jobs/1/confirm/edit").want(t, http.StatusOK).body, "Parts of the payload are not shown here", "spellcheck=\"false\" required>\n</textarea>")
}
