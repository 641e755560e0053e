package console

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// The last sentence of C137: who has left is not worked for any more.
func TestC137_ABrowserThatLeavesCancelsTheQuery(t *testing.T) {
	db := pgqueuetest.New(t)
	c := newConsole(t, db)
	// Longer than the test waits, and not so long that its server could not be closed where nothing is cancelled.
	const query = "SELECT pg_sleep(90) /* for the browser */"
	c.add(route{http.MethodGet, "/x/asks", Viewer, func(r *request) error {
		_, err := r.console.config.Pool.Exec(r.Context(), query)
		return err
	}})
	c.add(route{http.MethodPost, "/x/acts", Operator, func(r *request) error {
		_, err := r.console.config.Pool.Exec(r.Context(), query)
		return err
	}})
	running := func() (n int) {
		if err := db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE query = $1 AND state = 'active' AND datname = current_database()`, query).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	await := func(what string, within time.Duration, want int) time.Duration {
		begun := time.Now()
		for running() != want {
			if time.Since(begun) > within {
				t.Fatalf("%s: not within %s", what, within)
			}
			<-time.After(10 * time.Millisecond)
		}
		return time.Since(begun)
	}
	for name, r := range map[string]*http.Request{"GET": c.request(http.MethodGet, "/x/asks", nil), "POST": c.postRequest("/x/acts", nil)} {
		ctx, leave := context.WithCancel(t.Context())
		left := make(chan struct{})
		go func() {
			defer close(left)
			response, err := http.DefaultClient.Do(r.WithContext(ctx))
			if err == nil {
				response.Body.Close()
			}
		}()
		await(name+": the query runs", waitAtMost, 1)
		leave()
		t.Logf("%s: cancelled after %s", name, await(name+": the query is cancelled", waitAtMost, 0))
		<-left
	}
	c.get("/").want(t, http.StatusOK) // the pool is as good as before
}
