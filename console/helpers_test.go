package console

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// testRole is the header by which tests say who they are.
const testRole = "X-Test-Role"

// waitAtMost is how long a test waits for what must come.
const waitAtMost = time.Minute

// testConsole is a console under a server of its own, seen as an operator. It may be used by several goroutines.
type testConsole struct {
	t       testing.TB
	console *Console
	address string // of the console, with its prefix
	role    Role
	secret  string // of the cookie
}

// newConsole serves a console for db, whose requests come from "olga", an operator; see as. Errors in its log are in the test's output.
func newConsole(t testing.TB, db *pgqueuetest.DB, options ...func(*Config)) *testConsole {
	t.Helper()
	config := Config{
		Pool: db.Pool, Schema: db.Schema, Authenticator: AuthenticatorFunc(testIdentity),
		Logger: slog.New(slog.NewTextHandler(testLog{t}, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	for _, option := range options {
		option(&config)
	}
	made, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(made)
	t.Cleanup(func() {
		server.Close()
		ctx, cancel := context.WithTimeout(context.Background(), waitAtMost)
		defer cancel()
		if err := made.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return &testConsole{t: t, console: made, address: server.URL + config.Prefix, role: Operator, secret: strings.Repeat("s", 40)}
}

// testLog writes to the test's output.
type testLog struct{ t testing.TB }

func (l testLog) Write(line []byte) (int, error) {
	l.t.Log(strings.TrimSuffix(string(line), "\n"))
	return len(line), nil
}

// testName is who they are, by role.
func testName(role Role) string { return map[Role]string{Viewer: "victor", Operator: "olga"}[role] }

func testIdentity(r *http.Request) (Identity, error) {
	role, err := parseRole(r.Header.Get(testRole))
	if err != nil {
		return Identity{}, ErrUnauthenticated
	}
	return Identity{Name: testName(role), Role: role}, nil
}

// as is the same console seen by somebody of that role; 0 is nobody.
func (c *testConsole) as(role Role) *testConsole {
	other := *c
	other.role = role
	return &other
}

// reply is an answer, read whole. Redirects are not followed.
type reply struct {
	status int
	header http.Header
	body   string
}

// get asks for a path below the prefix, with its query.
func (c *testConsole) get(path string) *reply {
	c.t.Helper()
	return c.send(c.request(http.MethodGet, path, nil))
}

// partial asks as live.ts and dialog.ts do.
func (c *testConsole) partial(path string) *reply {
	c.t.Helper()
	r := c.request(http.MethodGet, path, nil)
	r.Header.Set("HX-Request", "true")
	return c.send(r)
}

// post sends a form as a page of the console does: with the token and the cookie.
func (c *testConsole) post(path string, form url.Values) *reply {
	c.t.Helper()
	return c.send(c.postRequest(path, form))
}

func (c *testConsole) postRequest(path string, form url.Values) *http.Request {
	c.t.Helper()
	full := url.Values{csrfField: {csrfToken(c.secret, Identity{Name: testName(c.role)})}}
	for name, values := range form {
		full[name] = values
	}
	r := c.request(http.MethodPost, path, strings.NewReader(full.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	return r
}

// request makes a request of the role, with the cookie.
func (c *testConsole) request(method, path string, body io.Reader) *http.Request {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), method, c.address+path, body)
	if err != nil {
		c.t.Fatal(err)
	}
	if c.role != 0 {
		r.Header.Set(testRole, c.role.String())
	}
	r.AddCookie(&http.Cookie{Name: csrfCookie, Value: c.secret})
	return r
}

func (c *testConsole) send(r *http.Request) *reply {
	c.t.Helper()
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		c.t.Fatalf("%s %s: %v", r.Method, r.URL, err)
	}
	return &reply{status: response.StatusCode, header: response.Header, body: string(body)}
}

// want fails the test unless the status is that one.
func (r *reply) want(t testing.TB, status int) *reply {
	t.Helper()
	if r.status != status {
		t.Fatalf("status %d, want %d: %s", r.status, status, r.short())
	}
	return r
}

// short is the beginning of the body, for messages.
func (r *reply) short() string {
	if len(r.body) > 600 {
		return fmt.Sprintf("%s… (%d bytes)", r.body[:600], len(r.body))
	}
	return r.body
}
