package pgqueue

import (
	"context"
	"fmt"
	"slices"

	"github.com/pgqueue/pgqueue/pgqueue/internal/jobstore"
)

// Copier is a [Querier] that speaks COPY too, as [pgx.Tx], [*pgxpool.Pool] and [*pgx.Conn] do.
type Copier = jobstore.Copier

// EnqueueCopy writes many jobs by COPY, the fastest way into the table, and returns how many. It is [Client.EnqueueMany]
// for bulk loads that need neither keys nor ids: a job with a key or a rule such as [WithUnique] is refused, and the order of jobs that are due at the
// same time is that of the slice. All jobs are written or none; in a transaction, with the transaction.
//
// Input that cannot be stored is named in a [*ValidationError] before any SQL is sent. For more jobs than should be in
// memory at once, call it repeatedly in one transaction.
func (c *Client) EnqueueCopy(ctx context.Context, q Copier, jobs []NewJob) (int64, error) {
	if err := c.usable(q); err != nil {
		return 0, err
	}
	if len(jobs) == 0 {
		return 0, nil
	}
	if c.chain.copied == nil {
		return c.copyJobs(ctx, q, jobs)
	}
	enqueued, err := c.through(ctx, c.chain.copied, q, presetAll(jobs))
	return int64(len(enqueued)), err
}

// copyJobs is EnqueueCopy inside of the middleware.
func (c *Client) copyJobs(ctx context.Context, q Copier, jobs []NewJob) (int64, error) {
	inputs := make([]jobstore.Input, len(jobs))
	var queues []string
	for i, job := range jobs {
		input, refused := newInput(job.Args, job.Options, c.maxPayload, c.codecs)
		if refused == nil && input.Unique != nil {
			refused = invalid("unique", "rules cannot be used with EnqueueCopy; use EnqueueMany")
		}
		if refused == nil && input.Key != nil {
			refused = invalid("key", "cannot be used with EnqueueCopy; use EnqueueMany")
		}
		if refused != nil {
			refused.Field = fmt.Sprintf("jobs[%d].%s", i, refused.Field)
			return 0, fmt.Errorf("enqueue by copy: %w", refused)
		}
		if err := c.sealInput(ctx, &input); err != nil {
			return 0, fmt.Errorf("enqueue by copy: jobs[%d]: %w", i, err)
		}
		inputs[i] = input
		if !slices.Contains(queues, input.Queue) {
			queues = append(queues, input.Queue)
		}
	}
	written, err := c.store.Copy(ctx, q, inputs)
	if err != nil || !c.hinting.Load() {
		return written, c.enqueueError(q, err)
	}
	var now []string
	for _, queue := range queues {
		if c.hints.allow(queue, q) {
			now = append(now, queue)
		} else {
			c.hints.hold(queue)
			c.observe.hintHeld(queue)
		}
	}
	if len(now) > 0 {
		if err := c.store.Hint(ctx, q, now); err != nil {
			return written, fmt.Errorf("enqueue by copy: the jobs are written, but %w", err)
		}
		for _, queue := range now {
			c.observe.hintSent(queue)
		}
	}
	return written, nil
}
