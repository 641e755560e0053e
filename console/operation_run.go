package console

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// operationPhase is how far an operation is.
type operationPhase string

// The phases of an operation.
const (
	operationWaiting  operationPhase = "waiting" // in line
	operationRunning  operationPhase = "running"
	operationStopping operationPhase = "stopping" // somebody wants it to end; the batch under way is still to be done
	operationDone     operationPhase = "done"
	operationStopped  operationPhase = "stopped"
	operationFailed   operationPhase = "failed"
)

// shownSkips is how many of the skipped jobs an operation keeps to show. It counts all.
const shownSkips = 100

// operation is one bulk action of a console: in line, under way, or ended.
type operation struct {
	id       string
	work     operationWork
	created  time.Time
	stopping chan struct{} // closed: somebody wants it to end
	done     chan struct{} // closed: it has ended

	mutex sync.Mutex
	state operationState
	abort context.CancelCauseFunc // gives up the batch under way; nil before it runs
	grace *time.Timer             // to abort
}

// operationState is an operation as it is at one moment.
type operationState struct {
	ID                      string
	Work                    operationWork
	State                   operationPhase
	Created, Started, Ended time.Time // zero: not yet
	StoppedBy               string
	Result                  pgqueue.BulkResult // so far; Skips are the first few
	Cursor                  string             // where to go on; empty: at the beginning, or nowhere any more
	Err                     error
}

func newOperation(id string, work operationWork) *operation {
	now := time.Now()
	return &operation{
		id: id, work: work, created: now, stopping: make(chan struct{}), done: make(chan struct{}),
		state: operationState{ID: id, Work: work, State: operationWaiting, Created: now, Cursor: work.from},
	}
}

// run does the work, unless somebody has stopped it in line.
func (o *operation) run(ctx context.Context, cancel context.CancelCauseFunc) (result *pgqueue.BulkResult, err error) {
	if !o.begin(cancel) || ctx.Err() != nil {
		return nil, errOperationStopped
	}
	defer func() {
		if thrown := recover(); thrown != nil {
			result, err = nil, fmt.Errorf("%w: %v\n%s", errOperationPanicked, thrown, debug.Stack())
		}
	}()
	return o.work.do(ctx, func(result pgqueue.BulkResult) {
		worked := o.note(result)
		if result.Cursor != "" && !o.between(ctx, worked) {
			// A stop takes effect here, between two batches: what was counted is then exactly what was done.
			cancel(errOperationStopped)
		}
	})
}

// begin marks the start, and tells whether the operation may.
func (o *operation) begin(abort context.CancelCauseFunc) bool {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	select {
	case <-o.stopping:
		return false
	default:
	}
	o.abort, o.state.State, o.state.Started = abort, operationRunning, time.Now()
	return true
}

// between waits between two batches for as long as was asked for, and tells whether to go on.
func (o *operation) between(ctx context.Context, worked bool) bool {
	wait := time.Duration(0)
	if worked {
		wait = o.work.pause
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-o.stopping:
		return false
	case <-ctx.Done():
		return false
	case <-timer.C:
	}
	select { // both may have been ready
	case <-o.stopping:
		return false
	default:
		return true
	}
}

// note keeps what was done so far, and tells whether it became more.
func (o *operation) note(result pgqueue.BulkResult) bool {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	worked := result.Matched > o.state.Result.Matched
	o.keep(result)
	return worked
}

func (o *operation) keep(result pgqueue.BulkResult) {
	if len(result.Skips) > shownSkips {
		result.Skips = result.Skips[:shownSkips:shownSkips]
	}
	o.state.Result, o.state.Cursor = result, result.Cursor
}

// stop asks the operation to end, in the name of by. It ends behind its batch; a batch that takes longer than the grace is given up,
// which leaves it undone. What has ended, or was stopped before, stays as it is.
func (o *operation) stop(by string) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if o.state.StoppedBy != "" || !o.state.Ended.IsZero() {
		return
	}
	o.state.StoppedBy = by
	if o.state.State == operationRunning {
		o.state.State = operationStopping
		abort := o.abort
		o.grace = time.AfterFunc(stopGrace, func() { abort(errOperationStopped) })
	}
	close(o.stopping)
}

// finish keeps how it ended.
func (o *operation) finish(result *pgqueue.BulkResult, err error) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if o.grace != nil {
		o.grace.Stop()
	}
	if result != nil {
		o.keep(*result)
	}
	o.state.Ended = time.Now()
	switch {
	case err == nil:
		o.state.State = operationDone
	case errors.Is(err, errOperationPanicked):
		o.state.State, o.state.Err = operationFailed, err
	case o.state.StoppedBy != "": // whatever the end of a context made of the statement under way
		o.state.State = operationStopped
	default:
		o.state.State, o.state.Err = operationFailed, err
	}
}

// snapshot is the operation as it is now.
func (o *operation) snapshot() operationState {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.state
}

// Running tells whether it may still be stopped.
func (s operationState) Running() bool { return s.Ended.IsZero() }
