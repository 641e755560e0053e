-- What people do to jobs and queues.

-- name: cancel
-- $1 queue  $2 id. Pending: finished at once. Running: asked to stop; renew tells the worker, and its verdict, or the reaper,
-- ends the job; the key stays taken until then. The open claim of a reaped job is closed by the deletion.
WITH l AS MATERIALIZED (
    SELECT j.id, j.state, statement_timestamp() AS t FROM {schema}.jobs j WHERE j.queue = $1 AND j.id = $2 FOR UPDATE
),
d AS (
    DELETE FROM {schema}.jobs j USING l WHERE j.queue = $1 AND j.id = l.id AND l.state = 'pending' RETURNING j.*
),
h AS (
    INSERT INTO {schema}.history (id, run_at, created_at, claimed_at, finished_at, day, attempt, generation, error_count, priority, failures,
        max_attempts, queue, kind, state, claimed_by, key, revision, payload, metadata, tags, errors)
    SELECT id, run_at, created_at, claimed_at, now(), (now() AT TIME ZONE 'UTC')::date, attempt, generation, error_count, priority, failures,
        max_attempts, queue, kind, 'cancelled', claimed_by, key, revision, payload, metadata, tags, errors
    FROM d RETURNING id
),
u AS (
    UPDATE {schema}.jobs j SET cancel_requested_at = coalesce(j.cancel_requested_at, l.t)
    FROM l WHERE j.queue = $1 AND j.id = l.id AND l.state = 'running' RETURNING j.id
)
SELECT 'cancelled' AS outcome FROM h UNION ALL SELECT 'requested' FROM u;

-- name: retry
-- $1 queue  $2 id. From history (failed and dead) back to jobs, with a new budget. A live job of the same key wins: then nothing
-- moves and nothing is lost. attempt goes on from where it was and claimed_at is NULL: a late report of the old attempt finds
-- nothing.
WITH l AS MATERIALIZED (
    SELECT * FROM {schema}.history WHERE queue = $1 AND id = $2 AND day = 'infinity' FOR UPDATE
),
i AS (
    INSERT INTO {schema}.jobs (id, run_at, created_at, attempt, generation, claimed_generation, error_count, priority, failures,
        max_attempts, queue, kind, key, revision, payload, metadata, tags, errors)
    SELECT id, statement_timestamp(), created_at, attempt, generation, generation, error_count, priority, 0,
        max_attempts, queue, kind, key, revision, payload, metadata, tags, errors
    FROM l ON CONFLICT DO NOTHING RETURNING id
),
d AS (
    DELETE FROM {schema}.history x USING i WHERE x.queue = $1 AND x.id = i.id AND x.day = 'infinity' RETURNING x.id
)
SELECT CASE WHEN d.id IS NULL THEN 'key_taken' ELSE 'retried' END AS outcome FROM l LEFT JOIN d ON d.id = l.id;

-- name: set_queue
-- $1 name  $2 paused (NULL: as it is)  $3 reason  $4 history (NULL: as it is). A queue that is paused again keeps the time of the
-- first pause and gets the newer reason.
INSERT INTO {schema}.queues AS q (name, paused_at, paused_reason, history)
VALUES ($1, CASE WHEN $2::boolean THEN statement_timestamp() END, CASE WHEN $2::boolean THEN $3::text END, coalesce($4::text, 'full'))
ON CONFLICT (name) DO UPDATE SET
    paused_at     = CASE WHEN $2::boolean IS NULL THEN q.paused_at WHEN $2::boolean THEN coalesce(q.paused_at, excluded.paused_at) END,
    paused_reason = CASE WHEN $2::boolean IS NULL THEN q.paused_reason WHEN $2::boolean THEN excluded.paused_reason END,
    history       = coalesce($4::text, q.history),
    updated_at    = statement_timestamp();
