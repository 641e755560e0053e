package metrics_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/trace"

	"github.com/pgqueue/pgqueue/metrics"
	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/runner"
)

// runWorker runs a worker and returns what stops it and waits.
func (r *traceRig) runWorker(t *testing.T, ctx context.Context, mux *pgqueue.Mux, config pgqueue.WorkerConfig) (stop func() error) {
	t.Helper()
	config.HeartbeatEvery = -1
	worker, err := r.client.NewWorker(mux, config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- worker.Run(ctx) }()
	stop = sync.OnceValue(func() error { cancel(); return <-done })
	t.Cleanup(func() { _ = stop() })
	return stop
}

func TestC131_NoSpanLeaksFromTheLoops(t *testing.T) {
	t.Parallel()
	const jobs, failing, exiting, panicking = 100, 50, 10, 10
	polls := traceSize(50, 1000)
	rig := newTraceRig(t, metrics.TracingConfig{})
	for i := range jobs {
		do := "ok"
		switch {
		case i < failing:
			do = "fail"
		case i < failing+exiting:
			do = "goexit"
		case i < failing+exiting+panicking:
			do = "panic"
		}
		rig.enqueue(t, context.Background(), traced{Do: do})
	}
	succeeded, polled := make(chan struct{}, jobs), make(chan struct{}, polls)
	hooks := &hookObserver{
		verdict: func(e runner.VerdictEvent) {
			if e.Outcome == runner.Succeeded {
				succeeded <- struct{}{}
			}
		},
		woken: func(e runner.WakeEvent) {
			if e.Source == runner.WakePoll {
				select {
				case polled <- struct{}{}:
				default:
				}
			}
		},
	}
	// Somebody runs the worker inside of a span of his own.
	ctx, outer := rig.provider.Tracer("app").Start(context.Background(), "main")
	stop := rig.runWorker(t, ctx, tracedMux(), pgqueue.WorkerConfig{
		Queues:          pgqueue.Queues{"default": {Workers: 1, Poll: 10 * time.Millisecond}},
		DisableListener: true, Observer: pgqueue.Observers(hooks, rig.tracing),
	})
	for range jobs {
		traceReceive(t, succeeded, "success")
	}
	for range polls {
		traceReceive(t, polled, "poll")
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	outer.End()

	attempts := rig.ended(t, "process default") // started equals ended
	if want := jobs + failing + exiting + panicking; len(attempts) != want {
		t.Errorf("%d attempts traced, want %d", len(attempts), want)
	}
	if all, want := len(rig.ended(t, "")), len(attempts)+jobs+1; all != want {
		t.Errorf("%d spans, want %d: one a send, one an attempt, and ours", all, want)
	}
	traces := map[trace.TraceID]bool{outer.SpanContext().TraceID(): true}
	for _, span := range attempts {
		requireRoot(t, span)
		if traces[span.SpanContext().TraceID()] {
			t.Error("two attempts share a trace")
		}
		traces[span.SpanContext().TraceID()] = true
		if took := span.EndTime().Sub(span.StartTime()); took > 20*time.Second {
			t.Errorf("a span lasted %s", took)
		}
	}
	requireNoSecret(t, rig)
}

func TestC132_GarbageInTheRowIsNoTrace(t *testing.T) {
	// Not parallel: it looks at the error handler of the process.
	told := make(chan error, 100)
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		select {
		case told <- err:
		default:
		}
	}))
	rig := newTraceRig(t, metrics.TracingConfig{})
	const good = "4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7"
	garbage := []string{
		`{"traceparent": ""}`,
		`{"traceparent": "x"}`,
		`{"traceparent": "` + strings.Repeat("x", 10<<10) + `"}`,
		`{"traceparent": "01-` + good + `-01-` + strings.Repeat("x", 10<<10) + `"}`, // a later version, but for its size
		`{"traceparent": "ff-` + good + `-01"}`,
		`{"traceparent": "00-00000000000000000000000000000000-0000000000000000-01"}`,
		`{"traceparent": "00-` + strings.ToUpper(good) + `-01"}`,
		`{"traceparent": 17}`, `{"traceparent": null}`, `{"traceparent": {"a": 1}}`, `{"traceparent": ["00-` + good + `-01"]}`,
		`{"deep": {"traceparent": "00-` + good + `-01"}}`,
		`{"tracestate": "a=b"}`,
		`{"baggage": "` + strings.Repeat("k=v,", 5<<10) + `k=v"}`,
		`{"baggage": "=;,\u0001"}`,
		`{"baggage": "key=val%zzue"}`,
	}
	for _, metadata := range garbage {
		if _, err := rig.db.Pool.Exec(context.Background(),
			"SELECT "+rig.db.Schema+".enqueue('traced', metadata => $1::jsonb)", metadata); err != nil {
			t.Fatal(err)
		}
	}
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(ctx context.Context, job *pgqueue.Job[traced]) error {
		if bag := baggage.FromContext(ctx); bag.Len() > 0 {
			return fmt.Errorf("baggage of %d members", bag.Len())
		}
		return nil
	})
	rig.drain(t, mux, pgqueue.WorkerConfig{})
	spans := rig.ended(t, "process default")
	if len(spans) != len(garbage) {
		t.Errorf("%d spans for %d jobs", len(spans), len(garbage))
	}
	for _, span := range spans {
		requireRoot(t, span)
		requireLinks(t, span)
		requireAttributes(t, span, map[attribute.Key]any{"messaging.pgqueue.outcome": "succeeded"})
	}
	select {
	case err := <-told:
		t.Errorf("the error handler was told: %v", err)
	default:
	}
}

// What is good beside garbage is used.
func TestC132_TheGoodPartOfARowIsUsed(t *testing.T) {
	t.Parallel()
	rig := newTraceRig(t, metrics.TracingConfig{})
	const good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	if _, err := rig.db.Pool.Exec(context.Background(), "SELECT "+rig.db.Schema+".enqueue('traced', metadata => $1::jsonb)",
		`{"traceparent": "`+good+`", "tracestate": "`+strings.Repeat("x", 20<<10)+`", "baggage": 3, "mine": "`+strings.Repeat("y", 100<<10)+`"}`); err != nil {
		t.Fatal(err)
	}
	rig.drain(t, tracedMux(), pgqueue.WorkerConfig{})
	span := rig.only(t, "process default")
	requireLinks(t, span, remote(t, good))
	if state := span.Links()[0].SpanContext.TraceState(); state.Len() != 0 {
		t.Errorf("trace state %q", state)
	}
}

// A handler that ignores its context is still running when Run has returned. Its span ends when it does, once.
func TestTheSpanOfAStuckHandlerEndsWithIt(t *testing.T) {
	t.Parallel()
	rig := newTraceRig(t, metrics.TracingConfig{})
	started, goOn := make(chan struct{}), make(chan struct{})
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[traced]) error {
		close(started)
		<-goOn
		return nil
	}, pgqueue.KindDeadline(-1))
	rig.enqueue(t, context.Background(), traced{})
	ended := make(chan runner.AttemptEvent, 1)
	stop := rig.runWorker(t, context.Background(), mux, pgqueue.WorkerConfig{
		Queues:          pgqueue.Queues{"default": {CleanUp: 10 * time.Millisecond}},
		DisableListener: true, StopTimeout: -1,
		Observer: pgqueue.Observers(rig.tracing, &endHook{ended}), // told after the tracing
	})
	traceReceive(t, started, "handler")
	if err := stop(); err == nil {
		t.Error("Run does not name the stuck handler")
	}
	close(goOn)
	traceReceive(t, ended, "end of the handler")
	requireAttributes(t, rig.only(t, "process default"), map[attribute.Key]any{
		"messaging.pgqueue.outcome": "succeeded", "messaging.pgqueue.interrupted": "stopping"})
}

// endHook passes on ends of attempts.
type endHook struct{ ended chan runner.AttemptEvent }

func (h *endHook) AttemptEnded(_ context.Context, e runner.AttemptEvent) { h.ended <- e }

// The database decides otherwise than the attempt reports: the job was taken away meanwhile.
func TestADiscardedResultIsASettleSpan(t *testing.T) {
	t.Parallel()
	rig := newTraceRig(t, metrics.TracingConfig{})
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(ctx context.Context, job *pgqueue.Job[traced]) error {
		_, err := rig.db.Pool.Exec(ctx, "DELETE FROM "+rig.db.Schema+".jobs WHERE id = $1", job.ID)
		return err
	})
	id := rig.enqueue(t, context.Background(), traced{})
	rig.drain(t, mux, pgqueue.WorkerConfig{})
	requireAttributes(t, rig.only(t, "process default"), map[attribute.Key]any{"messaging.pgqueue.outcome": "succeeded"})
	span := rig.only(t, "settle default")
	requireRoot(t, span)
	requireLinks(t, span, rig.only(t, "send default").SpanContext())
	requireAttributes(t, span, map[attribute.Key]any{
		"messaging.pgqueue.reported": "succeeded", "messaging.pgqueue.outcome": "lost", "error.type": "lost",
		"messaging.message.id": id, "messaging.pgqueue.attempt": 1, "messaging.operation.type": "settle",
	})
	if span.SpanKind() != trace.SpanKindClient {
		t.Errorf("kind %s, want client", span.SpanKind())
	}
}

// The lease is lost while the handler runs: the span says so.
func TestASpanSaysThatTheLeaseWasLost(t *testing.T) {
	t.Parallel()
	rig := newTraceRig(t, metrics.TracingConfig{})
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(ctx context.Context, job *pgqueue.Job[traced]) error {
		_, err := rig.db.Pool.Exec(ctx, "DELETE FROM "+rig.db.Schema+".jobs WHERE id = $1", job.ID)
		if err != nil {
			return err
		}
		<-ctx.Done()
		return context.Cause(ctx)
	})
	verdicts := make(chan runner.VerdictEvent, 1)
	hooks := &hookObserver{verdict: func(e runner.VerdictEvent) { verdicts <- e }}
	stop := rig.runWorker(t, context.Background(), mux, pgqueue.WorkerConfig{
		Queues: pgqueue.Queues{"default": {}}, DisableListener: true, Observer: pgqueue.Observers(rig.tracing, hooks),
		Lease: 3 * time.Second, RenewEvery: 100 * time.Millisecond, StorageTimeout: 100 * time.Millisecond,
	})
	rig.enqueue(t, context.Background(), traced{})
	traceReceive(t, verdicts, "verdict")
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	requireAttributes(t, rig.only(t, "process default"), map[attribute.Key]any{
		"messaging.pgqueue.outcome": "released", "messaging.pgqueue.interrupted": "lease_lost", "error.type": nil})
	if settles := rig.ended(t, "settle default"); len(settles) != 0 {
		t.Error("a settle span for nothing that was done")
	}
}
