package console

import (
	"net/http"
	"strings"
	"testing"

	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// report lets a worker report itself, last seen so many seconds ago.
func report(t testing.TB, db *pgqueuetest.DB, id string, stopping bool, silent int) {
	t.Helper()
	runSQL(t, db.Pool, `SELECT pgqueue.heartbeat($1, 'host-1', 4711, 'shop 2.3.1', now() - interval '1 h', interval '5 s', $2,
		'{"mail": {"workers": 5, "in_flight": 3, "buffered": 2, "stuck": 1}, "bulk": {"workers": 2, "in_flight": 1, "paused_until": "2998-01-01T00:00:00Z"}}',
		'{"send": {"workers": 2, "in_flight": {"mail": 2}}, "old": {"alias_of": "send"}}')`, id, stopping)
	runSQL(t, db.Pool, `UPDATE pgqueue.workers SET seen_at = now() - $2::int * interval '1 s' WHERE id = $1`, id, silent)
}

// holds makes a job that a worker has claimed.
func holds(t testing.TB, db *pgqueuetest.DB, worker string, leaseLeft int) int64 {
	t.Helper()
	return valueOf[int64](t, db.Pool, `INSERT INTO pgqueue.jobs (queue, kind, payload, state, attempt, claimed_at, claimed_generation, claimed_by, lease_expires_at)
		VALUES ('mail', 'send', '{}', 'running', 1, now(), 1, $1, now() + $2::int * interval '1 s') RETURNING id`, worker, leaseLeft)
}

func TestTheWorkersScreen(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	c := newConsole(t, db)
	c.get("/workers").want(t, http.StatusOK).tells(t, "No worker has reported itself")
	report(t, db, "alive-1", false, 2)
	report(t, db, "stopping-1", true, 2)
	report(t, db, "gone-1", false, 600)
	page := c.get("/workers").want(t, http.StatusOK).tells(t, "Alive 1", "Stopping 1", "Gone 1", "8 of 14", "Stuck 2")
	for name, words := range map[string]string{"alive-1": "alive 2 s ago", "stopping-1": "stopping", "gone-1": "gone 10 min ago"} {
		if row := page.row(t, name); !strings.Contains(row, words) || !strings.Contains(row, "host-1, process 4711") || !strings.HasSuffix(row, "shop 2.3.1 4 7 1 bulk, mail 2") {
			t.Errorf("%s: %q", name, row)
		}
	}
	c.get("/workers?state=gone").want(t, http.StatusOK).tells(t, "1 of 1", "gone-1").conceals(t, "stopping-1")
	c.get("/workers?queue=none").want(t, http.StatusOK).tells(t, "No worker of the last hour matches")
	c.get("/workers?q=ALIVE&queue=mail").want(t, http.StatusOK).tells(t, "alive-1").conceals(t, "gone-1")

	alive, gone := holds(t, db, "alive-1", 20), holds(t, db, "gone-1", -30)
	page = c.get("/workers/alive-1").want(t, http.StatusOK).tells(t, "alive", "every 5.0 s", "bulk 1 2 0 0 until", "mail 3 5 2 1 no", "send 2 2", "old 0 as many as there are slots send")
	if row := page.row(t, valueOf[string](t, db.Pool, `SELECT $1::bigint::text`, alive)); !strings.Contains(row, "send mail 1 of 3") || strings.Contains(row, "expired") {
		t.Errorf("what it holds: %q", row)
	}
	page = c.get("/workers/gone-1").want(t, http.StatusOK).tells(t, "taken for dead after 15 s of silence")
	if row := page.row(t, valueOf[string](t, db.Pool, `SELECT $1::bigint::text`, gone)); !strings.Contains(row, "expired") {
		t.Errorf("what it held: %q", row)
	}
	holds(t, db, "forgotten", -3600)
	c.get("/workers/forgotten").want(t, http.StatusOK).tells(t, "It is not in the list any more")
	c.get("/workers/never").want(t, http.StatusNotFound)
	c.as(0).get("/workers").want(t, http.StatusUnauthorized)
	c.as(Viewer).get("/workers/alive-1").want(t, http.StatusOK)
}

func TestManyWorkersArePaged(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	c := newConsole(t, db)
	runSQL(t, db.Pool, `SELECT pgqueue.heartbeat('w-' || g, 'h', 1, '', now(), interval '5 s', false, '{"q": {"workers": 1}}', '{}') FROM generate_series(1, 250) g`)
	seen, path := map[string]bool{}, "/workers?queue=q"
	for pages := 0; path != "" && pages < 10; pages++ {
		page := c.get(path).want(t, http.StatusOK).tells(t, "Alive 250", "of 250")
		for _, part := range strings.Split(page.body, `<a class="mono" href="/workers/`)[1:] {
			id, _, _ := strings.Cut(part, `"`)
			seen[id] = true
		}
		if path = ""; strings.Contains(page.body, ">Next page<") {
			path = c.link(page, "Next page")
		}
	}
	if len(seen) != 250 {
		t.Errorf("%d workers on all pages, want 250", len(seen))
	}
}

func TestC134_HostileNamesOfWorkers(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	c := newConsole(t, db)
	for _, name := range hostileNames() {
		runSQL(t, db.Pool, `SELECT pgqueue.heartbeat($1, $1, 1, $1, now(), interval '5 s', false, jsonb_build_object($1::text, '{"workers": 1}'::jsonb), jsonb_build_object($1::text, '{}'::jsonb))`, name)
	}
	list := c.get("/workers").want(t, http.StatusOK)
	for _, name := range hostileNames() {
		path := "/workers/" + segment(name)
		if !list.linksTo(path) {
			t.Errorf("the list has no link to %q, which is %s", name, path)
		}
		page := c.get(path).want(t, http.StatusOK).tells(t, strings.Join(strings.Fields("Worker "+name), " "))
		for _, e := range append(elements(page.body), elements(list.body)...) {
			if e.name == "img" || strings.Contains(e.shape(), " on") {
				t.Errorf("%q makes %s", name, e.shape())
			}
		}
	}
}
