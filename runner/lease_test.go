package runner

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

type recorder struct {
	stuck    atomic.Int32
	lost     atomic.Int32
	refused  atomic.Int32
	verdicts chan VerdictEvent
}

func (r *recorder) TaskStuck(StuckEvent) { r.stuck.Add(1) }
func (r *recorder) LeaseLost(e LeaseEvent) {
	r.lost.Add(1)
	if e.Refused {
		r.refused.Add(1)
	}
}
func (r *recorder) VerdictDone(e VerdictEvent) {
	if r.verdicts != nil {
		r.verdicts <- e
	}
}

// untilCancelled waits for its context and returns what ended it.
func untilCancelled(cause *error, at *time.Time) Handler[int, int] {
	var mu sync.Mutex
	return handle(func(ctx context.Context, _ *Task[int]) error {
		<-ctx.Done()
		mu.Lock()
		defer mu.Unlock()
		*cause, *at = context.Cause(ctx), time.Now()
		return ctx.Err()
	})
}

// C40: a task that runs much longer than its lease is renewed and runs once.
func TestLongTaskIsRenewed(t *testing.T) {
	for _, deadline := range []time.Duration{-1, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(1)
			start(t, renewing{f}, handle(func(ctx context.Context, _ *Task[int]) error {
				select {
				case <-time.After(30 * time.Second):
					return nil
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			}), Config{Lease: 2 * time.Second, Deadline: deadline})
			pass(31 * time.Second)
			if v := f.lastVerdict(1); v.Decision != Succeed || v.Token.(*ticket).attempt != 1 {
				t.Errorf("deadline %v: %+v", deadline, v)
			}
			calls := renewing{f}.calls()
			if len(calls) < 40 || len(calls) > 60 {
				t.Errorf("%d renewals in 30 s", len(calls))
			}
		})
	}
}

// One renewal covers running and waiting tasks in one call.
func TestRenewalIsOneBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(0)
		for range 10 {
			f.add("a", 0)
		}
		gate := make(chan struct{})
		r := start(t, renewing{f}, handle(func(context.Context, *Task[int]) error { <-gate; return nil }),
			Config{Workers: 10, Kinds: []KindConfig{{Name: "a", Workers: 3}, {Name: "b"}}})
		if st := r.Status(); st.InFlight != 3 || st.Buffered != 7 {
			t.Fatalf("%+v", st)
		}
		pass(10 * time.Second)
		calls := renewing{f}.calls()
		if len(calls) != 1 || len(calls[0].ids) != 10 {
			t.Errorf("renewals %+v", calls)
		}
		close(gate)
	})
}

func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(1)
		began := time.Now()
		var cause error
		var at time.Time
		start(t, renewing{f}, handle(func(ctx context.Context, _ *Task[int]) error {
			if d, ok := ctx.Deadline(); !ok || d.Sub(began) != time.Second {
				t.Errorf("context says %v, %v", d.Sub(began), ok)
			}
			if ctx.Err() != nil {
				t.Error("ended at the start")
			}
			<-ctx.Done()
			cause, at = context.Cause(ctx), time.Now()
			if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
				t.Errorf("Err is %v", ctx.Err())
			}
			return ctx.Err()
		}), Config{Deadline: time.Second})
		pass(1100 * time.Millisecond)
		if cause != ErrDeadline || at.Sub(began) != time.Second {
			t.Errorf("cause %v after %v", cause, at.Sub(began))
		}
		v := f.lastVerdict(1)
		if v.Decision != Retry || v.Failure == nil || v.Failure.Code != CodeTimeout || v.Delay <= 0 {
			t.Errorf("verdict %+v", v)
		}
	})
}

// A success after the deadline is too late; an explicit decision is not.
func TestLateAnswers(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		want Decision
		code string
	}{
		"nil":       {nil, Retry, CodeTimeout},
		"plain":     {errors.New("x"), Retry, CodeTimeout},
		"permanent": {Permanent(Coded("bad", errors.New("x"))), Fail, "bad"},
		"cancel":    {CancelWith(nil), Cancel, ""},
		"snooze":    {SnoozeFor(time.Hour), Snooze, ""},
		"confirm":   {ErrConfirm, Confirm, CodeNotCommitted},
		"later":     {RetryAfter(time.Hour, errors.New("x")), Retry, CodeTimeout},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(1)
			start(t, renewing{f}, handle(func(context.Context, *Task[int]) error {
				time.Sleep(2 * time.Second)
				return test.err
			}), Config{Deadline: time.Second})
			pass(2100 * time.Millisecond)
			v := f.lastVerdict(1)
			code := ""
			if v.Failure != nil {
				code = v.Failure.Code
			}
			if v.Decision != test.want || code != test.code {
				t.Errorf("%s: %+v, code %q", name, v, code)
			}
		})
	}
}

// A handler that ignores its deadline keeps its slot, is counted and told about once, and its lease is no longer renewed.
func TestStuckHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(2)
		gate := make(chan struct{})
		seen := &recorder{}
		r := start(t, renewing{f}, handle(func(_ context.Context, task *Task[int]) error {
			if task.Payload == 1 && task.Attempt == 1 {
				<-gate
			}
			return nil
		}), Config{Deadline: 30 * time.Second, CleanUp: 5 * time.Second, Lease: 9 * time.Second, Observer: seen})
		pass(34 * time.Second)
		if st := r.Status(); st.Stuck != 0 || seen.stuck.Load() != 0 {
			t.Errorf("stuck before its time: %+v", st)
		}
		pass(2 * time.Second)
		if st := r.Status(); st.Stuck != 1 || st.InFlight != 1 {
			t.Errorf("after deadline and clean-up: %+v", st)
		}
		pass(time.Minute)
		if n := seen.stuck.Load(); n != 1 {
			t.Errorf("told %d times", n)
		}
		for _, call := range (renewing{f}).calls() {
			if slices.Contains(call.ids, 1) && call.at.Sub(f.claims()[0]) > 35*time.Second {
				t.Errorf("renewed %v after its start", call.at.Sub(f.claims()[0]))
			}
		}
		// The lease ran out, and the task ran again in the other slot.
		if v := f.lastVerdict(1); v.Decision != Succeed || v.Token.(*ticket).attempt != 2 {
			t.Errorf("verdict %+v", v)
		}
		close(gate)
		synctest.Wait()
		if st := r.Status(); st.Stuck != 0 || st.InFlight != 0 || st.Outcomes.Lost != 1 {
			t.Errorf("at the end: %+v", st)
		}
	})
}

// C40: with no answer at all the context ends before the lease does, counted from before the claim was sent.
func TestUnansweredLease(t *testing.T) {
	for _, claimTakes := range []time.Duration{0, 2 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(1)
			f.afterClaim = func(tasks []Task[int]) []Task[int] {
				if len(tasks) > 0 {
					time.Sleep(claimTakes)
				}
				return tasks
			}
			f.onRenew = func([]Token) ([]Renewal, error, bool) { return nil, errors.New("down"), true }
			sent := time.Now()
			var cause error
			var at time.Time
			seen := &recorder{}
			start(t, renewing{f}, untilCancelled(&cause, &at), Config{Observer: seen})
			pass(40 * time.Second)
			if cause != ErrLeaseLost || at.Sub(sent) >= 30*time.Second || at.Sub(sent) < 26*time.Second {
				t.Errorf("claim took %v: cause %v, %v after it was sent", claimTakes, cause, at.Sub(sent))
			}
			if v := f.allVerdicts()[0]; v.Decision != Release {
				t.Errorf("an outage must cost nothing: %+v", v)
			}
			if seen.lost.Load() < 1 || seen.refused.Load() != 0 {
				t.Errorf("told %d, refused %d", seen.lost.Load(), seen.refused.Load())
			}
		})
	}
}

// A store that hangs counts as no answer: the call is bounded.
func TestHangingRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(1)
		hang := hanging{f}
		var cause error
		var at time.Time
		sent := time.Now()
		start(t, hang, untilCancelled(&cause, &at), Config{})
		pass(35 * time.Second)
		if cause != ErrLeaseLost || at.Sub(sent) >= 30*time.Second {
			t.Errorf("cause %v after %v", cause, at.Sub(sent))
		}
	})
}

type hanging struct{ *fake }

func (hanging) Renew(ctx context.Context, _ []Token, _ time.Duration) ([]Renewal, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// A single failed renewal is made good soon, and costs nothing.
func TestFailedRenewalIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(1)
		n := 0
		f.onRenew = func(tokens []Token) ([]Renewal, error, bool) {
			n++
			switch n % 3 {
			case 1:
				panic("renewal")
			case 2:
				return nil, nil, true // a wrong number of answers
			}
			return nil, nil, false
		}
		var cause error
		var at time.Time
		start(t, renewing{f}, untilCancelled(&cause, &at), Config{Deadline: -1})
		pass(5 * time.Minute)
		if cause != nil {
			t.Errorf("cancelled: %v", cause)
		}
	})
}

// Renewal answers: refused ends the context, locked goes on and is asked first and soon, cancel requested cancels.
func TestRenewalAnswers(t *testing.T) {
	t.Run("refused", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(1)
			f.onRenew = func([]Token) ([]Renewal, error, bool) { return []Renewal{Refused}, nil, true }
			var cause error
			var at time.Time
			seen := &recorder{}
			start(t, renewing{f}, untilCancelled(&cause, &at), Config{Observer: seen})
			pass(10 * time.Second)
			if cause != ErrLeaseLost || seen.refused.Load() != 1 {
				t.Errorf("cause %v, told %d times", cause, seen.refused.Load())
			}
		})
	})
	t.Run("refused before its start", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(0)
			f.add("a", 0)
			f.add("a", 0)
			f.onRenew = func(tokens []Token) ([]Renewal, error, bool) {
				answers := make([]Renewal, len(tokens))
				for i, token := range tokens {
					answers[i] = Renewed
					if token.(*ticket).id == 2 {
						answers[i] = Refused
					}
				}
				return answers, nil, true
			}
			gate := make(chan struct{})
			r := start(t, renewing{f}, handle(func(_ context.Context, task *Task[int]) error {
				if task.Payload == 2 {
					t.Error("a lost task was started")
				}
				<-gate
				return nil
			}), Config{Workers: 4, Kinds: []KindConfig{{Name: "a", Workers: 1}, {Name: "b"}}})
			pass(10 * time.Second)
			if st := r.Status(); st.Buffered != 0 || st.Outcomes.Lost != 1 {
				t.Errorf("%+v", st)
			}
			f.mu.Lock()
			f.jobs[1].done = true
			f.mu.Unlock()
			close(gate)
		})
	})
	t.Run("locked", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(3)
			locked := true
			f.onRenew = func(tokens []Token) ([]Renewal, error, bool) {
				answers := make([]Renewal, len(tokens))
				for i, token := range tokens {
					answers[i] = Renewed
					if token.(*ticket).id == 3 && locked {
						answers[i] = Locked
					}
				}
				return answers, nil, true
			}
			var cause error
			var at time.Time
			start(t, renewing{f}, untilCancelled(&cause, &at), Config{Workers: 3, Deadline: -1})
			pass(3 * time.Minute)
			if cause != nil {
				t.Fatalf("a locked row cancelled the handler: %v", cause)
			}
			calls := renewing{f}.calls()
			if gap := calls[1].at.Sub(calls[0].at); gap > 5*time.Second {
				t.Errorf("asked again after %v", gap)
			}
			for _, call := range calls[1:] {
				if call.ids[0] != 3 {
					t.Errorf("the locked one is not the first of %v", call.ids)
				}
			}
		})
	})
	t.Run("cancel requested", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(1)
			f.onRenew = func([]Token) ([]Renewal, error, bool) { return []Renewal{CancelRequested}, nil, true }
			var cause error
			var at time.Time
			start(t, renewing{f}, untilCancelled(&cause, &at), Config{})
			pass(10 * time.Second)
			if v := f.lastVerdict(1); cause != ErrCancelled || v.Decision != Cancel {
				t.Errorf("cause %v, verdict %+v", cause, v)
			}
		})
	})
}

// A claim whose answer took longer than the lease is not run.
func TestClaimAnsweredTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(1)
		f.afterClaim = func(tasks []Task[int]) []Task[int] {
			if len(tasks) > 0 {
				f.afterClaim = func([]Task[int]) []Task[int] { return nil }
				time.Sleep(31 * time.Second)
			}
			return tasks
		}
		start(t, renewing{f}, handle(func(context.Context, *Task[int]) error {
			t.Error("it ran")
			return nil
		}), Config{})
		pass(32 * time.Second)
		if v := f.lastVerdict(1); v.Decision != Release {
			t.Errorf("verdict %+v", v)
		}
	})
}
