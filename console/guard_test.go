package console

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// fill puts a value into the wildcards of a route.
func fill(path, value string) string {
	return regexp.MustCompile(`\{[^}]*\}`).ReplaceAllStringFunc(path, func(wildcard string) string {
		if wildcard == "{$}" {
			return ""
		}
		return value
	})
}

// raw sends a request as it stands, which no client of Go's would do: it cleans addresses. It returns the status line's code and the
// rest of the answer.
func (c *testConsole) raw(t testing.TB, request string) (status int, answer string) {
	t.Helper()
	address, err := url.Parse(c.address)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", address.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if !strings.Contains(request, "\r\nHost: ") {
		request = strings.Replace(request, "\r\n", "\r\nHost: "+address.Host+"\r\n", 1)
	}
	if _, err := io.WriteString(conn, request+"Connection: close\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("%q: %v", request, err)
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body) // cut short or not
	return response.StatusCode, fmt.Sprint(response.Header) + string(body)
}

// variants are ways of writing a path by which one might slip past a guard.
func variants(path string) []string {
	return []string{
		path, "/" + path, "//" + path, path + "/", path + "//", path + ".", path + "/.", path + "/..", path + "/../" + strings.TrimPrefix(path, "/"),
		"/./" + strings.TrimPrefix(path, "/"), "/x/.." + path, "/x/%2e%2e" + path, "/static/.." + path, "/static/%2e%2e" + path, "/static/..%2f" + strings.TrimPrefix(path, "/"),
		strings.ToUpper(path), "/" + strings.ReplaceAll(strings.TrimPrefix(path, "/"), "/", "%2F"), "/" + strings.ReplaceAll(strings.TrimPrefix(path, "/"), "/", "%2f"),
		path + "%2f", path + "%00", path + "%3f", path + ";x=1", path + "?token=secret", path + "?access_token=secret&authorization=Basic%20YTpi", path + "%20", `/\` + strings.TrimPrefix(path, "/"),
		strings.Replace(path, "/", "/%2e/", 1), path + "/%2e%2e/static/console.css", "/static/console.css/.." + path,
	}
}

func TestC136_NothingIsServedWithoutCredentials(t *testing.T) {
	db := pgqueuetest.New(t)
	for _, prefix := range []string{"", "/admin/jobs"} {
		c := newConsole(t, db, func(config *Config) { config.Prefix = prefix })
		paths := []string{"/nowhere", "/static/nowhere.js", "/static/", "/static"}
		for _, route := range c.console.routes() {
			paths = append(paths, fill(route.path, "1"))
			if strings.Contains(route.path, "{") {
				paths = append(paths, fill(route.path, "a%2Fb"))
			}
		}
		for _, path := range paths {
			for i, variant := range variants(path) {
				methods := []string{"GET"}
				if i == 0 || os.Getenv("PGQUEUE_TEST_FULL") == "1" {
					methods = []string{"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "PROPFIND"}
				}
				for _, method := range methods {
					status, answer := c.raw(t, method+" "+prefix+variant+" HTTP/1.1\r\n")
					if status != http.StatusUnauthorized && !strings.Contains(answer, "400 Bad Request") { // 400: net/http itself
						t.Errorf("%s %s%s: status %d, want 401", method, prefix, variant, status)
					}
					if !strings.Contains(answer, policy) && status != http.StatusBadRequest {
						t.Errorf("%s %s%s: no Content-Security-Policy", method, prefix, variant)
					}
				}
			}
		}
		for _, variant := range variants(prefix) { // where the console is mounted
			if status, _ := c.raw(t, "GET "+variant+" HTTP/1.1\r\n"); prefix != "" && status != http.StatusUnauthorized {
				t.Errorf("GET %s: status %d, want 401", variant, status)
			}
		}
	}
}

// Behind a mux of the user's, as README shows it, which cleans paths and redirects by itself, but lets nothing pass.
func TestC136_NothingIsServedBehindAMux(t *testing.T) {
	db := pgqueuetest.New(t)
	c := newConsole(t, db, func(config *Config) { config.Prefix = "/admin/jobs" })
	mux := http.NewServeMux()
	mux.Handle("/admin/jobs/", c.console)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	behind := *c
	behind.address = server.URL
	for _, route := range c.console.routes() {
		for _, variant := range variants("/admin/jobs" + fill(route.path, "1")) {
			status, answer := behind.raw(t, route.method+" "+variant+" HTTP/1.1\r\n")
			switch status {
			case http.StatusUnauthorized, http.StatusNotFound, http.StatusBadRequest:
			case http.StatusMovedPermanently, http.StatusTemporaryRedirect: // of the mux; where it leads, the console asks again
				if strings.Contains(answer, policy) {
					t.Errorf("%s %s: the console redirects somebody unknown", route.method, variant)
				}
			default:
				t.Errorf("%s %s: status %d", route.method, variant, status)
			}
		}
	}
	operator := &testConsole{t: t, console: c.console, address: server.URL + "/admin/jobs", role: Operator, secret: c.secret}
	operator.get("/").want(t, http.StatusOK)
}

func TestC136_AViewerCannotAct(t *testing.T) {
	db := pgqueuetest.New(t)
	c := newConsole(t, db)
	for _, everybody := range []bool{false, true} {
		viewer := c.as(Viewer)
		if everybody {
			viewer = newConsole(t, db, func(config *Config) { config.Authenticator, config.ReadOnlyForAll = nil, true })
		}
		for _, route := range c.console.routes() {
			switch path := fill(route.path, "1"); {
			case route.method == http.MethodPost && route.role != Operator:
				t.Errorf("POST %s needs no operator", route.path)
			case route.method == http.MethodPost:
				viewer.post(path, nil).want(t, http.StatusForbidden)
			case route.role == Operator: // a confirm page
				viewer.get(path).want(t, http.StatusForbidden)
			case strings.Contains(route.path, "/confirm"):
				t.Errorf("GET %s needs no operator", route.path)
			}
		}
	}
}

func TestC136_TheTableIsClosed(t *testing.T) {
	c := newConsole(t, pgqueuetest.New(t))
	for _, route := range c.console.routes() {
		if route.method != http.MethodGet && route.method != http.MethodPost {
			t.Errorf("%s %s: only GET and POST", route.method, route.path)
		}
		if route.role != Viewer && route.role != Operator {
			t.Errorf("%s %s: role %d", route.method, route.path, route.role)
		}
		if strings.HasSuffix(route.path, "/") || strings.Contains(route.path, "...") {
			t.Errorf("%s: a subtree redirects, and takes more than one page", route.path)
		}
	}
}

func TestC136_TheConsoleIsNotMadeWithoutAnAuthenticator(t *testing.T) {
	db := pgqueuetest.New(t)
	for field, config := range map[string]Config{
		"Pool":                   {Authenticator: AuthenticatorFunc(testIdentity)},
		"Authenticator":          {Pool: db.Pool},
		"ReadOnlyForAll":         {Pool: db.Pool, Authenticator: AuthenticatorFunc(testIdentity), ReadOnlyForAll: true},
		"Prefix \"x\"":           {Pool: db.Pool, ReadOnlyForAll: true, Prefix: "x"},
		"Prefix \"/x/\"":         {Pool: db.Pool, ReadOnlyForAll: true, Prefix: "/x/"},
		"Prefix \"/\"":           {Pool: db.Pool, ReadOnlyForAll: true, Prefix: "/"},
		"Prefix \"/x/../y\"":     {Pool: db.Pool, ReadOnlyForAll: true, Prefix: "/x/../y"},
		"Prefix \"/{x}\"":        {Pool: db.Pool, ReadOnlyForAll: true, Prefix: "/{x}"},
		"AllowedHosts[1]":        {Pool: db.Pool, ReadOnlyForAll: true, AllowedHosts: []string{"ops.example.com", "ops.example.com:443"}},
		"AllowedHosts[0]":        {Pool: db.Pool, ReadOnlyForAll: true, AllowedHosts: []string{"https://ops.example.com"}},
		"TrustedOrigins[0]":      {Pool: db.Pool, ReadOnlyForAll: true, TrustedOrigins: []string{"ops.example.com"}},
		"Timeout":                {Pool: db.Pool, ReadOnlyForAll: true, Timeout: -1},
		"schema is no usable na": {Pool: db.Pool, ReadOnlyForAll: true, Schema: "pg_x"},
	} {
		if _, err := New(config); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// What an authenticator says is not believed blindly.
func TestAnIdentityNeedsANameAndARole(t *testing.T) {
	db := pgqueuetest.New(t)
	var identity Identity
	var failure error
	c := newConsole(t, db, func(config *Config) {
		config.Authenticator = AuthenticatorFunc(func(*http.Request) (Identity, error) { return identity, failure })
	})
	for _, test := range []struct {
		identity Identity
		err      error
		status   int
	}{
		{Identity{"olga", Operator}, nil, http.StatusOK},
		{Identity{"", Operator}, nil, http.StatusForbidden},
		{Identity{"olga", 0}, nil, http.StatusForbidden},
		{Identity{"olga", 3}, nil, http.StatusForbidden},
		{Identity{"olga", Operator}, ErrUnauthenticated, http.StatusUnauthorized},
		{Identity{"olga", Operator}, fmt.Errorf("ldap: %w", ErrUnauthenticated), http.StatusUnauthorized},
		{Identity{"olga", Operator}, ErrThrottled, http.StatusTooManyRequests},
		{Identity{"olga", Operator}, errors.New("ldap is down, secret"), http.StatusInternalServerError},
	} {
		identity, failure = test.identity, test.err
		if reply := c.get("/").want(t, test.status); strings.Contains(reply.body, "secret") {
			t.Errorf("%v: %s", test.err, reply.body)
		}
	}
}

// loginPage sends people to a page of the user's.
type loginPage struct{ AuthenticatorFunc }

func (loginPage) Challenge(w http.ResponseWriter, r *http.Request) {
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}

func TestAChallengerAnswersByItself(t *testing.T) {
	c := newConsole(t, pgqueuetest.New(t), func(config *Config) { config.Authenticator = loginPage{testIdentity} })
	reply := c.as(0).get("/").want(t, http.StatusSeeOther)
	if reply.header.Get("Location") != "/login" || reply.header.Get("Content-Security-Policy") != policy {
		t.Errorf("header %v", reply.header)
	}
	c.get("/").want(t, http.StatusOK)
}

// add adds a route to a running console.
func (c *testConsole) add(route route) {
	c.console.mux.HandleFunc(route.method+" "+c.console.config.Prefix+route.path, func(w http.ResponseWriter, r *http.Request) { c.console.serve(route, w, r) })
}

// A route that is reached past the guards is still closed.
func TestARouteIsClosedByItself(t *testing.T) {
	c := newConsole(t, pgqueuetest.New(t))
	recorder := httptest.NewRecorder()
	c.console.mux.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/", nil))
	if recorder.Code != http.StatusForbidden {
		t.Errorf("status %d", recorder.Code)
	}
}

func TestWhatIsNotThereIsAPage(t *testing.T) {
	c := newConsole(t, pgqueuetest.New(t), func(config *Config) { config.Prefix = "/q" })
	c.add(route{http.MethodPost, "/x/act", Operator, func(*request) error { return nil }})
	for path, status := range map[string]int{"/nowhere": 404, "/x/act": 405, "/%2e%2e/": 404, "//": 404} {
		reply := c.get(path).want(t, status)
		if !strings.Contains(reply.body, "<h1>"+http.StatusText(status)+"</h1>") {
			t.Errorf("%s: %s", path, reply.short())
		}
		if status == 405 && reply.header.Get("Allow") != http.MethodPost {
			t.Errorf("Allow: %q", reply.header.Get("Allow"))
		}
	}
	if reply := c.get("").want(t, http.StatusSeeOther); reply.header.Get("Location") != "/q/" {
		t.Errorf("Location %q", reply.header.Get("Location"))
	}
}

func TestAPanicIsAnError(t *testing.T) {
	c := newConsole(t, pgqueuetest.New(t), func(config *Config) { config.Logger = nil })
	c.add(route{http.MethodGet, "/panics", Viewer, func(*request) error { panic("secret") }})
	c.add(route{http.MethodGet, "/torn", Viewer, func(r *request) error {
		_, _ = r.w.Write([]byte("the beginning")) // it arrives or not
		return errors.New("it broke")
	}})
	c.add(route{http.MethodGet, "/broken", Viewer, func(r *request) error {
		_, _ = r.w.Write([]byte("the beginning")) // it arrives or not
		panic("secret")
	}})
	reply := c.get("/panics").want(t, http.StatusInternalServerError)
	if strings.Contains(reply.body, "secret") || reply.header.Get("Content-Security-Policy") != policy {
		t.Errorf("%v %s", reply.header, reply.body)
	}
	for _, path := range []string{"/torn", "/broken"} {
		response, err := http.DefaultClient.Do(c.request(http.MethodGet, path, nil))
		if err == nil {
			_, err = io.ReadAll(response.Body)
			response.Body.Close()
		}
		if err == nil {
			t.Errorf("%s: an answer that broke off looks whole", path)
		}
	}
	c.get("/").want(t, http.StatusOK)
}

func TestAClosedConsoleIsClosed(t *testing.T) {
	c := newConsole(t, pgqueuetest.New(t))
	inside, ended := make(chan struct{}), make(chan error, 1)
	c.add(route{http.MethodGet, "/waits", Viewer, func(r *request) error {
		close(inside)
		<-r.Context().Done()
		ended <- context.Cause(r.Context())
		return r.Context().Err()
	}})
	answered := make(chan *reply, 1)
	go func() { answered <- c.get("/waits") }()
	<-inside
	if err := c.console.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if cause := <-ended; !errors.Is(cause, errClosed) {
		t.Errorf("cause %v", cause)
	}
	(<-answered).want(t, http.StatusServiceUnavailable)
	c.get("/").want(t, http.StatusServiceUnavailable)
	if err := c.console.Close(t.Context()); err != nil {
		t.Errorf("again: %v", err)
	}
}
