package pgqueue

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pgqueue/pgqueue/pgqueue/internal/jobstore"
)

// ListOrder is the order of a list. Each is the order of an index.
type ListOrder string

// The orders of lists.
const (
	// OrderNewest and OrderOldest go by the numbers of jobs, live and finished together. A job keeps its number for its
	// whole life, so neither is one skipped nor met twice while jobs move about. OrderNewest is the default.
	OrderNewest ListOrder = "newest"
	OrderOldest ListOrder = "oldest"
	// OrderLatestEnded and OrderFirstEnded are for failed and dead jobs alone (Filter.States must say so): by when they
	// ended. One that dies again while somebody pages may be met again.
	OrderLatestEnded ListOrder = "latest-ended"
	OrderFirstEnded  ListOrder = "first-ended"
	// OrderNextDue is for the pending jobs of one queue (Filter.States and Filter.Queue must say so): in the order of a
	// claim, by priority, due time and number.
	OrderNextDue ListOrder = "next-due"
)

// Bounds and defaults of [ListOptions].
const (
	DefaultListLimit   = 50
	MaxListLimit       = 1_000
	DefaultListScan    = 10_000
	MaxListScan        = 100_000
	DefaultListPreview = 1_024
	MaxListPreview     = 16 << 10
)

// ListOptions says which page of a list is wanted. The zero value is the first page of the newest jobs.
type ListOptions struct {
	Order ListOrder
	// Limit is how many jobs a page has: 50 by default, at most 1,000.
	Limit int
	// Cursor is Next or Prev of another page of the same filter and order, and refused with others; empty is the first page.
	Cursor string
	// Scan is how many rows are looked at for one page: 10,000 by default, at least one more than Limit, at most 100,000.
	Scan int
	// Preview is how many bytes of a payload are shown: 1,024 by default, at most 16 kB; a negative number means none.
	Preview int
}

// JobPage is one page of a list.
type JobPage struct {
	Jobs []JobSummary
	// Next and Prev are the cursors of the pages behind and before this one; empty where the list is known to end. The first
	// page, which was asked for without a cursor, has no Prev.
	Next, Prev string
	// Short says that looking ended at the bound, before the page was full, and not because nothing is left: go on with
	// Next (Prev, if this page was a Prev). Scanned is then how many rows were looked at. Such a page may well be empty.
	Short   bool
	Scanned int
}

// JobSummary is a job in a list: what fits on a line. Its Metadata is not read, no more than 20 of its Tags are, and of its
// payload only the beginning; [Inspector.Get] has the rest.
type JobSummary struct {
	JobInfo
	State          JobState
	LeaseExpiresAt time.Time // of a running job
	FinishedAt     time.Time // zero: live
	ClaimedBy      string    // the worker of the latest attempt
	CancelWanted   bool      // it runs and was asked to stop
	ErrorCount     int
	// LastCode and LastMessage are of the last attempt that failed; the message is cut to 256 characters.
	LastCode    string
	LastMessage string
	Payload     Excerpt
}

// Version is the version of the job, for [IfVersion].
func (j *JobSummary) Version() Version { return Version{Attempt: j.Attempt, Generation: j.Generation} }

// Excerpt is the beginning of a JSON document.
type Excerpt struct {
	// Text is all of it, or its beginning, in valid UTF-8; empty where the document is so large that it was not read.
	Text string
	// Cut says that Text is not all of it, and so probably not valid JSON.
	Cut bool
	// Size is how large the document is, in bytes: as stored, which may be compressed, in a list; as text elsewhere.
	Size int
	// Sealed says that Text is of the stored form, because that cannot be read here. Nil: it is of the document.
	Sealed *Sealed
}

// List reads one page of the jobs that match filter. A page is one snapshot, and one statement, or two.
//
// It is bounded: it takes rows from an index, in the order of the page, looks at options.Scan of them at most, and keeps
// those that match. Where the filter keeps many, that is a full page. Where it keeps few, the page may be [JobPage].Short,
// or empty, although there is more: go on with Next, which starts where looking ended. Three million rows are looked at
// in 300 such steps. [Inspector.All] takes them by itself.
//
// These are found by an index without looking around: jobs by IDs, MinID and MaxID; failed and dead ones (with a queue, too)
// by when they ended, in the orders by end; pending ones of a queue in OrderNextDue; and, in the orders by number, running
// jobs, or pending, failed and dead ones of a queue, as long as they are no more than options.Scan. A bound of Finished leaves
// out whole days. Everything else (kind, tags, payload, …) is looked for.
//
// The error is a [*ValidationError], [ErrSchema], or Postgres's.
func (i *Inspector) List(ctx context.Context, filter Filter, options ListOptions) (*JobPage, error) {
	page, err := i.list(ctx, &filter, options)
	if err != nil {
		return nil, fmt.Errorf("list jobs: %w", explained(err))
	}
	return page, nil
}

// All yields every job that matches filter, page after page, and an error at most, as the last thing. options.Limit is the
// size of the pages, 200 by default, and options.Cursor where to begin.
func (i *Inspector) All(ctx context.Context, filter Filter, options ListOptions) iter.Seq2[*JobSummary, error] {
	return func(yield func(*JobSummary, error) bool) {
		if options.Limit == 0 {
			options.Limit = 200
		}
		for {
			page, err := i.List(ctx, filter, options)
			if err != nil {
				yield(nil, err)
				return
			}
			for n := range page.Jobs {
				if !yield(&page.Jobs[n], nil) {
					return
				}
			}
			if options.Cursor = page.Next; options.Cursor == "" {
				return
			}
		}
	}
}

func (i *Inspector) list(ctx context.Context, filter *Filter, options ListOptions) (*JobPage, error) {
	if err := runsOn(i.q); err != nil {
		return nil, err
	}
	stored, err := filter.check()
	if err != nil {
		return nil, err
	}
	if err := options.check(filter); err != nil {
		return nil, err
	}
	digest, err := filter.digest()
	if err != nil {
		return nil, err
	}
	from := cursor{order: options.Order, filter: digest}
	ask := &jobstore.ListQuery{
		Filter: *stored, By: options.Order.by(), Ascending: options.Order.ascending(),
		Limit: options.Limit, Scan: max(options.Scan, options.Limit+1), Preview: options.Preview,
	}
	if options.Cursor != "" {
		if from, err = parseCursor(options.Cursor, options.Order, digest); err != nil {
			return nil, err
		}
		ask.After = &from.place
		ask.Ascending = ask.Ascending != from.back
	}
	found, err := i.fetch(ctx, filter, ask)
	if err != nil {
		return nil, err
	}
	return i.newPage(ctx, found, ask, from, options), nil
}

// fetch reads a page from an index that knows all of it, if there is one, or else by looking.
func (i *Inspector) fetch(ctx context.Context, filter *Filter, ask *jobstore.ListQuery) (*jobstore.Page, error) {
	if ask.By == jobstore.ByID && (filter.few() || filter.Queue != "" && filter.Kind != "" && filter.Key != "" && filter.only(JobPending, JobRunning)) {
		if found, err := i.store.ListFew(ctx, i.q, ask); err != nil || found != nil {
			return found, err
		}
	}
	return i.store.List(ctx, i.q, ask)
}

// newPage makes a page of what was found for from.
func (i *Inspector) newPage(ctx context.Context, found *jobstore.Page, ask *jobstore.ListQuery, from cursor, options ListOptions) *JobPage {
	rows, page := found.Rows, &JobPage{}
	var more *jobstore.Place // where to go on, in the direction in which we went
	switch {
	case len(rows) > ask.Limit:
		rows = rows[:ask.Limit]
		more = &rows[ask.Limit-1].Place
	case found.Last != nil:
		more, page.Short, page.Scanned = found.Last, true, found.Scanned
	}
	var first *jobstore.Place // from where to return
	switch {
	case len(rows) > 0:
		first = &rows[0].Place
	case ask.After != nil:
		back := around(*ask.After, !ask.Ascending)
		first = &back
	}
	ahead, behind := "", ""
	if more != nil {
		ahead = cursor{order: from.order, filter: from.filter, back: from.back, place: *more}.String()
	}
	if options.Cursor != "" && first != nil {
		behind = cursor{order: from.order, filter: from.filter, back: !from.back, place: *first}.String()
	}
	page.Next, page.Prev = ahead, behind
	if from.back {
		slices.Reverse(rows)
		page.Next, page.Prev = behind, ahead
	}
	page.Jobs = make([]JobSummary, len(rows))
	for n := range rows {
		page.Jobs[n] = i.summary(ctx, &rows[n], options.Preview)
	}
	return page
}

func (i *Inspector) summary(ctx context.Context, row *jobstore.Listed, preview int) JobSummary {
	job := JobSummary{
		JobInfo: infoOf(&row.Row), State: JobState(row.State), LeaseExpiresAt: row.LeaseExpiresAt, FinishedAt: row.FinishedAt,
		ClaimedBy: row.ClaimedBy, CancelWanted: row.Cancelling, ErrorCount: row.ErrorCount, LastCode: row.Code,
		LastMessage: i.client.codecs.showMessage(ctx, row.Kind, row.Message, maxListMessage),
		Payload:     Excerpt{Cut: true, Size: row.Stored},
	}
	if row.Shown != nil {
		job.Payload = i.listed(ctx, row, preview)
	}
	return job
}

// excerpt cuts text to limit bytes, and no character in two.
func excerpt(text string, size, limit int) Excerpt {
	if len(text) <= limit {
		return Excerpt{Text: text, Size: size}
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return Excerpt{Text: strings.Clone(text[:limit]), Cut: true, Size: size}
}

// check validates the options and puts the defaults in.
func (o *ListOptions) check(filter *Filter) error {
	if o.Order == "" {
		o.Order = OrderNewest
	}
	switch o.Order {
	case OrderNewest, OrderOldest:
	case OrderLatestEnded, OrderFirstEnded:
		if !filter.only(JobFailed, JobDead) {
			return invalid("options.order", fmt.Sprintf("%s is for failed and dead jobs: filter.states must name no others", o.Order))
		}
	case OrderNextDue:
		if !filter.only(JobPending) || filter.Queue == "" {
			return invalid("options.order", fmt.Sprintf("%s is for the pending jobs of one queue: filter.states and filter.queue must say so", o.Order))
		}
	default:
		return invalid("options.order", fmt.Sprintf("is none: %q", string(o.Order)))
	}
	for _, number := range []struct {
		field             string
		value             *int
		fallback, highest int
	}{
		{"limit", &o.Limit, DefaultListLimit, MaxListLimit},
		{"scan", &o.Scan, DefaultListScan, MaxListScan},
		{"preview", &o.Preview, DefaultListPreview, MaxListPreview},
	} {
		switch {
		case *number.value == 0:
			*number.value = number.fallback
		case *number.value < 0 && number.value == &o.Preview:
			*number.value = 0
		case *number.value < 0 || *number.value > number.highest:
			return invalid("options."+number.field, fmt.Sprintf("must be from 1 to %d, is %d", number.highest, *number.value))
		}
	}
	return nil
}

// by is the order without its direction.
func (o ListOrder) by() jobstore.Order {
	switch o {
	case OrderLatestEnded, OrderFirstEnded:
		return jobstore.ByFinished
	case OrderNextDue:
		return jobstore.ByDue
	default:
		return jobstore.ByID
	}
}

// ascending tells whether the order begins with the smallest.
func (o ListOrder) ascending() bool {
	return o == OrderOldest || o == OrderFirstEnded || o == OrderNextDue
}
