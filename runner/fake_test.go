package runner

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"testing/synctest"
	"time"
)

// ticket is the token of the fakes.
type ticket struct {
	id      int
	attempt int
}

func (t *ticket) String() string { return fmt.Sprintf("task %d attempt %d", t.id, t.attempt) }

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// job is a task in the fake's store.
type job struct {
	id       int
	kind     string
	class    Class
	due      time.Time
	attempt  int
	failures int
	running  bool
	lease    time.Time
	err      error
	done     bool
}

// fake is a small queue on the local clock, with hooks. It is neither a Renewer nor a Scheduler; see renewing and
// scheduled.
type fake struct {
	mu       sync.Mutex
	jobs     []*job
	next     int
	requests []ClaimRequest
	claimAt  []time.Time
	verdicts []Verdict[int]
	reports  []int // sizes
	renewals []renewCall

	beforeClaim func(ClaimRequest) error
	afterClaim  func([]Task[int]) []Task[int]
	onReport    func([]Verdict[int]) ([]Outcome, error, bool)
	onRenew     func(tokens []Token) ([]Renewal, error, bool)
}

type renewCall struct {
	at  time.Time
	ids []int
}

func newFake(n int) *fake {
	f := &fake{}
	for range n {
		f.add("", 0)
	}
	return f
}

func (f *fake) add(kind string, delay time.Duration) *job {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next++
	j := &job{id: f.next, kind: kind, class: 1, due: time.Now().Add(delay)}
	f.jobs = append(f.jobs, j)
	return j
}

func (f *fake) Claim(ctx context.Context, request ClaimRequest) ([]Task[int], error) {
	f.mu.Lock()
	f.requests = append(f.requests, request)
	f.claimAt = append(f.claimAt, time.Now())
	hook, after := f.beforeClaim, f.afterClaim
	f.mu.Unlock()
	if hook != nil {
		if err := hook(request); err != nil {
			return nil, err
		}
	}
	f.mu.Lock()
	now := time.Now()
	var tasks []Task[int]
	for _, class := range request.Classes {
		for _, j := range f.jobs {
			if len(tasks) == request.Limit {
				break
			}
			if j.done || j.class != class || j.due.After(now) || j.running && now.Before(j.lease) ||
				request.Kinds != nil && !slices.Contains(request.Kinds, j.kind) {
				continue
			}
			j.running, j.lease = true, now.Add(request.Lease)
			j.attempt++
			tasks = append(tasks, Task[int]{Token: &ticket{j.id, j.attempt}, Kind: j.kind, Class: class,
				Attempt: j.attempt, Failures: j.failures, Payload: j.id, Err: j.err})
		}
	}
	f.mu.Unlock()
	if after != nil {
		tasks = after(tasks)
	}
	return tasks, nil
}

func (f *fake) find(token Token) *job {
	t := token.(*ticket)
	j := f.jobs[t.id-1]
	if !j.running || j.attempt != t.attempt || j.done {
		return nil
	}
	return j
}

func (f *fake) Report(ctx context.Context, verdicts []Verdict[int]) ([]Outcome, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	f.mu.Lock()
	f.reports = append(f.reports, len(verdicts))
	hook := f.onReport
	f.mu.Unlock()
	if hook != nil {
		if outcomes, err, answered := hook(verdicts); answered {
			return outcomes, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	outcomes := make([]Outcome, len(verdicts))
	for i, v := range verdicts {
		f.verdicts = append(f.verdicts, v)
		j := f.find(v.Token)
		if j == nil {
			outcomes[i] = Lost
			continue
		}
		j.running = false
		switch v.Decision {
		case Succeed:
			j.done, outcomes[i] = true, Succeeded
		case Retry, Confirm:
			j.failures++
			j.due, outcomes[i] = time.Now().Add(v.Delay), Retrying
		case Fail:
			j.done, outcomes[i] = true, Failed
		case Cancel:
			j.done, outcomes[i] = true, Cancelled
		case Snooze:
			j.due, outcomes[i] = time.Now().Add(v.Delay), Snoozed
		case Release:
			outcomes[i] = Released
		}
	}
	return outcomes, nil
}

// lastVerdict returns the latest verdict about a task.
func (f *fake) lastVerdict(id int) (v Verdict[int]) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range f.verdicts {
		if w.Token.(*ticket).id == id {
			v = w
		}
	}
	return v
}

func (f *fake) allVerdicts() []Verdict[int] {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.verdicts)
}

func (f *fake) allRequests() []ClaimRequest {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.requests)
}

func (f *fake) claims() []time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.claimAt)
}

// renewing is a fake that can renew.
type renewing struct{ *fake }

func (f renewing) Renew(ctx context.Context, tokens []Token, lease time.Duration) ([]Renewal, error) {
	call := renewCall{at: time.Now()}
	for _, t := range tokens {
		call.ids = append(call.ids, t.(*ticket).id)
	}
	f.mu.Lock()
	f.renewals = append(f.renewals, call)
	hook := f.onRenew
	f.mu.Unlock()
	if hook != nil {
		if answers, err, answered := hook(tokens); answered {
			return answers, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	answers := make([]Renewal, len(tokens))
	for i, t := range tokens {
		answers[i] = Refused
		if j := f.find(t); j != nil {
			j.lease = time.Now().Add(lease)
			answers[i] = Renewed
		}
	}
	return answers, nil
}

func (f renewing) calls() []renewCall {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.renewals)
}

// scheduled is a fake that also knows when its next task is due.
type scheduled struct {
	renewing
	asked *int
}

func (f scheduled) NextDue(ctx context.Context) (wait time.Duration, ok bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	*f.asked++
	for _, j := range f.jobs {
		if j.done || j.running {
			continue
		}
		if w := time.Until(j.due); !ok || w < wait {
			wait, ok = w, true
		}
	}
	return wait, ok, nil
}

// handle makes a handler.
func handle(f func(ctx context.Context, task *Task[int]) error) Handler[int, int] {
	return HandlerFunc[int, int](func(ctx context.Context, task *Task[int]) (int, error) { return task.Payload, f(ctx, task) })
}

func noop(context.Context, *Task[int]) error { return nil }

// pass lets virtual time pass in a synctest bubble, and then everything come to rest. No real time is slept.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// blocked waits until gate is closed.
func blocked(gate <-chan struct{}) func(context.Context, *Task[int]) error {
	return func(context.Context, *Task[int]) error { <-gate; return nil }
}
