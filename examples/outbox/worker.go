package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/pgqueue/pgqueue/examples/internal/throwaway"
	"github.com/pgqueue/pgqueue/outbox"
)

// workerCommand is the hidden argument that makes this program a worker process.
const workerCommand = "worker"

// Environment of a worker process.
const (
	envDatabase  = "DATABASE_URL"
	envProviders = "OUTBOX_PROVIDERS"
)

// workerMain is the main function of a worker process. The parent ends it by closing its stdin, which also happens when the
// parent dies.
func workerMain(opts options, stdin io.Reader, stdout, stderr io.Writer) int {
	// A program of its own would write: signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM).
	// Here the terminal sends Ctrl-C to parent and children alike, and the parent decides when its workers stop.
	signal.Ignore(os.Interrupt)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, stdin) // returns when the parent is done with us, or dead
		stop()
	}()
	logger := slog.New(slog.NewTextHandler(stderr, nil))
	if err := runWorker(ctx, opts, logger, stdout); err != nil {
		logger.Error("the worker ended", "error", err)
		return 1
	}
	return 0
}

// runWorker delivers until ctx ends.
func runWorker(ctx context.Context, opts options, logger *slog.Logger, stdout io.Writer) error {
	pool, err := throwaway.Connect(ctx, os.Getenv(envDatabase), 4, map[string]string{"application_name": "outbox worker"})
	if err != nil {
		return err
	}
	defer pool.Close()
	queue, err := newQueue(pool, opts, logger)
	if err != nil {
		return err
	}
	worker, err := outbox.NewWorker(queue, newSender(os.Getenv(envProviders), opts.timeout, opts.workers))
	if err != nil {
		return err
	}
	fmt.Fprintln(stdout, "ready")
	return worker.Run(ctx)
}
