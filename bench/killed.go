package main

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// restarts notes which jobs have started in a process, and when.
type restarts struct {
	mu    sync.Mutex
	at    map[int64]time.Time
	moved chan struct{}
}

func newRestarts() *restarts {
	return &restarts{at: map[int64]time.Time{}, moved: make(chan struct{}, 1)}
}

func (r *restarts) started(stamp int64, at time.Time) {
	r.mu.Lock()
	if _, known := r.at[stamp]; !known {
		r.at[stamp] = at
	}
	r.mu.Unlock()
	wake(r.moved)
}

// reach waits until n jobs have started, or the time is over, and answers how many have.
func (r *restarts) reach(ctx context.Context, n int, longest time.Duration) (int, error) {
	timer := time.NewTimer(longest)
	defer timer.Stop()
	for {
		r.mu.Lock()
		started := len(r.at)
		r.mu.Unlock()
		if started >= n {
			return started, nil
		}
		select {
		case <-r.moved:
		case <-timer.C:
			return started, nil
		case <-ctx.Done():
			return started, ctx.Err()
		}
	}
}

// measureKilled starts a process, lets it take jobs whose handlers do not return, starts a second one that has room for as many, and
// kills the first, as kill -9 does. It waits for SECONDS at most until the second has started every job. Settings are the defaults.
func measureKilled(ctx context.Context, at *site) (figures []figure, err error) {
	err = at.producing(ctx, wiring{}, func(db *database, system producer) error {
		launch := func(seen *restarts) (*remote, error) {
			process, err := launchChild(ctx, at.engine, db, at.engine.connections(at.jobs))
			if err != nil {
				return nil, err
			}
			if _, err := process.work(ctx, load{handlers: at.jobs, block: true, started: seen.started}); err != nil {
				process.kill()
				return nil, err
			}
			return process, nil
		}
		before, after := newRestarts(), newRestarts()
		victim, err := launch(before)
		if err != nil {
			return err
		}
		defer victim.kill()
		for range at.jobs {
			if err := system.enqueue(ctx, order{stamp: stamp()}); err != nil {
				return err
			}
		}
		inFlight, err := before.reach(ctx, at.jobs, longestWait)
		if err != nil {
			return err
		}
		if inFlight < at.jobs {
			return fmt.Errorf("only %d of %d jobs started within %s", inFlight, at.jobs, longestWait)
		}
		heir, err := launch(after)
		if err != nil {
			return err
		}
		defer heir.kill()
		victim.kill()
		killed := time.Now()
		again, err := after.reach(ctx, at.jobs, at.seconds)
		if err != nil {
			return err
		}
		figures = []figure{{"in_flight", float64(inFlight), 0}, {"rerun_share", float64(again) / float64(inFlight), 3}}
		if again == inFlight {
			figures = append(figures, figure{"all_rerun_s", time.Since(killed).Seconds(), 2})
		}
		return nil
	})
	return figures, err
}
