package runner

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// loop finds one loop in a status.
func loop(t *testing.T, r *Runner[int, int], name string) LoopStatus {
	t.Helper()
	loops := r.Status().Loops
	i := slices.IndexFunc(loops, func(l LoopStatus) bool { return l.Name == name })
	if i < 0 {
		t.Fatalf("no loop %q in %+v", name, loops)
	}
	return loops[i]
}

// codedError is what a driver returns for an error of its server.
type codedError struct{ text string }

func (e codedError) Error() string  { return e.text }
func (codedError) SQLState() string { return "42501" }

// A claim that fails, or hangs, is shown with the time since when and a reason without data; one that works ends that.
func TestAFailingClaimIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(0)
		var failing atomic.Pointer[error]
		f.beforeClaim = func(ClaimRequest) error {
			if err := failing.Load(); err != nil {
				return *err
			}
			return nil
		}
		r := start(t, renewing{f}, handle(noop), Config{})
		pass(10 * time.Second)
		if l := loop(t, r, "claim"); !l.Trying.IsZero() || time.Since(l.Progress) > time.Second || l.Ended || l.Hung {
			t.Errorf("of an idle runner: %+v", l)
		}
		refused, paused := error(codedError{"permission denied for secret@example.com"}), ErrPaused
		failing.Store(&refused)
		pass(10 * time.Second)
		l := loop(t, r, "claim")
		if since := time.Since(l.Trying); since < 9*time.Second || since > 10*time.Second || l.Reason != "SQLSTATE 42501" {
			t.Errorf("while claims fail: trying for %v, %+v", since, l)
		}
		if time.Since(l.Progress) < 9*time.Second {
			t.Errorf("progress %v ago while claims fail", time.Since(l.Progress))
		}
		failing.Store(&paused) // an answer
		pass(5 * time.Second)
		if l := loop(t, r, "claim"); !l.Trying.IsZero() || l.Reason != "" {
			t.Errorf("of a paused queue: %+v", l)
		}
	})
}

// Verdicts and renewals that get no answer are shown in the same way, and forgotten when nothing is left to try.
func TestFailingReportsAndRenewalsAreShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(2)
		var down atomic.Bool
		f.onRenew = func([]Token) ([]Renewal, error, bool) { return nil, errors.New("down"), down.Load() }
		f.onReport = func([]Verdict[int]) ([]Outcome, error, bool) { return nil, errors.New("down"), down.Load() }
		gate := make(chan struct{})
		h := handle(func(_ context.Context, task *Task[int]) error {
			if task.Payload == 1 {
				<-gate
			}
			return nil
		})
		f.beforeClaim = func(ClaimRequest) error { return nil }
		down.Store(true)
		r := start(t, renewing{f}, h, Config{})
		pass(20 * time.Second)
		for _, name := range []string{"renew", "flush"} {
			if l := loop(t, r, name); time.Since(l.Trying) < 5*time.Second || time.Since(l.Trying) > 20*time.Second ||
				l.Reason != "failed with *errors.errorString" {
				t.Errorf("%+v", l)
			}
		}
		if l := loop(t, r, "watch"); !l.Trying.IsZero() || l.Ended || l.Hung {
			t.Errorf("%+v", l)
		}
		down.Store(false)
		close(gate)
		pass(2 * time.Minute) // the claims' leases have run out meanwhile; what is left of them is lost
		for _, name := range []string{"claim", "renew", "flush", "watch"} {
			if l := loop(t, r, name); !l.Trying.IsZero() || l.Ended || l.Hung {
				t.Errorf("when all is well again: %+v", l)
			}
		}
	})
}

// A probe from outside that answers ends an old failure of the runner's own look, but not that of a claim that is wanted.
func TestAnAnswerFromOutsideExcusesAnIdleLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(0)
		r := start(t, renewing{f}, handle(noop), Config{Poll: time.Hour, ProbedOutside: true})
		pass(time.Second)
		r.run.pulses.claim.Call()
		r.run.pulses.claim.Done(errors.New("a look failed"))
		r.Probed(Probe{})
		pass(time.Second)
		if l := loop(t, r, "claim"); !l.Trying.IsZero() {
			t.Errorf("%+v", l)
		}
		f.beforeClaim = func(ClaimRequest) error { return errors.New("refused") }
		r.Wake()
		pass(time.Second)
		r.Probed(Probe{})
		if l := loop(t, r, "claim"); l.Trying.IsZero() {
			t.Errorf("of claims that fail while probes are answered: %+v", l)
		}
	})
}

// exits ends the goroutine of whoever tells it of a claim, as a t.FailNow in an observer does.
type exits struct{ on atomic.Bool }

func (e *exits) ClaimDone(ClaimEvent) {
	if e.on.Load() {
		runtime.Goexit()
	}
}

func (e *exits) FlushDone(FlushEvent) {
	if e.on.Load() {
		runtime.Goexit()
	}
}

// A loop whose goroutine ends takes nobody in: without the loop that claims the run ends with an error, and the others are
// shown as ended.
func TestAnEndedLoopIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		observer := &exits{}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		_, ended := run(t, ctx, renewing{newFake(0)}, handle(noop), Config{Observer: observer})
		pass(time.Second)
		observer.on.Store(true)
		pass(10 * time.Second)
		select {
		case err := <-ended:
			if err == nil || !strings.Contains(err.Error(), "ended although nobody stopped it") {
				t.Errorf("ended with %v", err)
			}
		default:
			t.Error("a runner without a loop runs on")
		}
	})
	synctest.Test(t, func(t *testing.T) {
		observer := &exits{}
		observer.on.Store(true)
		f := newFake(1)
		gate := make(chan struct{})
		ctx, stop := context.WithCancel(t.Context())
		r, ended := run(t, ctx, renewing{f}, handle(blocked(gate)), Config{Observer: flushOnly{observer}})
		pass(time.Second)
		if l := loop(t, r, "flush"); l.Ended {
			t.Fatalf("before: %+v", l)
		}
		close(gate)
		pass(time.Second)
		if l := loop(t, r, "flush"); !l.Ended {
			t.Errorf("after Goexit in an observer: %+v", l)
		}
		stop()
		<-ended
	})
}

type flushOnly struct{ *exits }

func (flushOnly) ClaimDone(ClaimEvent) {}

// blocks never comes back from the second claim on.
type blocks struct{ gate chan struct{} }

func (b blocks) Woken(WakeEvent) { <-b.gate }

// An observer that blocks hangs its loop, which is shown after more than a minute; an idle loop, a long sleep and a handler
// that blocks are none.
func TestAHangingLoopIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		observer := blocks{make(chan struct{})}
		r := start(t, renewing{newFake(0)}, handle(noop), Config{Observer: observer, Poll: time.Hour})
		gate := make(chan struct{})
		f := newFake(1)
		healthy := start(t, renewing{f}, handle(blocked(gate)), Config{Deadline: -1, Poll: 2 * time.Hour})
		pass(30 * time.Minute)
		for _, one := range []*Runner[int, int]{r, healthy} {
			for _, l := range one.Status().Loops {
				if l.Hung || l.Ended {
					t.Errorf("asleep: %+v", l)
				}
			}
		}
		r.Wake()
		pass(time.Minute)
		if loop(t, r, "claim").Hung {
			t.Error("hangs after a minute already")
		}
		pass(time.Minute)
		if l := loop(t, r, "claim"); !l.Hung {
			t.Errorf("with an observer that blocks: %+v", l)
		}
		if l := loop(t, healthy, "claim"); l.Hung {
			t.Errorf("with a handler that blocks: %+v", l)
		}
		close(gate)
		close(observer.gate)
	})
}

// A status says what each kind is allowed and does.
func TestKindsInStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(0)
		f.add("a", 0)
		f.add("old-a", 0)
		f.add("b", 0)
		gate := make(chan struct{})
		defer close(gate)
		r := start(t, renewing{f}, handle(blocked(gate)), Config{Workers: 4, Kinds: []KindConfig{
			{Name: "a", Aliases: []string{"old-a"}}, {Name: "b", Workers: 1}, {Name: "c", Workers: 2},
		}})
		pass(time.Second)
		want := []KindStatus{{Kind: "a", Workers: 3, Running: 2}, {Kind: "b", Workers: 1, Running: 1}, {Kind: "c", Workers: 2}}
		got := r.Status().Kinds
		if len(got) != len(want) {
			t.Fatalf("kinds %+v, want %+v", got, want)
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("kind %+v, want %+v", got[i], want[i])
			}
		}
	})
}
