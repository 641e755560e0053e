package metrics

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"

	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

const (
	// maxCarried bounds one member of trace context, in bytes: what W3C allows for baggage, the largest of them. Longer ones are
	// ignored, and not propagated any further.
	maxCarried = 8192
	// baggageField is the member that W3C Baggage uses.
	baggageField = "baggage"
)

// metadataCarrier reads trace context from the metadata of a row, which may come from anybody: what is no string, or too
// long, or no baggage where baggage is expected, is not there.
type metadataCarrier map[string]json.RawMessage

var _ propagation.TextMapCarrier = metadataCarrier(nil)

// Get returns a member that is fit to be parsed, or "".
func (c metadataCarrier) Get(field string) string {
	raw := c[field]
	if len(raw) < 2 || raw[0] != '"' || len(raw) > 2*maxCarried {
		return ""
	}
	var value string
	if json.Unmarshal(raw, &value) != nil || len(value) > maxCarried {
		return ""
	}
	if field == baggageField {
		// The propagator would tell the error handler of the process about a mistake in it, and take the rest.
		if _, err := baggage.Parse(value); err != nil {
			return ""
		}
	}
	return value
}

// Set is not used: metadata is written by the enqueue.
func (c metadataCarrier) Set(string, string) {}

// Keys returns the names of all members.
func (c metadataCarrier) Keys() []string {
	keys := make([]string, 0, len(c))
	for key := range c {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// carried tells whether metadata has a member of the propagator's, whatever its value.
func (t *Tracing) carried(metadata json.RawMessage) (metadataCarrier, bool) {
	if !slices.ContainsFunc(t.fields, func(field string) bool { return bytes.Contains(metadata, []byte(field)) }) {
		return nil, false // without reading all of it
	}
	var carrier metadataCarrier
	if json.Unmarshal(metadata, &carrier) != nil {
		return nil, false
	}
	return carrier, slices.ContainsFunc(t.fields, func(field string) bool { _, ok := carrier[field]; return ok })
}

// extract puts what the metadata of a row carries into ctx, and returns the span context of the enqueue, which is not valid
// where there is none. The span that ctx has already is no longer in what is returned.
func (t *Tracing) extract(ctx context.Context, metadata json.RawMessage) (context.Context, trace.SpanContext) {
	ctx = trace.ContextWithSpan(ctx, nil)
	carrier, ok := t.carried(metadata)
	if !ok {
		return ctx, trace.SpanContext{}
	}
	ctx = t.propagator.Extract(ctx, carrier)
	return ctx, trace.SpanContextFromContext(ctx)
}
