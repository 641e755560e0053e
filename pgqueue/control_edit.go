package pgqueue

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/pgqueue/pgqueue/pgqueue/internal/jobstore"
)

// Reschedule sets when a pending job is due, and wakes workers. The zero time, and one that has passed, mean now; a job that is due
// already then keeps its place in line. It also brings a job forward that waits for a retry, and spends nothing.
//
// [ErrJobRunning] means that the job runs, [ErrJobEnded] that it has ended, and [ErrNotFound] that no live job has this number; all leave
// the transaction usable and the job as it is. The same from SQL: SELECT pgqueue.reschedule(17, now() + interval '1 h').
func (c *Client) Reschedule(ctx context.Context, q Querier, id int64, at time.Time) error {
	if err := runsOn(q); err != nil {
		return fmt.Errorf("reschedule job %d: %w", id, err)
	}
	due, invalid := storedTime("run_at", at)
	if invalid != nil {
		return fmt.Errorf("reschedule job %d: %w", id, invalid)
	}
	outcome, err := c.store.Reschedule(ctx, q, id, due)
	switch {
	case err != nil:
		return c.schemaError(err)
	case outcome == jobstore.Rescheduled:
		return nil
	case outcome == jobstore.StillRunning:
		return fmt.Errorf("reschedule job %d: %w", id, ErrJobRunning)
	default:
		return c.notFound(ctx, q, "reschedule", id)
	}
}

// SetPriority changes the priority of a job, from [PriorityFresh] to [PriorityCatchUp], and returns the state in which the job is. It keeps
// its due time, and with it its place among the jobs of the new priority. For a running job it counts from the next attempt on;
// a failed or dead one keeps it for its [Client.Retry]. [ErrNotFound] means that no live, failed or dead job has this number, and is
// [ErrJobEnded] where it has ended otherwise. The same from SQL: SELECT pgqueue.set_priority(17, 1).
func (c *Client) SetPriority(ctx context.Context, q Querier, id int64, priority int) (JobState, error) {
	if err := runsOn(q); err != nil {
		return "", fmt.Errorf("set priority of job %d: %w", id, err)
	}
	if err := checkPriority(priority); err != nil {
		return "", fmt.Errorf("set priority of job %d: %w", id, err)
	}
	state, err := c.store.SetPriority(ctx, q, id, priority)
	if err != nil {
		return "", c.schemaError(err)
	}
	if state == jobstore.NotFound {
		return "", c.notFound(ctx, q, "set priority of", id)
	}
	return JobState(state), nil
}

func checkPriority(priority int) error {
	if priority < PriorityFresh || priority > PriorityCatchUp {
		return invalid("priority", fmt.Sprintf("must be from %d to %d, is %d", PriorityFresh, PriorityCatchUp, priority))
	}
	return nil
}

// EditPayload replaces the input of a live job, and returns the state in which the job is. It is what an enqueue of a new input with the
// job's key does: the generation rises, the budget of failures is new, and a wish to cancel the job is gone; due time, key,
// revision, metadata and tags stay. (So the same revision enqueued again leaves the edited input alone, and the next one replaces it.)
//
// Of a running job, [JobRunning], the present run goes on and counts for nothing: its worker learns at the end that the input was
// replaced, and the job runs again with the new one.
//
// payload is whatever encodes to JSON: the job's own type of arguments, or a [json.RawMessage]. It is not compared with the kind of
// the job. With codecs it is stored encoded.
//
// generation is the input that you looked at, the Generation of [JobDetail.Version]: if the job has another one by now, nothing is changed
// and the error is a [*ChangedError]. Zero means any. [ErrNotFound] means that no live job has this number, and is [ErrJobEnded] where
// it has ended; for failed and dead ones there is [Client.RetryWith]. The same from SQL: SELECT pgqueue.edit_payload(17, '{"n": 1}').
func (c *Client) EditPayload(ctx context.Context, q Querier, id int64, payload any, generation int) (JobState, error) {
	stored, err := c.editedPayload(ctx, q, id, payload)
	if err != nil {
		return "", fmt.Errorf("edit job %d: %w", id, err)
	}
	outcome, err := c.store.EditPayload(ctx, q, id, stored, anyIfZero(generation))
	switch {
	case err != nil:
		return "", c.schemaError(err)
	case outcome == jobstore.Edited:
		return JobPending, nil
	case outcome == jobstore.Superseded:
		return JobRunning, nil
	case outcome == jobstore.Changed:
		return "", c.changedGeneration(ctx, q, id, generation)
	default:
		return "", c.notFound(ctx, q, "edit", id)
	}
}

// RetryWith brings a failed or dead job back with another input, in one step: nobody runs it with the old one. For what becomes of the
// job and for the errors see [Client.Retry]; for payload and generation, [Client.EditPayload]. The same from SQL:
// SELECT * FROM pgqueue.retry_with(17, '{"n": 1}').
func (c *Client) RetryWith(ctx context.Context, q Querier, id int64, payload any, generation int) error {
	stored, err := c.editedPayload(ctx, q, id, payload)
	if err != nil {
		return fmt.Errorf("retry job %d: %w", id, err)
	}
	outcome, other, err := c.store.RetryWith(ctx, q, id, stored, anyIfZero(generation))
	switch {
	case err != nil:
		return c.schemaError(err)
	case outcome == jobstore.Retried:
		return nil
	case outcome == jobstore.KeyTaken:
		return &KeyTakenError{ID: id, Other: other}
	case outcome == jobstore.StillLive:
		return fmt.Errorf("retry job %d: %w", id, ErrJobLive)
	case outcome == jobstore.Changed:
		return c.changedGeneration(ctx, q, id, generation)
	default:
		return c.notFound(ctx, q, "retry", id)
	}
}

func anyIfZero(generation int) *int {
	if generation == 0 {
		return nil
	}
	return &generation
}

// editedPayload validates and encodes the new input of a job. Codecs may tie it to the kind, which is read for them alone.
func (c *Client) editedPayload(ctx context.Context, q Querier, id int64, payload any) (json.RawMessage, error) {
	if err := runsOn(q); err != nil {
		return nil, err
	}
	limit := c.maxPayload
	if limit == 0 { // of an inspector
		limit = largestMaxPayload
	}
	text, refused := encodeEdit(payload, limit)
	if refused == nil {
		refused = reserved("payload", text)
	}
	if refused != nil {
		return nil, refused
	}
	if c.codecs == nil {
		return text, nil
	}
	job, err := c.store.Read(ctx, q, id)
	if err != nil {
		return nil, c.schemaError(err)
	}
	if job == nil {
		return nil, ErrNotFound
	}
	return c.encodeField(ctx, FieldPayload, job.Kind, text)
}

func encodeEdit(payload any, limit int) (json.RawMessage, *ValidationError) {
	switch raw := payload.(type) {
	case json.RawMessage:
		return rawJSON("payload", raw, limit)
	case Raw:
		return rawJSON("payload", raw.Payload, limit)
	default:
		return encodeJSON("payload", payload, limit)
	}
}

// changedGeneration is the error about a job that has another generation than the wanted one. It may have gone meanwhile.
func (c *Client) changedGeneration(ctx context.Context, q Querier, id int64, generation int) error {
	found, err := c.store.Versions(ctx, q, []int64{id})
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return fmt.Errorf("edit job %d: %w", id, ErrNotFound)
	}
	have := Version{found[0].Attempt, found[0].Generation}
	return &ChangedError{ID: id, Want: Version{have.Attempt, generation}, Have: have}
}
