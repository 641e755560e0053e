package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/pgqueue/pgqueue/runner"
)

// reportSQL stores a batch of verdicts, given as JSON, and tells by position what became of each.
//
// It decides on rows that it has locked, and waits for none: what somebody else holds is left out and answered `busy`. The
// fence is the token; where it does not match any more, nothing is changed and the answer is `lost`.
const reportSQL = `
WITH verdict AS (
	SELECT *
	FROM jsonb_to_recordset($1) AS v(n integer, document bigint, token uuid, decision text, vector real[], delay_us bigint,
	                                 max_attempts integer, code text, message text)
), held AS (
	-- The document is locked too, so that nobody can withdraw it between this look and the end of the statement. FOR SHARE
	-- is enough for that, and lets the application's other readers of the row be.
	SELECT e.document_id, e.token, e.failures, e.hash <> e.claimed_hash AS superseded, d.withdrawn, e.stale_since
	FROM search.embeddings e
	JOIN search.documents d ON d.id = e.document_id
	WHERE (e.document_id, e.token) IN (SELECT document, token FROM verdict)
	FOR UPDATE OF e SKIP LOCKED
	FOR SHARE OF d SKIP LOCKED
), first AS (
	-- A batch may say something twice about one claim, after an answer that got lost on its way. The first word counts.
	SELECT DISTINCT ON (v.document) v.*, h.failures, h.stale_since,
		CASE
			-- First of all, whatever the verdict: a document that is withdrawn is not waited for. (A snooze, or a retry, of one whose
			-- content has changed since would otherwise come back for ever.)
			WHEN h.withdrawn THEN 'ineligible'
			-- And before anything that is said about the content: a run of the old one tells nothing about the new.
			WHEN h.superseded THEN 'superseded'
			WHEN v.decision = 'succeed' THEN 'succeeded'
			WHEN v.decision = 'fail' THEN 'failed'
			WHEN v.decision = 'cancel' THEN 'cancelled'
			WHEN v.decision = 'snooze' THEN 'snoozed'
			WHEN v.decision = 'release' THEN 'released'
			WHEN h.failures + 1 >= least($2, nullif(v.max_attempts, 0)) THEN 'dead'
			ELSE 'retrying'
		END AS outcome
	FROM verdict v
	JOIN held h ON h.document_id = v.document AND h.token = v.token
	ORDER BY v.document, v.n
), written AS (
	-- One UPDATE closes the claim and stores the vector, so that neither is ever there without the other.
	UPDATE search.embeddings e
	SET token = NULL, claimed_hash = NULL, lease_expires_at = NULL,
	    state = CASE f.outcome
	        WHEN 'succeeded' THEN 'stored'
	        WHEN 'ineligible' THEN 'cancelled'
	        WHEN 'failed' THEN 'failed' WHEN 'dead' THEN 'dead' WHEN 'cancelled' THEN 'cancelled'
	        ELSE 'waiting' END,
	    failures = e.failures + (f.outcome IN ('failed', 'dead', 'retrying'))::integer,
	    due_at = CASE WHEN f.outcome IN ('retrying', 'snoozed') THEN statement_timestamp() + f.delay_us * interval '1 microsecond'
	                  ELSE e.due_at END,
	    vector = CASE f.outcome WHEN 'succeeded' THEN f.vector ELSE e.vector END,
	    vector_hash = CASE f.outcome WHEN 'succeeded' THEN e.hash ELSE e.vector_hash END,
	    embedded_at = CASE f.outcome WHEN 'succeeded' THEN statement_timestamp() ELSE e.embedded_at END,
	    stale_since = CASE f.outcome WHEN 'succeeded' THEN NULL ELSE e.stale_since END,
	    error_code = CASE WHEN f.outcome IN ('failed', 'dead', 'retrying') THEN f.code ELSE e.error_code END,
	    error_message = CASE WHEN f.outcome IN ('failed', 'dead', 'retrying') THEN f.message ELSE e.error_message END
	FROM first f
	WHERE e.document_id = f.document
	RETURNING f.n, f.outcome, (extract(epoch FROM statement_timestamp() - f.stale_since) * 1e6)::bigint AS fresh_us
)
SELECT v.n,
	CASE
		WHEN w.outcome IS NOT NULL THEN w.outcome
		-- The claim stands, but not in our hands. (Under this very claim in our hands it was said twice.)
		WHEN e.document_id IS NOT NULL AND h.document_id IS NULL THEN 'busy'
		-- A claim that is closed was settled by the handler's own transaction, as far as a confirmation can tell.
		WHEN v.decision = 'confirm' THEN 'succeeded'
		ELSE 'lost'
	END,
	w.fresh_us
FROM verdict v
LEFT JOIN written w ON w.n = v.n
LEFT JOIN held h ON h.document_id = v.document AND h.token = v.token
LEFT JOIN search.embeddings e ON e.document_id = v.document AND e.token = v.token
ORDER BY v.n`

// verdictRow is one verdict as reportSQL reads it.
type verdictRow struct {
	N           int    `json:"n"`
	Document    int64  `json:"document"`
	Token       string `json:"token"`
	Decision    string `json:"decision"`
	Vector      Vector `json:"vector"`
	DelayUS     int64  `json:"delay_us"`
	MaxAttempts int    `json:"max_attempts"`
	Code        string `json:"code"`
	Message     string `json:"message"`
}

// Report stores verdicts.
func (q *queue) Report(ctx context.Context, verdicts []runner.Verdict[Vector]) ([]runner.Outcome, error) {
	batch := make([]verdictRow, len(verdicts))
	for i, v := range verdicts {
		row, err := newVerdictRow(i, v)
		if err != nil {
			return nil, err
		}
		batch[i] = row
	}
	text, err := json.Marshal(batch)
	if err != nil {
		return nil, fmt.Errorf("report on documents: %w", err)
	}
	rows, err := q.pool.Query(ctx, reportSQL, string(text), q.maxAttempts)
	if err != nil {
		return nil, fmt.Errorf("report on documents: %w", err)
	}
	defer rows.Close()
	outcomes := make([]runner.Outcome, len(verdicts))
	var fresh []time.Duration
	for rows.Next() {
		var n int
		var outcome string
		var freshUS *int64
		if err := rows.Scan(&n, &outcome, &freshUS); err != nil {
			return nil, fmt.Errorf("report on documents: %w", err)
		}
		outcomes[n] = outcomeNamed(outcome)
		if outcomes[n] == runner.Succeeded && freshUS != nil {
			fresh = append(fresh, time.Duration(*freshUS)*time.Microsecond)
		}
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("report on documents: %w", err)
	}
	q.freshness.add(fresh...)
	return outcomes, nil
}

// newVerdictRow translates a verdict. A result that the store would refuse becomes a failure of this one task here, before
// the statement: there it would be an error of the whole batch.
func newVerdictRow(n int, v runner.Verdict[Vector]) (verdictRow, error) {
	token, ok := v.Token.(claimToken)
	if !ok {
		return verdictRow{}, fmt.Errorf("report on documents: a token of type %T is not of this queue", v.Token)
	}
	row := verdictRow{N: n, Document: token.document, Token: token.random, DelayUS: v.Delay.Microseconds(), MaxAttempts: v.MaxAttempts}
	switch v.Decision {
	case runner.Succeed:
		row.Decision = "succeed"
		if v.Result != nil {
			row.Vector = *v.Result
			if err := row.Vector.check(); err != nil {
				row.Decision, row.Vector, row.Code, row.Message = "fail", nil, "bad_vector", err.Error()
			}
		}
	case runner.Retry:
		row.Decision = "retry"
	case runner.Fail:
		row.Decision = "fail"
	case runner.Cancel:
		row.Decision = "cancel"
	case runner.Snooze:
		row.Decision = "snooze"
	case runner.Release:
		row.Decision = "release"
	case runner.Confirm:
		row.Decision = "confirm"
	default:
		return verdictRow{}, fmt.Errorf("report on documents: unknown decision %d", v.Decision)
	}
	if v.Failure != nil {
		row.Code, row.Message = v.Failure.Code, v.Failure.Message
	}
	return row, nil
}

func outcomeNamed(name string) runner.Outcome {
	switch name {
	case "busy":
		return runner.Busy
	case "superseded":
		return runner.Superseded
	case "ineligible":
		return runner.Ineligible
	case "succeeded":
		return runner.Succeeded
	case "retrying":
		return runner.Retrying
	case "failed":
		return runner.Failed
	case "dead":
		return runner.Dead
	case "cancelled":
		return runner.Cancelled
	case "snoozed":
		return runner.Snoozed
	case "released":
		return runner.Released
	}
	return runner.Lost
}
