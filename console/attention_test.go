package console

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// section is the part of a page under the heading with that id.
func (r *reply) section(t testing.TB, id string) string {
	t.Helper()
	_, behind, ok := strings.Cut(r.body, `<section aria-labelledby="`+id+`">`)
	inside, _, closed := strings.Cut(behind, `</section>`)
	if !ok || !closed {
		t.Fatalf("there is no section %q: %s", id, r.short())
	}
	return inside
}

// Failed and dead jobs stand apart, in groups of what failed in one way, and an action on a group is for that group.
func TestAttention(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	c := newConsole(t, db)
	if page := c.get("/attention").want(t, http.StatusOK); !strings.Contains(page.body, "No job is dead") || !strings.Contains(page.body, "No job is failed") {
		t.Errorf("with nothing to see: %s", page.short())
	}
	deadJobs(t, db, 0, 30, "dead", "mail", "send", "timeout")
	deadJobs(t, db, 100, 7, "dead", "mail", "send", "smtp_550")
	deadJobs(t, db, 200, 5, "dead", "a/b %&", "send", "timeout")
	deadJobs(t, db, 300, 3, "failed", "mail", "send", "timeout")
	deadJobs(t, db, 400, 2, "dead", "mail", "send", "")

	page := c.get("/attention").want(t, http.StatusOK)
	dead, failed := page.section(t, "dead"), page.section(t, "failed")
	if !strings.Contains(dead, `Dead <span class="muted">44</span>`) || strings.Count(dead, "<tr>") != 1+4 {
		t.Errorf("the dead: %s", dead)
	}
	if !strings.Contains(failed, `Failed <span class="muted">3</span>`) || strings.Count(failed, "<tr>") != 1+1 || !strings.Contains(failed, `<a href="/jobs/303">303</a>`) {
		t.Errorf("the failed: %s", failed)
	}
	if first, second := strings.Index(dead, "/jobs/30\""), strings.Index(dead, "/jobs/107\""); first < 0 || second < first {
		t.Errorf("the largest group is not the first: %s", dead)
	}
	if !strings.Contains(dead, "No filter finds just these") { // those without a code
		t.Errorf("a group without a code has actions: %s", dead)
	}
	if seen := c.as(Viewer).get("/attention").want(t, http.StatusOK).body; strings.Contains(seen, "/bulk/confirm") {
		t.Error("a viewer is offered actions")
	}

	retry := formAttribute(regexp.MustCompile(`<a ([^>]*aria-label="Retry these 5 jobs[^>]*)>`).FindStringSubmatch(dead)[1], "href")
	o := c.begun(c.post("/bulk", c.get(retry).want(t, http.StatusOK).form(t, "/bulk")))
	if end := ended(t, o); end.State != operationDone || end.Result.Done != 5 {
		t.Errorf("retry: %+v", end)
	}
	if n := countSQL(t, db.Pool, "pgqueue.jobs WHERE queue = 'a/b %&'"); n != 5 {
		t.Errorf("%d of the group are back", n)
	}
	remove := formAttribute(regexp.MustCompile(`<a ([^>]*aria-label="Delete these 7 jobs[^>]*)>`).FindStringSubmatch(dead)[1], "href")
	form := c.get(remove).want(t, http.StatusOK).form(t, "/bulk")
	form.Set("sure", "yes")
	if end := ended(t, c.begun(c.post("/bulk", form))); end.State != operationDone || end.Result.Done != 7 {
		t.Errorf("delete: %+v", end)
	}
	if n := countSQL(t, db.Pool, "pgqueue.history"); n != 35 {
		t.Errorf("%d are left", n)
	}

	// A filter holds for the groups, and for what is done to them.
	page = c.get("/attention?state=dead&kind=send&finished_from=-80s").want(t, http.StatusOK)
	if strings.Contains(page.body, `aria-labelledby="failed"`) {
		t.Error("failed ones are shown, too")
	}
	all := c.link(page, "Retry all dead")
	query, err := url.ParseQuery(strings.TrimPrefix(all, "/bulk/confirm?"))
	if err != nil || query.Get("kind") != "send" || query.Get("finished_from") == "" || query.Get("state") != "dead" {
		t.Errorf("all of them are %s, %v", all, err)
	}
	c.get("/attention?state=pending").want(t, http.StatusBadRequest)
	if page := c.get("/attention?queue=nowhere").want(t, http.StatusOK); !strings.Contains(page.body, "No dead job matches") {
		t.Errorf("nothing matches: %s", page.short())
	}
}

// Where there is more than was looked at, the page says so, and the numbers are lower bounds.
func TestAttentionIsBounded(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	c := newConsole(t, db)
	deadJobs(t, db, 0, 10_050, "dead", "mail", "send", "timeout")
	runSQL(t, db.Pool, `UPDATE pgqueue.history SET kind = 'kind ' || id WHERE id > 10050 - 150`) // of the latest
	page := c.get("/attention").want(t, http.StatusOK)
	if !page.says("10,000+") || !page.says("latest 10,000") {
		t.Errorf("the page says %s", page.section(t, "dead")[:300])
	}
	if dead := page.section(t, "dead"); strings.Count(dead, "<tr>") != 1+attentionRows || !strings.Contains(dead, "51 more groups") {
		t.Errorf("%d lines: %s", strings.Count(dead, "<tr>"), dead[len(dead)-300:])
	}
}
