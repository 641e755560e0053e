package console

import (
	"context"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// hostile are texts that somebody would write who wants to run a script in an operator's browser, or to lead him elsewhere. All
// that makes an element or an attribute of its own has zq in the name.
func hostile() []string {
	return []string{
		`<script>zq(1)</script>"><img src=x onerror=zq>`, `' onmouseover=zq zq=' " onfocus=zq autofocus zq="`, `javascript:zq`,
		`</script></textarea></title>--><zq-el>`, "${7*7}{{7*7}}\u2028\u2029`><svg/onload=zq>", ` zq-attr=1 onload=zq \"><zq-el zq-attr=1>`,
		`javascript&colon;zq`, `data:text/html,<zq-el>`, `..`, `.`, `/`, `~x`, `a/../b%2e%2e%2f?x#y&zq=1\..\`, `//evil.example.com/zq`,
		`https://evil.example.com/zq`, "\u202egnp.exe&lt;zq-el&gt;&#34;\t\x01\x7f",
	}
}

// marked is a hostile text that says which field it stands in. What means something only when it stands alone is left alone.
func marked(n int, field string) string {
	text := hostile()[n%len(hostile())]
	if text == ".." || text == "." || text == "/" {
		return text
	}
	return text + "§" + field + "§"
}

// harmless is a text that does nothing, no shorter than the hostile one where that stands in JSON: what is cut for its length is cut in both.
func harmless(n int, field string) string {
	text := fmt.Sprintf("harmless-%d-%s", n, field)
	length := 0
	for _, r := range marked(n, field) {
		switch {
		case r == '"' || r == '\\' || r == '\t':
			length += 2
		case r < ' ':
			length += len(`\u0001`)
		default:
			length += utf8.RuneLen(r)
		}
	}
	return text + strings.Repeat("-", max(0, length-len(text)))
}

var (
	attributeName = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9:-]*$`)
	inlineScript  = regexp.MustCompile(`(?is)<script[^>]*>\s*[^\s<]`)
	drawn         = regexp.MustCompile(`(?s)</?(rect|path|line|polyline|circle|g|text)\b[^>]*>`)
)

// judge says what is wrong with an answer as such, whatever is in it.
func (r *reply) judge(prefix string) (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	if got := r.header.Get("Content-Security-Policy"); got != policy || strings.Contains(got, "unsafe") {
		fault("Content-Security-Policy is %q", got)
	}
	if r.header.Get("X-Content-Type-Options") != "nosniff" || r.header.Get("Referrer-Policy") != "no-referrer" || r.header.Get("Cache-Control") != "no-store" {
		fault("headers %v", r.header)
	}
	kind := r.header.Get("Content-Type")
	if kind != "text/html; charset=utf-8" {
		safe := []string{"application/json", "application/octet-stream", "application/x-ndjson", "text/plain; charset=utf-8"}
		if r.body != "" && !slices.Contains(safe, kind) {
			fault("Content-Type is %q", kind)
		}
		return faults
	}
	for _, e := range elements(r.body) {
		switch e.name {
		case "iframe", "object", "embed", "base", "style", "applet", "frame", "math", "foreignobject", "template":
			fault("element %s", e.shape())
		case "script":
			if !strings.HasPrefix(e.attribute("src"), prefix+"/static/") {
				fault("script from %q", e.attribute("src"))
			}
		case "meta":
			if e.attribute("http-equiv") != "" {
				fault("element %s", e.shape())
			}
		}
		if strings.Contains(e.name, "zq") {
			fault("element %s", e.shape())
		}
		for _, a := range e.attributes {
			if strings.HasPrefix(a.name, "on") || a.name == "style" || a.name == "srcdoc" || strings.HasPrefix(a.name, "hx-on") || strings.Contains(a.name, "zq") || !attributeName.MatchString(a.name) {
				fault("attribute %s of %s", a.name, e.shape())
			}
			switch a.name {
			case "href", "src", "action", "formaction", "data", "poster", "xlink:href", "hx-get", "hx-post", "ping", "background", "srcset":
				if !ours(a.value, prefix) {
					fault("%s=%q of %s", a.name, a.value, e.shape())
				}
			}
		}
	}
	if inline := inlineScript.FindString(r.body); inline != "" {
		fault("a script with text: %s", inline)
	}
	return faults
}

// ours tells whether an address leads to the console.
func ours(address, prefix string) bool {
	if address == "data:," || strings.HasPrefix(address, "#") || strings.HasPrefix(address, "?") {
		return true
	}
	parsed, err := url.Parse(address)
	return err == nil && parsed.Scheme == "" && parsed.Host == "" && strings.HasPrefix(address, prefix+"/") && !strings.HasPrefix(address, "//") &&
		!slices.Contains(strings.Split(parsed.EscapedPath(), "/"), "..") && !slices.Contains(strings.Split(parsed.EscapedPath(), "/"), ".")
}

// stored is what C134 compares: the same rows in two databases, once with hostile texts and once with harmless ones.
type stored struct {
	console   *testConsole
	wildcards []map[string]string
	text      func(n int, field string) string
}

func store(t testing.TB, text func(int, string) string, n int) *stored {
	t.Helper()
	db := pgqueuetest.New(t)
	s := &stored{console: newConsole(t, db, func(config *Config) { config.Prefix = "/q" }), text: text, wildcards: seed(t, db, text, n)}
	for i, values := range s.wildcards {
		values["operation"] = s.operation(t, i)
	}
	holdSnapshot(t, db, strings.ReplaceAll(text(1, "application"), "\x00", ""))
	return s
}

// operation is a bulk action that has ended, for the texts of a set.
func (s *stored) operation(t testing.TB, n int) string {
	t.Helper()
	text := func(field string) string { return s.text(n, field) }
	kind, ok := bulkKindOf(string(pgqueue.ActionRetry))
	if !ok {
		t.Fatal("there is no bulk retry")
	}
	all := s.console.console.operations
	actor := testName(Operator)
	started, err := all.start(all.ticket(actor), operationWork{
		actor: actor, action: pgqueue.ActionRetry, request: text("queue"),
		Bulk: &bulk{bulkKind: kind, Filter: pgqueue.Filter{Queue: text("queue"), Kind: text("kind"), Key: text("key"), Tags: []string{text("tag")}, ErrorCode: text("code"), States: []pgqueue.JobState{pgqueue.JobDead}}},
		do: func(context.Context, func(pgqueue.BulkResult)) (*pgqueue.BulkResult, error) {
			return &pgqueue.BulkResult{Matched: 1, Skipped: 1, Skips: []pgqueue.Skip{{ID: 13, Reason: pgqueue.SkipRefused, Detail: text("detail")}}}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	<-started.done
	return started.id
}

// addresses are those of a route: with the real jobs, queues, schedules and workers of each set, and with all actions; and with an
// address's own parameters.
func (s *stored) addresses(t testing.TB, route route) (addresses []string) {
	t.Helper()
	for n, values := range s.wildcards {
		paths := []string{strings.Replace(route.path, "{$}", "", 1)}
		for _, wildcard := range regexp.MustCompile(`\{([a-z]+)\}`).FindAllStringSubmatch(route.path, -1) {
			choices := []string{values[wildcard[1]]}
			switch wildcard[1] {
			case "id":
				choices = nil
				for k := range 6 { // one job in each state
					choices = append(choices, values["id"][:len(values["id"])-1]+fmt.Sprint(k))
				}
				if !thorough(n) {
					choices = choices[3:4] // a dead one
				}
			case "action":
				if !thorough(n) {
					break
				}
				choices = []string{
					"retry", "cancel", "delete", "edit", "retry-with", "edit-and-retry", "reschedule", "priority", "max-attempts", "pause", "resume", "history",
					"enable", "disable", "trigger", "spec", "purge", s.text(n, "action"),
				}
			case "field":
				if !thorough(n) {
					break
				}
				choices = []string{"payload", "metadata", "result", "progress", s.text(n, "field")}
			}
			if choices[0] == "" {
				t.Fatalf("route %s: seedSet gives no %s: add what stands in this wildcard", route.path, wildcard[0])
			}
			var filled []string
			for _, path := range paths {
				for _, choice := range choices {
					filled = append(filled, strings.Replace(path, wildcard[0], segment(choice), 1))
				}
			}
			paths = filled
		}
		text := func(field string) string { return s.text(n, field) }
		asked := url.Values{}
		for _, name := range []string{
			"queue", "kind", "key", "tag", "code", "worker", "payload", "payload_path", "payload_value", "actor", "action", "job", "name", "source", "window", "done", "error",
		} {
			asked.Set(name, text(name))
		}
		for i, path := range paths {
			if addresses = append(addresses, path); i > 0 && os.Getenv("PGQUEUE_TEST_FULL") != "1" {
				continue // what is asked for beside the path is the same for all of them
			}
			addresses = append(addresses, path+"?id="+values["id"])
			for _, more := range []url.Values{asked, {"state": {text("state")}}, {"cursor": {text("cursor")}}, {"order": {text("order")}}, {"priority": {text("priority")}},
				{"payload_path": {text("payload-name")}, "payload_value": {text("payload-value")}}, {"created_from": {text("created_from")}},
				{"spread": {text("spread")}}, {"limit": {text("limit")}}, {"id": {text("id")}, "job": {text("job")}}, {"action": {text("action")}}, {"kind": {text("kind")}, "action": {"pause"}},
				{"queue": {text("queue")}, "kind": {text("kind")}, "action": {"retry"}}} {
				if thorough(n) || len(more) > 5 {
					addresses = append(addresses, path+"?"+more.Encode())
				}
			}
		}
	}
	return addresses
}

// thorough tells whether a text is tried with every job, action and parameter: the first two are, which is enough for the templates, and
// with PGQUEUE_TEST_FULL=1 all.
func thorough(n int) bool { return n < 2 || os.Getenv("PGQUEUE_TEST_FULL") == "1" }

func TestC134_NoStoredTextBecomesMarkup(t *testing.T) {
	evil, good := store(t, marked, len(hostile())), store(t, harmless, len(hostile()))
	var pages strings.Builder
	requests := 0
	defer func() { t.Logf("%d requests", requests) }()
	followed := map[string]bool{}
	for _, route := range evil.console.console.routes() {
		if route.method != http.MethodGet {
			continue
		}
		ok := 0
		harmlessAddresses := good.addresses(t, route)
		for i, address := range evil.addresses(t, route) {
			requests++
			reply := evil.console.get(address)
			for _, fault := range reply.judge("/q") {
				t.Errorf("GET %s: %s", address, fault)
			}
			if reply.status >= 500 {
				t.Errorf("GET %s: status %d: %s", address, reply.status, reply.short())
			}
			if reply.status == http.StatusOK || reply.status == http.StatusSeeOther {
				ok++
				pages.WriteString(reply.body)
				for _, link := range links(reply) {
					followed[link] = true
				}
			}
			if strings.Contains(address, "?") && i%7 != 0 || volatile(route) || !strings.HasPrefix(reply.header.Get("Content-Type"), "text/html") {
				continue
			}
			same := good.console.get(harmlessAddresses[i])
			if same.status != reply.status {
				t.Errorf("GET %s: status %d, with harmless texts (%s) %d", address, reply.status, harmlessAddresses[i], same.status)
			} else if found := difference(drawing(reply.body), drawing(same.body)); found != "" {
				t.Errorf("GET %s against %s: %s", address, harmlessAddresses[i], found)
			}
			for _, fault := range evil.console.partial(address).judge("/q") {
				t.Errorf("GET %s, in part: %s", address, fault)
			}
		}
		if ok == 0 {
			t.Errorf("GET %s: no address of it is answered with 200", route.path)
		}
	}
	for _, field := range seedFields() { // what no page shows was not tested
		if !strings.Contains(html.UnescapeString(pages.String()), "§"+field+"§") && !unseen(field) {
			t.Errorf("no page shows the field %s", field)
		}
	}
	evil.follow(t, followed)
}

// volatile are pages that two databases on one server need not show alike: what the doctor finds depends on the moment.
func volatile(route route) bool { return route.path == "/database" }

// unseen are fields that no page has a reason to show.
func unseen(field string) bool { return field == "application" }

// drawing takes out what depends on the moment at which a page was asked for: the shapes of a drawing.
func drawing(body string) string {
	return drawn.ReplaceAllStringFunc(body, func(tag string) string {
		if strings.Contains(tag, "zq") {
			return tag
		}
		return ""
	})
}

// links are the addresses of a page's links and forms that name something hostile.
func links(reply *reply) (found []string) {
	for _, e := range elements(reply.body) {
		if e.name == "a" {
			if address := e.attribute("href"); strings.HasPrefix(address, "/q/") {
				found = append(found, strings.TrimPrefix(address, "/q"))
			}
		}
	}
	return found
}

// follow follows the links whose paths name something: each leads to a page, whatever the name is.
func (s *stored) follow(t *testing.T, links map[string]bool) {
	t.Helper()
	count := 0
	for link := range links {
		path, _, _ := strings.Cut(link, "?")
		if !strings.Contains(path, "~") && !strings.Contains(path, "%") {
			continue
		}
		count++
		if reply := s.console.get(link); reply.status != http.StatusOK {
			t.Errorf("the link %s leads to status %d: %s", link, reply.status, reply.short())
		}
	}
	if count == 0 {
		t.Error("there is no link with a hostile name")
	}
}

// What is refused shows what was sent; it is no less careful.
func TestC134_NorDoesWhatIsSent(t *testing.T) {
	evil := store(t, marked, 3)
	for n := range evil.wildcards {
		for _, path := range evil.console.posts(evil.wildcards[n]) {
			form := url.Values{}
			for _, name := range []string{"payload", "reason", "until", "spec", "zone", "time_zone", "version", "priority", "max_attempts", "run_at", "due", "history", "queue", "kind", "spread", "action", "ticket", "cursor", "state", "id"} {
				form.Set(name, marked(n, name))
			}
			reply := evil.console.post(path, form)
			for _, fault := range reply.judge("/q") {
				t.Errorf("POST %s: %s", path, fault)
			}
			if reply.status >= 500 {
				t.Errorf("POST %s: status %d: %s", path, reply.status, reply.short())
			}
			if location := reply.header.Get("Location"); location != "" && !ours(location, "/q") {
				t.Errorf("POST %s leads to %q", path, location)
			}
		}
	}
	for _, reply := range []*reply{evil.console.as(0).get("/"), evil.console.as(Viewer).post("/x", nil), evil.console.get("/<zq-el>"), evil.console.get("/static/console.css")} {
		if got := reply.header.Get("Content-Security-Policy"); got != policy || reply.header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("status %d: headers %v", reply.status, reply.header)
		}
	}
}
