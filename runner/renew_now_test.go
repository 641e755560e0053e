package runner

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// isTask says yes to the token of one task.
func isTask(id int) func(Token) bool {
	return func(token Token) bool { return token.(*ticket).id == id }
}

// answering has renewals answered one by one, and everything that answer has no word for with Renewed.
func answering(answer func(id int) Renewal) func(tokens []Token) ([]Renewal, error, bool) {
	return func(tokens []Token) ([]Renewal, error, bool) {
		answers := make([]Renewal, len(tokens))
		for i, token := range tokens {
			if answers[i] = answer(token.(*ticket).id); answers[i] == 0 {
				answers[i] = Renewed
			}
		}
		return answers, nil, true
	}
}

// A renewal that is asked for comes at once, concerns that task alone, and its answer counts as that of any other.
func TestRenewNowAsksAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(2)
		cancelled := false
		f.onRenew = answering(func(id int) Renewal {
			if id == 1 && cancelled {
				return CancelRequested
			}
			return 0
		})
		var cause error
		var at time.Time
		r := start(t, renewing{f}, handle(func(ctx context.Context, task *Task[int]) error {
			<-ctx.Done()
			if task.Token.(*ticket).id == 1 {
				cause, at = context.Cause(ctx), time.Now()
			}
			return ctx.Err()
		}), Config{Workers: 2, Deadline: -1, StopTimeout: time.Nanosecond})
		pass(time.Second)
		if n := r.RenewNow(isTask(1)); n != 1 {
			t.Fatalf("%d tasks, want 1", n)
		}
		pass(time.Millisecond)
		if cause != nil {
			t.Fatalf("cancelled by the news alone: %v", cause)
		}
		cancelled = true
		asked := time.Now()
		r.RenewNow(isTask(1))
		pass(time.Millisecond)
		if cause != ErrCancelled || at != asked {
			t.Errorf("cause %v after %v", cause, at.Sub(asked))
		}
		for _, call := range (renewing{f}).calls() {
			if !slices.Equal(call.ids, []int{1}) {
				t.Errorf("renewed %v", call.ids)
			}
		}
		if v := f.lastVerdict(1); v.Decision != Cancel {
			t.Errorf("%+v", v)
		}
		if n := r.RenewNow(isTask(1)); n != 0 {
			t.Errorf("%d tasks after its end", n)
		}
	})
}

// A task that waits for a slot is cancelled without ever having run.
func TestRenewNowOfATaskThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(0)
		f.add("a", 0)
		f.add("a", 0)
		f.onRenew = answering(func(id int) Renewal {
			if id == 2 {
				return CancelRequested
			}
			return 0
		})
		gate := make(chan struct{})
		r := start(t, renewing{f}, handle(func(context.Context, *Task[int]) error { <-gate; return nil }),
			Config{Workers: 2, Kinds: []KindConfig{{Name: "a", Workers: 1}, {Name: "b"}}})
		if st := r.Status(); st.Buffered != 1 {
			t.Fatalf("%+v", st)
		}
		r.RenewNow(isTask(2))
		pass(10 * time.Millisecond)
		if v := f.lastVerdict(2); v.Decision != Cancel || v.Started {
			t.Errorf("%+v", v)
		}
		close(gate)
	})
}

// Whoever asks while a claim is under way means the tasks that it brings, too; those of later claims it does not concern.
func TestRenewNowDuringAClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(1)
		slow := true
		f.afterClaim = func(tasks []Task[int]) []Task[int] {
			if slow {
				time.Sleep(time.Second) // the answer is on its way
			}
			return tasks
		}
		f.onRenew = answering(func(id int) Renewal {
			if id == 1 {
				return CancelRequested
			}
			return 0
		})
		var cause error
		var at time.Time
		r := start(t, renewing{f}, untilCancelled(&cause, &at), Config{Deadline: -1, StopTimeout: time.Nanosecond})
		pass(500 * time.Millisecond)
		if n := r.RenewNow(func(Token) bool { return true }); n != 0 {
			t.Fatalf("%d tasks, want none yet", n)
		}
		pass(600 * time.Millisecond)
		// The renewal may come before a slot takes the task: then it is cancelled without having run.
		if v := f.lastVerdict(1); v.Decision != Cancel || cause != nil && cause != ErrCancelled {
			t.Errorf("cause %v, verdict %+v", cause, v)
		}
		slow = false
		f.add("", 0)
		r.Wake()
		pass(time.Second)
		if n := len(renewing{f}.calls()); n != 1 {
			t.Errorf("%d renewals, want the one that was asked for", n)
		}
	})
}

// A locked row, and a store that does not answer, are asked again soon, and not for ever.
func TestRenewNowAsksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(1)
		tries := 0
		f.onRenew = func([]Token) ([]Renewal, error, bool) {
			tries++
			switch {
			case tries == 1:
				return nil, context.DeadlineExceeded, true
			case tries < 4:
				return []Renewal{Locked}, nil, true
			default:
				return []Renewal{CancelRequested}, nil, true
			}
		}
		var cause error
		var at time.Time
		r := start(t, renewing{f}, untilCancelled(&cause, &at), Config{Deadline: -1, StopTimeout: time.Nanosecond})
		began := time.Now()
		r.RenewNow(isTask(1))
		pass(time.Second)
		if cause != ErrCancelled || at.Sub(began) > time.Second {
			t.Errorf("cause %v after %v and %d tries", cause, at.Sub(began), tries)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		f := newFake(1)
		f.onRenew = func([]Token) ([]Renewal, error, bool) { return []Renewal{Locked}, nil, true }
		gate := make(chan struct{})
		r := start(t, renewing{f}, handle(func(context.Context, *Task[int]) error { <-gate; return nil }),
			Config{Deadline: -1, Lease: 10 * time.Minute, RenewEvery: 3 * time.Minute, StorageTimeout: time.Second})
		r.RenewNow(isTask(1))
		pass(time.Minute)
		if n := len(renewing{f}.calls()); n != urgentTries {
			t.Errorf("%d tries, want %d", n, urgentTries)
		}
		close(gate)
	})
}

// Without renewal, and without a run, there is nothing to do.
func TestRenewNowWithoutRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(1)
		gate := make(chan struct{})
		r := start(t, f, handle(func(context.Context, *Task[int]) error { <-gate; return nil }), Config{})
		if n := r.RenewNow(isTask(1)); n != 0 {
			t.Errorf("%d tasks", n)
		}
		close(gate)
		idle, err := New(renewing{f}, handle(func(context.Context, *Task[int]) error { return nil }), Config{})
		if err != nil {
			t.Fatal(err)
		}
		if n := idle.RenewNow(isTask(1)); n != 0 {
			t.Errorf("%d tasks of a runner that does not run", n)
		}
	})
}
