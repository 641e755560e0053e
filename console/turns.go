package console

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

const (
	// refreshTimeout is how long a page that browsers keep up to date by themselves may take anew: nobody waits for it, and the next
	// one comes by itself.
	refreshTimeout = 5 * time.Second
	// turnTimeout is how long a request waits until one of those before it has ended.
	turnTimeout = 5 * time.Second
)

// turns bound how many requests ask the database at once: one connection fewer than the pool has. The one that is left is for the
// page about the database, which is looked at when all else hangs. What an application does with the same pool is not counted.
type turns struct {
	taken   chan struct{}
	refresh time.Duration // refreshTimeout
	wait    time.Duration // turnTimeout
}

func newTurns(connections int32) turns {
	return turns{taken: make(chan struct{}, max(1, connections-1)), refresh: refreshTimeout, wait: turnTimeout}
}

// needsNone are the pages that are served whatever the others wait for.
func (t turns) needsNone(route route) bool { return route.path == "/database" }

// take waits for a turn. What it returns gives the turn back.
func (t turns) take(ctx context.Context) (done func(), err error) {
	done = func() { <-t.taken }
	select {
	case t.taken <- struct{}{}:
		return done, nil
	default:
	}
	timer := time.NewTimer(t.wait)
	defer timer.Stop()
	select {
	case t.taken <- struct{}{}:
		return done, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for a turn: %w", context.Cause(ctx))
	case <-timer.C:
		return nil, &httpError{
			status: http.StatusServiceUnavailable,
			text:   fmt.Sprintf("%d requests wait for the database already. Nothing was changed. Try again, or look at the database page, which is served all the same.", cap(t.taken)),
		}
	}
}

// timeout is how long the answer to a request may take: less where a page is brought up to date by itself.
func (r *request) timeout() time.Duration {
	if r.partial() && r.Header.Get("If-None-Match") != "" {
		return min(r.console.config.Timeout, r.console.turns.refresh)
	}
	return r.console.config.Timeout
}

// answer takes its turn and does what the route does.
func (r *request) answer(route route) error {
	if err := r.admit(route); err != nil {
		return r.jobFormAgain(route, err)
	}
	r.unmark(route)
	if !r.console.turns.needsNone(route) {
		done, err := r.console.turns.take(r.Context())
		if err != nil {
			return err
		}
		defer done()
	}
	return route.handle(r)
}
