package console

import (
	"net/http"
	"path"
	"strings"
	"testing"

	"github.com/pgqueue/pgqueue/pgqueuetest"
)

func TestStaticFiles(t *testing.T) {
	c := newConsole(t, pgqueuetest.New(t), func(config *Config) { config.Prefix = "/q" }).as(0) // open to everybody
	assets := c.console.assets
	if len(assets.files) < 2 {
		t.Fatalf("%d files", len(assets.files))
	}
	for name, file := range assets.files {
		address, err := assets.address(name)
		if err != nil || !strings.HasPrefix(address, "/q/static/") {
			t.Fatal(address, err)
		}
		address = strings.TrimPrefix(address, "/q")
		reply := c.get(address).want(t, http.StatusOK)
		if reply.body != string(file.content) || !strings.Contains(reply.header.Get("Cache-Control"), "immutable") || reply.header.Get("X-Content-Type-Options") != "nosniff" || reply.header.Get("Content-Security-Policy") != policy {
			t.Errorf("%s: %v", address, reply.header)
		}
		for _, ext := range []struct{ ext, kind string }{{".js", "text/javascript; charset=utf-8"}, {".css", "text/css; charset=utf-8"}} {
			if path.Ext(name) == ext.ext && reply.header.Get("Content-Type") != ext.kind {
				t.Errorf("%s: %s", name, reply.header.Get("Content-Type"))
			}
		}
		// Of another version, or of none, it may change.
		for _, other := range []string{strings.Replace(address, assets.version, strings.Repeat("0", len(assets.version)), 1), "/static/" + name} {
			if reply := c.get(other).want(t, http.StatusOK); reply.header.Get("Cache-Control") != "no-store" {
				t.Errorf("%s: %v", other, reply.header)
			}
		}
		c.send(c.request(http.MethodPost, address, nil)).want(t, http.StatusUnauthorized)
		if reply := c.send(c.request(http.MethodHead, address, nil)).want(t, http.StatusOK); reply.body != "" {
			t.Errorf("HEAD %s has a body", address)
		}
	}
	if _, err := assets.address("missing.js"); err == nil {
		t.Error("a file that is not there has an address")
	}
}
