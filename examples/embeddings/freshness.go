package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// freshness collects how long vectors were behind: from the change that made one stale to the vector that was stored for it.
// A queue that falls behind shows it here; it never drops work to look better. (A service would observe a histogram of
// Prometheus instead of keeping every measurement.)
type freshness struct {
	mutex    sync.Mutex
	measured []time.Duration
}

func (f *freshness) add(measured ...time.Duration) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.measured = append(f.measured, measured...)
}

// summary is what was measured.
type summary struct {
	stored        int // vectors
	p50, p95, max time.Duration
}

func (f *freshness) summary() summary {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if len(f.measured) == 0 {
		return summary{}
	}
	sorted := slices.Sorted(slices.Values(f.measured))
	at := func(share float64) time.Duration { return sorted[int(share*float64(len(sorted)-1))] }
	return summary{stored: len(sorted), p50: at(0.5), p95: at(0.95), max: sorted[len(sorted)-1]}
}

// lag is what the measurements above cannot know: how much is behind right now, and since when.
type lag struct {
	behind int
	oldest time.Duration
}

func measureLag(ctx context.Context, pool *pgxpool.Pool) (lag, error) {
	var now lag
	var seconds float64
	err := pool.QueryRow(ctx, `
		SELECT count(*), coalesce(extract(epoch FROM statement_timestamp() - min(stale_since)), 0)::float8
		FROM search.embeddings
		WHERE state IN ('waiting', 'claimed')`).Scan(&now.behind, &seconds)
	if err != nil {
		return lag{}, fmt.Errorf("measure the lag: %w", err)
	}
	now.oldest = time.Duration(seconds * float64(time.Second))
	return now, nil
}
