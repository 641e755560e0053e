package console

import (
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/pgqueue/pgqueue/pgqueue"
)

func overviewRoutes() []route {
	return []route{{http.MethodGet, "/{$}", Viewer, showOverview}}
}

const (
	overviewQueues   = 15
	overviewTroubles = 5
)

// overviewPage is what overview.html shows.
type overviewPage struct {
	Windows   []overviewWindow
	Worries   []worry
	Activity  *pgqueue.Activity // nil: it could not be read
	Spark     queueSpark
	Window    time.Duration
	BadShare  float64 // percent of what ended badly
	Totals    overviewTotals
	Queues    []countedQueue
	Hidden    int // queues that are not shown
	Workers   overviewWorkers
	Troubles  []pgqueue.AttentionGroup
	ReadAt    time.Time
	JobsIn    func(queue string, states ...string) string
	JobsWhere func(states ...string) string
}

// overviewWindow is a choice of how far back rates look.
type overviewWindow struct {
	Title, Address string
	Current        bool
}

// overviewTotals are the numbers of all queues together.
type overviewTotals struct {
	Ready, Running, Scheduled, Retrying, Failed, Dead boundedCount
	OldestReady                                       time.Duration
	OldestQueue                                       string
}

// overviewWorkers are the worker processes together.
type overviewWorkers struct{ Alive, Stopping, Silent, Slots, Busy int }

// overviewWindows are the windows that can be asked for.
func overviewWindows() []struct {
	name   string
	window time.Duration
} {
	return []struct {
		name   string
		window time.Duration
	}{{"1m", time.Minute}, {"5m", 5 * time.Minute}, {"1h", time.Hour}, {"24h", 24 * time.Hour}}
}

// showOverview shows how the whole installation does: what needs somebody first, then how much happens and waits.
func showOverview(r *request) error {
	asked := r.URL.Query().Get("window")
	page := &overviewPage{Window: pgqueue.DefaultActivityWindow, JobsIn: r.jobsIn, JobsWhere: func(states ...string) string {
		return r.url("/jobs", url.Values{"state": states})
	}}
	for _, choice := range overviewWindows() {
		if choice.name == asked {
			page.Window = choice.window
		}
	}
	for _, choice := range overviewWindows() {
		page.Windows = append(page.Windows, overviewWindow{
			Title: choice.name, Address: r.url("/", url.Values{"window": {choice.name}}), Current: choice.window == page.Window,
		})
	}
	seen, err := r.console.overviews.latest(r, page.Window)
	if err != nil {
		return err
	}
	page.fill(r, seen)
	r.live()
	return r.page(http.StatusOK, "overview", "overview", "Overview", page)
}

// fill makes the page of what was read.
func (p *overviewPage) fill(r *request, seen *overviewSeen) {
	p.Activity, p.ReadAt = seen.activity, seen.at
	if a := seen.activity; a != nil {
		p.Spark = newQueueSpark(a.Total.Series)
		if ended := a.Total.Ended(); ended > 0 {
			p.BadShare = 100 * float64(a.Total.Failed+a.Total.Dead) / float64(ended)
		}
	}
	for n := range seen.queues {
		p.Totals.add(&seen.queues[n])
		p.Queues = append(p.Queues, newCountedQueue(seen.queues[n], seen.activity, seen.kinds))
	}
	slices.SortStableFunc(p.Queues, func(a, b countedQueue) int { return weight(b) - weight(a) })
	if len(p.Queues) > overviewQueues {
		p.Hidden, p.Queues = len(p.Queues)-overviewQueues, p.Queues[:overviewQueues]
	}
	for n := range seen.workers {
		p.Workers.add(&seen.workers[n])
	}
	if seen.attention != nil {
		p.Troubles = seen.attention.Groups[:min(len(seen.attention.Groups), overviewTroubles)]
	}
	p.Worries = worries(r, seen)
}

// weight is how much a queue has to say: what is due, what runs, what ended.
func weight(q countedQueue) int {
	return q.ReadyAll().N + q.Running.N + q.Retrying.N + q.Activity.Ended()
}

func (t *overviewTotals) add(q *pgqueue.QueueStats) {
	plus := func(to *boundedCount, counts ...pgqueue.Count) {
		for _, count := range counts {
			to.N += count.N
			to.More = to.More || count.More
		}
	}
	plus(&t.Ready, q.Ready[:]...)
	plus(&t.Running, q.Running)
	plus(&t.Scheduled, q.Scheduled)
	plus(&t.Retrying, q.Retrying)
	plus(&t.Failed, q.Failed)
	plus(&t.Dead, q.Dead)
	if q.OldestReady > t.OldestReady {
		t.OldestReady, t.OldestQueue = q.OldestReady, q.Queue
	}
}

func (w *overviewWorkers) add(worker *pgqueue.WorkerReport) {
	switch {
	case !worker.Alive:
		w.Silent++
		return
	case worker.Stopping:
		w.Stopping++
	default:
		w.Alive++
	}
	for _, queue := range worker.Queues {
		w.Slots += queue.Workers
		w.Busy += queue.InFlight
	}
}
