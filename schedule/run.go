package schedule

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
)

// Run registers the schedules of the configuration and enqueues what is due, until ctx ends; then it lets the transactions that are under
// way end, which takes no longer than Timeout, and returns nil. Beside a worker it belongs into an errgroup:
//
//	group, ctx := errgroup.WithContext(ctx)
//	group.Go(func() error { return worker.Run(ctx) })
//	group.Go(func() error { return scheduler.Run(ctx) })
//	err := group.Wait()
//
// An outage of the database is logged and waited for. Run returns an error where that would not help: at the start, the tables or the rights
// are missing; [ErrRunning]; or at the end, functions that ignore their context are still running.
func (s *Scheduler) Run(ctx context.Context) error {
	if !s.running.CompareAndSwap(false, true) {
		return fmt.Errorf("run scheduler: %w", ErrRunning)
	}
	defer s.running.Store(false)
	if _, err := s.look(ctx); err != nil && ctx.Err() == nil && hopeless(err) {
		return fmt.Errorf("run scheduler: %w", err)
	}
	var upkeep sync.WaitGroup
	upkeep.Go(func() { s.keepUp(ctx) })
	s.config.Logger.InfoContext(ctx, "schedule: scheduler started", "source", s.config.Source, "schedules", len(s.entries))
	s.loop(ctx)
	upkeep.Wait()
	err := s.awaitStuck()
	s.config.Logger.InfoContext(ctx, "schedule: scheduler stopped", "source", s.config.Source)
	return err
}

// loop looks, begins what is due, and sleeps until the next one is, or Poll at most.
func (s *Scheduler) loop(ctx context.Context) {
	var attempts sync.WaitGroup
	defer attempts.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	broken := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-s.finished:
		}
		if ctx.Err() != nil {
			return
		}
		found, err := s.look(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			s.config.Logger.Log(ctx, s.gate.pace("look"), "schedule: looking for due schedules failed", "error", err)
			broken = true
		case err == nil && broken:
			s.gate.clear("look")
			s.config.Logger.InfoContext(ctx, "schedule: looks for due schedules again")
			broken = false
		}
		starving := false
		names, trials := s.order(found)
		for _, name := range names {
			release, starved := s.begin(name, trials[name])
			starving = starving || starved
			if release == nil {
				continue
			}
			attempts.Go(func() {
				// Only what has moved on can be due again before the next look; what failed waits, and what another process has is its.
				if o, _, _ := s.attend(context.WithoutCancel(ctx), name, release); o == done {
					s.wake()
				}
			})
		}
		sleep := s.config.Poll - rand.N(s.config.Poll/10+1)
		if found.wait > 0 {
			sleep = min(sleep, found.wait)
		}
		if starving {
			sleep = min(sleep, s.config.Poll/10)
		}
		timer.Reset(sleep)
	}
}

// wake makes the loop look again.
func (s *Scheduler) wake() {
	select {
	case s.finished <- struct{}{}:
	default: // it will look anyway
	}
}

// awaitStuck waits for functions that outlived their attempts, whose contexts have ended, for Timeout at most.
func (s *Scheduler) awaitStuck() error {
	returned := make(chan struct{})
	go func() { // ends with the functions; what does not end is told
		defer close(returned)
		s.stuck.Wait()
	}()
	timer := time.NewTimer(s.config.Timeout)
	defer timer.Stop()
	select {
	case <-returned:
		return nil
	case <-timer.C:
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var names []string
	for name := range s.stuckIn {
		names = append(names, fmt.Sprintf("%q", name))
	}
	slices.Sort(names)
	return fmt.Errorf("run scheduler: functions ignore their context and are still running: %s", strings.Join(names, ", "))
}

// TickResult is what one call of [Scheduler.Tick] did.
type TickResult struct {
	Ticks  []TickEvent      // what was enqueued or skipped
	Failed map[string]error // by schedule; these are tried again, later
}

// Tick does once what [Scheduler.Run] does all the time: it registers, enqueues everything that is due, and returns. It is for a platform
// that calls a function once a minute, and for tests. Ticks since the last call are caught up by the policy of each schedule, so the
// calls decide how late a job may be and not whether it is. A schedule that fails is in the result and no error; an error
// means that the database could not be asked.
func (s *Scheduler) Tick(ctx context.Context) (TickResult, error) {
	result := TickResult{Failed: map[string]error{}}
	if err := s.upkeep(ctx); err != nil {
		return result, fmt.Errorf("tick: %w", err)
	}
	var (
		mutex sync.Mutex
		tried = map[string]bool{} // without moving on
	)
	for ctx.Err() == nil {
		found, err := s.look(ctx)
		if err != nil {
			return result, fmt.Errorf("tick: %w", err)
		}
		names, trials := s.order(found)
		names = slices.DeleteFunc(names, func(name string) bool { return tried[name] })
		if len(names) == 0 {
			break
		}
		var group sync.WaitGroup
		for _, name := range names {
			release, starved := s.begin(name, trials[name])
			if release == nil {
				if !starved {
					tried[name] = true // Run of the same process has it
				}
				continue
			}
			group.Go(func() {
				o, events, err := s.attend(ctx, name, release)
				mutex.Lock()
				defer mutex.Unlock()
				switch o {
				case done:
					result.Ticks = append(result.Ticks, events...)
					return
				case failed:
					result.Failed[name] = err
				}
				tried[name] = true
			})
		}
		group.Wait()
	}
	if err := s.clean(ctx); err != nil {
		s.config.Logger.Log(ctx, s.gate.pace("clean"), "schedule: deleting old ticks failed", "error", err)
	}
	return result, errors.Join(ctx.Err())
}
