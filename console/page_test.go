package console

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// A live page is asked for again and again: it is sent anew only when something but the time has changed.
func TestALivePage(t *testing.T) {
	c := newConsole(t, pgqueuetest.New(t), func(config *Config) { config.Prefix = "/q" })
	text, at := "one", time.Now().Add(-time.Hour)
	c.add(route{http.MethodGet, "/x/live", Viewer, func(r *request) error {
		r.live()
		at = at.Add(-time.Hour) // what passes is not a change; but this moves what <time> says it is about, too
		return r.page(http.StatusOK, "error", "", "Live", errorPage{Status: 200, Title: string(ago(time.Unix(0, 0), at)), Text: text})
	}})
	whole := c.get("/x/live").want(t, http.StatusOK)
	var version string
	for _, e := range elements(whole.body) {
		if e.name == "main" {
			version = e.attribute("data-version")
			if !strings.Contains(e.shape(), "data-live") {
				t.Errorf("main is %s", e.shape())
			}
		}
	}
	if strings.Contains(c.get("/").body, "data-live=") {
		t.Error("each page is live")
	}
	part := c.partial("/x/live").want(t, http.StatusOK)
	if part.header.Get("ETag") != `"`+version+`"` || strings.Contains(part.body, "<main") || strings.Contains(part.body, "<nav") || !strings.Contains(part.body, "<h1>") || !strings.Contains(whole.body, strings.TrimSpace(part.body)) {
		t.Errorf("version %q, ETag %q: %s", version, part.header.Get("ETag"), part.body)
	}
	again := c.request(http.MethodGet, "/x/live", nil)
	again.Header.Set("HX-Request", "true")
	again.Header.Set("If-None-Match", `"`+version+`"`)
	if reply := c.send(again.Clone(t.Context())).want(t, http.StatusNoContent); reply.body != "" {
		t.Errorf("body %q", reply.body)
	}
	text = "two"
	if reply := c.send(again).want(t, http.StatusOK); !strings.Contains(reply.body, "two") {
		t.Error(reply.body)
	}
}

func TestTheVersionLeavesOutWordsOfTime(t *testing.T) {
	pages, err := loadPages(templateFuncs(&assets{}))
	if err != nil {
		t.Fatal(err)
	}
	at := time.Unix(1_700_000_000, 0)
	early, late := "<p>"+string(ago(at, at.Add(time.Second)))+"</p>", "<p>"+string(ago(at, at.Add(time.Hour)))+"</p>"
	other := "<p>" + string(ago(at.Add(time.Second), at.Add(time.Hour))) + "</p>"
	if early == late || pages.version([]byte(early)) != pages.version([]byte(late)) {
		t.Errorf("%s and %s differ", early, late)
	}
	if pages.version([]byte(late)) == pages.version([]byte(other)) {
		t.Errorf("%s and %s are the same", late, other)
	}
}

func TestThePageAround(t *testing.T) {
	c := newConsole(t, pgqueuetest.New(t), func(config *Config) { config.Prefix = "/q" })
	page := c.get("/?done=retry").want(t, http.StatusOK)
	for _, want := range []string{"olga", "operator", `aria-current="page"`, "The job was retried.", `href="/q/jobs"`, `<a class="skip" href="#main">`} {
		if !strings.Contains(page.body, want) {
			t.Errorf("there is no %s", want)
		}
	}
	if menu, _, _ := strings.Cut(page.body, "<main"); strings.Count(menu, `aria-current="page"`) != 1 {
		t.Error("several entries of the menu are the current one")
	}
	if spoofed := c.get("/?done=Call+555-1234").body; strings.Contains(spoofed, "555") || strings.Contains(spoofed, `data-kind="success"`) {
		t.Error("an address puts words into the console's mouth")
	}
	for _, entry := range c.console.menu {
		c.get(entry.Path).want(t, http.StatusOK)
	}
	if head := c.send(c.request(http.MethodHead, "/", nil)).want(t, http.StatusOK); head.body != "" || head.header.Get("Content-Length") == "" {
		t.Errorf("HEAD: %v %q", head.header, head.body)
	}
}
