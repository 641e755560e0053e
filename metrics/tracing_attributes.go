package metrics

import (
	"strings"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/runner"
)

// Names and kinds of spans follow the semantic conventions for messaging spans, version 1.43.0, status Development:
// https://github.com/open-telemetry/semantic-conventions/blob/v1.43.0/docs/messaging/messaging-spans.md
// A span is called "{operation} {queue}"; what only this system has is below messaging.pgqueue.
const (
	systemName = "pgqueue"

	kindKey          = attribute.Key("messaging.pgqueue.kind")
	attemptKey       = attribute.Key("messaging.pgqueue.attempt")
	maxAttemptsKey   = attribute.Key("messaging.pgqueue.max_attempts")
	outcomeKey       = attribute.Key("messaging.pgqueue.outcome")
	reportedKey      = attribute.Key("messaging.pgqueue.reported")
	interruptedKey   = attribute.Key("messaging.pgqueue.interrupted")
	batchFailedKey   = attribute.Key("messaging.pgqueue.batch.failed")
	inTransactionKey = attribute.Key("messaging.pgqueue.in_transaction")
)

// spanOperation is one of the operations of the conventions, with the kind of span that they want for it.
type spanOperation struct {
	name string
	kind trace.SpanKind
	attr attribute.KeyValue
}

func sendOperation() spanOperation {
	return spanOperation{"send", trace.SpanKindProducer, semconv.MessagingOperationTypeSend}
}

func processOperation() spanOperation {
	return spanOperation{"process", trace.SpanKindConsumer, semconv.MessagingOperationTypeProcess}
}

func settleOperation() spanOperation {
	return spanOperation{"settle", trace.SpanKindClient, semconv.MessagingOperationTypeSettle}
}

// spanName names a span; queue is empty where there are several.
func (o spanOperation) spanName(queue string) string {
	if queue == "" {
		return o.name
	}
	return o.name + " " + queue
}

// attributes begins the attributes of a span, with room for more.
func (t *Tracing) attributes(o spanOperation, queue, kind string, more int) []attribute.KeyValue {
	all := make([]attribute.KeyValue, 0, len(t.common)+4+more)
	all = append(all, t.common...)
	all = append(all, semconv.MessagingOperationName(o.name), o.attr)
	if queue != "" {
		all = append(all, semconv.MessagingDestinationName(queue))
	}
	if kind != "" {
		all = append(all, kindKey.String(kind))
	}
	return all
}

// maxSpanText is the longest name of a queue or a kind that can be enqueued, in bytes.
const maxSpanText = 128

// spanText makes a name fit for a span before the enqueue has validated it: an exporter may drop a whole batch of spans for
// one text that is not UTF-8.
func spanText(name string) string {
	if len(name) > maxSpanText {
		name = name[:maxSpanText]
	}
	if utf8.ValidString(name) {
		return name
	}
	return strings.ToValidUTF8(name, "\uFFFD")
}

// tracedDecision says what an attempt wants to become of its job, in the words of the outcomes.
func tracedDecision(decision runner.Decision, info pgqueue.JobInfo) string {
	switch decision {
	case 0, runner.Succeed: // 0: it has completed the job itself
		return "succeeded"
	case runner.Retry:
		if info.MaxAttempts > 0 && info.Failures+1 >= info.MaxAttempts {
			return "dead"
		}
		return "retrying"
	case runner.Fail:
		return "failed"
	case runner.Cancel:
		return "cancelled"
	case runner.Snooze:
		return "snoozed"
	case runner.Release:
		return "released"
	case runner.Confirm:
		return "unconfirmed"
	}
	return "unknown"
}

// tracedOutcome says what became of a verdict.
func tracedOutcome(outcome runner.Outcome) string {
	switch outcome {
	case runner.Busy:
		return "busy"
	case runner.Lost:
		return "lost"
	case runner.Superseded:
		return "superseded"
	case runner.Ineligible:
		return "ineligible"
	case runner.Succeeded:
		return "succeeded"
	case runner.Retrying:
		return "retrying"
	case runner.Failed:
		return "failed"
	case runner.Dead:
		return "dead"
	case runner.Cancelled:
		return "cancelled"
	case runner.Snoozed:
		return "snoozed"
	case runner.Released:
		return "released"
	}
	return "unknown"
}
