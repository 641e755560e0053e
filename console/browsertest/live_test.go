package browsertest

import (
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// A job that is completed elsewhere appears without a reload. The page looks once a second; the bound is wide, for a busy machine.
func TestAJobCompletedElsewhereAppears(t *testing.T) {
	s := newSite(t)
	s.shop(t)
	tb := s.open(t, "vera", "desk")
	tb.goTo("/jobs?state=succeeded&queue=fresh")
	tb.waitFor(`document.documentElement.dataset.ready !== undefined && document.body.innerText.includes("No job matches")`)
	tb.evaluate(`window.mark = 1; document.querySelector("[name=kind]").closest("details")?.setAttribute("open", ""); document.querySelector("[name=kind]").focus()`, nil)
	tb.run(chromedp.KeyEvent("half a wo"))

	began := time.Now()
	id := one[int64](t, s, `INSERT INTO pgqueue.history (id, queue, kind, state, run_at, created_at, claimed_at, finished_at, day, attempt, generation, error_count, priority, failures, max_attempts, payload, metadata, tags)
		VALUES (9001, 'fresh', 'send', 'succeeded', now(), now(), now(), now(), (now() AT TIME ZONE 'UTC')::date, 1, 1, 0, 1, 0, 3, '{}', '{}', '{}') RETURNING id`)
	tb.waitFor(fmt.Sprintf(`document.querySelector('main a[href$="/jobs/%d"]') !== null`, id))
	took := time.Since(began)
	t.Logf("it appeared after %s", took.Round(time.Millisecond))
	if took > 10*time.Second {
		t.Errorf("it appeared after %s; 2 s are promised, on a machine of one's own", took)
	}
	var kept bool
	tb.evaluate(`window.mark === 1 && document.activeElement.name === "kind" && document.activeElement.value === "half a wo"`, &kept)
	if !kept {
		t.Error("the page was loaded anew, or the refresh took the focus or the half-typed word")
	}
}

// What somebody is about to do is not taken away by a refresh: ticks of rows stay.
func TestARefreshKeepsTicks(t *testing.T) {
	s := newSite(t)
	s.shop(t)
	tb := s.open(t, "olga", "desk")
	tb.goTo("/jobs?state=pending")
	tb.waitFor(`document.documentElement.dataset.ready !== undefined && document.querySelectorAll("main tbody input[type=checkbox]").length > 3`)
	tb.evaluate(`window.mark = 1; document.querySelectorAll("main tbody input[type=checkbox]")[1].click()`, nil)
	var ticked string
	tb.evaluate(`document.querySelectorAll("main tbody input[type=checkbox]")[1].value`, &ticked)
	id := one[int64](t, s, `INSERT INTO pgqueue.jobs (id, queue, kind) VALUES (9002, 'mail', 'send_receipt') RETURNING id`)
	tb.waitFor(fmt.Sprintf(`document.querySelector('main a[href$="/jobs/%d"]') !== null`, id))
	var still bool
	tb.evaluate(fmt.Sprintf(`window.mark === 1 && [...document.querySelectorAll("main tbody input:checked")].map(e => e.value).join() === %q`, ticked), &still)
	if !still {
		t.Error("after a refresh the tick is gone, or on another row")
	}
}

// Without scripts every screen can be read, filters and pages are links and forms, and actions take a page more.
func TestWithoutScripts(t *testing.T) {
	s := newSite(t)
	s.shop(t)
	tb := s.open(t, "olga", "desk")
	tb.run(emulation.SetScriptExecutionDisabled(true))
	for name, path := range screens() {
		tb.goTo(path)
		if text := tb.text("main h1"); text == "" {
			t.Errorf("%s has no heading without scripts", name)
		}
	}
	tb.goTo("/jobs?state=dead&queue=mail")
	tb.run(chromedp.Click(`main a[href$="/jobs/7001"]`, chromedp.ByQuery), chromedp.WaitVisible(`ol.timeline`, chromedp.ByQuery))
	tb.run(chromedp.Click(`a[href$="/jobs/7001/confirm/retry"]`, chromedp.ByQuery), chromedp.WaitVisible(`form[method=post]`, chromedp.ByQuery))
	tb.run(chromedp.Click(`form[method=post] button.primary`, chromedp.ByQuery), chromedp.WaitVisible(`.notice[data-kind=success]`, chromedp.ByQuery))
	if !one[bool](t, s, `SELECT state = 'pending' FROM pgqueue.jobs WHERE id = 7001`) {
		t.Error("the job was not retried")
	}
}

// Keys: ? lists them, g and a letter go to a screen, / goes to the search, Escape closes.
func TestKeyboard(t *testing.T) {
	s := newSite(t)
	s.shop(t)
	tb := s.open(t, "olga", "desk")
	tb.goTo("/")
	tb.waitFor(`document.documentElement.dataset.ready !== undefined`)
	tb.run(chromedp.KeyEvent("?"))
	tb.waitFor(`document.querySelector("dialog[open]") !== null`)
	tb.accessible()
	tb.run(chromedp.KeyEvent("\x1b"))
	tb.waitFor(`document.querySelector("dialog[open]") === null`)
	for key, path := range map[string]string{"j": "/jobs", "q": "/queues", "a": "/attention", "s": "/schedules", "w": "/workers", "d": "/database", "o": "/"} {
		tb.run(chromedp.KeyEvent("g"), chromedp.KeyEvent(key))
		tb.waitFor(fmt.Sprintf(`location.pathname === %q && document.documentElement.dataset.ready !== undefined`, s.prefix+path))
	}
	tb.goTo("/jobs/7001")
	tb.waitFor(`document.documentElement.dataset.ready !== undefined`)
	tb.opens("Retry")
	tb.accessible()
	tb.run(chromedp.KeyEvent("\x1b"))
	tb.waitFor(`document.querySelector("dialog[open]") === null`)
	if !one[bool](t, s, `SELECT state = 'dead' FROM pgqueue.history WHERE id = 7001`) {
		t.Error("Escape did something")
	}
}

// In the dark, every screen keeps its contrast.
func TestDark(t *testing.T) {
	s := newSiteOn(t, pgqueuetest.NewServer(t, pgqueuetest.WithDurability()).DB(t)) // a picture of the guides is made here
	s.shop(t)
	tb := s.open(t, "olga", "desk")
	tb.run(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}, {Name: "prefers-reduced-motion", Value: "reduce"}}))
	for name, path := range screens() {
		tb.goTo(path)
		tb.waitFor(settled)
		tb.accessible()
		if name == "overview" || name == "job-dead" || name == "performance" {
			tb.screenshot(name + "-dark")
		}
	}
}

// What producers put into names, payloads and messages is text in a browser, too: nothing of it runs.
func TestHostileTextsStayTexts(t *testing.T) {
	s := newSite(t)
	s.shop(t)
	hostile := `"><img src=x onerror=alert(1)><script>alert(2)</script>' onmouseover='alert(3)</script>javascript:alert(4)`
	if _, err := s.db.Pool.Exec(t.Context(), `UPDATE `+s.db.Schema+`.history SET kind = left($1, 100), key = $1, queue = left($1, 100), claimed_by = $1, tags = ARRAY[$1::text], payload = jsonb_build_object($1::text, $1::text),
		errors = jsonb_build_array(jsonb_build_object('attempt', 1, 'code', $1::text, 'message', $1::text, 'by', $1::text, 'at', now())) WHERE id = 7001`, hostile); err != nil {
		t.Fatal(err)
	}
	tb := s.open(t, "olga", "desk")
	dialogs := make(chan string, 10)
	chromedp.ListenTarget(tb.ctx, func(event any) {
		if event, ok := event.(*page.EventJavascriptDialogOpening); ok {
			dialogs <- event.Message
			go func() { _ = chromedp.Run(tb.ctx, page.HandleJavaScriptDialog(true)) }()
		}
	})
	for _, path := range []string{"/", "/jobs?state=dead", "/jobs/7001", "/jobs/7001/confirm/delete", "/attention", "/queues", "/performance"} {
		tb.goTo(path)
		tb.waitFor(`document.documentElement.dataset.ready !== undefined`)
		tb.evaluate(`document.querySelectorAll("main *").forEach(e => e.dispatchEvent(new MouseEvent("mouseover", {bubbles: true})))`, nil)
	}
	select {
	case message := <-dialogs:
		t.Errorf("a text ran as a script: %s", message)
	default:
	}
}

// Filters, states and pages of the list of jobs change the inside of the page, not the page: what is typed and where one is stays, the
// address says it all, and the way back works.
func TestFiltersWithoutAReload(t *testing.T) {
	s := newSite(t)
	s.shop(t)
	tb := s.open(t, "vera", "desk")
	tb.expect("400") // the filter that is no JSON
	tb.goTo("/jobs")
	tb.waitFor(`document.documentElement.dataset.ready !== undefined`)
	tb.evaluate(`window.mark = 1`, nil)
	for _, step := range []struct{ do, then string }{
		{`[...document.querySelectorAll(".tabs a")].find(a => a.textContent.includes("Dead")).click()`, `location.search.includes("state=dead") && [...document.querySelectorAll("#jobs tbody .badge")].every(b => b.textContent.includes("dead"))`},
		{`document.querySelector("[name=queue]").value = "billing"; document.querySelector("form.filters").requestSubmit()`, `location.search.includes("queue=billing") && !location.search.includes("kind=") && document.querySelectorAll("#jobs tbody tr").length === 6`},
		{`document.querySelector(".terms a").click()`, `!location.search.includes("queue=billing") && document.querySelectorAll("#jobs tbody tr").length > 6`},
		{`document.querySelector("[name=payload]").value = "{"; document.querySelector("form.filters").requestSubmit()`, `document.querySelector("main [role=alert]") !== null`},
		{`document.querySelector("[name=payload]").value = ""; document.querySelector("form.filters").requestSubmit()`, `document.querySelector("main [role=alert]") === null && document.querySelector("#jobs") !== null`},
		{`[...document.querySelectorAll(".tabs a")].find(a => a.textContent.includes("Succeeded")).click()`, `document.querySelector(".pager [rel=next]") !== null && location.search.includes("state=succeeded")`},
		{`window.first = document.querySelector("#jobs tbody tr").id; document.querySelector(".pager [rel=next]").click()`, `location.search.includes("cursor=") && document.querySelector("#jobs tbody tr").id !== window.first`},
	} {
		tb.evaluate(step.do, nil)
		tb.waitFor(step.then)
		var kept bool
		if tb.evaluate(`window.mark === 1`, &kept); !kept {
			t.Fatalf("after %s the page was loaded anew", step.do)
		}
	}
	tb.run(chromedp.NavigateBack())
	tb.waitFor(`!location.search.includes("cursor=") && location.search.includes("state=succeeded") && document.querySelector("header nav") !== null && document.querySelector("#jobs tbody tr") !== null`)
}
