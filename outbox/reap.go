package outbox

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/reaper"
)

// Recover takes back at most limit stale claims, in one statement: pending again, or dead if the budget is spent. Any
// number of processes may do so at once, and each lapse is counted by one of them. What this process is working on itself is
// left alone, however old.
func (q *Queue[P, R]) Recover(ctx context.Context, limit int) (reaper.Recovered, error) {
	if limit < 1 {
		return reaper.Recovered{}, q.wrap("recovery", errors.New("the limit must be at least 1"))
	}
	given := args{"limit": int64(limit), "lease_us": q.config.Lease.Microseconds(), "max": int64(q.config.MaxAttempts)}
	own := q.held.tokens(2 * q.config.Lease)
	maps.Copy(given, q.claimed(own))
	name := "reap"
	if except := q.suspended.keys(); except != nil {
		name = "reap_but"
		q.addKeys(given, "except_", except)
	}
	recovered, err := q.reap(ctx, name, given)
	if refused(err) {
		recovered, err = q.reapCarefully(ctx, given, limit, err)
	}
	return recovered, q.wrap("recovery", err)
}

func (q *Queue[P, R]) reap(ctx context.Context, name string, given args) (recovered reaper.Recovered, err error) {
	err = q.do(ctx, name, given, func(rows pgx.Rows) error {
		recovered = reaper.Recovered{}
		var fate string
		_, err := pgx.ForEachRow(rows, []any{&fate}, func() error {
			switch fate {
			case "pending":
				recovered.Requeued++
			case "dead":
				recovered.Dead++
			default:
				return fmt.Errorf("unknown fate %q", fate)
			}
			return nil
		})
		return err
	})
	if err != nil {
		return reaper.Recovered{}, err
	}
	return recovered, nil
}

// reapCarefully takes rows back one by one, after a statement that one of them made fail.
func (q *Queue[P, R]) reapCarefully(ctx context.Context, given args, limit int, cause error) (total reaper.Recovered, err error) {
	if ok, suppressed := q.complaints.next("reap", time.Now()); ok {
		q.log.WarnContext(ctx, "outbox: a row refuses to be taken back; doing it one by one", brief(cause), suppressed)
	}
	keys, err := q.peek(ctx, "peek_stale", given, min(limit, carefulRows))
	if err != nil {
		return total, err
	}
	for _, key := range keys {
		one := maps.Clone(given)
		one["limit"] = int64(1)
		q.addKey(one, key)
		recovered, err := q.reap(ctx, "reap_one", one)
		switch {
		case refused(err):
			q.counts.rejected.Add(1)
			q.suspend(ctx, key, err)
		case err != nil:
			return total, err
		}
		total.Requeued += recovered.Requeued
		total.Dead += recovered.Dead
	}
	return total, nil
}

// Ping tells whether the database answers. It takes nothing.
func (q *Queue[P, R]) Ping(ctx context.Context) error { return q.wrap("ping", q.pool.Ping(ctx)) }

// heldRows are the claims that this process has made and not ended. The reaper leaves them alone: what this process works on,
// only another process may find stale. A claim of which nothing was heard for two leases was given up by the runner, and does
// not count any more.
type heldRows struct {
	mu   sync.Mutex
	rows map[*claimToken]time.Time
}

func (h *heldRows) take(t *claimToken) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.rows == nil {
		h.rows = map[*claimToken]time.Time{}
	}
	h.rows[t] = time.Now()
}

func (h *heldRows) drop(t *claimToken) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.rows, t)
}

// tokens returns those that are held.
func (h *heldRows) tokens(longest time.Duration) (held []*claimToken) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for t, since := range h.rows {
		if time.Since(since) > longest {
			delete(h.rows, t)
			continue
		}
		held = append(held, t)
	}
	return held
}
