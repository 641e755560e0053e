package pgqueue

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/pgqueue/internal/jobstore"
)

// Bounds and defaults of [BulkOptions].
const (
	DefaultBulkBatch = 1_000
	MaxBulkBatch     = 10_000
	// MaxBulkSkips is how many skipped jobs a [BulkResult] names; it counts all.
	MaxBulkSkips = 1_000
	maxSpread    = 30 * 24 * time.Hour
)

// BulkOptions says how a bulk action goes about its work. The zero value is usable.
type BulkOptions struct {
	// DryRun does nothing but count: Matched is what a run would act on.
	DryRun bool
	// Cursor goes on where another run of the same action and filter stopped: the Cursor of its [BulkResult].
	Cursor string
	// BatchSize is how many jobs are changed in one transaction: 1,000 by default, at most 10,000. It becomes smaller by
	// itself where statement_timeout ends a batch.
	BatchSize int
	// Pause is how long to wait between two batches. 0.
	Pause time.Duration
	// Limit is after how many matching jobs to stop; 0 means none. The result has a Cursor then, if there are more.
	Limit int
	// Progress is called after each batch with what was done so far, from the goroutine that called the action. To stop,
	// end the context.
	Progress func(BulkResult)
	// Spread lets the jobs of [Inspector.RetryMany] and [Inspector.RescheduleMany] become due at random within this time, instead of all at
	// once; up to 30 days.
	Spread time.Duration
	// EvenIfRunning lets [Inspector.DeleteMany] delete jobs that run; see [Inspector.Delete].
	EvenIfRunning bool
}

// BulkResult says what a bulk action has done so far.
type BulkResult struct {
	// Matched counts the jobs that were found. Done counts those that the action was done to; Asked, among them, those that
	// run and were asked to stop. All others are Skipped.
	Matched, Done, Asked, Skipped int
	// Skips are the first [MaxBulkSkips] of the skipped jobs.
	Skips []Skip
	// Batches counts the transactions that were committed.
	Batches int
	// Cursor is where to go on: give it to [BulkOptions], now or another day. Empty means that all is done.
	Cursor string
}

// SkipReason is why a bulk action left a job as it was.
type SkipReason string

// The reasons to skip a job.
const (
	SkipKeyTaken   SkipReason = "key_taken"  // a newer live job has its key; Other says which
	SkipChanged    SkipReason = "changed"    // it was claimed, retried or deleted since it was found
	SkipLocked     SkipReason = "locked"     // somebody else holds its row
	SkipReferenced SkipReason = "referenced" // a foreign key of another table holds it; Detail says which
	SkipRefused    SkipReason = "refused"    // Postgres refused, for this job alone; Detail says why
	SkipTimeout    SkipReason = "timeout"    // statement_timeout ended it, alone as it was
)

// Skip is a job that a bulk action left as it was.
type Skip struct {
	ID     int64
	Reason SkipReason
	Other  int64
	Detail string
}

// The bulk actions share one way of working, and these properties:
//
// They walk by ascending number up to the highest job of the moment at which they began, so each job is met at most once, and
// new ones, or those that fail again, are not chased. Every batch is a transaction of its own: whatever ends the action,
// each batch is done or not, and Cursor says from where to go on. A job that changed between being found and being acted
// on is left as it is. What Postgres refuses for one job (a foreign key, a trigger) holds up no other: the batch is halved
// until that job stands alone, which is then skipped and named.
//
// They return a [*BulkResult] together with an error, too: what was done before it.

// RetryMany brings back all failed and dead jobs that match; see [Inspector.Retry]. filter.States may name failed or dead, or
// nothing, which means both. A job whose key a newer live job has is skipped. Each batch sends one hint a queue.
func (i *Inspector) RetryMany(ctx context.Context, filter Filter, options BulkOptions) (*BulkResult, error) {
	return i.bulk(ctx, bulkAction{
		name: ActionRetry, fallback: []JobState{JobFailed, JobDead}, spreads: true,
		do: func(ctx context.Context, tx pgx.Tx, targets []jobstore.Target) ([]jobstore.Answer, error) {
			return i.store.RetryMany(ctx, tx, targets, options.Spread)
		},
	}, filter, options)
}

// CancelMany ends all pending jobs that match, and asks running ones to stop; see [Inspector.Cancel]. filter.States may name
// pending or running, or nothing, which means both.
func (i *Inspector) CancelMany(ctx context.Context, filter Filter, options BulkOptions) (*BulkResult, error) {
	return i.bulk(ctx, bulkAction{
		name: ActionCancel, fallback: []JobState{JobPending, JobRunning}, do: i.store.CancelMany,
	}, filter, options)
}

// DeleteMany deletes all jobs that match; see [Inspector.Delete]. filter.States must say which states are meant; running
// needs options.EvenIfRunning, too.
func (i *Inspector) DeleteMany(ctx context.Context, filter Filter, options BulkOptions) (*BulkResult, error) {
	if len(filter.States) == 0 {
		return nil, fmt.Errorf("delete jobs: %w", invalid("filter.states", "must say which states are meant"))
	}
	for n, state := range filter.States {
		if state == JobRunning && !options.EvenIfRunning {
			return nil, fmt.Errorf("delete jobs: %w", invalid(fmt.Sprintf("filter.states[%d]", n), "is running: say EvenIfRunning too, or cancel them"))
		}
	}
	return i.bulk(ctx, i.deletion(ActionDelete, nil, options.EvenIfRunning), filter, options)
}

// Purge deletes all jobs that match and have ended: history, that is. filter.States may name any of the states of jobs that
// have ended, or nothing, which means all of them. It needs no worker. (What is old enough goes by itself, where workers
// run; this is for what should go earlier.)
func (i *Inspector) Purge(ctx context.Context, filter Filter, options BulkOptions) (*BulkResult, error) {
	return i.bulk(ctx, i.deletion(ActionPurge, []JobState{JobSucceeded, JobCancelled, JobFailed, JobDead}, false), filter, options)
}

func (i *Inspector) deletion(name Action, fallback []JobState, running bool) bulkAction {
	return bulkAction{
		name: name, fallback: fallback,
		do: func(ctx context.Context, tx pgx.Tx, targets []jobstore.Target) ([]jobstore.Answer, error) {
			return i.store.DeleteMany(ctx, tx, targets, running)
		},
	}
}

// bulkAction is what a bulk action does to a batch.
type bulkAction struct {
	name     Action
	fallback []JobState // the states that it can be done to, and means where the filter names none; nil: all, and none
	spreads  bool       // it goes by BulkOptions.Spread
	detail   string     // for the audit log
	do       func(ctx context.Context, tx pgx.Tx, targets []jobstore.Target) ([]jobstore.Answer, error)
}

func (i *Inspector) bulk(ctx context.Context, action bulkAction, filter Filter, options BulkOptions) (*BulkResult, error) {
	run, err := i.newBulkRun(ctx, action, filter, options)
	if err != nil {
		return nil, fmt.Errorf("%s jobs: %w", action.name, explained(err))
	}
	err = run.all(ctx)
	if !options.DryRun {
		i.logger.InfoContext(ctx, "pgqueue: bulk action", "action", string(action.name), "actor", i.actor, "matched", run.result.Matched,
			"done", run.result.Done, "skipped", run.result.Skipped, "complete", run.result.Cursor == "")
	}
	result := run.result
	if err != nil {
		return &result, fmt.Errorf("%s jobs: %w", action.name, explained(err))
	}
	return &result, nil
}

// check validates the options and puts the defaults in.
func (o *BulkOptions) check(action bulkAction) error {
	if o.BatchSize == 0 {
		o.BatchSize = DefaultBulkBatch
	}
	switch {
	case o.BatchSize < 0 || o.BatchSize > MaxBulkBatch:
		return invalid("options.batch_size", fmt.Sprintf("must be from 1 to %d, is %d", MaxBulkBatch, o.BatchSize))
	case o.Pause < 0:
		return invalid("options.pause", fmt.Sprintf("must not be negative, is %s", o.Pause))
	case o.Limit < 0:
		return invalid("options.limit", fmt.Sprintf("must not be negative, is %d", o.Limit))
	case o.Spread < 0 || o.Spread > maxSpread:
		return invalid("options.spread", fmt.Sprintf("must be from 0 to %s, is %s", maxSpread, o.Spread))
	case o.Spread > 0 && !action.spreads:
		return invalid("options.spread", "is for retries and for a new due time")
	case o.EvenIfRunning && action.name != ActionDelete:
		return invalid("options.even_if_running", "is for deletions")
	default:
		return nil
	}
}
