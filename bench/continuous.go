package main

import (
	"context"
	"errors"
)

// measureContinuous lets producers and workers run together, and counts what passes after the first sixth of the time.
func measureContinuous(ctx context.Context, at *site) (figures []figure, err error) {
	err = at.with(ctx, wiring{}, func(_ *database, system system) (err error) {
		flow, err := startFlow(ctx, system, load{}, lot{}, at.backlog())
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, flow.stop(ctx)) }()
		if err := pause(ctx, at.seconds/6); err != nil {
			return err
		}
		rate, err := flow.during(ctx, at.seconds)
		figures = []figure{{"jobs_per_s", rate, 0}}
		return err
	})
	return figures, err
}
