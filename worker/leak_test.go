package worker_test

import (
	"context"
	"errors"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/pgqueue/pgqueue/worker"
)

// Workers come and go in one process, some with a store that fails, and leave no goroutine and no memory behind.
func TestC150_ManyWorkersLeaveNothingBehind(t *testing.T) {
	rounds, tasks := 200, 50
	registry := prometheus.NewRegistry()
	var before, after usage
	for round := range rounds {
		if round == 20 {
			before = measure()
		}
		oneLife(t, registry, tasks, round%4 == 3)
	}
	after = measure()
	if after.goroutines > before.goroutines+5 {
		t.Errorf("%d goroutines after 20 workers, %d after %d", before.goroutines, after.goroutines, rounds)
	}
	if after.heap > before.heap+2<<20 {
		t.Errorf("%d bytes of heap after 20 workers, %d after %d", before.heap, after.heap, rounds)
	}
}

func TestC150_ManyTasksOfOneWorkerLeaveNothingBehind(t *testing.T) {
	tasks := 20_000
	if os.Getenv("PGQUEUE_TEST_FULL") != "" {
		tasks = 200_000
	}
	registry := prometheus.NewRegistry()
	oneLife(t, registry, 1000, false)
	before := measure()
	oneLife(t, registry, tasks, false)
	after := measure()
	if after.goroutines > before.goroutines+5 || after.heap > before.heap+2<<20 {
		t.Errorf("before %+v, after %d tasks %+v", before, tasks, after)
	}
}

// oneLife starts a worker, lets it process tasks, and stops it.
func oneLife(t *testing.T, registry *prometheus.Registry, tasks int, failing bool) {
	t.Helper()
	p, done := &pile{left: tasks}, make(chan struct{})
	var processed atomic.Int64
	h := funcs{claim: p.claim, process: func(_ context.Context, task int) error {
		if processed.Add(1) == int64(tasks) {
			close(done)
		}
		if failing {
			panic("no connection")
		}
		return nil
	}}
	if failing {
		h.claim = func(ctx context.Context) (int, error) {
			if p.remaining() == 0 {
				return 0, errors.New("no connection")
			}
			return p.claim(ctx)
		}
	}
	r := start(t.Context(), worker.New("w", h, quiet(), worker.WithRegisterer(registry),
		worker.WithTracerProvider(noop.NewTracerProvider())).Run) // another test's recorder would keep every span
	<-done
	r.stop(t)
}

type usage struct {
	goroutines int
	heap       uint64
}

// measure waits for goroutines that have returned their slot and are on their way out.
func measure() usage {
	for range 1000 {
		if !strings.Contains(stacks(), "worker.(*session)") {
			break
		}
		runtime.Gosched()
	}
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return usage{runtime.NumGoroutine(), m.HeapAlloc}
}

func stacks() string {
	buffer := make([]byte, 1<<20)
	return string(buffer[:runtime.Stack(buffer, true)])
}
