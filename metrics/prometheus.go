package metrics

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// Defaults of [PrometheusConfig].
const (
	DefaultInterval = 15 * time.Second
	DefaultTimeout  = 5 * time.Second
	DefaultMaxKinds = 200
)

const (
	defaultSchema = "pgqueue"
	minInterval   = time.Second
	minStaleAfter = time.Minute
	staleAfter    = 4 // intervals
)

// PrometheusConfig says where metrics are registered and what they are about. The zero value is usable: it registers at the
// default registerer, for the schema "pgqueue", without the gauges of the database.
//
// # Several in one process
//
// Every metric carries the label schema, and the labels of ConstLabels. Different values live side by side on one
// registerer; give all of them the same label names, which Prometheus demands. The same values again, for example after a
// restart inside the process, share the metrics that are there and go on counting. Two databases with one schema name need a
// ConstLabels that tells them apart: name it "database", which the alerts and the dashboard in deploy/ keep. Nothing here is
// ever unregistered: counters stay, and the gauges of a worker that has stopped, and of a Run that has ended, are gone from the
// next scrape.
//
// # Labels
//
// The label queue has the names in Queues, those of watched workers, and those of runners that reported something here. The
// label kind has the names in Kinds and those of the jobs that runners of this process ran; a [pgqueue.Worker] only runs
// kinds that have a handler. Everything else is "other": a queue that a producer made up, an unknown kind, bytes that are not
// UTF-8. Only the gauges of the database name queues that this process knows nothing of, up to [MaxDatabaseQueues].
type PrometheusConfig struct {
	// Registerer is where the metrics appear. Default: [prometheus.DefaultRegisterer]. For metrics of which nobody knows, give
	// a [prometheus.NewRegistry].
	Registerer prometheus.Registerer
	// Schema is that of the client whose metrics these are, for the label of that name and for Run. Default "pgqueue".
	Schema string
	// ConstLabels are added to every metric, such as {"database": "shop"}.
	ConstLabels prometheus.Labels

	// Queues and Kinds have a label of their own from the start. A process that only enqueues names its queues here, else the
	// hints that it sends all count as "other"; so does one that runs only [Prometheus.Run].
	Queues []string
	Kinds  []string
	// MaxKinds is how many kinds beside those in Kinds get a label of their own. A runner over a queue of your own may return
	// any kind. Default [DefaultMaxKinds]; negative means none.
	MaxKinds int

	// DurationBuckets are the upper bounds of pgqueue_attempt_duration_seconds, and LatencyBuckets those of
	// pgqueue_pickup_latency_seconds, ascending and in seconds. Defaults: 1 ms to 5 min, and 5 ms to 1 h.
	DurationBuckets []float64
	LatencyBuckets  []float64

	// Pool is where [Prometheus.Run] reads the gauges of the database. Its role needs SELECT on the table queues and EXECUTE on
	// the function cached_stats; see docs/roles.md. Nil: there are none.
	Pool *pgxpool.Pool
	// Interval is how often Run reads them; the database counts at most once an interval for all processes together. Default
	// [DefaultInterval]; at least 1 s.
	Interval time.Duration
	// Timeout bounds one reading, in the database as well. Default [DefaultTimeout], at most Interval.
	Timeout time.Duration
	// StaleAfter is the age at which the numbers are no longer shown. Default four intervals, at least 1 min.
	StaleAfter time.Duration
	// Logger is told when reading starts to fail and when it works again. Default slog.Default().
	Logger *slog.Logger
}

// Prometheus is the metrics of one schema. Make it with [NewPrometheus] and keep it for the life of the process. It is safe for
// concurrent use.
//
// It is an observer: give it to [pgqueue.WithObserver], which covers a client and its workers, or to the configuration of a
// runner, listener or reaper of your own. One attempt costs it a fraction of a microsecond. Beside other observers it is
// combined with [pgqueue.Observers].
type Prometheus struct {
	observer
	config PrometheusConfig
}

// NewPrometheus registers the metrics. It returns an error that names the field where a setting cannot work
// ([pgqueue.ErrInvalid]), and one where somebody else has registered a metric of one of these names. It sends no SQL and never
// panics.
func NewPrometheus(config PrometheusConfig) (*Prometheus, error) {
	if err := config.complete(); err != nil {
		return nil, fmt.Errorf("new metrics: %w", err)
	}
	made := newCollector(&config)
	made.labels.allow(config.Queues, config.Kinds, config.MaxKinds)
	if err := config.Registerer.Register(made); err != nil {
		var already prometheus.AlreadyRegisteredError
		if !errors.As(err, &already) {
			return nil, fmt.Errorf("new metrics: register: %w", err)
		}
		existing, ours := already.ExistingCollector.(*collector)
		if !ours {
			return nil, fmt.Errorf("new metrics: register: %w", err)
		}
		if err := existing.fits(made); err != nil {
			return nil, fmt.Errorf("new metrics: %w", err)
		}
		made = existing
		made.labels.allow(config.Queues, config.Kinds, config.MaxKinds)
	}
	return &Prometheus{observer: observer{made}, config: config}, nil
}

// complete fills in the defaults and checks the settings.
func (c *PrometheusConfig) complete() error {
	if c.Registerer == nil {
		c.Registerer = prometheus.DefaultRegisterer
	}
	if c.Schema == "" {
		c.Schema = defaultSchema
	}
	if c.MaxKinds == 0 {
		c.MaxKinds = DefaultMaxKinds
	}
	if c.DurationBuckets == nil {
		c.DurationBuckets = []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300}
	}
	if c.LatencyBuckets == nil {
		c.LatencyBuckets = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600}
	}
	if c.Interval == 0 {
		c.Interval = DefaultInterval
	}
	if c.Timeout == 0 {
		c.Timeout = min(DefaultTimeout, c.Interval)
	}
	if c.StaleAfter == 0 {
		c.StaleAfter = max(minStaleAfter, staleAfter*c.Interval)
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return errors.Join(c.checkLabels(), c.checkBuckets(), c.checkTimes())
}

func (c *PrometheusConfig) checkLabels() error {
	if !utf8.ValidString(c.Schema) || strings.ContainsRune(c.Schema, 0) {
		return invalid("Schema", "must be valid UTF-8 without NUL")
	}
	for name, value := range c.ConstLabels {
		if slices.Contains(reservedLabels(), name) {
			return invalid(fmt.Sprintf("ConstLabels[%q]", name), "is a label that these metrics use themselves")
		}
		if name == "" || !utf8.ValidString(name) || strings.HasPrefix(name, "__") {
			return invalid(fmt.Sprintf("ConstLabels[%q]", name), "is no name of a label")
		}
		if !utf8.ValidString(value) {
			return invalid(fmt.Sprintf("ConstLabels[%q]", name), "must be valid UTF-8")
		}
	}
	for field, names := range map[string][]string{"Queues": c.Queues, "Kinds": c.Kinds} {
		for i, name := range names {
			if !utf8.ValidString(name) {
				return invalid(fmt.Sprintf("%s[%d]", field, i), "must be valid UTF-8")
			}
		}
	}
	return nil
}

func (c *PrometheusConfig) checkBuckets() error {
	for field, buckets := range map[string][]float64{"DurationBuckets": c.DurationBuckets, "LatencyBuckets": c.LatencyBuckets} {
		for i, bound := range buckets {
			if math.IsNaN(bound) || i > 0 && bound <= buckets[i-1] {
				return invalid(fmt.Sprintf("%s[%d]", field, i), "must be greater than the one before")
			}
		}
	}
	return nil
}

func (c *PrometheusConfig) checkTimes() error {
	switch {
	case c.Interval < minInterval:
		return invalid("Interval", fmt.Sprintf("must be at least %s, is %s", minInterval, c.Interval))
	case c.Timeout < 0 || c.Timeout > c.Interval:
		return invalid("Timeout", fmt.Sprintf("must be from 0 to the interval, %s, is %s", c.Interval, c.Timeout))
	case c.StaleAfter < 2*c.Interval:
		return invalid("StaleAfter", fmt.Sprintf("must be at least two intervals, %s, is %s", 2*c.Interval, c.StaleAfter))
	}
	return nil
}

func invalid(field, message string) error {
	return &pgqueue.ValidationError{Field: field, Message: message}
}
