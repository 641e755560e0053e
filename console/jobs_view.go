package console

import (
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// jobsTab is a choice of states above the list.
type jobsTab struct {
	Title   string
	Address string
	Current bool
	Count   string // empty: not counted
}

// jobsTabs are all jobs, and those of each state.
func jobsTabs(r *request, filter pgqueue.Filter, counts *pgqueue.JobCounts) []jobsTab {
	choices := []struct {
		title  string
		states []pgqueue.JobState
	}{
		{"All", nil}, {"Pending", []pgqueue.JobState{pgqueue.JobPending}}, {"Running", []pgqueue.JobState{pgqueue.JobRunning}},
		{"Failed", []pgqueue.JobState{pgqueue.JobFailed}}, {"Dead", []pgqueue.JobState{pgqueue.JobDead}},
		{"Succeeded", []pgqueue.JobState{pgqueue.JobSucceeded}}, {"Cancelled", []pgqueue.JobState{pgqueue.JobCancelled}},
	}
	base := r.URL.Query()
	for _, name := range []string{"state", "cursor", "done", jobsOrderParam} { // an order may be for some states alone
		base.Del(name)
	}
	tabs := make([]jobsTab, 0, len(choices))
	for _, choice := range choices {
		values := without(base, "", "")
		for _, state := range choice.states {
			values.Add("state", string(state))
		}
		tab := jobsTab{Title: choice.title, Address: r.url("/jobs", values), Current: slices.Equal(filter.States, choice.states)}
		switch {
		case counts == nil:
		case len(choice.states) == 0:
			tab.Count = boundedCount{counts.Total}.String()
		default:
			tab.Count = boundedCount{counts.ByState[choice.states[0]]}.String()
		}
		tabs = append(tabs, tab)
	}
	return tabs
}

// jobsOrder is a choice of the order.
type jobsOrder struct {
	Name, Title string
	Current     bool
}

// jobsOrders are the orders that the filter allows.
func jobsOrders(filter pgqueue.Filter, current pgqueue.ListOrder) []jobsOrder {
	only := func(states ...pgqueue.JobState) bool {
		return len(filter.States) > 0 && !slices.ContainsFunc(filter.States, func(s pgqueue.JobState) bool { return !slices.Contains(states, s) })
	}
	orders := []jobsOrder{{Name: string(pgqueue.OrderNewest), Title: "Newest first"}, {Name: string(pgqueue.OrderOldest), Title: "Oldest first"}}
	if only(pgqueue.JobFailed, pgqueue.JobDead) {
		orders = append(orders, jobsOrder{Name: string(pgqueue.OrderLatestEnded), Title: "Latest ended first"},
			jobsOrder{Name: string(pgqueue.OrderFirstEnded), Title: "First ended first"})
	}
	if only(pgqueue.JobPending) && filter.Queue != "" {
		orders = append(orders, jobsOrder{Name: string(pgqueue.OrderNextDue), Title: "As they will be claimed"})
	}
	for n := range orders {
		orders[n].Current = orders[n].Name == string(current)
	}
	return orders
}

// filterTerm is one condition of the filter, with the address of the list without it.
type filterTerm struct{ Name, Value, Without string }

// filterTerms are the conditions in the address, but for the state, which has its tabs.
func filterTerms(r *request, values url.Values) []filterTerm {
	var terms []filterTerm
	base := without(values, "cursor", "")
	base.Del("done")
	for _, name := range []string{
		"queue", "kind", "key", "tag", "priority", "code", "worker", "id", "min_id", "max_id", "payload", "payload_path", "payload_value",
		"created_from", "created_to", "finished_from", "finished_to", "due_from", "due_to",
	} {
		for n, value := range given(values[name]) {
			if n == 10 { // ten thousand ids make no better sentence
				terms = append(terms, filterTerm{Name: name, Value: "and more", Without: r.url("/jobs", without(base, name, ""))})
				break
			}
			terms = append(terms, filterTerm{Name: strings.ReplaceAll(name, "_", " "), Value: shortened(value, 80), Without: r.url("/jobs", without(base, name, value))})
		}
	}
	return terms
}

// jobsBulk is a bulk action on all that match.
type jobsBulk struct{ Title, Address string }

// jobsBulks are the bulk actions that make sense for the states of the filter.
func jobsBulks(r *request, filter pgqueue.Filter) []jobsBulk {
	var offered []jobsBulk
	for _, kind := range bulkKinds() {
		if kind.Name == pgqueue.ActionPurge { // what Delete does, to what has ended
			continue
		}
		if len(filter.States) > 0 && !slices.ContainsFunc(filter.States, func(s pgqueue.JobState) bool { return slices.Contains(kind.can, s) }) {
			continue
		}
		values := filterQuery(filter)
		values.Set("action", string(kind.Name))
		offered = append(offered, jobsBulk{Title: kind.Verb, Address: r.url("/bulk/confirm", values)})
	}
	return offered
}

// jobRow is a job on a line of a list. It holds no more of a job than a line bears, whatever the job holds.
type jobRow struct {
	ID          int64
	Address     string
	Queue, Kind string
	QueueURL    string
	State       string // as jobStanding has it
	Key         string
	Tags        []string
	MoreTags    int
	Priority    int
	Attempt     int
	Failures    int
	MaxAttempts int
	When        time.Time
	WhenWord    string // what happened, or will, then
	Stopping    bool   // it runs and was asked to stop
	Code        string
	Message     string
	Payload     pgqueue.Excerpt
}

func newJobRow(r *request, job *pgqueue.JobSummary) jobRow {
	about := Redaction{JobID: job.ID, Kind: job.Kind, Queue: job.Queue, Field: "payload"}
	row := jobRow{
		ID: job.ID, Address: r.url("/jobs/"+idText(job.ID), nil), Queue: job.Queue, Kind: job.Kind, QueueURL: r.url("/queues/"+segment(job.Queue), nil),
		State: jobStanding(job.State, job.RunAt, job.Failures, time.Now()), Key: shortened(job.Key, listKeyRunes),
		Priority: job.Priority, Attempt: job.Attempt, Failures: job.Failures, MaxAttempts: job.MaxAttempts, Stopping: job.CancelWanted,
		Code: job.LastCode, Message: shortened(r.shownMessage(about, job.LastMessage), listMessage), Payload: r.shownExcerpt(about, job.Payload),
	}
	if len(row.Payload.Text) > listPreview { // what was encoded is read whole, and what is redacted may have grown
		row.Payload = cut(row.Payload.Text, row.Payload.Size, listPreview)
	}
	for n, tag := range job.Tags {
		if n == listTags {
			row.MoreTags = len(job.Tags) - n
			break
		}
		row.Tags = append(row.Tags, shortened(tag, listTagRunes))
	}
	switch {
	case !job.FinishedAt.IsZero():
		row.When, row.WhenWord = job.FinishedAt, "ended"
	case job.State == pgqueue.JobRunning:
		row.When, row.WhenWord = job.ClaimedAt, "started"
	default:
		row.When, row.WhenWord = job.RunAt, "due"
	}
	return row
}

// jobStanding is the state of a job in a word more exact than its state: a pending one is scheduled, or waits to be tried again.
func jobStanding(state pgqueue.JobState, runAt time.Time, failures int, now time.Time) string {
	switch {
	case state != pgqueue.JobPending:
		return string(state)
	case failures > 0:
		return "retrying"
	case runAt.After(now):
		return "scheduled"
	default:
		return string(state)
	}
}

// shortened is a text of at most so many characters.
func shortened(text string, most int) string {
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most-1]) + "…"
}
