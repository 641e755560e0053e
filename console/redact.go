package console

import (
	"context"
	"encoding/json"
)

// Redaction is what a RedactFunc is asked about: one value that is about to be shown.
type Redaction struct {
	Viewer Identity
	JobID  int64 // 0: of a schedule
	Kind   string
	Queue  string
	// Field is "payload", "metadata", "result", "progress" or "message".
	Field string
}

// RedactFunc returns what may be shown of a value: a JSON document or, where Field is "message", a JSON string. What was cut for
// its size is not valid JSON and is not passed: it is shown as its size alone where a RedactFunc is set. It is called by many goroutines at once.
type RedactFunc func(ctx context.Context, about Redaction, value json.RawMessage) json.RawMessage
