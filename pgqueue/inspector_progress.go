package pgqueue

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/pgqueue/internal/jobstore"
)

// addProgress adds what the handler of a live job has said. It is an extra: a role that may read jobs and not this table sees the job
// without it, and a transaction that the inspector runs on stays usable.
func (i *Inspector) addProgress(ctx context.Context, job *JobDetail) {
	if !job.State.Live() || job.Attempt == 0 {
		return
	}
	var found *jobstore.Progress
	var err error
	if tx, ok := i.q.(pgx.Tx); ok {
		err = pgx.BeginFunc(ctx, tx, func(savepoint pgx.Tx) error {
			found, err = i.store.ReadProgress(ctx, savepoint, job.ID)
			return err
		})
	} else {
		found, err = i.store.ReadProgress(ctx, i.q, job.ID)
	}
	if err != nil {
		i.logger.DebugContext(ctx, "pgqueue: the progress of a job could not be read", "job", job.ID, "error", err)
		return
	}
	if found == nil {
		return
	}
	value, sealed := i.client.codecs.show(ctx, FieldProgress, found.Kind, string(found.Value))
	if sealed != nil {
		if job.Sealed == nil {
			job.Sealed = map[string]Sealed{}
		}
		job.Sealed["progress"] = *sealed
	}
	job.Progress = &Progress{Value: value, Attempt: found.Attempt, UpdatedAt: found.At}
}
