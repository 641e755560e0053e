package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// demoRun is one run of the demo.
type demoRun struct {
	opts options
	out  io.Writer
	db   *database
	pool *pgxpool.Pool

	started time.Time // on the database's clock
	tree    []sourceFile
	diff    treeDiff
	before  int          // jobs that an earlier, interrupted run left
	placed  atomic.Int64 // files enqueued so far, by this run
	victim  *casualty    // nil until a process is killed, and if none is
}

// demo brings the index up to date and proves that it did. The error says what did not hold.
func demo(ctx context.Context, opts options, out io.Writer) (_ result, err error) {
	root, err := opts.sourceRoot()
	if err != nil {
		return result{}, err
	}
	opts.root = root
	db, err := openDatabase(ctx, opts)
	if err != nil {
		return result{}, err
	}
	defer func() { err = errors.Join(err, db.close()) }()
	pool, err := connect(ctx, db.url, "indexer")
	if err != nil {
		return result{}, err
	}
	defer pool.Close()
	release, err := claimDatabase(ctx, pool)
	if err != nil {
		return result{}, err
	}
	defer release()
	quiet := slog.New(slog.DiscardHandler) // what goes wrong comes back as an error
	if err := migrate(ctx, pool, quiet); err != nil {
		return result{}, err
	}
	say(out, "database", "%s", db.description)

	r := &demoRun{opts: opts, out: out, db: db, pool: pool}
	r.opts.databaseURL = db.url
	if err := r.look(ctx); err != nil {
		return result{}, err
	}
	if r.total() == 0 {
		say(out, "work", "none: every file is indexed already, so no worker is started and none is killed")
	} else if err := r.work(ctx, quiet); err != nil {
		return result{}, err
	}
	return r.report(ctx)
}

// say prints one line of the story.
func say(out io.Writer, what, format string, args ...any) {
	fmt.Fprintf(out, "%-10s %s\n", what, fmt.Sprintf(format, args...))
}

// look walks the tree and compares it with what is recorded.
func (r *demoRun) look(ctx context.Context) error {
	err := r.pool.QueryRow(ctx, `
		SELECT statement_timestamp(), (SELECT count(*) FROM pgqueue.jobs WHERE queue = $1)`, indexQueue).Scan(&r.started, &r.before)
	if err != nil {
		return fmt.Errorf("look at the queue: %w", err)
	}
	if r.tree, err = walkTree(ctx, r.opts.root); err != nil {
		return err
	}
	if r.diff, err = diffTree(ctx, r.pool, r.tree); err != nil {
		return err
	}
	say(r.out, "tree", "%d Go files below %s", len(r.tree), r.opts.root)
	say(r.out, "to do", "%d new or changed, %d vanished, %d left by an interrupted run", len(r.diff.changed), len(r.diff.vanished), r.before)
	return removeVanished(ctx, r.pool, r.diff.vanished)
}

// total is how many jobs there are to do.
func (r *demoRun) total() int { return r.before + len(r.diff.changed) }

// work starts the workers, enqueues, and waits until the queue is empty.
func (r *demoRun) work(ctx context.Context, logger *slog.Logger) (err error) {
	client, err := pgqueue.NewClient(r.pool, pgqueue.WithLogger(logger))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close(context.WithoutCancel(ctx))) }()

	var workers []*workerProcess
	defer func() { err = errors.Join(err, stopWorkers(workers, r.victim)) }()
	for range workerProcesses {
		worker, err := startWorker(ctx, r.opts)
		if err != nil {
			return err
		}
		workers = append(workers, worker)
		say(r.out, "worker", "process %d is %s", worker.pid, worker.id)
	}

	// Enqueue and watch side by side; whichever fails first ends the other.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	enqueued := make(chan struct{})
	go func() {
		defer close(enqueued)
		if err := enqueueChanged(ctx, r.pool, client, r.diff.changed, &r.placed); err != nil {
			cancel(err)
		}
	}()
	err = r.watch(ctx, workers, enqueued)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	cancel(nil)
	<-enqueued
	return err
}

// watchInterval is how often the queue is looked at.
const watchInterval = 50 * time.Millisecond

// stallTimeout is how long nothing may happen. A lease and its backoff are much shorter.
const stallTimeout = 3 * time.Minute

// watch shows the progress, kills one of the workers when it is time, and returns when the queue is empty.
func (r *demoRun) watch(ctx context.Context, workers []*workerProcess, enqueued <-chan struct{}) error {
	bar := newProgress(r.out, r.total())
	defer bar.end()
	ticker := time.NewTicker(watchInterval)
	defer ticker.Stop()
	done, moved := 0, time.Now()
	for {
		allEnqueued := isClosed(enqueued) // before the look: what is empty then stays empty
		queue, err := r.backlog(ctx)
		if err != nil {
			return err
		}
		if now := r.total() - queue.live - (len(r.diff.changed) - int(r.placed.Load())); now > done {
			done, moved = now, time.Now()
		}
		bar.show(done, queue, r.victim)
		if allEnqueued && queue.live == 0 {
			bar.show(r.total(), queue, r.victim)
			return nil
		}
		if time.Since(moved) > stallTimeout {
			return fmt.Errorf("no job has ended for %s: %d are waiting, %d running", stallTimeout, queue.waiting, queue.running)
		}
		for _, worker := range workers {
			if !worker.running() && !r.victim.is(worker) {
				return worker.failure()
			}
		}
		if r.victim == nil && r.total() >= r.opts.killFrom && done*10 >= r.total() {
			if r.victim, err = killOne(ctx, r.pool, workers); err != nil {
				return err
			}
			if r.victim != nil {
				bar.note("killed     process %d with SIGKILL: SQL showed %d rows in its hands, and %d stayed there",
					r.victim.worker.pid, r.victim.shown, len(r.victim.jobs))
			}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
}

func isClosed(channel <-chan struct{}) bool {
	select {
	case <-channel:
		return true
	default:
		return false
	}
}

// backlog is what is in the queue.
type backlog struct {
	live     int // all of it
	waiting  int // pending
	running  int
	orphaned int // running, by the killed process
}

func (r *demoRun) backlog(ctx context.Context) (backlog, error) {
	var b backlog
	err := r.pool.QueryRow(ctx, `
		SELECT count(*), count(*) FILTER (WHERE state = 'pending'), count(*) FILTER (WHERE state = 'running'),
		       count(*) FILTER (WHERE state = 'running' AND claimed_by = $2)
		FROM pgqueue.jobs
		WHERE queue = $1`, indexQueue, r.victim.id()).Scan(&b.live, &b.waiting, &b.running, &b.orphaned)
	if err != nil {
		return backlog{}, fmt.Errorf("look at the queue: %w", err)
	}
	return b, nil
}
