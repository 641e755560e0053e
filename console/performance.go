package console

import (
	"net/http"
	"strconv"
	"time"

	"github.com/pgqueue/pgqueue/pgqueue"
)

func performanceRoutes() []route {
	return []route{{http.MethodGet, "/performance", Viewer, showPerformance}}
}

// performancePage is the data of templates/performance.html. The charts are made by scripts of what Source gives; the table of the
// latest minutes is there without them.
type performancePage struct {
	Query    sampleQuery
	Windows  []sampleChoice
	Limits   []sampleChoice
	Source   string // the address of the samples
	Activity *pgqueue.Activity
	Rows     []pgqueue.QueueActivity // all queues together, and each, the busiest first
	Cut      int                     // queues that are not shown
}

// sampleChoice is an option of a list.
type sampleChoice struct {
	Value, Text string
	Chosen      bool
}

// performanceQueues is how many queues the table of the latest minutes has.
const performanceQueues = 50

func showPerformance(r *request) error {
	query, err := parseSampleQuery(r.URL.Query())
	if err != nil {
		return err
	}
	activity, err := r.inspector().Activity(r.Context(), time.Hour)
	if err != nil {
		return err
	}
	page := performancePage{Query: query, Source: r.url("/api/samples", query.values()), Activity: activity}
	page.Windows, page.Limits = query.choices()
	page.Rows, page.Cut = performanceRows(activity, query.Queue)
	return r.page(http.StatusOK, "performance", "performance", "Performance", page)
}

// performanceRows are the lines of the table: all queues, then each; with a queue named, that one alone.
func performanceRows(activity *pgqueue.Activity, queue string) (rows []pgqueue.QueueActivity, cut int) {
	if queue != "" {
		return []pgqueue.QueueActivity{activity.Queue(queue)}, 0
	}
	rows = append(rows, activity.Total)
	shown := min(len(activity.Queues), performanceQueues)
	return append(rows, activity.Queues[:shown]...), len(activity.Queues) - shown
}

// choices are the options of the two lists, with the one that the address has.
func (q sampleQuery) choices() (windows, limits []sampleChoice) {
	known := false
	for _, window := range sampleWindows() {
		text := "all that is kept"
		if window > 0 {
			text = "the last " + duration(window)
		}
		windows = append(windows, sampleChoice{windowText(window), text, window == q.Window})
		known = known || window == q.Window
	}
	if !known {
		windows = append(windows, sampleChoice{windowText(q.Window), "the last " + duration(q.Window), true})
	}
	known = false
	for _, limit := range append(sampleLimits(), q.Limit) {
		if known && limit == q.Limit {
			continue
		}
		text, err := number(limit)
		if err != nil {
			continue
		}
		limits = append(limits, sampleChoice{strconv.Itoa(limit), text, limit == q.Limit})
		known = known || limit == q.Limit
	}
	return windows, limits
}
