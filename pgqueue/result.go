package pgqueue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/pgqueue/pgqueue/pgqueue/internal/jobstore"
	"github.com/pgqueue/pgqueue/runner"
)

// CodeResultRejected marks an attempt that returned no error, and whose result cannot be stored: it is no JSON, holds
// what Postgres does not take, is too large, or its queue keeps no history.
const CodeResultRejected = jobstore.CodeResultRejected

// HandleResult is [Handle] for a handler with a result. It is stored as JSON in the column result of the job's history, by
// the same statement that records the success: there is never one without the other. The result of an attempt that
// failed, or whose input was replaced meanwhile, is dropped. See [Job.SetResult] for what can be stored.
//
// A queue without history has no place for results. A worker that serves one is refused at its start, by [Worker.Run],
// [Client.Drain] and [Client.DrainTx], if its mux has handlers with results; where the history is turned off later, the
// attempts of such kinds fail with [CodeResultRejected], before their handler is called.
func HandleResult[T Args, R any](mux *Mux, handle func(ctx context.Context, job *Job[T]) (R, error), options ...HandleOption) {
	if handle == nil {
		mux.Handle(kindOfType[T](), nil, options...)
		return
	}
	options = append(slices.Clone(options), func(o *handleOptions) { o.results = true })
	decode := decoder[T]()
	mux.Handle(kindOfType[T](), HandlerFunc(func(ctx context.Context, job *AnyJob) error {
		if err := job.attempt.resultRefused(); err != nil {
			return err
		}
		typed, err := decode(job)
		if err != nil {
			return err
		}
		typed.ctx = ctx
		value, err := handle(ctx, typed)
		if err != nil {
			return err
		}
		if job.attempt.settled.get() != 0 {
			return nil // CompleteTx has taken what SetResult was given before
		}
		_ = job.SetResult(value) // a failure is kept and fails the attempt
		return nil
	}), options...)
}

// SetResult has value stored with the job's success, as [HandleResult] does; it is for handlers of the other forms
// ([HandleBatch], [HandleTx], [Mux.Handle]) and for [Job.CompleteTx], before which it must be called. A second call replaces
// the first.
//
// value is written with encoding/json, and null is a result like any other. What cannot be stored is a [*ValidationError]:
// what is no JSON, holds NUL or bytes that are not UTF-8, or is larger than a payload may be ([WithMaxPayload]), or a queue
// that keeps no history. The attempt then fails with [CodeResultRejected] although its handler returns nil, unless another
// call replaces the result. After the handler has returned it is [ErrHandlerReturned]. After [Job.CompleteTx] it is for another
// call of that, should the transaction roll back.
func (j *Job[T]) SetResult(value any) error {
	return j.attempt.setResult(j.Context(), value)
}

// result is what the runner carries from a handler to the completion; empty means none.
type result = json.RawMessage

// jobResult is the result of one attempt so far.
type jobResult struct {
	mutex sync.Mutex
	text  result
	err   error // why the latest one cannot be stored
	taken bool
}

func (a *attempt) setResult(ctx context.Context, value any) error {
	text, err := a.encodeResult(ctx, value)
	a.result.mutex.Lock()
	defer a.result.mutex.Unlock()
	if a.result.taken || a.returned.Load() {
		return fmt.Errorf("set the result of %s: %w", a.row, ErrHandlerReturned)
	}
	a.result.text, a.result.err = text, err
	if err != nil {
		return fmt.Errorf("set the result of %s: %w", a.row, err)
	}
	return nil
}

// currentResult returns the result so far, or why it cannot be stored.
func (a *attempt) currentResult() (result, error) {
	a.result.mutex.Lock()
	defer a.result.mutex.Unlock()
	if a.result.err != nil {
		return nil, fmt.Errorf("the result of %s: %w", a.row, a.result.err)
	}
	return a.result.text, nil
}

// takeResult is currentResult for the end of the attempt: later ones are refused.
func (a *attempt) takeResult() (result, error) {
	a.result.mutex.Lock()
	a.result.taken = true
	a.result.mutex.Unlock()
	return a.currentResult()
}

// resultRefused says why this job can have no result at all.
func (a *attempt) resultRefused() error {
	if a.row.History != string(HistoryOff) {
		return nil
	}
	return rejected(invalid("result", fmt.Sprintf("cannot be stored: queue %q keeps no history", a.row.Queue)))
}

func (a *attempt) encodeResult(ctx context.Context, value any) (result, error) {
	if err := a.resultRefused(); err != nil {
		return nil, err
	}
	text, err := marshalContained(value)
	if err != nil {
		return nil, rejected(&ValidationError{Field: "result", Message: "cannot be written as JSON: " + err.Error(), cause: err})
	}
	if err := checkJSON("result", text, a.maxResult, value); err != nil {
		return nil, rejected(err)
	}
	if err := reserved("result", text); err != nil {
		return nil, rejected(err)
	}
	return a.sealResult(ctx, text)
}

// sealResult has the codecs encode a result.
func (a *attempt) sealResult(ctx context.Context, text result) (result, error) {
	sealed, err := a.codecs.sealJSON(ctx, FieldResult, a.row.Kind, text)
	var tooLarge *ValidationError
	var failed *CodecError
	switch {
	case err == nil:
		return sealed, nil
	case errors.As(err, &tooLarge):
		return nil, rejected(tooLarge)
	case errors.As(err, &failed):
		return nil, runner.Coded(CodeResultRejected, runner.Safe(&reasoned{text: failed.Reason(), cause: err}))
	default:
		return nil, runner.Coded(CodeResultRejected, err)
	}
}

// marshalContained is json.Marshal that survives a method of the application's that panics.
func marshalContained(value any) (text []byte, err error) {
	defer func() {
		if v := recover(); v != nil {
			text, err = nil, fmt.Errorf("encoding panicked with %T", v)
		}
	}()
	return json.Marshal(value)
}

// rejected gives err its code. What our own checks say is safe to store; what encoding/json says may quote the value.
func rejected(err *ValidationError) error {
	if err.cause != nil {
		return runner.Coded(CodeResultRejected, err)
	}
	return runner.Coded(CodeResultRejected, runner.Safe(err))
}

// reported is what the runner is told about a job whose handler returned err.
func reported(job *AnyJob, err error) (result, error) {
	if err != nil {
		return nil, err
	}
	switch job.attempt.settled.get() {
	case settledByUs:
		job.attempt.tellEnd()
		return nil, runner.ErrSettled
	case settledByCaller, settledUnknown:
		return nil, fmt.Errorf("%s: %w", job.attempt.row, runner.ErrConfirm)
	default:
		return job.attempt.takeResult()
	}
}

// resultKinds are the kinds whose handlers have results, sorted.
func (m *Mux) resultKinds() []string {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	var kinds []string
	for _, kind := range slices.Sorted(maps.Keys(m.handlers)) {
		if m.handlers[kind].options.results {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// checkResults refuses kinds with results on queues that keep no history. Without such kinds it asks nothing.
func (c *Client) checkResults(ctx context.Context, q Querier, kinds []string, queues Queues) error {
	if len(kinds) == 0 {
		return nil
	}
	without, err := c.store.WithoutHistory(ctx, q, slices.Sorted(maps.Keys(queues)))
	if err != nil {
		return err
	}
	if len(without) == 0 {
		return nil
	}
	return &ValidationError{Field: fmt.Sprintf("Queues[%q]", without[0]), Message: fmt.Sprintf(
		"keeps no history, where the results of kind %q would be stored; set its history to slim or full, or serve it with handlers that have no results",
		kinds[0])}
}
