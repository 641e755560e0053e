package pgqueue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/pgqueue/pgqueue/pgqueue/internal/jobstore"
	"github.com/pgqueue/pgqueue/runner"
)

// HandleBatch registers handle for the jobs of T's kind, many in one call: for work that is cheaper together, such as a bulk
// insert or one request with a hundred documents.
//
//	pgqueue.HandleBatch(mux, func(ctx context.Context, jobs []*pgqueue.Job[IndexDocument]) []error {
//		return index.PutAll(ctx, jobs)
//	}, pgqueue.KindBatch(100), pgqueue.KindCollect(500*time.Millisecond))
//
// handle is given between one and [KindBatch] jobs of one queue and returns an error for each, by position, which decides
// about that job alone, as with [Handle]. nil, the slice itself, means that all have succeeded. With any other number of
// errors nobody can tell which belongs to which, and every job of the batch has failed that attempt, with code
// [runner.CodeNoResult]; after a panic, with [runner.CodePanic]. A job whose arguments do not fit T fails alone, and handle
// does not see it. Effects must therefore bear to be repeated for each single job.
//
// A full batch runs at once. One that is not full waits for more, at most [KindCollect] from its first job on; a stopping
// worker gives it back. A batch is one of the queue's workers, also for [KindWorkers], and [KindDeadline] bounds the batch.
//
// ctx ends with the batch: at the deadline, when a stopping worker has waited long enough, or when no job is left to work
// for. [Job.Context] ends also when only that job's lease is lost, or its cancellation was asked for, while the batch goes
// on. Leave such a job out where that is cheap, and return its error, context.Cause(job.Context()); what is done for it
// nevertheless counts if nobody has claimed it again.
//
// Middleware sees each job of the batch as it sees any other: around the batch, with the job's own context and error. What
// it puts into the context arrives in [Job.Context]. The jobs of a batch are inside their middleware at the same time, one
// nested in the other, so middleware that holds a lock or one of a few connections during the call must not be used with
// batches: it would wait for itself.
func HandleBatch[T Args](mux *Mux, handle func(ctx context.Context, jobs []*Job[T]) []error, options ...HandleOption) {
	if handle == nil {
		mux.Handle(kindOfType[T](), nil, options...)
		return
	}
	decode := decoder[T]()
	mux.handleBatch(kindOfType[T](), func(ctx context.Context, raw []*AnyJob) []error {
		errs := make([]error, len(raw))
		jobs := make([]*Job[T], 0, len(raw))
		positions := make([]int, 0, len(raw))
		for i, job := range raw {
			typed, err := decode(job)
			if err != nil {
				errs[i] = err
				continue
			}
			jobs, positions = append(jobs, typed), append(positions, i)
		}
		if len(jobs) == 0 {
			return errs
		}
		given := handle(ctx, slices.Clone(jobs))
		if given != nil && len(given) != len(jobs) {
			wrong := runner.Coded(runner.CodeNoResult,
				runner.Safef("the batch handler returned %d errors for %d jobs", len(given), len(jobs)))
			given = slices.Repeat([]error{wrong}, len(jobs))
		}
		for i := range given {
			errs[positions[i]] = given[i]
		}
		return errs
	}, options)
}

// handleBatch registers a batch handler.
func (m *Mux) handleBatch(kind string, handle batchFunc, options []HandleOption) {
	m.Handle(kind, &batchKind{handle: handle}, options...)
}

// batchFunc runs jobs whose arguments are still JSON, and answers with an error for each.
type batchFunc func(ctx context.Context, jobs []*AnyJob) []error

// batchKind is the handler of a kind with batches.
type batchKind struct {
	handle batchFunc
	chain  Handler // the middleware around one job, down to the registered batchKind; nil: there is none
}

// wrapped returns b with its middleware.
func (b *batchKind) wrapped(chain Handler) *batchKind {
	return &batchKind{handle: b.handle, chain: chain}
}

// HandleJob is what the middleware calls for one job of a batch. Otherwise it runs a batch of one.
func (b *batchKind) HandleJob(ctx context.Context, job *AnyJob) error {
	if run := job.attempt.batch; run != nil {
		return run.enter(ctx, job)
	}
	return b.run(ctx, []*AnyJob{job})[0]
}

// run runs one batch.
func (b *batchKind) run(ctx context.Context, jobs []*AnyJob) []error {
	if b.chain == nil {
		return b.handle(ctx, jobs)
	}
	run := &batchRun{
		kind: b, ctx: ctx, jobs: jobs, errs: make([]error, len(jobs)), results: make([]error, len(jobs)),
		entered: make([]atomic.Bool, len(jobs)),
	}
	for i, job := range jobs {
		// These stand where a panic unwinds past a job, and middleware around another one recovers it.
		run.errs[i], run.results[i] = errBatchUnwound(), errBatchUnwound()
		job.attempt.batch, job.attempt.place = run, i
	}
	run.step(0)
	run.steps.Wait()
	return run.errs
}

func errBatchUnwound() error {
	return runner.Coded(runner.CodePanic, runner.Safe(errors.New("the batch ended with a panic")))
}

// batchRun takes the jobs of one batch through the middleware: that of the first job calls the next job's, and the
// innermost calls the handler with those jobs that have come through. On the way back each sees its own job's error.
type batchRun struct {
	kind    *batchKind
	ctx     context.Context
	jobs    []*AnyJob
	passed  []*AnyJob // as middleware passed them on
	places  []int     // of these, in jobs
	results []error   // of the handler
	errs    []error   // of the middleware
	entered []atomic.Bool
	steps   sync.WaitGroup
}

// step goes on with job i. Middleware may call next in a goroutine of its own, and return before it.
func (r *batchRun) step(i int) {
	r.steps.Add(1)
	defer r.steps.Done()
	if i == len(r.jobs) {
		r.call()
		return
	}
	err := r.kind.chain.HandleJob(r.jobs[i].Context(), r.jobs[i])
	if r.entered[i].CompareAndSwap(false, true) { // it was turned away, and the others go on
		r.step(i + 1)
	}
	r.errs[i] = err
}

// enter is called when a job has come through its middleware.
func (r *batchRun) enter(ctx context.Context, job *AnyJob) error {
	i := job.attempt.place
	if r.entered[i].CompareAndSwap(false, true) { // else it asks again, and gets the same answer
		own := *job
		own.ctx = ctx
		r.passed, r.places = append(r.passed, &own), append(r.places, i)
		r.step(i + 1)
	}
	return r.results[i]
}

// call calls the handler with the jobs that have come through.
func (r *batchRun) call() {
	if len(r.passed) == 0 {
		return
	}
	for i, err := range r.kind.handle(r.ctx, r.passed) {
		r.results[r.places[i]] = err
	}
}

// HandleBatch implements [runner.BatchHandler].
func (d *dispatcher) HandleBatch(ctx context.Context, tasks []*runner.Task[*jobstore.Row]) []runner.Result[result] {
	results := make([]runner.Result[result], len(tasks))
	kind, ok := d.handlers[tasks[0].Payload.Kind].(*batchKind)
	if !ok {
		for i := range results { // the runner makes batches of kinds that have them only, so this needs a bug
			results[i].Err = runner.SnoozeFor(unknownKindDelay)
		}
		return results
	}
	jobs := make([]*AnyJob, len(tasks))
	for i, task := range tasks {
		jobs[i] = d.job(task.Context(), task.Payload)
	}
	defer func() { // also when it panics
		for _, job := range jobs {
			job.attempt.returned.Store(true)
		}
	}()
	for i, err := range kind.run(ctx, slices.Clone(jobs)) {
		results[i].Value, results[i].Err = reported(jobs[i], err)
	}
	return results
}

// validateBatch checks the options that are for kinds with batches.
func (o handleOptions) validateBatch(kind string, handler Handler) error {
	_, batch := handler.(*batchKind)
	switch {
	case o.batch < 0:
		return &ValidationError{Field: "batch", Message: fmt.Sprintf("of kind %q must be at least 1, is %d", kind, o.batch)}
	case !batch && o.batch != 0:
		return &ValidationError{Field: "batch", Message: fmt.Sprintf("of kind %q needs HandleBatch", kind)}
	case !batch && o.collect != 0:
		return &ValidationError{Field: "collect", Message: fmt.Sprintf("of kind %q needs HandleBatch", kind)}
	}
	return nil
}
