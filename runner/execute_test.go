package runner

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

type badError struct{}

func (badError) Error() string { panic("Error panics") }

type nilError struct{}

func (e *nilError) Error() string { return "typed nil" }

type derefError struct{ text string }

func (e *derefError) Error() string { return e.text }

type evilUnwrap struct{}

func (evilUnwrap) Error() string { return "evil" }
func (evilUnwrap) Unwrap() error { panic("Unwrap panics") }

type chaos struct{} // every method of an observer panics

func (chaos) ClaimDone(ClaimEvent) { panic("x") }
func (chaos) AttemptStarted(context.Context, AttemptEvent) context.Context {
	panic("x")
}
func (chaos) AttemptEnded(context.Context, AttemptEvent) { panic("x") }
func (chaos) VerdictDone(VerdictEvent)                   { panic("x") }
func (chaos) FlushDone(FlushEvent)                       { panic("x") }
func (chaos) RenewDone(RenewEvent)                       { panic("x") }
func (chaos) LeaseLost(LeaseEvent)                       { panic("x") }
func (chaos) TaskStuck(StuckEvent)                       { panic("x") }
func (chaos) Woken(WakeEvent)                            { panic("x") }

// C49: whatever a handler does is one failed attempt; the slot is used again.
func TestContainment(t *testing.T) {
	var typedNil *nilError
	var derefNil *derefError
	tests := map[string]struct {
		do      func() error
		code    string
		message string // contained in the stored one
	}{
		"panic string":          {func() error { panic("jane@example.com") }, CodePanic, "panic: string at"},
		"panic nil":             {func() error { panic(nil) }, CodePanic, "runtime.PanicNilError"},
		"panic error":           {func() error { panic(errors.New("x")) }, CodePanic, "*errors.errorString"},
		"panic bad error":       {func() error { panic(badError{}) }, CodePanic, "runner.badError"},
		"nil map":               {func() error { var m map[string]int; m["a"] = 1; return nil }, CodePanic, "runtime."},
		"goexit":                {func() error { runtime.Goexit(); return nil }, CodePanic, "runtime.Goexit at"},
		"typed nil":             {func() error { return typedNil }, CodeError, "*runner.nilError"},
		"typed nil that panics": {func() error { return derefNil }, CodeError, "*runner.derefError"},
		"bad error":             {func() error { return badError{} }, CodeError, "runner.badError"},
		"bad error, wrapped":    {func() error { return Permanent(Coded("c", badError{})) }, "c", "runner.badError"},
		"evil unwrap":           {func() error { return evilUnwrap{} }, CodePanic, "panic: string at"},
	}
	for name, test := range tests {
		for _, observer := range []any{nil, chaos{}} {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(2)
				r := start(t, renewing{f}, handle(func(_ context.Context, task *Task[int]) error {
					if task.Payload == 1 {
						return test.do()
					}
					return nil
				}), Config{Workers: 1, Observer: observer, Backoff: policy(func(int) time.Duration { return time.Hour })})
				v := f.lastVerdict(1)
				if v.Failure == nil || v.Failure.Code != test.code || !strings.Contains(v.Failure.Message, test.message) {
					t.Fatalf("%s: %+v, %+v", name, v, v.Failure)
				}
				if v.Decision != Retry && v.Decision != Fail || v.Decision == Retry && v.Delay != time.Hour {
					t.Errorf("%s: %+v", name, v)
				}
				if strings.Contains(v.Failure.Message, "jane") {
					t.Errorf("%s: the text of a panic was stored", name)
				}
				if test.code == CodePanic && !strings.Contains(v.Failure.Message, "execute_test.go") {
					t.Errorf("%s: %q does not name the place", name, v.Failure.Message)
				}
				if f.lastVerdict(2).Decision != Succeed {
					t.Errorf("%s: the slot was not used again", name)
				}
				if st := r.Status(); st.InFlight != 0 || st.LastErrorCode != test.code || len(f.allVerdicts()) != 2 {
					t.Errorf("%s: status %+v, %d verdicts", name, st, len(f.allVerdicts()))
				}
			})
		}
	}
}

// What a handler's error decides.
func TestDecisions(t *testing.T) {
	plain := errors.New("plain")
	tests := map[string]struct {
		err   error
		want  Decision
		delay time.Duration
		code  string
	}{
		"nil":             {nil, Succeed, 0, ""},
		"plain":           {plain, Retry, time.Hour, CodeError},
		"permanent":       {fmt.Errorf("a: %w", Permanent(plain)), Fail, 0, CodeError},
		"retry after":     {RetryAfter(time.Minute, plain), Retry, time.Minute, CodeError},
		"retry after 0":   {RetryAfter(0, plain), Retry, time.Hour, CodeError},
		"snooze":          {errors.Join(plain, SnoozeFor(time.Minute)), Snooze, time.Minute, ""},
		"snooze 0":        {SnoozeFor(0), Snooze, 0, ""},
		"cancel":          {CancelWith(nil), Cancel, 0, ""},
		"cancel because":  {CancelWith(Coded("gone", plain)), Cancel, 0, "gone"},
		"confirm":         {fmt.Errorf("a: %w", ErrConfirm), Confirm, time.Hour, CodeNotCommitted},
		"outermost":       {Permanent(RetryAfter(time.Minute, plain)), Fail, 0, CodeError},
		"coded permanent": {Coded("c", Permanent(plain)), Fail, 0, "c"},
	}
	for name, test := range tests {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(1)
			var once bool
			start(t, renewing{f}, handle(func(context.Context, *Task[int]) error {
				if once {
					return nil
				}
				once = true
				return test.err
			}), Config{Backoff: policy(func(int) time.Duration { return time.Hour })})
			v := f.allVerdicts()[0]
			code := ""
			if v.Failure != nil {
				code = v.Failure.Code
			}
			if v.Decision != test.want || v.Delay != test.delay || code != test.code || (v.Result != nil) != (test.want == Succeed) {
				t.Errorf("%s: %+v, code %q", name, v, code)
			}
		})
	}
}

// A settled task is not reported and counts as done.
func TestSettledIsNotReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(1)
		r := start(t, renewing{f}, handle(func(context.Context, *Task[int]) error {
			f.mu.Lock()
			f.jobs[0].done = true
			f.mu.Unlock()
			return fmt.Errorf("in the transaction: %w", ErrSettled)
		}), Config{})
		if n := len(f.allVerdicts()); n != 0 {
			t.Errorf("%d verdicts", n)
		}
		if st := r.Status(); st.Outcomes.Succeeded != 1 || st.LastErrorCode != "" {
			t.Errorf("status %+v", st)
		}
	})
}

// A payload that cannot be decoded fails alone and reaches no handler.
func TestUndecodable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(3)
		f.jobs[1].err = Coded("json", errors.New("bad"))
		start(t, renewing{f}, handle(func(_ context.Context, task *Task[int]) error {
			if task.Payload == 2 {
				t.Error("it reached the handler")
			}
			return nil
		}), Config{})
		v := f.lastVerdict(2)
		if v.Decision != Retry || v.Failure.Code != CodeUndecodable || v.Delay <= 0 {
			t.Errorf("%+v", v)
		}
		if f.lastVerdict(1).Decision != Succeed || f.lastVerdict(3).Decision != Succeed {
			t.Error("its neighbours suffered")
		}
	})
}

// The policy sees the failures, this one included, and a snooze does not count.
func TestBackoffSeesFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(1)
		var saw []int
		start(t, renewing{f}, handle(func(_ context.Context, task *Task[int]) error {
			switch {
			case task.Attempt%2 == 1 && task.Attempt < 8:
				return SnoozeFor(time.Second)
			case task.Attempt < 8:
				return errors.New("x")
			}
			return nil
		}), Config{Workers: 1, Backoff: policy(func(n int) time.Duration { saw = append(saw, n); return time.Second })})
		pass(time.Minute)
		if fmt.Sprint(saw) != "[1 2 3]" {
			t.Errorf("the policy saw %v", saw)
		}
	})
}

// Pause stops claims for its time, releases what has not started, and spends nothing.
func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(0)
		for range 10 {
			f.add("a", 0)
		}
		down := true
		gate := make(chan struct{})
		r := start(t, renewing{f}, handle(func(_ context.Context, task *Task[int]) error {
			if down {
				<-gate
				down = false
				return Pause(time.Minute)
			}
			return nil
		}), Config{Workers: 10, Kinds: []KindConfig{{Name: "a", Workers: 1}, {Name: "b"}}})
		if st := r.Status(); st.Buffered != 9 {
			t.Fatalf("%+v", st)
		}
		began := time.Now()
		close(gate)
		synctest.Wait()
		claims := len(f.claims())
		st := r.Status()
		if st.Outcomes.Snoozed != 1 || st.Outcomes.Released != 9 || st.Buffered != 0 || st.PausedUntil.Sub(began) != time.Minute {
			t.Errorf("when paused: %+v", st)
		}
		pass(50 * time.Second)
		r.Wake()
		pass(9 * time.Second)
		if n := len(f.claims()); n != claims {
			t.Errorf("%d claims during the pause", n-claims)
		}
		pass(2 * time.Second)
		if st := r.Status(); st.Outcomes.Succeeded != 10 || !st.PausedUntil.IsZero() {
			t.Errorf("after the pause: %+v", st)
		}
	})
}

// Texts are stored when asked for, and only then.
func TestStoreErrorText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(2)
		start(t, renewing{f}, handle(func(_ context.Context, task *Task[int]) error {
			if task.Payload == 1 {
				panic("the text")
			}
			return errors.New("the text")
		}), Config{StoreErrorText: true})
		for id := 1; id <= 2; id++ {
			if v := f.lastVerdict(id); !strings.Contains(v.Failure.Message, "the text") {
				t.Errorf("%d: %q", id, v.Failure.Message)
			}
		}
	})
}

type tracer struct{ ended []AttemptEvent }

type traceKey struct{}

func (*tracer) AttemptStarted(ctx context.Context, e AttemptEvent) context.Context {
	return context.WithValue(ctx, traceKey{}, e.Token.String())
}
func (o *tracer) AttemptEnded(ctx context.Context, e AttemptEvent) {
	if ctx.Value(traceKey{}) != e.Token.String() {
		panic("not the context of the start")
	}
	o.ended = append(o.ended, e)
}

// The context of an observer reaches the handler and comes back at the end, with the duration and the decision.
func TestTracing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, o := newFake(1), &tracer{}
		start(t, renewing{f}, handle(func(ctx context.Context, _ *Task[int]) error {
			if ctx.Value(traceKey{}) == nil {
				t.Error("no span")
			}
			if _, ok := ctx.Deadline(); !ok {
				t.Error("no deadline")
			}
			time.Sleep(time.Second)
			return Permanent(errors.New("x"))
		}), Config{Observer: o})
		pass(2 * time.Second)
		if len(o.ended) != 1 || o.ended[0].Duration != time.Second || o.ended[0].Decision != Fail || o.ended[0].Err == nil {
			t.Errorf("%+v", o.ended)
		}
	})
}
