package console

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pgqueue/pgqueue/pgqueue"
)

func jobRoutes() []route {
	return slices.Concat([]route{
		{http.MethodGet, "/jobs/find", Viewer, findJob},
		{http.MethodGet, "/jobs/{id}", Viewer, showJob},
		{http.MethodGet, "/jobs/{id}/download/{field}", Viewer, downloadJobField},
	}, jobActionRoutes())
}

// jobPeek is how much of a payload, metadata or result a page shows; the rest is a download.
const jobPeek = 64 << 10

// idText is the number of a job in an address.
func idText(id int64) string { return strconv.FormatInt(id, 10) }

// findJob answers the field for a job's number.
func findJob(r *request) error {
	id, err := jobID(r.URL.Query().Get("id"))
	if err != nil {
		return badRequest("The number of a job is a whole number, such as 17.")
	}
	return r.redirect("/jobs/"+idText(id), nil)
}

// jobPage is what job.html shows.
type jobPage struct {
	Job      *pgqueue.JobDetail
	State    string // as jobStanding has it
	Why      []string
	WhyTitle string
	WhyKind  string // of the notice
	Actions  []jobActionLink
	Timeline []jobEvent
	// Earlier is how many failed attempts are no longer stored.
	Earlier   int
	Documents []jobDocument
	Trace     jobTrace
	Links     jobLinks
	// People is what people did to it, the latest first; PeopleURL leads to all of that.
	People    []pgqueue.AuditRecord
	PeopleURL string
}

// jobPeople is how many entries of the audit log the page of a job shows.
const jobPeople = 10

// jobLinks lead to jobs that have something in common with this one.
type jobLinks struct{ Queue, Kind, Key, Code, Worker string }

// jobTrace is the trace in which the job was enqueued; empty: none.
type jobTrace struct{ ID, Span string }

// showJob shows all about one job: why it does not run comes first, then what can be done, then what has happened.
func showJob(r *request) error {
	id, err := r.id("id")
	if err != nil {
		return err
	}
	job, err := r.inspector().Peek(r.Context(), id, jobPeek)
	if err != nil {
		return gone(r, id, err)
	}
	reason, err := r.inspector().WhyNotRunning(r.Context(), id)
	if err != nil {
		if explain(err).status != http.StatusForbidden {
			return err
		}
		reason = "The console's database role may not ask why_not_running: docs/roles.md has the GRANTs of a viewer."
	}
	page := &jobPage{
		Job: job, State: jobStanding(job.State, job.RunAt, job.Failures, time.Now()),
		Timeline: jobTimeline(r, job), Earlier: max(0, job.ErrorCount-len(job.Failed)), Documents: jobDocuments(r, job), Links: newJobLinks(r, job),
	}
	if page.People, err = peopleOf(r, id); err != nil {
		return err
	}
	page.PeopleURL = r.url("/audit", url.Values{"job": {idText(id)}})
	if job.Metadata != nil {
		page.Trace = traceOf(r, job)
	}
	if r.can(Operator) {
		page.Actions = jobActionLinks(r, job)
	}
	page.WhyTitle, page.WhyKind = whyHeading(job, reason)
	page.Why = strings.Split(r.shownReason(job, reason), "\n")
	r.live()
	return r.page(http.StatusOK, "job", "jobs", "Job "+idText(id), page)
}

// peopleOf is what people did to a job, as far as it may be read.
func peopleOf(r *request, id int64) ([]pgqueue.AuditRecord, error) {
	log, err := r.inspector().AuditLog(r.Context(), pgqueue.AuditFilter{Job: id}, pgqueue.AuditOptions{Limit: jobPeople})
	if err != nil {
		if status := explain(err).status; status == http.StatusForbidden || status == http.StatusServiceUnavailable {
			return nil, nil // a role that may not, or tables that are older than the log
		}
		return nil, err
	}
	return log.Records, nil
}

// gone explains why there is no job of a number: what the database knows about it is more than "not found".
func gone(r *request, id int64, err error) error {
	known := explain(err)
	if known.status != http.StatusNotFound {
		return err
	}
	reason, whyErr := r.inspector().WhyNotRunning(r.Context(), id)
	if whyErr != nil {
		return err
	}
	return notFound(reason)
}

// whyHeading says what the reason is about, and how serious it is.
func whyHeading(job *pgqueue.JobDetail, reason string) (title, kind string) {
	switch job.State {
	case pgqueue.JobRunning:
		if strings.Contains(reason, "its lease ran out") || strings.Contains(reason, "cannot be written now") {
			return "It is running, and something is wrong", "error"
		}
		return "It is running", "info"
	case pgqueue.JobSucceeded:
		return "It has succeeded", "success"
	case pgqueue.JobCancelled:
		return "It was cancelled", "info"
	case pgqueue.JobFailed:
		return "It has failed", "error"
	case pgqueue.JobDead:
		return "It is dead", "error"
	default:
		if strings.Contains(reason, " does not run, because ") {
			return "Why it is not running", "warning"
		}
		return "Why it is not running", "info"
	}
}

// errorWords are what the database writes before the last error of a job, in the reason why it does not run.
func errorWords() []string { return []string{"with the error ", "the last error was "} }

// shownReason is what may be shown of the reason. It quotes the last error; where messages are redacted, one that is not known to be
// the redacted one is cut off, with all behind it.
func (r *request) shownReason(job *pgqueue.JobDetail, reason string) string {
	if r.console.config.Redact == nil {
		return reason
	}
	var last string
	if n := len(job.Failed); n > 0 {
		failed := job.Failed[n-1]
		last = failed.Code
		if failed.Message != "" {
			shown := r.shownMessage(aboutJob(job, "message"), failed.Message)
			last += ": " + shown
			reason = strings.Replace(reason, failed.Code+": "+failed.Message, last, 1)
		}
	}
	for _, words := range errorWords() {
		before, after, ok := strings.Cut(reason, words)
		if ok && (last == "" || !strings.HasPrefix(after, last)) {
			return before + words + withheld
		}
	}
	return reason
}

// aboutJob is what a RedactFunc is told about a value of a job.
func aboutJob(job *pgqueue.JobDetail, field string) Redaction {
	return Redaction{JobID: job.ID, Kind: job.Kind, Queue: job.Queue, Field: field}
}

func newJobLinks(r *request, job *pgqueue.JobDetail) jobLinks {
	to := func(values url.Values) string { return r.url("/jobs", values) }
	links := jobLinks{Queue: r.url("/queues/"+segment(job.Queue), nil), Kind: to(url.Values{"queue": {job.Queue}, "kind": {job.Kind}})}
	if job.Key != "" {
		links.Key = to(url.Values{"queue": {job.Queue}, "kind": {job.Kind}, "key": {job.Key}})
	}
	if job.ClaimedBy != "" {
		links.Worker = to(url.Values{"worker": {job.ClaimedBy}})
	}
	if n := len(job.Failed); n > 0 && job.Failed[n-1].Code != "" {
		links.Code = to(url.Values{"kind": {job.Kind}, "code": {job.Failed[n-1].Code}})
	}
	return links
}
