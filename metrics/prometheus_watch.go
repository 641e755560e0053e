package metrics

import (
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/runner"
)

// StatusSource is what gauges of this process are read from: a [*pgqueue.Worker].
type StatusSource interface {
	// Status must not wait for anything, and may be called by several at once.
	Status() pgqueue.WorkerStatus
}

// healthSource is a [StatusSource] that judges the loops which its status does not show: a [*pgqueue.Worker].
type healthSource interface {
	// Health must not wait for anything either.
	Health() pgqueue.Health
}

// RunnerSource is a [*runner.Runner], over any queue.
type RunnerSource interface {
	Status() runner.Status
}

// Watch shows the gauges of a worker at every scrape, as long as it runs: what several workers of a process have in one queue
// is added up. Its queues get labels of their own. The returned function ends that and lets go of the worker; a worker that
// has stopped is not shown in any case, and is shown again if it runs again.
func (p *Prometheus) Watch(source StatusSource) (unwatch func()) {
	if source == nil {
		return func() {}
	}
	for queue := range source.Status().Queues {
		p.c.labels.learnQueue(queue)
	}
	return p.c.watched.add(source)
}

// WatchRunner is [Prometheus.Watch] for a runner that belongs to no worker, such as one over a table of your own.
func (p *Prometheus) WatchRunner(source RunnerSource) (unwatch func()) {
	return p.Watch(alone{source})
}

// alone shows a runner as a worker with one queue.
type alone struct{ RunnerSource }

func (a alone) Status() pgqueue.WorkerStatus {
	status := a.RunnerSource.Status()
	return pgqueue.WorkerStatus{
		Running: status.Lifecycle == runner.Running || status.Lifecycle == runner.Stopping,
		Queues:  map[string]runner.Status{status.Queue: status},
	}
}

// watched is the sources of the gauges of this process.
type watched struct {
	mutex   sync.Mutex
	sources []*watch
}

// watch makes one call of Watch different from another for the same worker.
type watch struct{ source StatusSource }

func (w *watched) add(source StatusSource) (remove func()) {
	one := &watch{source}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.sources = append(w.sources, one)
	return func() {
		w.mutex.Lock()
		defer w.mutex.Unlock()
		w.sources = slices.DeleteFunc(w.sources, func(other *watch) bool { return other == one })
	}
}

// state is what a worker says at a scrape.
type state struct {
	pgqueue.WorkerStatus
	loops []pgqueue.LoopHealth // nil where it does not judge itself
}

// running returns the state of every watched worker that runs, each worker once.
func (w *watched) running() (all []state) {
	w.mutex.Lock()
	sources := slices.Clone(w.sources)
	w.mutex.Unlock()
	seen := map[StatusSource]bool{}
	for _, one := range sources {
		if reflect.ValueOf(one.source).Comparable() { // a key of another type would panic
			if seen[one.source] {
				continue
			}
			seen[one.source] = true
		}
		if status := one.source.Status(); status.Running {
			now := state{WorkerStatus: status}
			if judge, judges := one.source.(healthSource); judges {
				now.loops = judge.Health().Loops
			}
			all = append(all, now)
		}
	}
	return all
}

// queueGauges is what the workers of this process have in one queue.
type queueGauges struct {
	jobs, stuck, buffered, unreported int
	paused, outage                    bool
	lastSuccess                       time.Time
	inFlight, bound                   map[string]int // by kind
	trying                            map[string]time.Duration
}

func newQueueGauges() *queueGauges {
	return &queueGauges{inFlight: map[string]int{}, bound: map[string]int{}, trying: map[string]time.Duration{}}
}

func (g *queueGauges) add(status *runner.Status, kindLabel func(string) string) {
	rest := status.InFlight
	for _, kind := range status.Kinds {
		label := kindLabel(kind.Kind)
		g.inFlight[label] += kind.Running
		g.bound[label] += kind.Workers
		rest -= kind.Running
	}
	switch {
	case len(status.Kinds) == 0: // not told apart, or not started
		g.inFlight[""] += rest
	case rest > 0: // of kinds that nobody asked for
		g.inFlight[other] += rest
	}
	for _, loop := range status.Loops {
		g.try(loop.Name, loop.Trying)
	}
	g.jobs += status.Tasks
	g.stuck += status.Stuck
	g.buffered += status.Buffered
	g.unreported += status.Unreported
	g.paused = g.paused || !status.PausedUntil.IsZero() || !status.QueuePaused.IsZero()
	g.lastSuccess = latest(g.lastSuccess, status.LastSuccess)
}

// try notes since when a loop tries in vain; zero if it does not. Of several workers the longest counts.
func (g *queueGauges) try(loop string, since time.Time) {
	trying := time.Duration(0)
	if !since.IsZero() {
		trying = max(0, time.Since(since))
	}
	g.trying[loop] = max(g.trying[loop], trying)
}

// workerLoops are the loops that a worker has once, whatever its queues are.
func workerLoops() []string { return []string{"listener", "probe", "heartbeat"} }

// collectWatched sends the gauges of this process.
func (c *collector) collectWatched(metrics chan<- prometheus.Metric) {
	queues := map[string]*queueGauges{}
	of := func(name string) *queueGauges {
		label := c.labels.knownQueue(name)
		if queues[label] == nil {
			queues[label] = newQueueGauges()
		}
		return queues[label]
	}
	listening, connected, deaf := false, true, false
	whole := newQueueGauges() // of the workers, in no queue
	running := c.watched.running()
	for i := range running {
		for name, status := range running[i].Queues {
			of(name).add(&status, c.labels.learnKind)
		}
		for _, target := range running[i].Reaper.Targets {
			g := of(target.Name)
			g.outage = g.outage || target.Outage
			g.try("reap", target.Silent)
		}
		if l := running[i].Listener; l != nil {
			// An echo that cannot be sent is no proof of anything: a frozen server keeps its connections.
			listening, connected, deaf = true, connected && l.Connected && l.SendError == "", deaf || l.Deaf
		}
		for _, loop := range running[i].loops {
			since := time.Time{}
			if !loop.OK {
				since = loop.Since
			}
			if slices.Contains(workerLoops(), loop.Name) {
				whole.try(loop.Name, since)
			}
		}
	}
	c.send(metrics, nameWorkers, float64(len(running)))
	for loop, d := range whole.trying {
		c.send(metrics, nameTrying, seconds(d), "", loop)
	}
	if listening {
		c.send(metrics, nameListener, oneIf(connected && !deaf))
		c.send(metrics, nameListenerDeaf, oneIf(deaf))
	}
	for label, g := range queues {
		for kind, n := range g.inFlight {
			c.send(metrics, nameInFlight, float64(n), label, kind)
		}
		for kind, n := range g.bound {
			c.send(metrics, nameBound, float64(n), label, kind)
		}
		for loop, d := range g.trying {
			c.send(metrics, nameTrying, seconds(d), label, loop)
		}
		c.send(metrics, nameJobsInFlight, float64(g.jobs), label)
		c.send(metrics, nameStuck, float64(g.stuck), label)
		c.send(metrics, nameBuffered, float64(g.buffered), label)
		c.send(metrics, nameUnreported, float64(g.unreported), label)
		c.send(metrics, nameClaimsPaused, oneIf(g.paused), label)
		c.send(metrics, nameReaperOutage, oneIf(g.outage), label)
		if !g.lastSuccess.IsZero() {
			c.send(metrics, nameLastSuccess, unix(g.lastSuccess), label)
		}
	}
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func oneIf(holds bool) float64 {
	if holds {
		return 1
	}
	return 0
}

func unix(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }
