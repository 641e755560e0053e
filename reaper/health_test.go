package reaper_test

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pgqueue/pgqueue/reaper"
)

// A target that answers nothing is shown with the time since when; one that answers again is not. A grace after an outage is
// no silence: the store answers.
func TestSilenceOfATargetIsShown(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var down atomic.Bool
		answer := func(ctx context.Context) error {
			if !down.Load() {
				return nil
			}
			<-ctx.Done() // as behind a lock
			return ctx.Err()
		}
		s := &store{
			recover: func(ctx context.Context, _ int) (reaper.Recovered, error) { return reaper.Recovered{}, answer(ctx) },
			ping:    answer,
		}
		r, _ := newReaper(t, reaper.Config{Jitter: -1, Grace: 30 * time.Second}, reaper.Target{Name: "q", Recoverer: pinged{s}})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		time.Sleep(time.Minute + time.Second)
		if got := r.Status().Targets[0]; !got.Silent.IsZero() || time.Since(got.Answered) > 5*time.Second || got.Ended || got.Hung {
			t.Errorf("while all is well: %+v", got)
		}
		down.Store(true)
		time.Sleep(time.Minute)
		got := r.Status().Targets[0]
		if silent := time.Since(got.Silent); silent < 54*time.Second || silent > time.Minute || got.Reason != "no answer in time" || got.Hung {
			t.Errorf("while nothing answers: silent for %v, %+v", silent, got)
		}
		down.Store(false)
		time.Sleep(15 * time.Second)
		if got := r.Status().Targets[0]; !got.Silent.IsZero() || !got.Outage {
			t.Errorf("in the grace: %+v", got)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// A target whose store answers while Recover fails makes no progress: neither a ping nor the grace hides that. The log says it again
// once a minute.
func TestAnAnswerOfTheStoreIsNoProgress(t *testing.T) {
	for name, test := range map[string]struct {
		fail   func(ctx context.Context) error
		reason string
	}{
		"refused": {func(context.Context) error { return errors.New("permission denied") }, "failed with *errors.errorString"},
		"locked":  {func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, "no answer in time"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var down atomic.Bool
				s := &store{recover: func(ctx context.Context, _ int) (reaper.Recovered, error) {
					if down.Load() {
						return reaper.Recovered{}, test.fail(ctx)
					}
					return reaper.Recovered{}, nil
				}}
				r, log := newReaper(t, reaper.Config{Jitter: -1}, reaper.Target{Name: "q", Recoverer: pinged{s}})
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- r.Run(ctx) }()
				time.Sleep(21 * time.Second)
				down.Store(true)
				time.Sleep(10 * time.Second)
				for at := 10 * time.Second; at < 5*time.Minute; at += time.Second {
					got := r.Status().Targets[0]
					if silent := time.Since(got.Silent); silent > at || silent < at-5*time.Second || at > 11*time.Second && got.Reason != test.reason {
						t.Fatalf("%v after it began to fail: silent for %v, %+v", at, silent, got)
					}
					time.Sleep(time.Second)
				}
				// Recover is tried every 15 s, after the grace, so the first one after a minute may come that much later.
				if n := log.count("level=WARN"); n != 5 && n != 4 {
					t.Errorf("%d warnings in five minutes:\n%s", n, log.text.String())
				}
				down.Store(false)
				time.Sleep(21 * time.Second)
				if got := r.Status().Targets[0]; !got.Silent.IsZero() || got.Outage {
					t.Errorf("after it works again: %+v", got)
				}
				stop()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// quits ends the goroutine of the loop that tells it of a failure.
type quits struct{}

func (quits) ReaperFailed(string, string, error) { runtime.Goexit() }

// counts counts.
type counts struct{ failed, recovered atomic.Int64 }

func (c *counts) ReaperFailed(string, string, error)            { c.failed.Add(1) }
func (c *counts) ReaperRecovered(string, reaper.Recovered)      { c.recovered.Add(1) }
func (c *counts) Observers() []any                              { return []any{panicking{}, (*countsAlone)(c)} }
func (c *countsAlone) ReaperFailed(string, string, error)       { c.failed.Add(1) }
func (c *countsAlone) ReaperRecovered(string, reaper.Recovered) { c.recovered.Add(1) }

type countsAlone counts

type panicking struct{}

func (panicking) ReaperFailed(string, string, error) { panic("no") }

// Several observers are told of everything, although one panics; and a loop that one of them ends is shown as ended.
func TestSeveralObserversAndAnEndedLoop(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var fails atomic.Bool
		s := &store{recover: func(context.Context, int) (reaper.Recovered, error) {
			if fails.Load() {
				return reaper.Recovered{}, errors.New("no")
			}
			return reaper.Recovered{Requeued: 1}, nil
		}}
		fails.Store(true)
		seen := &counts{}
		r, _ := newReaper(t, reaper.Config{Jitter: -1, Grace: -1, Observer: seen}, reaper.Target{Name: "q", Recoverer: s})
		go func() {
			time.Sleep(8 * time.Second)
			fails.Store(false)
		}()
		runFor(t, r, 31*time.Second)
		if seen.failed.Load() != 2 || seen.recovered.Load() != 5 {
			t.Errorf("told of %d failures and %d passes, want 2 and 5", seen.failed.Load(), seen.recovered.Load())
		}

		fails.Store(true)
		r, _ = newReaper(t, reaper.Config{Jitter: -1, Observer: quits{}}, reaper.Target{Name: "q", Recoverer: s})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		time.Sleep(time.Minute)
		if got := r.Status().Targets[0]; !got.Ended {
			t.Errorf("%+v", got)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
