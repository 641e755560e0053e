package console

import (
	"cmp"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/pgqueue/pgqueue/pgqueue"
)

func workersRoutes() []route {
	return []route{
		{http.MethodGet, "/workers", Viewer, listWorkers},
		{http.MethodGet, "/workers/{worker}", Viewer, showWorker},
	}
}

// How much of workers a page shows.
const (
	workersPerPage = 100
	jobsOfWorker   = 50
)

// workerView is a worker process as the screens show it.
type workerView struct {
	pgqueue.WorkerReport
	path string
}

func newWorkerView(report pgqueue.WorkerReport) workerView {
	return workerView{report, "/workers/" + segment(report.ID)}
}

// Path is the address of its page.
func (w workerView) Path() string { return w.path }

// State is alive, stopping, or gone: silent for so long that it must be taken for dead.
func (w workerView) State() string {
	switch {
	case !w.Alive:
		return "gone"
	case w.Stopping:
		return "stopping"
	default:
		return "alive"
	}
}

// All are the numbers of all of its queues together.
func (w workerView) All() (all pgqueue.WorkerQueue) {
	for _, queue := range w.Queues {
		all.Workers += queue.Workers
		all.InFlight += queue.InFlight
		all.Buffered += queue.Buffered
		all.Stuck += queue.Stuck
	}
	return all
}

// QueueNames are the queues that it serves, sorted.
func (w workerView) QueueNames() []string { return slices.Sorted(maps.Keys(w.Queues)) }

// workerQueueView is a queue of a worker.
type workerQueueView struct {
	Queue string
	Path  string
	pgqueue.WorkerQueue
}

// QueueRows are its queues, sorted.
func (w workerView) QueueRows() (rows []workerQueueView) {
	for _, name := range w.QueueNames() {
		rows = append(rows, workerQueueView{name, "/queues/" + segment(name), w.Queues[name]})
	}
	return rows
}

// workerKindView is a kind of a worker.
type workerKindView struct {
	Kind    string
	Running int
	pgqueue.WorkerKind
}

// KindRows are its kinds, sorted.
func (w workerView) KindRows() (rows []workerKindView) {
	for _, kind := range slices.Sorted(maps.Keys(w.Kinds)) {
		row := workerKindView{Kind: kind, WorkerKind: w.Kinds[kind]}
		for _, n := range row.InFlight {
			row.Running += n
		}
		rows = append(rows, row)
	}
	return rows
}

// workersPage is what workers.html shows.
type workersPage struct {
	Rows   []workerView
	Totals workerTotals
	Search string
	Queue  string
	State  string
	Sifted bool
	Found  int
	Next   string
	Start  string
}

// workerTotals are the numbers of all processes that have reported themselves within the hour. Slots, jobs and what is stuck are those
// of live ones.
type workerTotals struct {
	Alive, Stopping, Gone            int
	Slots, InFlight, Buffered, Stuck int
}

func (t *workerTotals) add(w workerView) {
	switch w.State() {
	case "gone":
		t.Gone++
		return
	case "stopping":
		t.Stopping++
	default:
		t.Alive++
	}
	all := w.All()
	t.Slots += all.Workers
	t.InFlight += all.InFlight
	t.Buffered += all.Buffered
	t.Stuck += all.Stuck
}

func listWorkers(r *request) error {
	reports, err := r.inspector().Workers(r.Context())
	if err != nil {
		return err
	}
	query := r.URL.Query()
	page := &workersPage{Search: query.Get("q"), Queue: query.Get("queue"), State: query.Get("state")}
	page.Sifted = page.Search != "" || page.Queue != "" || page.State != ""
	slices.SortFunc(reports, func(a, b pgqueue.WorkerReport) int { return cmp.Compare(a.ID, b.ID) }) // by bytes; the pages are cut by that
	after := query.Get("after")
	for i := range reports {
		worker := newWorkerView(reports[i])
		page.Totals.add(worker)
		if !page.matches(worker) {
			continue
		}
		page.Found++
		switch {
		case worker.ID <= after && after != "", page.Next != "":
		case len(page.Rows) == workersPerPage:
			page.Next = page.address(r, page.Rows[workersPerPage-1].ID)
		default:
			page.Rows = append(page.Rows, worker)
		}
	}
	if after != "" {
		page.Start = page.address(r, "")
	}
	r.live()
	return r.page(http.StatusOK, "workers", "workers", "Workers", page)
}

// States are the choices of the form.
func (p *workersPage) States() []string { return []string{"alive", "stopping", "gone"} }

func (p *workersPage) matches(w workerView) bool {
	if p.Queue != "" {
		if _, ok := w.Queues[p.Queue]; !ok {
			return false
		}
	}
	if p.State != "" && p.State != w.State() {
		return false
	}
	wanted := strings.ToLower(p.Search)
	return strings.Contains(strings.ToLower(w.ID), wanted) || strings.Contains(strings.ToLower(w.Host), wanted) || strings.Contains(strings.ToLower(w.Version), wanted)
}

func (p *workersPage) address(r *request, after string) string {
	query := url.Values{}
	for name, value := range map[string]string{"q": p.Search, "queue": p.Queue, "state": p.State, "after": after} {
		if value != "" {
			query.Set(name, value)
		}
	}
	return r.url("/workers", query)
}

// workerPage is what workers_one.html shows.
type workerPage struct {
	workerView
	Jobs    []heldJob
	Short   bool   // there may be more
	AllJobs string // address of the list of what it holds
	Latest  string // address of the list of all that it ran last
}

// heldJob is a job that a worker holds.
type heldJob struct {
	pgqueue.JobSummary
	Expired bool
}

// showWorker shows one process, by its last heartbeat, and what it holds by the jobs themselves.
func showWorker(r *request) error {
	id := r.PathValue("worker")
	reports, err := r.inspector().Workers(r.Context())
	if err != nil {
		return err
	}
	at := slices.IndexFunc(reports, func(w pgqueue.WorkerReport) bool { return w.ID == id })
	filter := pgqueue.Filter{States: []pgqueue.JobState{pgqueue.JobRunning}, ClaimedBy: id}
	held, err := r.inspector().List(r.Context(), filter, pgqueue.ListOptions{Order: pgqueue.OrderOldest, Limit: jobsOfWorker, Preview: -1})
	if err != nil {
		return err
	}
	if at < 0 && len(held.Jobs) == 0 {
		return notFound("No worker of this name has reported itself within the last hour, and none holds a job: it has stopped, as it should, or never was.")
	}
	now, err := r.databaseNow()
	if err != nil {
		return err
	}
	page := &workerPage{
		workerView: newWorkerView(pgqueue.WorkerReport{ID: id}), Short: held.Next != "",
		AllJobs: r.url("/jobs", url.Values{"state": {string(pgqueue.JobRunning)}, "worker": {id}}),
		Latest:  r.url("/jobs", url.Values{"worker": {id}}),
	}
	if at >= 0 {
		page.workerView = newWorkerView(reports[at])
	}
	for i := range held.Jobs {
		page.Jobs = append(page.Jobs, heldJob{held.Jobs[i], held.Jobs[i].LeaseExpiresAt.Before(now)})
	}
	r.live()
	return r.page(http.StatusOK, "workers_one", "workers", "Worker "+id, page)
}

// Silent is for how long it must not have been heard of to be taken for dead.
func (w workerView) Silent() time.Duration { return max(3*w.Every, 15*time.Second) }
