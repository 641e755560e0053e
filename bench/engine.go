package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// The variants in which an engine is measured.
const (
	tuned    = "tuned"    // the best settings for no-ops that its documentation or its own bench names
	defaults = "defaults" // what one gets without choosing; what has no default is set to what its introduction shows
	window10 = "window-10ms"
)

// What an engine needs beside Postgres and Go.
const (
	needsNode = "node"
	needsPgQ  = "pgq"
)

// engine is a job system with the settings that it is measured with.
type engine struct {
	family   string // "pgqueue", "raw", "outbox", "river", "gue", "graphile-worker", "pg-boss", "pgq"
	variant  string // empty where there is but one
	history  bool   // what has succeeded stays in the database
	settings string // for the reader of a figure
	needs    string // needsNode, needsPgQ, or nothing

	claims     func(sql string) bool // whether a statement claims jobs; nil where statements cannot be seen from here
	heartbeats string                // the table of rows that only say that a process lives
	connPerJob bool                  // a running job holds a connection
	channel    string                // on which producers notify, if they do

	open func(ctx context.Context, db *database) (system, error)
}

// name is that of the family for what is tuned, as the engine's name was before there were variants.
func (e engine) name() string {
	if e.variant == "" || e.variant == tuned {
		return e.family
	}
	return e.family + "-" + e.variant
}

func (e engine) String() string { return e.name() + " with history " + onOff(e.history) }

// answersTo tells whether a name in ENGINES means this engine: that of the family means all of its variants.
func (e engine) answersTo(name string) bool {
	return name == e.family || name == e.family+"-"+e.variant
}

// connections is the size of the pool for so many handlers: the same for all, apart from engines whose running job holds one.
func (e engine) connections(handlers int) int {
	if e.connPerJob {
		return max(poolSize, handlers+2)
	}
	return poolSize
}

// system is an engine in a database of its own, with its tables made.
type system interface {
	// fill enqueues jobs by the fastest way that the engine has.
	fill(ctx context.Context, lot lot) error
	// work starts a worker. It may be called again once the one before has been stopped.
	work(ctx context.Context, load load) (*running, error)
	// count tells how many jobs are still to do and how many successes are kept.
	count(ctx context.Context) (open, kept int, err error)
	// table is where jobs wait, for VACUUM ANALYZE.
	table() string
	close(ctx context.Context)
}

// producer is a system whose producers can be measured.
type producer interface {
	system
	// enqueue commits one job in one call. Several may be under way at a time.
	enqueue(ctx context.Context, one order) error
}

// hinting is a system that can be told not to notify workers.
type hinting interface{ hints(on bool) }

// settling is a system whose worker reports a job before its success is stored: pending tells whether any still is not.
type settling interface {
	pending(ctx context.Context) (bool, error)
}

// allEngines are the engines in the order in which the first round runs them.
func allEngines() []engine {
	return []engine{
		pgqueueEngine(tuned, false), pgqueueEngine(tuned, true), pgqueueEngine(defaults, false), pgqueueEngine(defaults, true),
		pgqueueEngine(window10, true),
		rawEngine(false), rawEngine(true),
		outboxEngine(),
		riverEngine(tuned), riverEngine(defaults),
		gueEngine(tuned), gueEngine(defaults),
		nodeEngine("graphile-worker", tuned), nodeEngine("graphile-worker", defaults),
		nodeEngine("pg-boss", tuned), nodeEngine("pg-boss", defaults),
		pgqEngine(),
	}
}

// chooseEngines picks engines by name; no names mean all.
func chooseEngines(names []string) ([]engine, error) {
	all := allEngines()
	if len(names) == 0 {
		return all, nil
	}
	var families []string
	for _, e := range all {
		if !slices.Contains(families, e.family) {
			families = append(families, e.family)
		}
	}
	for _, name := range names {
		if !slices.ContainsFunc(all, func(e engine) bool { return e.answersTo(name) }) {
			return nil, fmt.Errorf("ENGINES: there is no engine %q; there are %s, and each of most with -tuned and -defaults",
				name, strings.Join(families, ", "))
		}
	}
	return slices.DeleteFunc(all, func(e engine) bool {
		return !slices.ContainsFunc(names, e.answersTo)
	}), nil
}

// usable leaves out engines that need what this machine has not, and says so; one that was asked for by name is an error.
func usable(ctx context.Context, server *server, engines []engine, names []string) (fit []engine, missing []string, err error) {
	why := map[string]error{}
	for _, e := range engines {
		if _, asked := why[e.needs]; !asked {
			switch e.needs {
			case needsNode:
				_, why[e.needs] = findNode(ctx)
			case needsPgQ:
				why[e.needs] = server.has(ctx, "pgq")
			default:
				why[e.needs] = nil
			}
		}
		switch reason := why[e.needs]; {
		case reason == nil:
			fit = append(fit, e)
		case len(names) > 0:
			return nil, nil, fmt.Errorf("%s: %w", e.name(), reason)
		default:
			missing = append(missing, fmt.Sprintf("%s is left out: %v", e.name(), reason))
		}
	}
	return fit, missing, nil
}

// has tells by an error that the server has not an extension.
func (s *server) has(ctx context.Context, extension string) error {
	conn, err := pgx.Connect(ctx, s.url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var there bool
	if err := conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_available_extensions WHERE name = $1)`, extension).Scan(&there); err != nil {
		return err
	}
	if !there {
		return fmt.Errorf("this server has no extension %q (scripts/setup-bench.sh makes one that has)", extension)
	}
	return nil
}
