package console

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pgqueue/pgqueue/pgqueue"
)

func queuesRoutes() []route {
	return []route{
		{http.MethodGet, "/queues", Viewer, listQueues},
		{http.MethodGet, "/queues/{queue}", Viewer, showQueue},
		{http.MethodGet, "/queues/{queue}/confirm/{action}", Operator, confirmQueueAction},
		{http.MethodPost, "/queues/{queue}/pause", Operator, pauseQueue},
		{http.MethodPost, "/queues/{queue}/resume", Operator, resumeQueue},
		{http.MethodPost, "/queues/{queue}/history", Operator, setQueueHistory},
		{http.MethodGet, "/kinds", Viewer, listPausedKinds},
		{http.MethodGet, "/kinds/confirm/{action}", Operator, confirmKindAction},
		{http.MethodPost, "/kinds/pause", Operator, pauseKind},
		{http.MethodPost, "/kinds/resume", Operator, resumeKind},
	}
}

// queuesPerPage is how many queues are counted for one page: counting reads up to ten thousand index entries of each.
const queuesPerPage = 100

// boundedCount is a number that was not counted further than a bound; in words "10,000+".
type boundedCount struct{ pgqueue.Count }

// String is the number, with a plus where it is a lower bound.
func (c boundedCount) String() string {
	text, err := number(c.N)
	if err != nil { // an int always is a number
		text = strconv.Itoa(c.N)
	}
	if c.More {
		text += "+"
	}
	return text
}

// countedQueue is a queue as the screens show it.
type countedQueue struct {
	pgqueue.QueueStats
	Activity pgqueue.QueueActivity
	// KindsPaused are those of its kinds that are paused, here or everywhere.
	KindsPaused int

	path string // below the console's prefix
}

// newCountedQueue puts together what is known of a queue. activity may be nil: it could not be read.
func newCountedQueue(stats pgqueue.QueueStats, activity *pgqueue.Activity, kinds []pgqueue.KindPause) countedQueue {
	row := countedQueue{QueueStats: stats, path: "/queues/" + segment(stats.Queue)}
	if activity != nil {
		row.Activity = activity.Queue(stats.Queue)
	}
	for i := range kinds {
		if kinds[i].Queue == "" || kinds[i].Queue == stats.Queue {
			row.KindsPaused++
		}
	}
	return row
}

// Path is the address of its page.
func (q countedQueue) Path() string { return q.path }

// Confirm is the address of the page that asks before an action.
func (q countedQueue) Confirm(action string) string { return q.path + "/confirm/" + action }

// Paused says whether it is paused.
func (q countedQueue) Paused() bool { return !q.PausedAt.IsZero() }

// ReadyAll is what is due, of all priorities.
func (q countedQueue) ReadyAll() boundedCount {
	var all boundedCount
	for _, class := range q.Ready {
		all.N += class.N
		all.More = all.More || class.More
	}
	return all
}

// Of makes any of its numbers readable.
func (q countedQueue) Of(count pgqueue.Count) boundedCount { return boundedCount{count} }

// Classes are the priorities, with what is due in each.
func (q countedQueue) Classes() []queueClass {
	names := [4]string{"fresh work, claimed first", "", "", "catch-up work, claimed when nothing else is due and in one claim of five"}
	classes := make([]queueClass, len(q.Ready))
	for i, count := range q.Ready {
		classes[i] = queueClass{Priority: i + 1, Ready: boundedCount{count}, Means: names[i]}
	}
	return classes
}

type queueClass struct {
	Priority int
	Ready    boundedCount
	Means    string
}

// Quiet says that nothing is or was in the queue, as far as is known.
func (q countedQueue) Quiet() bool {
	return q.ReadyAll().N+q.Scheduled.N+q.Retrying.N+q.Running.N+q.Failed.N+q.Dead.N+q.Activity.Ended() == 0
}

// jobsIn is the address of the list of jobs of the queue in some states.
func (r *request) jobsIn(queue string, states ...string) string {
	query := url.Values{"queue": {queue}}
	if len(states) > 0 {
		query["state"] = states
	}
	return r.url("/jobs", query)
}

// queuesPage is what queues.html shows.
type queuesPage struct {
	Rows    []countedQueue
	Jobs    func(queue string, states ...string) string
	Search  string
	Matched int    // how many names match
	Found   int    // how many queues there are
	Most    bool   // there may be more than were found
	First   int    // which of the matched ones the page begins with, from 1
	Next    string // address of the next page; empty: there is none
	Start   string // address of the first page; empty: this is it
	Exact   string // address of the page of a queue with exactly the name that was searched; empty: none was
	Kinds   int
	Window  time.Duration
	More    bool // the rates are those of less than the window
	Unread  bool // the rates could not be read
}

// listQueues counts one page of the queues. Names are found first, because counting is what costs.
func listQueues(r *request) error {
	names, err := r.inspector().QueueNames(r.Context())
	if err != nil {
		return err
	}
	slices.Sort(names) // by their bytes, whatever the database's collation is: the pages are cut by that
	query := r.URL.Query()
	page := &queuesPage{Jobs: r.jobsIn, Search: query.Get("q"), Found: len(names), Most: len(names) == pgqueue.MaxStatsQueues, Window: pgqueue.DefaultActivityWindow}
	if page.Search != "" {
		page.Exact = "/queues/" + segment(page.Search)
		wanted := strings.ToLower(page.Search)
		names = slices.DeleteFunc(names, func(name string) bool { return !strings.Contains(strings.ToLower(name), wanted) })
	}
	page.Matched = len(names)
	names = page.cut(r, names, query.Get("after"))
	if len(names) > 0 {
		stats, err := r.console.counts.of(r.Context(), r.inspector(), names)
		if err != nil {
			return err
		}
		activity, kinds, err := r.queueSurroundings(page)
		if err != nil {
			return err
		}
		for i := range stats {
			page.Rows = append(page.Rows, newCountedQueue(stats[i], activity, kinds))
		}
		page.Kinds = len(kinds)
	}
	r.live()
	return r.page(http.StatusOK, "queues", "queues", "Queues", page)
}

// cut keeps the names of one page, those behind after.
func (p *queuesPage) cut(r *request, names []string, after string) []string {
	from := 0
	if after != "" {
		var at bool
		if from, at = slices.BinarySearch(names, after); at {
			from++
		}
		p.Start = r.url("/queues", searchQuery(p.Search, ""))
	}
	p.First = from + 1
	names = names[from:]
	if len(names) > queuesPerPage {
		names = names[:queuesPerPage]
		p.Next = r.url("/queues", searchQuery(p.Search, names[len(names)-1]))
	}
	return names
}

// Last is the number of the last queue of the page.
func (p *queuesPage) Last() int { return p.First + len(p.Rows) - 1 }

func searchQuery(search, after string) url.Values {
	query := url.Values{}
	if search != "" {
		query.Set("q", search)
	}
	if after != "" {
		query.Set("after", after)
	}
	return query
}

// queueSurroundings reads what stands beside the counts: rates, which may be missing where the role cannot read history, and the
// paused kinds.
func (r *request) queueSurroundings(page *queuesPage) (*pgqueue.Activity, []pgqueue.KindPause, error) {
	activity, unread, err := r.activity()
	if err != nil {
		return nil, nil, err
	}
	kinds, err := r.inspector().PausedKinds(r.Context())
	if err != nil {
		return nil, nil, err
	}
	if activity != nil {
		page.More = activity.More
		page.Window = activity.Until.Sub(activity.Since).Round(time.Second)
	}
	page.Unread = unread
	return activity, kinds, nil
}

// activity is what ended lately. A role that may not read history, and a server that takes too long for it, cost the rates and not the
// page: unread is true then.
func (r *request) activity() (activity *pgqueue.Activity, unread bool, err error) {
	activity, err = r.inspector().Activity(r.Context(), 0)
	if err != nil {
		if code := explain(err).status; code == http.StatusForbidden || code == http.StatusGatewayTimeout {
			if r.Context().Err() == nil {
				return nil, true, nil
			}
		}
		return nil, false, err
	}
	return activity, false, nil
}

// queueStats counts one queue.
func queueStats(ctx context.Context, inspector *pgqueue.Inspector, queue string) (pgqueue.QueueStats, error) {
	stats, err := inspector.Queues(ctx, queue)
	if err != nil || len(stats) == 0 {
		return pgqueue.QueueStats{Queue: queue}, err
	}
	return stats[0], nil
}

// byKind sorts pauses for people: by kind, those of all queues first.
func byKind(a, b pgqueue.KindPause) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Queue, b.Queue))
}
