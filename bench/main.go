// Command bench measures pgqueue and prints one JSON object a line. It starts a Postgres of its own, with fsync on and
// the server's defaults otherwise, or takes DATABASE_URL, whose server it then fills with throwaway databases.
//
//	JOBS=200000 ROUNDS=3 go run .
//
// Figures of different runs, or of different machines, do not compare: what counts is a ratio within one run. See
// README.md in this folder for what is measured and how.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	jobs, err := number("JOBS", 200_000)
	if err != nil {
		return err
	}
	rounds, err := number("ROUNDS", 3)
	if err != nil {
		return err
	}
	server, err := openServer(ctx)
	if err != nil {
		return err
	}
	defer server.close()
	results, err := measureDrain(ctx, server, jobs, rounds)
	if err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	for _, result := range results {
		if err := out.Encode(result); err != nil {
			return err
		}
	}
	return nil
}

// number reads a positive number from the environment.
func number(name string, otherwise int) (int, error) {
	text := os.Getenv(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%s must be a positive number, is %q", name, text)
	}
	return n, nil
}
