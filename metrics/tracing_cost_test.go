package metrics_test

import (
	"context"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/pgqueue/pgqueue/metrics"
	"github.com/pgqueue/pgqueue/runner"
	"github.com/pgqueue/pgqueue/runner/memqueue"
)

// mute is an observer that observes nothing.
type mute struct{}

// observed is what an attempt costs with a Tracing over a provider.
func observed(t testing.TB, provider trace.TracerProvider) func() {
	t.Helper()
	tracing, err := metrics.NewTracing(metrics.TracingConfig{TracerProvider: provider})
	if err != nil {
		t.Fatal(err)
	}
	e := runner.AttemptEvent{Queue: "default", Kind: "traced", Token: token("17"), Attempt: 1}
	end := e
	end.Decision = runner.Succeed
	return func() { tracing.AttemptEnded(tracing.AttemptStarted(context.Background(), e), end) }
}

// token is that of a queue that is not pgqueue's.
type token string

func (t token) String() string { return string(t) }

// Where there is no tracing nothing is called and nothing allocated; with a provider that records nothing it is a few small
// allocations an attempt.
func TestTracingThatIsOffCostsNothing(t *testing.T) { // AllocsPerRun does not go with t.Parallel
	run := func(observer any) float64 {
		return testing.AllocsPerRun(20, func() { runTasks(t, observer, 200) }) / 200
	}
	none, muted, off := run(nil), run(mute{}), run(offTracing(t))
	t.Logf("allocations a task: %.1f without an observer, %.1f with one that observes nothing, %.1f with a noop provider", none, muted, off)
	if muted > none+1 {
		t.Errorf("an observer that observes nothing costs %.1f allocations a task", muted-none)
	}
	if off > none+25 {
		t.Errorf("tracing with a noop provider costs %.1f allocations a task", off-none)
	}
}

func offTracing(t testing.TB) *metrics.Tracing {
	t.Helper()
	tracing, err := metrics.NewTracing(metrics.TracingConfig{TracerProvider: noop.NewTracerProvider()})
	if err != nil {
		t.Fatal(err)
	}
	return tracing
}

// runTasks works off n tasks of a queue in memory.
func runTasks(t testing.TB, observer any, n int) {
	t.Helper()
	queue := memqueue.New[int, int](memqueue.Config{})
	for i := range n {
		queue.Put(memqueue.Input[int]{Payload: i})
	}
	handler := runner.HandlerFunc[int, int](func(context.Context, *runner.Task[int]) (int, error) { return 0, nil })
	r, err := runner.New(queue, handler, runner.Config{Observer: observer})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Drain(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func BenchmarkTracing(b *testing.B) {
	off := observed(b, noop.NewTracerProvider())
	on := observed(b, sdktrace.NewTracerProvider())
	unsampled := observed(b, sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample())))
	for _, c := range []struct {
		name string
		do   func()
	}{{"noop", off}, {"unsampled", unsampled}, {"recorded", on}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.do()
			}
		})
	}
}
