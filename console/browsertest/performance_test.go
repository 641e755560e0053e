package browsertest

import (
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/chromedp"
)

// samples is how many attempts the performance screen reads at most; the test has as many.
const samples = 1_000_000

// million fills history with a million attempts of the last hours.
func (s *site) million(t *testing.T) {
	t.Helper()
	if _, err := s.db.Pool.Exec(t.Context(), `INSERT INTO `+s.db.Schema+`.history (id, queue, kind, state, claimed_by, run_at, created_at, claimed_at, finished_at, day, attempt, generation, error_count, priority,
			failures, max_attempts, payload, metadata, tags)
		SELECT n, 'q' || n % 5, 'kind-' || n % 7, 'succeeded', 'w', f.at - f.run - f.wait, f.at - f.run - f.wait, f.at - f.run, f.at, (now() AT TIME ZONE 'UTC')::date, 1, 1, 0, 1, 0, 3, '{}', '{}', '{}'
		FROM generate_series(1, $1::int) n
		     CROSS JOIN LATERAL (SELECT now() - ($1::int - n) * least(interval '5 ms', (now() - date_trunc('day', now(), 'UTC')) / $1::int) AS at, interval '1 ms' * (1 + abs(hashint4(n)) % 2000) AS run, interval '1 ms' * (abs(hashint4(n + 1)) % 90) AS wait) f`, samples); err != nil {
		t.Fatal(err)
	}
}

// measured reads a number that the page has put into a data attribute.
func (tb *tab) measured(id, name string) int {
	tb.t.Helper()
	var text string
	tb.evaluate(`document.getElementById("`+id+`").dataset["`+name+`"] ?? ""`, &text)
	value, err := strconv.Atoi(text)
	if err != nil {
		tb.t.Fatalf("%s of %s is %q", name, id, text)
	}
	return value
}

// A million samples, on the built assets and under the shipped policy: they are computed in the web worker, the buffer is handed over
// and not copied, the page stays free meanwhile, and a second run reads its bytes again.
func TestAMillionSamplesDoNotHoldUpThePage(t *testing.T) {
	s := newSite(t)
	s.million(t)
	tb := s.open(t, "vera", "desk")
	tb.goTo("/performance?limit=" + strconv.Itoa(samples))
	least := 0
	// A busy machine may take the processor from the browser in the middle of a task: the quietest of some runs is the page's own.
	for run := 1; run <= 4; run++ {
		tb.waitFor(`["done", "error", "empty"].includes(document.getElementById("performance").dataset.state) && document.getElementById("performance").dataset.runs === "` + strconv.Itoa(run) + `"`)
		if got := tb.measured("performance", "samples"); got != samples {
			t.Fatalf("run %d: %d samples, want %d", run, got, samples)
		}
		if size := tb.measured("performance", "bytes"); size < samples*8 {
			t.Fatalf("run %d read %d bytes: no fresh ones", run, size)
		}
		if left := tb.measured("performance", "bytesAfter"); left != 0 {
			t.Fatalf("run %d: the page still has %d bytes of what it handed over", run, left)
		}
		longest := tb.measured("performance", "longestTaskMs")
		t.Logf("run %d: fetched in %d ms, computed in %d ms, longest main-thread task %d ms", run, tb.measured("performance", "fetchMs"), tb.measured("performance", "computeMs"), longest)
		if run == 1 || longest < least {
			least = longest
		}
		if run >= 2 && least <= 50 {
			break
		}
		tb.evaluate(`document.getElementById("again").click()`, nil)
	}
	// The measure itself: a task that is made long is seen.
	var seen bool
	tb.evaluate(`new Promise(done => { new PerformanceObserver(list => done(list.getEntries().some(e => e.duration >= 100))).observe({entryTypes: ["longtask"]});
		setTimeout(() => { const until = performance.now() + 120; while (performance.now() < until); }, 0); setTimeout(() => done(false), 20_000); })`, &seen)
	if !seen {
		t.Error("this browser does not tell of long tasks, so nothing was measured")
	}
	if least > 50 {
		t.Errorf("the page stood still for %d ms at least, want no task above 50 ms", least)
	}
	tb.accessible()
	tb.screenshot("performance-million")
}

// The page of the three workers: the same work on both sides finds the same, and only the main thread's keeps the page from drawing.
func TestTheSameWorkOnBothSides(t *testing.T) {
	s := newSite(t)
	s.shop(t)
	tb := s.open(t, "vera", "desk")
	tb.goTo("/workers/explained")
	tb.waitFor(`document.documentElement.dataset.ready !== undefined && !document.getElementById("comparison").hidden`)
	tb.click("Run both")
	tb.waitFor(`["done", "error"].includes(document.getElementById("comparison").dataset.state)`)
	var state, told string
	tb.evaluate(`document.getElementById("comparison").dataset.state`, &state)
	told = tb.text("#versus")
	if state != "done" {
		t.Fatalf("the comparison ended as %q: %s", state, tb.text("#comparison-status"))
	}
	t.Logf("samples: %s", told)

	picture := filepath.Join(t.TempDir(), "picture.png")
	drawPicture(t, picture)
	tb.evaluate(`document.getElementById("what").value = "picture"; document.getElementById("what").dispatchEvent(new Event("change"))`, nil)
	tb.run(chromedp.SetUploadFiles(`#picture`, []string{picture}, chromedp.ByQuery, chromedp.NodeVisible))
	tb.click("Run both")
	tb.waitFor(`document.getElementById("comparison").dataset.state === "done" && document.getElementById("picture-result").innerText.includes("uminance")`)
	result := tb.text("#picture-result")
	t.Logf("picture: %s", result)
	var nodes []*cdp.Node
	tb.run(chromedp.Nodes(`#picture-result *`, &nodes, chromedp.ByQueryAll))
	if len(nodes) == 0 {
		t.Error("nothing is shown of the picture")
	}
	tb.accessible()
	tb.screenshot("workers-compared")
}

// drawPicture makes a picture of two colours.
func drawPicture(t *testing.T, path string) {
	t.Helper()
	picture := image.NewRGBA(image.Rect(0, 0, 600, 400))
	for y := range 400 {
		for x := range 600 {
			picture.Set(x, y, map[bool]color.RGBA{true: {200, 30, 30, 255}, false: {20, 60, 200, 255}}[x < 400])
		}
	}
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := png.Encode(file, picture); err != nil {
		t.Fatal(err)
	}
}
