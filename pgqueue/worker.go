package pgqueue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/internal/lazytx"
	"github.com/pgqueue/pgqueue/listener"
	"github.com/pgqueue/pgqueue/pgqueue/internal/jobstore"
	"github.com/pgqueue/pgqueue/reaper"
	"github.com/pgqueue/pgqueue/runner"
)

// jobRunner is the engine over the jobs table.
type jobRunner = runner.Runner[*jobstore.Row, json.RawMessage]

// Worker serves queues in one process: a runner for each queue, and one listener, one reaper and one probe for all. It is made by
// [Client.NewWorker], does nothing before [Worker.Run], and may be run again after Run has returned. Its methods are
// safe for concurrent use.
type Worker struct {
	client   *Client
	config   WorkerConfig
	pool     *pgxpool.Pool
	stale    *staleConnections // of pool
	runners  map[string]*jobRunner
	results  []string           // kinds whose handlers have results
	listens  *listener.Listener // nil when the listener is disabled
	reaps    *reaper.Reaper
	probes   *prober
	logger   *slog.Logger
	kinds    []string // that have a handler, aliases included
	aliases  map[string]string
	beats    *heartbeat // nil: off
	control  *control
	progress *progressReporter

	mutex   sync.Mutex
	cancel  context.CancelFunc // of the running Run; nil when there is none
	ctx     context.Context    // of the running Run: it stops when this has ended
	phase   phase
	hurried atomic.Bool   // StopNow was called
	loops   loopPulses    // that are no runner's
	waits   string        // why Run waits for the database
	ended   chan struct{} // closed when the running Run returns
	result  error         // of the latest Run, once ended is closed

	subscriptions []*Subscription // of the running Run, or of the next
}

// NewWorker makes a worker that serves config.Queues with the handlers of mux. It sends no SQL. Bad settings, and what
// was wrong with mux's registrations, are returned as errors that name the field.
func (c *Client) NewWorker(mux *Mux, config WorkerConfig) (*Worker, error) {
	if c.closed.Load() {
		return nil, fmt.Errorf("make a worker: %w", ErrClosed)
	}
	if mux == nil {
		return nil, fmt.Errorf("make a worker: %w", invalid("mux", "must not be nil"))
	}
	if err := config.validate(); err != nil {
		return nil, fmt.Errorf("make a worker: %w", err)
	}
	if config.ID == "" {
		config.ID = newWorkerID()
	}
	if config.Observer == nil {
		config.Observer = c.observer
	}
	pool, stale := c.pool, c.stale
	if config.Pool != nil && config.Pool != pool {
		pool, stale = config.Pool, &staleConnections{pool: config.Pool, logger: c.logger}
	}
	w := &Worker{client: c, config: config, pool: pool, stale: stale, logger: c.logger, runners: map[string]*jobRunner{}, results: mux.resultKinds()}
	w.control, w.progress = newControl(w), newProgressReporter(w)
	w.probes = &prober{timeout: config.storageTimeout(), logger: c.logger}
	if config.heartbeatEvery() > 0 {
		w.beats = newHeartbeat(w)
	}
	targets, err := w.addQueues(mux)
	if err != nil {
		return nil, fmt.Errorf("make a worker: %w", err)
	}
	w.loops.makeFor(w.queueNames())
	w.reaps, err = reaper.New(targets, reaper.Config{
		Interval: config.ReapInterval,
		Grace:    config.renewInterval(),
		Logger:   c.logger,
		Observer: w.config.Observer,
	})
	if err != nil {
		return nil, fmt.Errorf("make a worker: %w", err)
	}
	if !config.DisableListener {
		if w.listens, err = w.newListener(); err != nil {
			return nil, fmt.Errorf("make a worker: %w", err)
		}
	}
	return w, nil
}

// addQueues makes a runner for each queue and returns what the reaper has to look after: every queue's leases, and the
// partitions of the history once.
func (w *Worker) addQueues(mux *Mux) ([]reaper.Target, error) {
	handlers, kinds, err := mux.freeze()
	if err != nil {
		return nil, err
	}
	names := kindNames(kinds)
	w.kinds = names
	w.aliases = aliasesOf(kinds)
	handle := &dispatcher{
		store: w.client.store, pool: w.pool, open: lazytx.NewSlots(w.pool.Config().MaxConns),
		handlers: handlers, maxResult: w.client.maxPayload, codecs: w.client.codecs, progress: w.progress, ends: w.control,
	}
	var targets []reaper.Target
	look := newLookout()
	for _, name := range slices.Sorted(maps.Keys(w.config.Queues)) {
		queue, err := w.client.store.Queue(w.pool, jobstore.QueueConfig{
			Name: name, WorkerID: w.config.ID, Kinds: names, Poll: w.config.Queues[name].Poll,
			KeepHistory: w.config.KeepHistory, KeepAttention: w.config.KeepAttention, KeepAudit: w.config.KeepAudit, Logger: w.logger, ReadOnly: w.stale.refused,
			Seal: w.client.codecs.messageSealer(), Ends: w.control, Returning: w.progress.ending,
		})
		if err != nil {
			return nil, fmt.Errorf("queue %q: %w", name, err)
		}
		run, err := runner.New(queue, handle, w.config.runnerConfig(w.client, name, kinds))
		if err != nil {
			return nil, settingError(name, kinds, err)
		}
		w.runners[name] = run
		poll := w.config.Queues[name].Poll
		if poll == 0 {
			poll = runner.DefaultPoll
		}
		w.probes.queues = append(w.probes.queues, &probedQueue{queue: queue, tell: run.Probed, poll: poll})
		target := reaper.Target{Name: name, Recoverer: recoverer{queue, run, look}}
		look.queues = append(look.queues, queue)
		if len(targets) == 0 {
			target.Maintainer = queue
		}
		targets = append(targets, target)
	}
	return targets, nil
}

// recoverer reaps a queue where a lease has run out, and wakes its runner when that has returned jobs to it.
type recoverer struct {
	*jobstore.Queue
	runner *jobRunner
	look   *lookout
}

func (r recoverer) Recover(ctx context.Context, limit int) (reaper.Recovered, error) {
	if lapsed, err := r.look.lapsed(ctx, r.Queue); err != nil || !lapsed {
		return reaper.Recovered{}, err
	}
	recovered, err := r.Queue.Recover(ctx, limit)
	r.look.reaped(r.Queue, err != nil || recovered.Total() >= limit)
	if recovered.Requeued+recovered.Superseded > 0 {
		r.runner.Wake()
	}
	return recovered, err
}

func (w *Worker) newListener() (*listener.Listener, error) {
	connect := w.config.ListenerConn
	if connect == nil {
		connect = func(ctx context.Context) (*pgx.Conn, error) { return connectLike(ctx, w.pool) }
	}
	return listener.New(listener.Config{
		Connect: connect,
		Channel: w.client.channel,
		Send: func(ctx context.Context, channel, payload string) error {
			_, err := w.pool.Exec(ctx, "SELECT pg_notify($1, $2)", channel, payload)
			return err
		},
		OnHint: func(queue string) {
			if run, ok := w.runners[queue]; ok {
				run.Wake()
			}
		},
		OnConnect:    w.wakeAll,
		Control:      w.client.control,
		OnControl:    w.control.heard,
		EchoInterval: w.config.echoEvery,
		Logger:       w.logger,
		Observer:     w.config.Observer,
	})
}

// connectLike opens a connection of its own with the settings of pool, for the listener. That sends nothing for as long as nothing goes
// wrong, so it takes back an idle_session_timeout that the role or the server may have: every cut would lose the hints of the
// gap. Where there is none the session is left as it is, which is what matters behind a pooler.
func connectLike(ctx context.Context, pool *pgxpool.Pool) (*pgx.Conn, error) {
	config := pool.Config()
	connConfig := config.ConnConfig.Copy()
	if config.BeforeConnect != nil { // such as one that fetches a fresh password
		if err := config.BeforeConnect(ctx, connConfig); err != nil {
			return nil, err
		}
	}
	conn, err := pgx.ConnectConfig(ctx, connConfig)
	if err != nil {
		return nil, err
	}
	const stay = `SELECT pg_catalog.set_config('idle_session_timeout', '0', false)
		WHERE pg_catalog.current_setting('idle_session_timeout', true) <> '0'`
	if _, err := conn.Exec(ctx, stay, pgx.QueryExecModeExec); err != nil {
		return nil, errors.Join(fmt.Errorf("set up the listener's session: %w", err), conn.Close(ctx))
	}
	return conn, nil
}

func (w *Worker) wakeAll() {
	w.control.lost()
	for _, run := range w.runners {
		run.Wake()
	}
}

// Run serves the queues until ctx ends, then stops: it claims no more, releases what it has not started, lets running
// handlers finish within StopTimeout, cancels the rest, and writes every outcome, with contexts of its own.
//
// It returns nil after a clean stop; an error that names the jobs whose handlers ignored their context and are left to
// their leases; [ErrWorkerRunning] when it runs already; or at once an error about the database: a [*StartError] when it has no
// schema that this version can work with, when the role lacks rights, or row-level security hides its jobs from it, when the session
// is read-only or has a setting that does not do; a [*ValidationError] when a queue keeps no history although handlers have
// results. A database that cannot be reached is waited for, and a standby for half a minute, because a failover may be under way.
//
// End ctx with [signal.NotifyContext], and have a second signal call [Worker.StopNow].
func (w *Worker) Run(ctx context.Context) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan struct{})
	w.mutex.Lock()
	if w.cancel != nil {
		w.mutex.Unlock()
		return ErrWorkerRunning
	}
	w.cancel, w.ended, w.ctx, w.phase, w.waits = cancel, ended, ctx, starting, ""
	w.hurried.Store(false)
	w.mutex.Unlock()
	defer func() {
		w.mutex.Lock()
		w.cancel, w.result, w.phase = nil, err, idle
		w.endSubscriptions()
		w.mutex.Unlock()
		close(ended)
	}()

	if err := w.awaitSchema(ctx); err != nil {
		if ctx.Err() != nil {
			return nil // stopped before it started: nothing was claimed
		}
		return fmt.Errorf("run the worker: %w", err)
	}
	return w.serve(ctx)
}

// serve runs all loops. Listener and reaper outlive the runners, which may still be writing when ctx has ended.
func (w *Worker) serve(ctx context.Context) error {
	background, stopBackground := context.WithCancel(context.WithoutCancel(ctx))
	defer stopBackground()
	var helpers, serving sync.WaitGroup
	w.loops.begin()
	if w.listens != nil {
		helpers.Go(func() {
			defer w.loops.listens.End()
			w.logEnd("listener", w.listens.Run(background))
		})
	}
	helpers.Go(func() {
		defer w.loops.reaps.End()
		w.logEnd("reaper", w.reaps.Run(background))
	})
	helpers.Go(func() { w.control.run(background) })
	helpers.Go(func() { w.progress.run(background) })
	w.probes.pulse.Begin(w.probes.timeout)
	helpers.Go(func() { w.probes.run(background) })
	if w.beats != nil {
		w.beats.pulse.Begin(3 * w.beats.timeout)
		helpers.Go(func() { w.beats.run(background, 0, func() bool { return ctx.Err() != nil }) })
	}

	w.logger.Info("pgqueue: worker started", "id", w.config.ID, "queues", slices.Sorted(maps.Keys(w.runners)), "kinds", w.kinds)
	defer w.logger.Info("pgqueue: worker stopped", "id", w.config.ID)
	var mutex sync.Mutex
	var errs []error
	for name, run := range w.runners {
		ended := w.loops.runners[name]
		serving.Go(func() {
			defer ended.End()
			if err := run.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
				mutex.Lock()
				errs = append(errs, fmt.Errorf("queue %q: %w", name, err))
				mutex.Unlock()
			}
		})
	}
	w.setPhase(serves)
	serving.Wait()
	stopBackground()
	helpers.Wait()
	if w.beats != nil && len(errs) == 0 && !w.hurried.Load() {
		w.beats.leave()
	}
	return errors.Join(errs...)
}

func (w *Worker) logEnd(what string, err error) {
	if err != nil && !errors.Is(err, context.Canceled) {
		w.logger.Error("pgqueue: a loop of the worker ended", "loop", what, "error", err)
	}
}

// ID is the name under which this worker claims, as in the column claimed_by.
func (w *Worker) ID() string { return w.config.ID }

// Stop has a running Run stop as if its context had ended, and waits until it has returned or ctx ends. It returns nil
// when the worker does not run, ctx's error when that ended first, and otherwise what Run returned: an error that names
// the jobs whose handlers ignored their context.
func (w *Worker) Stop(ctx context.Context) error {
	w.mutex.Lock()
	cancel, ended := w.cancel, w.ended
	w.mutex.Unlock()
	if cancel == nil {
		return nil
	}
	cancel()
	select {
	case <-ended:
		w.mutex.Lock()
		defer w.mutex.Unlock()
		return w.result
	case <-ctx.Done():
		return fmt.Errorf("stop the worker: %w", context.Cause(ctx))
	}
}
