package pgqueue

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/pgqueue/pgqueue/runner"
)

// MaxProgress is how large the progress of a job may be, in bytes of JSON.
const MaxProgress = 8 << 10

// Progress is what the handler of a job has said about how far it is.
type Progress struct {
	Value     json.RawMessage
	Attempt   int       // that said it
	UpdatedAt time.Time // by the database clock
}

// SetProgress says how far this attempt is, for others to read with [Client.Progress], and for a later attempt to go on from, see
// [Job.LastProgress]. It only takes a note, which costs about as much as encoding value, and may be called as often as you like: the
// worker writes the latest value at once if it has written nothing for a second, and else a second after the last time, for all of
// its jobs together. What was said last is written also when the attempt has failed. With the end of the job it is gone.
//
// value is written with encoding/json. What cannot be stored is a [*ValidationError], and what was said before stays: what is no
// JSON, holds NUL or bytes that are not UTF-8, or has more than 8 kB ([MaxProgress]). After the handler has returned it is
// [ErrHandlerReturned]. That it could not be written is logged, and no error of the job. In [Client.DrainTx] nothing is written.
func (j *Job[T]) SetProgress(value any) error {
	return j.attempt.setProgress(j.Context(), value)
}

// LastProgress reads what this job has said last, in an earlier attempt or in this one, as far as it was written: a handler
// may go on from there. [ErrNotFound] means that nothing was said, or is left; begin at the beginning then. In
// [Client.DrainTx] there is never any.
func (j *Job[T]) LastProgress(ctx context.Context) (*Progress, error) {
	reporter := j.attempt.progress
	if reporter == nil {
		return nil, fmt.Errorf("progress of job %d: %w", j.ID, ErrNotFound)
	}
	return reporter.worker.client.Progress(ctx, reporter.worker.pool, j.ID)
}

// Progress reads what the handler of a job has said about how far it is. A job that waits for its next attempt keeps what the last
// one said. [ErrNotFound] means that nothing was said, or that the job has ended, or that there is none.
func (c *Client) Progress(ctx context.Context, q Querier, id int64) (*Progress, error) {
	if err := runsOn(q); err != nil {
		return nil, fmt.Errorf("progress of job %d: %w", id, err)
	}
	found, err := c.store.ReadProgress(ctx, q, id)
	if err != nil {
		return nil, c.schemaError(err)
	}
	if found == nil {
		return nil, fmt.Errorf("progress of job %d: %w", id, ErrNotFound)
	}
	value, err := c.decodeField(ctx, FieldProgress, found.Kind, found.Value)
	if err != nil {
		return nil, fmt.Errorf("progress of job %d: %w", id, err)
	}
	return &Progress{Value: value, Attempt: found.Attempt, UpdatedAt: found.At}, nil
}

func (a *attempt) setProgress(ctx context.Context, value any) error {
	text, err := a.encodeProgress(ctx, value)
	if err != nil {
		return fmt.Errorf("set the progress of %s: %w", a.row, err)
	}
	if a.returned.Load() {
		return fmt.Errorf("set the progress of %s: %w", a.row, ErrHandlerReturned)
	}
	if a.progress != nil {
		a.row.SetReported()
		a.progress.set(a.row, string(text))
	}
	return nil
}

func (a *attempt) encodeProgress(ctx context.Context, value any) ([]byte, error) {
	text, err := marshalContained(value)
	if err != nil {
		return nil, &ValidationError{Field: "progress", Message: "cannot be written as JSON: " + err.Error(), cause: err}
	}
	if err := checkJSON("progress", text, MaxProgress, value); err != nil {
		return nil, runner.Safe(err)
	}
	if err := reserved("progress", text); err != nil {
		return nil, runner.Safe(err)
	}
	return a.codecs.sealJSON(ctx, FieldProgress, a.row.Kind, text)
}
