package pgqueue

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/pgqueue/pgqueue/pgqueue/internal/jobstore"
)

// JobDetail is a job with its attempts: all that is stored about it.
type JobDetail struct {
	JobStatus
	// Attempts are those that are known, oldest first: the last ten that failed, the one that runs, and the one that ended
	// the job. Those that were given back at no cost (a snooze, a stop) leave a gap in the numbers.
	Attempts []Attempt
	// Progress is what the handler of a live job has said last; nil: nothing, or it may not be read here, see docs/roles.md. Where it is
	// stored encoded and cannot be read, its value is the stored form, and [JobStatus].Sealed says so.
	Progress *Progress
	// Cut is for [Inspector.Peek]: the beginning of what was too large, by "payload", "metadata" and "result". The field
	// of the same name is nil then.
	Cut map[string]Excerpt
}

// Version is the version of the job, for [IfVersion].
func (j *JobDetail) Version() Version { return Version{Attempt: j.Attempt, Generation: j.Generation} }

// AttemptState is how an attempt stands.
type AttemptState string

// The states of attempts.
const (
	AttemptRunning   AttemptState = "running"
	AttemptFailed    AttemptState = "failed" // also one whose worker died; its code says so
	AttemptSucceeded AttemptState = "succeeded"
	AttemptCancelled AttemptState = "cancelled"
)

// Attempt is one attempt at a job. All times are the database's.
type Attempt struct {
	Number int
	State  AttemptState
	Worker string
	// StartedAt is when the job was claimed; zero for a failed attempt of before schema version 3. EndedAt is when its
	// outcome was written; zero while it runs.
	StartedAt, EndedAt time.Time
	Code               string // of a failed one
	Message            string // what was marked as safe to store, or the error's Go type
}

// Get reads one job, live or finished, with its attempts and everything else. Where there is none, or no longer one, it
// returns [ErrNotFound]. Digits of numbers in Payload, Metadata and Result are as they were enqueued: decode them into
// types that hold them, or with json.Decoder.UseNumber.
func (i *Inspector) Get(ctx context.Context, id int64) (*JobDetail, error) {
	status, err := i.client.Get(ctx, i.q, id)
	if err != nil {
		return nil, explained(err)
	}
	detail := &JobDetail{JobStatus: *status, Attempts: attemptsOf(status)}
	i.addProgress(ctx, detail)
	return detail, nil
}

// Peek is [Inspector.Get] for a page that must not become large: where payload, metadata or result have more than limit
// bytes, it reads no more than that of them and leaves it in [JobDetail].Cut. Messages of attempts are cut to 2,048
// characters, which is all that pgqueue itself stores.
func (i *Inspector) Peek(ctx context.Context, id int64, limit int) (*JobDetail, error) {
	if err := runsOn(i.q); err != nil {
		return nil, fmt.Errorf("peek at job %d: %w", id, err)
	}
	if limit < 0 || limit > largestMaxPayload {
		return nil, fmt.Errorf("peek at job %d: %w", id, invalid("limit", fmt.Sprintf("must be from 0 to %d bytes, is %d", largestMaxPayload, limit)))
	}
	record, sizes, err := i.store.Peek(ctx, i.q, id, limit, i.peekSealed(limit))
	if err != nil {
		return nil, explained(err)
	}
	if record == nil {
		return nil, fmt.Errorf("peek at job %d: %w", id, ErrNotFound)
	}
	cut := map[string]*Sealed{}
	i.openPeeked(ctx, record, &sizes, limit, cut)
	job := &JobDetail{JobStatus: *i.client.statusOf(ctx, record)}
	job.Attempts = attemptsOf(&job.JobStatus)
	i.addProgress(ctx, job)
	for _, column := range []struct {
		name string
		text *json.RawMessage
		size int
	}{{"payload", &job.Payload, sizes.Payload}, {"metadata", &job.Metadata, sizes.Metadata}, {"result", &job.Result, sizes.Result}} {
		if column.size <= limit {
			continue
		}
		if job.Cut == nil {
			job.Cut = map[string]Excerpt{}
		}
		beginning := excerpt(string(*column.text), column.size, limit)
		beginning.Cut, beginning.Sealed = true, cut[column.name]
		job.Cut[column.name], *column.text = beginning, nil
	}
	return job, nil
}

// WhyNotRunning says in words why a job does not run: it is not due yet, its queue is paused, no live worker knows its kind,
// somebody has locked its row, it has finished, and so on. Where there is no such job, it returns [ErrNotFound]. The same
// from SQL: SELECT pgqueue.why_not_running(17).
func (i *Inspector) WhyNotRunning(ctx context.Context, id int64) (string, error) {
	if err := runsOn(i.q); err != nil {
		return "", fmt.Errorf("why is job %d not running: %w", id, err)
	}
	reason, err := i.store.WhyNotRunning(ctx, i.q, id)
	if err != nil {
		return "", explained(err)
	}
	if reason == "" {
		return "", fmt.Errorf("why is job %d not running: %w", id, ErrNotFound)
	}
	return reason, nil
}

// attemptsOf puts the attempts of a job together from where they are stored.
func attemptsOf(job *JobStatus) []Attempt {
	attempts := make([]Attempt, 0, len(job.Failed)+1)
	latest := 0 // of those that failed
	for _, failed := range job.Failed {
		attempts = append(attempts, Attempt{
			Number: failed.Attempt, State: AttemptFailed, Worker: failed.By, StartedAt: failed.Started, EndedAt: failed.At,
			Code: failed.Code, Message: failed.Message,
		})
		latest = failed.Attempt
	}
	last := Attempt{Number: job.Attempt, Worker: job.ClaimedBy, StartedAt: job.ClaimedAt, EndedAt: job.FinishedAt}
	switch {
	case job.State == JobRunning:
		last.State = AttemptRunning
	case job.State == JobSucceeded && !job.ClaimedAt.IsZero(): // also after its lease had run out, which failed
		last.State = AttemptSucceeded
	case job.State == JobCancelled && !job.ClaimedAt.IsZero() && latest < job.Attempt:
		last.State = AttemptCancelled
	default:
		return attempts
	}
	return append(attempts, last)
}

// statusOf is a record as the API shows it.
func (c *Client) statusOf(ctx context.Context, record *jobstore.Record) *JobStatus {
	status := &JobStatus{
		JobInfo: infoOf(&record.Row), State: JobState(record.State), LeaseExpiresAt: record.LeaseExpiresAt, FinishedAt: record.FinishedAt,
		ClaimedBy: record.ClaimedBy, CancelWanted: record.Cancelling, Payload: record.Payload, Result: record.Result,
		ErrorCount: record.ErrorCount,
	}
	for _, failed := range record.Errors {
		failed.Message = c.codecs.showMessage(ctx, record.Kind, failed.Message, 0)
		status.Failed = append(status.Failed, FailedAttempt(failed))
	}
	status.show(ctx, c.codecs)
	return status
}
