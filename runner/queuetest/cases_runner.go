package queuetest

import (
	"context"
	"sync"
	"time"

	"github.com/pgqueue/pgqueue/runner"
)

func runnerCases[P, R any]() []Case[P, R] {
	return []Case[P, R]{
		{Name: "RunnerDrainsTheQueue", test: runnerDrainsTheQueue[P, R]},
		{Name: "RunnerStalledKindBesideALiveOne", Needs: []Capability{Kinds}, test: runnerStalledKindBesideALiveOne[P, R]},
	}
}

func (e *env[P, R]) runner(handle func(ctx context.Context, name string)) *runner.Runner[P, R] {
	e.Helper()
	config := runner.Config{Workers: 4, Batch: 8, Poll: 20 * time.Millisecond, Deadline: patience}
	if e.has(Kinds) {
		config.Kinds = []runner.KindConfig{{Name: KindA}, {Name: KindB}}
	}
	r, err := runner.New(e.Queue, runner.HandlerFunc[P, R](func(ctx context.Context, task *runner.Task[P]) (result R, err error) {
		name := e.nameOf(*task)
		handle(ctx, name)
		if e.has(Results) {
			result = e.Result("result of " + name)
		}
		return result, nil
	}), config)
	if err != nil {
		e.Fatalf("runner.New: %v", err)
	}
	return r
}

func runnerDrainsTheQueue[P, R any](e *env[P, R]) {
	const n = 30
	for i := range n {
		e.put(NewItem{Name: item(i)})
	}
	var mu sync.Mutex
	runs := make(map[string]int)
	r := e.runner(func(_ context.Context, name string) {
		mu.Lock()
		defer mu.Unlock()
		runs[name]++
	})
	if _, err := r.Drain(e.ctx); err != nil {
		e.Fatalf("Drain: %v", err)
	}
	for i := range n {
		if got := runs[item(i)]; got != 1 {
			e.Errorf("item %q was run %d times, want once", item(i), got)
		}
		e.wantState(item(i), Succeeded)
		e.wantResult(item(i), "result of "+item(i))
	}
}

// The handlers of one kind hang, and much more of it waits in front. The other kind is worked off all the same.
func runnerStalledKindBesideALiveOne[P, R any](e *env[P, R]) {
	const n = 20
	live := make(map[string]bool)
	for i := range n {
		e.put(NewItem{Name: "stalled-" + item(i), Kind: KindA, Due: -time.Hour})
		e.put(NewItem{Name: "live-" + item(i), Kind: KindB, Due: -time.Minute})
		live["live-"+item(i)] = true
	}
	done := make(chan string, 2*n)
	free := make(chan struct{})
	r := e.runner(func(ctx context.Context, name string) {
		if !live[name] {
			select {
			case <-free:
			case <-ctx.Done():
			}
		}
		done <- name
	})
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(e.ctx)
	go func() { ended <- r.Run(ctx) }()
	seen := 0
	for seen < n && e.ctx.Err() == nil {
		select {
		case name := <-done:
			if live[name] {
				seen++
			}
		case <-e.ctx.Done():
		}
	}
	close(free)
	cancel()
	if err := <-ended; err != nil {
		e.Errorf("Run: %v", err)
	}
	if seen < n {
		e.Fatalf("%d of %d tasks of the live kind were run while the other kind hung", seen, n)
	}
	for name := range live {
		e.wantState(name, Succeeded)
	}
}
