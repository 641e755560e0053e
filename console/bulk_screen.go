package console

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/pgqueue/pgqueue/pgqueue"
)

func bulkRoutes() []route {
	return []route{
		{http.MethodGet, "/bulk/confirm", Operator, confirmBulk},
		{http.MethodPost, "/bulk", Operator, startBulk},
	}
}

const (
	// bulkSample is how many of the jobs the page that asks shows.
	bulkSample = 5
	// countPatience is how long an exact count may take before the page says how far it came.
	countPatience = 10 * time.Second
)

// bulkPage is the data of templates/bulk_confirm.html.
type bulkPage struct {
	*bulk
	Facts    []fact
	Counts   []stateCount
	Total    boundedCount // of what the action would be done to
	Exact    bool         // Total was counted to its end
	GivenUp  bool         // an exact count took too long
	Sample   []pgqueue.JobSummary
	More     bool // than the sample
	Hidden   []formField
	Ticket   string
	Expected string // for the progress bar; empty: not known
	CountURL string // the same page with an exact count
	JobsURL  string // the list of the jobs
	Pauses   []formChoice
	Prios    []formChoice
	DueValue string
	// Spreadings are the times over which it can be spread.
	Spreadings []formChoice
	// OffersRunning says that the form asks whether what runs is meant, too.
	OffersRunning bool
	Problem       string // why what was sent was refused
}

// stateCount is how many jobs of one state match.
type stateCount struct {
	State pgqueue.JobState
	N     boundedCount
	// Spared says that the action leaves them out, unless somebody asks for them, too.
	Spared bool
}

// confirmBulk shows what a bulk action would be done to, and asks.
func confirmBulk(r *request) error {
	query := r.URL.Query()
	b, err := readBulk(r, query)
	if err != nil {
		return err
	}
	return askForBulk(r, b, query.Get("count") == "exact", nil)
}

// askForBulk shows the page that asks, again where what was sent was refused.
func askForBulk(r *request, b *bulk, exactly bool, refused error) error {
	if err := b.untilNow(r); err != nil {
		return err
	}
	page := &bulkPage{
		bulk: b, Facts: r.filterFacts(b.Filter), Hidden: b.hidden(), Ticket: r.console.operations.ticket(r.identity.Name),
		Spreadings:    durationChoices(b.Spread, "no: at once", time.Minute, 10*time.Minute, time.Hour, 6*time.Hour, 24*time.Hour),
		Pauses:        durationChoices(b.Pause, "none", 100*time.Millisecond, time.Second, 10*time.Second),
		OffersRunning: b.Spared || b.Running,
	}
	for priority := pgqueue.PriorityFresh; priority <= pgqueue.PriorityCatchUp; priority++ {
		label := strconv.Itoa(priority)
		switch priority {
		case pgqueue.PriorityFresh:
			label += ", first"
		case pgqueue.PriorityCatchUp:
			label += ", last"
		}
		page.Prios = append(page.Prios, formChoice{strconv.Itoa(priority), label, priority == b.NewPriority})
	}
	if !b.DueAt.IsZero() {
		page.DueValue = b.DueAt.UTC().Format("2006-01-02T15:04:05")
	}
	shown := b.Filter
	if b.Spared {
		shown.States = append(shown.States[:len(shown.States):len(shown.States)], pgqueue.JobRunning)
	}
	count := b.query()
	count.Set("count", "exact")
	page.CountURL = r.url("/bulk/confirm", count)
	page.JobsURL = r.url("/jobs", filterQuery(shown))
	if err := page.count(r, shown, exactly); err != nil {
		return err
	}
	list, err := r.inspector().List(r.Context(), shown, pgqueue.ListOptions{Limit: bulkSample, Preview: -1})
	if err != nil {
		return err
	}
	page.Sample, page.More = list.Jobs, list.Next != ""
	status := http.StatusOK
	if refused != nil {
		known := explain(refused)
		status, page.Problem = known.status, known.text
	}
	return r.page(status, "bulk_confirm", "jobs", b.Title, page)
}

// untilNow bounds the action by the newest job of this moment: what is enqueued while somebody reads the page was never counted, and is not
// meant. Selected jobs are bounded by themselves, and an operation that goes on by its cursor keeps its filter.
func (b *bulk) untilNow(r *request) error {
	if b.Filter.MaxID != 0 || b.Filter.IDs != nil || b.Resume != "" {
		return nil
	}
	newest, err := r.inspector().List(r.Context(), pgqueue.Filter{}, pgqueue.ListOptions{Limit: 1, Preview: -1})
	if err != nil {
		return err
	}
	if len(newest.Jobs) == 0 {
		b.Filter.IDs = []int64{} // none: what comes was not counted either
		return nil
	}
	b.Filter.MaxID = newest.Jobs[0].ID
	return nil
}

// count counts what the action would be done to: as far as Counts goes, or to the end.
func (p *bulkPage) count(r *request, shown pgqueue.Filter, exactly bool) error {
	counts, err := r.inspector().Counts(r.Context(), shown)
	if err != nil {
		return err
	}
	for _, state := range shown.States {
		spared := p.Spared && state == pgqueue.JobRunning
		n := counts.ByState[state]
		p.Counts = append(p.Counts, stateCount{state, boundedCount{n}, spared})
		if !spared {
			p.Total.N += n.N
			p.Total.More = p.Total.More || n.More
		}
	}
	p.Exact = !p.Total.More && p.Resume == "" // with a cursor, what is behind it is counted, too
	if exactly && !p.Exact && len(p.Filter.States) > 0 {
		r.allow(2 * countPatience)
		if p.Total, err = p.exactly(r); err != nil {
			return err
		}
		p.Exact, p.GivenUp = !p.Total.More, p.Total.More
	}
	if p.Exact {
		p.Expected = strconv.Itoa(p.Total.N)
	}
	return nil
}

// exactly counts to the end, or for as long as a page may take. It stops between two statements, so that no connection is lost to it.
func (p *bulkPage) exactly(r *request) (boundedCount, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	enough, begun := errors.New("enough"), time.Now()
	result, err := p.act(ctx, r.inspector(), pgqueue.BulkOptions{DryRun: true, Progress: func(pgqueue.BulkResult) {
		if time.Since(begun) > countPatience {
			cancel(enough)
		}
	}})
	if err != nil && !errors.Is(err, enough) {
		return boundedCount{}, err
	}
	return boundedCount{pgqueue.Count{N: result.Matched, More: err != nil}}, nil
}

// startBulk begins an operation, and leads to the page that shows how far it is.
func startBulk(r *request) error {
	b, err := readBulk(r, r.PostForm)
	switch {
	case err != nil:
		return askForBulkAgain(r, err)
	case len(b.Filter.States) == 0:
		return askForBulkAgain(r, badRequest("Only running jobs are meant. They are deleted only where the box for that is ticked."))
	case b.Destroys && r.PostForm.Get("sure") != "yes":
		return askForBulkAgain(r, badRequest("Nothing was deleted: tick the box that says you are sure."))
	}
	inspector := r.inspector()
	o, err := r.console.operations.start(r.PostForm.Get("operation"), operationWork{
		actor: r.identity.Name, action: b.Name, request: digestOf(r.PostForm), Bulk: b, from: b.Resume, pause: b.Pause,
		expected: expected(r.PostForm),
		do: func(ctx context.Context, progress func(pgqueue.BulkResult)) (*pgqueue.BulkResult, error) {
			return b.act(ctx, inspector, pgqueue.BulkOptions{Progress: progress})
		},
	})
	if err != nil {
		return refusedStart(err)
	}
	return r.redirect("/operations/"+url.PathEscape(o.id), nil)
}

// digestOf names what a form asks for: it is the same as long as nobody changes the form.
func digestOf(form url.Values) string {
	kept := maps.Clone(form)
	delete(kept, csrfField)
	digest := sha256.Sum256([]byte(kept.Encode()))
	return string(digest[:])
}

// expected is how many jobs the page that asked has counted; 0: it did not know.
func expected(form url.Values) int {
	n, err := strconv.Atoi(form.Get("expected"))
	if err != nil || n < 0 { // it is for a progress bar, nothing else
		return 0
	}
	return n
}

// refusedStart says why no operation was begun.
func refusedStart(err error) error {
	again := "Nothing was begun. Load the page again, and repeat."
	switch {
	case errors.Is(err, errTicket):
		return conflict("This form is older than an hour, or was made by another process of the console. " + again)
	case errors.Is(err, errTicketUsed):
		return conflict("This form has begun another operation already. " + again)
	case errors.Is(err, errOperationsFull):
		return &httpError{http.StatusServiceUnavailable, fmt.Sprintf(
			"The console has run %d operations within the last hour, which is as many as it remembers. Nothing was begun.", maxOperations), err}
	default:
		return &httpError{http.StatusServiceUnavailable, "The console is stopping. Nothing was begun.", err}
	}
}
