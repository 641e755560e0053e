package metrics

import (
	"fmt"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/runner"
)

// scopeName is the instrumentation scope of the spans.
const scopeName = "github.com/pgqueue/pgqueue/metrics"

// Tracing makes OpenTelemetry spans of enqueues and of attempts. It is an observer of package runner, and
// [Tracing.EnqueueMiddleware] goes into a client:
//
//	tracing, err := metrics.NewTracing(metrics.TracingConfig{TracerProvider: provider})
//	client, err := pgqueue.NewClient(pool, pgqueue.WithEnqueueMiddleware(tracing.EnqueueMiddleware()))
//	worker, err := client.NewWorker(mux, pgqueue.WorkerConfig{Queues: queues, Observer: tracing})
//
// Beside other observers it is combined with [pgqueue.Observers]. An enqueue is a span of kind producer, whose context is
// stored in the metadata of its jobs; each attempt is a span of kind consumer, at the root of a trace of its own and
// linked to that context, and it is in the context of the handler, so that the spans of the handler are its children.
// Claims, renewals and the other loops make no spans.
//
// No span holds a payload, a key, a tag or the metadata. Of an error it holds the code and the message that are stored with
// the job: the text of a plain error only where [pgqueue.WorkerConfig].StoreErrorText is set.
//
// Its methods are safe for concurrent use, and one Tracing may serve any number of clients and workers. It starts no
// goroutine and needs no closing; flush and shut down the TracerProvider after the workers have stopped.
type Tracing struct {
	tracer     trace.Tracer
	propagator propagation.TextMapPropagator
	fields     []string // metadata members that the propagator uses
	continues  bool
	common     []attribute.KeyValue // of every span
}

// It listens to these. The methods are exported for the sake of the runner, which calls them.
var (
	_ runner.AttemptStartObserver = (*Tracing)(nil)
	_ runner.AttemptEndObserver   = (*Tracing)(nil)
	_ runner.BatchStartObserver   = (*Tracing)(nil)
	_ runner.BatchEndObserver     = (*Tracing)(nil)
	_ runner.VerdictObserver      = (*Tracing)(nil)
)

// TracingConfig configures [NewTracing]. Only TracerProvider is required.
type TracingConfig struct {
	// TracerProvider makes the tracer. There is no default, because nothing of pgqueue but package worker looks at globals: give
	// otel.GetTracerProvider() for the global one.
	TracerProvider trace.TracerProvider

	// Propagator writes the trace context of an enqueue into the metadata of its jobs, and reads it for an attempt. Its fields
	// become members of the metadata. Default: W3C Trace Context and Baggage (members traceparent, tracestate and
	// baggage). Baggage is stored with the job, as long as the job is kept, and visible to whoever may read it; give
	// [propagation.TraceContext] alone to store none.
	Propagator propagation.TextMapPropagator

	// ContinueTrace makes an attempt a child of the enqueue's span, in the same trace, and linked to it as well. By default
	// each attempt is the root of a trace of its own, because it may start days later, and several times. Attempts in a
	// batch are children of the batch's span in any case.
	ContinueTrace bool

	// Attributes are added to every span, such as server.address. Do not repeat here what the resource of the
	// TracerProvider says.
	Attributes []attribute.KeyValue
}

// NewTracing makes a Tracing. Without a TracerProvider it returns a [*pgqueue.ValidationError].
func NewTracing(config TracingConfig) (*Tracing, error) {
	if config.TracerProvider == nil {
		return nil, fmt.Errorf("new tracing: %w", &pgqueue.ValidationError{Field: "TracerProvider",
			Message: "must be set; otel.GetTracerProvider() is the global one"})
	}
	if config.Propagator == nil {
		config.Propagator = propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})
	}
	return &Tracing{
		tracer:     config.TracerProvider.Tracer(scopeName, trace.WithSchemaURL(semconv.SchemaURL)),
		propagator: config.Propagator,
		fields:     config.Propagator.Fields(),
		continues:  config.ContinueTrace,
		common:     append(slices.Clone(config.Attributes), semconv.MessagingSystemKey.String(systemName)),
	}, nil
}
