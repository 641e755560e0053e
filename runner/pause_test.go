package runner

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// pausable is a scheduled fake that can be paused for everybody.
type pausable struct {
	scheduled
	paused *atomic.Bool
}

func newPausable(f *fake) pausable {
	return pausable{scheduled{renewing{f}, new(int)}, new(atomic.Bool)}
}

func (p pausable) Claim(ctx context.Context, request ClaimRequest) ([]Task[int], error) {
	if p.paused.Load() {
		return nil, ErrPaused
	}
	return p.fake.Claim(ctx, request)
}

func (p pausable) NextDue(ctx context.Context) (time.Duration, bool, error) {
	wait, ok, err := p.scheduled.NextDue(ctx)
	if p.paused.Load() {
		return 0, false, ErrPaused
	}
	return wait, ok, err
}

// slowAfter finishes the first n tasks at once, which makes the runner claim ahead, and holds the others until gate is
// closed.
func slowAfter(n int, gate <-chan struct{}) func(context.Context, *Task[int]) error {
	return func(_ context.Context, task *Task[int]) error {
		if task.Payload > n {
			<-gate
		}
		return nil
	}
}

// C27: what was claimed ahead is released within one poll, although nothing has to be claimed and no hint comes.
func TestPauseReleasesWhatIsBuffered(t *testing.T) {
	for _, outside := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			q := newPausable(newFake(60))
			gate := make(chan struct{})
			r := start(t, q, handle(slowAfter(20, gate)), Config{Workers: 2, Batch: 60, ProbedOutside: outside})
			if st := r.Status(); st.InFlight != 2 || st.Buffered == 0 {
				t.Fatalf("nothing was claimed ahead: %+v", st)
			}
			q.paused.Store(true)
			if outside {
				r.Probed(Probe{Paused: true})
				synctest.Wait()
			} else {
				pass(time.Second)
			}
			st := r.Status()
			if st.Buffered != 0 || st.Outcomes.Released != 38 || st.QueuePaused.IsZero() || st.LastClaimError != "" {
				t.Fatalf("outside %v: after a poll: %+v", outside, st)
			}
			close(gate)
			pass(time.Minute)
			if st := r.Status(); st.Outcomes.Succeeded != 22 || st.InFlight != 0 {
				t.Errorf("outside %v: while paused: %+v", outside, st)
			}
			q.paused.Store(false)
			if outside {
				r.Probed(Probe{Scheduled: true})
				synctest.Wait()
			} else {
				pass(time.Second)
			}
			if st := r.Status(); st.Outcomes.Succeeded != 60 || !st.QueuePaused.IsZero() {
				t.Errorf("outside %v: after the pause: %+v", outside, st)
			}
		})
	}
}

// A claim that was under way when the pause became known brings tasks that must not start.
func TestClaimThatCrossesAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(0)
		q := newPausable(f)
		r := start(t, q, handle(func(context.Context, *Task[int]) error {
			t.Error("a task of a paused queue ran")
			return nil
		}), Config{ProbedOutside: true})
		f.add("", 0)
		f.afterClaim = func(tasks []Task[int]) []Task[int] {
			r.Probed(Probe{Paused: true})
			return tasks
		}
		r.Wake()
		synctest.Wait()
		if st := r.Status(); st.Outcomes.Released != 1 || st.QueuePaused.IsZero() {
			t.Errorf("%+v", st)
		}
	})
}

// A drain of a paused queue ends with nothing done.
func TestDrainOfAPausedQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newPausable(newFake(3))
		q.paused.Store(true)
		r, err := New[int, int](q, handle(noop), Config{Logger: quiet()})
		if err != nil {
			t.Fatal(err)
		}
		result, err := r.Drain(t.Context())
		if err != nil || result.Claimed != 0 {
			t.Errorf("%+v, %v", result, err)
		}
	})
}

// A runner that is probed from outside neither polls nor claims by itself, and starts scheduled tasks when they are due.
func TestProbedOutside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(0)
		q := newPausable(f)
		r := start(t, q, handle(noop), Config{ProbedOutside: true})
		claims, asked := len(f.claims()), *q.asked
		for range 30 {
			pass(time.Second)
			r.Probed(Probe{})
		}
		if got := len(f.claims()) - claims; got != 0 || *q.asked != asked {
			t.Errorf("%d claims and %d questions of an idle runner", got, *q.asked-asked)
		}
		late := f.add("", 1700*time.Millisecond)
		r.Probed(Probe{Scheduled: true, Wait: 1700 * time.Millisecond})
		pass(time.Second)
		r.Probed(Probe{Scheduled: true, Wait: 700 * time.Millisecond})
		pass(701 * time.Millisecond)
		if !late.done {
			t.Error("a scheduled task did not start when it was due")
		}
		f.add("", 0)
		r.Probed(Probe{Scheduled: true})
		synctest.Wait()
		if st := r.Status(); st.Outcomes.Succeeded != 2 || st.PollWakes == 0 || st.DueWakes == 0 {
			t.Errorf("%+v", st)
		}
		// Nobody probes any more: it looks by itself.
		f.add("", 0)
		pass(4 * time.Second)
		if st := r.Status(); st.Outcomes.Succeeded != 3 {
			t.Errorf("without probes: %+v", st)
		}
	})
}

// Tasks of an old name are claimed, count against the kind's bound, and keep their name.
func TestKindAliases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(0)
		for range 3 {
			f.add("old", 0)
			f.add("new", 0)
			f.add("theirs", 0)
		}
		gate := make(chan struct{})
		r := start(t, renewing{f}, handle(func(_ context.Context, task *Task[int]) error {
			<-gate
			if task.Kind != "old" && task.Kind != "new" {
				t.Errorf("a task of kind %s ran", task.Kind)
			}
			return nil
		}), Config{Workers: 6, Kinds: []KindConfig{{Name: "new", Workers: 2, Aliases: []string{"old"}}, {Name: "other"}}})
		if st := r.Status(); st.InFlight != 2 {
			t.Errorf("%d run, the bound is 2", st.InFlight)
		}
		close(gate)
		pass(time.Second)
		if st := r.Status(); st.Outcomes.Succeeded != 6 {
			t.Errorf("%+v", st)
		}
	})
}

// The bound of a kind goes along with failures and nothing else.
func TestKindMaxAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(0)
		fails, panics, plain, fine := f.add("a", 0), f.add("a", 0), f.add("b", 0), f.add("a", 0)
		start(t, renewing{f}, handle(func(_ context.Context, task *Task[int]) error {
			switch task.Payload {
			case panics.id:
				panic("on purpose")
			case fine.id:
				return nil
			}
			return errors.New("boom")
		}), Config{Kinds: []KindConfig{{Name: "a", MaxAttempts: 4}, {Name: "b"}}})
		for j, want := range map[*job]int{fails: 4, panics: 4, plain: 0, fine: 0} {
			if v := f.lastVerdict(j.id); v.MaxAttempts != want {
				t.Errorf("task %d: %+v, want the bound %d", j.id, v, want)
			}
		}
	})
}
