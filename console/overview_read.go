package console

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/pgqueue/pgqueue/doctor"
	"github.com/pgqueue/pgqueue/pgqueue"
)

// overviewSeen is how everything stood at a moment. It must not be changed.
type overviewSeen struct {
	at        time.Time
	queues    []pgqueue.QueueStats
	activity  *pgqueue.Activity // nil: it could not be read
	workers   []pgqueue.WorkerReport
	kinds     []pgqueue.KindPause
	unhandled map[string]string
	attention *pgqueue.AttentionReport
	report    *doctor.Report // nil: it could not be read
}

// overviewAge is how old an overview may be. Browsers ask each second, and all who look share one.
const overviewAge = 900 * time.Millisecond

// overviews keeps the latest overview of each window for all who look. The zero value is ready for use, by many goroutines.
type overviews struct {
	mu       sync.Mutex
	byWindow map[time.Duration]*overviewSeen
}

// latest is the overview of a window, read anew if it is old. Those who ask meanwhile wait for the one who reads; if that one leaves, the
// next one reads.
func (o *overviews) latest(r *request, window time.Duration) (*overviewSeen, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if seen := o.byWindow[window]; seen != nil && time.Since(seen.at) < overviewAge {
		return seen, nil
	}
	seen, err := readOverview(r.Context(), r.console, window)
	if err != nil {
		return nil, err
	}
	if o.byWindow == nil {
		o.byWindow = map[time.Duration]*overviewSeen{}
	}
	o.byWindow[window] = seen
	return seen, nil
}

// readOverview reads it: nine statements or ten, each of them bounded. What surrounds the queues may be missing, where the role may not read it,
// or where it takes too long: then the page is shown without it.
func readOverview(ctx context.Context, c *Console, window time.Duration) (*overviewSeen, error) {
	seen := &overviewSeen{at: time.Now()}
	var err error
	if seen.queues, err = c.inspector.Queues(ctx); err != nil {
		return nil, err
	}
	names := make([]string, len(seen.queues))
	for n := range seen.queues {
		names[n] = seen.queues[n].Queue
	}
	for _, part := range []struct {
		name string
		read func() error
	}{
		{"activity", func() (err error) { seen.activity, err = c.inspector.Activity(ctx, window); return err }},
		{"workers", func() (err error) { seen.workers, err = c.inspector.Workers(ctx); return err }},
		{"paused kinds", func() (err error) { seen.kinds, err = c.inspector.PausedKinds(ctx); return err }},
		{"kinds without a handler", func() (err error) { seen.unhandled, err = c.inspector.UnhandledKinds(ctx, names...); return err }},
		{"what failed", func() (err error) { seen.attention, err = c.inspector.Attention(ctx, pgqueue.Filter{}); return err }},
		{"the doctor", func() (err error) { seen.report, err = c.examinations.latest(ctx, c, reportAge); return err }},
	} {
		if err := part.read(); err != nil {
			if ctx.Err() != nil {
				return nil, err
			}
			c.logger.WarnContext(ctx, "console: a part of the overview could not be read", "part", part.name, "error", fmt.Sprint(err))
		}
	}
	return seen, nil
}
