package schedule

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// Where the client has codecs, the payload of a schedule is stored encoded like that of its jobs, decoded for each tick, and encoded
// anew for the job: so a schedule follows a change of keys with its next job.

// sealed is the payload of an entry as it is stored.
func (e *entry) sealed(ctx context.Context, client *pgqueue.Client) (string, error) {
	stored, err := client.EncodePayload(ctx, e.Kind, json.RawMessage(e.Payload))
	return string(stored), err
}

// fixedArgs are the arguments that stand in the row.
func (r *row) fixedArgs(ctx context.Context, client *pgqueue.Client) (pgqueue.Args, error) {
	payload, err := client.DecodePayload(ctx, r.kind, json.RawMessage(r.payload))
	if err != nil {
		return nil, fmt.Errorf("the payload of schedule %q: %w", r.name, err)
	}
	return pgqueue.Raw{Name: r.kind, Payload: payload}, nil
}

// open decodes the payload of a schedule for people. One that cannot be decoded stays as it is stored.
func (s *Stored) open(ctx context.Context, client *pgqueue.Client) {
	if payload, err := client.DecodePayload(ctx, s.Kind, s.Payload); err == nil {
		s.Payload = payload
	}
}
