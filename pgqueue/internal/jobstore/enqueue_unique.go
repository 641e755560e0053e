package jobstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// The policies of [Unique], which are the words of the function enqueue_unique_batch.
const (
	UniqueKeep     = "keep"     // Identity stays taken for Span from the first enqueue
	UniqueSlot     = "slot"     // Identity stays taken to the end of the slot of length Span
	UniqueLive     = "live"     // the job's key is its identity, taken while it is live; it has a revision
	UniqueDebounce = "debounce" // the job's key is due its Delay after the last enqueue, at most Span after the first
)

// Unique is the rule by which an input is enqueued at most once.
type Unique struct {
	Policy   string
	Identity string        // of UniqueKeep and UniqueSlot
	Span     time.Duration // whole microseconds count
}

// statement is the text and the arguments for one queue: enqueue, or enqueue_unique where a job of it has a rule.
func (s *Store) statement(queue string, g *group, inputs []Input, channel *string) (string, []any) {
	arguments := g.arguments(queue, channel)
	if !g.unique {
		return s.produce.enqueue, arguments
	}
	var (
		policies   = make([]*string, len(g.positions))
		identities = make([]*string, len(g.positions))
		spans      = make([]*int64, len(g.positions))
	)
	for i, position := range g.positions {
		rule := inputs[position].Unique
		if rule == nil {
			continue
		}
		policies[i] = &rule.Policy
		if rule.Identity != "" {
			identities[i] = &rule.Identity
		}
		spans[i] = delayMicroseconds(rule.Span)
	}
	last := len(arguments) - 1 // the channel
	return s.produce.enqueueUnique, append(arguments[:last:last], policies, identities, spans, arguments[last])
}

// ReleaseKey frees an idempotency key and returns the number of its job, nil where the key was not taken.
func (s *Store) ReleaseKey(ctx context.Context, q Querier, queue, kind, key string) (*int64, error) {
	rows, err := q.Query(ctx, s.produce.releaseKey, queue, kind, key)
	if err != nil {
		return nil, fmt.Errorf("release key: %w", err)
	}
	defer rows.Close()
	var job *int64
	for rows.Next() {
		if err := rows.Scan(&job); err != nil {
			return nil, fmt.Errorf("release key: %w", err)
		}
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("release key: %w", err)
	}
	return job, nil
}

// expireUniqueKeys deletes the keys whose time has passed. Nothing depends on it but the size of a table, so a role that may not, as
// before its GRANT of version 4, is told once and goes on.
func (q *Queue) expireUniqueKeys(ctx context.Context) error {
	for range maxDrops {
		var gone int
		err := q.one(ctx, &gone, q.sql.expireKeys, expireBatch)
		var refused *pgconn.PgError
		switch {
		case errors.As(err, &refused) && (refused.Code == codeForbidden || refused.Code == codeNoFunction):
			if !q.keysRefused.Swap(true) {
				q.log.WarnContext(ctx, "pgqueue: expired unique keys are not deleted; docs/roles.md has the GRANT", "error", err)
			}
			return nil
		case err != nil:
			return q.wrap("retention", err)
		case gone < expireBatch:
			return nil
		}
	}
	return nil
}

const (
	codeForbidden  = "42501" // insufficient_privilege
	codeNoFunction = "42883" // undefined_function: the schema is of version 3
)
