package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// engine is a job system with the settings that it is measured with.
type engine struct {
	name     string // "pgqueue", "raw", "outbox", "river"
	history  bool   // what has succeeded stays in the database
	settings string // for the reader of a figure
	open     func(ctx context.Context, pool *pgxpool.Pool) (system, error)
}

func (e engine) String() string {
	if e.history {
		return e.name + " with history"
	}
	return e.name + " without history"
}

// system is an engine in a database of its own, with its tables made. One method is called at a time, apart from enqueueOne.
type system interface {
	// fill enqueues jobs no-op jobs of payloadBytes each, by the fastest way that the engine has.
	fill(ctx context.Context, jobs int) error
	// drain starts a worker, waits until it has stored the success of jobs jobs, and stops it. The answer is the time from the
	// start to the last success being stored, as the engine's own API reports it.
	drain(ctx context.Context, jobs int) (time.Duration, error)
	// count tells how many jobs are still to do and how many successes are kept.
	count(ctx context.Context) (open, kept int, err error)
	// table is where jobs wait, for VACUUM ANALYZE.
	table() string
	close(ctx context.Context)
}

// enqueuer is a system whose producers can be measured.
type enqueuer interface {
	system
	// enqueueOne commits one job in one call.
	enqueueOne(ctx context.Context) error
}

// serving is a system that can tell how soon a job starts.
type serving interface {
	enqueuer
	// serve starts a worker with the engine's default settings and returns when it waits for work. started is called by the
	// handler, first thing.
	serve(ctx context.Context, started func()) (stop func() error, err error)
}

// allEngines are the engines in the order in which the first round runs them.
func allEngines() []engine {
	return []engine{
		pgqueueEngine(false), pgqueueEngine(true),
		rawEngine(false), rawEngine(true),
		outboxEngine(),
		riverEngine(),
	}
}

// chooseEngines picks engines by name; no names mean all.
func chooseEngines(names []string) ([]engine, error) {
	all := allEngines()
	if len(names) == 0 {
		return all, nil
	}
	for _, name := range names {
		if !slices.ContainsFunc(all, func(e engine) bool { return e.name == name }) {
			return nil, fmt.Errorf("ENGINES: there is no engine %q; there are pgqueue, raw, outbox and river", name)
		}
	}
	return slices.DeleteFunc(all, func(e engine) bool { return !slices.Contains(names, e.name) }), nil
}

// turn is the order of a round: each starts one place later, and every second one goes backwards, so that no engine always runs
// after the same neighbour, first, or last.
func turn(n, round int) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = (i + round) % n
	}
	if round%2 == 1 {
		slices.Reverse(order)
	}
	return order
}

const payloadBytes = 100

// padding makes the JSON of {"padding":""} payloadBytes long.
func padding() string { return strings.Repeat("x", payloadBytes-len(`{"padding":""}`)) }
