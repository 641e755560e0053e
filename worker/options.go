package worker

import (
	"fmt"
	"log/slog"
	"reflect"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"
)

// Defaults of the options.
const (
	DefaultInterval       = 10 * time.Second
	DefaultMaxConcurrency = 5
)

// tracerName is the instrumentation scope of the spans.
const tracerName = "github.com/pgqueue/pgqueue/worker"

// Option changes a default of [New] or [NewPeriodic].
type Option func(*options)

type options struct {
	interval       time.Duration
	maxConcurrency int
	tracerProvider trace.TracerProvider
	registerer     prometheus.Registerer
}

// WithInterval sets how long a worker waits between two polling cycles, or a periodic one between two ticks. Default 10 s;
// values that are not positive are ignored.
func WithInterval(interval time.Duration) Option {
	return func(o *options) {
		if interval > 0 {
			o.interval = interval
		}
	}
}

// WithMaxConcurrency sets how many tasks a worker processes at once. Default 5; values below 1 are ignored. A periodic
// worker does one thing at a time, whatever it says.
func WithMaxConcurrency(tasks int) Option {
	return func(o *options) {
		if tasks >= 1 {
			o.maxConcurrency = tasks
		}
	}
}

// WithTracerProvider sets where the spans go. Default: the global provider, also one that is set after New. Nil is ignored.
func WithTracerProvider(provider trace.TracerProvider) Option {
	return func(o *options) {
		if provider != nil {
			o.tracerProvider = provider
		}
	}
}

// WithRegisterer sets where the metrics are registered. Default prometheus.DefaultRegisterer; nil means nowhere. A
// registerer that knows a metric of the same name in another shape makes Run fail with a [*ConfigError].
func WithRegisterer(registerer prometheus.Registerer) Option {
	return func(o *options) { o.registerer = registerer }
}

// resolve applies opts to the defaults. That these are global is what makes a worker observable without a line of code.
func resolve(opts []Option) options {
	o := options{
		interval:       DefaultInterval,
		maxConcurrency: DefaultMaxConcurrency,
		tracerProvider: otel.GetTracerProvider(),
		registerer:     prometheus.DefaultRegisterer,
	}
	for _, opt := range opts {
		if opt != nil {
			opt(&o)
		}
	}
	return o
}

// ConfigError says why a worker cannot run. New does not return it, so that a worker is made in one expression; Run does,
// before it calls the handler.
type ConfigError struct {
	Field   string // "name", "handler" or "WithRegisterer"
	Message string
	Err     error // what the registerer said, or nil
}

// Error returns the field and the reason.
func (e *ConfigError) Error() string { return "worker: config: " + e.Field + ": " + e.Message }

// Unwrap returns Err.
func (e *ConfigError) Unwrap() error { return e.Err }

// check says what is wrong with the arguments of New and NewPeriodic, as a *ConfigError.
func check(name string, handler any) error {
	switch {
	case name == "":
		return &ConfigError{Field: "name", Message: "must not be empty"}
	case !utf8.ValidString(name):
		return &ConfigError{Field: "name", Message: fmt.Sprintf("must be valid UTF-8, is %q", name)}
	case isNil(handler):
		return &ConfigError{Field: "handler", Message: "must not be nil"}
	}
	return nil
}

// isNil tells nil, and also a nil pointer or function inside of an interface, which would panic at every call.
func isNil(handler any) bool {
	if handler == nil {
		return true
	}
	v := reflect.ValueOf(handler)
	return (v.Kind() == reflect.Pointer || v.Kind() == reflect.Func) && v.IsNil()
}

func orDefault(logger *slog.Logger) *slog.Logger {
	if logger == nil {
		return slog.Default()
	}
	return logger
}
