package runner

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
)

// batchKey is under which a batchWatcher leaves its mark in a context.
type batchKey struct{}

// batchWatcher notes in which order it is told of a batch and its attempts.
type batchWatcher struct {
	told []string
	end  BatchEvent
}

func (w *batchWatcher) BatchStarted(ctx context.Context, e BatchEvent) context.Context {
	w.told = append(w.told, fmt.Sprintf("batch of %d", e.Tasks))
	return context.WithValue(ctx, batchKey{}, "mark")
}

func (w *batchWatcher) AttemptStarted(ctx context.Context, e AttemptEvent) context.Context {
	w.told = append(w.told, fmt.Sprintf("start %v", e.BatchContext.Value(batchKey{})))
	return ctx
}

func (w *batchWatcher) AttemptEnded(context.Context, AttemptEvent) { w.told = append(w.told, "end") }

func (w *batchWatcher) BatchEnded(ctx context.Context, e BatchEvent) {
	w.told = append(w.told, fmt.Sprintf("batch ended %v", ctx.Value(batchKey{})))
	w.end = e
}

func TestObserversAreToldOfBatches(t *testing.T) {
	for _, c := range []struct {
		name   string
		handle func(ctx context.Context, tasks []*Task[int]) []Result[int]
		failed int
	}{
		{"one fails", func(ctx context.Context, tasks []*Task[int]) []Result[int] {
			if ctx.Value(batchKey{}) != "mark" {
				return nil // fails both
			}
			return []Result[int]{{Err: Permanent(errors.New("no"))}, {}}
		}, 1},
		{"panic", func(context.Context, []*Task[int]) []Result[int] { panic("batch") }, 2},
		{"goexit", func(context.Context, []*Task[int]) []Result[int] { runtime.Goexit(); return nil }, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &batchWatcher{}
				f := newFake(0)
				f.add("b", 0)
				f.add("b", 0)
				start(t, renewing{f}, BatchFunc[int, int](c.handle), Config{Observer: Observers(w), Workers: 1,
					Kinds: []KindConfig{{Name: "b", BatchSize: 2}}, Backoff: Exponential{Base: maxBackoff, Max: maxBackoff}})
				synctest.Wait()
				want := []string{"batch of 2", "start mark", "start mark", "end", "end", "batch ended mark"}
				if !slices.Equal(w.told, want) {
					t.Errorf("told %q, want %q", w.told, want)
				}
				if w.end.Failed != c.failed || w.end.Tasks != 2 || w.end.Kind != "b" {
					t.Errorf("end %+v, want %d failed", w.end, c.failed)
				}
			})
		})
	}
}
