package browsertest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// click clicks the link or button that a user would find by its words, in the page or the open dialog.
func (tb *tab) click(words string) {
	tb.t.Helper()
	quoted := strings.ReplaceAll(fmt.Sprintf("%q", words), "`", "")
	find := `(() => { const place = document.querySelector("dialog[open]") ?? document.querySelector("main");
		return [...place.querySelectorAll("a, button, summary")].find(e => e.checkVisibility() && (e.textContent.trim().startsWith(` + quoted + `) || e.getAttribute("aria-label")?.startsWith(` + quoted + `))); })()`
	tb.waitFor(find + " !== undefined")
	tb.evaluate(find+`.click()`, nil)
}

// opens clicks what opens a dialog, and waits for it.
func (tb *tab) opens(words string) {
	tb.t.Helper()
	tb.click(words)
	tb.waitFor(`document.querySelector("dialog[open] form") !== null`)
}

// fill puts a value into a field of the open dialog, or of the page.
func (tb *tab) fill(field, value string) {
	tb.t.Helper()
	tb.evaluate(fmt.Sprintf(`(() => { const place = document.querySelector("dialog[open]") ?? document.querySelector("main");
		const all = [...place.querySelectorAll("[name=%s]")].filter(e => e.type !== "hidden"); const one = all.find(e => e.value === %q && e.type === "radio") ?? all[0];
		if (one.type === "checkbox" || one.type === "radio") { one.checked = true; } else { one.value = %q; } one.dispatchEvent(new Event("change", {bubbles: true})); })()`, field, value, value), nil)
}

// submit presses the button that does it, and waits for the page behind it, which says so.
func (tb *tab) submit(said string) {
	tb.t.Helper()
	tb.evaluate(`(() => { const place = document.querySelector("dialog[open]") ?? document.querySelector("main");
		place.querySelector("form[method=post] button.primary, form[method=post] button.danger, form[method=post] button:not(.quiet)").click(); })()`, nil)
	tb.waitFor(fmt.Sprintf(`document.readyState === "complete" && document.querySelector("dialog[open]") === null && document.querySelector("main")?.innerText.includes(%q)`, said))
}

// one reads a value from the database.
func one[T any](t *testing.T, s *site, sql string, args ...any) (value T) {
	t.Helper()
	if err := s.db.Pool.QueryRow(t.Context(), strings.ReplaceAll(sql, "pgqueue.", s.db.Schema+"."), args...).Scan(&value); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return value
}

// step is an action as a user does it, and what is true in the database afterwards.
type step struct {
	name, path string
	do         func(*tab)
	proof      string // SQL that is true
}

// steps are all actions of the console. Each works on things of its own in the shop.
func steps() []step {
	return []step{
		{"retry", "/jobs/7001", func(tb *tab) { tb.opens("Retry"); tb.submit("retried") }, `SELECT state = 'pending' FROM pgqueue.jobs WHERE id = 7001`},
		{"edit and retry", "/jobs/7002", func(tb *tab) {
			tb.opens("Edit and retry")
			tb.fill("payload", `{"order_id": 1}`)
			tb.submit("new payload")
		}, `SELECT payload = '{"order_id": 1}' FROM pgqueue.jobs WHERE id = 7002`},
		{"delete", "/jobs/7003", func(tb *tab) { tb.opens("Delete"); tb.submit("deleted") }, `SELECT NOT EXISTS (SELECT FROM pgqueue.history WHERE id = 7003)`},
		{"attempts", "/jobs/7004", func(tb *tab) { tb.opens("Attempts"); tb.fill("max_attempts", "9"); tb.submit("attempts was changed") }, `SELECT max_attempts = 9 FROM pgqueue.history WHERE id = 7004`},
		{"cancel", "/jobs/8182", func(tb *tab) { tb.opens("Cancel"); tb.submit("cancelled") }, `SELECT state = 'cancelled' FROM pgqueue.history WHERE id = 8182`},
		{"cancel running", "/jobs/8256", func(tb *tab) { tb.opens("Ask to stop"); tb.submit("cancelled") }, `SELECT cancel_requested_at IS NOT NULL FROM pgqueue.jobs WHERE id = 8256`},
		{"edit", "/jobs/8183", func(tb *tab) { tb.opens("Edit payload"); tb.fill("payload", `{"order_id": 2}`); tb.submit("replaced") }, `SELECT payload = '{"order_id": 2}' FROM pgqueue.jobs WHERE id = 8183`},
		{"reschedule", "/jobs/8184", func(tb *tab) { tb.opens("Run now or later"); tb.fill("due", "+3d"); tb.submit("rescheduled") }, `SELECT run_at > now() + interval '2 days' FROM pgqueue.jobs WHERE id = 8184`},
		{"priority", "/jobs/8185", func(tb *tab) { tb.opens("Priority"); tb.fill("priority", "4"); tb.submit("priority was changed") }, `SELECT priority = 4 FROM pgqueue.jobs WHERE id = 8185`},
		{"pause queue", "/queues/mail", func(tb *tab) {
			tb.opens("Pause")
			tb.fill("for", "1h")
			tb.fill("reason", "quiet")
			tb.submit("Paused")
		}, `SELECT paused_until > now() + interval '50 min' AND paused_reason = 'quiet' FROM pgqueue.queues WHERE name = 'mail'`},
		{"resume queue", "/queues/billing", func(tb *tab) { tb.opens("Resume"); tb.submit("Resumed") }, `SELECT paused_at IS NULL FROM pgqueue.queues WHERE name = 'billing'`},
		{"history", "/queues/images", func(tb *tab) { tb.opens("History"); tb.fill("history", "slim"); tb.submit("history setting") }, `SELECT history = 'slim' FROM pgqueue.queues WHERE name = 'images'`},
		{"resume kind", "/kinds", func(tb *tab) { tb.opens("Resume"); tb.submit("Resumed") }, `SELECT NOT EXISTS (SELECT FROM pgqueue.paused_kinds WHERE kind = 'newsletter')`},
		{"pause kind", "/kinds", func(tb *tab) {
			tb.opens("Pause a kind")
			tb.fill("kind", "thumbnail")
			tb.evaluate(`document.querySelector("dialog[open] form button").click()`, nil)
			tb.waitFor(`document.querySelector("dialog[open] form[method=post]") !== null`)
			tb.submit("Paused")
		}, `SELECT EXISTS (SELECT FROM pgqueue.paused_kinds WHERE kind = 'thumbnail' AND queue = '')`},
		{"disable schedule", "/schedules/invoices", func(tb *tab) { tb.opens("Disable"); tb.submit("disabled") }, `SELECT NOT enabled FROM pgqueue.schedules WHERE name = 'invoices'`},
		{"enable schedule", "/schedules/newsletter", func(tb *tab) { tb.opens("Enable"); tb.submit("enabled") }, `SELECT enabled FROM pgqueue.schedules WHERE name = 'newsletter'`},
		{"trigger schedule", "/schedules/exchange-rates", func(tb *tab) { tb.opens("Trigger now"); tb.submit("enqueued") }, `SELECT EXISTS (SELECT FROM pgqueue.jobs WHERE kind = 'fetch_rates')`},
		{"edit schedule", "/schedules/exchange-rates", func(tb *tab) {
			tb.click("Change")
			tb.waitFor(`document.querySelector("[name=spec]") !== null`)
			tb.fill("spec", "*/20 * * * *")
			tb.evaluate(`[...document.querySelectorAll("main form, dialog[open] form")].flatMap(f => [...f.querySelectorAll("button")]).find(b => b.textContent.trim().startsWith("Preview")).click()`, nil)
			tb.waitFor(`document.body.innerText.includes("*/20") || [...document.querySelectorAll("[name=spec]")].some(e => e.value.includes("*/20"))`)
			tb.waitFor(`[...document.querySelectorAll("form[method=post] button")].some(b => b.checkVisibility() && /Save|Change/.test(b.textContent))`)
			tb.evaluate(`[...document.querySelectorAll("form[method=post] button")].find(b => b.checkVisibility() && /Save|Change/.test(b.textContent)).click()`, nil)
			tb.waitFor(`document.querySelector("main")?.innerText.includes("schedule was changed")`)
		}, `SELECT spec = '*/20 * * * *' FROM pgqueue.schedules WHERE name = 'exchange-rates'`},
		{"delete schedule", "/schedules/stock", func(tb *tab) { tb.opens("Delete"); tb.submit("deleted") }, `SELECT NOT EXISTS (SELECT FROM pgqueue.schedules WHERE name = 'stock')`},
		{"bulk retry of a group", "/attention", func(tb *tab) {
			tb.opens("Retry these")
			tb.evaluate(`document.querySelector("dialog[open] form[method=post] button.primary").click()`, nil)
			tb.waitFor(`document.querySelector("main .badge[data-state=succeeded], main .notice[data-kind=success]") !== null && location.pathname.includes("/operations/")`)
		}, `SELECT count(*) = 0 FROM pgqueue.history WHERE queue = 'mail' AND state = 'dead' AND id <> 7004`},
		{"bulk cancel of a selection", "/jobs?state=pending&queue=mail", func(tb *tab) {
			tb.waitFor(`document.querySelectorAll("main tbody input[type=checkbox]").length > 3`)
			tb.evaluate(`[...document.querySelectorAll("main tbody input[type=checkbox]")].slice(0, 3).forEach(box => box.click())`, nil)
			tb.evaluate(`document.querySelector(".selection button[value=cancel]").click()`, nil)
			tb.waitFor(`document.querySelector("form[method=post] [name=operation]") !== null`)
			tb.evaluate(`document.querySelector("form[method=post] button.primary, form[method=post] button.danger").click()`, nil)
			tb.waitFor(`location.pathname.includes("/operations/") && document.querySelector("main .notice[data-kind=success]") !== null`)
		}, `SELECT bool_or(job_count = 3) FROM pgqueue.audit WHERE action = 'cancel'`},
		{"bulk delete of all that match", "/jobs?state=dead&queue=billing", func(tb *tab) {
			tb.click("With all that match")
			tb.click("Delete …")
			tb.waitFor(`document.querySelector("[name=sure]") !== null`)
			tb.fill("sure", "yes")
			tb.evaluate(`document.querySelector("form[method=post] button.danger").click()`, nil)
			tb.waitFor(`location.pathname.includes("/operations/") && document.querySelector("main .notice[data-kind=success]") !== null`)
		}, `SELECT NOT EXISTS (SELECT FROM pgqueue.history WHERE state = 'dead' AND queue = 'billing')`},
	}
}

// Every action, as a user does it, at both widths: what it says, what is in the database, and who is in the audit log.
func TestActions(t *testing.T) {
	for size := range widths {
		t.Run(size, func(t *testing.T) {
			s := newSite(t)
			s.shop(t)
			tb := s.open(t, "olga", size)
			for _, step := range steps() {
				before := one[int](t, s, `SELECT count(*)::int FROM pgqueue.audit WHERE actor = 'olga' AND via = 'console'`)
				tb.t = t
				tb.goTo(step.path)
				tb.waitFor(`document.documentElement.dataset.ready !== undefined`)
				step.do(tb)
				if !one[bool](t, s, step.proof) {
					t.Errorf("%s: afterwards this is false: %s", step.name, step.proof)
				}
				if after := one[int](t, s, `SELECT count(*)::int FROM pgqueue.audit WHERE actor = 'olga' AND via = 'console'`); after <= before {
					t.Errorf("%s is not in the audit log", step.name)
				}
			}
		})
	}
}

// A viewer sees everything and is offered nothing; what he asks for all the same is refused.
func TestAViewerIsOfferedNoAction(t *testing.T) {
	s := newSite(t)
	s.shop(t)
	tb := s.open(t, "vera", "desk")
	for name, path := range screens() {
		if strings.Contains(path, "/confirm") {
			continue
		}
		tb.goTo(path)
		var offered []string
		tb.evaluate(`[...document.querySelectorAll("form[method=post], a[data-dialog]")].map(e => e.outerHTML.slice(0, 200))`, &offered)
		if len(offered) > 0 {
			t.Errorf("%s offers a viewer %q", name, offered)
		}
	}
	tb.expect("403")
	tb.run(chromedp.Navigate(s.URL + s.prefix + "/jobs/7001/confirm/retry"))
	if text := tb.text("main"); !strings.Contains(text, "operator") {
		t.Errorf("a viewer who asks for an action reads %q", text)
	}
}
