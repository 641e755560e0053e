package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	adversityReaders = 4   // transactions that overlap
	adversityQueues  = 500 // served by one process
	overload         = 1.5 // times what the worker can do
)

// adversity is something that a claim shall not suffer from.
type adversity struct {
	name string
	load load
	lot  lot // of the jobs that pass
	// prepare fills the table before the worker starts.
	prepare func(ctx context.Context, system system, jobs int) error
	// beside runs while jobs pass, until ctx ends.
	beside func(ctx context.Context, db *database, d time.Duration) error
}

func adversities(jobs int) []adversity {
	var queues []string
	for i := range min(adversityQueues, jobs) {
		queues = append(queues, fmt.Sprintf("queue%d", i))
	}
	return []adversity{
		{name: "none"},
		{name: "readers", beside: overlappingReaders},
		{name: "scheduled", lot: lot{low: true}, prepare: func(ctx context.Context, system system, jobs int) error {
			return system.fill(ctx, lot{jobs: jobs, due: time.Now().Add(24 * time.Hour)})
		}},
		{name: "unknown", prepare: func(ctx context.Context, system system, jobs int) error {
			return system.fill(ctx, lot{jobs: max(1, jobs/10), kind: "stranger"})
		}},
		{name: "queues", load: load{queues: queues, handlers: 1}},
	}
}

// measureAdversity times claims while each adversity lasts, in a database of its own, and at last under overload.
func measureAdversity(ctx context.Context, at *site) (figures []figure, err error) {
	for _, a := range adversities(at.jobs) {
		if a.name == "unknown" && at.engine.family != "pgqueue" {
			continue // others claim what they do not know, and fail it
		}
		if a.name == "queues" && at.engine.connPerJob {
			continue // it would need a connection for each queue
		}
		found, err := a.measure(ctx, at)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", a.name, err)
		}
		figures = append(figures, found...)
	}
	found, err := measureOverload(ctx, at)
	return append(figures, found...), err
}

func (a adversity) measure(ctx context.Context, at *site) (figures []figure, err error) {
	sent := &statements{claims: at.engine.claims}
	err = at.with(ctx, wiring{tracer: sent}, func(db *database, system system) (err error) {
		if a.prepare != nil {
			if err := a.prepare(ctx, system, at.jobs); err != nil {
				return err
			}
			if err := settle(ctx, db, system); err != nil {
				return err
			}
		}
		lasting, end := context.WithCancel(ctx)
		besides := make(chan error, 1)
		go func() {
			if a.beside == nil {
				besides <- nil
				return
			}
			besides <- a.beside(lasting, db, at.seconds)
		}()
		defer func() { end(); err = errors.Join(err, <-besides) }()
		flow, err := startFlow(ctx, system, a.load, a.lot, at.backlog())
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, flow.stop(ctx)) }()
		if err := flow.reach(ctx, 1); err != nil {
			return err
		}
		sent.take()
		rate, err := flow.during(ctx, at.seconds)
		figures = []figure{{a.name + "_per_s", rate, 0}, millis(a.name+"_claim_p99_ms", percentile(milliseconds(sent.take()), 99))}
		return err
	})
	return figures, err
}

// overlappingReaders hold a snapshot each, for half of the time, one beginning an eighth of it after the other, so that one is always open.
func overlappingReaders(ctx context.Context, db *database, d time.Duration) error {
	var group sync.WaitGroup
	errs := make([]error, adversityReaders)
	for i := range adversityReaders {
		group.Go(func() {
			if pause(ctx, time.Duration(i)*d/8) != nil {
				return
			}
			for ctx.Err() == nil {
				release, err := hold(ctx, db)
				if err != nil {
					if ctx.Err() == nil {
						errs[i] = err
					}
					return
				}
				_ = pause(ctx, d/2)
				release()
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// measureOverload finds out what the worker can do, and then gives it half as much again for the time, so that the backlog grows.
func measureOverload(ctx context.Context, at *site) (figures []figure, err error) {
	sent := &statements{claims: at.engine.claims}
	err = at.with(ctx, wiring{tracer: sent}, func(_ *database, system system) (err error) {
		flow, err := startFlow(ctx, system, load{}, lot{}, at.backlog())
		if err != nil {
			return err
		}
		stopped := false
		stop := func() error {
			if stopped {
				return nil
			}
			stopped = true
			return flow.stop(ctx)
		}
		defer func() { err = errors.Join(err, stop()) }()
		if err := flow.reach(ctx, 1); err != nil {
			return err
		}
		if _, err := flow.during(ctx, at.seconds/6); err != nil {
			return err
		}
		rate := float64(flow.worker.done()) / time.Since(flow.start).Seconds()
		flow.quit()
		flow.group.Wait()
		sent.take()
		start, made := time.Now(), 0
		for time.Since(start) < at.seconds {
			due := int(time.Since(start).Seconds() * rate * overload)
			if due > made {
				n := min(due-made, 10_000)
				if err := system.fill(ctx, lot{jobs: n}); err != nil {
					return err
				}
				made += n
			}
			if err := pause(ctx, 10*time.Millisecond); err != nil {
				return err
			}
		}
		figures = []figure{{"overload_reached", float64(made) / at.seconds.Seconds() / rate, 2},
			millis("overload_claim_p99_ms", percentile(milliseconds(sent.take()), 99))}
		return stop()
	})
	return figures, err
}
