package main

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// The producers of a flow, what each enqueues at a time, and the most work that they keep ahead of the worker.
const (
	flowProducers = 4
	flowChunk     = 500
	flowBacklog   = 100_000 // many claims of the largest batch: a worker that finds nothing waits for a hint
)

// backlog is how many jobs a flow keeps ahead: a tenth of what passes, so that a small run is over soon.
func (s *site) backlog() int64 {
	if s.jobs == 0 {
		return flowBacklog
	}
	return int64(min(flowBacklog, max(flowChunk, s.jobs/10)))
}

// flow is a worker with producers that keep a backlog before it. Producers and workers share the pool.
type flow struct {
	system system
	worker *running
	lot    lot      // what a chunk is made of
	queues []string // chunks go to these in turns; none means the lot's
	ahead  int64    // the backlog

	start    time.Time
	produced atomic.Int64
	quit     context.CancelFunc
	group    sync.WaitGroup
	mu       sync.Mutex
	err      error
}

// startFlow starts the worker, then the producers.
func startFlow(ctx context.Context, system system, load load, lot lot, backlog int64) (*flow, error) {
	f := &flow{system: system, lot: lot, queues: load.queues, ahead: backlog, start: time.Now()}
	var err error
	if f.worker, err = system.work(ctx, load); err != nil {
		return nil, err
	}
	feeding, quit := context.WithCancel(ctx)
	f.quit = quit
	for range flowProducers {
		f.group.Go(func() { f.fail(feeding, f.feed(feeding)) })
	}
	return f, nil
}

// fail keeps the first error of a producer that was not told to end.
func (f *flow) fail(ctx context.Context, err error) {
	if err == nil || ctx.Err() != nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err = err
	}
}

func (f *flow) feed(ctx context.Context) error {
	for ctx.Err() == nil {
		if f.produced.Load()-f.worker.done() >= f.ahead {
			if err := pause(ctx, time.Millisecond); err != nil {
				return err
			}
			continue
		}
		next := f.lot
		next.jobs = flowChunk
		turn := f.produced.Add(flowChunk) / flowChunk
		if len(f.queues) > 0 {
			next.queue = f.queues[int(turn)%len(f.queues)]
			next.jobs = max(1, flowChunk/len(f.queues))
			f.produced.Add(int64(next.jobs - flowChunk))
		}
		if err := f.system.fill(ctx, next); err != nil {
			return err
		}
	}
	return nil
}

// reach waits until n jobs have passed.
func (f *flow) reach(ctx context.Context, n int64) error {
	if err := f.worker.reach(ctx, n); err != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		return errors.Join(err, f.err)
	}
	return nil
}

// rate is how many jobs a second pass until n more have, or a time is over.
func (f *flow) rate(ctx context.Context, n int64, longest time.Duration) (float64, error) {
	limited, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	from, start := f.worker.done(), time.Now()
	err := f.reach(limited, from+n)
	if err != nil && ctx.Err() == nil && limited.Err() != nil {
		err = nil // the time is over
	}
	return float64(f.worker.done()-from) / time.Since(start).Seconds(), err
}

// during is how many jobs a second pass in a time.
func (f *flow) during(ctx context.Context, d time.Duration) (float64, error) {
	from, start := f.worker.done(), time.Now()
	if err := pause(ctx, d); err != nil {
		return 0, err
	}
	rate := float64(f.worker.done()-from) / time.Since(start).Seconds()
	f.mu.Lock()
	defer f.mu.Unlock()
	return rate, f.err
}

// stop ends the producers and the worker.
func (f *flow) stop(ctx context.Context) error {
	f.quit()
	f.group.Wait()
	return errors.Join(f.err, f.worker.stop(ctx))
}
