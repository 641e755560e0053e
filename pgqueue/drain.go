package pgqueue

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/pgqueue/pgqueue/reaper"
	"github.com/pgqueue/pgqueue/runner"
)

// DrainResult counts what one [Client.Drain] did.
type DrainResult struct {
	// Recovered counts the jobs whose lease had run out and that were returned first.
	Recovered reaper.Recovered
	// Claimed counts the attempts that were begun, over all queues.
	Claimed int
	// Outcomes counts what became of them, over all queues, and Queues by queue.
	Outcomes runner.Outcomes
	Queues   map[string]runner.Outcomes
}

// Drain works until nothing is due in any of config.Queues, or ctx ends, and returns: for cron, serverless functions
// and tests. It first returns the jobs whose lease has run out. Jobs that a handler enqueues into these queues are run
// too, in further rounds, as far as they are due. A queue that a handler pauses is left as it is, without an error. It listens to nothing and needs no session state, so it works through
// a transaction pooler.
//
// What is wrong with the database is found first thing and returned as a [*StartError], as by [Worker.Run], but without waiting.
//
// Where returning stale leases or the upkeep of partitions fails, what is due is worked all the same, and the error comes
// at the end. When ctx ends it stops like [Worker.Run] and returns ctx's error with the counts so far. Several drains, and drains
// beside workers, share the work.
func (c *Client) Drain(ctx context.Context, mux *Mux, config WorkerConfig) (DrainResult, error) {
	config.DisableListener = true
	w, err := c.NewWorker(mux, config)
	if err != nil {
		return DrainResult{}, err
	}
	if err := c.checkStart(ctx, w.pool); err != nil {
		return DrainResult{}, fmt.Errorf("drain: %w", err)
	}
	if err := c.checkResults(ctx, w.pool, w.results, w.config.Queues); err != nil {
		return DrainResult{}, fmt.Errorf("drain: %w", err)
	}
	defer w.reportDrain(ctx)()
	defer w.writeProgress(ctx)()
	result := DrainResult{Queues: make(map[string]runner.Outcomes, len(w.runners))}
	recovered, upkeep := w.reaps.Once(ctx)
	result.Recovered = recovered
	if upkeep != nil {
		upkeep = fmt.Errorf("drain: return stale leases: %w", upkeep)
	}
	for {
		worked, err := w.drainRound(ctx, &result)
		if err != nil {
			return result, errors.Join(fmt.Errorf("drain: %w", err), upkeep)
		}
		if worked == 0 {
			return result, upkeep
		}
	}
}

// reportDrain has a drain that takes longer than one interval report itself like any other worker, and returns what ends
// that. A short one, as in cron jobs and tests, costs no statement.
func (w *Worker) reportDrain(ctx context.Context) (end func()) {
	if w.beats == nil {
		return func() {}
	}
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() { w.beats.run(background, w.beats.every, func() bool { return ctx.Err() != nil }) })
	return func() {
		stop()
		running.Wait()
		w.beats.leave()
	}
}

// drainRound drains every queue once, side by side, and returns how many runs that took: another queue's handlers may
// have enqueued into one that was empty already.
func (w *Worker) drainRound(ctx context.Context, result *DrainResult) (int, error) {
	var (
		group  sync.WaitGroup
		mutex  sync.Mutex
		worked int
		errs   []error
	)
	for name, run := range w.runners {
		if !run.Status().PausedUntil.IsZero() {
			continue // a handler of an earlier round paused the queue, and another round would not know
		}
		group.Go(func() {
			drained, err := run.Drain(ctx)
			mutex.Lock()
			defer mutex.Unlock()
			result.Claimed += drained.Claimed
			result.Outcomes = result.Outcomes.Plus(drained.Outcomes)
			result.Queues[name] = result.Queues[name].Plus(drained.Outcomes)
			worked += drained.Claimed
			if err != nil {
				errs = append(errs, fmt.Errorf("queue %q: %w", name, err))
			}
		})
	}
	group.Wait()
	return worked, errors.Join(errs...)
}
