package pgqueue

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/pgqueue/pgqueue/pgqueue/internal/jobstore"
	"github.com/pgqueue/pgqueue/runner"
)

// dispatcher is the runner's handler: it gives each claimed row to the handler of its kind, and tells the runner when
// the job was settled in a transaction.
type dispatcher struct {
	store    *jobstore.Store
	pool     beginner
	handlers map[string]Handler
}

func (d *dispatcher) Handle(ctx context.Context, task *runner.Task[*jobstore.Row]) (json.RawMessage, error) {
	row := task.Payload
	handler, ok := d.handlers[row.Kind]
	if !ok {
		// The claim asks for known kinds only, so this needs a bug; the job must not pay for it.
		return nil, runner.SnoozeFor(unknownKindDelay)
	}
	job := &AnyJob{
		JobInfo: infoOf(row),
		Args:    row.Payload,
		attempt: &attempt{store: d.store, pool: d.pool, row: row},
	}
	if err := handler.HandleJob(ctx, job); err != nil {
		return nil, err
	}
	switch job.attempt.settled.get() {
	case settledByUs:
		return nil, runner.ErrSettled
	case settledByCaller, settledUnknown:
		return nil, fmt.Errorf("%s: %w", row, runner.ErrConfirm)
	default:
		return nil, nil
	}
}
