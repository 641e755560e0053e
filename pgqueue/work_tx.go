package pgqueue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgqueue/pgqueue/internal/lazytx"
	"github.com/pgqueue/pgqueue/pgqueue/internal/jobstore"
	"github.com/pgqueue/pgqueue/runner"
)

// CodeTxAborted marks an attempt in [Client.DrainTx] whose handler reported no error although one of its statements had
// failed and aborted the transaction.
const CodeTxAborted = "tx_aborted"

const (
	// txStatementTimeout bounds each statement of DrainTx where the configuration does not allow longer: a statement that is
	// given up closes the caller's connection, so tests on a busy machine get plenty of time.
	txStatementTimeout = time.Minute
	// txNoDeadline stands for "no deadline" in DrainTx, where nothing is renewed and a lease has to have an end.
	txNoDeadline = 24 * time.Hour
)

// DrainTx is [Client.Drain] inside a transaction of the caller's: it claims what is due, runs its handlers and completes it,
// all of it in tx, until nothing is due any more. Rolling tx back undoes everything. Jobs that were enqueued in tx are
// worked, also those that handlers enqueue in it; so are committed ones, which stay locked until tx ends.
//
// It is for tests and for nothing else: handlers run while tx is open, one at a time, and keep what it has locked. Package
// pgqueuetest wraps it.
//
// A handler of [HandleTx] gets a savepoint of tx instead of a transaction of its own, which is released together with the
// job's completion, or rolled back. Any other handler may use tx too, as long as it does not end it. Each handler runs
// behind a savepoint; if a statement of a plain handler fails, which aborts the transaction, what that handler wrote in tx
// is rolled back and its attempt has failed, with its own error or with code [CodeTxAborted] if it returned none. A
// transaction that a handler begins elsewhere does not see jobs of tx: [Job.CompleteTx] returns [ErrLeaseLost] there.
//
// Of config it uses Queues (with Deadline, CleanUp and Backoff), ID, StopTimeout, StoreErrorText and Observer. Leases are not
// renewed and stale ones not returned, and the pool is never used. If ctx ends in the middle of a handler's statement,
// or the handler's deadline passes there, pgx closes the connection, and DrainTx returns an error. It returns an error as
// well when tx cannot be used any more, and one that is [ErrSchema] where the tables are missing.
func (c *Client) DrainTx(ctx context.Context, tx pgx.Tx, mux *Mux, config WorkerConfig) (DrainResult, error) {
	runners, turn, err := c.txRunners(tx, mux, config, nil)
	if err != nil {
		return DrainResult{}, fmt.Errorf("drain in a transaction: %w", err)
	}
	if err := c.checkResults(ctx, tx, mux.resultKinds(), config.Queues); err != nil {
		return DrainResult{}, fmt.Errorf("drain in a transaction: %w", err)
	}
	result := DrainResult{Queues: make(map[string]runner.Outcomes, len(runners))}
	for {
		worked := 0
		for _, name := range slices.Sorted(maps.Keys(runners)) { // one after the other: tx can do one thing at a time
			drained, err := runners[name].Drain(ctx)
			worked += drained.Claimed
			result.Claimed += drained.Claimed
			result.Outcomes = result.Outcomes.Plus(drained.Outcomes)
			result.Queues[name] = result.Queues[name].Plus(drained.Outcomes)
			if err = errors.Join(turn.broken(), err); err != nil {
				return result, fmt.Errorf("drain in a transaction: queue %q: %w", name, err)
			}
		}
		if worked == 0 {
			return result, nil
		}
	}
}

// txRunners makes a runner for each queue, all of which share one turn at tx. With only they work that job and no other.
func (c *Client) txRunners(tx pgx.Tx, mux *Mux, config WorkerConfig, only *jobstore.One) (map[string]*jobRunner, *txTurn, error) {
	if isNil(tx) {
		return nil, nil, invalid("tx", "must not be nil")
	}
	if mux == nil {
		return nil, nil, invalid("mux", "must not be nil")
	}
	if err := config.validate(); err != nil {
		return nil, nil, err
	}
	if config.ID == "" {
		config.ID = newWorkerID()
	}
	handlers, kinds, err := mux.freeze()
	if err != nil {
		return nil, nil, err
	}
	names := kindNames(kinds)
	for i := range kinds {
		kinds[i].Workers = 0                        // there is one for all
		kinds[i].BatchSize, kinds[i].Collect = 0, 0 // batches are of one
		if kinds[i].Deadline < 0 {
			kinds[i].Deadline = txNoDeadline
		}
	}
	turn := newTxTurn()
	handle := &txHandler{
		next: &dispatcher{store: c.store, pool: savepoints{tx}, handlers: handlers, maxResult: c.maxPayload, codecs: c.codecs}, tx: tx, turn: turn,
	}
	runners := make(map[string]*jobRunner, len(config.Queues))
	for name := range config.Queues {
		queue, err := c.store.QueueTx(tx, jobstore.QueueConfig{Name: name, WorkerID: config.ID, Kinds: names, Only: only,
			Logger: c.logger, Seal: c.codecs.messageSealer()})
		if err != nil {
			return nil, nil, fmt.Errorf("queue %q: %w", name, err)
		}
		run, err := runner.New(&txQueue{next: queue, turn: turn, only: only}, handle, config.txRunnerConfig(c, name, kinds))
		if err != nil {
			return nil, nil, fmt.Errorf("queue %q: %w", name, err)
		}
		runners[name] = run
	}
	return runners, turn, nil
}

// txRunnerConfig is runnerConfig for one job at a time and no renewal. The lease is what the runner makes of that: the
// longest run that is possible.
func (c WorkerConfig) txRunnerConfig(client *Client, name string, kinds []runner.KindConfig) runner.Config {
	config := c.runnerConfig(client, name, kinds)
	config.Workers, config.Batch, config.Window, config.Poll = 1, 1, -1, 0
	config.Lease, config.RenewEvery = 0, -1
	config.StorageTimeout = max(config.StorageTimeout, txStatementTimeout)
	if config.Deadline < 0 {
		config.Deadline = txNoDeadline
	}
	return config
}

// txTurn sees to it that the engine, which is built for a pool, does one thing at a time. A claim takes the turn, and what
// it claimed keeps it until the end of that job has been written: then handler, report and next claim cannot meet.
type txTurn struct {
	free chan struct{} // holds one element while nobody has the turn

	mutex sync.Mutex
	err   error // the first one after which tx is of no use
}

func newTxTurn() *txTurn {
	turn := &txTurn{free: make(chan struct{}, 1)}
	turn.give()
	return turn
}

// give gives the turn back. Giving it back twice does nothing.
func (t *txTurn) give() {
	select {
	case t.free <- struct{}{}:
	default:
	}
}

// fail notes that tx is of no use any more. The first reason counts.
func (t *txTurn) fail(err error) {
	var fromServer *pgconn.PgError
	if errors.As(err, &fromServer) && (fromServer.Code == "42P01" || fromServer.Code == "3F000") { // no such table, schema
		err = fmt.Errorf("%w: %w", ErrSchema, err)
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.err == nil {
		t.err = err
	}
}

// broken returns what fail was given, or nil.
func (t *txTurn) broken() error {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.err
}

// txQueue is the runner's queue in DrainTx. Once tx is of no use it ends the drain at once, by having nothing more to do,
// instead of having the runner try again.
type txQueue struct {
	next runner.Queue[*jobstore.Row, json.RawMessage]
	turn *txTurn
	only *jobstore.One // nil: all that is due
	took bool          // it was claimed
}

// Claim waits until the end of the job before has been written.
func (q *txQueue) Claim(ctx context.Context, request runner.ClaimRequest) ([]runner.Task[*jobstore.Row], error) {
	select {
	case <-q.turn.free:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if q.turn.broken() != nil || q.took {
		q.turn.give()
		return nil, nil
	}
	request.Limit = 1
	tasks, err := q.next.Claim(ctx, request)
	if err != nil {
		q.turn.fail(err)
	}
	if err == nil && q.only != nil {
		if q.took = true; len(tasks) > 0 && tasks[0].Payload.ID != q.only.ID {
			q.turn.fail(errOtherJob)
			tasks = nil // the caller rolls back
		}
	}
	if err != nil || len(tasks) == 0 {
		q.turn.give()
		return nil, nil
	}
	return tasks, nil
}

// Report writes the one verdict that there can be.
func (q *txQueue) Report(ctx context.Context, verdicts []runner.Verdict[json.RawMessage]) ([]runner.Outcome, error) {
	if q.turn.broken() == nil {
		outcomes, err := q.next.Report(ctx, verdicts)
		if err == nil {
			if !slices.Contains(outcomes, runner.Busy) {
				q.turn.give()
			}
			return outcomes, nil
		}
		q.turn.fail(err)
	}
	q.turn.give()
	outcomes := make([]runner.Outcome, len(verdicts))
	for i := range outcomes {
		outcomes[i] = runner.Lost
	}
	return outcomes, nil
}

// txHandler runs each handler behind a savepoint, so that the end of its job can be written whatever it did to tx.
type txHandler struct {
	next *dispatcher
	tx   pgx.Tx
	turn *txTurn
}

func (h *txHandler) Handle(ctx context.Context, task *runner.Task[*jobstore.Row]) (text result, err error) {
	if err := h.exec(ctx, "SAVEPOINT pgqueue_handler"); err != nil {
		err = fmt.Errorf("before the handler of %s: %w", task.Payload, err)
		h.turn.fail(err)
		return nil, err
	}
	defer func() { // also when the handler panics or ends its goroutine
		aborted, endErr := h.end(ctx)
		unsaid := err == nil || errors.Is(err, runner.ErrSettled) || errors.Is(err, runner.ErrConfirm)
		switch {
		case endErr != nil:
			err = fmt.Errorf("the transaction is of no use after the handler of %s: %w", task.Payload, errors.Join(endErr, err))
			h.turn.fail(err)
		case aborted && unsaid:
			err = runner.Coded(CodeTxAborted, runner.Safef(
				"the handler of %s returned no error, but one of its statements failed and aborted the transaction", task.Payload))
		}
		if errors.Is(err, runner.ErrSettled) {
			h.turn.give() // nothing will be reported
		}
	}()
	return h.next.Handle(ctx, task)
}

// end closes the savepoint. aborted says that it had to be rolled back to.
func (h *txHandler) end(ctx context.Context) (aborted bool, err error) {
	released := h.exec(ctx, "RELEASE SAVEPOINT pgqueue_handler")
	if released == nil {
		return false, nil
	}
	if h.exec(ctx, "ROLLBACK TO SAVEPOINT pgqueue_handler") != nil {
		return false, released // it says why: closed, busy, or the handler released more than it had begun
	}
	return true, h.exec(ctx, "RELEASE SAVEPOINT pgqueue_handler")
}

// exec is for statements that must be sent although the handler's context has ended.
func (h *txHandler) exec(ctx context.Context, sql string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), txStatementTimeout)
	defer cancel()
	_, err := h.tx.Exec(ctx, sql)
	return err
}

// savepoints makes the transactions of [HandleTx] inside tx. The options are those of tx already.
type savepoints struct{ tx pgx.Tx }

var _ lazytx.Beginner = savepoints{}

func (s savepoints) BeginTx(ctx context.Context, _ pgx.TxOptions) (pgx.Tx, error) {
	return s.tx.Begin(ctx)
}
