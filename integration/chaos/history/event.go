package history

import "time"

// Type says what an event is about.
type Type string

// What enqueuers write. Request names one enqueue in the caller's transaction.
const (
	Intended   Type = "intended"    // before the enqueue is sent
	Enqueued   Type = "enqueued"    // the answer: Job, Outcome
	Committed  Type = "committed"   // the transaction has committed
	RolledBack Type = "rolled_back" // the transaction has rolled back
	InDoubt    Type = "in_doubt"    // the connection broke during COMMIT: either is allowed
)

// What handlers and their workers write. Job and Attempt name the run.
const (
	Started  Type = "started"  // the handler has begun
	Finished Type = "finished" // the handler has returned; Outcome is what it wanted
	Settled  Type = "settled"  // the store has accepted a verdict; Outcome is which
)

// Outcomes of an enqueue, and of an attempt.
const (
	Inserted = "inserted"
	Replaced = "replaced"
	Same     = "same"

	Succeeded  = "succeeded"
	Failed     = "failed"
	Dead       = "dead"
	Cancelled  = "cancelled"
	Retrying   = "retrying"
	Snoozed    = "snoozed"
	Released   = "released"
	Superseded = "superseded"
)

// Event is one line of a log.
type Event struct {
	At      time.Duration `json:"at"` // of Now
	Process string        `json:"process"`
	Type    Type          `json:"type"`

	Request  string `json:"request,omitempty"`  // of an enqueue
	Job      int64  `json:"job,omitempty"`      // from Enqueued on
	Attempt  int    `json:"attempt,omitempty"`  // of Started, Finished and Settled
	Key      string `json:"key,omitempty"`      // of Intended: its key, if any
	Input    string `json:"input,omitempty"`    // of Intended and Started: names the payload, different for each request
	Queue    string `json:"queue,omitempty"`    // of Intended and Started
	Priority int    `json:"priority,omitempty"` // of Started
	Due      int64  `json:"due,omitempty"`      // of Started: the job's due time, µs since 1970, on the database's clock
	Outcome  string `json:"outcome,omitempty"`
}

// Final is how the database stands when everything has come to rest.
type Final struct {
	Jobs    map[int64]End // that have ended
	Live    []int64       // that have not
	Effects map[int64]int // rows that transactional handlers have written, by job
}

// End is how a job ended.
type End struct {
	State    string
	Attempt  int
	Input    string // the payload that it ended with
	Effect   bool   // its handler writes an effect in the transaction that completes it
	Lapsed   []int  // attempts whose leases ran out, of the errors that are stored
	Errors   int    // all errors in its life, of which only the last ten are stored
	Released bool   // somebody put it back or retried it by hand during the run
}
