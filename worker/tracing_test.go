package worker_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/pgqueue/pgqueue/worker"
)

// wantSpan checks name, attribute and status of a span; an error is recorded with the texts of events.
func wantSpan(t *testing.T, span sdktrace.ReadOnlySpan, name, worker string, status sdktrace.Status) {
	t.Helper()
	if span.Name() != name {
		t.Errorf("span %q, want %q", span.Name(), name)
	}
	if want := attribute.String("worker.name", worker); !slices.Contains(span.Attributes(), want) {
		t.Errorf("span %q has attributes %v, want %v", name, span.Attributes(), want)
	}
	if span.Status() != status {
		t.Errorf("span %q has status %+v, want %+v", name, span.Status(), status)
	}
	if recorded := len(span.Events()) == 1; recorded != (status.Code == codes.Error) {
		t.Errorf("span %q has events %v", name, span.Events())
	}
	if span.InstrumentationScope().Name != "github.com/pgqueue/pgqueue/worker" {
		t.Errorf("span %q has scope %v", name, span.InstrumentationScope())
	}
}

func TestSpanOfATask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spans := tracetest.NewSpanRecorder()
		provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
		p := &pile{left: 3}
		var inside []trace.SpanContext
		w := worker.New("mail", funcs{claim: p.claim, process: func(ctx context.Context, task int) error {
			inside = append(inside, trace.SpanContextFromContext(ctx))
			switch task {
			case 2:
				return errors.New("refused")
			case 3:
				panic("boom")
			}
			return nil
		}}, quiet(), apart(), worker.WithTracerProvider(provider), worker.WithTracerProvider(nil), worker.WithMaxConcurrency(1))
		r := start(t.Context(), w.Run)
		synctest.Wait()
		r.stop(t)
		ended := spans.Ended()
		if len(ended) != 3 || len(spans.Started()) != 3 {
			t.Fatalf("%d spans began and %d ended, want 3: claims have none", len(spans.Started()), len(ended))
		}
		wantSpan(t, ended[0], "worker.process", "mail", sdktrace.Status{})
		wantSpan(t, ended[1], "worker.process", "mail", sdktrace.Status{Code: codes.Error, Description: "refused"})
		wantSpan(t, ended[2], "worker.process", "mail", sdktrace.Status{Code: codes.Error, Description: "panic: boom"})
		for i, span := range ended {
			if !span.SpanContext().Equal(inside[i]) {
				t.Errorf("the context of task %d has not its span", i+1)
			}
		}
	})
}

func TestSpanOfAPeriodicRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spans := tracetest.NewSpanRecorder()
		provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
		p := worker.NewPeriodic("sweep", worker.PeriodicFunc(func(context.Context) error { return errors.New("no luck") }), quiet(), apart(),
			worker.WithTracerProvider(provider))
		r := start(t.Context(), p.Run)
		synctest.Wait()
		r.stop(t)
		if len(spans.Ended()) != 1 {
			t.Fatalf("%d spans", len(spans.Ended()))
		}
		wantSpan(t, spans.Ended()[0], "periodic_worker.run", "sweep", sdktrace.Status{Code: codes.Error, Description: "no luck"})
	})
}

// globalSpans sets the global provider, which a process does once.
var globalSpans = sync.OnceValue(func() *tracetest.SpanRecorder {
	spans := tracetest.NewSpanRecorder()
	otel.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)))
	return spans
})

// The global provider may be set after the worker is made: main functions come in any order.
func TestTheGlobalTracerProviderIsUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pile{left: 1}
		w := worker.New("w", funcs{claim: p.claim}, quiet(), apart())
		spans := globalSpans()
		before := len(spans.Ended())
		r := start(t.Context(), w.Run)
		synctest.Wait()
		r.stop(t)
		if got := len(spans.Ended()) - before; got != 1 {
			t.Fatalf("%d spans", got)
		}
		wantSpan(t, spans.Ended()[before], "worker.process", "w", sdktrace.Status{})
	})
}
