package browsertest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
)

// press presses the button of the mouse at one point and lets it go at another.
func press(fromX, fromY, toX, toY float64) chromedp.Tasks {
	mouse := func(kind input.MouseType, x, y float64) chromedp.Action {
		return input.DispatchMouseEvent(kind, x, y).WithButton(input.Left).WithClickCount(1)
	}
	return chromedp.Tasks{mouse(input.MousePressed, fromX, fromY), input.DispatchMouseEvent(input.MouseMoved, toX, toY), mouse(input.MouseReleased, toX, toY)}
}

// What somebody has typed in a dialog is not lost by a slip: selecting it and letting go outside is no click there, and closing asks.
func TestADialogKeepsWhatIsTyped(t *testing.T) {
	s := newSite(t)
	s.shop(t)
	tb := s.open(t, "olga", "desk")
	tb.goTo("/jobs/7002")
	tb.waitFor(`document.documentElement.dataset.ready !== undefined`)
	tb.evaluate(`window.asked = 0; window.confirm = () => { window.asked++; return window.mayGo === true; }`, nil)
	asked := func(times int, when string) {
		t.Helper()
		var n int
		var open bool
		tb.evaluate(`window.asked`, &n)
		tb.evaluate(`document.querySelector("dialog[open]") !== null`, &open)
		if n != times || !open {
			t.Fatalf("%s: asked %d times, want %d; open: %v", when, n, times, open)
		}
	}
	tb.opens("Edit and retry")
	var at []float64
	tb.evaluate(`(() => { const r = document.querySelector("dialog[open] textarea").getBoundingClientRect(); return [r.left + 40, r.top + 20]; })()`, &at)
	tb.run(press(at[0], at[1], 5, 500))
	asked(0, "the pointer was let go outside")
	tb.fill("payload", `{"order_id": 5}`)
	tb.run(press(at[0], at[1], 5, 500))
	asked(0, "the pointer was let go outside, with another text")
	tb.run(press(5, 500, 5, 500))
	asked(1, "a click beside")
	tb.evaluate(`document.querySelector("dialog[open] .dialog-close").click()`, nil)
	asked(2, "the cross")
	tb.evaluate(`document.querySelector("dialog[open] [data-close]").click()`, nil)
	asked(3, "Do nothing")
	tb.run(chromedp.KeyEvent("\x1b"))
	asked(4, "Escape")
	tb.evaluate(`window.mayGo = true`, nil)
	tb.run(press(5, 500, 5, 500))
	tb.waitFor(`document.querySelector("dialog[open]") === null && window.asked === 5`)
	tb.opens("Edit and retry")
	tb.run(press(5, 500, 5, 500))
	tb.waitFor(`document.querySelector("dialog[open]") === null && window.asked === 5`) // nothing was typed
}

// A link to the console from a chat or a mail, which are other sites, leaves the forms of this browser's open pages as good as they were.
func TestALinkFromElsewhereKeepsForms(t *testing.T) {
	s := newSite(t)
	s.shop(t)
	confirm := s.URL + s.prefix + "/jobs/7001/confirm/retry"
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<!doctype html><title>chat</title><link rel="icon" href="data:,"><a href="%s">look</a>`, confirm)
	}))
	t.Cleanup(elsewhere.Close)
	tb := s.open(t, "olga", "desk")
	tb.goTo("/jobs/7001/confirm/retry")
	const token = `document.querySelector("main [name=csrf]").value`
	var before, after string
	tb.evaluate(token, &before)
	tb.run(chromedp.Navigate(strings.Replace(elsewhere.URL, "127.0.0.1", "localhost", 1)))
	tb.evaluate(`document.querySelector("a").click()`, nil)
	tb.waitFor(fmt.Sprintf(`location.href === %q && document.readyState === "complete"`, confirm))
	if tb.evaluate(token, &after); after != before {
		t.Errorf("the token is another one behind the link")
	}
	tb.evaluate(fmt.Sprintf(`document.querySelector("main [name=csrf]").value = %q`, before), nil)
	tb.submit("retried")
}

// On a phone as on a tablet one sees that updates stand still, and why: nothing hides or covers those words.
func TestWhatStandsStillSaysSo(t *testing.T) {
	s := newSite(t)
	tb := s.open(t, "olga", "phone")
	for _, width := range []int64{360, 390, 640, 780, 1000, 1440} {
		tb.run(emulation.SetDeviceMetricsOverride(width, 844, 1, width < 500))
		tb.goTo("/")
		tb.waitFor(`document.documentElement.dataset.ready !== undefined`)
		tb.evaluate(`sessionStorage.getItem("pgqueue.paused") === "yes" || document.getElementById("live").click()`, nil)
		for state, words := range map[string]string{"paused": "Paused", "failing": "No answer for 3600 s", "failing ": "Signed out"} {
			var trouble string
			tb.evaluate(fmt.Sprintf(`(() => {
				const button = document.getElementById("live"), text = button.querySelector(".text");
				button.dataset.state = %q; text.textContent = %q;
				const box = text.getBoundingClientRect();
				if (!text.checkVisibility() || box.width < 20) return "they are hidden";
				if (document.documentElement.scrollWidth > window.innerWidth || box.left < 0 || box.right > window.innerWidth) return "they do not fit";
				const over = [...document.querySelectorAll("header .brand, header .who, header .menu a, header .tool")].filter(e => e !== button && e.checkVisibility()).find(e => {
					const other = e.getBoundingClientRect();
					return other.left < box.right && other.right > box.left && other.top < box.bottom && other.bottom > box.top;
				});
				return over === undefined ? "" : "they lie over " + over.textContent;
			})()`, strings.TrimSpace(state), words), &trouble)
			if trouble != "" {
				t.Errorf("%q at %d px: %s", words, width, trouble)
			}
		}
	}
}

// What an action has said is said once: it stays while the page is kept up to date, and neither a reload nor a bookmark repeats it.
func TestWhatWasDoneIsSaidOnce(t *testing.T) {
	s := newSite(t)
	s.shop(t)
	tb := s.open(t, "olga", "desk")
	tb.goTo("/jobs?state=pending&done=retry")
	tb.waitFor(`document.documentElement.dataset.ready !== undefined && location.search === "?state=pending"`)
	one[int64](t, s, `INSERT INTO pgqueue.jobs (id, queue, kind) VALUES (9002, 'mail', 'send_receipt') RETURNING id`)
	tb.waitFor(`document.querySelector('main a[href$="/jobs/9002"]') !== null`)
	if text := tb.text("main .results"); text != "The job was retried." {
		t.Errorf("after a refresh it says %q", text)
	}
	tb.run(chromedp.Reload())
	tb.waitFor(`document.documentElement.dataset.ready !== undefined`)
	var said bool
	if tb.evaluate(`document.querySelector("main .results").textContent.trim() !== ""`, &said); said {
		t.Error("a reload says it again")
	}
}

// A tap shows when "5 min ago" was, and a refresh does not take it away.
func TestATapShowsTheInstant(t *testing.T) {
	s := newSite(t)
	s.shop(t)
	tb := s.open(t, "olga", "phone")
	tb.goTo("/jobs?state=pending")
	tb.waitFor(`document.documentElement.dataset.ready !== undefined && document.querySelector("#jobs time[title]") !== null`)
	tb.evaluate(`document.querySelector("#jobs time[title]").click()`, nil)
	const shown = `[...document.querySelectorAll("#jobs time")].filter(e => getComputedStyle(e, "::after").content.includes("title") || getComputedStyle(e, "::after").content.includes("UTC")).length`
	var before, after int
	tb.evaluate(shown, &before)
	one[int64](t, s, `INSERT INTO pgqueue.jobs (id, queue, kind) VALUES (9002, 'mail', 'send_receipt') RETURNING id`)
	tb.waitFor(`document.querySelector('main a[href$="/jobs/9002"]') !== null`)
	tb.evaluate(shown, &after)
	if before != 1 || after != 1 {
		t.Errorf("%d instants are shown after a tap, %d after a refresh", before, after)
	}
}
