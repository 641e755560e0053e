package worker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pgqueue/pgqueue/worker"
)

// calls notes what happens when, in virtual time since the start of the test.
type calls struct {
	mu    sync.Mutex
	start time.Time
	lines []string
}

func newCalls() *calls { return &calls{start: time.Now()} }

func (c *calls) note(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines = append(c.lines, fmt.Sprintf("%v %s", time.Since(c.start), what))
}

func (c *calls) want(t *testing.T, want ...string) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Equal(c.lines, want) {
		t.Errorf("calls\n  got  %q\n  want %q", c.lines, want)
	}
}

// noted is a handler over a pile that notes its calls; task n takes n times so long.
func noted(c *calls, p *pile, takes time.Duration) recovering {
	return recovering{
		funcs: funcs{
			claim: func(ctx context.Context) (int, error) {
				task, err := p.claim(ctx)
				if err != nil {
					c.note("nothing")
					return 0, fmt.Errorf("look for a task: %w", err)
				}
				c.note(fmt.Sprint("claim ", task))
				return task, nil
			},
			process: func(_ context.Context, task int) error {
				<-time.After(takes * time.Duration(task)) // so that their ends have an order
				c.note(fmt.Sprint("done ", task))
				return nil
			},
		},
		recover: func(context.Context) error {
			c.note("recover")
			return nil
		},
	}
}

func TestACycleRecoversThenClaimsUntilThereIsNoTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := newCalls(), &pile{left: 2}
		r := start(t.Context(), worker.New("w", noted(c, p, time.Second), quiet(), apart()).Run)
		<-time.After(5 * time.Second)
		c.want(t, "0s recover", "0s claim 1", "0s claim 2", "0s nothing", "1s done 1", "2s done 2")
		p.add(1)
		<-time.After(9 * time.Second)
		r.stop(t)
		c.want(t, "0s recover", "0s claim 1", "0s claim 2", "0s nothing", "1s done 1", "2s done 2",
			"10s recover", "10s claim 3", "10s nothing", "13s done 3")
	})
}

func TestAFreeSlotClaimsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := newCalls(), &pile{left: 3}
		r := start(t.Context(), worker.New("w", noted(c, p, time.Second), quiet(), apart(), worker.WithMaxConcurrency(1)).Run)
		<-time.After(8 * time.Second)
		r.stop(t)
		c.want(t, "0s recover", "0s claim 1", "1s done 1", "1s claim 2", "3s done 2", "3s claim 3", "6s done 3", "6s nothing")
	})
}

// Nothing was found while a task was in flight: its end is no reason to look again.
func TestAfterNoTaskTheWorkerWaitsForTheInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := newCalls(), &pile{left: 1}
		w := worker.New("w", noted(c, p, 2*time.Second), quiet(), apart(), worker.WithInterval(7*time.Second))
		r := start(t.Context(), w.Run)
		<-time.After(time.Second)
		p.add(1)
		<-time.After(9 * time.Second)
		r.stop(t)
		c.want(t, "0s recover", "0s claim 1", "0s nothing", "2s done 1", "7s recover", "7s claim 2", "7s nothing", "11s done 2")
	})
}

// A worker that is never idle begins its cycles all the same: somebody else's stale tasks do not wait for a quiet hour.
func TestCyclesGoOnUnderLoad(t *testing.T) {
	for name, test := range map[string]struct{ claim, process time.Duration }{
		"slots that free":       {0, time.Second},
		"slots that do not":     {0, time.Hour},
		"slots that never fill": {3 * time.Second, time.Nanosecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &pile{left: 1_000_000}
				var recovered atomic.Int32
				h := noted(newCalls(), p, 0)
				h.claim = func(ctx context.Context) (int, error) {
					<-time.After(test.claim)
					return p.claim(ctx)
				}
				h.process = func(context.Context, int) error { <-time.After(test.process); return nil }
				h.recover = func(context.Context) error { recovered.Add(1); return nil }
				r := start(t.Context(), worker.New("w", h, quiet(), apart()).Run)
				<-time.After(39 * time.Second)
				if got := recovered.Load(); got != 4 {
					t.Errorf("RecoverStale was called %d times in 39 s, want 4", got)
				}
				r.stop(t)
			})
		})
	}
}

// The next tick has passed when RecoverStale returns, each time. Tasks are claimed all the same.
func TestASlowRecoverStaleDoesNotStarveClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pile{left: 4}
		h := noted(newCalls(), p, time.Second)
		h.recover = func(context.Context) error { <-time.After(25 * time.Second); return nil }
		r := start(t.Context(), worker.New("w", h, quiet(), apart()).Run)
		<-time.After(5 * time.Minute)
		if left := p.remaining(); left != 0 {
			t.Errorf("%d of 4 tasks were not claimed in 5 minutes", left)
		}
		r.stop(t)
	})
}

func TestMaxConcurrency(t *testing.T) {
	for name, test := range map[string]struct {
		opts []worker.Option
		want int
	}{
		"default":           {nil, 5},
		"set":               {[]worker.Option{worker.WithMaxConcurrency(3)}, 3},
		"zero is ignored":   {[]worker.Option{worker.WithMaxConcurrency(2), worker.WithMaxConcurrency(0)}, 2},
		"less, too":         {[]worker.Option{worker.WithMaxConcurrency(-4)}, 5},
		"nil is no option":  {[]worker.Option{nil}, 5},
		"no such intervals": {[]worker.Option{worker.WithInterval(0), worker.WithInterval(-1)}, 5},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &pile{left: 40}
				var now, most atomic.Int32
				w := worker.New("w", funcs{claim: p.claim, process: func(context.Context, int) error {
					most.Store(max(most.Load(), now.Add(1)))
					<-time.After(time.Second)
					now.Add(-1)
					return nil
				}}, quiet(), append(test.opts, apart())...)
				r := start(t.Context(), w.Run)
				<-time.After(8500 * time.Millisecond)
				if got := most.Load(); int(got) != test.want {
					t.Errorf("%d tasks at once, want %d", got, test.want)
				}
				if got := 40 - p.remaining(); got != min(40, 9*test.want) {
					t.Errorf("%d tasks were claimed in 9 s, want %d", got, min(40, 9*test.want))
				}
				r.stop(t)
			})
		})
	}
}

// A task is not claimed before there is a slot for it: it would wait in this process, where no other can take it.
func TestNothingIsClaimedWithoutASlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pile{left: 10}
		w := worker.New("w", noted(newCalls(), p, time.Minute), quiet(), apart(), worker.WithMaxConcurrency(2))
		r := start(t.Context(), w.Run)
		<-time.After(30 * time.Second)
		if got := 10 - p.remaining(); got != 2 {
			t.Errorf("%d tasks are claimed, with 2 slots", got)
		}
		r.stop(t)
	})
}

func TestErrorsAreLoggedAndTheWorkerGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p, l := newCalls(), &pile{left: 3}, &logs{}
		h := noted(c, p, 0)
		claim := h.claim
		first := true
		h.claim = func(ctx context.Context) (int, error) {
			if first {
				first = false
				c.note("claim fails")
				return 0, errors.New("no connection")
			}
			return claim(ctx)
		}
		h.process = func(_ context.Context, task int) error {
			if task == 2 {
				return errors.New("no such address")
			}
			return nil
		}
		h.recover = func(context.Context) error { c.note("recover"); return errors.New("no right to do so") }
		r := start(t.Context(), worker.New("mail", h, l.logger(), apart(), worker.WithMaxConcurrency(1)).Run)
		<-time.After(15 * time.Second)
		r.stop(t)
		c.want(t, "0s recover", "0s claim fails", "10s recover", "10s claim 1", "10s claim 2", "10s claim 3", "10s nothing")
		for _, want := range []string{
			`msg="worker: claim failed" worker=mail error="no connection"`,
			`msg="worker: recovering stale tasks failed" worker=mail error="no right to do so"`,
			`msg="worker: task failed" worker=mail duration=0s error="no such address"`,
		} {
			if !contains(l, want) {
				t.Errorf("the log lacks %s:\n%s", want, l)
			}
		}
		if contains(l, "look for a task") {
			t.Errorf("finding no task is logged as an error:\n%s", l)
		}
	})
}

// pointing is a handler with a pointer receiver, as most are.
type pointing struct{ funcs }

func (p *pointing) Run(context.Context) error { return nil }

// A nil pointer, or a nil function, in a handler that is not nil is told as if it were nil, and not at each call.
func TestNilInsideOfAHandlerIsRefused(t *testing.T) {
	var none *pointing
	for name, run := range map[string]func(context.Context) error{
		"a worker's pointer":    worker.New[int]("w", none, quiet(), apart()).Run,
		"a periodic's pointer":  worker.NewPeriodic("p", none, quiet(), apart()).Run,
		"a periodic's function": worker.NewPeriodic("p", worker.PeriodicFunc(nil), quiet(), apart()).Run,
	} {
		ended, end := context.WithCancel(t.Context())
		end()
		var wrong *worker.ConfigError
		if err := run(ended); !errors.As(err, &wrong) || wrong.Field != "handler" {
			t.Errorf("%s: %v", name, err)
		}
	}
}
