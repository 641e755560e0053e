package pgqueue

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/pgqueue/internal/jobstore"
)

// Querier is what an enqueue runs on. [pgx.Tx] is the one to use: the job then exists exactly when the data does that was
// written in the same transaction. [*pgxpool.Pool] and [*pgx.Conn] do as well, each call being a transaction of its own.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults
}

// EnqueueOutcome says what an enqueue did.
type EnqueueOutcome uint8

const (
	// Inserted means that there is a new job.
	Inserted EnqueueOutcome = iota + 1
	// Replaced means that a live job of the same key was given this input: a pending one will run with it, a running
	// one will run again.
	Replaced
	// Same means that a live job of the same key has this revision already; nothing was changed.
	Same
	// Duplicate means that nothing was changed because of a rule of the job's own: [WithIdempotencyKey], [WithUnique] or
	// [WithThrottle]. The number is that of the job that was enqueued first, which may have ended long ago.
	Duplicate
)

// String is "inserted", "replaced", "same" or "duplicate".
func (o EnqueueOutcome) String() string {
	switch o {
	case Inserted:
		return "inserted"
	case Replaced:
		return "replaced"
	case Same:
		return "same"
	case Duplicate:
		return "duplicate"
	default:
		return fmt.Sprintf("EnqueueOutcome(%d)", uint8(o))
	}
}

// Enqueued is what an enqueue answers.
type Enqueued struct {
	ID      int64 // of the job, whatever the outcome
	Outcome EnqueueOutcome
	// State is set for a [Duplicate] whose job is live: [JobPending] or [JobRunning]. Empty means that the job has ended, or was
	// deleted; [Client.Get] says which.
	State JobState
}

// NewJob is one job for [Client.EnqueueMany].
type NewJob struct {
	Args    Args
	Options []EnqueueOption
}

// maxCallBytes bounds the payloads and metadata of one EnqueueMany: Postgres refuses messages of 1 GB.
const maxCallBytes = 256 << 20

// Enqueue writes one job, in one round trip. In a transaction the job becomes visible, and its workers are woken, when the
// transaction commits; if it rolls back, also only to a savepoint, there never was a job.
//
// A job without a key is always a new one. See [WithKey] and [WithRevision] for what happens when a job of the key is
// live, and [WithIdempotencyKey], [WithUnique], [WithThrottle] and [WithDebounce] for other rules. No savepoint is used, and a job that exists already leaves the transaction usable.
//
// Input that cannot be stored is refused with a [*ValidationError] before any SQL is sent. Every other error comes from
// Postgres and can be examined with errors.As and [*pgconn.PgError]; in a transaction of level REPEATABLE READ or
// SERIALIZABLE that includes 40001 for a key that changed since its snapshot, after which the whole transaction is to be
// tried again. A key's job stays locked until the transaction ends, so transactions that enqueue several keys one by one
// should do so in the same order, or use [Client.EnqueueMany], to be safe from deadlocks.
func (c *Client) Enqueue(ctx context.Context, q Querier, args Args, options ...EnqueueOption) (Enqueued, error) {
	if err := c.usable(q); err != nil {
		return Enqueued{}, err
	}
	var enqueued []Enqueued
	var err error
	if c.chain.one != nil {
		enqueued, err = c.through(ctx, c.chain.one, q, []NewJob{preset(args, options)})
	} else {
		enqueued, err = c.insertOne(ctx, q, args, options)
	}
	if err != nil {
		return Enqueued{}, err
	}
	return enqueued[0], nil
}

// insertOne is Enqueue inside of the middleware.
func (c *Client) insertOne(ctx context.Context, q Querier, args Args, options []EnqueueOption) ([]Enqueued, error) {
	input, invalid := newInput(args, options, c.maxPayload, c.codecs)
	if invalid != nil {
		return nil, fmt.Errorf("enqueue: %w", invalid)
	}
	if err := c.sealInput(ctx, &input); err != nil {
		return nil, fmt.Errorf("enqueue: %w", err)
	}
	return c.write(ctx, q, []jobstore.Input{input})
}

// EnqueueMany writes many jobs, in one round trip, and answers by position: the first answer is that of the first job.
// All are written or none. Each is treated as by [Client.Enqueue]; of several with one key in the call the last counts,
// and all get its id. Jobs without a key run in the order of the slice, other things being equal. No jobs means no SQL
// and an empty answer.
//
// The first job that cannot be stored is named in the [*ValidationError], as "jobs[7].key". Overlapping calls lock keys
// in one order and do not deadlock. The payloads of one call may add up to 256 MiB.
func (c *Client) EnqueueMany(ctx context.Context, q Querier, jobs []NewJob) ([]Enqueued, error) {
	if err := c.usable(q); err != nil {
		return nil, err
	}
	if len(jobs) == 0 {
		return []Enqueued{}, nil
	}
	if c.chain.many != nil {
		return c.through(ctx, c.chain.many, q, presetAll(jobs))
	}
	return c.insertMany(ctx, q, jobs)
}

// insertMany is EnqueueMany inside of the middleware.
func (c *Client) insertMany(ctx context.Context, q Querier, jobs []NewJob) ([]Enqueued, error) {
	inputs := make([]jobstore.Input, len(jobs))
	total := 0
	for i, job := range jobs {
		input, invalid := newInput(job.Args, job.Options, c.maxPayload, c.codecs)
		if invalid != nil {
			invalid.Field = fmt.Sprintf("jobs[%d].%s", i, invalid.Field)
			return nil, fmt.Errorf("enqueue: %w", invalid)
		}
		if err := c.sealInput(ctx, &input); err != nil {
			return nil, fmt.Errorf("enqueue: jobs[%d]: %w", i, err)
		}
		inputs[i] = input
		total += len(input.Payload) + len(input.Metadata)
		if total > maxCallBytes {
			return nil, fmt.Errorf("enqueue: %w", invalidCall(i, total))
		}
	}
	return c.write(ctx, q, inputs)
}

func invalidCall(i, total int) *ValidationError {
	return invalid("jobs", fmt.Sprintf("are too large for one call: %d bytes up to jobs[%d] where %d are allowed; use several calls",
		total, i, maxCallBytes))
}

// usable tells whether the client is open and q is something.
func (c *Client) usable(q Querier) error {
	if c.closed.Load() {
		return fmt.Errorf("enqueue: %w", ErrClosed)
	}
	if isNil(q) {
		return fmt.Errorf("enqueue: %w", invalid("querier", "must not be nil"))
	}
	return nil
}

// write sends validated inputs and sees to the hints that could not go with them.
func (c *Client) write(ctx context.Context, q Querier, inputs []jobstore.Input) ([]Enqueued, error) {
	var (
		ask  func(queue string) bool
		note struct { // of queues; in one, because it is put on the heap with each enqueue
			held []string
			sent []string // only if somebody is to be told
		}
	)
	if c.hinting.Load() {
		ask = func(queue string) bool {
			if c.hints.allow(queue, q) {
				if c.observe.sent != nil {
					note.sent = append(note.sent, queue)
				}
				return true
			}
			note.held = append(note.held, queue)
			return false
		}
	}
	placed, err := c.store.Enqueue(ctx, q, inputs, ask)
	if err != nil {
		return nil, c.enqueueError(q, err)
	}
	for _, queue := range note.sent {
		c.observe.hintSent(queue)
	}
	enqueued := make([]Enqueued, len(placed))
	for i, p := range placed {
		outcome, err := outcomeOf(p.Outcome)
		if err != nil {
			return nil, err
		}
		enqueued[i] = Enqueued{ID: p.ID, Outcome: outcome}
		if p.State != nil {
			enqueued[i].State = JobState(*p.State)
		}
	}
	for _, queue := range note.held {
		// What changed nothing wakes nobody.
		for i := range inputs {
			if inputs[i].Queue == queue && enqueued[i].Outcome != Same && enqueued[i].Outcome != Duplicate {
				c.hints.hold(queue)
				c.observe.hintHeld(queue)
				break
			}
		}
	}
	return enqueued, nil
}

// outcomeOf reads the statement's word.
func outcomeOf(word string) (EnqueueOutcome, error) {
	for _, outcome := range []EnqueueOutcome{Inserted, Replaced, Same, Duplicate} {
		if outcome.String() == word {
			return outcome, nil
		}
	}
	return 0, fmt.Errorf("enqueue: unknown outcome %q", word)
}
