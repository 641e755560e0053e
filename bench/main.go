// Command bench measures pgqueue beside its own statements in a bare loop and beside River, on one server in one run, and
// prints one JSON object a line, then a table. It starts a Postgres of its own, with fsync on and the server's defaults
// otherwise, or takes DATABASE_URL, whose server it then fills with throwaway databases.
//
//	SCENARIOS=1,6 ENGINES=pgqueue,river JOBS=200000 ROUNDS=3 go run .
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
	if text := os.Getenv(childVariable); text != "" {
		if err := serveChild(ctx, text, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "bench: child:", err)
			os.Exit(1)
		}
		return
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

// run measures what settings ask for. Lines go to out as soon as a scenario is done; progress and the table go to notes.
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
	engines, missing, err := usable(ctx, server, engines, settings.engines)
	if err != nil {
		return err
	}
	for _, note := range missing {
		fmt.Fprintln(notes, "bench:", note)
	}
	where, err := surroundings(ctx, server, settings)
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
		if !slices.Contains(settings.scenarios, scenario.number) {
			continue
		}
		results, err := scenario.ask(ctx, server, engines, settings, func(what string) { fmt.Fprintln(notes, "bench:", what) })
		if err != nil {
			return err
		}
		if err := writeLines(out, results); err != nil {
			return err
		}
		if settings.docs != "" {
			if err := writePage(settings.docs, scenario, where, results); err != nil {
				return err
			}
		}
		all = append(all, results...)
	}
	if err := writeTable(notes, where.heading(), all); err != nil {
		return err
	}
	return aboveFloor(all, settings.floor)
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
