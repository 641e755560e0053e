package console

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// Where a table is locked, all pages hang that read it. The page that says so does not wait behind them: they leave it a connection,
// and those for which there is no turn are told so.
func TestTheDatabasePageDoesNotWaitBehindOthers(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	config := db.Pool.Config()
	config.MaxConns = 4
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	c := newConsole(t, db, func(config *Config) { config.Pool, config.Logger = pool, discard() })
	c.console.turns.wait = 100 * time.Millisecond
	tx, err := db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), `LOCK TABLE pgqueue.jobs`); err != nil {
		t.Fatal(err)
	}
	const hanging = 8
	answers := make(chan *reply, hanging)
	for range hanging {
		go func() { answers <- c.get("/jobs") }()
	}
	for range hanging - 3 {
		if reply := <-answers; reply.status != http.StatusServiceUnavailable || !strings.Contains(reply.body, "wait for the database already") {
			t.Errorf("status %d: %s", reply.status, reply.short())
		}
	}
	c.get("/database").want(t, http.StatusOK)
	if len(answers) != 0 {
		t.Error("the others had ended")
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if reply := <-answers; reply.status != http.StatusOK {
			t.Errorf("status %d: %s", reply.status, reply.short())
		}
	}
	c.get("/jobs").want(t, http.StatusOK) // the turns were given back
}

// A refresh that nobody waits for is given up sooner than a page, so that it does not hold a connection for the whole time.
func TestARefreshHasLessTime(t *testing.T) {
	t.Parallel()
	c := newConsole(t, pgqueuetest.New(t), func(config *Config) { config.Logger = discard() })
	c.console.turns.refresh = 50 * time.Millisecond
	c.add(route{http.MethodGet, "/x/page", Viewer, func(r *request) error {
		if _, err := r.console.config.Pool.Exec(r.Context(), "SELECT pg_sleep(0.5)"); err != nil {
			return err
		}
		return r.json(http.StatusOK, "done")
	}})
	c.get("/x/page").want(t, http.StatusOK)
	c.partial("/x/page").want(t, http.StatusOK) // a dialog
	r := c.request(http.MethodGet, "/x/page", nil)
	r.Header.Set("HX-Request", "true")
	r.Header.Set("If-None-Match", `"x"`)
	c.send(r).want(t, http.StatusGatewayTimeout)
}

// A page has one address, and a prefix that is refused is told why.
func TestOneAddress(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	c := newConsole(t, db)
	jobIn(t, db.Pool, 17, "pending")
	for path, status := range map[string]int{
		"/jobs/17": 200, "/jobs/017": 404, "/jobs/+17": 404, "/jobs/%31%37": 404, "/jobs/1%37": 404, "/%6aobs/17": 404, "/queues/a%2Db": 404, "/queues/a%2Fb": 200, "/queues/%C3%A4": 200,
	} {
		if reply := c.get(path); reply.status != status {
			t.Errorf("%s: status %d, want %d", path, reply.status, status)
		}
	}
	for prefix, says := range map[string]string{
		"a": "begin with a slash", "/a/": "not end with one", "/": "not end with one", "/a/../b": `written plainly`, "/a//b": `"/a/b"`, "/a/.": "written plainly", "/ä": "ASCII",
	} {
		if err := checkPrefix(prefix); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("prefix %q: %v", prefix, err)
		}
	}
}
