package pgqueue

import (
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueue/internal/jobstore"
)

// Pool is what the client was made with. It stays its owner's to close.
func (c *Client) Pool() *pgxpool.Pool { return c.pool }

// Schema is the name of the schema that the client works with, unquoted.
func (c *Client) Schema() string { return c.schema }

// ResolvedJob is what an enqueue would write, put together from a job's arguments, its options and those of its type.
type ResolvedJob struct {
	Queue, Kind string
	Key         string // empty when it has none
	Revision    string // empty when it has none
	Payload     json.RawMessage
	Metadata    json.RawMessage // a JSON object
	Tags        []string
	Priority    int
	MaxAttempts int
	RunAt       time.Time     // zero = now
	Delay       time.Duration // added to it
	// More says that the options say something else as well, which this does not show.
	More bool
}

// Resolve validates a job as [Client.Enqueue] does and tells what would be written, without any SQL: for whoever keeps jobs elsewhere until
// they are to be enqueued, as package schedule does. Middleware is not asked, and the payload is not yet encoded. The error is a
// [*ValidationError].
func (c *Client) Resolve(job NewJob) (ResolvedJob, error) {
	in, refused := newInput(job.Args, job.Options, c.maxPayload, c.codecs)
	if refused != nil {
		return ResolvedJob{}, fmt.Errorf("resolve: %w", refused)
	}
	resolved := ResolvedJob{
		Queue: in.Queue, Kind: in.Kind, Payload: in.Payload, Metadata: in.Metadata, Tags: in.Tags,
		Priority: int(in.Priority), MaxAttempts: int(in.MaxAttempts), Delay: in.Delay,
	}
	if in.Key != nil {
		resolved.Key = *in.Key
	}
	if in.Revision != nil {
		resolved.Revision = *in.Revision
	}
	if in.RunAt != nil {
		resolved.RunAt = *in.RunAt
	}
	resolved.More = saysMore(in)
	return resolved, nil
}

// saysMore tells whether an input has fields set beside those of ResolvedJob. By reflection, so that a field which is added to the
// input is not forgotten here.
func saysMore(in jobstore.Input) bool {
	in.Queue, in.Kind, in.Key, in.Revision, in.Payload, in.Metadata = "", "", nil, nil, nil, nil
	in.Tags, in.Priority, in.RunAt, in.Delay, in.MaxAttempts = nil, 0, nil, 0, 0
	return !reflect.ValueOf(in).IsZero()
}
