package console

import (
	"net/http"
	"testing"

	"github.com/pgqueue/pgqueue/pgqueuetest"
)

func TestC135_AnotherHostIsRefused(t *testing.T) {
	for _, test := range []struct {
		allowed []string
		header  string
		ok      bool
	}{
		{nil, "localhost", true}, {nil, "LOCALHOST:8080", true}, {nil, "127.0.0.1:80", true}, {nil, "127.9.9.9", true}, {nil, "[::1]:8080", true}, {nil, "[::1]", true},
		{nil, "evil.example.com", false}, {nil, "localhost.evil.example.com", false}, {nil, "evil.example.com:80", false}, {nil, "10.0.0.1", false}, {nil, "", false},
		{nil, "localhost.", false}, {nil, "127.0.0.1.evil.example.com", false}, {nil, "localhost:80:80", false}, {nil, "localhost@evil.example.com", false}, {nil, "0.0.0.0", false},
		{[]string{"Ops.Example.com"}, "ops.example.com", true}, {[]string{"ops.example.com"}, "OPS.example.com:8443", true}, {[]string{"[fd00::1]"}, "[fd00::1]:80", true},
		{[]string{"10.1.2.3"}, "10.1.2.3:80", true}, {[]string{"ops.example.com"}, "localhost", false}, {[]string{"ops.example.com"}, "xops.example.com", false},
		{[]string{"ops.example.com"}, "ops.example.com.", false}, {[]string{"ops.example.com"}, "example.com", false},
	} {
		h, err := newHosts(test.allowed)
		if err != nil {
			t.Fatal(err)
		}
		if h.allow(test.header) != test.ok {
			t.Errorf("%v, Host %q: %v", test.allowed, test.header, !test.ok)
		}
	}

	c := newConsole(t, pgqueuetest.New(t))
	for path := range map[string]bool{"/": true, "/nowhere": true, "/static/console.css": true} {
		r := c.request(http.MethodGet, path, nil)
		r.Host = "rebound.example.com"
		c.send(r).want(t, http.StatusForbidden)
		r = c.request(http.MethodGet, path, nil)
		r.Header.Set("X-Forwarded-Host", "localhost")
		r.Host = "rebound.example.com"
		c.send(r).want(t, http.StatusForbidden)
	}
	for _, route := range c.console.routes() {
		if route.method == http.MethodPost {
			r := c.postRequest(fill(route.path, "1"), nil)
			r.Host = "rebound.example.com"
			c.send(r).want(t, http.StatusForbidden)
		}
	}
}
