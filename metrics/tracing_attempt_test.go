package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/pgqueue/pgqueue/metrics"
	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/runner"
	"github.com/pgqueue/pgqueue/runner/memqueue"
)

func TestAnAttemptIsARootLinkedToItsEnqueue(t *testing.T) {
	t.Parallel()
	rig := newTraceRig(t, metrics.TracingConfig{})
	id := rig.enqueue(t, context.Background(), traced{Do: "fail", Secret: secret})
	rig.drain(t, tracedMux(), pgqueue.WorkerConfig{})
	send := rig.only(t, "send default").SpanContext()
	attempts := rig.ended(t, "process default")
	if len(attempts) != 2 {
		t.Fatalf("%d attempts traced, want 2", len(attempts))
	}
	for i, span := range attempts {
		requireRoot(t, span)
		requireLinks(t, span, send)
		if span.SpanKind() != trace.SpanKindConsumer || span.SpanContext().TraceID() == send.TraceID() {
			t.Errorf("kind %s, want a consumer in a trace of its own", span.SpanKind())
		}
		requireAttributes(t, span, map[attribute.Key]any{
			"messaging.system": "pgqueue", "messaging.operation.name": "process", "messaging.operation.type": "process",
			"messaging.destination.name": "default", "messaging.message.id": id, "messaging.pgqueue.kind": "traced",
			"messaging.pgqueue.attempt": i + 1, "messaging.pgqueue.max_attempts": 3,
		})
	}
	if attempts[0].SpanContext().TraceID() == attempts[1].SpanContext().TraceID() {
		t.Error("two attempts in one trace")
	}
	requireAttributes(t, attempts[0], map[attribute.Key]any{"messaging.pgqueue.outcome": "retrying", "error.type": "error"})
	if status := attempts[0].Status(); status.Code != codes.Error || status.Description != "*errors.errorString" {
		t.Errorf("status %v, want an error with its type", status)
	}
	requireAttributes(t, attempts[1], map[attribute.Key]any{"messaging.pgqueue.outcome": "succeeded", "error.type": nil})
	if status := attempts[1].Status(); status.Code != codes.Unset {
		t.Errorf("status %v, want none", status)
	}
	if settles := rig.ended(t, "settle default"); len(settles) != 0 {
		t.Errorf("%d settle spans where nothing was special", len(settles))
	}
}

func TestAnAttemptMayContinueTheTrace(t *testing.T) {
	t.Parallel()
	rig := newTraceRig(t, metrics.TracingConfig{ContinueTrace: true})
	rig.enqueue(t, context.Background(), traced{Do: "fail"})
	rig.drain(t, tracedMux(), pgqueue.WorkerConfig{})
	send := rig.only(t, "send default").SpanContext()
	for _, span := range rig.ended(t, "process default") {
		requireLinks(t, span, send)
		if span.Parent().SpanID() != send.SpanID() || span.SpanContext().TraceID() != send.TraceID() {
			t.Error("an attempt is no child of its enqueue")
		}
	}
}

// What handlers may decide, and what their spans say of it.
func TestSpansSayTheOutcomeAndTheSafeCode(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		do            string
		attempts      int // that may fail
		outcome, code string
		text          string // in the status
		full          string // in the status, with StoreErrorText
	}{
		{do: "ok", attempts: 3, outcome: "succeeded"},
		{do: "safe", attempts: 3, outcome: "retrying", code: "smtp_down", text: "try port 25", full: "try port 25"},
		{do: "fail", attempts: 1, outcome: "dead", code: "error", text: "*errors.errorString", full: secret},
		{do: "permanent", attempts: 3, outcome: "failed", code: "bad_address", text: "*errors.errorString", full: secret},
		{do: "snooze", attempts: 3, outcome: "snoozed"},
		{do: "cancel", attempts: 3, outcome: "cancelled"},
		{do: "panic", attempts: 3, outcome: "retrying", code: "panic", text: "panic: string at ", full: secret},
		{do: "goexit", attempts: 3, outcome: "retrying", code: "panic", text: "panic: runtime.Goexit at ", full: "runtime.Goexit"},
	} {
		for _, store := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%t", c.do, store), func(t *testing.T) {
				t.Parallel()
				rig := newTraceRig(t, metrics.TracingConfig{})
				rig.enqueue(t, context.Background(), traced{Do: c.do, Secret: secret}, pgqueue.WithMaxAttempts(c.attempts))
				rig.drain(t, tracedMux(), pgqueue.WorkerConfig{StoreErrorText: store})
				span := rig.ended(t, "process default")[0]
				var code any
				want, text := codes.Unset, ""
				if c.code != "" {
					code, want, text = c.code, codes.Error, c.text
				}
				if store && c.code != "" {
					text = c.full
				}
				requireAttributes(t, span, map[attribute.Key]any{"messaging.pgqueue.outcome": c.outcome, "error.type": code})
				if status := span.Status(); status.Code != want || !strings.Contains(status.Description, text) {
					t.Errorf("status %v, want %v with %q", status, want, text)
				}
				if settles := rig.ended(t, "settle default"); len(settles) != 0 {
					t.Errorf("the database decided otherwise: %v", settles[0].Attributes())
				}
				if !store {
					requireNoSecret(t, rig)
				}
			})
		}
	}
}

// requireNoSecret looks for the secret in all that the spans say.
func requireNoSecret(t *testing.T, rig *traceRig) {
	t.Helper()
	for _, span := range rig.ended(t, "") {
		if text := fmt.Sprint(span.Name(), span.Attributes(), span.Status(), span.Events(), span.Links()); strings.Contains(text, secret) {
			t.Errorf("a span holds the secret: %s", text)
		}
	}
}

func TestSpansOfAHandlerAreChildrenOfItsAttempt(t *testing.T) {
	t.Parallel()
	rig := newTraceRig(t, metrics.TracingConfig{})
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(ctx context.Context, job *pgqueue.Job[traced]) error {
		if bag := baggage.FromContext(ctx).Member("tenant").Value(); bag != "acme" {
			return fmt.Errorf("baggage %q, want acme", bag)
		}
		_, span := rig.provider.Tracer("app").Start(ctx, "work")
		span.End()
		_, err := rig.client.Enqueue(ctx, rig.db.Pool, traced{}, pgqueue.OnQueue("next"))
		return err
	})
	rig.enqueue(t, context.Background(), traced{}, pgqueue.WithMetadata(map[string]string{"baggage": "tenant=acme"}))
	rig.drain(t, mux, pgqueue.WorkerConfig{})
	attempt := rig.only(t, "process default")
	requireAttributes(t, attempt, map[attribute.Key]any{"messaging.pgqueue.outcome": "succeeded"})
	for _, name := range []string{"work", "send next"} {
		if span := rig.only(t, name); span.Parent().SpanID() != attempt.SpanContext().SpanID() {
			t.Errorf("span %q is no child of the attempt", name)
		}
	}
}

// A Drain inside a request, or a Run inside a span that somebody forgot: each attempt is a root, and linked to it.
func TestAnAttemptIsNoChildOfWhatRunsTheWorker(t *testing.T) {
	t.Parallel()
	rig := newTraceRig(t, metrics.TracingConfig{})
	rig.enqueue(t, context.Background(), traced{})
	rig.enqueue(t, context.Background(), traced{})
	ctx, outer := rig.provider.Tracer("app").Start(context.Background(), "cron")
	_, err := rig.client.Drain(ctx, tracedMux(), pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {}}, Observer: rig.tracing})
	outer.End()
	if err != nil {
		t.Fatal(err)
	}
	sends := rig.ended(t, "send default")
	traces := map[trace.TraceID]bool{outer.SpanContext().TraceID(): true}
	for _, span := range rig.ended(t, "process default") {
		requireRoot(t, span)
		if len(span.Links()) != 2 || span.Links()[1].SpanContext.SpanID() != outer.SpanContext().SpanID() {
			t.Errorf("links %v, want the enqueue and the drain", span.Links())
		}
		traces[span.SpanContext().TraceID()] = true
	}
	if len(traces) != 3 || len(sends) != 2 {
		t.Errorf("%d traces, want 3", len(traces))
	}
}

func TestAJobThatCannotBeDecodedHasASpan(t *testing.T) {
	t.Parallel()
	rig := newTraceRig(t, metrics.TracingConfig{})
	rig.enqueue(t, context.Background(), pgqueue.Raw{Name: "traced", Payload: []byte(`{"do":["` + secret + `"]}`)}, pgqueue.WithMaxAttempts(1))
	rig.drain(t, tracedMux(), pgqueue.WorkerConfig{})
	requireAttributes(t, rig.only(t, "process default"), map[attribute.Key]any{"error.type": "undecodable", "messaging.pgqueue.outcome": "dead"})
	requireNoSecret(t, rig)
}

// A row that no handler can be given: the queue says so, and there is only the end to be told of.
func TestATaskThatReachesNoHandlerHasASpan(t *testing.T) {
	t.Parallel()
	tracing, _, spans := newTracing(t, metrics.TracingConfig{})
	queue := memqueue.New[int, int](memqueue.Config{})
	queue.Put(memqueue.Input[int]{Err: errors.New(secret), MaxAttempts: 1})
	handler := runner.HandlerFunc[int, int](func(context.Context, *runner.Task[int]) (int, error) { return 0, nil })
	r, err := runner.New(queue, handler, runner.Config{Name: "mail", Observer: tracing, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Drain(context.Background()); err != nil {
		t.Fatal(err)
	}
	found := endedSpans(t, spans, "process mail")
	if len(found) != 1 {
		t.Fatalf("%d spans, want one", len(found))
	}
	requireAttributes(t, found[0], map[attribute.Key]any{"error.type": "undecodable", "messaging.pgqueue.attempt": 1})
}

// hookObserver makes functions an observer.
type hookObserver struct {
	verdict func(runner.VerdictEvent)
	woken   func(runner.WakeEvent)
}

func (h *hookObserver) VerdictDone(e runner.VerdictEvent) {
	if h.verdict != nil {
		h.verdict(e)
	}
}

func (h *hookObserver) Woken(e runner.WakeEvent) {
	if h.woken != nil {
		h.woken(e)
	}
}
