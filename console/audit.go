package console

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/pgqueue/pgqueue/pgqueue"
)

func auditRoutes() []route {
	return []route{{http.MethodGet, "/audit", Viewer, showAudit}}
}

// auditJobs is how many of the jobs of an entry are linked to; the entry says how many there are.
const auditJobs = 5

// auditPage is the data of templates/audit.html.
type auditPage struct {
	Query   url.Values // what was asked for
	Actions []formChoice
	Rows    []auditRow
	Next    string // the address of the page behind this one; empty: there is none
	First   string // the address of the first page; empty: this is it
	Short   bool   // looking ended before the page was full
	Scanned int
}

// auditRow is an entry of the log.
type auditRow struct {
	pgqueue.AuditRecord
	Words string  // the action
	First []int64 // jobs
	More  int     // jobs beside First
	// Filter is what a bulk action was asked to act on, and JobsURL the list of what it matches now; empty: it cannot be told.
	Filter  []fact
	JobsURL string
}

// showAudit shows who did what, the latest first.
func showAudit(r *request) error {
	query := r.URL.Query()
	filter, err := parseAuditFilter(query)
	if err != nil {
		return err
	}
	log, err := r.inspector().AuditLog(r.Context(), filter, pgqueue.AuditOptions{Cursor: query.Get("cursor")})
	if err != nil {
		return err
	}
	page := &auditPage{Query: query, Actions: actionChoices(filter.Actions), Short: log.Short, Scanned: log.Scanned}
	for n := range log.Records {
		page.Rows = append(page.Rows, r.auditRow(&log.Records[n]))
	}
	if query.Get("cursor") == "" {
		r.live()
	} else {
		page.First = r.url("/audit", auditQuery(filter))
	}
	if log.Next != "" {
		next := auditQuery(filter) // with its times absolute: the cursor belongs to exactly this filter
		next.Set("cursor", log.Next)
		page.Next = r.url("/audit", next)
	}
	return r.page(http.StatusOK, "audit", "audit", "Audit log", page)
}

// parseAuditFilter reads a filter of the log: actor, action (repeatable), job, queue, kind, subject, via, role, from, to.
func parseAuditFilter(values url.Values) (pgqueue.AuditFilter, error) {
	filter := pgqueue.AuditFilter{
		Actor: values.Get("actor"), Queue: values.Get("queue"), Kind: values.Get("kind"), Subject: values.Get("subject"),
		Via: values.Get("via"), Role: values.Get("role"),
	}
	for _, action := range given(values["action"]) {
		filter.Actions = append(filter.Actions, pgqueue.Action(action))
	}
	var err error
	if filter.Job, err = numberIn(values, "job", jobID); err != nil {
		return filter, err
	}
	now := time.Now()
	if filter.Time.From, err = parseTime("from", values.Get("from"), now); err != nil {
		return filter, err
	}
	filter.Time.To, err = parseTime("to", values.Get("to"), now)
	return filter, err
}

// auditQuery writes a filter as parseAuditFilter reads it.
func auditQuery(filter pgqueue.AuditFilter) url.Values {
	values := url.Values{}
	for _, field := range []fact{
		{"actor", filter.Actor}, {"queue", filter.Queue}, {"kind", filter.Kind}, {"subject", filter.Subject}, {"via", filter.Via}, {"role", filter.Role},
	} {
		if field.Value != "" {
			values.Set(field.Label, field.Value)
		}
	}
	for _, action := range filter.Actions {
		values.Add("action", string(action))
	}
	if filter.Job != 0 {
		values.Set("job", strconv.FormatInt(filter.Job, 10))
	}
	for _, side := range []struct {
		name string
		at   time.Time
	}{{"from", filter.Time.From}, {"to", filter.Time.To}} {
		if !side.at.IsZero() {
			values.Set(side.name, side.at.UTC().Format(time.RFC3339Nano))
		}
	}
	return values
}

// auditRow is an entry with its addresses.
func (r *request) auditRow(record *pgqueue.AuditRecord) auditRow {
	row := auditRow{AuditRecord: *record, Words: actionWords(record.Action), First: record.Jobs[:min(len(record.Jobs), auditJobs)]}
	row.More = record.JobCount - len(row.First)
	if record.StoredFilter == nil {
		return row
	}
	stored, whole, ok := readStoredFilter(record.StoredFilter)
	if !ok {
		return row
	}
	filter, err := parseFilter(stored)
	if err != nil { // of a newer program, or written by hand
		return row
	}
	row.Filter = r.filterFacts(filter)
	if whole {
		row.JobsURL = r.url("/jobs", filterQuery(filter))
	} else {
		row.Filter = append(row.Filter, fact{"And", "more than the log keeps"})
	}
	return row
}

// readStoredFilter makes an address of a filter that the log keeps, whose members are the parameters of addresses. whole says that it is
// all of the filter: payloads are not kept, and of many numbers of jobs only a few.
func readStoredFilter(stored json.RawMessage) (values url.Values, whole, ok bool) {
	var members map[string]any
	decoder := json.NewDecoder(strings.NewReader(string(stored)))
	decoder.UseNumber()
	if decoder.Decode(&members) != nil {
		return nil, false, false
	}
	values, whole = url.Values{}, true
	ids := 0
	for name, member := range members {
		list, isList := member.([]any)
		if !isList {
			list = []any{member}
		}
		for _, value := range list {
			switch value := value.(type) {
			case string:
				values.Add(name, value)
			case json.Number:
				values.Add(name, value.String())
			default:
				return nil, false, false
			}
		}
		if name == "id" {
			ids = len(list)
		}
	}
	if kept := values.Get("payload"); kept != "" {
		values.Del("payload")
		whole = false
	}
	if all, given := members["ids"].(json.Number); given && all.String() != strconv.Itoa(ids) {
		whole = false
	}
	return values, whole, true
}

// actionChoices are the actions that the log knows.
func actionChoices(asked []pgqueue.Action) []formChoice {
	choices := []formChoice{{"", "any", len(asked) == 0}}
	for _, action := range []pgqueue.Action{
		pgqueue.ActionRetry, pgqueue.ActionRetryWith, pgqueue.ActionEdit, pgqueue.ActionCancel, pgqueue.ActionDelete, pgqueue.ActionPurge,
		pgqueue.ActionReschedule, pgqueue.ActionSetPriority, pgqueue.ActionSetMaxAttempts, pgqueue.ActionReleaseKey,
		pgqueue.ActionPause, pgqueue.ActionResume, pgqueue.ActionPauseKind, pgqueue.ActionResumeKind, pgqueue.ActionSetHistory,
		pgqueue.ActionEnqueue, pgqueue.ActionImport, pgqueue.ActionSchedulePut, pgqueue.ActionScheduleEnable,
		pgqueue.ActionScheduleDisable, pgqueue.ActionScheduleDelete, pgqueue.ActionScheduleTrigger,
	} {
		choices = append(choices, formChoice{string(action), actionWords(action), len(asked) == 1 && asked[0] == action})
	}
	return choices
}

// actionWords is an action as a person would say it.
func actionWords(action pgqueue.Action) string { return strings.ReplaceAll(string(action), "_", " ") }
