package console

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// Without scripts the page has the numbers of the last hour, and says what is missing.
func TestPerformanceIsReadWithoutScripts(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	seedHistory(t, db, 300)
	ui := newConsole(t, db).as(Viewer)
	page := ui.get("/performance")
	if page.status != http.StatusOK {
		t.Fatalf("status %d: %s", page.status, page.body)
	}
	for _, want := range []string{
		`<td class="num" data-label="Wait p95">250 ms</td>`, `<td class="num" data-label="Run p50">1.5 s</td>`, "All queues", ">odd</a>", "<noscript>",
		`data-source="/api/samples?limit=100000&amp;window=24h"`, `performance.js"></script>`,
	} {
		if !strings.Contains(page.body, want) {
			t.Errorf("the page has no %s", want)
		}
	}
	one := ui.get("/performance?queue=odd&kind=a%26b&window=90m&limit=123")
	for _, want := range []string{`value="odd"`, `value="a&amp;b"`, `<option value="1h30m" selected>`, `<option value="123" selected>`, `kind=a%26b`} {
		if !strings.Contains(one.body, want) {
			t.Errorf("the page of one queue has no %s", want)
		}
	}
	if strings.Contains(one.body, ">even</a>") {
		t.Error("the page of one queue has another")
	}
	if page := ui.get("/performance?window=nonsense"); page.status != http.StatusBadRequest {
		t.Errorf("status %d for a window that is none", page.status)
	}
}

func TestPerformanceOfNothing(t *testing.T) {
	t.Parallel()
	if page := newConsole(t, pgqueuetest.New(t)).get("/performance"); page.status != http.StatusOK || !strings.Contains(page.body, "No job ended in the last hour.") {
		t.Errorf("status %d: %s", page.status, page.body)
	}
}

// The page about the three things called worker says what is true of this installation.
func TestTheWorkersAreExplainedOnLiveData(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	ui := newConsole(t, db).as(Viewer)
	shows := func(want ...string) {
		t.Helper()
		page := ui.get("/workers/explained")
		for _, one := range want {
			if page.status != http.StatusOK || !strings.Contains(page.body, one) {
				t.Errorf("status %d, and no %s", page.status, one)
			}
		}
	}
	shows(`data-cadence="none"`, "data-live", `explained.js"></script>`)
	seedHistory(t, db, 50)
	shows(`data-cadence="one-shot"`, "2 came, drained and left")
	_, err := db.Pool.Exec(t.Context(), `SELECT `+quotedName(db.Schema)+`.heartbeat('w1', 'host', 1, '', now(), interval '1 min', false,
		'{"odd": {"workers": 7, "in_flight": 2, "buffered": 1}}', '{}')`)
	if err != nil {
		t.Fatal(err)
	}
	shows(`data-cadence="both"`, "2 of 7 places", "1 process stays")
}

func TestCadence(t *testing.T) {
	t.Parallel()
	at := func(minute int) time.Time { return time.Date(2026, 1, 2, 3, minute, 0, 0, time.UTC) }
	resident := []pgqueue.WorkerReport{{ID: "a", Alive: true}, {ID: "gone"}}
	for name, test := range map[string]struct {
		reports   []pgqueue.WorkerReport
		claimants []claimant
		kind      string
		oneShot   int
		between   time.Duration
	}{
		"nothing":                 {kind: "none"},
		"only residents":          {reports: resident, claimants: []claimant{{ID: "a", First: at(1)}, {ID: "gone", First: at(0)}}, kind: "resident"},
		"a resident, and no work": {reports: resident, kind: "resident"},
		"every five minutes":      {claimants: []claimant{{ID: "d", First: at(15)}, {ID: "c", First: at(10)}, {ID: "b", First: at(5)}}, kind: "one-shot", oneShot: 3, between: 5 * time.Minute},
		"once":                    {claimants: []claimant{{ID: "d", First: at(15)}}, kind: "one-shot", oneShot: 1},
		"both":                    {reports: resident, claimants: []claimant{{ID: "d", First: at(15)}, {ID: "a", First: at(0)}}, kind: "both", oneShot: 1},
	} {
		got := cadenceOf(test.reports, test.claimants)
		if got.Kind != test.kind || got.OneShot != test.oneShot || got.Between != test.between {
			t.Errorf("%s: %s, %d one-shot, %s between", name, got.Kind, got.OneShot, got.Between)
		}
	}
}
