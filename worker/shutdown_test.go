package worker_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pgqueue/pgqueue/worker"
)

func contains(l *logs, text string) bool { return strings.Contains(l.String(), text) }

type keyOfValue struct{}

// A stop in the middle of a task, of a claim and of a recovery: none of them sees it, and what they do still counts.
func TestC47_WhatIsInFlightIsFinishedWithAContextThatShutdownDoesNotCancel(t *testing.T) {
	for _, during := range []string{"RecoverStale", "Claim", "Process"} {
		t.Run(during, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &pile{left: 1}
				var finished atomic.Int32
				// What takes a while asks its context afterwards, as a statement that records the result would.
				take := func(ctx context.Context, call string) error {
					if call == during {
						<-time.After(2 * time.Second)
					}
					if ctx.Err() != nil || ctx.Done() != nil {
						t.Errorf("the context of %s ends with the shutdown", call)
					}
					if ctx.Value(keyOfValue{}) != "kept" {
						t.Errorf("the context of %s has not the values of Run's", call)
					}
					return nil
				}
				h := recovering{
					funcs: funcs{
						claim: func(ctx context.Context) (int, error) {
							task, err := p.claim(ctx)
							return task, errors.Join(err, take(ctx, "Claim"))
						},
						process: func(ctx context.Context, _ int) error {
							defer finished.Add(1)
							return take(ctx, "Process")
						},
					},
					recover: func(ctx context.Context) error { return take(ctx, "RecoverStale") },
				}
				began := time.Now()
				r := start(context.WithValue(t.Context(), keyOfValue{}, "kept"), worker.New("w", h, quiet(), apart()).Run)
				<-time.After(time.Second)
				r.stop(t)
				if took := time.Since(began); took != 2*time.Second {
					t.Errorf("Run returned after %v, want when the call in flight had returned, after 2 s", took)
				}
				// A task that was claimed is processed; a worker that is stopping claims none.
				want := int32(1)
				if during == "RecoverStale" {
					want = 0
				}
				if got := finished.Load(); got != want || p.remaining() != 1-int(want) {
					t.Errorf("%d tasks were finished and %d are left, want %d and %d", got, p.remaining(), want, 1-want)
				}
			})
		})
	}
}

func TestC47_AHundredTasksInFlightAreAllFinished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 100
		p := &pile{left: 2 * n}
		var finished atomic.Int32
		w := worker.New("w", funcs{claim: p.claim, process: func(_ context.Context, task int) error {
			<-time.After(time.Duration(task) * 10 * time.Millisecond)
			finished.Add(1)
			return nil
		}}, quiet(), apart(), worker.WithMaxConcurrency(n))
		r := start(t.Context(), w.Run)
		synctest.Wait()
		r.stop(t)
		if got := finished.Load(); got != n || p.remaining() != n {
			t.Errorf("%d tasks were finished and %d are left, want %d and %d", got, p.remaining(), n, n)
		}
	})
}

// There is no time after which Run returns with a handler still running, its pool about to be closed: it waits, and says so.
func TestC48_RunWaitsForAHandlerThatTakesItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, l := &pile{left: 3}, &logs{}
		ended := false
		w := worker.New("slow", funcs{claim: p.claim, process: func(_ context.Context, task int) error {
			if task == 1 {
				<-time.After(60 * time.Second)
				ended = true
			}
			return nil
		}}, l.logger(), apart())
		r := start(t.Context(), w.Run)
		<-time.After(time.Second)
		r.end(errEnough)
		<-time.After(30 * time.Second)
		select {
		case err := <-r.done:
			t.Fatalf("Run returned %v while a handler was running", err)
		default:
		}
		if err := <-r.done; err != errEnough || !ended {
			t.Errorf("Run returned %v, and the handler had ended: %v", err, ended)
		}
		for _, want := range []string{
			`msg="worker: stopping, waiting for what is in flight" worker=slow in_flight=1`,
			`level=WARN msg="worker: still waiting for what is in flight" worker=slow in_flight=1`,
		} {
			if !contains(l, want) {
				t.Errorf("the log lacks %s:\n%s", want, l)
			}
		}
	})
}

func TestAContextThatHasEndedClaimsNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	h := recovering{funcs: funcs{claim: func(context.Context) (int, error) { panic("claimed") }},
		recover: func(context.Context) error { panic("recovered") }}
	l := &logs{}
	if err := worker.New("w", h, l.logger(), apart()).Run(ctx); err != context.Canceled {
		t.Errorf("Run returned %v", err)
	}
	if l.String() != "" {
		t.Errorf("the handler was called:\n%s", l)
	}
}

func TestRunMayBeCalledAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pile{left: 5}
		w := worker.New("w", funcs{claim: p.claim}, quiet(), apart())
		for range 3 {
			r := start(t.Context(), w.Run)
			synctest.Wait()
			if p.remaining() != 0 {
				t.Errorf("%d tasks are left", p.remaining())
			}
			r.stop(t)
			p.add(5)
		}
	})
}
