package worker_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgqueue/pgqueue/worker"
)

// typedError is an error whose nil pointer is not nil once it is an error, and panics when it is read.
type typedError struct{ text string }

func (e *typedError) Error() string { return e.text }

// unreadable is an error that panics when it is read.
type unreadable struct{}

func (unreadable) Error() string { panic("no text") }

// throw throws every kind of panic, by name.
func throw(kind string) error {
	switch kind {
	case "text":
		panic("boom")
	case "nil":
		panic(nil)
	case "error that cannot be read":
		panic(unreadable{})
	case "runtime error":
		var m map[string]int
		m["x"] = 1
	case "Goexit":
		runtime.Goexit()
	case "typed nil":
		var err *typedError
		return err
	case "returned error that cannot be read":
		return unreadable{}
	}
	return nil
}

func TestC49_PanicsOfEveryKindCostOneCallAndNoSlot(t *testing.T) {
	kinds := map[string]string{ // and what the log says of each
		"text":                               "panic: boom",
		"nil":                                "panic called with nil argument",
		"error that cannot be read":          "panic: %!v(PANIC=Error method: no text)",
		"runtime error":                      "assignment to entry in nil map",
		"Goexit":                             "runtime.Goexit was called",
		"typed nil":                          "invalid memory address or nil pointer dereference",
		"returned error that cannot be read": "panic: no text",
	}
	for kind, says := range kinds {
		for _, where := range []string{"Claim", "Process", "RecoverStale"} {
			t.Run(where+" "+kind, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { panicOfKind(t, kind, where, says) })
			})
		}
	}
}

// panicOfKind lets every other call of one method end badly, twenty times, with two slots: a slot that leaks each time is
// missed after the second.
func panicOfKind(t *testing.T, kind, where, says string) {
	const bad = 20
	p, l, registry := &pile{left: 3 * bad}, &logs{}, prometheus.NewRegistry()
	thrown, calls := 0, map[string]int{}
	turn := func(method string) error {
		calls[method]++
		if method == where && calls[method]%2 == 1 && thrown < bad {
			thrown++
			return throw(kind)
		}
		return nil
	}
	var tasks []int
	h := recovering{
		funcs: funcs{
			claim: func(ctx context.Context) (int, error) {
				if err := turn("Claim"); err != nil {
					return 0, err
				}
				return p.claim(ctx)
			},
			process: func(_ context.Context, task int) error {
				if err := turn("Process"); err != nil {
					return err
				}
				tasks = append(tasks, task)
				return nil
			},
		},
		recover: func(context.Context) error { return turn("RecoverStale") },
	}
	// One at a time, so that the handler needs no lock.
	r := start(t.Context(), worker.New("w", h, l.logger(), worker.WithRegisterer(registry), worker.WithMaxConcurrency(1)).Run)
	<-time.After(bad * 30 * time.Second)
	r.stop(t)

	if thrown != bad || p.remaining() != 0 {
		t.Fatalf("%d calls ended badly, want %d; %d tasks were never claimed", thrown, bad, p.remaining())
	}
	want := map[string]float64{
		`worker_tasks_total{status="succeeded",worker="w"}`: 3 * bad,
		`worker_tasks_total{status="failed",worker="w"}`:    0,
		`worker_claim_errors_total{worker="w"}`:             0,
	}
	message := map[string]string{"Claim": "claim failed", "Process": "task failed", "RecoverStale": "recovering stale tasks failed"}[where]
	switch where {
	case "Claim":
		want[`worker_claim_errors_total{worker="w"}`] = bad
	case "Process":
		want[`worker_tasks_total{status="succeeded",worker="w"}`] = 2 * bad
		want[`worker_tasks_total{status="failed",worker="w"}`] = bad
	}
	wantSeries(t, scrape(t, registry), want)
	if got := float64(len(tasks)); got != want[`worker_tasks_total{status="succeeded",worker="w"}`] {
		t.Errorf("%v tasks were processed to their end", got)
	}
	if got := strings.Count(l.String(), message); got != bad {
		t.Errorf("the log says %q %d times, want %d:\n%s", message, got, bad, firstLine(l))
	}
	if !contains(l, says) {
		t.Errorf("the log lacks %q:\n%s", says, firstLine(l))
	}
	if kind != "returned error that cannot be read" && kind != "typed nil" && !contains(l, "worker_test.throw(") {
		t.Errorf("the log does not say where it was:\n%s", firstLine(l))
	}
}

func firstLine(l *logs) string {
	line, _, _ := strings.Cut(l.String(), "\n")
	return line
}

func TestC49_PanicsOfAPeriodicHandlerCostOneRun(t *testing.T) {
	for _, kind := range []string{"text", "nil", "error that cannot be read", "runtime error", "Goexit", "typed nil"} {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				registry := prometheus.NewRegistry()
				calls := 0
				p := worker.NewPeriodic("p", worker.PeriodicFunc(func(context.Context) error {
					if calls++; calls%2 == 1 {
						return throw(kind)
					}
					return nil
				}), quiet(), worker.WithRegisterer(registry))
				r := start(t.Context(), p.Run)
				<-time.After(95 * time.Second)
				r.stop(t)
				wantSeries(t, scrape(t, registry), map[string]float64{
					`periodic_worker_runs_total{status="failed",worker="p"}`:    5,
					`periodic_worker_runs_total{status="succeeded",worker="p"}`: 5,
					`periodic_worker_skipped_total{worker="p"}`:                 0,
				})
			})
		})
	}
}

// A panic must not be an error that a handler's caller compares: it has a text and nothing else.
func TestC49_TheStackIsInTheLogAndNotInTheError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &logs{}
		p := worker.NewPeriodic("p", worker.PeriodicFunc(func(context.Context) error { panic(fmt.Errorf("broken %d", 7)) }), l.logger(), apart())
		r := start(t.Context(), p.Run)
		synctest.Wait()
		r.stop(t)
		if !contains(l, `error="panic: broken 7" stack="goroutine `) || !contains(l, "panic_test.go:") {
			t.Errorf("the log is:\n%s", l)
		}
	})
}
