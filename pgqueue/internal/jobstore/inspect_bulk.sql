-- What people do to many jobs at once: find the next batch, and act on it. See inspect.sql for the filter and the parts.
--
-- Nothing here waits long or is waited for. A batch is found by reading. It is written in a transaction of its own, by number, and each
-- row counts only if it is still the one that was found (its attempt and generation are): a worker that claimed the job
-- in between has made it another one. Claims and verdicts of workers pass over rows that a batch has locked.

-- name: highest
-- The highest number of any job: where a bulk action stops. Without it, a retry of all dead jobs would chase those that die again.
SELECT greatest((SELECT id FROM {schema}.jobs ORDER BY id DESC LIMIT 1), (SELECT id FROM {schema}.history ORDER BY id DESC LIMIT 1), 0) AS id;

-- name: find
-- The next batch, by ascending number. $19 the last number of the batch before  $20 batch  $21 scan; further as in list.
-- turn is the order in which to touch them: that of an enqueue (queue, kind, key), so that a batch and an enqueue of the same
-- keys wait for each other in one direction only.
WITH page AS MATERIALIZED (
    SELECT s.* FROM ({scan}) s WHERE {match} ORDER BY s.id LIMIT $20::int
)
SELECT e.n AS scanned, e.n < e.total OR e.total >= $21::int AS more, e.id AS last_id, p.id, p.state, p.attempt, p.generation, p.day,
       row_number() OVER (ORDER BY p.queue, p.kind, p.key NULLS FIRST, p.id) AS turn
FROM (SELECT count(*) AS found FROM page) c
     LEFT JOIN LATERAL (
        SELECT s.n, s.id, max(s.n) OVER () AS total FROM ({scan}) s
        WHERE c.found < $20::int ORDER BY s.before <= 67108864 DESC, s.n DESC LIMIT 1) e ON true
     LEFT JOIN page p ON true

-- name: batch_settings
-- For one transaction: nothing waits long for a lock (the row is left out and named instead), and joins go row by row.
SELECT set_config('lock_timeout', '250ms', true), set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true),
       set_config('enable_seqscan', 'off', true), set_config('plan_cache_mode', 'force_custom_plan', true), set_config('jit', 'off', true);

-- name: retry_many
-- $1 id[], in the order in which to touch them. The function does the work and sends the hint, which Postgres folds into one a
-- queue and transaction.
SELECT f.id, r.outcome, r.other_id
FROM unnest($1::bigint[]) WITH ORDINALITY f(id, ord) CROSS JOIN LATERAL {schema}.retry(f.id) r;

-- name: cancel_many
-- $1 id[]  $2 attempt[]  $3 generation[], in the order in which to touch them. One that was claimed since it was found is left out.
SELECT f.id, {schema}.cancel(f.id) AS outcome, NULL::bigint AS other_id
FROM unnest($1::bigint[], $2::int[], $3::int[]) WITH ORDINALITY f(id, attempt, generation, ord)
     CROSS JOIN LATERAL (SELECT FROM {schema}.jobs j WHERE j.id = f.id AND j.attempt = f.attempt AND j.generation = f.generation LIMIT 1) j;

-- name: delete_live
-- $1 id[]  $2 attempt[]  $3 generation[]  $4 running ones too. The worker of a deleted job finds its lease lost.
DELETE FROM {schema}.jobs
WHERE id = ANY (ARRAY (
    SELECT l.id FROM unnest($1::bigint[], $2::int[], $3::int[]) f(id, attempt, generation)
           CROSS JOIN LATERAL (
              SELECT j.id FROM {schema}.jobs j
              WHERE j.id = f.id AND j.attempt = f.attempt AND j.generation = f.generation AND ($4::boolean OR j.state <> 'running')
              FOR UPDATE SKIP LOCKED) l))
RETURNING id;

-- name: delete_ended
-- $1 id[]  $2 day[]  $3 attempt[]. The day leads to the partition. No FOR UPDATE, which would ask for a right that workers do not need.
DELETE FROM {schema}.history h USING unnest($1::bigint[], $2::date[], $3::int[]) f(id, day, attempt)
WHERE h.id = f.id AND h.day = f.day AND h.attempt = f.attempt
RETURNING h.id;

-- name: delete_one
-- $1 id  $2 running too  $3 attempt and $4 generation that it must have (NULL: any). Waits for whoever holds the row, and decides on what
-- it finds then. One that moved to history meanwhile is not seen: ask again.
WITH live AS (
    DELETE FROM {schema}.jobs j
    WHERE j.id = $1::bigint AND ($2::boolean OR j.state <> 'running')
      AND ($3::int IS NULL OR j.attempt = $3::int) AND ($4::int IS NULL OR j.generation = $4::int)
    RETURNING j.state
),
ended AS (
    DELETE FROM {schema}.history h
    WHERE h.id = $1::bigint AND ($3::int IS NULL OR h.attempt = $3::int) AND ($4::int IS NULL OR h.generation = $4::int)
    RETURNING h.state
)
SELECT state FROM live UNION ALL SELECT state FROM ended;

-- name: versions
-- $1 id[]. Where jobs stand, to say why something was not done to them.
SELECT id, state, attempt, generation FROM {schema}.jobs WHERE id = ANY ($1::bigint[])
UNION ALL
SELECT id, state, attempt, generation FROM {schema}.history WHERE id = ANY ($1::bigint[]);
