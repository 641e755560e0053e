// Command bench measures pgqueue beside its own statements in a bare loop and beside River, on one server in one run, and
// prints one JSON object a line, then a table. It starts a Postgres of its own, with fsync on and the server's defaults
// otherwise, or takes DATABASE_URL, whose server it then fills with throwaway databases.
//
//	JOBS=200000 ROUNDS=3 ENGINES=pgqueue,raw,outbox,river SCENARIOS=drain,enqueue,latency go run .
//
// Figures of different runs, or of different machines, do not compare: what counts is a ratio within one run. See
// README.md in this folder for what is measured and how.
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"syscall"
)

// gcPercent is for all engines. A process that holds as little as this one would otherwise collect every few megabytes.
const gcPercent = 400

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	settings, err := environment()
	if err == nil {
		err = run(ctx, settings, os.Stdout, os.Stderr)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run measures what settings ask for. Lines go to out as soon as a scenario is done, the table to notes.
func run(ctx context.Context, settings settings, out, notes io.Writer) error {
	engines, err := chooseEngines(settings.engines)
	if err != nil {
		return err
	}
	server, err := openServer(ctx)
	if err != nil {
		return err
	}
	defer server.close()
	heading, err := server.settings(ctx)
	if err != nil {
		return err
	}
	stopProfile, err := startProfile(settings.profile)
	if err != nil {
		return err
	}
	defer stopProfile()

	var all []result
	for _, scenario := range scenarios() {
		if !slices.Contains(settings.scenarios, scenario.name) {
			continue
		}
		results, err := scenario.measure(ctx, server, engines, settings)
		if err != nil {
			return err
		}
		if err := writeLines(out, results); err != nil {
			return err
		}
		all = append(all, results...)
	}
	return writeTable(notes, fmt.Sprintf("%s; %s %s/%s, %d CPUs; pool of %d; median of %d rounds", heading, runtime.Version(),
		runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), poolSize, settings.rounds), all)
}

// scenario is one question that is asked of each engine.
type scenario struct {
	name    string
	measure func(context.Context, *server, []engine, settings) ([]result, error)
}

func scenarios() []scenario {
	return []scenario{{"drain", measureDrain}, {"enqueue", measureEnqueue}, {"latency", measureLatency}}
}

// startProfile writes a CPU profile to path until the returned function is called; an empty path means none.
func startProfile(path string) (stop func(), err error) {
	if path == "" {
		return func() {}, nil
	}
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		_ = file.Close()
		return nil, err
	}
	return func() {
		pprof.StopCPUProfile()
		_ = file.Close()
	}, nil
}
