package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/examples/internal/throwaway"
)

// processes is how many share the work.
const processes = 2

// patience bounds a run, which takes about a quarter of a minute.
const patience = 5 * time.Minute

// casualty is the process that was killed.
type casualty struct {
	process *process
	at      time.Time
	inHand  int // sends that were under way
}

// run is one run of the demo.
type run struct {
	opts      options
	out       io.Writer
	pool      *pgxpool.Pool
	url       string
	providers *providerServer
	killed    casualty
}

// demo runs everything once, and returns what it found or what did not hold.
func demo(ctx context.Context, opts options, out io.Writer) (_ result, err error) {
	db, err := throwaway.Open(ctx)
	if err != nil {
		return result{}, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	pool, err := throwaway.Connect(ctx, db.URL, 4, map[string]string{"application_name": "outbox"})
	if err != nil {
		return result{}, err
	}
	defer pool.Close()
	if _, err := pool.Exec(ctx, schemaSQL); err != nil {
		return result{}, fmt.Errorf("make the tables: %w", err)
	}
	var old int
	if err := pool.QueryRow(ctx, `SELECT count(*) FROM notify.deliveries`).Scan(&old); err != nil {
		return result{}, fmt.Errorf("look for an earlier run: %w", err)
	}
	if old > 0 { // their providers, and their log, are gone
		return result{}, fmt.Errorf("schema notify holds %d deliveries of an earlier run: DROP SCHEMA notify CASCADE starts anew", old)
	}
	fmt.Fprintf(out, "database   %s\n", db.Description)
	r := &run{opts: opts, out: out, pool: pool, url: db.URL}
	if r.providers, err = startProviders(opts.seed); err != nil {
		return result{}, err
	}
	defer r.providers.close()
	began := time.Now()
	working, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("some deliveries have not ended within %s", patience))
	defer cancel()
	if err := r.work(working); err != nil {
		return result{}, err
	}
	return r.prove(ctx, time.Since(began))
}

// work starts the processes, makes the notifications, kills one process, starts another, and waits until every delivery has
// ended.
func (r *run) work(ctx context.Context) (err error) {
	var all []*process
	defer func() { err = errors.Join(err, stopAll(all, r.killed.process)) }()
	for range processes {
		p, err := startProcess(ctx, r.opts, r.url, r.providers.url)
		if err != nil {
			return err
		}
		all = append(all, p)
	}
	fmt.Fprintf(r.out, "workers    processes %d and %d, %d sends at once each; a claim holds for %s\n", all[0].pid, all[1].pid, r.opts.workers, r.opts.lease())

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	produced := make(chan struct{})
	go func() {
		defer close(produced)
		if err := produce(ctx, r.pool, r.opts.notifications); err != nil {
			cancel(err)
		}
	}()
	defer func() { <-produced }()
	defer cancel(nil)

	if err := r.killOne(ctx, all); err != nil {
		return err
	}
	// As an orchestrator would. It has a table full of other processes' claims before it, and must leave the living ones alone.
	replacement, err := startProcess(ctx, r.opts, r.url, r.providers.url)
	if err != nil {
		return err
	}
	all = append(all, replacement)
	fmt.Fprintf(r.out, "restart    process %d takes its place\n", replacement.pid)
	select {
	case <-produced:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return r.awaitEnd(ctx, all)
}

// count asks for one number.
func (r *run) count(ctx context.Context, sql string) (n int, err error) {
	err = r.pool.QueryRow(ctx, sql).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count deliveries: %w", err)
	}
	return n, nil
}

// killOne waits until a third is delivered, and then for a process with several sends under way, which it kills.
func (r *run) killOne(ctx context.Context, all []*process) error {
	for {
		delivered, err := r.count(ctx, `SELECT count(*) FROM notify.deliveries WHERE status = 'delivered'`)
		if err != nil {
			return err
		}
		for _, p := range all {
			if !p.running() {
				return p.failure()
			}
			if inHand := r.providers.inHand(p.pid); delivered >= r.opts.notifications/3 && inHand >= min(4, r.opts.workers/2) {
				r.killed = casualty{process: p, at: time.Now(), inHand: inHand}
				p.kill()
				fmt.Fprintf(r.out, "kill       process %d with SIGKILL, %d sends in its hands, %d delivered so far\n", p.pid, inHand, delivered)
				return nil
			}
		}
		left, err := r.count(ctx, `SELECT count(*) FROM notify.deliveries WHERE status IN ('pending', 'processing')`)
		if err != nil {
			return err
		}
		if delivered > 0 && left == 0 && delivered >= r.opts.notifications/2 {
			return errors.New("all was done before a process could be killed: more notifications, please")
		}
		if err := pause(ctx, time.Millisecond); err != nil {
			return err
		}
	}
}

// awaitEnd waits until every delivery has ended.
func (r *run) awaitEnd(ctx context.Context, all []*process) error {
	said := time.Now()
	for {
		left, err := r.count(ctx, `SELECT count(*) FROM notify.deliveries WHERE status IN ('pending', 'processing')`)
		if err != nil {
			return err
		}
		if left == 0 {
			return nil
		}
		for _, p := range all {
			if p != r.killed.process && !p.running() {
				return p.failure()
			}
		}
		if time.Since(said) > time.Second {
			said = time.Now()
			fmt.Fprintf(r.out, "waiting    %d deliveries have not ended\n", left)
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// printSQL prints what package outbox would send. It needs no database.
func printSQL(opts options, out io.Writer) error {
	pool, err := pgxpool.New(context.Background(), "host=localhost") // connects at its first use, of which there is none
	if err != nil {
		return fmt.Errorf("make a pool: %w", err)
	}
	defer pool.Close()
	queue, err := newQueue(pool, opts, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	for _, s := range queue.SQL() {
		fmt.Fprintf(out, "-- %s\n%s;\n\n", s.Name, s.SQL)
	}
	return nil
}
