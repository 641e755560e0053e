package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// lonePause keeps jobs so far apart that each comes alone: longer than pgqueue's window of 250 ms, and than River's cooldown.
const lonePause = 300 * time.Millisecond

// samples is how many lone jobs are timed in a round of so many jobs.
func samples(jobs int) int { return min(max(jobs/4000, 3), 20) }

// measureLatency times how soon a handler starts after the call that enqueues a lone job: from before that call, because the
// job may start before it returns.
func measureLatency(ctx context.Context, server *server, engines []engine, settings settings) ([]result, error) {
	return measureTurns(ctx, server, engines, settings, "latency", []string{"lone_p50_ms", "lone_max_ms"},
		func(ctx context.Context, _ *pgxpool.Pool, system serving) ([]float64, error) {
			return loneJobs(ctx, system, samples(settings.jobs))
		})
}

func loneJobs(ctx context.Context, system serving, n int) (figures []float64, err error) {
	started := make(chan time.Time, n+1)
	stop, err := system.serve(ctx, func() { started <- time.Now() })
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	var waits []float64
	for i := range n + 1 {
		if err := pause(ctx, lonePause+rand.N(lonePause/3)); err != nil {
			return nil, err
		}
		begin := time.Now()
		if err := system.enqueueOne(ctx); err != nil {
			return nil, err
		}
		select {
		case at := <-started:
			if i > 0 { // the first opens connections
				waits = append(waits, float64(at.Sub(begin).Microseconds())/1000)
			}
		case <-time.After(30 * time.Second):
			return nil, errors.New("a job did not start within 30 s")
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return []float64{median(waits), slices.Max(waits)}, nil
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
