package runner

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// kindPausable is a pausable fake whose kinds can be paused as well.
type kindPausable struct {
	pausable
	held *heldKinds
}

type heldKinds struct {
	sync.Mutex
	list []PausedKind
	left time.Duration // of the pause of the queue, which has no end where this is zero
}

func newKindPausable(f *fake) kindPausable { return kindPausable{newPausable(f), &heldKinds{}} }

func (k kindPausable) set(list ...PausedKind) {
	k.held.Lock()
	defer k.held.Unlock()
	k.held.list = list
}

func (k kindPausable) PausedKinds() []PausedKind {
	k.held.Lock()
	defer k.held.Unlock()
	return slices.Clone(k.held.list)
}

// Claim leaves out paused kinds, as a store does.
func (k kindPausable) Claim(ctx context.Context, request ClaimRequest) ([]Task[int], error) {
	request.Kinds = slices.DeleteFunc(slices.Clone(request.Kinds), func(kind string) bool {
		return slices.ContainsFunc(k.PausedKinds(), func(p PausedKind) bool { return p.Kind == kind && p.At(time.Now()) })
	})
	tasks, err := k.pausable.Claim(ctx, request)
	return tasks, k.timed(err)
}

func (k kindPausable) NextDue(ctx context.Context) (time.Duration, bool, error) {
	wait, ok, err := k.pausable.NextDue(ctx)
	return wait, ok, k.timed(err)
}

func (k kindPausable) timed(err error) error {
	k.held.Lock()
	defer k.held.Unlock()
	if errors.Is(err, ErrPaused) && k.held.left > 0 {
		return &PausedError{For: k.held.left}
	}
	return err
}

// What was claimed ahead of a kind that is paused now goes back, and nothing else does.
func TestPauseOfAKindReleasesWhatIsBuffered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(0)
		for i := range 40 {
			f.add([]string{"a", "b"}[i%2], 0)
		}
		gate := make(chan struct{})
		ran := map[string]int{}
		var mutex sync.Mutex
		q := newKindPausable(f)
		r := start(t, q, handle(func(_ context.Context, task *Task[int]) error {
			if task.Payload > 10 { // quick ones first: claims run ahead only then
				<-gate
			}
			mutex.Lock()
			defer mutex.Unlock()
			ran[task.Kind]++
			return nil
		}), Config{Workers: 4, Batch: 40, ProbedOutside: true, Kinds: []KindConfig{{Name: "a", Workers: 2}, {Name: "b", Workers: 2}}})
		before := r.Status()
		if before.Buffered < 10 || before.InFlight != 4 {
			t.Fatalf("nothing was claimed ahead: %+v", before)
		}
		q.set(PausedKind{Kind: "b"}, PausedKind{Kind: "of others"})
		r.Probed(Probe{})
		synctest.Wait()
		st := r.Status()
		if st.Outcomes.Released == 0 || st.Buffered == 0 || st.Buffered+int(st.Outcomes.Released) != before.Buffered {
			t.Fatalf("%d were buffered: %+v", before.Buffered, st)
		}
		if !slices.Equal(st.PausedKinds, []PausedKind{{Kind: "b"}}) || !st.QueuePaused.IsZero() {
			t.Errorf("status: %+v", st)
		}
		close(gate)
		pass(time.Minute)
		mutex.Lock()
		if ran["a"] != 20 || ran["b"] >= 20 {
			t.Errorf("while b was paused: %v", ran)
		}
		mutex.Unlock()
		q.set()
		r.Probed(Probe{Scheduled: true})
		synctest.Wait()
		mutex.Lock()
		defer mutex.Unlock()
		if st := r.Status(); ran["b"] != 20 || st.PausedKinds != nil {
			t.Errorf("after the pause: %v, %+v", ran, st)
		}
	})
}

// A claim that was under way when a kind was paused brings tasks that must not start.
func TestClaimThatCrossesThePauseOfAKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(0)
		q := newKindPausable(f)
		r := start(t, q, handle(func(_ context.Context, task *Task[int]) error {
			if task.Kind == "b" {
				t.Error("a task of a paused kind ran")
			}
			return nil
		}), Config{ProbedOutside: true, Kinds: []KindConfig{{Name: "a"}, {Name: "b"}}})
		f.add("a", 0)
		f.add("b", 0)
		f.afterClaim = func(tasks []Task[int]) []Task[int] {
			q.set(PausedKind{Kind: "b"})
			return tasks
		}
		r.Wake()
		synctest.Wait()
		if st := r.Status(); st.Outcomes.Released != 1 || st.Outcomes.Succeeded != 1 {
			t.Errorf("%+v", st)
		}
	})
}

// The end of a pause that was told is when the runner looks, though nobody wakes it and its next poll is far.
func TestPauseThatEndsByItself(t *testing.T) {
	for name, tell := range map[string]func(r *Runner[int, int], q kindPausable){
		"by a claim": func(r *Runner[int, int], _ kindPausable) { r.Wake() },
		"by a probe from outside": func(r *Runner[int, int], q kindPausable) {
			r.Probed(Probe{Paused: true, Scheduled: true, Wait: q.held.left})
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(0)
			q := newKindPausable(f)
			r := start(t, q, handle(noop), Config{Poll: time.Hour, ProbedOutside: true})
			q.paused.Store(true)
			q.held.left = 90 * time.Second
			began := time.Now()
			tell(r, q)
			synctest.Wait()
			f.add("", 0)
			if st := r.Status(); st.QueuePausedUntil.Sub(began) != 90*time.Second {
				t.Errorf("%s: paused until %s", name, st.QueuePausedUntil.Sub(began))
			}
			pass(89 * time.Second)
			q.paused.Store(false)
			if st := r.Status(); st.Claimed != 0 {
				t.Errorf("%s: it looked too early: %+v", name, st)
			}
			pass(time.Second)
			if st := r.Status(); st.Outcomes.Succeeded != 1 || !st.QueuePaused.IsZero() || !st.QueuePausedUntil.IsZero() || st.DueWakes == 0 {
				t.Errorf("%s: after its end: %+v", name, st)
			}
		})
	}
}

func TestPausedError(t *testing.T) {
	t.Parallel()
	err := error(&PausedError{For: time.Minute})
	if !errors.Is(err, ErrPaused) || errors.Is(err, ErrRunning) || err.Error() != "runner: the queue is paused for 1m0s" {
		t.Error(err)
	}
}
