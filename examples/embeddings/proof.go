package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/runner"
)

// result is what a run found.
type result struct {
	documents int // not withdrawn
	withdrawn int
	outcomes  runner.Outcomes
	fresh     summary
}

// String is the last line of a run that held everything it promises.
func (r result) String() string {
	return fmt.Sprintf("embeddings ok documents=%d withdrawn=%d stored=%d superseded=%d ineligible=%d lost=%d fresh_p50_ms=%d fresh_p95_ms=%d fresh_max_ms=%d",
		r.documents, r.withdrawn, r.outcomes.Succeeded, r.outcomes.Superseded, r.outcomes.Ineligible, r.outcomes.Lost,
		r.fresh.p50.Milliseconds(), r.fresh.p95.Milliseconds(), r.fresh.max.Milliseconds())
}

// prove compares every document with its vector: the one of its present content, or none if it was withdrawn.
func prove(ctx context.Context, pool *pgxpool.Pool, outcomes runner.Outcomes, fresh summary, out io.Writer) (result, error) {
	rows, err := pool.Query(ctx, `
		SELECT d.id, d.body, d.withdrawn, coalesce(e.state, 'missing'), e.vector, coalesce(e.vector_hash = d.hash, false)
		FROM search.documents d
		LEFT JOIN search.embeddings e ON e.document_id = d.id`)
	if err != nil {
		return result{}, fmt.Errorf("compare documents and vectors: %w", err)
	}
	found := result{outcomes: outcomes, fresh: fresh}
	var wrong []string
	var id int64
	var body, state string
	var withdrawn, current bool
	var vector Vector
	_, err = pgx.ForEachRow(rows, []any{&id, &body, &withdrawn, &state, &vector, &current}, func() error {
		switch {
		case withdrawn:
			found.withdrawn++
			if vector != nil || state != "cancelled" {
				wrong = append(wrong, fmt.Sprintf("document %d is withdrawn, its embedding %s (vector: %v)", id, state, vector != nil))
			}
		default:
			found.documents++
			if state != "stored" || !current || !slices.Equal(vector, embed(body)) {
				wrong = append(wrong, fmt.Sprintf("document %d is %s and its vector is not that of its content", id, state))
			}
		}
		vector = nil
		return nil
	})
	if err != nil {
		return result{}, fmt.Errorf("compare documents and vectors: %w", err)
	}
	if fresh.stored != int(outcomes.Succeeded) {
		wrong = append(wrong, fmt.Sprintf("%d vectors were stored, but the freshness of %d was measured", outcomes.Succeeded, fresh.stored))
	}
	if len(wrong) > 0 {
		return result{}, fmt.Errorf("%d things are wrong, such as: %s", len(wrong), wrong[0])
	}
	fmt.Fprintf(out, "proof      all %d documents have the vector of their present content, all %d that are withdrawn have none\n",
		found.documents, found.withdrawn)
	fmt.Fprintf(out, "freshness  %d vectors were stored: half of them %s after the change, 95 %% within %s, all within %s\n", fresh.stored,
		fresh.p50.Round(time.Millisecond), fresh.p95.Round(time.Millisecond), fresh.max.Round(time.Millisecond))
	fmt.Fprintf(out, "reports    %d came too late for their content, %d for their document, %d for a document that had been withdrawn\n",
		outcomes.Superseded, outcomes.Lost, outcomes.Ineligible)
	return found, nil
}
