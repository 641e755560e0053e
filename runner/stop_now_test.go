package runner

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// The second signal: contexts end at once, what returns is released, what does not is named, and all of it is quick.
func TestStopNow(t *testing.T) {
	for _, during := range []string{"run", "a patient stop", "the clean-up"} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(4)
			gate := make(chan struct{})
			var causes []error
			r, ended := run(t, context.Background(), renewing{f}, handle(func(ctx context.Context, task *Task[int]) error {
				switch task.Payload {
				case 1:
					<-gate
					return nil
				case 2:
					<-ctx.Done()
					time.Sleep(500 * time.Millisecond) // tidies up
					return nil
				}
				<-ctx.Done()
				f.mu.Lock()
				causes = append(causes, context.Cause(ctx))
				f.mu.Unlock()
				return ctx.Err()
			}), Config{Workers: 3, StopTimeout: 10 * time.Second, CleanUp: time.Minute})
			switch during {
			case "a patient stop":
				go r.Stop(context.Background())
				pass(5 * time.Second)
			case "the clean-up":
				go r.Stop(context.Background())
				pass(12 * time.Second)
			}
			began := time.Now()
			if err := r.StopNow(context.Background()); err != nil {
				t.Errorf("%s: %v", during, err)
			}
			if took := time.Since(began); took > hurryHandlers {
				t.Errorf("%s: took %v", during, took)
			}
			var left *StopError
			if err := <-ended; !errors.As(err, &left) || !slices.Equal(left.Tasks, []string{"task 1 attempt 1"}) {
				t.Errorf("%s: run: %v", during, err)
			}
			if v := f.lastVerdict(3); v.Decision != Release || len(causes) == 0 || causes[0] != ErrStopping {
				t.Errorf("%s: the obedient one: %+v, causes %v", during, v, causes)
			}
			if v := f.lastVerdict(2); v.Decision != Succeed {
				t.Errorf("%s: one that succeeds while it tidies up: %+v", during, v)
			}
			if v := f.lastVerdict(4); during == "run" && v.Decision != 0 {
				t.Errorf("%s: one that was not started: %+v", during, v)
			}
			if err := r.StopNow(context.Background()); err != nil {
				t.Errorf("%s: of a stopped runner: %v", during, err)
			}
			close(gate)
			synctest.Wait()
		})
	}
}

// A store that does not answer holds nobody up, whatever it was asked for.
func TestStopNowWithAStoreThatHangs(t *testing.T) {
	hang := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	for name, q := range map[string]*mute{
		"claim": {claim: hang}, "report": {report: hang}, "renew": {renew: hang},
		"all":          {claim: hang, report: hang, renew: hang},
		"report fails": {report: func(context.Context) error { return errors.New("down") }},
	} {
		synctest.Test(t, func(t *testing.T) {
			q.renewing = renewing{newFake(2)}
			r, ended := run(t, context.Background(), q, handle(func(ctx context.Context, task *Task[int]) error {
				if task.Payload == 1 {
					return nil
				}
				<-ctx.Done()
				return ctx.Err()
			}), Config{Workers: 4, Lease: 3 * time.Hour, StorageTimeout: time.Hour, StopTimeout: time.Hour, CleanUp: time.Hour,
				Deadline: -1, Window: -1})
			pass(time.Hour + 2*time.Minute) // a renewal is under way
			began := time.Now()
			if err := r.StopNow(context.Background()); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if took := time.Since(began); took > hurryStorage {
				t.Errorf("%s: took %v", name, took)
			}
			if err := <-ended; err != nil {
				t.Errorf("%s: run: %v", name, err)
			}
			st := r.Status()
			if st.Unreported != 0 || st.InFlight != 0 {
				t.Errorf("%s: %+v", name, st)
			}
			if (name == "report" || name == "report fails") && st.Outcomes.Lost != 2 {
				t.Errorf("%s: verdicts that nobody took: %+v", name, st.Outcomes)
			}
			if name == "renew" && (st.Outcomes.Succeeded != 1 || st.Outcomes.Released != 1) {
				t.Errorf("%s: %+v", name, st.Outcomes)
			}
		})
	}
}

// Verdicts that a patient stop would go on trying to write are given up too.
func TestStopNowDuringTheLastFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(3)
		f.onReport = func([]Verdict[int]) ([]Outcome, error, bool) { return nil, errors.New("down"), true }
		r, ended := run(t, context.Background(), renewing{f}, handle(noop), Config{Workers: 3, CleanUp: time.Hour, Lease: 3 * time.Hour})
		go r.Stop(context.Background())
		pass(time.Minute)
		if st := r.Status(); st.Lifecycle != Stopping || st.Unreported != 3 {
			t.Fatalf("before: %+v", st)
		}
		began := time.Now()
		if err := r.StopNow(context.Background()); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > hurryStorage {
			t.Errorf("took %v", took)
		}
		if err := <-ended; err != nil || r.Status().Outcomes.Lost != 3 {
			t.Errorf("run: %v, %+v", err, r.Status())
		}
	})
}

// mute is a queue whose calls end when the hooks say so.
type mute struct {
	renewing
	claim, report, renew func(context.Context) error
}

func ask(ctx context.Context, hook func(context.Context) error) error {
	if hook == nil {
		return nil
	}
	return hook(ctx)
}

func (h *mute) Claim(ctx context.Context, request ClaimRequest) ([]Task[int], error) {
	if err := ask(ctx, h.claim); err != nil {
		return nil, err
	}
	return h.renewing.Claim(ctx, request)
}

func (h *mute) Report(ctx context.Context, verdicts []Verdict[int]) ([]Outcome, error) {
	if err := ask(ctx, h.report); err != nil {
		return nil, err
	}
	return h.renewing.Report(ctx, verdicts)
}

func (h *mute) Renew(ctx context.Context, tokens []Token, lease time.Duration) ([]Renewal, error) {
	if err := ask(ctx, h.renew); err != nil {
		return nil, err
	}
	return h.renewing.Renew(ctx, tokens, lease)
}
