package console

import (
	"net/http"
	"testing"
	"time"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

func TestTheOverviewOfNothing(t *testing.T) {
	t.Parallel()
	c := newConsole(t, pgqueuetest.New(t))
	page := c.as(Viewer).get("/").want(t, http.StatusOK).body
	requireText(t, page, "No queue holds anything yet", "The last 5 min")
	refuseText(t, page, "No live worker")
}

// What needs somebody stands first, with the page that says more.
func TestTheOverviewSaysWhatNeedsAttention(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	c := newConsole(t, db)
	runSQL(t, db.Pool, `INSERT INTO pgqueue.jobs (queue, kind, run_at) VALUES ('unserved', 'k', now() - interval '1 h'), ('late', 'known', now() - interval '10 min'),
		('strange', 'unknown', now() - interval '1 s'), ('held', 'k', now() - interval '1 h'), ('fine', 'known', now())`)
	runSQL(t, db.Pool, `INSERT INTO pgqueue.jobs (queue, kind, state, attempt, claimed_at, lease_expires_at) VALUES ('late', 'known', 'running', 1, now() - interval '1 h', now() - interval '1 min')`)
	runSQL(t, db.Pool, `INSERT INTO pgqueue.workers (id, host, pid, version, started_at, seen_at, heartbeat_every, stopping, queues, kinds) VALUES
		('alive', 'h', 1, 'v', now(), now(), interval '10 s', false, '{"late": {"workers": 5, "in_flight": 2, "stuck": 1}, "strange": {"workers": 5}, "fine": {"workers": 5}, "held": {"workers": 1}}', '{"known": {}, "k": {}}'),
		('silent', 'h', 2, 'v', now() - interval '30 min', now() - interval '20 min', interval '10 s', false, '{"late": {"workers": 5}}', '{"known": {}}')`)
	deadJobs(t, db, 1_000, 3, "dead", "late", "known", "timeout")
	if err := c.console.inspector.PauseQueue(t.Context(), "held", "the relay is down"); err != nil {
		t.Fatal(err)
	}
	if err := c.console.inspector.PauseKind(t.Context(), pgqueue.KindPause{Kind: "slow", Until: time.Now().Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	page := c.get("/").want(t, http.StatusOK).body
	requireText(t, page,
		"No live worker serves queue “unserved”; 1 job is due, the first for 1 h", "Queue “late” is behind: 1 job is due, the first for 10 min",
		"Jobs of kind “unknown” are due in queue “strange”, and no live worker has a handler for it", "Queue “held” is paused (the relay is down); 1 job is due",
		"1 lease of queue “late” ran out", "3 jobs are dead in queue “late”", "Worker “silent” went silent 20 min ago", "Worker “alive” has 1 handler that does not end",
		"Kind “slow” is paused everywhere until", "timeout", `href="/jobs/1003"`, "2 of 16 slots busy",
	)
	refuseText(t, page, "queue “fine”", "No live worker process")
}

// Several who look share one reading.
func TestTheOverviewIsReadOnceForAll(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	pool := watch(t, db)
	c := newConsole(t, db, onPool(pool.Pool))
	jobIn(t, db.Pool, 1, pgqueue.JobPending)
	c.get("/").want(t, http.StatusOK)
	c.console.overviews.byWindow[pgqueue.DefaultActivityWindow].at = time.Now().Add(time.Hour) // not old, however slow the machine is
	pool.take()
	for range 5 {
		c.get("/").want(t, http.StatusOK)
	}
	if sent := pool.take(); len(sent) != 0 {
		t.Errorf("%d statements: %q", len(sent), sent)
	}
}
