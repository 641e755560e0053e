package console

import (
	"net/http"
	"net/url"
	"slices"

	"github.com/pgqueue/pgqueue/pgqueue"
)

func attentionRoutes() []route {
	return []route{{http.MethodGet, "/attention", Viewer, showAttention}}
}

// attentionRows is how many groups of one state the page shows; there may be up to [pgqueue.MaxAttentionGroups].
const attentionRows = 100

// attentionPage is the data of templates/attention.html.
type attentionPage struct {
	Query    url.Values // what was asked for
	Sections []attentionSection
	More     bool // there are more failed and dead jobs than were looked at
	Narrowed bool // the filter leaves some out
}

// attentionSection is all groups of one state.
type attentionSection struct {
	State  pgqueue.JobState
	Title  string
	Hint   string
	Total  boundedCount
	Groups []attentionRow
	Hidden int // groups that are not shown
	// Retry and Delete ask before they act on all of that state.
	Retry, Delete string
}

// attentionRow is a group of jobs that failed in the same way.
type attentionRow struct {
	pgqueue.AttentionGroup
	JobsURL       string
	Retry, Delete string // empty: no filter finds just these
}

// showAttention shows what failed and died, in groups.
func showAttention(r *request) error {
	r.live()
	query := r.URL.Query()
	filter, err := parseFilter(query)
	if err != nil {
		return err
	}
	report, err := r.inspector().Attention(r.Context(), filter)
	if err != nil {
		return err
	}
	page := &attentionPage{Query: query, More: report.More, Narrowed: len(filterQuery(filter)) > 0}
	for _, section := range []attentionSection{
		{State: pgqueue.JobDead, Title: "Dead", Hint: "They failed as often as they may. Where the cause was a passing one, retry them."},
		{State: pgqueue.JobFailed, Title: "Failed", Hint: "Their handlers said that trying again is pointless. Mend the cause first, or delete them."},
	} {
		if len(filter.States) > 0 && !slices.Contains(filter.States, section.State) {
			continue
		}
		r.fillSection(&section, filter, report)
		page.Sections = append(page.Sections, section)
	}
	return r.page(http.StatusOK, "attention", "attention", "Needs attention", page)
}

// fillSection puts the groups of its state into a section.
func (r *request) fillSection(section *attentionSection, filter pgqueue.Filter, report *pgqueue.AttentionReport) {
	section.Total.More = report.More
	for _, group := range report.Groups {
		if group.State != section.State {
			continue
		}
		section.Total.N += group.N
		if len(section.Groups) == attentionRows {
			section.Hidden++
			continue
		}
		section.Groups = append(section.Groups, r.attentionRow(group, filter))
	}
	if report.More { // one more was looked at, to know that there are more
		section.Total.N = min(section.Total.N, pgqueue.MaxStatsCount)
	}
	all := filter
	all.States = []pgqueue.JobState{section.State}
	section.Retry, section.Delete = r.bulkURL(pgqueue.ActionRetry, all), r.bulkURL(pgqueue.ActionPurge, all)
}

// attentionRow is a group with its addresses. Those of the page's filter that say more than the group (times, tags) hold for its jobs, too.
func (r *request) attentionRow(group pgqueue.AttentionGroup, filter pgqueue.Filter) attentionRow {
	own := group.Filter()
	filter.States, filter.ErrorCode, filter.Kind, filter.Queue = own.States, own.ErrorCode, own.Kind, own.Queue
	list := filterQuery(filter)
	list.Set("order", string(pgqueue.OrderLatestEnded))
	row := attentionRow{AttentionGroup: group, JobsURL: r.url("/jobs", list)}
	if group.Code != "" { // without a code the filter would mean those with one, too
		row.Retry, row.Delete = r.bulkURL(pgqueue.ActionRetry, filter), r.bulkURL(pgqueue.ActionPurge, filter)
	}
	return row
}

// bulkURL is the address that asks before a bulk action.
func (r *request) bulkURL(action pgqueue.Action, filter pgqueue.Filter) string {
	query := filterQuery(filter)
	query.Set("action", string(action))
	return r.url("/bulk/confirm", query)
}
