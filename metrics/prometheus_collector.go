package metrics

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// collector is all metrics of one schema on one registerer, as one [prometheus.Collector]: registering it succeeds or fails as
// a whole, and whoever registers the same again gets it back.
type collector struct {
	labels *labels

	counters   map[string]*prometheus.CounterVec
	histograms map[string]*prometheus.HistogramVec
	gauges     map[string]*prometheus.Desc // read at the scrape
	buckets    map[string][]float64

	runners table[runnerChildren] // by the runner's name, which is the label unless it is folded
	reapers table[reaperChildren]
	hints   table[hintChildren] // by label

	connects, disconnects, wentDeaf prometheus.Counter
	statsReads, statsErrors         prometheus.Counter

	watched watched
	numbers atomic.Pointer[numbers] // nil: Run is not under way
	turn    chan struct{}           // holds one element while nobody reads the database
}

func newCollector(config *PrometheusConfig) *collector {
	c := &collector{
		labels:     newLabels(),
		counters:   map[string]*prometheus.CounterVec{},
		histograms: map[string]*prometheus.HistogramVec{},
		gauges:     map[string]*prometheus.Desc{},
		buckets: map[string][]float64{
			nameDuration:     config.DurationBuckets,
			namePickup:       config.LatencyBuckets,
			nameClaimJobs:    {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000},
			nameReportJobs:   {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000},
			nameStoreSeconds: {.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		},
		turn: make(chan struct{}, 1),
	}
	c.turn <- struct{}{}
	constant := config.constantLabels()
	for _, d := range definitions() {
		switch d.kind {
		case "counter":
			c.counters[d.name] = prometheus.NewCounterVec(prometheus.CounterOpts{Name: d.name, Help: d.help, ConstLabels: constant}, d.labels)
		case "histogram":
			c.histograms[d.name] = prometheus.NewHistogramVec(prometheus.HistogramOpts{
				Name: d.name, Help: d.help, ConstLabels: constant, Buckets: c.buckets[d.name],
			}, d.labels)
		default:
			c.gauges[d.name] = prometheus.NewDesc(d.name, d.help, d.labels, constant)
		}
	}
	// A vector whose description is not valid would panic here; the configuration has been checked for that.
	c.connects = c.counters[nameConnects].WithLabelValues()
	c.disconnects = c.counters[nameDisconnects].WithLabelValues()
	c.wentDeaf = c.counters[nameWentDeaf].WithLabelValues()
	c.statsReads = c.counters[nameStatsReads].WithLabelValues()
	c.statsErrors = c.counters[nameStatsErrors].WithLabelValues()
	return c
}

// fits tells whether another configuration can share this collector.
func (c *collector) fits(wanted *collector) error {
	for field, name := range map[string]string{"DurationBuckets": nameDuration, "LatencyBuckets": namePickup} {
		if !slices.Equal(c.buckets[name], wanted.buckets[name]) {
			return invalid(field, fmt.Sprintf("must be those that %s was registered with already", name))
		}
	}
	return nil
}

// Describe is for the registry.
func (c *collector) Describe(descriptions chan<- *prometheus.Desc) {
	for _, d := range definitions() {
		switch d.kind {
		case "counter":
			c.counters[d.name].Describe(descriptions)
		case "histogram":
			c.histograms[d.name].Describe(descriptions)
		default:
			descriptions <- c.gauges[d.name]
		}
	}
}

// Collect is for the registry. It asks nobody but this process.
func (c *collector) Collect(metrics chan<- prometheus.Metric) {
	for _, vector := range c.counters {
		vector.Collect(metrics)
	}
	for _, vector := range c.histograms {
		vector.Collect(metrics)
	}
	c.collectWatched(metrics)
	c.collectNumbers(metrics)
}

// send sends one gauge. Its label values are known names, which are valid; if that were ever wrong, the gauge is missing and
// nothing else.
func (c *collector) send(metrics chan<- prometheus.Metric, name string, value float64, labels ...string) {
	if metric, err := prometheus.NewConstMetric(c.gauges[name], prometheus.GaugeValue, value, labels...); err == nil {
		metrics <- metric
	}
}

// runner returns the children of a runner's queue.
func (c *collector) runner(name string) *runnerChildren {
	if found := c.runners.find(name); found != nil {
		return found
	}
	label := c.labels.learnQueue(name)
	return c.runners.add(label, func() *runnerChildren { return c.newRunner(label) })
}

// kind returns the children of a kind that a runner ran.
func (c *collector) kind(queue, kind string) *kindChildren {
	r := c.runner(queue)
	if found := r.kinds.find(kind); found != nil {
		return found
	}
	label := c.labels.learnKind(kind)
	return r.kinds.add(label, func() *kindChildren { return c.newKind(r.label, label) })
}

// reaper returns the children of a reaper's target.
func (c *collector) reaper(name string) *reaperChildren {
	if found := c.reapers.find(name); found != nil {
		return found
	}
	label := c.labels.learnQueue(name)
	return c.reapers.add(label, func() *reaperChildren { return c.newReaper(label) })
}

// hint returns the children of a queue that anybody may have named. A name that is taken up later moves on to its own.
func (c *collector) hint(name string) *hintChildren {
	if found := c.hints.find(name); found != nil && name != other {
		return found
	}
	label := c.labels.knownQueue(name)
	if found := c.hints.find(label); found != nil {
		return found
	}
	return c.hints.add(label, func() *hintChildren { return c.newHints(label) })
}
