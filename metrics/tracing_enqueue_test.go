package metrics_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/pgqueue/pgqueue/metrics"
	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

func TestTracingNeedsAProvider(t *testing.T) {
	t.Parallel()
	_, err := metrics.NewTracing(metrics.TracingConfig{})
	var invalid *pgqueue.ValidationError
	if !errors.As(err, &invalid) || invalid.Field != "TracerProvider" {
		t.Errorf("error %v, want one about TracerProvider", err)
	}
}

func TestEnqueueIsAProducerSpanWhoseContextIsInTheRow(t *testing.T) {
	t.Parallel()
	rig := newTraceRig(t, metrics.TracingConfig{Attributes: []attribute.KeyValue{attribute.String("server.address", "db.example.com")}})
	ctx, request := rig.provider.Tracer("test").Start(context.Background(), "request")
	member, err := baggage.NewMember("tenant", "acme")
	if err != nil {
		t.Fatal(err)
	}
	bag, err := baggage.New(member)
	if err != nil {
		t.Fatal(err)
	}
	ctx = baggage.ContextWithBaggage(ctx, bag)
	id := rig.enqueue(t, ctx, traced{Secret: secret}, pgqueue.OnQueue("mail"), pgqueue.WithMetadata(map[string]any{"mine": 1}))
	request.End()

	span := rig.only(t, "send mail")
	if span.SpanKind() != trace.SpanKindProducer || span.Parent().SpanID() != request.SpanContext().SpanID() {
		t.Errorf("kind %s with parent %s, want a producer below the request", span.SpanKind(), span.Parent().SpanID())
	}
	if span.Status().Code != codes.Unset {
		t.Errorf("status %v, want none", span.Status())
	}
	requireLinks(t, span)
	requireAttributes(t, span, map[attribute.Key]any{
		"messaging.system": "pgqueue", "messaging.operation.name": "send", "messaging.operation.type": "send",
		"messaging.destination.name": "mail", "messaging.message.id": id, "messaging.batch.message_count": nil,
		"messaging.pgqueue.kind": "traced", "messaging.pgqueue.outcome": "inserted",
		"messaging.pgqueue.in_transaction": false, "server.address": "db.example.com",
	})
	metadata := rig.metadata(t, id)
	traceparent, _ := metadata["traceparent"].(string)
	if remote(t, traceparent).SpanID() != span.SpanContext().SpanID() {
		t.Errorf("traceparent %q, want that of the span", traceparent)
	}
	if metadata["mine"] != 1.0 || metadata["baggage"] != "tenant=acme" || len(metadata) != 3 {
		t.Errorf("metadata %v, want the caller's own, traceparent and baggage", metadata)
	}
}

func TestEnqueueOfManyIsOneSpan(t *testing.T) {
	t.Parallel()
	rig := newTraceRig(t, metrics.TracingConfig{})
	ctx := context.Background()
	jobs := []pgqueue.NewJob{{Args: traced{}}, {Args: traced{Do: "fail"}}}
	enqueued, err := rig.client.EnqueueMany(ctx, rig.db.Pool, jobs)
	if err != nil {
		t.Fatal(err)
	}
	if jobs[0].Options != nil {
		t.Error("the caller's jobs were changed")
	}
	span := rig.only(t, "send default")
	requireAttributes(t, span, map[attribute.Key]any{
		"messaging.batch.message_count": 2, "messaging.message.id": nil, "messaging.pgqueue.kind": "traced",
		"messaging.pgqueue.outcome": "inserted",
	})
	for _, one := range enqueued {
		traceparent, _ := rig.metadata(t, one.ID)["traceparent"].(string)
		if remote(t, traceparent).SpanID() != span.SpanContext().SpanID() {
			t.Errorf("traceparent %q, want that of the span", traceparent)
		}
	}
	// Several queues: none is named.
	if _, err := rig.client.EnqueueMany(ctx, rig.db.Pool, []pgqueue.NewJob{
		{Args: traced{}}, {Args: traced{}, Options: []pgqueue.EnqueueOption{pgqueue.OnQueue("mail")}}}); err != nil {
		t.Fatal(err)
	}
	requireAttributes(t, rig.only(t, "send"), map[attribute.Key]any{"messaging.destination.name": nil})
	// By COPY, where nobody knows the ids.
	if _, err := rig.client.EnqueueCopy(ctx, rig.db.Pool, []pgqueue.NewJob{
		{Args: traced{}, Options: []pgqueue.EnqueueOption{pgqueue.OnQueue("copied")}}}); err != nil {
		t.Fatal(err)
	}
	requireAttributes(t, rig.only(t, "send copied"), map[attribute.Key]any{
		"messaging.message.id": nil, "messaging.pgqueue.outcome": "inserted"})
	job := pgqueuetest.RequireEnqueued[traced](t, rig.db.Pool, pgqueuetest.InSchema(rig.db.Schema), pgqueuetest.OnQueue("copied"))
	if !strings.Contains(string(job.Metadata), "traceparent") {
		t.Errorf("metadata %s, want a traceparent", job.Metadata)
	}
}

// A relay passes on somebody else's context: it is not touched, and the span says whose it is.
func TestEnqueueKeepsAContextThatTheJobBrings(t *testing.T) {
	t.Parallel()
	rig := newTraceRig(t, metrics.TracingConfig{})
	const theirs = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	id := rig.enqueue(t, context.Background(), traced{}, pgqueue.WithMetadata(json.RawMessage(`{"traceparent":"`+theirs+`"}`)))
	if metadata := rig.metadata(t, id); metadata["traceparent"] != theirs || len(metadata) != 1 {
		t.Errorf("metadata %v, want the job's own alone", metadata)
	}
	requireLinks(t, rig.only(t, "send default"), remote(t, theirs))
	rig.drain(t, tracedMux(), pgqueue.WorkerConfig{})
	requireLinks(t, rig.only(t, "process default"), remote(t, theirs))
}

func TestEnqueueThatFailsTellsNoText(t *testing.T) {
	t.Parallel()
	rig := newTraceRig(t, metrics.TracingConfig{})
	tx, err := rig.db.Pool.Begin(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := tx.Exec(context.Background(), "SELECT 1/0"); err == nil {
		t.Fatal("no error, so the transaction is not aborted")
	}
	if _, err := rig.client.Enqueue(context.Background(), tx, traced{Secret: secret}); err == nil {
		t.Fatal("the enqueue succeeded in an aborted transaction")
	}
	span := rig.only(t, "send default")
	if status := span.Status(); status.Code != codes.Error || status.Description != "" {
		t.Errorf("status %v, want an error without a text", status)
	}
	requireAttributes(t, span, map[attribute.Key]any{"error.type": "25P02", "messaging.pgqueue.in_transaction": true,
		"messaging.pgqueue.outcome": nil})
}

// A span describes the call. Whether there will be a job is for the transaction to say: no attempt is ever traced, and nothing
// of the row is left.
func TestC02_TheSpanOfARolledBackEnqueueClaimsNoJob(t *testing.T) {
	t.Parallel()
	rig := newTraceRig(t, metrics.TracingConfig{})
	ctx := context.Background()
	err := pgx.BeginFunc(ctx, rig.db.Pool, func(tx pgx.Tx) error {
		savepoint, err := tx.Begin(ctx)
		if err != nil {
			return err
		}
		if _, err := rig.client.Enqueue(ctx, savepoint, traced{}, pgqueue.WithKey("K")); err != nil {
			return err
		}
		if err := savepoint.Rollback(ctx); err != nil {
			return err
		}
		_, err = rig.client.Enqueue(ctx, tx, traced{}, pgqueue.OnQueue("other"))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	requireAttributes(t, rig.only(t, "send default"), map[attribute.Key]any{"messaging.pgqueue.in_transaction": true})
	rig.drain(t, tracedMux(), pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {}, "other": {}}})
	if spans := rig.ended(t, "process default"); len(spans) != 0 {
		t.Errorf("%d attempts of a job that never was", len(spans))
	}
	rig.only(t, "process other")
	id := rig.enqueue(t, ctx, traced{}, pgqueue.WithKey("K"))
	traceparent, _ := rig.metadata(t, id)["traceparent"].(string)
	if sends := rig.ended(t, "send default"); remote(t, traceparent).SpanID() != sends[1].SpanContext().SpanID() {
		t.Error("the later job of the key does not carry the later span")
	}
}

// badKind is what a program might make of bytes that somebody sent.
type badKind struct{}

func (badKind) Kind() string { return "\xff" }

func TestC129_ABadNameIsRefusedAndTracedAsText(t *testing.T) {
	t.Parallel()
	rig := newTraceRig(t, metrics.TracingConfig{})
	ctx := context.Background()
	_, one := rig.client.Enqueue(ctx, rig.db.Pool, badKind{})
	_, many := rig.client.EnqueueMany(ctx, rig.db.Pool, []pgqueue.NewJob{{Args: badKind{}}})
	_, queue := rig.client.Enqueue(ctx, rig.db.Pool, traced{}, pgqueue.OnQueue(strings.Repeat("\xff", 1000)))
	for _, err := range []error{one, many, queue} {
		if !errors.Is(err, pgqueue.ErrInvalid) {
			t.Errorf("error %v, want a ValidationError", err)
		}
	}
	spans := rig.ended(t, "")
	if len(spans) != 3 {
		t.Fatalf("%d spans, want 3", len(spans))
	}
	for _, span := range spans {
		requireAttributes(t, span, map[attribute.Key]any{"error.type": "invalid"})
		for _, attr := range span.Attributes() {
			if text := attr.Value.String(); strings.ToValidUTF8(text, "") != text || len(text) > 3*128 {
				t.Errorf("%s is %q", attr.Key, text)
			}
		}
		if name := span.Name(); strings.ToValidUTF8(name, "") != name || len(name) > 400 {
			t.Errorf("a span is called %q", name)
		}
	}
}

// panicky has a method that panics inside of the enqueue.
type panicky struct{}

func (panicky) Kind() string                 { return "panicky" }
func (panicky) MarshalJSON() ([]byte, error) { panic(secret) }

func TestEnqueueThatPanicsEndsItsSpan(t *testing.T) {
	t.Parallel()
	rig := newTraceRig(t, metrics.TracingConfig{Propagator: propagation.TraceContext{}})
	if _, err := rig.client.Enqueue(context.Background(), rig.db.Pool, panicky{}); err == nil {
		t.Error("no error of an enqueue that panicked")
	}
	span := rig.only(t, "send default")
	requireAttributes(t, span, map[attribute.Key]any{"error.type": "panic"})
}
