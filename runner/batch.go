package runner

import (
	"context"
	"fmt"
	"time"
)

// BatchHandler is a [Handler] that also takes many tasks in one call, for work that is cheaper together: a bulk insert,
// one request with a hundred documents. It is called for the kinds that have a [KindConfig].BatchSize, and Handle for
// all others.
//
// A batch holds between one and BatchSize tasks of one kind. It occupies one slot, and Workers bounds batches, not tasks.
// A full one runs at once; a partial one waits for more, at most [KindConfig].Collect from the time at which the first
// of its tasks was claimed. A stop gives back what still waits. [Runner.Drain] waits only while there may be more: a
// claim that finds nothing starts what was collected.
//
// HandleBatch returns one [Result] for each task, by position, and each of them is judged by itself as [Handler] says:
// one task of a batch may succeed, the next be retried, the third be cancelled. With any other number of results nobody
// can tell which belongs to which, so every task of the batch has failed that attempt, with [CodeNoResult]; after a panic
// or runtime.Goexit, with [CodePanic]. A task whose payload cannot be decoded fails alone and is not shown to the
// handler.
//
// ctx belongs to the batch. It ends at the deadline, which counts from the start of the batch, when a stop has waited long
// enough, or when none of its tasks is left to work for; the cause is that of the last one. What happens to one task alone
// ends the [Task.Context] of that task: [ErrLeaseLost] if its lease was refused or ran out, [ErrCancelled] if somebody
// asked for its cancellation. The handler may leave such a task out, or go on: a success of it is reported, and the queue
// decides whether it still counts.
type BatchHandler[P, R any] interface {
	Handler[P, R]
	HandleBatch(ctx context.Context, tasks []*Task[P]) []Result[R]
}

// Result is what became of one task of a batch: what a [Handler] would have returned for it.
type Result[R any] struct {
	Value R
	Err   error
}

// BatchFunc makes a [BatchHandler] of a function. Its Handle runs a batch of one.
type BatchFunc[P, R any] func(ctx context.Context, tasks []*Task[P]) []Result[R]

// HandleBatch calls f.
func (f BatchFunc[P, R]) HandleBatch(ctx context.Context, tasks []*Task[P]) []Result[R] {
	return f(ctx, tasks)
}

// Handle calls f with one task.
func (f BatchFunc[P, R]) Handle(ctx context.Context, task *Task[P]) (R, error) {
	results := f(ctx, []*Task[P]{task})
	if len(results) != 1 {
		var none R
		return none, noResult(len(results), 1)
	}
	return results[0].Value, results[0].Err
}

func noResult(results, tasks int) error {
	return Coded(CodeNoResult, Safef("the batch handler returned %d results for %d tasks", results, tasks))
}

// batch is tasks that run in one call.
type batch[P, R any] struct {
	entries  []*entry[P, R]
	kind     *kindState
	ctx      *taskContext
	cancel   context.CancelCauseFunc
	started  time.Time
	deadline time.Time // zero: none
	left     int       // of its tasks, those whose context has not ended
	crash    *crash
}

// startBatch puts entries into a slot. The lock is held.
func (s *session[P, R]) startBatch(own *slot[P, R], entries []*entry[P, R], now time.Time) {
	b := &batch[P, R]{entries: entries, kind: entries[0].kind, started: now, left: len(entries)}
	own.batch = b
	s.running++
	s.inSlots += len(entries)
	b.kind.running++
	if b.kind.deadline >= 0 {
		b.deadline = now.Add(b.kind.deadline)
		s.arm(b.deadline)
	}
	ctx, cancel := context.WithCancelCause(s.base)
	b.ctx, b.cancel = &taskContext{Context: ctx, deadline: b.deadline}, cancel
	for _, e := range entries {
		e.batch, e.started, e.deadline = b, now, b.deadline
		s.arm(s.localEnd(e))
		ctx, cancel := context.WithCancelCause(b.ctx)
		e.ctx, e.cancel = &taskContext{Context: ctx, deadline: b.deadline}, cancel
		e.crashed = true // this stands if the handler does not come back
	}
}

// settleBatch takes over a finished batch. The lock is held.
func (s *session[P, R]) settleBatch(b *batch[P, R], now time.Time) {
	s.running--
	b.kind.running--
	b.kind.ended++
	b.kind.mean = average(b.kind.mean, now.Sub(b.started))
	for _, e := range b.entries {
		s.settleTask(e, now)
	}
}

// attemptBatch runs the handler on the batch of a slot and leaves the verdicts there. It contains whatever the handler
// does.
func (s *session[P, R]) attemptBatch(b *batch[P, R]) {
	defer b.cancel(nil)
	s.failUndecodable(b)
	n := len(b.entries)
	if n == 0 {
		return
	}
	events := make([]AttemptEvent, n)
	tasks := make([]*Task[P], n)
	event := BatchEvent{Queue: s.cfg.Name, Kind: b.entries[0].task.Kind, Tasks: n}
	observe := s.r.observe.Load()
	ctx := observe.batchStarted(b.ctx, event)
	defer func() { // also on Goexit
		took := time.Since(b.started)
		for i, e := range b.entries {
			if e.crashed {
				if b.crash == nil {
					b.crash = &crash{kind: "runtime.Goexit", site: panicSite()}
					s.logGoexit(e, n)
				}
				if e.crash == nil {
					e.crash = b.crash
				}
				s.judgeCrash(e)
			}
			e.cancel(nil)
			s.endAttempt(e.task.ctx, observe, e, events[i], took)
			if e.verdict.Decision == Retry || e.verdict.Decision == Fail {
				event.Failed++
			}
		}
		event.Duration = took
		observe.batchEnded(ctx, event)
	}()
	for i, e := range b.entries {
		events[i] = s.attemptEvent(e)
		events[i].Batch, events[i].BatchContext = n, ctx
		e.task.ctx = observe.attemptStarted(e.ctx, events[i])
		tasks[i] = &e.task
	}
	results, returned := s.callBatch(ctx, b, tasks)
	if !returned {
		return
	}
	counted := len(results) == n
	for i, e := range b.entries {
		e.crashed = false
		if counted {
			e.result, e.err = results[i].Value, results[i].Err
		} else {
			e.err = noResult(len(results), n)
		}
		s.judgeContained(e)
	}
}

// failUndecodable ends the attempts of tasks that no handler can be given, so that they wait for nobody.
func (s *session[P, R]) failUndecodable(b *batch[P, R]) {
	var good, bad []*entry[P, R]
	for i, e := range b.entries {
		if e.task.Err == nil {
			if bad != nil {
				good = append(good, e)
			}
			continue
		}
		if bad == nil {
			good = append(good, b.entries[:i]...)
		}
		bad = append(bad, e)
	}
	if bad == nil {
		return
	}
	for _, e := range bad {
		e.crashed, e.err = false, e.task.Err
		s.judgeContained(e)
		if e.crashed { // an Error method panicked
			s.judgeCrash(e)
		}
		e.cancel(nil)
		s.endAttempt(e.ctx, s.r.observe.Load(), e, s.attemptEvent(e), time.Since(e.started))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	b.entries, b.left = good, 0
	var cause error
	for _, e := range good {
		if e.cause == nil {
			b.left++
		} else {
			cause = e.cause
		}
	}
	if b.left == 0 {
		b.cancel(cause)
	}
	for _, e := range bad {
		s.settleTask(e, now)
	}
	s.changed()
}

// callBatch calls the handler; returned is false if it panicked.
func (s *session[P, R]) callBatch(ctx context.Context, b *batch[P, R], tasks []*Task[P]) (results []Result[R], returned bool) {
	defer func() {
		if returned {
			return
		}
		if v := recover(); v != nil {
			b.crash = describePanic(v)
			s.logPanic(b.entries[0], b.crash, len(tasks))
		}
	}()
	results = s.r.batches.HandleBatch(ctx, tasks)
	return results, true
}

// armCollecting makes sure that the watcher looks when the next window of collecting ends. The lock is held.
func (s *session[P, R]) armCollecting() {
	for _, l := range s.buffer.lanes {
		if l.kind.size > 0 && len(l.entries) > 0 {
			s.arm(l.opens())
		}
	}
}

// readyBatches counts the batches that could start. The lock is held.
func (s *session[P, R]) readyBatches(now time.Time) (n int) {
	for _, l := range s.buffer.lanes {
		if l.kind.size > 0 && len(l.entries) > 0 {
			n += l.batches(now)
		}
	}
	return n
}

// startCollected wakes workers for batches whose window has ended, and says when the next one ends. The lock is held.
func (s *session[P, R]) startCollected(now time.Time) (next time.Time) {
	for _, l := range s.buffer.lanes {
		if l.kind.size == 0 || len(l.entries) == 0 {
			continue
		}
		for range min(l.batches(now), l.kind.free()) {
			s.tasks.Signal()
		}
		if opens := l.opens(); now.Before(opens) {
			next = earliest(next, opens)
		}
	}
	return next
}

// wantBatches says how many tasks of a kind with batches to claim now. The lock is held.
func (s *session[P, R]) wantBatches(k *kindState) int {
	slots := max(0, min(k.free(), s.workers()-s.running-s.buffer.startable()-s.buffer.batchSlots(k)))
	if slots == 0 && k.free() > 0 && s.r.renewer != nil {
		slots = 1 // others may keep every slot for as long as they have a backlog; this batch is next in line
	}
	limit := slots*k.size - k.buffered
	if s.r.renewer != nil && k.mean > 0 && k.ended > 0 {
		ahead := int(min(float64(s.cfg.Batch), float64(k.bound*k.size)*float64(prefetch)/float64(k.mean)))
		if room := limit + ahead; room > max(limit, 0) && 2*room >= ahead {
			limit = room
		}
	}
	return min(limit, s.cfg.Batch, s.spare())
}

func (c *Config) validateBatch(k *KindConfig, field string) error {
	switch {
	case k.BatchSize < 0 || k.BatchSize > MaxBatch:
		return refuse(field+"BatchSize", "must be between 1 and %d, not %d", MaxBatch, k.BatchSize)
	case k.BatchSize == 0 && k.Collect != 0:
		return refuse(field+"Collect", "is for batches only, and BatchSize is not set")
	case k.Collect > maxDelay:
		return refuse(field+"Collect", "must be at most %v, not %v", maxDelay, k.Collect)
	}
	if k.BatchSize > 0 {
		orDefault(&k.Collect, c.Window)
		k.Collect = max(k.Collect, 0)
	}
	return nil
}

// checkCollect sees to it that no task is given back while it is collected.
func (c *Config) checkCollect() error {
	for i, k := range c.Kinds {
		if k.BatchSize > 0 && k.Collect >= c.Lease {
			return refuse(fmt.Sprintf("Kinds[%d].Collect", i), "%v is not shorter than the lease of %v", k.Collect, c.Lease)
		}
	}
	return nil
}
