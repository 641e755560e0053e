package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/examples/internal/throwaway"
	"github.com/pgqueue/pgqueue/reaper"
	"github.com/pgqueue/pgqueue/runner"
)

// pools are three, so that none of the three can keep the others waiting for a connection.
type pools struct {
	app     *pgxpool.Pool // the application's transactions
	queue   *pgxpool.Pool // claims, reports, renewals
	readers *pgxpool.Pool // what handlers read; read-only, so it could be a replica's
}

func openPools(ctx context.Context, url string, workers int) (p pools, err error) {
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	if p.app, err = throwaway.Connect(ctx, url, 4, map[string]string{"application_name": "embeddings app"}); err != nil {
		return p, err
	}
	if p.queue, err = throwaway.Connect(ctx, url, 4, map[string]string{"application_name": "embeddings queue"}); err != nil {
		return p, err
	}
	p.readers, err = throwaway.Connect(ctx, url, int32(workers), map[string]string{
		"application_name": "embeddings readers", "default_transaction_read_only": "on"})
	return p, err
}

func (p pools) close() {
	for _, pool := range []*pgxpool.Pool{p.app, p.queue, p.readers} {
		if pool != nil {
			pool.Close()
		}
	}
}

// demo runs the program once, and returns what it found or what did not hold.
func demo(ctx context.Context, opts options, out io.Writer) (_ result, err error) {
	db, err := throwaway.Open(ctx)
	if err != nil {
		return result{}, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	fmt.Fprintf(out, "database   %s\n", db.Description)
	return runOn(ctx, db.URL, opts, out)
}

func runOn(ctx context.Context, url string, opts options, out io.Writer) (result, error) {
	p, err := openPools(ctx, url, opts.workers)
	if err != nil {
		return result{}, err
	}
	defer p.close()
	if _, err := p.app.Exec(ctx, schemaSQL); err != nil {
		return result{}, fmt.Errorf("make the tables: %w", err)
	}
	q := &queue{pool: p.queue, maxAttempts: 5, freshness: &freshness{}}
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})) // a verdict that is lost is a warning, and nothing special here
	r, err := runner.New(q, &embedder{readers: p.readers, latency: opts.latency}, runner.Config{
		Name: "embeddings", Workers: opts.workers,
		// A killed process costs its documents these few seconds. Renewal keeps the leases of living ones.
		Lease: 6 * time.Second, Deadline: 30 * time.Second,
		Logger: logger,
	})
	if err != nil {
		return result{}, err
	}
	stale, err := reaper.New([]reaper.Target{{Name: "embeddings", Recoverer: q}}, reaper.Config{Interval: time.Second, Logger: logger})
	if err != nil {
		return result{}, err
	}

	working, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 2)
	go func() { ended <- r.Run(working) }()
	go func() { ended <- stale.Run(working) }()

	// In another process than the workers, Wake would be a pg_notify beside the change, and package listener would hear it.
	editing, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("some vectors are behind after %s", patience))
	defer cancel()
	err = newEditor(p.app, opts, r.Wake).edit(editing, out)
	if err == nil {
		err = awaitQuiet(editing, p.app, out)
	}
	stop()
	err = errors.Join(err, <-ended, <-ended)
	if err != nil {
		return result{}, err
	}
	return prove(ctx, p.app, r.Status().Outcomes, q.freshness.summary(), out)
}

// patience bounds a run, which takes a few seconds.
const patience = 5 * time.Minute

// awaitQuiet waits until every vector is up to date, and says meanwhile how far behind they are.
func awaitQuiet(ctx context.Context, pool *pgxpool.Pool, out io.Writer) error {
	var said time.Time
	for {
		now, err := measureLag(ctx, pool)
		if err != nil {
			return err
		}
		if now.behind == 0 {
			return nil
		}
		if time.Since(said) > time.Second {
			said = time.Now()
			fmt.Fprintf(out, "lag        %d documents are behind, the oldest for %.1f s\n", now.behind, now.oldest.Seconds())
		}
		if err := wait(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}
