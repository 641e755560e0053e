package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// lonePause keeps jobs so far apart that each comes alone: longer than pgqueue's window of 250 ms, and than River's cooldown. A pair may
// leave two such windows behind it, one of the producer's hints and one of the worker's.
const (
	lonePause = 300 * time.Millisecond
	pairPause = 3 * lonePause
)

// mostLone is how many lone jobs are timed at most: they take a third of a second each.
const mostLone = 20

// longestWait is when a job that has not started is taken for lost.
const longestWait = 60 * time.Second

// rateProducers is how many connections enqueue at a rate.
const rateProducers = 8

// rates is at which rates jobs come, a second.
func rates() []int { return []int{20, 200, 2000} }

// stopwatch collects how long jobs waited: from before the call that enqueues them, because a job may start before it returns.
type stopwatch struct {
	mu    sync.Mutex
	waits []float64 // ms
	each  chan float64
}

func (s *stopwatch) started(stamp int64, at time.Time) {
	wait := float64(at.UnixMicro()-stamp) / 1000
	s.mu.Lock()
	s.waits = append(s.waits, wait)
	s.mu.Unlock()
	s.each <- wait
}

// next waits for one job to start.
func (s *stopwatch) next(ctx context.Context) (float64, error) {
	select {
	case wait := <-s.each:
		return wait, nil
	case <-time.After(longestWait):
		return 0, fmt.Errorf("a job did not start within %s", longestWait)
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

func stamp() int64 { return time.Now().UnixMicro() }

// measureLatency times how soon handlers start: of a lone job, of the second of two, and of jobs that come at a rate, each by a
// transaction of its own.
func measureLatency(ctx context.Context, at *site) (figures []figure, err error) {
	err = at.producing(ctx, wiring{}, func(_ *database, system producer) (err error) {
		clock := &stopwatch{each: make(chan float64, 1_000_000)}
		worker, err := system.work(ctx, load{started: clock.started})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, worker.stop(ctx)) }()
		lone, second, err := apart(ctx, system, clock, min(at.jobs, mostLone))
		if err != nil {
			return err
		}
		figures = append(figures, millis("lone_p50_ms", percentile(lone, 50)), millis("lone_max_ms", slices.Max(lone)),
			millis("second_p50_ms", percentile(second, 50)), millis("second_max_ms", slices.Max(second)))
		for _, rate := range rates() {
			waits, reached, err := atRate(ctx, system, clock, rate, at.seconds)
			if err != nil {
				return err
			}
			name := fmt.Sprintf("rate_%d_", rate)
			if len(waits) < perRate(rate, at.seconds) { // it cannot keep up, and would less with more
				figures = append(figures, figure{name + "started_share", float64(len(waits)) / float64(perRate(rate, at.seconds)), 3})
				break
			}
			figures = append(figures, millis(name+"p50_ms", percentile(waits, 50)), millis(name+"p99_ms", percentile(waits, 99)),
				millis(name+"max_ms", percentile(waits, 100)), figure{name + "reached_per_s", reached, 0})
		}
		return nil
	})
	return figures, err
}

// apart enqueues lone jobs, and then pairs of which the second comes when the first has just started.
func apart(ctx context.Context, system producer, clock *stopwatch, n int) (lone, second []float64, err error) {
	each := func(quiet time.Duration) (float64, error) {
		if quiet > 0 {
			if err := pause(ctx, quiet+rand.N(lonePause/3)); err != nil {
				return 0, err
			}
		}
		if err := system.enqueue(ctx, order{stamp: stamp()}); err != nil {
			return 0, err
		}
		return clock.next(ctx)
	}
	for i := range n + 1 {
		wait, err := each(lonePause)
		if err != nil {
			return nil, nil, err
		}
		if i > 0 { // the first opens connections
			lone = append(lone, wait)
		}
	}
	for range n {
		if _, err := each(pairPause); err != nil {
			return nil, nil, err
		}
		wait, err := each(0)
		if err != nil {
			return nil, nil, err
		}
		second = append(second, wait)
	}
	return lone, second, nil
}

// perRate is how many jobs a rate makes in a time.
func perRate(rate int, d time.Duration) int { return max(1, int(float64(rate)*d.Seconds())) }

// atRate enqueues at a rate for a time. Where the producers cannot keep up, reached says how far they came. Jobs that have not started
// longestWait after the last was enqueued are missing in waits.
func atRate(ctx context.Context, system producer, clock *stopwatch, rate int, d time.Duration) (waits []float64, reached float64, err error) {
	clock.mu.Lock()
	clock.waits = nil
	clock.mu.Unlock()
	n := perRate(rate, d)
	due := make(chan struct{}, n)
	errs := make([]error, rateProducers)
	var group sync.WaitGroup
	start := time.Now()
	for i := range rateProducers {
		group.Go(func() {
			for range due {
				if errs[i] == nil {
					errs[i] = system.enqueue(ctx, order{stamp: stamp()})
				}
			}
		})
	}
	for i := 0; i < n && err == nil; {
		for target := int(time.Since(start).Seconds()*float64(rate)) + 1; i < min(n, target); i++ {
			due <- struct{}{}
		}
		err = pause(ctx, time.Millisecond)
	}
	close(due)
	group.Wait()
	took := time.Since(start)
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, 0, err
	}
	limited, cancel := context.WithTimeout(ctx, longestWait)
	defer cancel()
	for range n {
		if _, err := clock.next(limited); err != nil {
			if ctx.Err() != nil {
				return nil, 0, err
			}
			break
		}
	}
	clock.mu.Lock()
	defer clock.mu.Unlock()
	return slices.Clone(clock.waits), float64(n) / took.Seconds(), nil
}
