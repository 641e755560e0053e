package console

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"

	"github.com/pgqueue/pgqueue/pgqueue"
)

func jobsRoutes() []route {
	return []route{{http.MethodGet, "/jobs", Viewer, listJobs}}
}

const (
	maxJobsOnPage  = 200
	listPreview    = 200 // bytes of a payload on a line
	listMessage    = 160 // characters of an error
	listTags       = 5
	listTagRunes   = 40
	listKeyRunes   = 64
	jobsOrderParam = "order"
)

// jobsPage is what jobs.html shows.
type jobsPage struct {
	Asked  askedJobs
	Tabs   []jobsTab
	Terms  []filterTerm
	Orders []jobsOrder
	Rows   []jobRow
	// Short says that looking ended before the page was full, after Scanned rows.
	Short   bool
	Scanned int
	// First, Prev and Next are addresses of other pages; empty: there is none. Count is one of the same page with its counts,
	// where they are not made by themselves.
	First, Prev, Next, Count string
	Problem                  string // what is wrong with the address; nothing was asked then
	// Bulk are addresses of what can be done to all that match.
	Bulk []jobsBulk
}

// askedJobs is an address of the list, as somebody wrote it.
type askedJobs struct{ values url.Values }

// Value is a field of the form.
func (a askedJobs) Value(name string) string { return a.values.Get(name) }

// All are the values of a field that may stand there several times.
func (a askedJobs) All(name string) []string { return given(a.values[name]) }

// More tells whether one of the fields is used that are folded away.
func (a askedJobs) More() bool {
	for _, name := range []string{
		"payload", "payload_path", "payload_value", "created_from", "created_to", "finished_from", "finished_to", "due_from", "due_to",
		"priority", "worker", "min_id", "max_id", "limit",
	} {
		if a.values.Get(name) != "" {
			return true
		}
	}
	return false
}

// listJobs shows one page of the jobs that match the filter in the address. It asks at most three statements, each of them bounded: the
// page takes one, or two where a small index was asked in vain, and the counts of the tabs one.
func listJobs(r *request) error {
	values := r.URL.Query()
	page := &jobsPage{Asked: askedJobs{values}}
	filter, err := parseFilter(values)
	var options pgqueue.ListOptions
	if err == nil {
		options, err = parseListOptions(values)
	}
	if err == nil && options.Limit > maxJobsOnPage {
		err = &pgqueue.ValidationError{Field: "limit", Message: "must be at most " + strconv.Itoa(maxJobsOnPage)}
	}
	if err != nil {
		return badJobsPage(r, page, pgqueue.Filter{}, err)
	}
	options.Preview = listPreview
	found, err := r.inspector().List(r.Context(), filter, options)
	if err != nil {
		if errors.Is(err, pgqueue.ErrInvalid) {
			return badJobsPage(r, page, filter, err)
		}
		return err
	}
	var counts *pgqueue.JobCounts
	if dear := len(filter.Payload) > 0 || filter.ErrorCode != ""; options.Cursor == "" && (!dear || values.Get("count") != "") {
		if counts, err = countStates(r.Context(), r.inspector(), filter); err != nil {
			return err
		}
	} else if options.Cursor == "" {
		page.Count = r.url("/jobs", with(values, "count", "1"))
	}
	page.Short, page.Scanned = found.Short, found.Scanned
	here := jobsAddress{filter: filter, order: options.Order, limit: options.Limit}
	if options.Cursor != "" {
		page.First = r.url("/jobs", here.query(""))
	}
	if found.Prev != "" {
		page.Prev = r.url("/jobs", here.query(found.Prev))
	}
	if found.Next != "" {
		page.Next = r.url("/jobs", here.query(found.Next))
	}
	for n := range found.Jobs {
		page.Rows = append(page.Rows, newJobRow(r, &found.Jobs[n]))
	}
	page.Bulk = jobsBulks(r, filter)
	page.fill(r, filter, counts)
	r.live()
	return r.page(http.StatusOK, "jobs", "jobs", "Jobs", page)
}

// badJobsPage is the page with its form as it was filled in, and what is wrong with it.
func badJobsPage(r *request, page *jobsPage, filter pgqueue.Filter, err error) error {
	page.Problem = err.Error()
	page.fill(r, filter, nil)
	return r.page(http.StatusBadRequest, "jobs", "jobs", "Jobs", page)
}

// countStates counts what matches but for the states, for the tabs.
func countStates(ctx context.Context, inspector *pgqueue.Inspector, filter pgqueue.Filter) (*pgqueue.JobCounts, error) {
	filter.States = nil
	return inspector.Counts(ctx, filter)
}

// fill adds what surrounds the list.
func (p *jobsPage) fill(r *request, filter pgqueue.Filter, counts *pgqueue.JobCounts) {
	p.Tabs = jobsTabs(r, filter, counts)
	p.Terms = filterTerms(r, p.Asked.values)
	p.Orders = jobsOrders(filter, pgqueue.ListOrder(p.Asked.Value(jobsOrderParam)))
}

// jobsAddress is an address of the list with its times fixed, as its pages have it.
type jobsAddress struct {
	filter pgqueue.Filter
	order  pgqueue.ListOrder
	limit  int
}

func (a jobsAddress) query(cursor string) url.Values {
	values := filterQuery(a.filter)
	if a.order != "" {
		values.Set(jobsOrderParam, string(a.order))
	}
	if a.limit != 0 {
		values.Set("limit", strconv.Itoa(a.limit))
	}
	if cursor != "" {
		values.Set("cursor", cursor)
	}
	return values
}

// with is the values with one of them changed.
func with(values url.Values, name, value string) url.Values {
	changed := without(values, name, "")
	changed.Set(name, value)
	return changed
}

// without is the values but for one value of a name, or for all of them where value is empty.
func without(values url.Values, name, value string) url.Values {
	kept := url.Values{}
	for other, texts := range values {
		for _, text := range texts {
			if text != "" && (other != name || value != "" && text != value) {
				kept.Add(other, text)
			}
		}
	}
	return kept
}

// Priorities are the choices of a form.
func (p *jobsPage) Priorities() []string { return []string{"1", "2", "3", "4"} }
