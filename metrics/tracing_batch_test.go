package metrics_test

import (
	"context"
	"errors"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/pgqueue/pgqueue/metrics"
	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/runner"
)

// batchSpans sorts the spans of the one batch of a test.
func batchSpans(t *testing.T, rig *traceRig) (batch sdktrace.ReadOnlySpan, attempts []sdktrace.ReadOnlySpan) {
	t.Helper()
	for _, span := range rig.ended(t, "process default") {
		if !span.Parent().IsValid() {
			if batch != nil {
				t.Fatal("two roots")
			}
			batch = span
			continue
		}
		attempts = append(attempts, span)
	}
	if batch == nil {
		t.Fatal("no span of the batch")
	}
	for _, span := range attempts {
		if span.Parent().SpanID() != batch.SpanContext().SpanID() {
			t.Errorf("the attempt of %v is no child of its batch", span.Attributes())
		}
		if span.SpanKind() != trace.SpanKindConsumer {
			t.Errorf("kind %s, want consumer", span.SpanKind())
		}
	}
	return batch, attempts
}

func TestABatchIsASpanWithItsAttemptsBelow(t *testing.T) {
	t.Parallel()
	rig := newTraceRig(t, metrics.TracingConfig{ContinueTrace: true}) // which batches cannot do
	mux := pgqueue.NewMux()
	pgqueue.HandleBatch(mux, func(ctx context.Context, jobs []*pgqueue.Job[traced]) []error {
		_, span := rig.provider.Tracer("app").Start(ctx, "bulk insert")
		span.End()
		errs := make([]error, len(jobs))
		for i, job := range jobs {
			_, span := rig.provider.Tracer("app").Start(job.Context(), "one of them")
			span.End()
			if job.Args.Do == "fail" {
				errs[i] = errors.New(secret)
			}
		}
		return errs
	}, pgqueue.KindCollect(-1))
	for _, do := range []string{"ok", "fail", "ok"} {
		rig.enqueue(t, context.Background(), traced{Do: do}, pgqueue.WithMaxAttempts(1))
	}
	// One that the handler is not shown.
	rig.enqueue(t, context.Background(), pgqueue.Raw{Name: "traced", Payload: []byte(`{"do":{}}`)}, pgqueue.WithMaxAttempts(1))
	rig.drain(t, mux, pgqueue.WorkerConfig{})

	batch, attempts := batchSpans(t, rig)
	if len(attempts) != 4 {
		t.Fatalf("%d attempts, want 4", len(attempts))
	}
	requireAttributes(t, batch, map[attribute.Key]any{"messaging.batch.message_count": 4, "messaging.message.id": nil,
		"messaging.pgqueue.batch.failed": 2, "messaging.pgqueue.kind": "traced", "messaging.operation.type": "process"})
	if batch.Status().Code != codes.Unset {
		t.Errorf("status %v of a batch of which one half succeeded", batch.Status())
	}
	sends := rig.ended(t, "send default")
	for i, want := range []any{"succeeded", "dead", "succeeded", "dead"} {
		requireLinks(t, attempts[i], sends[i].SpanContext())
		requireAttributes(t, attempts[i], map[attribute.Key]any{"messaging.pgqueue.outcome": want})
	}
	requireAttributes(t, attempts[1], map[attribute.Key]any{"error.type": "error"})
	requireAttributes(t, attempts[3], map[attribute.Key]any{"error.type": "undecodable"})
	if span := rig.only(t, "bulk insert"); span.Parent().SpanID() != batch.SpanContext().SpanID() {
		t.Error("a span of the batch handler is no child of the batch")
	}
	for i, span := range rig.ended(t, "one of them") {
		if span.Parent().SpanID() != attempts[i].SpanContext().SpanID() {
			t.Error("a span in the context of a job is no child of its attempt")
		}
	}
	requireNoSecret(t, rig)
}

func TestABatchThatPanicsEndsAllOfItsSpans(t *testing.T) {
	t.Parallel()
	rig := newTraceRig(t, metrics.TracingConfig{})
	mux := pgqueue.NewMux()
	pgqueue.HandleBatch(mux, func(context.Context, []*pgqueue.Job[traced]) []error { panic(secret) }, pgqueue.KindCollect(-1))
	rig.enqueue(t, context.Background(), traced{}, pgqueue.WithMaxAttempts(1))
	rig.enqueue(t, context.Background(), traced{}, pgqueue.WithMaxAttempts(1))
	rig.drain(t, mux, pgqueue.WorkerConfig{})
	batch, attempts := batchSpans(t, rig)
	if batch.Status().Code != codes.Error || len(attempts) != 2 {
		t.Errorf("status %v with %d attempts, want an error and 2", batch.Status(), len(attempts))
	}
	for _, span := range attempts {
		requireAttributes(t, span, map[attribute.Key]any{"error.type": runner.CodePanic})
	}
	requireNoSecret(t, rig)
}
