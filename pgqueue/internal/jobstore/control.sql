-- What people do to jobs and queues, and what they want to know. The functions of the schema do the work, so that Go and psql
-- cannot differ; see migrations/sql/0002_control.up.sql.

-- name: cancel
-- $1 id
SELECT {schema}.cancel($1::bigint) AS outcome;

-- name: retry
-- $1 id
SELECT r.outcome, r.other_id FROM {schema}.retry($1::bigint) r;

-- name: set_max_attempts
-- $1 id  $2 how many attempts may fail
SELECT {schema}.set_max_attempts($1::bigint, $2::int) AS state;

-- name: pause
-- $1 queue  $2 reason (NULL: none)
SELECT {schema}.pause($1::text, $2::text)::text AS since;

-- name: resume
-- $1 queue
SELECT {schema}.resume($1::text)::text AS resumed;

-- name: set_history
-- $1 queue  $2 history
INSERT INTO {schema}.queues AS q (name, history) VALUES ($1::text, $2::text)
ON CONFLICT (name) DO UPDATE SET history = excluded.history, updated_at = excluded.updated_at;

-- name: read
-- $1 id. One job, wherever it is. History is asked by its primary key, once in each partition.
SELECT queue, kind, key, revision, state, priority, run_at, created_at, claimed_at, lease_expires_at, cancel_requested_at IS NOT NULL AS cancel,
       NULL::timestamptz AS finished_at, claimed_by, attempt, failures, max_attempts, generation, error_count,
       errors::text, tags, payload::text, metadata::text, NULL AS result
FROM {schema}.jobs WHERE id = $1::bigint
UNION ALL
SELECT queue, kind, key, revision, state, priority, run_at, created_at, claimed_at, NULL, false,
       finished_at, claimed_by, attempt, failures, max_attempts, generation, error_count,
       errors::text, tags, payload::text, metadata::text, result::text
FROM {schema}.history WHERE id = $1::bigint
ORDER BY finished_at DESC NULLS FIRST
LIMIT 1;

-- name: by_index
-- For one transaction: nothing but indexes, and a plan of its own. What is off looks dear where it is used all the same (the last
-- sort of a few names), and would have such a statement compiled: hence no jit.
SELECT set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true), set_config('enable_sort', 'off', true),
       set_config('plan_cache_mode', 'force_custom_plan', true), set_config('jit', 'off', true);

-- name: stats
-- $1 queue[]  $2 bound. What each queue holds, counted by index and no further than the bound: ten ranges a queue (four of
-- what is due, four of what is not, what runs, what failed) of at most bound + 1 rows each; the one more says that there are more.
-- It is sent behind by_index, and the ORDER BY in each range is that of one index: the bound must hold whatever the statistics
-- say. (Where they are old, a bitmap scan and a sort of a million rows look as cheap as the first ten thousand of an index.)
-- BETWEEN instead of = in history, because otherwise the index by time alone gives the same order, with other queues' rows in it.
SELECT u.queue, q.paused_at, q.paused_until, q.paused_reason, coalesce(s.history, 'full') AS history,
       due.ready, due.oldest, future.scheduled, future.retrying, future.most, running.n, running.expired,
       ended.failed, ended.dead, ended.n
FROM unnest($1::text[]) WITH ORDINALITY AS u(queue, ord)
     LEFT JOIN {schema}.queues s ON s.name = u.queue
     -- A pause that has ended is none, whether it was cleared or not.
     LEFT JOIN {schema}.queues q ON q.name = u.queue AND coalesce(q.paused_until, 'infinity') > statement_timestamp()
     CROSS JOIN LATERAL (
        SELECT array_agg(x.n ORDER BY c.priority) AS ready,
               coalesce(extract(epoch FROM statement_timestamp() - min(x.oldest)), 0)::float8 AS oldest
        FROM unnest(ARRAY[1, 2, 3, 4]::smallint[]) AS c(priority)
             CROSS JOIN LATERAL (
                SELECT count(*)::int AS n, min(r.run_at) FILTER (WHERE isfinite(r.run_at)) AS oldest
                FROM (SELECT j.run_at FROM {schema}.jobs j
                      WHERE j.queue = u.queue AND j.priority = c.priority AND j.state = 'pending' AND j.run_at <= statement_timestamp()
                      ORDER BY j.run_at, j.id LIMIT $2::int + 1) r) x) due
     CROSS JOIN LATERAL (
        SELECT sum(x.scheduled)::int AS scheduled, sum(x.retrying)::int AS retrying, max(x.n) AS most
        FROM unnest(ARRAY[1, 2, 3, 4]::smallint[]) AS c(priority)
             CROSS JOIN LATERAL (
                SELECT count(*) FILTER (WHERE r.failures = 0) AS scheduled, count(*) FILTER (WHERE r.failures > 0) AS retrying, count(*)::int AS n
                FROM (SELECT j.failures FROM {schema}.jobs j
                      WHERE j.queue = u.queue AND j.priority = c.priority AND j.state = 'pending' AND j.run_at > statement_timestamp()
                      ORDER BY j.run_at, j.id LIMIT $2::int + 1) r) x) future
     CROSS JOIN LATERAL (
        SELECT count(*)::int AS n, (count(*) FILTER (WHERE r.lease_expires_at < statement_timestamp()))::int AS expired
        FROM (SELECT j.lease_expires_at FROM {schema}.jobs j
              WHERE j.queue = u.queue AND j.state = 'running'
              ORDER BY j.claimed_at, j.id LIMIT $2::int + 1) r) running
     CROSS JOIN LATERAL (
        SELECT (count(*) FILTER (WHERE r.state = 'failed'))::int AS failed, (count(*) FILTER (WHERE r.state = 'dead'))::int AS dead, count(*)::int AS n
        FROM (SELECT h.state FROM {schema}.history h
              WHERE h.day = 'infinity' AND h.queue BETWEEN u.queue AND u.queue
              ORDER BY h.queue DESC, h.finished_at DESC LIMIT $2::int + 1) r) ended
ORDER BY u.ord;

-- name: queues
-- $1 bound. The names of the queues that hold anything or have settings: from each index one look-up a name, and no more than
-- the bound. (DISTINCT would read every row.) Sent behind by_index.
WITH RECURSIVE pending AS (
    (SELECT j.queue, 1 AS n FROM {schema}.jobs j WHERE j.state = 'pending' ORDER BY j.queue LIMIT 1)
    UNION ALL
    SELECT (SELECT j.queue FROM {schema}.jobs j WHERE j.state = 'pending' AND j.queue > p.queue ORDER BY j.queue LIMIT 1), p.n + 1
    FROM pending p WHERE p.queue IS NOT NULL AND p.n < $1::int
),
running AS (
    (SELECT j.queue, 1 AS n FROM {schema}.jobs j WHERE j.state = 'running' ORDER BY j.queue LIMIT 1)
    UNION ALL
    SELECT (SELECT j.queue FROM {schema}.jobs j WHERE j.state = 'running' AND j.queue > p.queue ORDER BY j.queue LIMIT 1), p.n + 1
    FROM running p WHERE p.queue IS NOT NULL AND p.n < $1::int
),
ended AS (
    (SELECT h.queue, 1 AS n FROM {schema}.history h WHERE h.day = 'infinity' ORDER BY h.queue LIMIT 1)
    UNION ALL
    SELECT (SELECT h.queue FROM {schema}.history h WHERE h.day = 'infinity' AND h.queue > p.queue ORDER BY h.queue LIMIT 1), p.n + 1
    FROM ended p WHERE p.queue IS NOT NULL AND p.n < $1::int
)
SELECT a.queue
FROM (SELECT queue FROM pending UNION SELECT queue FROM running UNION SELECT queue FROM ended
      UNION (SELECT q.name FROM {schema}.queues q ORDER BY q.name LIMIT $1::int)) a
WHERE a.queue IS NOT NULL ORDER BY a.queue LIMIT $1::int;
