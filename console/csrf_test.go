package console

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"mime/multipart"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// fingerprint is of everything that is stored, but for what workers and caches say about themselves.
func fingerprint(t testing.TB, db *pgqueuetest.DB) string {
	t.Helper()
	rows, err := db.Pool.Query(t.Context(), `SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = $1::regnamespace
		AND relname NOT IN ('stats_cache', 'workers') ORDER BY relname`, db.Schema)
	if err != nil {
		t.Fatal(err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	digest := sha256.New()
	for _, table := range tables {
		var content string
		name := pgx.Identifier{db.Schema, table}.Sanitize()
		if err := db.Pool.QueryRow(t.Context(), `SELECT coalesce(string_agg(x::text, E'\n' ORDER BY x::text), '') FROM `+name+` x`).Scan(&content); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(digest, "%s %d %s\n", table, len(content), content)
	}
	return fmt.Sprintf("%x", digest.Sum(nil))
}

// posts are the addresses of all routes that change something, with jobs and names that exist.
func (c *testConsole) posts(ids map[string]string) (paths []string) {
	for _, route := range c.console.routes() {
		if route.method == http.MethodPost {
			paths = append(paths, regexp.MustCompile(`\{([a-z]+)\}`).ReplaceAllStringFunc(route.path, func(wildcard string) string {
				if value, ok := ids[strings.Trim(wildcard, "{}")]; ok {
					return segment(value)
				}
				return "1"
			}))
		}
	}
	return paths
}

func TestC135_AForeignFormChangesNothing(t *testing.T) {
	db := pgqueuetest.New(t)
	ids := seed(t, db, func(n int, field string) string { return fmt.Sprintf("%s-%d", field, n) }, 1)[0]
	c := newConsole(t, db)
	before := fingerprint(t, db)
	paths := c.posts(ids)
	if len(paths) == 0 {
		t.Fatal("there is no route that changes anything")
	}
	form := url.Values{"ids": {ids["id"]}, "id": {ids["id"]}, "action": {"delete"}, "confirm": {"yes"}}
	for _, path := range paths {
		for name, spoil := range map[string]func(*http.Request){
			"foreign origin": func(r *http.Request) {
				r.Header.Del("Sec-Fetch-Site")
				r.Header.Set("Origin", "https://evil.example.com")
			},
			"origin null":  func(r *http.Request) { r.Header.Del("Sec-Fetch-Site"); r.Header.Set("Origin", "null") },
			"another port": func(r *http.Request) { r.Header.Del("Sec-Fetch-Site"); r.Header.Set("Origin", "http://127.0.0.1:1") },
			"cross-site":   func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
			"same-site":    func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") },
			"cross-site, no cors": func(r *http.Request) {
				r.Header.Set("Sec-Fetch-Site", "cross-site")
				r.Header.Set("Sec-Fetch-Mode", "no-cors")
			},
			"text/plain":               func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") },
			"text/plain in disguise":   func(r *http.Request) { r.Header.Set("Content-Type", "text/plain; a=application/x-www-form-urlencoded") },
			"JSON":                     func(r *http.Request) { r.Header.Set("Content-Type", "application/json") },
			"no content type":          func(r *http.Request) { r.Header.Del("Content-Type") },
			"no cookie":                func(r *http.Request) { r.Header.Del("Cookie") },
			"another cookie":           func(r *http.Request) { r.Header.Set("Cookie", csrfCookie+"="+strings.Repeat("x", 40)) },
			"an empty cookie":          func(r *http.Request) { r.Header.Set("Cookie", csrfCookie+"=") },
			"the cookie of plain HTTP": func(r *http.Request) { r.Header.Set("X-Forwarded-Proto", "https") },
		} {
			r := c.postRequest(path, form)
			spoil(r)
			if reply := c.send(r); reply.status != http.StatusForbidden {
				t.Errorf("POST %s, %s: status %d: %s", path, name, reply.status, reply.short())
			}
		}
		empty := csrfToken("", Identity{Name: testName(Operator)})
		victors := csrfToken(c.secret, Identity{Name: testName(Viewer)})
		for name, tokens := range map[string][]string{"no token": {}, "an empty token": {""}, "a wrong token": {"x"}, "that of no cookie": {empty}, "somebody else's": {victors}, "two": {csrfToken(c.secret, Identity{Name: "olga"}), "x"}} {
			spoilt := url.Values{csrfField: tokens}
			for field, values := range form {
				spoilt[field] = values
			}
			if reply := c.post(path, spoilt); reply.status != http.StatusForbidden {
				t.Errorf("POST %s, %s: status %d: %s", path, name, reply.status, reply.short())
			}
		}
		// In the address the token does not count, and without a cookie none does.
		right := csrfToken(c.secret, Identity{Name: testName(Operator)})
		c.send(c.postRequest(path+"?"+csrfField+"="+right, url.Values{csrfField: {}})).want(t, http.StatusForbidden)
		r := c.postRequest(path, url.Values{csrfField: {empty}})
		r.Header.Del("Cookie")
		c.send(r).want(t, http.StatusForbidden)
	}
	if fingerprint(t, db) != before {
		t.Error("something was changed")
	}
	// The same forms, from a page of the console, get as far as the screens.
	for _, path := range paths {
		if reply := c.post(path, form); reply.status == http.StatusForbidden || reply.status >= 500 {
			t.Errorf("POST %s from here: status %d: %s", path, reply.status, reply.short())
		}
	}
}

func TestC135_GetAndHeadChangeNothing(t *testing.T) {
	db := pgqueuetest.New(t)
	ids := seed(t, db, func(n int, field string) string { return fmt.Sprintf("%s-%d", field, n) }, 1)[0]
	c := newConsole(t, db)
	before := fingerprint(t, db)
	for _, path := range c.posts(ids) {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			r := c.request(method, path+"?action=delete&id="+ids["id"]+"&csrf="+csrfToken(c.secret, Identity{Name: "olga"}), nil)
			r.Header.Set("Sec-Purpose", "prefetch")
			reply := c.send(r)
			if reply.status != http.StatusMethodNotAllowed && !c.hasGet(path) {
				t.Errorf("%s %s: status %d", method, path, reply.status)
			}
			r = c.request(method, path, nil)
			r.Header.Set("X-HTTP-Method-Override", http.MethodPost)
			c.send(r)
		}
	}
	for _, route := range c.console.routes() {
		if route.method == http.MethodGet {
			path := regexp.MustCompile(`\{([a-z]+)\}`).ReplaceAllStringFunc(fill2(route.path), func(wildcard string) string { return segment(ids[strings.Trim(wildcard, "{}")]) })
			c.send(c.request(http.MethodHead, path, nil))
			c.send(c.request(http.MethodGet, path, nil))
		}
	}
	if fingerprint(t, db) != before {
		t.Error("something was changed")
	}
}

func fill2(path string) string { return strings.Replace(path, "{$}", "", 1) }

// hasGet tells whether a page is served where something else is done by POST.
func (c *testConsole) hasGet(path string) bool {
	_, pattern := c.console.mux.Handler(c.request(http.MethodGet, path, nil))
	return pattern != ""
}

func TestC135_TheCookie(t *testing.T) {
	db := pgqueuetest.New(t)
	c := newConsole(t, db, func(config *Config) { config.Prefix = "/q" })
	asked := func(role Role, proto string) (*http.Cookie, string) {
		r := c.as(role).request(http.MethodGet, "/", nil)
		r.Header.Del("Cookie")
		r.Header.Set("X-Forwarded-Proto", proto)
		reply := c.send(r).want(t, http.StatusOK)
		cookies := (&http.Response{Header: reply.header}).Cookies()
		if len(cookies) == 0 {
			return nil, reply.body
		}
		return cookies[0], reply.body
	}
	cookie, _ := asked(Operator, "")
	if cookie == nil || !cookie.HttpOnly || cookie.SameSite != http.SameSiteLaxMode || cookie.Path != "/q/" || cookie.Secure || !strings.HasPrefix(cookie.Name, csrfCookie+"_") {
		t.Errorf("cookie %v", cookie)
	}
	secure, _ := asked(Operator, "https")
	if secure == nil || !secure.HttpOnly || secure.SameSite != http.SameSiteLaxMode || secure.Path != "/" || !secure.Secure || !strings.HasPrefix(secure.Name, "__Host-") || secure.Domain != "" {
		t.Errorf("over TLS: cookie %v", secure)
	}
	if other, _ := asked(Operator, ""); cookie != nil && (other == nil || other.Value == cookie.Value) {
		t.Error("two browsers got the same secret")
	}
	if viewers, _ := asked(Viewer, ""); viewers != nil {
		t.Errorf("a viewer got %v", viewers)
	}
	if again := c.get("/").want(t, http.StatusOK); again.header.Get("Set-Cookie") != "" {
		t.Error("a browser that has a cookie got another")
	}
}

// The whole way, as a browser goes it: the page gives cookie and token, the form is taken; a multipart one, too.
func TestC135_TheConsolesOwnFormIsTaken(t *testing.T) {
	db := pgqueuetest.New(t)
	c := newConsole(t, db, func(config *Config) { config.TrustedOrigins = []string{"https://ops.example.com"} })
	var got []string
	c.add(route{http.MethodPost, "/x/act", Operator, func(r *request) error {
		got = append(got, r.PostForm.Get("text"))
		return r.redirect("/", url.Values{"done": {"retry"}})
	}})
	c.add(route{http.MethodGet, "/x/form", Operator, func(r *request) error { return r.json(http.StatusOK, r.csrf) }})
	r := c.request(http.MethodGet, "/x/form", nil)
	r.Header.Del("Cookie")
	page := c.send(r).want(t, http.StatusOK)
	token := strings.Trim(page.body, "\"\n")
	cookie, _, _ := strings.Cut(page.header.Get("Set-Cookie"), ";")
	for i, origin := range []string{"", strings.TrimSuffix(c.address, "/"), "https://ops.example.com"} {
		text := fmt.Sprintf("æ %d", i)
		body, kind := strings.NewReader(url.Values{csrfField: {token}, "text": {text}}.Encode()), "application/x-www-form-urlencoded; charset=utf-8"
		r := c.request(http.MethodPost, "/x/act", body)
		if i == 0 {
			var parts bytes.Buffer
			form := multipart.NewWriter(&parts)
			_ = form.WriteField(csrfField, token)
			_ = form.WriteField("text", text)
			_ = form.Close()
			kind = form.FormDataContentType()
			r = c.request(http.MethodPost, "/x/act", &parts)
		}
		r.Header.Set("Content-Type", kind)
		r.Header.Set("Cookie", cookie)
		if origin != "" {
			r.Header.Set("Origin", origin)
		}
		if reply := c.send(r).want(t, http.StatusSeeOther); reply.header.Get("Location") != "/?done=retry" {
			t.Errorf("Location %q", reply.header.Get("Location"))
		}
	}
	if !slices.Equal(got, []string{"æ 0", "æ 1", "æ 2"}) {
		t.Errorf("got %q", got)
	}
}

func TestAFormIsBounded(t *testing.T) {
	c := newConsole(t, pgqueuetest.New(t))
	c.add(route{http.MethodPost, "/x/act", Operator, func(r *request) error { return r.redirect("/", nil) }})
	c.post("/x/act", url.Values{"text": {strings.Repeat("x", maxForm-1000)}}).want(t, http.StatusSeeOther)
	c.post("/x/act", url.Values{"text": {strings.Repeat("x", maxForm)}}).want(t, http.StatusRequestEntityTooLarge)
	r := c.request(http.MethodPost, "/x/act", strings.NewReader("a=%zz"))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	c.send(r).want(t, http.StatusBadRequest)
}

// Whoever follows a link from a chat or a mail has his forms taken that are open already: the browser sends a Lax cookie with such a
// navigation, and so no other is set. (console/browsertest has the same in a browser.)
func TestTheCookieComesWithALinkFromElsewhere(t *testing.T) {
	c := newConsole(t, pgqueuetest.New(t))
	r := c.request(http.MethodGet, "/", nil)
	r.Header.Del("Cookie")
	first := c.send(r).want(t, http.StatusOK).header.Values("Set-Cookie")
	if len(first) != 1 || !strings.Contains(first[0], "SameSite=Lax") {
		t.Fatalf("cookies %q", first)
	}
	cookie, _, _ := strings.Cut(first[0], ";")
	r = c.request(http.MethodGet, "/", nil)
	r.Header.Set("Cookie", cookie)
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	if again := c.send(r).want(t, http.StatusOK).header.Values("Set-Cookie"); len(again) != 0 {
		t.Errorf("the link gave other cookies: %q", again)
	}
}

// Two tabs that are opened at once, before there is a cookie, are given a secret each. The forms of both are taken.
func TestTwoFirstTabs(t *testing.T) {
	c := newConsole(t, pgqueuetest.New(t))
	c.add(route{http.MethodPost, "/x/act", Operator, func(r *request) error { return r.redirect("/", nil) }})
	c.add(route{http.MethodGet, "/x/form", Operator, func(r *request) error { return r.json(http.StatusOK, r.csrf) }})
	for _, proto := range []string{"http", "https"} {
		jar := map[string]string{}
		var tokens []string
		for range 2 {
			r := c.request(http.MethodGet, "/x/form", nil)
			r.Header.Del("Cookie")
			r.Header.Set("X-Forwarded-Proto", proto)
			page := c.send(r).want(t, http.StatusOK)
			tokens = append(tokens, strings.Trim(page.body, "\"\n"))
			for _, cookie := range (&http.Response{Header: page.header}).Cookies() {
				jar[cookie.Name] = cookie.Value
			}
		}
		for i, token := range tokens {
			r := c.postRequest("/x/act", url.Values{csrfField: {token}})
			r.Header.Del("Cookie")
			r.Header.Set("X-Forwarded-Proto", proto)
			for name, value := range jar {
				r.AddCookie(&http.Cookie{Name: name, Value: value})
			}
			if reply := c.send(r); reply.status != http.StatusSeeOther {
				t.Errorf("%s: the form of tab %d: status %d", proto, i, reply.status)
			}
		}
	}
}
