package runner

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// Every task of a batch ends in its own way.
func TestBatchOutcomes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(0)
		addAll(f, 8)
		f.jobs[7].err = errors.New("not JSON")
		broken := errors.New("broken")
		h := &batchLog{run: func(ctx context.Context, tasks []*Task[int]) []Result[int] {
			results := make([]Result[int], len(tasks))
			for i, task := range tasks {
				results[i] = []Result[int]{{Value: 42}, {Err: broken}, {Err: Permanent(broken)}, {Err: SnoozeFor(time.Hour)},
					{Err: CancelWith(nil)}, {Err: RetryAfter(time.Hour, broken)}, {Err: ErrSettled}}[task.Payload-1]
			}
			return results
		}}
		r := start(t, renewing{f}, h, Config{Kinds: batches(8, 0), Backoff: Exponential{Base: time.Minute, Max: time.Minute, Factor: 1}})
		pass(time.Second)
		if got := h.ran(); !slices.Equal(got, []int{7}) {
			t.Fatalf("batches of %v, want one of the seven that can be decoded", got)
		}
		want := map[int]Decision{1: Succeed, 2: Retry, 3: Fail, 4: Snooze, 5: Cancel, 6: Retry, 7: 0, 8: Retry}
		for id, decision := range want {
			if v := f.lastVerdict(id); v.Decision != decision {
				t.Errorf("task %d: %+v, want decision %d", id, v, decision)
			}
		}
		if v := f.lastVerdict(1); v.Result == nil || *v.Result != 42 {
			t.Errorf("the result of the first: %+v", v)
		}
		if v := f.lastVerdict(8); v.Failure.Code != CodeUndecodable {
			t.Errorf("the undecodable one: %+v", v.Failure)
		}
		if st := r.Status(); st.Outcomes.Succeeded != 2 || st.InFlight != 0 || st.Tasks != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// Whatever a batch handler does, each task of the batch has failed exactly one attempt, and the slot lives.
func TestBatchContainment(t *testing.T) {
	for name, test := range map[string]struct {
		run  func(tasks []*Task[int]) []Result[int]
		code string
	}{
		"nil":         {func([]*Task[int]) []Result[int] { return nil }, CodeNoResult},
		"too short":   {func(tasks []*Task[int]) []Result[int] { return make([]Result[int], len(tasks)-1) }, CodeNoResult},
		"too long":    {func(tasks []*Task[int]) []Result[int] { return make([]Result[int], len(tasks)+1) }, CodeNoResult},
		"panic":       {func([]*Task[int]) []Result[int] { panic("secret") }, CodePanic},
		"nil pointer": {func(tasks []*Task[int]) []Result[int] { var p *int; *p = 1; return nil }, CodePanic},
		"goexit":      {func([]*Task[int]) []Result[int] { runtime.Goexit(); return nil }, CodePanic},
		"mutilated": {func(tasks []*Task[int]) []Result[int] {
			clear(tasks)
			return nil
		}, CodeNoResult},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(0)
				addAll(f, 5)
				first := true
				h := &batchLog{}
				h.run = func(_ context.Context, tasks []*Task[int]) []Result[int] {
					if first {
						first = false
						return test.run(tasks)
					}
					return make([]Result[int], len(tasks))
				}
				r := start(t, renewing{f}, h, Config{Workers: 1, Kinds: batches(5, 0)})
				for id := range 5 {
					v := f.lastVerdict(id + 1)
					if v.Decision != Retry || v.Failure == nil || v.Failure.Code != test.code || f.jobs[id].failures != 1 {
						t.Errorf("task %d: %+v, %+v", id+1, v, v.Failure)
					}
				}
				if st := r.Status(); st.InFlight != 0 || st.Tasks != 0 || st.Outcomes.Retrying != 5 {
					t.Errorf("%+v", st)
				}
				pass(10 * time.Second)
				if st := r.Status(); st.Outcomes.Succeeded != 5 {
					t.Errorf("the second attempt: %+v", st.Outcomes)
				}
			})
		})
	}
}
