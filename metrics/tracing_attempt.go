package metrics

import (
	"context"
	"errors"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/runner"
)

// ours is where a Tracing keeps its own span in a context. The current span of the context may become another one: that of
// another observer, or of another Tracing.
type ours struct{ t *Tracing }

// AttemptStarted starts the span of an attempt and returns the context of its handler. A runner calls it.
func (t *Tracing) AttemptStarted(ctx context.Context, e runner.AttemptEvent) context.Context {
	info, known := pgqueue.InfoOf(e)
	return t.startAttempt(ctx, e, info, known)
}

// startAttempt starts the span of an attempt.
func (t *Tracing) startAttempt(ctx context.Context, e runner.AttemptEvent, info pgqueue.JobInfo, known bool, more ...trace.SpanStartOption) context.Context {
	ambient := trace.SpanContextFromContext(ctx)
	ctx, created := t.extract(ctx, info.Metadata)
	process := processOperation()
	attributes := t.attributes(process, e.Queue, e.Kind, 6)
	attributes = append(attributes, messageID(e.Token, info, known), attemptKey.Int(e.Attempt))
	if known {
		attributes = append(attributes, maxAttemptsKey.Int(info.MaxAttempts))
	}
	var links []trace.Link
	if created.IsValid() {
		links = append(links, trace.Link{SpanContext: created})
	}
	options := append(make([]trace.SpanStartOption, 0, 4+len(more)), trace.WithSpanKind(process.kind), trace.WithAttributes(attributes...))
	options = append(options, more...)
	switch {
	case e.BatchContext != nil:
		if batch, ok := e.BatchContext.Value(ours{t}).(trace.Span); ok {
			ctx = trace.ContextWithSpan(ctx, batch)
		}
	case !t.continues || !created.IsValid():
		options = append(options, trace.WithNewRoot())
		if ambient.IsValid() { // a Drain inside a request, say
			links = append(links, trace.Link{SpanContext: ambient})
		}
	}
	options = append(options, trace.WithLinks(links...))
	ctx, span := t.tracer.Start(ctx, process.spanName(e.Queue), options...)
	return context.WithValue(ctx, ours{t}, span)
}

// messageID names the job.
func messageID(token runner.Token, info pgqueue.JobInfo, known bool) attribute.KeyValue {
	if known {
		return semconv.MessagingMessageID(strconv.FormatInt(info.ID, 10))
	}
	return semconv.MessagingMessageID(spanText(token.String()))
}

// AttemptEnded ends the span of an attempt. A runner calls it.
//
// The outcome it notes is what the attempt reports, because that is known now, whatever happens to process and database. If the
// database decides otherwise, [Tracing.VerdictDone] says so.
func (t *Tracing) AttemptEnded(ctx context.Context, e runner.AttemptEvent) {
	info, known := pgqueue.InfoOf(e)
	if ctx == nil {
		ctx = context.Background()
	}
	span, started := ctx.Value(ours{t}).(trace.Span)
	if !started { // no handler was called, because the payload cannot be decoded
		started := t.startAttempt(ctx, e, info, known, trace.WithTimestamp(time.Now().Add(-e.Duration)))
		span, _ = started.Value(ours{t}).(trace.Span)
	}
	if span.IsRecording() {
		span.SetAttributes(outcomeKey.String(tracedDecision(e.Decision, info)))
		if word := interruption(ctx); word != "" {
			span.SetAttributes(interruptedKey.String(word))
		}
		if e.Failure != nil && (e.Decision == runner.Retry || e.Decision == runner.Fail) {
			failSpan(span, e.Failure.Code, e.Failure.Message)
		}
	}
	span.End()
}

// interruption says why the context of a handler ended before the handler did.
func interruption(ctx context.Context) string {
	cause := context.Cause(ctx)
	switch {
	case errors.Is(cause, runner.ErrLeaseLost):
		return "lease_lost"
	case errors.Is(cause, runner.ErrStopping):
		return "stopping"
	case errors.Is(cause, runner.ErrCancelled):
		return "cancelled"
	case errors.Is(cause, runner.ErrDeadline):
		return "deadline"
	}
	return ""
}

// BatchStarted starts the span of a batch and returns the context of its handler. A runner calls it. The attempts of the batch
// are spans of their own, children of this one, each linked to its enqueue: so each has its status and its code, and there
// may be more of them than a span can have links.
func (t *Tracing) BatchStarted(ctx context.Context, e runner.BatchEvent) context.Context {
	process := processOperation()
	attributes := append(t.attributes(process, e.Queue, e.Kind, 1), semconv.MessagingBatchMessageCount(e.Tasks))
	var links []trace.Link
	if ambient := trace.SpanContextFromContext(ctx); ambient.IsValid() {
		links = append(links, trace.Link{SpanContext: ambient})
	}
	ctx, span := t.tracer.Start(ctx, process.spanName(e.Queue), trace.WithNewRoot(), trace.WithSpanKind(process.kind),
		trace.WithAttributes(attributes...), trace.WithLinks(links...))
	return context.WithValue(ctx, ours{t}, span)
}

// BatchEnded ends the span of a batch, which has failed if all of its attempts have. A runner calls it.
func (t *Tracing) BatchEnded(ctx context.Context, e runner.BatchEvent) {
	span, started := ctx.Value(ours{t}).(trace.Span)
	if !started {
		return
	}
	span.SetAttributes(batchFailedKey.Int(e.Failed))
	if e.Failed == e.Tasks {
		span.SetStatus(codes.Error, "")
	}
	span.End()
}

// VerdictDone makes a short span "settle {queue}" where the database decided otherwise than the attempt reported: the result
// was discarded (lost), the input had been replaced meanwhile (superseded), somebody had asked for the job's cancellation, or
// nobody knew whether the handler's transaction had committed. It has a trace of its own, linked to the enqueue. In the
// usual case there is none. A runner calls it.
func (t *Tracing) VerdictDone(e runner.VerdictEvent) {
	if e.Decision == runner.Release && e.Outcome == runner.Lost {
		return // nothing was done, so nothing is lost
	}
	info, known := pgqueue.InfoOf(runner.AttemptEvent{Token: e.Token})
	reported, outcome := tracedDecision(e.Decision, info), tracedOutcome(e.Outcome)
	if reported == outcome {
		return
	}
	ctx, created := t.extract(context.Background(), info.Metadata)
	settle := settleOperation()
	attributes := t.attributes(settle, e.Queue, e.Kind, 4)
	attributes = append(attributes, messageID(e.Token, info, known), reportedKey.String(reported), outcomeKey.String(outcome))
	if known {
		attributes = append(attributes, attemptKey.Int(info.Attempt))
	}
	options := []trace.SpanStartOption{trace.WithNewRoot(), trace.WithSpanKind(settle.kind), trace.WithAttributes(attributes...)}
	if created.IsValid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: created}))
	}
	_, span := t.tracer.Start(ctx, settle.spanName(e.Queue), options...)
	switch e.Outcome {
	case runner.Lost, runner.Ineligible:
		failSpan(span, outcome, "")
	case runner.Retrying, runner.Failed, runner.Dead:
		if e.Failure != nil {
			failSpan(span, e.Failure.Code, e.Failure.Message)
		}
	}
	span.End()
}
