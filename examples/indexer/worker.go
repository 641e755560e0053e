package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"path"
	"path/filepath"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// workerCommand is the hidden argument that makes this program a worker process.
const workerCommand = "worker"

// workerMain is the main function of a worker process. The parent passes the database in DATABASE_URL, ends the
// process by closing its stdin, which also happens when the parent dies, and reads the worker's id from stdout.
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

// runWorker serves the queue until ctx ends.
func runWorker(ctx context.Context, opts options, logger *slog.Logger, stdout io.Writer) error {
	pool, err := connect(ctx, opts.databaseURL, workerApplication(os.Getpid()))
	if err != nil {
		return err
	}
	defer pool.Close()
	client, err := pgqueue.NewClient(pool, pgqueue.WithLogger(logger))
	if err != nil {
		return err
	}
	mux := pgqueue.NewMux()
	pgqueue.HandleTx(mux, indexer{root: opts.root, pause: opts.pause}.index)

	config := pgqueue.WorkerConfig{Queues: pgqueue.Queues{indexQueue: {}}} // the defaults
	if opts.lease > 0 {                                                    // a test does not want to wait for them
		config.Lease, config.RenewEvery, config.StorageTimeout = opts.lease, opts.lease/3, opts.lease/3
		config.ReapInterval = opts.lease / 6
	}
	worker, err := client.NewWorker(mux, config)
	if err != nil {
		return err
	}
	fmt.Fprintln(stdout, worker.Status().ID)
	return worker.Run(ctx)
}

// workerApplication is the application_name of a worker process's connections.
func workerApplication(pid int) string { return fmt.Sprintf("indexer worker %d", pid) }

// indexer is the handler.
type indexer struct {
	root  string
	pause time.Duration
}

// Codes that the demo's jobs fail with.
const (
	codeParse   = "parse_error"
	codeMissing = "file_missing"
	codeChanged = "file_changed"
)

// index reads and parses the file of one job, which is slow and repeatable, and then writes what it found in tx, which
// commits together with the job's completion. If this process dies at any point, either both are there or neither is,
// and the job is run again.
func (x indexer) index(ctx context.Context, tx pgx.Tx, job *pgqueue.Job[IndexFile]) error {
	source, err := os.ReadFile(filepath.Join(x.root, filepath.FromSlash(job.Args.Path)))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return pgqueue.Permanent(pgqueue.Coded(codeMissing, err))
	case err != nil:
		return err // trying again may help: the library does, with backoff, three times
	case hashOf(source) != job.Revision:
		// Changed since it was enqueued. The next walk sees the new content and enqueues it.
		return pgqueue.Permanent(pgqueue.Coded(codeChanged, errors.New("the file is not the one that was enqueued")))
	}
	facts, err := parseSource(job.Args.Path, source)
	if err != nil {
		return pgqueue.Permanent(pgqueue.Coded(codeParse, err))
	}
	if err := x.takeTime(ctx); err != nil {
		return err
	}

	// The transaction begins here, at its first use.
	_, err = tx.Exec(ctx, `
		INSERT INTO demo.source_index (path, revision, import_path, package, lines, exported, documented)
		VALUES ($1, $2, $3, $4, $5, $6, $7)
		ON CONFLICT (path) DO UPDATE SET
			revision = excluded.revision, import_path = excluded.import_path, package = excluded.package,
			lines = excluded.lines, exported = excluded.exported, documented = excluded.documented, indexed_at = now()`,
		job.Args.Path, job.Revision, path.Dir(job.Args.Path), facts.Package, facts.Lines, facts.Exported, facts.Documented)
	if err != nil {
		return fmt.Errorf("write the index: %w", err)
	}
	_, err = tx.Exec(ctx, `INSERT INTO demo.runs (path, revision, job, attempt, worker_pid) VALUES ($1, $2, $3, $4, $5)`,
		job.Args.Path, job.Revision, job.ID, job.Attempt, os.Getpid())
	if err != nil {
		return fmt.Errorf("append to the log of runs: %w", err)
	}
	return nil
}

// takeTime makes the handler slow where a test wants that.
func (x indexer) takeTime(ctx context.Context) error {
	if x.pause <= 0 {
		return nil
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(x.pause):
		return nil
	}
}
