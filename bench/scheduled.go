package main

import (
	"context"
	"errors"
	"time"
)

// Scheduled jobs are due one after the other, the first when all of them have surely been enqueued.
const (
	scheduledLead = 2 * time.Second
	scheduledGap  = 25 * time.Millisecond
)

// measureScheduled times how long after its due time a job of an idle worker starts.
func measureScheduled(ctx context.Context, at *site) (figures []figure, err error) {
	err = at.producing(ctx, wiring{}, func(_ *database, system producer) (err error) {
		clock := &stopwatch{each: make(chan float64, at.jobs)}
		worker, err := system.work(ctx, load{started: clock.started})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, worker.stop(ctx)) }()
		first := time.Now().Add(scheduledLead)
		for i := range at.jobs {
			due := first.Add(time.Duration(i) * scheduledGap)
			if err := system.enqueue(ctx, order{stamp: due.UnixMicro(), due: due}); err != nil {
				return err
			}
		}
		var late []float64
		for range at.jobs {
			wait, err := clock.next(ctx)
			if err != nil {
				return err
			}
			late = append(late, wait)
		}
		figures = []figure{millis("late_p50_ms", percentile(late, 50)), millis("late_p99_ms", percentile(late, 99)),
			millis("late_max_ms", percentile(late, 100))}
		return nil
	})
	return figures, err
}
