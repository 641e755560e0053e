package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/runner"
)

// Document is what a claim hands to the handler: which document, and at which revision. The body is not in it; the handler
// reads it, through connections of its own.
type Document struct {
	ID   int64
	Hash string
}

// claimToken is one claim of one document. The runner hands it back and looks at nothing but its String.
type claimToken struct {
	document int64
	random   string // a uuid
}

// String names the task in logs.
func (t claimToken) String() string {
	return fmt.Sprintf("document %d, claim %s", t.document, t.random)
}

// queue is the search.embeddings table as a [runner.Queue]. It may be used by many goroutines.
type queue struct {
	pool        *pgxpool.Pool // for claims, reports and renewals: small, and of its own
	maxAttempts int           // how many attempts may fail
	freshness   *freshness
}

// Claim takes the documents that have been due for longest.
//
//   - `= ANY (ARRAY (SELECT … LIMIT …))` is computed once. `IN (SELECT … LIMIT …)` may be planned as a join that runs the
//     subquery again for each row, and then the claim takes more than it was asked for.
//   - SKIP LOCKED passes over what another claim, or the application, is holding at the moment.
//   - gen_random_uuid() is volatile, so each row draws a token of its own.
//   - All times are the database's. A worker's clock may be wrong.
func (q *queue) Claim(ctx context.Context, request runner.ClaimRequest) ([]runner.Task[Document], error) {
	rows, err := q.pool.Query(ctx, `
		UPDATE search.embeddings
		SET state = 'claimed', token = gen_random_uuid(), claimed_hash = hash, attempts = attempts + 1,
		    claimed_at = statement_timestamp(), lease_expires_at = statement_timestamp() + $2::bigint * interval '1 microsecond'
		WHERE document_id = ANY (ARRAY (
			SELECT document_id
			FROM search.embeddings
			WHERE state = 'waiting' AND due_at <= statement_timestamp()
			ORDER BY due_at, document_id
			LIMIT $1
			FOR UPDATE SKIP LOCKED))
		RETURNING document_id, hash, token::text, attempts, failures, due_at, claimed_at`, request.Limit, request.Lease.Microseconds())
	if err != nil {
		return nil, fmt.Errorf("claim documents: %w", err)
	}
	tasks, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (runner.Task[Document], error) {
		task := runner.Task[Document]{MaxAttempts: q.maxAttempts, Class: runner.ClassFresh}
		var token claimToken
		err := row.Scan(&task.Payload.ID, &task.Payload.Hash, &token.random, &task.Attempt, &task.Failures, &task.Due, &task.Claimed)
		token.document = task.Payload.ID
		task.Token = token
		return task, err
	})
	if err != nil {
		return nil, fmt.Errorf("claim documents: %w", err)
	}
	// RETURNING has no order.
	slices.SortFunc(tasks, func(a, b runner.Task[Document]) int {
		return cmp.Or(a.Due.Compare(b.Due), cmp.Compare(a.Payload.ID, b.Payload.ID))
	})
	return tasks, nil
}

// NextDue makes the queue a [runner.Scheduler]: an idle runner asks this cheap question instead of claiming in vain, and
// wakes for a retry when it is due.
func (q *queue) NextDue(ctx context.Context) (wait time.Duration, ok bool, err error) {
	var microseconds *int64
	err = q.pool.QueryRow(ctx, `
		SELECT (extract(epoch FROM min(due_at) - statement_timestamp()) * 1e6)::bigint
		FROM search.embeddings
		WHERE state = 'waiting'`).Scan(&microseconds)
	switch {
	case err != nil:
		return 0, false, fmt.Errorf("ask for the next due document: %w", err)
	case microseconds == nil:
		return 0, false, nil
	}
	return time.Duration(*microseconds) * time.Microsecond, true, nil
}
