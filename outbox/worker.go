package outbox

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pgqueue/pgqueue/listener"
	"github.com/pgqueue/pgqueue/reaper"
	"github.com/pgqueue/pgqueue/runner"
)

// ErrBusy is returned by Run and Drain of a worker that runs or drains already: drains of one process do not stack.
var ErrBusy = errors.New("outbox: the worker is at it already")

// Worker works off a table: for ever with [Worker.Run], or until nothing is due with [Worker.Drain]. It does one of the two
// at a time. Its methods are safe for concurrent use.
type Worker[P, R any] struct {
	queue    *Queue[P, R]
	resident *runner.Runner[P, R]
	drains   *runner.Runner[P, R]
	until    *atomic.Pointer[pgtype.Timestamptz] // where the drain under way ends
	reaps    *reaper.Reaper
	listens  *listener.Listener // nil: no channel

	mu      sync.Mutex
	busy    lifecycle
	checked bool
	last    DrainResult
	drained time.Time
	count   uint64
}

type lifecycle uint8

const (
	idle lifecycle = iota
	running
	draining
)

// NewWorker makes a worker that gives the rows of queue to handler, which may be a [runner.HandlerFunc] or what [HandleTx]
// makes. It sends nothing.
func NewWorker[P, R any](queue *Queue[P, R], handler runner.Handler[P, R]) (*Worker[P, R], error) {
	if queue == nil {
		return nil, refuse("queue", "must not be nil")
	}
	if handler == nil {
		return nil, refuse("handler", "must not be nil")
	}
	w := &Worker[P, R]{queue: queue, until: &atomic.Pointer[pgtype.Timestamptz]{}}
	var err error
	if w.resident, err = runner.New(queue.Engine(), handler, queue.RunnerConfig()); err != nil {
		return nil, err
	}
	var bounded runner.Queue[P, R] = boundedQueue[P, R]{queue, w.until}
	if renewing, ok := queue.Renewing(); ok {
		bounded = boundedRenewing[P, R]{renewing, w.until}
	}
	if w.drains, err = runner.New(bounded, handler, queue.RunnerConfig()); err != nil {
		return nil, err
	}
	config := queue.config
	grace := time.Duration(0) // the reaper's own
	if queue.table.LeaseUntil != "" {
		grace = config.Lease / 3
	}
	w.reaps, err = reaper.New([]reaper.Target{{Name: config.Name, Recoverer: wakeAfter[P, R]{queue, w.resident}}}, reaper.Config{
		Interval: config.Tick, Grace: grace, CallTimeout: config.StorageTimeout, Logger: config.Logger, Observer: config.Observer,
	})
	if err != nil {
		return nil, err
	}
	if config.Channel != "" {
		if w.listens, err = w.newListener(); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// boundedQueue claims only what was due when the drain began, so that a drain ends although its own work, or a trigger, makes
// new rows.
type boundedQueue[P, R any] struct {
	*Queue[P, R]
	until *atomic.Pointer[pgtype.Timestamptz]
}

func (b boundedQueue[P, R]) Claim(ctx context.Context, request runner.ClaimRequest) ([]runner.Task[P], error) {
	return b.claimUntil(ctx, request, *b.until.Load())
}

type boundedRenewing[P, R any] struct {
	*Renewing[P, R]
	until *atomic.Pointer[pgtype.Timestamptz]
}

func (b boundedRenewing[P, R]) Claim(ctx context.Context, request runner.ClaimRequest) ([]runner.Task[P], error) {
	return b.claimUntil(ctx, request, *b.until.Load())
}

// wakeAfter wakes the runner when the reaper has put rows back.
type wakeAfter[P, R any] struct {
	*Queue[P, R]
	runner *runner.Runner[P, R]
}

func (w wakeAfter[P, R]) Recover(ctx context.Context, limit int) (reaper.Recovered, error) {
	recovered, err := w.Queue.Recover(ctx, limit)
	if recovered.Requeued > 0 {
		w.runner.Wake()
	}
	return recovered, err
}

func (w *Worker[P, R]) newListener() (*listener.Listener, error) {
	pool, config := w.queue.pool, w.queue.config
	connect := config.ListenerConn
	if connect == nil {
		connect = func(ctx context.Context) (*pgx.Conn, error) {
			like := pool.Config()
			conn := like.ConnConfig.Copy()
			if like.BeforeConnect != nil { // such as one that fetches a fresh password
				if err := like.BeforeConnect(ctx, conn); err != nil {
					return nil, err
				}
			}
			return pgx.ConnectConfig(ctx, conn)
		}
	}
	return listener.New(listener.Config{
		Connect: connect, Channel: config.Channel, OnHint: func(string) { w.Wake() }, OnConnect: w.Wake,
		Send: func(ctx context.Context, channel, payload string) error {
			_, err := pool.Exec(ctx, "SELECT pg_catalog.pg_notify($1, $2)", channel, payload)
			return err
		},
		Logger: config.Logger, Observer: config.Observer,
	})
}

// Wake is a hint that rows may be due. It never blocks, and a worker that does not run forgets it.
func (w *Worker[P, R]) Wake() { w.resident.Wake() }

// begin reserves the worker.
func (w *Worker[P, R]) begin(what lifecycle) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.busy != idle {
		return ErrBusy
	}
	w.busy = what
	return nil
}

func (w *Worker[P, R]) end() {
	w.mu.Lock()
	w.busy = idle
	w.mu.Unlock()
}

// Run works until ctx ends, then stops: it claims no more, hands back what has not started, lets running handlers finish
// within [Config].StopTimeout, cancels the rest, and writes every outcome, with contexts of its own. Stale claims are taken
// back first thing, and at each tick.
//
// It returns nil after a clean stop; a [*runner.StopError] that names the rows whose handlers ignored their context; [ErrBusy] when
// the worker runs or drains already; and an error that contains [ErrDescription] at once when the table is not as described. A
// database that cannot be reached is waited for. It may be called again when it has returned.
func (w *Worker[P, R]) Run(ctx context.Context) error {
	if err := w.begin(running); err != nil {
		return err
	}
	defer w.end()
	if err := w.awaitTable(ctx); err != nil {
		if ctx.Err() != nil {
			return nil // stopped before it started: nothing was claimed
		}
		return err
	}
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	var helpers sync.WaitGroup
	defer helpers.Wait()
	defer stop()
	helpers.Go(func() { w.logEnd("reaper", w.reaps.Run(background)) })
	if w.listens != nil {
		helpers.Go(func() { w.logEnd("listener", w.listens.Run(background)) })
	}
	return w.resident.Run(ctx)
}

func (w *Worker[P, R]) logEnd(what string, err error) {
	if err != nil {
		w.queue.log.Error("outbox: a loop of the worker ended", "loop", what, "error", err)
	}
}

// checkRetry is how often a worker that was started before its database looks for it.
const checkRetry = time.Second

// awaitTable checks the description once, and waits for a database that cannot be reached.
func (w *Worker[P, R]) awaitTable(ctx context.Context) error {
	for logged := false; ; logged = true {
		err := w.checkOnce(ctx)
		var fromServer *pgconn.PgError
		if err == nil || errors.Is(err, ErrDescription) || errors.As(err, &fromServer) && !startingUp(fromServer.Code) {
			return err
		}
		if ctx.Err() != nil { // which is why it failed
			return context.Cause(ctx)
		}
		if !logged {
			w.queue.log.Warn("outbox: waiting for the database", brief(err))
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(checkRetry):
		}
	}
}

// startingUp tells the errors of a server that will soon answer: class 57 (shutting down, starting up) and 53 (out of
// connections).
func startingUp(code string) bool { return len(code) == 5 && (code[:2] == "57" || code[:2] == "53") }

// checkOnce checks the description until that has worked once, and logs its warnings.
func (w *Worker[P, R]) checkOnce(ctx context.Context) error {
	w.mu.Lock()
	done := w.checked
	w.mu.Unlock()
	if done {
		return nil
	}
	report, err := w.queue.Check(ctx)
	if err != nil {
		return err
	}
	for _, warning := range report.Warnings {
		w.queue.log.Warn("outbox: the table works, but should not be left as it is", "warning", warning.Message, "run", warning.Statement,
			"poll", report.Poll)
	}
	w.mu.Lock()
	w.checked = true
	w.mu.Unlock()
	return nil
}

// WorkerStatus is what a worker is doing now. It is a copy.
type WorkerStatus struct {
	Running  bool // Run has been called and has not returned
	Draining bool // the same for Drain
	Runner   runner.Status
	Reaper   reaper.Status
	Listener *listener.Status // nil without [Config].Channel
	// Rejected counts claims and ends of attempts that the table refused, because a trigger or a constraint raised.
	Rejected uint64
	// Drains counts drains that have ended, LastDrain is what the latest did, and LastDrainAt when it ended.
	Drains      uint64
	LastDrain   DrainResult
	LastDrainAt time.Time
}

// Status tells what the worker is doing now, without asking the database. While it drains, and afterwards until it runs, Runner
// is that of the drains.
func (w *Worker[P, R]) Status() WorkerStatus {
	w.mu.Lock()
	status := WorkerStatus{Running: w.busy == running, Draining: w.busy == draining, Drains: w.count, LastDrain: w.last, LastDrainAt: w.drained}
	w.mu.Unlock()
	status.Runner = w.resident.Status()
	if status.Draining || !status.Running && status.Drains > 0 {
		status.Runner = w.drains.Status()
	}
	status.Reaper = w.reaps.Status()
	if w.listens != nil {
		listening := w.listens.Status()
		status.Listener = &listening
	}
	status.Rejected = w.queue.counts.rejected.Load()
	return status
}

// now reads the database's clock.
func (q *Queue[P, R]) now(ctx context.Context) (at pgtype.Timestamptz, err error) {
	err = q.do(ctx, "clock", args{}, func(rows pgx.Rows) error {
		_, err := pgx.ForEachRow(rows, []any{&at}, func() error { return nil })
		return err
	})
	if err == nil && !at.Valid {
		err = fmt.Errorf("no answer")
	}
	return at, q.wrap("read the clock", err)
}
