package console

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// jobDocument is a value of a job that is JSON.
type jobDocument struct {
	Title    string
	Field    string
	Text     pgqueue.Excerpt
	Note     string
	Download string // address of the whole; empty: it is shown whole
	Open     bool
}

// jobDocuments are payload, result, progress and metadata, as far as there are any.
func jobDocuments(r *request, job *pgqueue.JobDetail) []jobDocument {
	documents := []jobDocument{
		{Title: "Payload", Field: "payload", Text: jobValue(r, job, "payload", job.Payload), Open: true},
	}
	if job.Result != nil || job.Cut["result"].Size > 0 {
		documents = append(documents, jobDocument{Title: "Result", Field: "result", Text: jobValue(r, job, "result", job.Result), Open: true})
	}
	if job.Progress != nil {
		documents = append(documents, jobDocument{
			Title: "Progress", Field: "progress", Text: jobValue(r, job, "progress", job.Progress.Value), Open: true,
			Note: "What its handler said last, in attempt " + idText(int64(job.Progress.Attempt)) + ", " + job.Progress.UpdatedAt.UTC().Format("2006-01-02 15:04:05 UTC") + ".",
		})
	}
	if text := strings.TrimSpace(string(job.Metadata)); text != "" && text != "{}" || job.Cut["metadata"].Size > 0 {
		documents = append(documents, jobDocument{Title: "Metadata", Field: "metadata", Text: jobValue(r, job, "metadata", job.Metadata)})
	}
	for n := range documents {
		document := &documents[n]
		if sealed, ok := job.Sealed[document.Field]; ok {
			document.Note = "Stored " + sealed.String() + "."
		} else if document.Text.Sealed != nil {
			document.Note = "Stored " + document.Text.Sealed.String() + "."
		}
		if document.Field != "progress" {
			document.Download = r.url("/jobs/"+idText(job.ID)+"/download/"+document.Field, nil)
		}
	}
	return documents
}

// jobValue is what may be shown of a value: of one that Peek has cut, its beginning.
func jobValue(r *request, job *pgqueue.JobDetail, field string, value json.RawMessage) pgqueue.Excerpt {
	if part, ok := job.Cut[field]; ok {
		return r.shownExcerpt(aboutJob(job, field), part)
	}
	if sealed, ok := job.Sealed[field]; ok {
		shown := pgqueue.Excerpt{Text: string(value), Size: len(value), Sealed: &sealed}
		return r.shownExcerpt(aboutJob(job, field), shown)
	}
	return r.shown(aboutJob(job, field), value, jobPeek)
}

// downloadTime is how long a download may take.
const downloadTime = 5 * time.Minute

// downloadJobField sends a payload, result or metadata whole, as the one who asks may see it, digit by digit as it is stored.
func downloadJobField(r *request) error {
	id, err := r.id("id")
	if err != nil {
		return err
	}
	field := r.PathValue("field")
	if field != "payload" && field != "result" && field != "metadata" {
		return notFound("There is no such part of a job.")
	}
	r.allow(downloadTime)
	job, err := r.inspector().Get(r.Context(), id)
	if err != nil {
		return err
	}
	value := map[string]json.RawMessage{"payload": job.Payload, "result": job.Result, "metadata": job.Metadata}[field]
	if value == nil {
		return notFound("The job has no " + field + ".")
	}
	if _, sealed := job.Sealed[field]; sealed && r.console.config.Redact != nil {
		return &httpError{status: http.StatusForbidden, text: "It is stored encoded and cannot be read here, so nothing can say what of it may be shown."}
	}
	return r.download("job-"+idText(id)+"-"+field+".json", "application/json", r.redacted(aboutJob(job, field), value))
}

// traceOf reads the trace from the metadata, where W3C Trace Context is kept (docs/tracing.md): 00-<trace>-<span>-<flags>.
func traceOf(r *request, job *pgqueue.JobDetail) jobTrace {
	var carried struct {
		Parent string `json:"traceparent"`
	}
	if json.Unmarshal(r.redacted(aboutJob(job, "metadata"), job.Metadata), &carried) != nil {
		return jobTrace{}
	}
	parts := strings.Split(carried.Parent, "-")
	if len(parts) < 4 || len(parts[1]) != 32 || len(parts[2]) != 16 || !isHex(parts[1]) || !isHex(parts[2]) {
		return jobTrace{}
	}
	return jobTrace{ID: parts[1], Span: parts[2]}
}

func isHex(text string) bool {
	return strings.Trim(text, "0123456789abcdef") == ""
}
