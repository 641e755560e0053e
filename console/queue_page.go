package console

import (
	"net/http"
	"slices"
	"time"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// queuePage is what queue_page.html shows.
type queuePage struct {
	countedQueue
	Jobs    func(queue string, states ...string) string
	Purge   string // address of the bulk action
	Unread  bool   // the rates could not be read
	More    bool   // the rates are those of less than the window
	Window  time.Duration
	Spark   queueSpark
	Kinds   []pgqueue.KindPause // those that concern this queue
	Workers []queueWorker       // live ones that serve it, at most workersOfQueue
	Serving int                 // how many there are
	Slots   int                 // of all of them
}

// queueWorker is a worker as it serves one queue.
type queueWorker struct {
	ID       string
	Stopping bool
	SeenAt   time.Time
	pgqueue.WorkerQueue
}

// workersOfQueue is how many workers the page of a queue lists.
const workersOfQueue = 50

// showQueue shows one queue. Any name has a page: a queue needs no row to be used, or paused.
func showQueue(r *request) error {
	queue := r.PathValue("queue")
	stats, err := queueStats(r.Context(), r.inspector(), queue)
	if err != nil {
		return err
	}
	activity, unread, err := r.activity()
	if err != nil {
		return err
	}
	kinds, err := r.inspector().PausedKinds(r.Context())
	if err != nil {
		return err
	}
	workers, err := r.inspector().Workers(r.Context())
	if err != nil {
		return err
	}
	page := &queuePage{
		countedQueue: newCountedQueue(stats, activity, kinds), Jobs: r.jobsIn, Unread: unread,
		Purge: r.url("/bulk/confirm", map[string][]string{"action": {string(pgqueue.ActionPurge)}, "queue": {queue}}),
	}
	if activity != nil {
		page.More, page.Window = activity.More, activity.Until.Sub(activity.Since).Round(time.Second)
		page.Spark = newQueueSpark(page.Activity.Series)
	}
	for i := range kinds {
		if kinds[i].Queue == "" || kinds[i].Queue == queue {
			page.Kinds = append(page.Kinds, kinds[i])
		}
	}
	slices.SortFunc(page.Kinds, byKind)
	page.addWorkers(workers)
	r.live()
	return r.page(http.StatusOK, "queue_page", "queues", "Queue "+queue, page)
}

// addWorkers finds the live workers of the queue.
func (p *queuePage) addWorkers(workers []pgqueue.WorkerReport) {
	for i := range workers {
		served, ok := workers[i].Queues[p.Queue]
		if !ok || !workers[i].Alive {
			continue
		}
		p.Serving++
		p.Slots += served.Workers
		if len(p.Workers) < workersOfQueue {
			p.Workers = append(p.Workers, queueWorker{workers[i].ID, workers[i].Stopping, workers[i].SeenAt, served})
		}
	}
}

// spark is a small picture of a series: two bars for each part of it, on a field of sparkWidth times sparkHeight.
type queueSpark struct {
	Bars []queueSparkBar
	Most int // the highest bar
}

type queueSparkBar struct{ X, DoneY, DoneHeight, BadY, BadHeight int }

// The size of a queueSpark, and of a bar in it.
const (
	sparkWidth  = 240
	sparkHeight = 40
)

// newQueueSpark makes the picture. What went badly stands on top of what went well.
func newQueueSpark(series []pgqueue.ActivityBucket) queueSpark {
	var s queueSpark
	for _, part := range series {
		s.Most = max(s.Most, part.Done+part.Bad)
	}
	if s.Most == 0 {
		return s
	}
	for n, part := range series {
		bar := queueSparkBar{X: n * sparkWidth / len(series)}
		bar.DoneHeight, bar.BadHeight = s.height(part.Done), s.height(part.Bad)
		bar.DoneHeight = min(bar.DoneHeight, sparkHeight-bar.BadHeight) // both were rounded up, and what went badly is to be seen
		bar.DoneY = sparkHeight - bar.DoneHeight
		bar.BadY = bar.DoneY - bar.BadHeight
		s.Bars = append(s.Bars, bar)
	}
	return s
}

// height is how high a bar for n is: at least one where n is.
func (s queueSpark) height(n int) int {
	if n == 0 {
		return 0
	}
	return max(1, n*sparkHeight/s.Most)
}
