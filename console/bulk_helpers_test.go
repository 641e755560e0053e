package console

import (
	"context"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// runSQL sends statements.
func runSQL(t testing.TB, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// countSQL counts rows of a table, with a condition.
func countSQL(t testing.TB, pool *pgxpool.Pool, from string) (n int) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), `SELECT count(*)::int FROM `+from).Scan(&n); err != nil {
		t.Fatalf("count %s: %v", from, err)
	}
	return n
}

// deadJobs writes n jobs that ended in a state, with the numbers behind first, a second apart, all with one error of that code.
func deadJobs(t testing.TB, db *pgqueuetest.DB, first, n int, state, queue, kind, code string) {
	t.Helper()
	runSQL(t, db.Pool, `INSERT INTO pgqueue.history (id, queue, kind, state, attempt, finished_at, day, run_at, created_at, generation, error_count,
			priority, failures, max_attempts, payload, metadata, tags, errors)
		SELECT $1::bigint + g, $3, $4, $5, 3, now() - interval '1 minute' - ($2::int - g) * interval '1 s', 'infinity', now(), now(), 1, 1, 1, 3, 3, '{}', '{}', '{}',
			CASE WHEN $6::text <> '' THEN jsonb_build_array(jsonb_build_object('at', now(), 'attempt', 3, 'code', $6::text, 'message', 'no', 'by', 'w')) END
		FROM generate_series(1, $2::int) g`, first, n, queue, kind, state, code)
	runSQL(t, db.Pool, `SELECT setval('pgqueue.jobs_id_seq', greatest($1::bigint, (SELECT last_value FROM pgqueue.jobs_id_seq)))`, first+n)
}

// says tells whether a text stands in the page, as a browser reads it.
func (r *reply) says(text string) bool { return strings.Contains(html.UnescapeString(r.body), text) }

// form is the form of a page that goes to action, with the values that it would send.
func (r *reply) form(t testing.TB, action string) url.Values {
	t.Helper()
	for _, found := range regexp.MustCompile(`(?s)<form ([^>]*)>(.*?)</form>`).FindAllStringSubmatch(r.body, -1) {
		if formAttribute(found[1], "action") != action {
			continue
		}
		values := url.Values{}
		for _, input := range regexp.MustCompile(`<input ([^>]*)>`).FindAllStringSubmatch(found[2], -1) {
			kind, name := formAttribute(input[1], "type"), formAttribute(input[1], "name")
			if kind == "checkbox" && !regexp.MustCompile(`\schecked\b`).MatchString(input[1]) || name == csrfField {
				continue
			}
			values.Add(name, formAttribute(input[1], "value"))
		}
		for _, list := range regexp.MustCompile(`(?s)<select ([^>]*)>(.*?)</select>`).FindAllStringSubmatch(found[2], -1) {
			for _, option := range regexp.MustCompile(`<option ([^>]*)>`).FindAllStringSubmatch(list[2], -1) {
				if strings.HasSuffix(option[1], " selected") {
					values.Add(formAttribute(list[1], "name"), formAttribute(option[1], "value"))
				}
			}
		}
		return values
	}
	t.Fatalf("there is no form for %s: %s", action, r.short())
	return nil
}

// formAttribute is the value of an attribute.
func formAttribute(attributes, name string) string {
	found := regexp.MustCompile(`(?:^|\s)` + name + `="([^"]*)"`).FindStringSubmatch(attributes)
	if found == nil {
		return ""
	}
	return html.UnescapeString(found[1])
}

// link is the address of the first link whose text begins so, below the prefix.
func (c *testConsole) link(r *reply, text string) string {
	c.t.Helper()
	for _, found := range regexp.MustCompile(`(?s)<a ([^>]*)>(.*?)</a>`).FindAllStringSubmatch(r.body, -1) {
		if strings.HasPrefix(html.UnescapeString(found[2]), text) {
			return strings.TrimPrefix(formAttribute(found[1], "href"), c.console.config.Prefix)
		}
	}
	c.t.Fatalf("there is no link %q: %s", text, r.short())
	return ""
}

// begin asks for a bulk action, changes the form, and sends it.
func (c *testConsole) begin(query string, change url.Values) *operation {
	c.t.Helper()
	form := c.get("/bulk/confirm?"+query).want(c.t, http.StatusOK).form(c.t, c.console.config.Prefix+"/bulk")
	for name, values := range change {
		form[name] = values
	}
	return c.begun(c.post("/bulk", form))
}

// begun is the operation to which an answer leads.
func (c *testConsole) begun(answer *reply) *operation {
	c.t.Helper()
	location := answer.want(c.t, http.StatusSeeOther).header.Get("Location")
	path := strings.TrimPrefix(location, c.console.config.Prefix)
	c.get(path).want(c.t, http.StatusOK)
	o := c.console.operations.get(strings.TrimPrefix(path, "/operations/"))
	if o == nil {
		c.t.Fatalf("there is no operation at %s", location)
	}
	return o
}

// ended waits until an operation has ended.
func ended(t testing.TB, o *operation) operationState {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	select {
	case <-o.done:
	case <-ctx.Done():
		t.Fatalf("it does not end: %+v", o.snapshot())
	}
	return o.snapshot()
}

// placeJob writes a pending job, or one that runs.
func placeJob(t testing.TB, db *pgqueuetest.DB, running bool) (id int64) {
	t.Helper()
	if err := db.Pool.QueryRow(t.Context(), `INSERT INTO pgqueue.jobs (queue, kind) VALUES ('default', 'task') RETURNING id`).Scan(&id); err != nil {
		t.Fatal(err)
	}
	if running {
		runSQL(t, db.Pool, `UPDATE pgqueue.jobs SET state = 'running', attempt = 1, claimed_generation = generation, claimed_by = 'w', claimed_at = now(),
			lease_expires_at = now() + interval '1 h' WHERE id = $1`, id)
	}
	return id
}
