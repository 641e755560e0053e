package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strconv"
	"time"
)

// scenario is one question that is asked of each engine.
type scenario struct {
	number  int
	name    string
	title   string
	jobs    int // where JOBS does not say otherwise
	seconds int // where SECONDS does not say otherwise; 0 where the number of jobs alone decides
	fits    func(engine) bool
	// measure answers the figures of one engine in one round.
	measure func(context.Context, *site) ([]figure, error)
}

// scenarios are all of them, by number.
func scenarios() []scenario {
	return []scenario{
		{1, "drain", "Draining a full queue of no-ops", 500_000, 0, fitDrain, measureDrain},
		{2, "continuous", "Producers and workers together", 0, 60, fitTuned, measureContinuous},
		{3, "enqueue", "Enqueueing in bulk and by single transactions", 200_000, 0, fitEnqueue, measureEnqueue},
		{4, "latency", "From the call that enqueues a job to the start of its handler", mostLone, 5, fitLatency, measureLatency},
		{5, "scheduled", "Lateness of scheduled jobs", 200, 0, fitScheduled, measureScheduled},
		{6, "held-snapshot", "A transaction held open while jobs pass", 1_000_000, 120, fitClaims, measureHeld},
		{7, "adversity", "Claims beside long readers, overload, and rows that are not for this worker", 1_000_000, 60, fitAdversity, measureAdversity},
		{8, "processes", "Handlers in one process and in four", 100_000, 0, fitProcesses, measureProcesses},
		{9, "killed", "A process killed with its jobs in flight", 200, 60, fitKilled, measureKilled},
		{10, "idle", "Ten clients of five queues with nothing to do", 0, 60, fitIdle, measureIdle},
		{11, "cost", "What a job costs", 200_000, 30, fitDrain, measureCost},
		{12, "growth", "Many jobs passed, much history, a long backlog", 10_000_000, 0, fitClaims, measureGrowth},
	}
}

// figure is one measurement.
type figure struct {
	metric   string
	value    float64
	decimals int
}

func perSecond(metric string, n float64, d time.Duration) figure {
	return figure{metric, n / d.Seconds(), 0}
}

func millis(metric string, value float64) figure { return figure{metric, value, 2} }

// site is where one engine is measured once.
type site struct {
	server  *server
	engine  engine
	jobs    int
	seconds time.Duration
}

// with calls measure with a system of the engine in a database of its own.
func (s *site) with(ctx context.Context, wiring wiring, measure func(*database, system) error) error {
	db, err := s.server.database(ctx, wiring)
	if err != nil {
		return err
	}
	defer db.drop()
	return s.opened(ctx, db, measure)
}

// opened calls measure with a system in a database that may have been used before.
func (s *site) opened(ctx context.Context, db *database, measure func(*database, system) error) error {
	system, err := s.engine.open(ctx, db)
	if err != nil {
		return fmt.Errorf("set up: %w", err)
	}
	defer system.close(context.WithoutCancel(ctx))
	return measure(db, system)
}

// producing is with for systems whose producers are measured.
func (s *site) producing(ctx context.Context, wiring wiring, measure func(*database, producer) error) error {
	return s.with(ctx, wiring, func(db *database, system system) error {
		able, ok := system.(producer)
		if !ok {
			return errors.New("cannot be measured in this scenario")
		}
		return measure(db, able)
	})
}

// turn is the order of a round: each starts one place later, and every second one goes backwards, so that no engine always runs
// after the same neighbour, first, or last.
func turn(n, round int) []int {
	order := make([]int, n)
	for i := range order {
		at := (i + round) % n
		if round%2 == 1 {
			order[n-1-i] = at
		} else {
			order[i] = at
		}
	}
	return order
}

// ask measures each engine that fits once a round, in turns. Each metric becomes a result with the median of its figures, and
// ratios follow.
func (s scenario) ask(ctx context.Context, server *server, engines []engine, settings settings, progress func(string)) ([]result, error) {
	var fit []engine
	for _, e := range engines {
		if s.fits(e) {
			fit = append(fit, e)
		}
	}
	jobs, seconds := s.jobs, s.seconds
	if settings.jobs > 0 && s.jobs > 0 {
		jobs = settings.jobs
	}
	if settings.seconds > 0 && s.seconds > 0 {
		seconds = settings.seconds
	}
	found := make([][]result, len(fit))
	for round := range settings.rounds {
		for _, i := range turn(len(fit), round) {
			progress(s.name + " " + fit[i].String() + ", round " + strconv.Itoa(round+1))
			runtime.GC() // what the one before left in this process
			figures, err := s.measure(ctx, &site{server, fit[i], jobs, time.Duration(seconds) * time.Second})
			if err != nil {
				return nil, fmt.Errorf("%s: %s: %w", s.name, fit[i], err)
			}
			for _, figure := range figures {
				found[i] = s.note(found[i], fit[i], jobs, seconds, figure)
			}
		}
	}
	var all []result
	for i := range found {
		for _, r := range found[i] {
			r.Value = median(r.Rounds)
			if r.Scenario == "drain" {
				r.JobsPerS = r.Value
			}
			all = append(all, r)
		}
	}
	return append(all, ratios(all)...), nil
}

// note adds a round's figure to its metric. What could not be measured, such as the claims of a run without any, is left out.
func (s scenario) note(results []result, e engine, jobs, seconds int, f figure) []result {
	if math.IsNaN(f.value) || math.IsInf(f.value, 0) {
		return results
	}
	for i := range results {
		if results[i].Metric == f.metric {
			results[i].Rounds = append(results[i].Rounds, rounded(f.value, f.decimals))
			return results
		}
	}
	return append(results, result{
		Scenario: s.name, Metric: f.metric, Engine: e.name(), History: e.history, Jobs: jobs, Seconds: seconds,
		Settings: e.settings, PoolSize: poolSize, Rounds: []float64{rounded(f.value, f.decimals)},
	})
}

// Which engines a scenario measures.

// fitDrain leaves out the defaults of what would take hours, and those windows that matter to latency alone.
func fitDrain(e engine) bool {
	return e.variant != window10 && (e.variant != defaults || e.family == "pgqueue" || e.family == "river")
}

// fitTuned are the workers that never end by themselves, and are told of new jobs: rows of an outbox come by the application's COPY here,
// which tells nobody.
func fitTuned(e engine) bool {
	return fitDrain(e) && e.family != "raw" && e.family != "pgq" && e.family != "outbox"
}

// fitEnqueue takes each family once: the settings of a worker play no part, and neither does history.
func fitEnqueue(e engine) bool {
	return e.family != "raw" && e.family != "outbox" && e.variant != defaults && e.variant != window10 && (e.family != "pgqueue" || e.history)
}

// fitLatency takes the defaults, beside the tuned settings of the others and the narrow window of pgqueue. Its settings for a drain are
// for another purpose.
func fitLatency(e engine) bool {
	switch e.family {
	case "raw", "outbox", "pgq":
		return false
	case "pgqueue":
		return e.history && e.variant != tuned
	}
	return true
}

func fitScheduled(e engine) bool { return fitLatency(e) && e.variant != window10 }

// fitClaims takes those whose claims can be timed.
func fitClaims(e engine) bool { return e.claims != nil && e.variant == tuned }

// fitAdversity adds the defaults: a claim of thousands of jobs takes its time in any case.
func fitAdversity(e engine) bool {
	return fitClaims(e) || e.claims != nil && e.family == "pgqueue" && e.variant == defaults && e.history
}

func fitProcesses(e engine) bool {
	return e.variant == tuned && e.family != "outbox" && (e.family != "pgqueue" || e.history)
}

// fitKilled takes the defaults, which are what decides.
func fitKilled(e engine) bool {
	return e.variant == defaults && (e.family != "pgqueue" || e.history)
}

func fitIdle(e engine) bool { return fitKilled(e) }
