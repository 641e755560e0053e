package pgqueue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/runner"
)

// ErrNotWorked is returned by [Client.WorkTx] when the job cannot be worked: it is not pending, somebody has locked it, its
// queue or kind is paused, or it has no handler. The error says which.
var ErrNotWorked = errors.New("the job cannot be worked")

// errOtherJob ends the claim of one job that found another.
var errOtherJob = errors.New("another job was claimed")

// Worked is what became of the one job of [Client.WorkTx].
type Worked struct {
	Event
	// Err is what the handler returned, or an error that describes its panic. Nil if it succeeded.
	Err error
}

// WorkTx works one job, number id, inside tx: it claims it, runs its handler, and stores the outcome, all of it in tx. Rolling tx
// back undoes everything. A job that is not due yet is made due first. Other jobs are left alone, also those that the handler
// enqueues. It is for tests and for nothing else; see [Client.DrainTx] for what handlers may do in tx.
//
// Of config it uses the settings of the job's queue in Queues, which may be empty, ID, StopTimeout, StoreErrorText and Observer.
//
// Where the job is not worked, nothing is changed and the error is [ErrNotFound] or [ErrNotWorked]. A handler that fails is no
// error: see the answer.
func (c *Client) WorkTx(ctx context.Context, tx pgx.Tx, mux *Mux, id int64, config WorkerConfig) (Worked, error) {
	worked, err := c.workTx(ctx, tx, mux, id, config)
	if err != nil {
		return worked, fmt.Errorf("work job %d in a transaction: %w", id, err)
	}
	return worked, nil
}

func (c *Client) workTx(ctx context.Context, tx pgx.Tx, mux *Mux, id int64, config WorkerConfig) (worked Worked, err error) {
	if isNil(tx) {
		return worked, invalid("tx", "must not be nil")
	}
	savepoint, err := tx.Begin(ctx)
	if err != nil {
		return worked, err
	}
	worked, done, err := c.workOne(ctx, savepoint, mux, id, config)
	if err == nil && done {
		return worked, savepoint.Commit(ctx)
	}
	if undone := savepoint.Rollback(context.WithoutCancel(ctx)); undone != nil {
		return worked, errors.Join(err, undone)
	}
	if err != nil && !errors.Is(err, errOtherJob) {
		return worked, err
	}
	return worked, c.notWorked(ctx, tx, mux, id)
}

// workOne answers done false if the job was not claimed.
func (c *Client) workOne(ctx context.Context, tx pgx.Tx, mux *Mux, id int64, config WorkerConfig) (worked Worked, done bool, err error) {
	only, err := c.store.HoldOne(ctx, tx, id)
	if err != nil || only == nil {
		return worked, false, err
	}
	config.Queues = Queues{only.Queue: config.Queues[only.Queue]}
	watch := &watchOne{}
	config.Observer = Observers(config.Observer, watch)
	runners, turn, err := c.txRunners(tx, mux, config, only)
	if err != nil {
		return worked, false, err
	}
	if err := c.checkResults(ctx, tx, mux.resultKinds(), config.Queues); err != nil {
		return worked, false, err
	}
	drained, err := runners[only.Queue].Drain(ctx)
	if err = errors.Join(turn.broken(), err); err != nil {
		return worked, false, err
	}
	return watch.worked(), drained.Claimed > 0, nil
}

// notWorked says why.
func (c *Client) notWorked(ctx context.Context, tx pgx.Tx, mux *Mux, id int64) error {
	job, err := c.Get(ctx, tx, id)
	if err != nil {
		return err
	}
	if handlers, _, err := mux.freeze(); err == nil && job.State == JobPending {
		if _, ok := handlers[job.Kind]; !ok {
			return fmt.Errorf("%w: the mux has no handler for its kind %q", ErrNotWorked, job.Kind)
		}
	}
	why, err := c.store.WhyNotRunning(ctx, tx, id)
	if err != nil {
		return err
	}
	return fmt.Errorf("%w: it is %s: %s", ErrNotWorked, job.State, withoutOwnLock(why))
}

// ownLock is what why_not_running says first of a job that the transaction which asks has changed. Here that is so of most: tx has
// enqueued them. It keeps tx from nothing.
const ownLock = "your own transaction has changed or locked its row and is not committed"

// withoutOwnLock leaves ownLock out where there is another reason.
func withoutOwnLock(why string) string {
	return strings.Replace(why, "because "+ownLock+".\nAlso: ", "because ", 1)
}

// watchOne keeps how one attempt ended.
type watchOne struct {
	mutex sync.Mutex
	event Event
	err   error
}

func (w *watchOne) AttemptEnded(_ context.Context, e runner.AttemptEvent) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.err = e.Err
}

func (w *watchOne) VerdictDone(e runner.VerdictEvent) {
	event, _ := eventOf(e)
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.event = event
}

func (w *watchOne) worked() Worked {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.event.Outcome == runner.Succeeded { // what a handler that has settled its job returns inside is no error
		return Worked{Event: w.event}
	}
	return Worked{Event: w.event, Err: w.err}
}
