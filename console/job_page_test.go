package console

import (
	"context"
	"encoding/json"
	"html"
	"net/http"
	"strings"
	"testing"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// requireText checks that a page holds each of these, as written or as a reader sees it.
func requireText(t testing.TB, body string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(body, text) && !strings.Contains(html.UnescapeString(body), text) {
			t.Errorf("the page does not say %q:\n%s", text, body)
		}
	}
}

func refuseText(t testing.TB, body string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if strings.Contains(body, text) || strings.Contains(html.UnescapeString(body), text) {
			t.Errorf("the page says %q:\n%s", text, body)
		}
	}
}

// deadJob is job 7, with two failed attempts, one that was snoozed between, a result of neither, and a trace.
func deadJob(t testing.TB, db *pgqueuetest.DB) {
	t.Helper()
	jobIn(t, db.Pool, 7, pgqueue.JobDead)
	runSQL(t, db.Pool, `UPDATE pgqueue.history SET error_count = 12, key = 'user/7', tags = '{a,b}', metadata = '{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}', errors = '[
		{"attempt": 1, "code": "timeout", "message": "no answer from SECRETHOST", "at": "2026-01-31T12:00:05Z", "started": "2026-01-31T12:00:00Z", "by": "w1"},
		{"attempt": 3, "code": "refused", "message": "SECRETWORD", "at": "2026-01-31T12:01:05Z", "started": "2026-01-31T12:01:02Z", "by": "w2"}]' WHERE id = 7`)
}

func TestTheJobPageSaysWhatHappenedAndWhatCanBeDone(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	c := newConsole(t, db)
	deadJob(t, db)
	page := c.get("/jobs/7").want(t, http.StatusOK).body
	requireText(t, page,
		"It is dead", "3 of 3 attempts have failed, the last one with the error refused: SECRETWORD", // why
		`href="/jobs/7/confirm/retry"`, `href="/jobs/7/confirm/edit-and-retry"`, `href="/jobs/7/confirm/delete"`, // what can be done
		"10 earlier failed attempts", "Attempt 2 was given back", "Attempt 3 failed", "no answer from SECRETHOST", "ran 5.0 s", "by w2", // what happened
		`href="/jobs?code=refused&kind=send"`, "0af7651916cd43dd8448eb211c80319c", "12345678901234567890", "user/7",
	)
	refuseText(t, page, "/confirm/cancel", "/confirm/reschedule")
	viewer := c.as(Viewer).get("/jobs/7").want(t, http.StatusOK).body
	refuseText(t, viewer, "/confirm/")
	requireText(t, viewer, "It is dead")
	if !strings.Contains(page, "data-live") {
		t.Error("the page does not keep itself up to date")
	}
}

// People see what others did.
func TestTheJobPageNamesWhoActed(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	c := newConsole(t, db)
	deadJob(t, db)
	c.post("/jobs/7/retry", withVersion(nil, "3.2")).want(t, http.StatusSeeOther)
	page := c.get("/jobs/7?done=retry").want(t, http.StatusOK).body
	requireText(t, page, "The job was retried.", "What people did", "olga", "Due again", "no live worker serves the queue")
}

func TestTheJobPageSaysWhyAPendingJobDoesNotRun(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	c := newConsole(t, db)
	jobIn(t, db.Pool, 1, pgqueue.JobPending)
	if err := c.console.inspector.PauseQueue(t.Context(), "mail", "the relay is down"); err != nil {
		t.Fatal(err)
	}
	page := c.get("/jobs/1").want(t, http.StatusOK).body
	requireText(t, page, "Why it is not running", "does not run, because", "the relay is down", `href="/jobs/1/confirm/reschedule"`)
	requireText(t, c.get("/jobs/12345").want(t, http.StatusNotFound).body, "There is no job 12345 and never was")
	c.get("/jobs/x").want(t, http.StatusNotFound)
	if to := c.get("/jobs/find?id=%201").want(t, http.StatusSeeOther).header.Get("Location"); to != "/jobs/1" {
		t.Errorf("a number leads to %s", to)
	}
	c.get("/jobs/find?id=one").want(t, http.StatusBadRequest)
}

// Where messages and payloads are redacted, no sentence and no download of the page brings them back.
func TestTheJobPageIsRedacted(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	var asked []string
	c := newConsole(t, db, func(config *Config) {
		config.Redact = func(_ context.Context, about Redaction, value json.RawMessage) json.RawMessage {
			if about.JobID != 7 || about.Kind != "send" || about.Queue != "mail" || about.Viewer.Name != "olga" {
				t.Errorf("asked about %+v", about)
			}
			asked = append(asked, about.Field)
			return json.RawMessage(strings.NewReplacer("SECRETWORD", "***", "SECRETHOST", "***", "12345678901234567890", "0").Replace(string(value)))
		}
	})
	deadJob(t, db)
	for _, path := range []string{"/jobs/7", "/jobs", "/jobs/7/confirm/edit-and-retry", "/jobs/7/download/payload"} {
		refuseText(t, c.get(path).want(t, http.StatusOK).body, "SECRET", "12345678901234567890")
	}
	requireText(t, c.get("/jobs/7").body, "with the error refused: ***")
	requireText(t, c.get("/jobs/7/confirm/edit-and-retry").body, "Parts of the payload are not shown here")
	if len(asked) == 0 {
		t.Error("nobody asked")
	}
}

// The reason quotes an error that came after the job was read: it is not shown then.
func TestAReasonWithAnUnknownErrorIsCut(t *testing.T) {
	t.Parallel()
	r := &request{console: &Console{config: Config{Redact: func(_ context.Context, _ Redaction, value json.RawMessage) json.RawMessage { return value }}}}
	r.Request, _ = http.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	job := &pgqueue.JobDetail{}
	job.Failed = []pgqueue.FailedAttempt{{Code: "a", Message: "old"}}
	for reason, want := range map[string]string{
		"dead, the last one with the error a: old. And more.": "dead, the last one with the error a: old. And more.",
		"dead, the last one with the error b: new. And more.": "dead, the last one with the error " + withheld,
		"cancelled, the last error was b: new.":               "cancelled, the last error was " + withheld,
		"it waits":                                            "it waits",
	} {
		if got := r.shownReason(job, reason); got != want {
			t.Errorf("%q became %q", reason, got)
		}
	}
}

func TestDownloadsAreWhole(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	c := newConsole(t, db)
	deadJob(t, db)
	got := c.as(Viewer).get("/jobs/7/download/payload").want(t, http.StatusOK)
	if got.body != `{"n": 12345678901234567890}` || got.header.Get("Content-Type") != "application/json" || !strings.HasPrefix(got.header.Get("Content-Disposition"), "attachment") {
		t.Errorf("%q %v", got.body, got.header)
	}
	c.get("/jobs/7/download/result").want(t, http.StatusNotFound)
	c.get("/jobs/7/download/errors").want(t, http.StatusNotFound)
}

// A job that runs, with what its handler has said, and a lease that nobody renews.
func TestTheJobPageOfARunningJob(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	c := newConsole(t, db)
	jobIn(t, db.Pool, 1, pgqueue.JobRunning)
	runSQL(t, db.Pool, `UPDATE pgqueue.jobs SET cancel_requested_at = now() WHERE id = 1`)
	runSQL(t, db.Pool, `INSERT INTO pgqueue.job_progress (job_id, updated_at, attempt, progress) VALUES (1, now(), 3, '{"done": 40}')`)
	page := c.get("/jobs/1").want(t, http.StatusOK).body
	requireText(t, page, "It is running", "Attempt 3 is running", "by w1", "Lease holder", "Asked to stop", "Progress", `"done": 40`, "Ask to stop")
	refuseText(t, page, "something is wrong", "/confirm/retry")
	runSQL(t, db.Pool, `UPDATE pgqueue.jobs SET lease_expires_at = now() - interval '1 min' WHERE id = 1`)
	requireText(t, c.get("/jobs/1").want(t, http.StatusOK).body, "something is wrong", "its lease ran out")
	requireText(t, c.get("/jobs/1/confirm/delete").want(t, http.StatusOK).body, `name="running" value="yes"`)
}
