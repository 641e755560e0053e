package pgqueue

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// JobState is the state of a job, as in the column state.
type JobState string

// The states of jobs: two while they are live, four when they have ended.
const (
	JobPending   JobState = "pending"   // waits for its time or for a worker, also after a failed attempt
	JobRunning   JobState = "running"   // is leased by a worker
	JobSucceeded JobState = "succeeded" //
	JobFailed    JobState = "failed"    // trying again is pointless
	JobDead      JobState = "dead"      // the budget is spent; somebody should look
	JobCancelled JobState = "cancelled" // somebody wanted it to end
)

// Live tells whether the job has not ended.
func (s JobState) Live() bool { return s == JobPending || s == JobRunning }

// JobStatus is a job as it is stored now. All times are the database's and zero where there is none.
type JobStatus struct {
	JobInfo
	State          JobState
	LeaseExpiresAt time.Time // of a running job
	FinishedAt     time.Time
	ClaimedBy      string // the worker of the latest attempt
	CancelWanted   bool   // it runs and was asked to stop

	Payload json.RawMessage // {} where the queue keeps a slim history
	Result  json.RawMessage // nil: none

	// Failed are the last ten attempts that failed, oldest first, and ErrorCount counts all in the job's life. Both go on
	// across retries by hand.
	Failed     []FailedAttempt
	ErrorCount int

	// Sealed are the values that are stored encoded and cannot be read here, by "payload", "result" and "progress": the field of the
	// name then holds the stored form. Nil where all can be read. Of a message in Failed the text says so.
	Sealed map[string]Sealed
}

// FailedAttempt is what is stored about an attempt that failed.
type FailedAttempt struct {
	Attempt int
	Code    string    // such as "error", "timeout", "lease_expired", or the handler's own; see [Coded]
	Message string    // what was marked as safe to store, or the error's Go type
	Started time.Time // when it was claimed; zero where version 0.2 or an earlier one stored it
	At      time.Time // when it had failed
	By      string    // the worker
}

// Get reads one job, live or finished, by its number. Where there is none, or no longer one, it returns [ErrNotFound].
func (c *Client) Get(ctx context.Context, q Querier, id int64) (*JobStatus, error) {
	if err := runsOn(q); err != nil {
		return nil, fmt.Errorf("get job %d: %w", id, err)
	}
	record, err := c.store.Read(ctx, q, id)
	if err != nil {
		return nil, err
	}
	if record == nil {
		return nil, fmt.Errorf("get job %d: %w", id, ErrNotFound)
	}
	return c.statusOf(ctx, record), nil
}
