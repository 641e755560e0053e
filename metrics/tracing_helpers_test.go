package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/pgqueue/pgqueue/metrics"
	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
	"github.com/pgqueue/pgqueue/runner"
)

// tracePatience is how long a test waits for what must happen; only a broken program makes it wait so long.
const tracePatience = 60 * time.Second

// secret is in the error texts and payloads of the tests, and must not be anywhere else.
const secret = "hunter2-swordfish"

// traced is the job of the tracing tests: the handler does what Do says.
type traced struct {
	Do     string `json:"do,omitempty"`
	Secret string `json:"secret,omitempty"`
}

func (traced) Kind() string { return "traced" }

// traceRig is a database with a client and a Tracing, and what its spans are recorded in.
type traceRig struct {
	db       *pgqueuetest.DB
	client   *pgqueue.Client
	tracing  *metrics.Tracing
	provider *sdktrace.TracerProvider
	spans    *tracetest.SpanRecorder
}

func newTracing(t testing.TB, config metrics.TracingConfig) (*metrics.Tracing, *sdktrace.TracerProvider, *tracetest.SpanRecorder) {
	t.Helper()
	spans := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	t.Cleanup(func() { _ = provider.Shutdown(context.Background()) })
	config.TracerProvider = provider
	tracing, err := metrics.NewTracing(config)
	if err != nil {
		t.Fatal(err)
	}
	return tracing, provider, spans
}

func newTraceRig(t testing.TB, config metrics.TracingConfig) *traceRig {
	t.Helper()
	tracing, provider, spans := newTracing(t, config)
	db := pgqueuetest.New(t)
	client := db.Client(t, pgqueue.WithEnqueueMiddleware(tracing.EnqueueMiddleware()),
		pgqueue.WithLogger(slog.New(slog.DiscardHandler)))
	return &traceRig{db, client, tracing, provider, spans}
}

// enqueue enqueues one job in ctx.
func (r *traceRig) enqueue(t testing.TB, ctx context.Context, args pgqueue.Args, options ...pgqueue.EnqueueOption) int64 {
	t.Helper()
	enqueued, err := r.client.Enqueue(ctx, r.db.Pool, args, options...)
	if err != nil {
		t.Fatal(err)
	}
	return enqueued.ID
}

// drain works off what is due.
func (r *traceRig) drain(t testing.TB, mux *pgqueue.Mux, config pgqueue.WorkerConfig) {
	t.Helper()
	if config.Observer == nil {
		config.Observer = r.tracing
	}
	if config.Queues == nil {
		config.Queues = pgqueue.Queues{"default": {}}
	}
	ctx, cancel := context.WithTimeout(context.Background(), tracePatience)
	defer cancel()
	if _, err := r.client.Drain(ctx, mux, config); err != nil {
		t.Fatal(err)
	}
}

// ended returns the ended spans of a name, and demands that nothing is left open.
func (r *traceRig) ended(t testing.TB, name string) []sdktrace.ReadOnlySpan {
	t.Helper()
	return endedSpans(t, r.spans, name)
}

func endedSpans(t testing.TB, recorder *tracetest.SpanRecorder, name string) (found []sdktrace.ReadOnlySpan) {
	t.Helper()
	ended := recorder.Ended()
	if started := len(recorder.Started()); started != len(ended) {
		t.Errorf("%d spans started and %d ended", started, len(ended))
	}
	for _, span := range ended {
		if name == "" || span.Name() == name {
			found = append(found, span)
		}
	}
	return found
}

// only is ended for a span that must be the only one of its name.
func (r *traceRig) only(t testing.TB, name string) sdktrace.ReadOnlySpan {
	t.Helper()
	found := r.ended(t, name)
	if len(found) != 1 {
		t.Fatalf("%d spans %q, want one", len(found), name)
	}
	return found[0]
}

// requireAttributes demands attributes, given as key and value; a nil value demands that there is none.
func requireAttributes(t testing.TB, span sdktrace.ReadOnlySpan, want map[attribute.Key]any) {
	t.Helper()
	set := attribute.NewSet(span.Attributes()...)
	for key, value := range want {
		is, ok := set.Value(key)
		switch {
		case value == nil && ok:
			t.Errorf("span %q: %s is %v, want none", span.Name(), key, is.String())
		case value != nil && (!ok || is.String() != fmt.Sprint(value)):
			t.Errorf("span %q: %s is %q, want %v", span.Name(), key, is.String(), value)
		}
	}
}

// requireLinks demands exactly these links, in order.
func requireLinks(t testing.TB, span sdktrace.ReadOnlySpan, want ...trace.SpanContext) {
	t.Helper()
	if len(span.Links()) != len(want) {
		t.Fatalf("span %q has %d links, want %d", span.Name(), len(span.Links()), len(want))
	}
	for i, link := range span.Links() {
		if link.SpanContext.TraceID() != want[i].TraceID() || link.SpanContext.SpanID() != want[i].SpanID() {
			t.Errorf("span %q is linked to %v, want %v", span.Name(), link.SpanContext, want[i])
		}
	}
}

func requireRoot(t testing.TB, span sdktrace.ReadOnlySpan) {
	t.Helper()
	if span.Parent().IsValid() {
		t.Errorf("span %q has a parent, want a root", span.Name())
	}
}

// metadata reads what the row of a job carries.
func (r *traceRig) metadata(t testing.TB, id int64) (metadata map[string]any) {
	t.Helper()
	err := r.db.Pool.QueryRow(context.Background(), "SELECT metadata FROM "+r.db.Schema+".jobs WHERE id = $1", id).Scan(&metadata)
	if err != nil {
		t.Fatal(err)
	}
	return metadata
}

// remote is the span context in a traceparent.
func remote(t testing.TB, traceparent string) trace.SpanContext {
	t.Helper()
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{"traceparent": traceparent})
	sc := trace.SpanContextFromContext(ctx)
	if !sc.IsValid() {
		t.Fatalf("no traceparent: %q", traceparent)
	}
	return sc
}

// tracedMux does what jobs say: at their first attempt, and succeeds at the next.
func tracedMux() *pgqueue.Mux {
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(_ context.Context, job *pgqueue.Job[traced]) error {
		if job.Attempt > 1 {
			return nil
		}
		switch job.Args.Do {
		case "fail":
			return errors.New("the password is " + secret)
		case "safe":
			return runner.Coded("smtp_down", runner.Safe(errors.New("try port 25")))
		case "permanent":
			return pgqueue.Permanent(runner.Coded("bad_address", errors.New(secret)))
		case "snooze":
			return pgqueue.Snooze(time.Hour)
		case "cancel":
			return pgqueue.Cancel(errors.New(secret))
		case "goexit":
			runtime.Goexit()
		case "panic":
			panic(secret)
		}
		return nil
	}, pgqueue.KindBackoff(runner.Exponential{Base: time.Millisecond, Max: time.Millisecond, Factor: 1}))
	return mux
}

// traceSize is small in every run and full where PGQUEUE_TEST_FULL asks for the sizes of the failure cases' text.
func traceSize[T any](small, full T) T {
	if os.Getenv("PGQUEUE_TEST_FULL") != "" {
		return full
	}
	return small
}

func traceReceive[T any](t testing.TB, from <-chan T, what string) (value T) {
	t.Helper()
	select {
	case value = <-from:
	case <-time.After(tracePatience):
		t.Fatalf("no %s within %s", what, tracePatience)
	}
	return value
}
