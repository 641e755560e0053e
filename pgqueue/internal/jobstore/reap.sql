-- Statements of the reaper and of upkeep.

-- name: reap
-- $1 queue  $2 limit  $3 claimed_at of the oldest claim that was open at the last pass (or '-infinity')
-- One statement: what is expired is decided on the locked row, so a job that completes meanwhile is never put back, and two
-- reapers never count one lapse twice (SKIP LOCKED). The page is filled with expired rows only; living leases in front of
-- them are passed over, not counted.
-- * claimed_at stays set: the claim is still open, and a late success of that attempt wins until somebody claims again.
--   attempt is not touched either.
-- * superseded first: the dead run's input was already replaced, so its death costs the new input nothing.
-- * run_at is raised to now: the job's old place is below every claimer's mark.
-- * No upper bound on claimed_at: leases differ by process.
WITH l AS MATERIALIZED (
    SELECT j.id, statement_timestamp() AS t, (now() AT TIME ZONE 'UTC')::date AS today,
           jsonb_build_object('code', 'lease_expired', 'attempt', j.attempt, 'started', j.claimed_at, 'at', statement_timestamp(),
                              'by', j.claimed_by) AS error,
           CASE WHEN j.generation <> j.claimed_generation  THEN 'superseded'
                WHEN j.cancel_requested_at IS NOT NULL     THEN 'cancelled'
                WHEN j.failures + 1 >= j.max_attempts      THEN 'dead'
                ELSE 'pending' END AS fate
    FROM {schema}.jobs j
    WHERE j.queue = $1 AND j.state = 'running' AND j.claimed_at >= $3 AND j.lease_expires_at < now()
    ORDER BY j.claimed_at, j.id LIMIT $2 FOR UPDATE SKIP LOCKED
),
u AS (
    UPDATE {schema}.jobs j
    SET state = 'pending', lease_expires_at = NULL,
        run_at      = CASE WHEN l.fate = 'superseded' THEN j.run_at ELSE greatest(j.run_at, l.t) END,
        failures    = j.failures + (l.fate = 'pending')::int,
        error_count = j.error_count + 1,
        errors      = (CASE WHEN jsonb_array_length(j.errors) >= 10 THEN j.errors - 0 ELSE coalesce(j.errors, '[]') END) || l.error
    FROM l WHERE j.queue = $1 AND j.id = l.id AND l.fate IN ('superseded', 'pending')
    RETURNING j.id, l.fate
),
d AS (
    DELETE FROM {schema}.jobs j USING l
    WHERE j.queue = $1 AND j.id = l.id AND l.fate IN ('dead', 'cancelled')
    RETURNING j.*, l.fate, l.today, l.error
),
h AS (
    INSERT INTO {schema}.history (id, run_at, created_at, claimed_at, finished_at, day, attempt, generation, error_count, priority, failures,
        max_attempts, queue, kind, state, claimed_by, key, revision, payload, metadata, tags, errors)
    SELECT id, run_at, created_at, claimed_at, now(), CASE WHEN fate = 'dead' THEN 'infinity' ELSE today END,
        attempt, generation, error_count + 1, priority, failures + (fate = 'dead')::int,
        max_attempts, queue, kind, fate, claimed_by, key, revision, payload, metadata, tags,
        (CASE WHEN jsonb_array_length(errors) >= 10 THEN errors - 0 ELSE coalesce(errors, '[]') END) || error
    FROM d RETURNING id, state
)
SELECT id, fate FROM u UNION ALL SELECT id, state FROM h;

-- name: lapsed
-- $1 queue[]  $2 the last answer about where to start, or '-infinity', of each. Has a lease of these queues run out, and where may the
-- next reap start (see reap_from)? A worker asks this once for all of its queues and reaps only where the answer is yes: nearly
-- always nothing has run out, and two statements a queue are what an idle worker would be busy with. Reads, locks nothing; that
-- another session holds the row that ran out is for reap to find.
-- * ORDER BY … LIMIT 1 instead of EXISTS, for which the planner, on statistics of another hour, may read the table.
SELECT u.ord,
       (SELECT true FROM {schema}.jobs j
        WHERE j.queue = u.queue AND j.state = 'running' AND j.claimed_at >= ($2::timestamptz[])[u.ord] AND j.lease_expires_at < now()
        ORDER BY j.claimed_at, j.id LIMIT 1) IS NOT NULL OR current_setting('transaction_read_only')::boolean AS lapsed,
       least((SELECT j.claimed_at FROM {schema}.jobs j
              WHERE j.queue = u.queue AND j.state = 'running' AND j.claimed_at >= ($2::timestamptz[])[u.ord]
              ORDER BY j.claimed_at, j.id LIMIT 1), now() - interval '1 minute') AS since
FROM unnest($1::text[]) WITH ORDINALITY AS u(queue, ord);

-- name: reap_from
-- $1 queue  $2 the last answer (or '-infinity'). Where the next reap may start: the oldest claim that is still open, but a minute
-- back at most recent, because a claim is stamped when it starts and visible when it commits. Without it every pass walks
-- the dead index entries of all jobs that ran since vacuum last could clean up.
SELECT least(coalesce(min(claimed_at), now()), now() - interval '1 minute') AS since
FROM {schema}.jobs WHERE queue = $1 AND state = 'running' AND claimed_at >= $2;

-- name: ensure_history
-- $1 days ahead. See the function: it is safe to call from any number of processes.
SELECT {schema}.ensure_history($1::int);

-- name: drop_history
-- $1 how long to keep, in seconds. One expired partition a call; NULL when it was busy, '' when there is nothing to do.
SELECT {schema}.drop_history($1::bigint * interval '1 second');

-- name: expire_attention
-- $1 how long to keep, in seconds  $2 batch. Failed and dead jobs that are older; fewer than a batch = done.
SELECT {schema}.expire_attention($1::bigint * interval '1 second', $2::int);
