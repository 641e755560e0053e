package runner

import (
	"context"
	"errors"
	"fmt"
	"path"
	"runtime"
	"strings"
	"time"
)

// worker runs tasks in one slot until the session stops. runtime.Goexit in a handler ends the goroutine; another one
// takes the slot over, and the attempt has failed.
func (s *session[P, R]) worker(own *slot[P, R]) {
	finished := false
	defer func() {
		if !finished {
			go s.worker(own)
		}
	}()
	for {
		if !s.exchange(own) {
			finished = true
			return
		}
		if own.batch != nil {
			s.attemptBatch(own.batch)
		} else {
			s.attempt(own.entry)
		}
	}
}

// exchange settles the slot's last task and takes the next, under one lock. It waits for a task, and answers false when
// the worker should exit.
func (s *session[P, R]) exchange(own *slot[P, R]) bool {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := own.entry; e != nil {
		own.entry = nil
		s.settle(e, now)
	} else if b := own.batch; b != nil {
		own.batch = nil
		s.settleBatch(b, now)
	}
	if own.replaced != nil && s.giveBackReplaced(own) {
		return false
	}
	for {
		if !s.stopping {
			if l := s.buffer.next(now); l != nil {
				if l.kind.size > 0 {
					s.startBatch(own, s.buffer.popBatch(l), now)
				} else {
					s.start(own, s.buffer.pop(l), now)
				}
				s.changed()
				return true
			}
		}
		s.changed()
		if s.stopping {
			s.exit()
			return false
		}
		s.idle++
		s.tasks.Wait()
		s.idle--
		now = time.Now()
	}
}

// exit counts a worker out. The lock is held.
func (s *session[P, R]) exit() {
	s.alive--
	if s.alive == 0 {
		close(s.allDone)
	}
}

// start puts an entry into a slot. The lock is held.
func (s *session[P, R]) start(own *slot[P, R], e *entry[P, R], now time.Time) {
	own.entry = e
	s.running++
	s.inSlots++
	e.kind.running++
	e.started = now
	if e.kind.deadline >= 0 {
		e.deadline = now.Add(e.kind.deadline)
		s.arm(e.deadline)
	}
	s.arm(s.localEnd(e))
	e.own.values, e.own.deadline = s.base, e.deadline
	e.ctx = &e.own
	// This stands if the handler does not come back.
	e.crashed = true
}

// settle takes over a finished entry. The lock is held.
func (s *session[P, R]) settle(e *entry[P, R], now time.Time) {
	s.running--
	e.kind.running--
	e.kind.ended++
	s.mean = average(s.mean, now.Sub(e.started))
	s.settleTask(e, now)
}

// average is an exponentially weighted one.
func average(mean, took time.Duration) time.Duration {
	if mean == 0 {
		return max(took, time.Microsecond)
	}
	return max(time.Microsecond, mean+(took-mean)/8)
}

// settleTask is settle without the slot. The lock is held.
func (s *session[P, R]) settleTask(e *entry[P, R], now time.Time) {
	e.judged = true
	e.took = now.Sub(e.started)
	s.inSlots--
	if s.ended {
		return // nobody is left to write it: the lease runs out
	}
	if f := e.verdict.Failure; f != nil && !e.settled && e.verdict.Decision != Confirm {
		s.lastCode, s.lastCodeAt = f.Code, now
	}
	if e.pause > 0 {
		s.pauseFor(e.pause, now)
	}
	if e.settled {
		s.count(e, Succeeded, now)
		return
	}
	s.enqueueVerdict(e)
}

// pauseFor stops claims for d and releases what has not started. The lock is held.
func (s *session[P, R]) pauseFor(d time.Duration, now time.Time) {
	if until := now.Add(d); until.After(s.pausedUntil) {
		s.pausedUntil = until
	}
	s.kinds.look()
	s.release(s.buffer.remove(func(*entry[P, R]) bool { return true }))
	s.cfg.Logger.Warn("runner: paused by a handler", "for", d)
	poke(s.loopWake)
}

// attempt runs the handler on one entry and leaves its verdict there. It contains whatever the handler does.
func (s *session[P, R]) attempt(e *entry[P, R]) {
	ctx := context.Context(e.ctx)
	observe := s.r.observe.Load() // who is told of the start is told of the end
	defer func() {                // also on Goexit
		var took time.Duration
		if observe.end != nil {
			took = time.Since(e.started)
		}
		if e.crashed {
			if e.crash == nil {
				e.crash = &crash{kind: "runtime.Goexit", site: panicSite()}
				s.logGoexit(e, 1)
			}
			s.judgeCrash(e)
		}
		e.ctx.end(nil)
		if observe.end != nil {
			s.endAttempt(ctx, observe, e, s.attemptEvent(e), took)
		}
	}()
	if e.task.Err != nil {
		e.crashed = false
		e.err = e.task.Err
		s.judgeContained(e)
		return
	}
	if observe.start != nil {
		ctx = observe.attemptStarted(ctx, s.attemptEvent(e))
	}
	e.task.ctx = ctx
	if s.call(ctx, e) {
		e.crashed = false
		s.judgeContained(e)
	}
}

func (s *session[P, R]) attemptEvent(e *entry[P, R]) AttemptEvent {
	return AttemptEvent{Queue: s.cfg.Name, Kind: e.task.Kind, Token: e.task.Token, Class: e.task.Class,
		Attempt: e.task.Attempt, Due: e.task.Due, Claimed: e.task.Claimed, Waited: e.started.Sub(e.waiting)}
}

// endAttempt tells the observer how an attempt ended.
func (s *session[P, R]) endAttempt(ctx context.Context, observe *observers, e *entry[P, R], event AttemptEvent, took time.Duration) {
	if observe.end == nil {
		return
	}
	event.Duration, event.Decision, event.Failure, event.Err = took, e.verdict.Decision, e.verdict.Failure, e.err
	if e.settled {
		event.Decision = 0
	}
	observe.attemptEnded(ctx, event)
}

// crash describes a panic or Goexit without its text, which may carry data.
type crash struct {
	kind string // Go type of the value, or "runtime.Goexit"
	site string
	text string
}

func (c *crash) Error() string { return "panic: " + c.kind + " at " + c.site }

// call calls the handler; returned is false if it panicked.
func (s *session[P, R]) call(ctx context.Context, e *entry[P, R]) (returned bool) {
	defer func() {
		if returned {
			return
		}
		if v := recover(); v != nil {
			e.crash = describePanic(v)
			s.logPanic(e, e.crash, 1)
		}
	}()
	e.result, e.err = s.r.handler.Handle(ctx, &e.task)
	return true
}

func describePanic(v any) *crash {
	c := &crash{kind: typeName(v), site: panicSite()}
	if err, ok := v.(error); ok {
		c.text = textOf(err)
	} else {
		c.text = textOfValue(v)
	}
	return c
}

func textOfValue(v any) string {
	// fmt contains panics of String methods itself.
	return cleanText(fmt.Sprint(v), maxMessage)
}

// judgeContained calls judge, which calls methods of the application's errors.
func (s *session[P, R]) judgeContained(e *entry[P, R]) {
	defer func() {
		if v := recover(); v != nil {
			e.crashed, e.crash = true, describePanic(v)
			s.logPanic(e, e.crash, 1)
		}
	}()
	s.judge(e)
}

// judgeCrash makes the verdict of an attempt that panicked.
func (s *session[P, R]) judgeCrash(e *entry[P, R]) {
	f := &Failure{Code: CodePanic, Message: e.crash.Error()}
	if s.cfg.StoreErrorText && e.crash.text != "" {
		f.Message = e.crash.Error() + ": " + e.crash.text
	}
	if s.cfg.SealErrorText && e.crash.text != "" {
		f.Text = e.crash.Error() + ": " + e.crash.text
	}
	e.err = e.crash
	e.settled, e.pause = false, 0
	e.verdict = Verdict[R]{Token: e.task.Token, Decision: Retry, Failure: f.clean(), Delay: s.delay(e)}
}

// delay asks the kind's backoff.
func (s *session[P, R]) delay(e *entry[P, R]) time.Duration {
	failures := max(e.task.Failures, 0)
	if failures < 1<<31-1 {
		failures++
	}
	return delayAfter(e.kind.backoff, failures, s.cfg.Logger)
}

// judge makes the verdict of an attempt that returned; see [Handler] for the rules.
func (s *session[P, R]) judge(e *entry[P, R]) {
	s.mu.Lock()
	cause := e.cause
	e.judged = true // what happens from now on does not change the verdict
	s.mu.Unlock()

	v := &e.verdict
	v.Token = e.task.Token
	err := e.err
	var d *decided
	switch {
	case e.task.Err != nil:
		v.Decision, v.Failure, v.Delay = Retry, failureOf(err, CodeUndecodable, s.cfg.StoreErrorText), s.delay(e)
		v.Failure.Code = CodeUndecodable
	case err == nil && cause != ErrDeadline:
		v.Decision, v.Result = Succeed, &e.result
	case err == nil:
		e.err = ErrDeadline
		v.Decision, v.Failure, v.Delay = Retry, s.timeout(e), s.delay(e)
	case errors.Is(err, ErrSettled):
		e.settled = true
	case errors.Is(err, ErrConfirm):
		v.Decision, v.Delay = Confirm, s.delay(e)
		v.Failure = &Failure{Code: CodeNotCommitted, Message: "the handler's transaction did not commit"}
	case errors.As(err, &d):
		s.judgeDecided(e, d, cause)
	case cause == ErrStopping, cause == ErrLeaseLost:
		v.Decision = Release
	case cause == ErrCancelled:
		v.Decision = Cancel
	case cause == ErrDeadline:
		v.Decision, v.Failure, v.Delay = Retry, s.timeout(e), s.delay(e)
	default:
		v.Decision, v.Failure, v.Delay = Retry, failureOf(err, CodeError, s.cfg.StoreErrorText), s.delay(e)
	}
	if f := v.Failure; f != nil && s.cfg.SealErrorText && e.err != nil && v.Decision != Confirm && f.Code != CodeTimeout {
		f.Text = cleanText(textOf(e.err), maxMessage)
	}
	if v.Decision != Confirm { // the queue decides, and then it is told
		s.logFailure(e)
	}
}

func (s *session[P, R]) judgeDecided(e *entry[P, R], d *decided, cause error) {
	v := &e.verdict
	switch d.will {
	case willFail:
		v.Decision, v.Failure = Fail, failureOf(e.err, CodeError, s.cfg.StoreErrorText)
	case willCancel:
		v.Decision = Cancel
		if d.err != nil {
			v.Failure = failureOf(e.err, CodeError, s.cfg.StoreErrorText)
		}
	case willSnooze:
		v.Decision, v.Delay = Snooze, d.delay
	case willPause:
		v.Decision, v.Delay, e.pause = Snooze, d.delay, d.delay
	case willRetryAfter:
		v.Decision, v.Delay = Retry, d.delay
		if v.Delay <= 0 {
			v.Delay = s.delay(e)
		}
		if cause == ErrDeadline {
			v.Failure = s.timeout(e)
		} else {
			v.Failure = failureOf(e.err, CodeError, s.cfg.StoreErrorText)
		}
	}
}

func (s *session[P, R]) timeout(e *entry[P, R]) *Failure {
	return &Failure{Code: CodeTimeout, Message: "deadline of " + e.kind.deadline.String() + " exceeded"}
}

// panicSite names the first function of the application on the stack of a deferred call.
func panicSite() string {
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	below := false // the runtime's panic or Goexit
	for {
		f, more := frames.Next()
		switch {
		case strings.HasPrefix(f.Function, "runtime."):
			below = below || f.Function == "runtime.gopanic" || f.Function == "runtime.Goexit" ||
				f.Function == "runtime.sigpanic" || strings.HasPrefix(f.Function, "runtime.panic")
		case below && f.Function != "":
			return fmt.Sprintf("%s (%s:%d)", f.Function, path.Base(f.File), f.Line)
		}
		if !more {
			return "unknown"
		}
	}
}
