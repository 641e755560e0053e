package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// shape is how handlers are spread over processes.
type shape struct{ processes, handlers int }

func shapes() []shape { return []shape{{1, 16}, {1, 256}, {4, 64}} }

// measureProcesses drains with as many handlers in as many processes. All of them are processes of their own, and each has a pool
// as large as the others'. The time is from the first start until this process has heard of the last success.
func measureProcesses(ctx context.Context, at *site) (figures []figure, err error) {
	for _, shape := range shapes() {
		err := at.with(ctx, wiring{}, func(db *database, system system) error {
			if err := system.fill(ctx, lot{jobs: at.jobs}); err != nil {
				return err
			}
			if err := settle(ctx, db, system); err != nil {
				return err
			}
			took, err := drainBy(ctx, at, db, system, shape)
			figures = append(figures, perSecond(fmt.Sprintf("processes_%d_handlers_%d_per_s", shape.processes, shape.handlers),
				float64(at.jobs), took))
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return figures, nil
}

func drainBy(ctx context.Context, at *site, db *database, system system, shape shape) (took time.Duration, err error) {
	var workers []*running
	var children []*remote
	defer func() {
		for _, child := range children {
			child.end()
		}
	}()
	for range shape.processes {
		child, err := launchChild(ctx, at.engine, db, at.engine.connections(shape.handlers))
		if err != nil {
			return 0, err
		}
		children = append(children, child)
	}
	start := time.Now()
	for _, child := range children {
		worker, err := child.work(ctx, load{handlers: shape.handlers})
		if err != nil {
			return 0, err
		}
		workers = append(workers, worker)
	}
	for total := int64(0); total < int64(at.jobs); {
		total = 0
		for _, worker := range workers {
			total += worker.done()
			select {
			case err := <-worker.ended:
				return 0, fmt.Errorf("a worker ended early: %w", err)
			default:
			}
		}
		if err := pause(ctx, time.Millisecond); err != nil {
			return 0, err
		}
	}
	if err := settled(ctx, system); err != nil {
		return 0, err
	}
	took = time.Since(start)
	for _, worker := range workers {
		err = errors.Join(err, worker.stop(ctx))
	}
	return took, err
}
