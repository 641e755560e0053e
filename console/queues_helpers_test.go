package console

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// shownText is what a page shows, without its elements, with single spaces.
func (r *reply) shownText() string {
	return strings.Join(strings.Fields(html.UnescapeString(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(r.body, " "))), " ")
}

// tells fails the test unless the page shows each of the texts.
func (r *reply) tells(t testing.TB, texts ...string) *reply {
	t.Helper()
	shown := r.shownText()
	for _, text := range texts {
		if !strings.Contains(shown, text) {
			t.Errorf("the page does not say %q: %s", text, shown)
		}
	}
	return r
}

// conceals fails the test if the page shows one of the texts.
func (r *reply) conceals(t testing.TB, texts ...string) *reply {
	t.Helper()
	shown := r.shownText()
	for _, text := range texts {
		if strings.Contains(shown, text) {
			t.Errorf("the page says %q: %s", text, shown)
		}
	}
	return r
}

// row is what the row of a table shows whose header cell begins so.
func (r *reply) row(t testing.TB, name string) string {
	t.Helper()
	for _, found := range regexp.MustCompile(`(?s)<tr[^>]*>(.*?)</tr>`).FindAllStringSubmatch(r.body, -1) {
		if text := (&reply{body: found[1]}).shownText(); strings.HasPrefix(text, name) {
			return text
		}
	}
	t.Fatalf("there is no row %q: %s", name, r.shownText())
	return ""
}

// linksTo says whether the page has a link to an address.
func (r *reply) linksTo(address string) bool {
	for _, e := range elements(r.body) {
		if e.name == "a" && e.attribute("href") == address {
			return true
		}
	}
	return false
}

// answer is the form of a confirm page, changed, and sent to where it goes.
func (c *testConsole) answer(confirm, post string, change url.Values) *reply {
	c.t.Helper()
	form := c.get(confirm).want(c.t, http.StatusOK).form(c.t, c.console.config.Prefix+post)
	for name, values := range change {
		form[name] = values
	}
	return c.post(post, form)
}

// led fails the test unless the answer leads to a path below the prefix.
func (c *testConsole) led(r *reply, path string) {
	c.t.Helper()
	if to := r.want(c.t, http.StatusSeeOther).header.Get("Location"); to != c.console.config.Prefix+path {
		c.t.Errorf("it leads to %q, want %q", to, path)
	}
}

// valueOf reads one value.
func valueOf[T any](t testing.TB, pool *pgxpool.Pool, sql string, args ...any) T {
	t.Helper()
	rows, err := pool.Query(t.Context(), sql, args...)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	value, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return value
}

// audited are the lines of the audit log, oldest first, each as "actor via action subject-or-queue kind detail".
func audited(t testing.TB, pool *pgxpool.Pool) []string {
	t.Helper()
	rows, err := pool.Query(t.Context(), `
		SELECT concat_ws(' ', actor, via, action, nullif(queue, ''), nullif(kind, ''), nullif(subject, ''), nullif(detail, ''))
		FROM pgqueue.audit ORDER BY id`)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// hostileNames are names that somebody may well give, and that a path, an attribute or a query takes for something else.
func hostileNames() []string {
	return []string{
		".", "..", "~", "~..", "a/b", "/", "//x", "../../etc", "a%2Fb", "%", "%zz", "a b", " ", "a+b", "a?b=c#d", "&amp;", ";", "confirm", "a/confirm/pause",
		`"><img src=x onerror=1>`, `<script>1</script>`, "javascript:1", "' onmouseover=1", "${7*7}", "{{7}}", "naïve 名前 \u2028 🐘", "\\", "a\nb",
	}
}
