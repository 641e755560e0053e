package metrics

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// maxLinks is how many links an SDK keeps by default; there is no use in making more.
const maxLinks = 128

// EnqueueMiddleware is for [pgqueue.WithEnqueueMiddleware]: it makes a span "send {queue}" of each call and puts the span's
// context into the metadata of the jobs. A call with many jobs is one span, too, and its context goes into all of them.
//
// The span describes the call: the INSERT was sent and answered. In a transaction (messaging.pgqueue.in_transaction) the
// jobs exist when that commits, and if it rolls back, also only to a savepoint, they never did; nobody but the transaction's
// owner knows, so the span cannot say. What it says is never counted by pgqueue: only an attempt proves that there was a job.
//
// A job whose metadata carries trace context already keeps that, all of it, and the span is linked to it: that is how a
// relay passes on the context of somebody else. Baggage counts against [pgqueue.WithMaxPayload] like any metadata.
func (t *Tracing) EnqueueMiddleware() func(next pgqueue.EnqueueFunc) pgqueue.EnqueueFunc {
	return func(next pgqueue.EnqueueFunc) pgqueue.EnqueueFunc {
		return func(ctx context.Context, q pgqueue.Querier, jobs []pgqueue.NewJob) ([]pgqueue.Enqueued, error) {
			return t.enqueue(ctx, q, jobs, next)
		}
	}
}

func (t *Tracing) enqueue(ctx context.Context, q pgqueue.Querier, jobs []pgqueue.NewJob, next pgqueue.EnqueueFunc) ([]pgqueue.Enqueued, error) {
	queue, kind := commonNames(jobs)
	own, links := t.ownContexts(jobs)
	send := sendOperation()
	attributes := t.attributes(send, queue, kind, 2)
	_, inTransaction := q.(pgx.Tx)
	attributes = append(attributes, inTransactionKey.Bool(inTransaction))
	if len(jobs) > 1 { // the conventions want none on a single message
		attributes = append(attributes, semconv.MessagingBatchMessageCount(len(jobs)))
	}
	ctx, span := t.tracer.Start(ctx, send.spanName(queue), trace.WithSpanKind(send.kind),
		trace.WithAttributes(attributes...), trace.WithLinks(links...))
	returned := false
	defer func() { // also when an argument's method panics, or another middleware
		if !returned {
			failSpan(span, "panic", "")
		}
		span.End()
	}()
	t.inject(ctx, jobs, own)
	enqueued, err := next(ctx, q, jobs)
	returned = true
	if err != nil {
		failSpan(span, enqueueErrorType(err), "") // a text of Postgres may quote what was to be stored
	} else if span.IsRecording() {
		span.SetAttributes(answerAttributes(enqueued)...)
	}
	return enqueued, err
}

// commonNames is the queue and the kind of the jobs; empty where they have several.
func commonNames(jobs []pgqueue.NewJob) (queue, kind string) {
	for i, job := range jobs {
		q, k := job.Queue(), job.Kind()
		if i == 0 {
			queue, kind = q, k
			continue
		}
		if q != queue {
			queue = ""
		}
		if k != kind {
			kind = ""
		}
		if queue == "" && kind == "" {
			break
		}
	}
	return spanText(queue), spanText(kind)
}

// ownContexts finds the jobs that bring their trace context along, and links to it. own is nil where there are none.
func (t *Tracing) ownContexts(jobs []pgqueue.NewJob) (own []bool, links []trace.Link) {
	for i, job := range jobs {
		metadata := job.Metadata()
		if metadata == nil {
			continue
		}
		if _, ok := t.carried(metadata); !ok {
			continue
		}
		if own == nil {
			own = make([]bool, len(jobs))
		}
		own[i] = true
		if len(links) < maxLinks {
			if _, created := t.extract(context.Background(), metadata); created.IsValid() {
				links = append(links, trace.Link{SpanContext: created})
			}
		}
	}
	return own, links
}

// inject puts the trace context of ctx into the metadata of those jobs that have none of their own.
func (t *Tracing) inject(ctx context.Context, jobs []pgqueue.NewJob, own []bool) {
	carrier := propagation.MapCarrier{}
	t.propagator.Inject(ctx, carrier)
	var options []pgqueue.EnqueueOption
	for _, field := range slices.Sorted(maps.Keys(carrier)) {
		if value := carrier[field]; len(value) <= maxCarried {
			options = append(options, pgqueue.AddMetadata(field, value))
		}
	}
	if len(options) == 0 {
		return
	}
	for i := range jobs {
		if own == nil || !own[i] {
			jobs[i].Options = append(jobs[i].Options, options...)
		}
	}
}

// answerAttributes tells what an enqueue did: the id of a single job, and the outcome where it is the same for all.
func answerAttributes(enqueued []pgqueue.Enqueued) []attribute.KeyValue {
	if len(enqueued) == 0 {
		return nil
	}
	var attributes []attribute.KeyValue
	if len(enqueued) == 1 && enqueued[0].ID != 0 { // COPY tells no ids
		attributes = append(attributes, semconv.MessagingMessageID(strconv.FormatInt(enqueued[0].ID, 10)))
	}
	for _, one := range enqueued[1:] {
		if one.Outcome != enqueued[0].Outcome {
			return attributes
		}
	}
	return append(attributes, outcomeKey.String(enqueued[0].Outcome.String()))
}

// failSpan marks a span as failed. text must be safe to show.
func failSpan(span trace.Span, errorType, text string) {
	span.SetStatus(codes.Error, text)
	span.SetAttributes(semconv.ErrorTypeKey.String(errorType))
}

// enqueueErrorType classifies the error of an enqueue without its text.
func enqueueErrorType(err error) string {
	var fromServer *pgconn.PgError
	switch {
	case errors.As(err, &fromServer):
		return fromServer.Code // SQLSTATE
	case errors.Is(err, pgqueue.ErrInvalid):
		return "invalid"
	case errors.Is(err, pgqueue.ErrClosed):
		return "closed"
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case errors.Is(err, context.Canceled):
		return "canceled"
	}
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return reflect.TypeOf(err).String()
		}
		err = inner
	}
}
