package runner

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// supply is an endless queue that does as little as possible, so that the benchmark measures the engine.
type supply struct {
	left atomic.Int64
	mu   sync.Mutex
	done int64
}

func (q *supply) Claim(_ context.Context, request ClaimRequest) ([]Task[int], error) {
	n := min(int64(request.Limit), q.left.Load())
	q.left.Add(-n)
	tasks := make([]Task[int], n)
	tickets := make([]ticket, n)
	for i := range tasks {
		tasks[i].Token = &tickets[i]
		tasks[i].Attempt = 1
	}
	return tasks, nil
}

func (q *supply) Report(_ context.Context, verdicts []Verdict[int]) ([]Outcome, error) {
	outcomes := make([]Outcome, len(verdicts))
	for i := range outcomes {
		outcomes[i] = Succeeded
	}
	q.mu.Lock()
	q.done += int64(len(verdicts))
	q.mu.Unlock()
	return outcomes, nil
}

func (q *supply) Renew(_ context.Context, tokens []Token, _ time.Duration) ([]Renewal, error) {
	answers := make([]Renewal, len(tokens))
	for i := range answers {
		answers[i] = Renewed
	}
	return answers, nil
}

// counted is told of every verdict.
type counted struct{ n atomic.Int64 }

func (c *counted) VerdictDone(VerdictEvent) { c.n.Add(1) }

// BenchmarkRunnerWatched is the same with an observer of verdicts: what a subscription costs the engine.
func BenchmarkRunnerWatched(b *testing.B) {
	b.ReportAllocs()
	q, seen := &supply{}, &counted{}
	q.left.Store(int64(b.N))
	r, err := New[int, int](q, handle(noop), Config{Workers: 64, Batch: 1000, Logger: quiet()})
	if err != nil {
		b.Fatal(err)
	}
	r.Observe(seen)
	b.ResetTimer()
	if _, err := r.Drain(context.Background()); err != nil || seen.n.Load() != int64(b.N) {
		b.Fatalf("told of %d of %d, %v", seen.n.Load(), b.N, err)
	}
}

// BenchmarkRunnerNoop drains tasks whose handler does nothing: the cost of the engine for one task.
func BenchmarkRunnerNoop(b *testing.B) {
	for _, bench := range []struct {
		name    string
		workers int
		batch   int
	}{{"workers=2/batch=64", 2, 64}, {"workers=64/batch=1000", 64, 1000}, {"workers=2000/batch=1000", 2000, 1000}} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			q := &supply{}
			q.left.Store(int64(b.N))
			r, err := New[int, int](q, handle(noop), Config{Workers: bench.workers, Batch: bench.batch, Logger: quiet()})
			if err != nil {
				b.Fatal(err)
			}
			b.ResetTimer()
			result, err := r.Drain(context.Background())
			if err != nil || result.Outcomes.Succeeded != uint64(b.N) {
				b.Fatalf("drained %+v, %v", result, err)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
		})
	}
}
