package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/reaper"
	"github.com/pgqueue/pgqueue/runner"
)

// Renew makes the queue a [runner.Renewer]: a lease can be short, so that a killed process is noticed soon, and still
// outlast any run, because the runner renews it while the handler is inside its deadline.
func (q *queue) Renew(ctx context.Context, tokens []runner.Token, lease time.Duration) ([]runner.Renewal, error) {
	documents, random := make([]int64, len(tokens)), make([]string, len(tokens))
	for i, t := range tokens {
		token, ok := t.(claimToken)
		if !ok {
			return nil, fmt.Errorf("renew leases: a token of type %T is not of this queue", t)
		}
		documents[i], random[i] = token.document, token.random
	}
	rows, err := q.pool.Query(ctx, `
		WITH claim AS (
			SELECT * FROM unnest($1::bigint[], $2::text[]::uuid[]) WITH ORDINALITY AS c(document, token, n)
		), held AS (
			SELECT e.document_id, e.token
			FROM search.embeddings e
			WHERE (e.document_id, e.token) IN (SELECT document, token FROM claim)
			FOR UPDATE SKIP LOCKED
		), renewed AS (
			UPDATE search.embeddings e
			SET lease_expires_at = statement_timestamp() + $3::bigint * interval '1 microsecond'
			FROM held h
			WHERE e.document_id = h.document_id
			RETURNING e.document_id, e.token
		)
		SELECT r.document_id IS NOT NULL AS renewed, e.document_id IS NOT NULL AS stands
		FROM claim c
		LEFT JOIN renewed r ON r.document_id = c.document AND r.token = c.token
		LEFT JOIN search.embeddings e ON e.document_id = c.document AND e.token = c.token
		ORDER BY c.n`, documents, random, lease.Microseconds())
	if err != nil {
		return nil, fmt.Errorf("renew leases: %w", err)
	}
	renewals, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (runner.Renewal, error) {
		var renewed, stands bool
		err := row.Scan(&renewed, &stands)
		switch {
		case renewed:
			return runner.Renewed, err
		case stands:
			return runner.Locked, err // by somebody who keeps everybody else from it too
		}
		return runner.Refused, err
	})
	if err != nil {
		return nil, fmt.Errorf("renew leases: %w", err)
	}
	return renewals, nil
}

// Recover takes back what a dead process has claimed: a [reaper.Reaper] calls it again and again, in every process. The claim is
// closed, so the process that was thought dead can report nothing any more: a vector costs little to compute again. It
// costs the document one failure, or else content that kills its worker would do so for ever; but not if the content has
// changed meanwhile, because the new content has done nothing yet.
func (q *queue) Recover(ctx context.Context, limit int) (reaper.Recovered, error) {
	var recovered reaper.Recovered
	err := q.pool.QueryRow(ctx, `
		WITH gone AS (
			SELECT document_id, hash <> claimed_hash AS superseded
			FROM search.embeddings
			WHERE state = 'claimed' AND lease_expires_at <= statement_timestamp()
			ORDER BY lease_expires_at
			LIMIT $1
			FOR UPDATE SKIP LOCKED
		), recovered AS (
			UPDATE search.embeddings e
			SET token = NULL, claimed_hash = NULL, lease_expires_at = NULL,
			    failures = e.failures + (NOT g.superseded)::integer,
			    state = CASE WHEN NOT g.superseded AND e.failures + 1 >= $2 THEN 'dead' ELSE 'waiting' END,
			    error_code = 'lease_expired', error_message = NULL
			FROM gone g
			WHERE e.document_id = g.document_id
			RETURNING e.state, g.superseded
		)
		SELECT count(*) FILTER (WHERE state = 'waiting' AND NOT superseded), count(*) FILTER (WHERE state = 'dead'),
		       count(*) FILTER (WHERE superseded)
		FROM recovered`, limit, q.maxAttempts).Scan(&recovered.Requeued, &recovered.Dead, &recovered.Superseded)
	if err != nil {
		return reaper.Recovered{}, fmt.Errorf("recover stale leases: %w", err)
	}
	return recovered, nil
}
