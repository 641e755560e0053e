package console

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// auditIDs are the entries that a page shows, from the top.
func (r *reply) auditIDs() (ids []string) {
	for _, found := range regexp.MustCompile(`<tr id="entry-(\d+)">`).FindAllStringSubmatch(r.body, -1) {
		ids = append(ids, found[1])
	}
	return ids
}

// The log says who did what to what, the latest first, narrowed by what stands in the address, and page by page.
func TestAuditScreen(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	c := newConsole(t, db)
	if page := c.as(Viewer).get("/audit").want(t, http.StatusOK); !strings.Contains(page.body, "No entry matches") {
		t.Errorf("with nothing to see: %s", page.short())
	}
	deadJobs(t, db, 0, 40, "dead", "mail", "send", "timeout")
	inspector := func(actor string) *pgqueue.Inspector { return c.console.inspector.As(actor) }
	if err := inspector("alice").Retry(t.Context(), 7); err != nil {
		t.Fatal(err)
	}
	if err := inspector("<b>bob</b>").PauseQueue(t.Context(), "a/b", "no <i>mail</i>"); err != nil {
		t.Fatal(err)
	}
	filter := pgqueue.Filter{Queue: "mail", ErrorCode: "timeout", States: []pgqueue.JobState{"dead"}}
	if _, err := inspector("alice").RetryMany(t.Context(), filter, pgqueue.BulkOptions{Limit: 12}); err != nil {
		t.Fatal(err)
	}
	secret := pgqueue.Filter{Payload: json.RawMessage(`{}`), States: []pgqueue.JobState{"dead"}}
	if _, err := inspector("carol").Purge(t.Context(), secret, pgqueue.BulkOptions{}); err != nil {
		t.Fatal(err)
	}

	page := c.as(Viewer).get("/audit").want(t, http.StatusOK)
	rows := strings.Split(page.body, `<tr id="entry-`)[1:]
	if len(rows) != 4 {
		t.Fatalf("%d entries: %s", len(rows), page.body)
	}
	for n, wants := range [][]string{
		{"carol", "purge", "and 22 more", "more than the log keeps"},
		{"alice", "by the console", "retry", `<a href="/jobs/1">1</a>`, "and 7 more", "Error code</dt><dd>timeout", "/jobs?code=timeout&amp;queue=mail&amp;state=dead"},
		{"&lt;b&gt;bob&lt;/b&gt;", "pause", `href="/queues/a%2Fb"`, "no &lt;i&gt;mail"},
		{"alice", "retry", `<a href="/jobs/7">7</a>`},
	} {
		for _, want := range wants {
			if !strings.Contains(rows[n], want) {
				t.Errorf("entry %d does not say %q: %s", n, want, rows[n])
			}
		}
	}
	if strings.Contains(rows[0], "What it matches now") {
		t.Error("a filter of which only a part is kept is linked to")
	}
	all := page.auditIDs()
	for query, want := range map[string][]string{
		"actor=alice":                            {all[1], all[3]},
		"action=retry":                           {all[1], all[3]},
		"action=pause&action=purge":              {all[0], all[2]},
		"job=7":                                  {all[3]},
		"queue=a%2Fb":                            {all[2]},
		"via=cli":                                nil,
		"actor=alice&action=retry&job=2":         {all[1]},
		"from=-1h&to=%2B1h":                      all,
		"to=-1h":                                 nil,
		"actor=" + url.QueryEscape("<b>bob</b>"): {all[2]},
	} {
		if got := c.get("/audit?"+query).want(t, http.StatusOK).auditIDs(); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s shows %v, not %v", query, got, want)
		}
	}
	for query, want := range map[string]string{"job=x": "job", "from=yesterday": "from", "cursor=nonsense": "cursor", "job=-1": "job"} {
		if page := c.get("/audit?"+query).want(t, http.StatusBadRequest); !strings.Contains(page.body, want) {
			t.Errorf("%s: %s", query, page.short())
		}
	}

	// Page by page, each entry once.
	for n := range 120 {
		if err := inspector("dave").PauseQueue(t.Context(), fmt.Sprintf("q%d", n), ""); err != nil {
			t.Fatal(err)
		}
	}
	seen := map[string]bool{}
	page = c.get("/audit?actor=dave&from=-1h").want(t, http.StatusOK)
	pages := 1
	for ; ; pages++ {
		for _, id := range page.auditIDs() {
			if seen[id] {
				t.Errorf("entry %s is shown twice", id)
			}
			seen[id] = true
		}
		if !strings.Contains(page.body, `rel="next"`) {
			break
		}
		page = c.get(c.link(page, "Next")).want(t, http.StatusOK)
	}
	if len(seen) != 120 || pages != 3 {
		t.Errorf("%d entries on %d pages", len(seen), pages)
	}
}

// What somebody has written into the log by hand, or another program, breaks no page.
func TestAStoredFilterThatIsNone(t *testing.T) {
	t.Parallel()
	for stored, want := range map[string]string{
		`{"queue": "mail", "state": ["dead", "failed"]}`: "queue=mail&state=dead&state=failed true true",
		`{"id": [1, 2], "ids": 2}`:                       "id=1&id=2&ids=2 true true",
		`{"id": [1, 2], "ids": 700}`:                     "id=1&id=2&ids=700 false true",
		`{"payload": "not kept"}`:                        " false true",
		`{"queue": {"a": 1}}`:                            " false false",
		`[1]`:                                            " false false",
		`nonsense`:                                       " false false",
	} {
		values, whole, ok := readStoredFilter(json.RawMessage(stored))
		if got := fmt.Sprint(values.Encode(), " ", whole, " ", ok); got != want {
			t.Errorf("%s: %s, not %s", stored, got, want)
		}
	}
}
