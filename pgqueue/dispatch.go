package pgqueue

import (
	"context"

	"github.com/pgqueue/pgqueue/internal/lazytx"
	"github.com/pgqueue/pgqueue/pgqueue/internal/jobstore"
	"github.com/pgqueue/pgqueue/runner"
)

// dispatcher is the runner's handler: it gives each claimed row to the handler of its kind, and tells the runner when
// the job was settled in a transaction.
type dispatcher struct {
	store     *jobstore.Store
	pool      lazytx.Beginner
	open      lazytx.Slots // nil: no bound
	handlers  map[string]Handler
	maxResult int               // bytes
	progress  *progressReporter // nil: nothing is written
	ends      jobstore.Ends     // nil: nobody is told
	codecs    *codecs
}

var _ runner.BatchHandler[*jobstore.Row, result] = (*dispatcher)(nil)

func (d *dispatcher) Handle(ctx context.Context, task *runner.Task[*jobstore.Row]) (result, error) {
	row := task.Payload
	handler, ok := d.handlers[row.Kind]
	if !ok {
		// The claim asks for known kinds only, so this needs a bug; the job must not pay for it.
		return nil, runner.SnoozeFor(unknownKindDelay)
	}
	job := d.job(ctx, row)
	defer job.attempt.returned.Store(true) // also when it panics
	return reported(job, handler.HandleJob(ctx, job))
}

// job is what handlers and middleware see of a row.
func (d *dispatcher) job(ctx context.Context, row *jobstore.Row) *AnyJob {
	args, unreadable := d.codecs.openPayload(ctx, row)
	delivered := &struct { // in one piece of memory
		job     AnyJob
		attempt attempt
	}{
		job: AnyJob{JobInfo: infoOf(row), Args: args, ctx: ctx},
		attempt: attempt{store: d.store, pool: d.pool, open: d.open, row: row, maxResult: d.maxResult, codecs: d.codecs, unreadable: unreadable,
			progress: d.progress, ends: d.ends},
	}
	delivered.job.attempt = &delivered.attempt
	return &delivered.job
}
