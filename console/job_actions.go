package console

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/pgqueue/pgqueue/internal/jsontext"
	"github.com/pgqueue/pgqueue/pgqueue"
)

// jobAction is something that can be done to one job. Its name stands in the addresses: GET /jobs/{id}/confirm/<name> asks, and POST
// /jobs/{id}/<name> does it.
type jobAction struct {
	name   string
	title  string // of the page: "Retry job 17" is title and number
	verb   string // of the button
	hint   string // what becomes of the job, in a sentence
	states []pgqueue.JobState
	danger bool
	edits  bool // it takes a payload
	do     func(r *request, id int64, version pgqueue.Version) error
}

// jobActions are all actions, in the order in which the page offers them.
func jobActions() []*jobAction {
	live := []pgqueue.JobState{pgqueue.JobPending, pgqueue.JobRunning}
	bad := []pgqueue.JobState{pgqueue.JobFailed, pgqueue.JobDead}
	kept := slices.Concat(live, bad)
	return []*jobAction{
		{
			name: "retry", title: "Retry", verb: "Retry", states: bad, do: retryJob,
			hint: "It becomes pending and due now, with its full number of attempts. Its errors so far stay on record.",
		}, {
			name: "edit-and-retry", title: "Edit and retry", verb: "Retry with this payload", states: bad, edits: true, do: retryJobWith,
			hint: "It becomes pending and due now, with another payload and its full number of attempts.",
		}, {
			name: "reschedule", title: "Run now or later:", verb: "Reschedule", states: []pgqueue.JobState{pgqueue.JobPending}, do: rescheduleJob,
			hint: "It becomes due at another time. Nothing counts as an attempt.",
		}, {
			name: "cancel", title: "Cancel", verb: "Cancel the job", states: live, do: cancelJob,
			hint: "A pending job ends as cancelled. A running one is asked to stop: it ends when its handler heeds that.",
		}, {
			name: "edit", title: "Edit the payload of", verb: "Replace the payload", states: live, edits: true, do: editJob,
			hint: "It gets a new payload and its full number of attempts. Due time, key and tags stay. If it runs, that run counts for nothing and it runs again.",
		}, {
			name: "priority", title: "Change the priority of", verb: "Change priority", states: kept, do: prioritizeJob,
			hint: "Jobs of a smaller number are claimed first. A running job keeps it for its next attempt.",
		}, {
			name: "max-attempts", title: "Change the attempts of", verb: "Change attempts", states: kept, do: setJobAttempts,
			hint: "How many attempts may fail before it is dead.",
		}, {
			name: "delete", title: "Delete", verb: "Delete the job", danger: true, do: deleteJob,
			states: []pgqueue.JobState{pgqueue.JobPending, pgqueue.JobRunning, pgqueue.JobSucceeded, pgqueue.JobFailed, pgqueue.JobDead, pgqueue.JobCancelled},
			hint:   "It is gone, with its payload, result and errors. Nothing brings it back.",
		},
	}
}

// takes tells whether the action can be done to a job in that state.
func (a *jobAction) takes(state pgqueue.JobState) bool { return slices.Contains(a.states, state) }

func jobActionOf(name string) (*jobAction, bool) {
	for _, action := range jobActions() {
		if action.name == name {
			return action, true
		}
	}
	return nil, false
}

func jobActionRoutes() []route {
	routes := []route{{http.MethodGet, "/jobs/{id}/confirm/{action}", Operator, confirmJobAction}}
	for _, action := range jobActions() {
		routes = append(routes, route{http.MethodPost, "/jobs/{id}/" + action.name, Operator, func(r *request) error { return runJobAction(r, action) }})
	}
	return routes
}

// jobActionLink is an action as the page of a job offers it.
type jobActionLink struct {
	Title, Hint, Address string
	Primary, Danger      bool
}

// jobActionLinks are those that can be done to the job as it is.
func jobActionLinks(r *request, job *pgqueue.JobDetail) []jobActionLink {
	var links []jobActionLink
	for _, action := range jobActions() {
		if !action.takes(job.State) {
			continue
		}
		titles := map[string]string{
			"reschedule": "Run now or later", "edit": "Edit payload", "priority": "Priority", "max-attempts": "Attempts", "cancel": "Cancel", "delete": "Delete",
		}
		title, ok := titles[action.name]
		if !ok {
			title = action.title
		}
		if action.name == "cancel" && job.State == pgqueue.JobRunning {
			title = "Ask to stop"
		}
		links = append(links, jobActionLink{
			Title: title, Hint: action.hint, Address: r.url("/jobs/"+idText(job.ID)+"/confirm/"+action.name, nil),
			Primary: len(links) == 0 && !action.danger, Danger: action.danger,
		})
	}
	return links
}

// jobConfirm is what job_confirm.html shows.
type jobConfirm struct {
	Job           *pgqueue.JobDetail
	State         string
	Action        string
	Title         string
	Verb          string
	Hint          string
	Danger        bool
	Edits         bool
	Post, Back    string
	Version       string
	Payload       string // of Edits, to begin with
	PayloadReason string // why there is none to begin with
	Priorities    []int
	// Problem is why what was typed into Typed, the fields of the form, was refused.
	Problem string
	Typed   url.Values
	// Changed says that the payload was replaced meanwhile: Current is the one that the form is about now.
	Changed bool
	Current string
}

// Due, Priority and MaxAttempts are what the fields hold: what was typed, or how it is.
func (p *jobConfirm) Due() string      { return p.typed("due", "now") }
func (p *jobConfirm) Priority() string { return p.typed("priority", strconv.Itoa(p.Job.Priority)) }
func (p *jobConfirm) MaxAttempts() string {
	return p.typed("max_attempts", strconv.Itoa(p.Job.MaxAttempts))
}

func (p *jobConfirm) typed(field, otherwise string) string {
	if p.Typed.Has(field) {
		return p.Typed.Get(field)
	}
	return otherwise
}

// confirmJobAction asks before an action.
func confirmJobAction(r *request) error {
	id, err := r.id("id")
	if err != nil {
		return err
	}
	action, ok := jobActionOf(r.PathValue("action"))
	if !ok {
		return notFound("There is no such action.")
	}
	return askForJobAction(r, id, action, nil, nil)
}

// askForJobAction shows the form of an action: anew, or again with what was typed into it and why that was refused. The form then is still
// about the job as it was seen when it was made; only where a payload was replaced meanwhile, which the page shows, is it about that one.
func askForJobAction(r *request, id int64, action *jobAction, refused error, typed url.Values) error {
	limit := 0
	if action.edits {
		limit = pgqueue.DefaultMaxPayload
	}
	job, err := r.inspector().Peek(r.Context(), id, limit)
	if err != nil && refused != nil {
		return refused
	} else if err != nil {
		return gone(r, id, err)
	}
	if !action.takes(job.State) {
		if refused != nil && explain(refused).status != http.StatusBadRequest {
			return jobConflict(r, id, refused)
		}
		return jobConflict(r, id, conflict("Job "+idText(id)+" is "+string(job.State)+": "+action.verb+" is for jobs that are "+stateWords(action.states)+"."))
	}
	page := &jobConfirm{
		Job: job, State: string(job.State), Action: action.name, Title: action.title + " job " + idText(id), Verb: action.verb, Hint: action.hint,
		Danger: action.danger, Edits: action.edits, Post: r.url("/jobs/"+idText(id)+"/"+action.name, nil), Back: r.url("/jobs/"+idText(id), nil),
		Version: job.Version().String(), Priorities: []int{1, 2, 3, 4},
	}
	if action.edits {
		page.Payload, page.PayloadReason = editablePayload(r, job)
	}
	if refused == nil {
		return r.page(http.StatusOK, "job_confirm", "jobs", page.Title, page)
	}
	known := explain(refused)
	page.Problem, page.Typed = strings.TrimSuffix(known.text, "."), typed
	if known.status == http.StatusConflict {
		page.Changed, page.Current = true, page.Payload
	} else {
		page.Version, page.State = typed.Get("version"), page.typed("state", page.State)
	}
	page.Payload = page.typed("payload", page.Payload)
	return r.page(known.status, "job_confirm", "jobs", page.Title, page)
}

// editablePayload is the payload for a text field. Where not all of it may be shown, or can be read, the field begins empty: what is sent is
// all that the job gets, and nobody may send back what stands there instead of a secret.
func editablePayload(r *request, job *pgqueue.JobDetail) (text, reason string) {
	if part, ok := job.Cut["payload"]; ok {
		size, err := bytesText(part.Size)
		if err != nil {
			size = "too much"
		}
		return "", "The payload is too large for a form (" + size + "). What you write replaces all of it; `pgqueue jobs edit` takes a file."
	}
	if sealed, ok := job.Sealed["payload"]; ok {
		return "", "The payload is " + sealed.String() + ". What you write replaces all of it."
	}
	if !sameJSON(r.redacted(aboutJob(job, "payload"), job.Payload), job.Payload) {
		return "", "Parts of the payload are not shown here. What you write replaces all of it."
	}
	return string(jsontext.Indent(job.Payload)), ""
}

// sameJSON tells whether two documents differ in nothing but blanks between their parts, which a RedactFunc may have changed.
func sameJSON(a, b json.RawMessage) bool {
	var compactA, compactB bytes.Buffer
	return json.Compact(&compactA, a) == nil && json.Compact(&compactB, b) == nil && bytes.Equal(compactA.Bytes(), compactB.Bytes())
}

// runJobAction does it, if the job still is what the one who asks has seen.
func runJobAction(r *request, action *jobAction) error {
	id, err := r.id("id")
	if err != nil {
		return err
	}
	version, err := pgqueue.ParseVersion(r.PostForm.Get("version"))
	if err != nil {
		return badRequest("The form does not say which version of the job it is about. Nothing was changed.")
	}
	if err := action.do(r, id, version); err != nil {
		changed, _ := errors.AsType[*pgqueue.ChangedError](err)
		switch {
		case errors.Is(err, pgqueue.ErrInvalid), action.edits && changed != nil: // nobody types a payload twice
			return askForJobAction(r, id, action, err, r.PostForm)
		case explain(err).status == http.StatusConflict:
			return jobConflict(r, id, err)
		}
		return err
	}
	done := url.Values{"done": {action.name}}
	if action.name == "delete" {
		return r.redirect("/jobs", done)
	}
	return r.redirect("/jobs/"+idText(id), done)
}

// jobConflictPage is what job_conflict.html shows.
type jobConflictPage struct {
	ID      int64
	Text    string
	Job     *pgqueue.JobDetail // as it is now; nil: not known
	State   string
	Address string
	Other   string // address of a job that is in the way
	OtherID int64
	Actions []jobActionLink
	Typed   string // the payload that was sent, so that it is not lost
}

// jobConflict answers 409: nothing was changed, why, and how the job is now.
func jobConflict(r *request, id int64, err error) error {
	known := explain(err)
	page := &jobConflictPage{ID: id, Text: known.text, Address: r.url("/jobs/"+idText(id), nil), Typed: r.PostForm.Get("payload")}
	if taken, ok := errors.AsType[*pgqueue.KeyTakenError](err); ok {
		page.Other, page.OtherID = r.url("/jobs/"+idText(taken.Other), nil), taken.Other
	}
	if job, err := r.inspector().Peek(r.Context(), id, 0); err == nil {
		page.Job, page.State, page.Actions = job, string(job.State), jobActionLinks(r, job)
	}
	status := http.StatusConflict
	if known.status == http.StatusForbidden { // a form that was too old besides
		status = known.status
	}
	return r.page(status, "job_conflict", "jobs", "Nothing was changed", page)
}
