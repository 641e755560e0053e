-- The statements that the programs of schema version 4 send, without their comments: pgqueue/internal/jobstore/*.sql and schedule/schedule.sql
-- as they were in the last commit before version 5, those of the inspector put together from their parts. Version N works with the programs
-- of N-1 (docs/compatibility.md), so these must go on to work with version 5.

-- name: attention
WITH latest AS MATERIALIZED (
    SELECT s.*, CASE WHEN pg_column_size(s.errors) <= 65536 THEN coalesce(left(s.errors->-1->>'code', 64), '') ELSE '' END AS code
    FROM (SELECT x.*, sum(x.weight) OVER (ROWS UNBOUNDED PRECEDING) - x.weight AS before
          FROM (SELECT h.id, h.queue, h.kind, h.key, h.revision, h.state, h.priority, h.run_at, h.created_at, h.claimed_at, NULL::timestamptz AS lease_expires_at,
false AS cancel, h.finished_at, h.day, h.claimed_by, h.attempt, h.generation,
h.failures, h.max_attempts, h.error_count, h.tags, h.payload, h.errors,
CASE WHEN $16::text IS NULL THEN 0 ELSE pg_column_size(h.payload) END
    + CASE WHEN $15::text IS NULL OR h.errors IS NULL THEN 0 ELSE pg_column_size(h.errors) END AS weight FROM {schema}.history h
                WHERE h.day = 'infinity' 
                  AND ($11::timestamptz IS NULL OR h.finished_at >= $11::timestamptz)
                  AND ($12::timestamptz IS NULL OR h.finished_at < $12::timestamptz)
                ORDER BY  h.finished_at DESC LIMIT $19::int + 1) x) s
)
SELECT (SELECT count(*) > $19::int OR bool_or(x.before > 67108864) FROM latest x) AS more, s.state, s.code, s.kind, s.queue, count(*) AS n,
       min(s.finished_at) AS first_at, max(s.finished_at) AS last_at, (array_agg(s.id ORDER BY s.finished_at DESC, s.id DESC))[1] AS last_id
FROM latest s WHERE     s.before <= 67108864
AND ($1::text[] IS NULL OR s.state = ANY ($1::text[]))
AND ($2::text IS NULL OR s.queue = $2::text)
AND ($3::text IS NULL OR s.kind = $3::text)
AND ($4::text IS NULL OR s.key = $4::text)
AND ($5::text[] IS NULL OR s.tags @> $5::text[])
AND ($6::smallint IS NULL OR s.priority = $6::smallint)
AND ($7::bigint IS NULL OR s.id >= $7::bigint)
AND ($8::bigint IS NULL OR s.id <= $8::bigint)
AND ($9::timestamptz IS NULL OR s.created_at >= $9::timestamptz)
AND ($10::timestamptz IS NULL OR s.created_at < $10::timestamptz)
AND ($11::timestamptz IS NULL OR s.finished_at >= $11::timestamptz)
AND ($12::timestamptz IS NULL OR s.finished_at < $12::timestamptz)
AND ($13::timestamptz IS NULL OR s.run_at >= $13::timestamptz)
AND ($14::timestamptz IS NULL OR s.run_at < $14::timestamptz)
AND ($17::text IS NULL OR s.claimed_by = $17::text)
AND ($18::bigint[] IS NULL OR s.id = ANY ($18::bigint[]))
AND ($15::text IS NULL OR CASE WHEN s.error_count > 0 THEN s.errors->-1->>'code' END = $15::text)
AND ($16::text IS NULL OR CASE WHEN s.before <= 67108864 THEN s.payload @> $16::text::jsonb END)
GROUP BY s.state, s.code, s.kind, s.queue
ORDER BY count(*) DESC, max(s.finished_at) DESC, s.state, s.code, s.kind, s.queue
LIMIT $20::int;

-- name: attention_in_queue
WITH latest AS MATERIALIZED (
    SELECT s.*, CASE WHEN pg_column_size(s.errors) <= 65536 THEN coalesce(left(s.errors->-1->>'code', 64), '') ELSE '' END AS code
    FROM (SELECT x.*, sum(x.weight) OVER (ROWS UNBOUNDED PRECEDING) - x.weight AS before
          FROM (SELECT h.id, h.queue, h.kind, h.key, h.revision, h.state, h.priority, h.run_at, h.created_at, h.claimed_at, NULL::timestamptz AS lease_expires_at,
false AS cancel, h.finished_at, h.day, h.claimed_by, h.attempt, h.generation,
h.failures, h.max_attempts, h.error_count, h.tags, h.payload, h.errors,
CASE WHEN $16::text IS NULL THEN 0 ELSE pg_column_size(h.payload) END
    + CASE WHEN $15::text IS NULL OR h.errors IS NULL THEN 0 ELSE pg_column_size(h.errors) END AS weight FROM {schema}.history h
                WHERE h.day = 'infinity' AND h.queue BETWEEN $2::text AND $2::text
                  AND ($11::timestamptz IS NULL OR h.finished_at >= $11::timestamptz)
                  AND ($12::timestamptz IS NULL OR h.finished_at < $12::timestamptz)
                ORDER BY h.queue DESC, h.finished_at DESC LIMIT $19::int + 1) x) s
)
SELECT (SELECT count(*) > $19::int OR bool_or(x.before > 67108864) FROM latest x) AS more, s.state, s.code, s.kind, s.queue, count(*) AS n,
       min(s.finished_at) AS first_at, max(s.finished_at) AS last_at, (array_agg(s.id ORDER BY s.finished_at DESC, s.id DESC))[1] AS last_id
FROM latest s WHERE     s.before <= 67108864
AND ($1::text[] IS NULL OR s.state = ANY ($1::text[]))
AND ($2::text IS NULL OR s.queue = $2::text)
AND ($3::text IS NULL OR s.kind = $3::text)
AND ($4::text IS NULL OR s.key = $4::text)
AND ($5::text[] IS NULL OR s.tags @> $5::text[])
AND ($6::smallint IS NULL OR s.priority = $6::smallint)
AND ($7::bigint IS NULL OR s.id >= $7::bigint)
AND ($8::bigint IS NULL OR s.id <= $8::bigint)
AND ($9::timestamptz IS NULL OR s.created_at >= $9::timestamptz)
AND ($10::timestamptz IS NULL OR s.created_at < $10::timestamptz)
AND ($11::timestamptz IS NULL OR s.finished_at >= $11::timestamptz)
AND ($12::timestamptz IS NULL OR s.finished_at < $12::timestamptz)
AND ($13::timestamptz IS NULL OR s.run_at >= $13::timestamptz)
AND ($14::timestamptz IS NULL OR s.run_at < $14::timestamptz)
AND ($17::text IS NULL OR s.claimed_by = $17::text)
AND ($18::bigint[] IS NULL OR s.id = ANY ($18::bigint[]))
AND ($15::text IS NULL OR CASE WHEN s.error_count > 0 THEN s.errors->-1->>'code' END = $15::text)
AND ($16::text IS NULL OR CASE WHEN s.before <= 67108864 THEN s.payload @> $16::text::jsonb END)
GROUP BY s.state, s.code, s.kind, s.queue
ORDER BY count(*) DESC, max(s.finished_at) DESC, s.state, s.code, s.kind, s.queue
LIMIT $20::int;

-- name: await_live
SELECT j.id, coalesce(q.history, 'full') = 'off' AS forgotten
FROM {schema}.jobs j LEFT JOIN {schema}.queues q ON q.name = j.queue
WHERE j.id = ANY ($1::bigint[]);

-- name: await_read
SELECT id, queue, kind, key, revision, state, priority, run_at, created_at, claimed_at, lease_expires_at, cancel_requested_at IS NOT NULL AS cancel,
       NULL::timestamptz AS finished_at, claimed_by, attempt, failures, max_attempts, generation, error_count,
       errors::text, tags, payload::text, metadata::text, NULL AS result
FROM {schema}.jobs WHERE id = ANY ($1::bigint[])
UNION ALL
SELECT id, queue, kind, key, revision, state, priority, run_at, created_at, claimed_at, NULL, false,
       finished_at, claimed_by, attempt, failures, max_attempts, generation, error_count,
       errors::text, tags, payload::text, metadata::text, result::text
FROM {schema}.history WHERE id = ANY ($1::bigint[])
ORDER BY id, finished_at DESC NULLS FIRST;

-- name: batch_settings
SELECT set_config('lock_timeout', '250ms', true), set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true),
       set_config('enable_seqscan', 'off', true), set_config('plan_cache_mode', 'force_custom_plan', true), set_config('jit', 'off', true);

-- name: by_index
SELECT set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true), set_config('enable_sort', 'off', true),
       set_config('plan_cache_mode', 'force_custom_plan', true), set_config('jit', 'off', true);

-- name: cancel
SELECT {schema}.cancel($1::bigint) AS outcome;

-- name: cancel_many
SELECT f.id, {schema}.cancel(f.id) AS outcome, NULL::bigint AS other_id
FROM unnest($1::bigint[], $2::int[], $3::int[]) WITH ORDINALITY f(id, attempt, generation, ord)
     CROSS JOIN LATERAL (SELECT FROM {schema}.jobs j WHERE j.id = f.id AND j.attempt = f.attempt AND j.generation = f.generation LIMIT 1) j;

-- name: citus_enqueue_one_hint
WITH put AS (
    INSERT INTO {schema}.jobs (queue, kind, payload, metadata, tags, priority, run_at, max_attempts)
    VALUES ($1::text, $2::text, $3::text::jsonb, $4::text::jsonb, $5::text[], $6::smallint,
            coalesce($7::timestamptz, statement_timestamp()) + coalesce($8::bigint, 0) * interval '1 microsecond', $9::smallint)
    RETURNING id
)
SELECT id, pg_notify($10::text, $1::text)::text AS sent FROM put;

-- name: citus_queues
SELECT n.queue FROM {schema}.queue_names($1::int) n ORDER BY n.queue;

-- name: claim
WITH claimed AS (
    UPDATE {schema}.jobs AS j
    SET state = 'running', attempt = j.attempt + 1, claimed_generation = j.generation, claimed_by = $4,
        claimed_at = statement_timestamp(), lease_expires_at = statement_timestamp() + $3::bigint * interval '1 microsecond'
    WHERE j.queue = $1 AND j.id = ANY (ARRAY (
        SELECT c.id
        FROM unnest($6::smallint[], $7::timestamptz[], $8::bigint[]) WITH ORDINALITY AS p(priority, since, since_id, ord)
             CROSS JOIN LATERAL (
                SELECT r.id FROM {schema}.jobs r
                WHERE r.queue = $1 AND r.priority = p.priority AND r.state = 'pending' AND r.run_at <= statement_timestamp()
                  AND (r.run_at, r.id) >= (p.since, p.since_id) AND ($5::text[] IS NULL OR r.kind = ANY ($5::text[]))
                  AND CASE WHEN r.kind = ANY (ARRAY (
                        SELECT h.kind FROM {schema}.paused_kinds h
                        WHERE h.queue IN ('', $1) AND coalesce(h.paused_until, 'infinity') > statement_timestamp())) THEN NULL ELSE 1 END IS NOT NULL
                ORDER BY r.run_at, r.id LIMIT $2 FOR UPDATE SKIP LOCKED) c
        ORDER BY p.ord LIMIT $2))
      AND NOT EXISTS (SELECT FROM {schema}.queues q
                      WHERE q.name = $1 AND q.paused_at IS NOT NULL AND coalesce(q.paused_until, 'infinity') > statement_timestamp())
    RETURNING j.id, j.attempt, j.kind, j.priority, j.run_at, j.failures, j.max_attempts, j.generation, j.key, j.revision,
              j.created_at, j.payload::text AS payload, nullif(j.metadata, '{}')::text AS metadata, nullif(j.tags, '{}') AS tags,
              (SELECT clock_timestamp()) AS found_at
)
SELECT c.id, c.attempt, c.kind, c.priority, c.run_at, c.failures, c.max_attempts, c.generation, c.key, c.revision,
       c.created_at, c.payload, c.metadata, c.tags, c.found_at,
       NULL AS claimed_at, NULL AS db_now, NULL AS history, NULL AS paused_until, NULL AS paused_kinds
FROM claimed c
UNION ALL
SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, clock_timestamp(),
       statement_timestamp(), now(), coalesce((SELECT q.history FROM {schema}.queues q WHERE q.name = $1), 'full'),
       (SELECT coalesce(q.paused_until, 'infinity') FROM {schema}.queues q
        WHERE q.name = $1 AND q.paused_at IS NOT NULL AND coalesce(q.paused_until, 'infinity') > statement_timestamp()),
       (SELECT json_agg(json_build_array(h.kind, CASE WHEN isfinite(h.paused_until)
                   THEN ceil(extract(epoch FROM h.paused_until - statement_timestamp()) * 1000000) END))::text
        FROM {schema}.paused_kinds h
        WHERE h.queue IN ('', $1) AND coalesce(h.paused_until, 'infinity') > statement_timestamp());

-- name: complete
WITH d AS (
    DELETE FROM {schema}.jobs
    WHERE queue = $1 AND id = ANY (ARRAY (
        SELECT l.id FROM unnest($2::bigint[], $3::int[]) f(id, attempt)
               CROSS JOIN LATERAL (
                  SELECT j.id FROM {schema}.jobs j
                  WHERE j.queue = $1 AND j.id = f.id AND j.attempt = f.attempt
                    AND j.claimed_at IS NOT NULL AND j.generation = j.claimed_generation
                  FOR UPDATE SKIP LOCKED) l))
    RETURNING *
)
INSERT INTO {schema}.history (id, run_at, created_at, claimed_at, finished_at, day, attempt, generation, error_count, priority, failures,
    max_attempts, queue, kind, state, claimed_by, key, revision, payload, metadata, tags, errors)
SELECT id, run_at, created_at, claimed_at, now(), (now() AT TIME ZONE 'UTC')::date, attempt, generation, error_count, priority, failures,
    max_attempts, queue, kind, 'succeeded', claimed_by, key, revision, CASE WHEN $4::boolean THEN '{}' ELSE payload END, metadata, tags, errors
FROM d RETURNING id, attempt;

-- name: complete_forget
DELETE FROM {schema}.jobs
WHERE queue = $1 AND ctid = ANY (ARRAY (
    SELECT l.ctid FROM unnest($2::bigint[], $3::int[]) f(id, attempt)
           CROSS JOIN LATERAL (
              SELECT j.ctid FROM {schema}.jobs j
              WHERE j.queue = $1 AND j.id = f.id AND j.attempt = f.attempt
                AND j.claimed_at IS NOT NULL AND j.generation = j.claimed_generation
              FOR UPDATE SKIP LOCKED) l))
RETURNING id, attempt;

-- name: count
SELECT s.source, s.state, count(*) AS scanned, count(*) FILTER (WHERE     s.before <= 67108864
AND ($1::text[] IS NULL OR s.state = ANY ($1::text[]))
AND ($2::text IS NULL OR s.queue = $2::text)
AND ($3::text IS NULL OR s.kind = $3::text)
AND ($4::text IS NULL OR s.key = $4::text)
AND ($5::text[] IS NULL OR s.tags @> $5::text[])
AND ($6::smallint IS NULL OR s.priority = $6::smallint)
AND ($7::bigint IS NULL OR s.id >= $7::bigint)
AND ($8::bigint IS NULL OR s.id <= $8::bigint)
AND ($9::timestamptz IS NULL OR s.created_at >= $9::timestamptz)
AND ($10::timestamptz IS NULL OR s.created_at < $10::timestamptz)
AND ($11::timestamptz IS NULL OR s.finished_at >= $11::timestamptz)
AND ($12::timestamptz IS NULL OR s.finished_at < $12::timestamptz)
AND ($13::timestamptz IS NULL OR s.run_at >= $13::timestamptz)
AND ($14::timestamptz IS NULL OR s.run_at < $14::timestamptz)
AND ($17::text IS NULL OR s.claimed_by = $17::text)
AND ($18::bigint[] IS NULL OR s.id = ANY ($18::bigint[]))
AND ($15::text IS NULL OR CASE WHEN s.error_count > 0 THEN s.errors->-1->>'code' END = $15::text)
AND ($16::text IS NULL OR CASE WHEN s.before <= 67108864 THEN s.payload @> $16::text::jsonb END)) AS matches, bool_or(s.before > 67108864) AS cut
FROM ((SELECT 1 AS source, x.*, sum(x.weight) OVER (ROWS UNBOUNDED PRECEDING) - x.weight AS before FROM (
          SELECT j.id, j.queue, j.kind, j.key, j.revision, j.state, j.priority, j.run_at, j.created_at, j.claimed_at, j.lease_expires_at,
j.cancel_requested_at IS NOT NULL AS cancel, NULL::timestamptz AS finished_at, NULL::date AS day, j.claimed_by, j.attempt, j.generation,
j.failures, j.max_attempts, j.error_count, j.tags, j.payload, j.errors,
CASE WHEN $16::text IS NULL THEN 0 ELSE pg_column_size(j.payload) END
    + CASE WHEN $15::text IS NULL OR j.errors IS NULL THEN 0 ELSE pg_column_size(j.errors) END AS weight FROM {schema}.jobs j
          WHERE ($1::text[] IS NULL OR 'pending' = ANY ($1::text[])) AND $11::timestamptz IS NULL AND $12::timestamptz IS NULL
            AND ($2::text IS NULL OR j.queue = $2::text) AND j.state = 'pending'
          ORDER BY j.queue, j.priority, j.run_at, j.id LIMIT $19::int + 1) x)
      UNION ALL
      (SELECT 2, x.*, sum(x.weight) OVER (ROWS UNBOUNDED PRECEDING) - x.weight AS before FROM (
          SELECT j.id, j.queue, j.kind, j.key, j.revision, j.state, j.priority, j.run_at, j.created_at, j.claimed_at, j.lease_expires_at,
j.cancel_requested_at IS NOT NULL AS cancel, NULL::timestamptz AS finished_at, NULL::date AS day, j.claimed_by, j.attempt, j.generation,
j.failures, j.max_attempts, j.error_count, j.tags, j.payload, j.errors,
CASE WHEN $16::text IS NULL THEN 0 ELSE pg_column_size(j.payload) END
    + CASE WHEN $15::text IS NULL OR j.errors IS NULL THEN 0 ELSE pg_column_size(j.errors) END AS weight FROM {schema}.jobs j
          WHERE ($1::text[] IS NULL OR 'running' = ANY ($1::text[])) AND $11::timestamptz IS NULL AND $12::timestamptz IS NULL
            AND ($2::text IS NULL OR j.queue = $2::text) AND j.state = 'running'
          ORDER BY j.queue, j.claimed_at, j.id LIMIT $19::int + 1) x)
      UNION ALL
      (SELECT 3, x.*, sum(x.weight) OVER (ROWS UNBOUNDED PRECEDING) - x.weight AS before FROM (
          SELECT h.id, h.queue, h.kind, h.key, h.revision, h.state, h.priority, h.run_at, h.created_at, h.claimed_at, NULL::timestamptz AS lease_expires_at,
false AS cancel, h.finished_at, h.day, h.claimed_by, h.attempt, h.generation,
h.failures, h.max_attempts, h.error_count, h.tags, h.payload, h.errors,
CASE WHEN $16::text IS NULL THEN 0 ELSE pg_column_size(h.payload) END
    + CASE WHEN $15::text IS NULL OR h.errors IS NULL THEN 0 ELSE pg_column_size(h.errors) END AS weight FROM {schema}.history h
          WHERE     ($1::text[] IS NULL OR $1::text[] && ARRAY['succeeded', 'cancelled', 'failed', 'dead'])
AND ($1::text[] IS NULL OR $1::text[] && ARRAY['failed', 'dead'] OR h.day < 'infinity')
AND ($1::text[] IS NULL OR $1::text[] && ARRAY['succeeded', 'cancelled'] OR h.day = 'infinity')
AND ($11::timestamptz IS NULL OR h.day >= ($11::timestamptz AT TIME ZONE 'UTC')::date - 2)
AND ($12::timestamptz IS NULL OR h.day <= ($12::timestamptz AT TIME ZONE 'UTC')::date OR h.day = 'infinity') AND ($1::text[] IS NULL OR $1::text[] && ARRAY['succeeded', 'cancelled']) AND h.day < 'infinity'
          ORDER BY h.id DESC LIMIT $19::int + 1) x)
      UNION ALL
      (SELECT 4, x.*, sum(x.weight) OVER (ROWS UNBOUNDED PRECEDING) - x.weight AS before FROM (
          SELECT h.id, h.queue, h.kind, h.key, h.revision, h.state, h.priority, h.run_at, h.created_at, h.claimed_at, NULL::timestamptz AS lease_expires_at,
false AS cancel, h.finished_at, h.day, h.claimed_by, h.attempt, h.generation,
h.failures, h.max_attempts, h.error_count, h.tags, h.payload, h.errors,
CASE WHEN $16::text IS NULL THEN 0 ELSE pg_column_size(h.payload) END
    + CASE WHEN $15::text IS NULL OR h.errors IS NULL THEN 0 ELSE pg_column_size(h.errors) END AS weight FROM {schema}.history h
          WHERE ($1::text[] IS NULL OR $1::text[] && ARRAY['failed', 'dead']) AND h.day = 'infinity' 
            AND ($11::timestamptz IS NULL OR h.finished_at >= $11::timestamptz)
            AND ($12::timestamptz IS NULL OR h.finished_at < $12::timestamptz)
          ORDER BY  h.finished_at DESC LIMIT $19::int + 1) x)) s
GROUP BY s.source, s.state;

-- name: count_ids
SELECT $20::int AS source, s.state, count(*) AS scanned, count(*) FILTER (WHERE     s.before <= 67108864
AND ($1::text[] IS NULL OR s.state = ANY ($1::text[]))
AND ($2::text IS NULL OR s.queue = $2::text)
AND ($3::text IS NULL OR s.kind = $3::text)
AND ($4::text IS NULL OR s.key = $4::text)
AND ($5::text[] IS NULL OR s.tags @> $5::text[])
AND ($6::smallint IS NULL OR s.priority = $6::smallint)
AND ($7::bigint IS NULL OR s.id >= $7::bigint)
AND ($8::bigint IS NULL OR s.id <= $8::bigint)
AND ($9::timestamptz IS NULL OR s.created_at >= $9::timestamptz)
AND ($10::timestamptz IS NULL OR s.created_at < $10::timestamptz)
AND ($11::timestamptz IS NULL OR s.finished_at >= $11::timestamptz)
AND ($12::timestamptz IS NULL OR s.finished_at < $12::timestamptz)
AND ($13::timestamptz IS NULL OR s.run_at >= $13::timestamptz)
AND ($14::timestamptz IS NULL OR s.run_at < $14::timestamptz)
AND ($17::text IS NULL OR s.claimed_by = $17::text)
AND ($18::bigint[] IS NULL OR s.id = ANY ($18::bigint[]))
AND ($15::text IS NULL OR CASE WHEN s.error_count > 0 THEN s.errors->-1->>'code' END = $15::text)
AND ($16::text IS NULL OR CASE WHEN s.before <= 67108864 THEN s.payload @> $16::text::jsonb END)) AS matches, bool_or(s.before > 67108864) AS cut
FROM (SELECT u.*, row_number() OVER w AS n, sum(u.weight) OVER w - u.weight AS before
FROM ((SELECT j.id, j.queue, j.kind, j.key, j.revision, j.state, j.priority, j.run_at, j.created_at, j.claimed_at, j.lease_expires_at,
j.cancel_requested_at IS NOT NULL AS cancel, NULL::timestamptz AS finished_at, NULL::date AS day, j.claimed_by, j.attempt, j.generation,
j.failures, j.max_attempts, j.error_count, j.tags, j.payload, j.errors,
CASE WHEN $16::text IS NULL THEN 0 ELSE pg_column_size(j.payload) END
    + CASE WHEN $15::text IS NULL OR j.errors IS NULL THEN 0 ELSE pg_column_size(j.errors) END AS weight FROM {schema}.jobs j WHERE ($1::text[] IS NULL OR $1::text[] && ARRAY['pending', 'running']) AND $11::timestamptz IS NULL AND $12::timestamptz IS NULL AND ($7::bigint IS NULL OR j.id >= $7::bigint) AND ($8::bigint IS NULL OR j.id <= $8::bigint) AND ($18::bigint[] IS NULL OR j.id = ANY ($18::bigint[]))
AND ($19::bigint IS NULL OR j.id > $19::bigint) ORDER BY j.id ASC LIMIT $21::int)
      UNION ALL
      (SELECT h.id, h.queue, h.kind, h.key, h.revision, h.state, h.priority, h.run_at, h.created_at, h.claimed_at, NULL::timestamptz AS lease_expires_at,
false AS cancel, h.finished_at, h.day, h.claimed_by, h.attempt, h.generation,
h.failures, h.max_attempts, h.error_count, h.tags, h.payload, h.errors,
CASE WHEN $16::text IS NULL THEN 0 ELSE pg_column_size(h.payload) END
    + CASE WHEN $15::text IS NULL OR h.errors IS NULL THEN 0 ELSE pg_column_size(h.errors) END AS weight FROM {schema}.history h WHERE     ($1::text[] IS NULL OR $1::text[] && ARRAY['succeeded', 'cancelled', 'failed', 'dead'])
AND ($1::text[] IS NULL OR $1::text[] && ARRAY['failed', 'dead'] OR h.day < 'infinity')
AND ($1::text[] IS NULL OR $1::text[] && ARRAY['succeeded', 'cancelled'] OR h.day = 'infinity')
AND ($11::timestamptz IS NULL OR h.day >= ($11::timestamptz AT TIME ZONE 'UTC')::date - 2)
AND ($12::timestamptz IS NULL OR h.day <= ($12::timestamptz AT TIME ZONE 'UTC')::date OR h.day = 'infinity') AND ($7::bigint IS NULL OR h.id >= $7::bigint) AND ($8::bigint IS NULL OR h.id <= $8::bigint) AND ($18::bigint[] IS NULL OR h.id = ANY ($18::bigint[]))
AND ($19::bigint IS NULL OR h.id > $19::bigint) ORDER BY h.id ASC LIMIT $21::int)) u
WINDOW w AS (ORDER BY u.id ASC ROWS UNBOUNDED PRECEDING)
ORDER BY u.id ASC LIMIT $21::int) s
GROUP BY s.state;

-- name: count_in_queue
SELECT s.source, s.state, count(*) AS scanned, count(*) FILTER (WHERE     s.before <= 67108864
AND ($1::text[] IS NULL OR s.state = ANY ($1::text[]))
AND ($2::text IS NULL OR s.queue = $2::text)
AND ($3::text IS NULL OR s.kind = $3::text)
AND ($4::text IS NULL OR s.key = $4::text)
AND ($5::text[] IS NULL OR s.tags @> $5::text[])
AND ($6::smallint IS NULL OR s.priority = $6::smallint)
AND ($7::bigint IS NULL OR s.id >= $7::bigint)
AND ($8::bigint IS NULL OR s.id <= $8::bigint)
AND ($9::timestamptz IS NULL OR s.created_at >= $9::timestamptz)
AND ($10::timestamptz IS NULL OR s.created_at < $10::timestamptz)
AND ($11::timestamptz IS NULL OR s.finished_at >= $11::timestamptz)
AND ($12::timestamptz IS NULL OR s.finished_at < $12::timestamptz)
AND ($13::timestamptz IS NULL OR s.run_at >= $13::timestamptz)
AND ($14::timestamptz IS NULL OR s.run_at < $14::timestamptz)
AND ($17::text IS NULL OR s.claimed_by = $17::text)
AND ($18::bigint[] IS NULL OR s.id = ANY ($18::bigint[]))
AND ($15::text IS NULL OR CASE WHEN s.error_count > 0 THEN s.errors->-1->>'code' END = $15::text)
AND ($16::text IS NULL OR CASE WHEN s.before <= 67108864 THEN s.payload @> $16::text::jsonb END)) AS matches, bool_or(s.before > 67108864) AS cut
FROM ((SELECT 1 AS source, x.*, sum(x.weight) OVER (ROWS UNBOUNDED PRECEDING) - x.weight AS before FROM (
          SELECT j.id, j.queue, j.kind, j.key, j.revision, j.state, j.priority, j.run_at, j.created_at, j.claimed_at, j.lease_expires_at,
j.cancel_requested_at IS NOT NULL AS cancel, NULL::timestamptz AS finished_at, NULL::date AS day, j.claimed_by, j.attempt, j.generation,
j.failures, j.max_attempts, j.error_count, j.tags, j.payload, j.errors,
CASE WHEN $16::text IS NULL THEN 0 ELSE pg_column_size(j.payload) END
    + CASE WHEN $15::text IS NULL OR j.errors IS NULL THEN 0 ELSE pg_column_size(j.errors) END AS weight FROM {schema}.jobs j
          WHERE ($1::text[] IS NULL OR 'pending' = ANY ($1::text[])) AND $11::timestamptz IS NULL AND $12::timestamptz IS NULL
            AND ($2::text IS NULL OR j.queue = $2::text) AND j.state = 'pending'
          ORDER BY j.queue, j.priority, j.run_at, j.id LIMIT $19::int + 1) x)
      UNION ALL
      (SELECT 2, x.*, sum(x.weight) OVER (ROWS UNBOUNDED PRECEDING) - x.weight AS before FROM (
          SELECT j.id, j.queue, j.kind, j.key, j.revision, j.state, j.priority, j.run_at, j.created_at, j.claimed_at, j.lease_expires_at,
j.cancel_requested_at IS NOT NULL AS cancel, NULL::timestamptz AS finished_at, NULL::date AS day, j.claimed_by, j.attempt, j.generation,
j.failures, j.max_attempts, j.error_count, j.tags, j.payload, j.errors,
CASE WHEN $16::text IS NULL THEN 0 ELSE pg_column_size(j.payload) END
    + CASE WHEN $15::text IS NULL OR j.errors IS NULL THEN 0 ELSE pg_column_size(j.errors) END AS weight FROM {schema}.jobs j
          WHERE ($1::text[] IS NULL OR 'running' = ANY ($1::text[])) AND $11::timestamptz IS NULL AND $12::timestamptz IS NULL
            AND ($2::text IS NULL OR j.queue = $2::text) AND j.state = 'running'
          ORDER BY j.queue, j.claimed_at, j.id LIMIT $19::int + 1) x)
      UNION ALL
      (SELECT 3, x.*, sum(x.weight) OVER (ROWS UNBOUNDED PRECEDING) - x.weight AS before FROM (
          SELECT h.id, h.queue, h.kind, h.key, h.revision, h.state, h.priority, h.run_at, h.created_at, h.claimed_at, NULL::timestamptz AS lease_expires_at,
false AS cancel, h.finished_at, h.day, h.claimed_by, h.attempt, h.generation,
h.failures, h.max_attempts, h.error_count, h.tags, h.payload, h.errors,
CASE WHEN $16::text IS NULL THEN 0 ELSE pg_column_size(h.payload) END
    + CASE WHEN $15::text IS NULL OR h.errors IS NULL THEN 0 ELSE pg_column_size(h.errors) END AS weight FROM {schema}.history h
          WHERE     ($1::text[] IS NULL OR $1::text[] && ARRAY['succeeded', 'cancelled', 'failed', 'dead'])
AND ($1::text[] IS NULL OR $1::text[] && ARRAY['failed', 'dead'] OR h.day < 'infinity')
AND ($1::text[] IS NULL OR $1::text[] && ARRAY['succeeded', 'cancelled'] OR h.day = 'infinity')
AND ($11::timestamptz IS NULL OR h.day >= ($11::timestamptz AT TIME ZONE 'UTC')::date - 2)
AND ($12::timestamptz IS NULL OR h.day <= ($12::timestamptz AT TIME ZONE 'UTC')::date OR h.day = 'infinity') AND ($1::text[] IS NULL OR $1::text[] && ARRAY['succeeded', 'cancelled']) AND h.day < 'infinity'
          ORDER BY h.id DESC LIMIT $19::int + 1) x)
      UNION ALL
      (SELECT 4, x.*, sum(x.weight) OVER (ROWS UNBOUNDED PRECEDING) - x.weight AS before FROM (
          SELECT h.id, h.queue, h.kind, h.key, h.revision, h.state, h.priority, h.run_at, h.created_at, h.claimed_at, NULL::timestamptz AS lease_expires_at,
false AS cancel, h.finished_at, h.day, h.claimed_by, h.attempt, h.generation,
h.failures, h.max_attempts, h.error_count, h.tags, h.payload, h.errors,
CASE WHEN $16::text IS NULL THEN 0 ELSE pg_column_size(h.payload) END
    + CASE WHEN $15::text IS NULL OR h.errors IS NULL THEN 0 ELSE pg_column_size(h.errors) END AS weight FROM {schema}.history h
          WHERE ($1::text[] IS NULL OR $1::text[] && ARRAY['failed', 'dead']) AND h.day = 'infinity' AND h.queue BETWEEN $2::text AND $2::text
            AND ($11::timestamptz IS NULL OR h.finished_at >= $11::timestamptz)
            AND ($12::timestamptz IS NULL OR h.finished_at < $12::timestamptz)
          ORDER BY h.queue DESC, h.finished_at DESC LIMIT $19::int + 1) x)) s
GROUP BY s.source, s.state;

-- name: delete_ended
DELETE FROM {schema}.history h USING unnest($1::bigint[], $2::date[], $3::int[]) f(id, day, attempt)
WHERE h.id = f.id AND h.day = f.day AND h.attempt = f.attempt
RETURNING h.id;

-- name: delete_live
DELETE FROM {schema}.jobs
WHERE id = ANY (ARRAY (
    SELECT l.id FROM unnest($1::bigint[], $2::int[], $3::int[]) f(id, attempt, generation)
           CROSS JOIN LATERAL (
              SELECT j.id FROM {schema}.jobs j
              WHERE j.id = f.id AND j.attempt = f.attempt AND j.generation = f.generation AND ($4::boolean OR j.state <> 'running')
              FOR UPDATE SKIP LOCKED) l))
RETURNING id;

-- name: delete_one
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

-- name: drop_history
SELECT {schema}.drop_history($1::bigint * interval '1 second');

-- name: edit_payload
SELECT {schema}.edit_payload($1::bigint, $2::text::jsonb, $3::int) AS outcome;

-- name: enqueue
WITH input AS MATERIALIZED (
    SELECT nextval({sequence}::regclass) AS id, u.*
    FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::smallint[],
                $9::timestamptz[], $10::bigint[], $11::smallint[]) WITH ORDINALITY
         AS u(kind, key, revision, payload, metadata, tags, priority, run_at, delay_us, max_attempts, ord)
),
keyed AS MATERIALIZED (
    SELECT k.*, s.id AS same_id
    FROM (SELECT DISTINCT ON (kind, key) * FROM input WHERE key IS NOT NULL ORDER BY kind, key, ord DESC) k
         LEFT JOIN LATERAL (SELECT j.id FROM {schema}.jobs j
                            WHERE j.queue = $1::text AND j.kind = k.kind AND j.key = k.key
                              AND j.revision = k.revision AND j.cancel_requested_at IS NULL
                              AND current_setting('transaction_isolation') IN ('read committed', 'read uncommitted')
                            LIMIT 1) s ON true
),
put AS (
    INSERT INTO {schema}.jobs AS j (id, queue, kind, key, revision, payload, metadata, tags, priority, run_at, max_attempts)
    SELECT i.id, $1::text, i.kind, i.key, i.revision, i.payload::jsonb, i.metadata::jsonb, i.tags::text[], i.priority,
           coalesce(i.run_at, statement_timestamp()) + coalesce(i.delay_us, 0) * interval '1 microsecond', i.max_attempts
    FROM (SELECT *, NULL::bigint AS same_id FROM input WHERE key IS NULL
          UNION ALL
          SELECT * FROM keyed WHERE same_id IS NULL) i
    ORDER BY i.kind, i.key NULLS FIRST, i.id
    ON CONFLICT (queue, kind, key) WHERE key IS NOT NULL DO UPDATE SET
        revision = excluded.revision, payload = excluded.payload, metadata = excluded.metadata, tags = excluded.tags,
        priority = excluded.priority, max_attempts = excluded.max_attempts, cancel_requested_at = NULL,
        generation = CASE WHEN j.revision = excluded.revision AND j.cancel_requested_at IS NULL THEN j.generation ELSE j.generation + 1 END,
        failures   = CASE WHEN j.revision = excluded.revision AND j.cancel_requested_at IS NULL THEN j.failures ELSE 0 END,
        run_at     = CASE WHEN j.revision = excluded.revision AND j.cancel_requested_at IS NULL THEN j.run_at
                          WHEN j.state = 'pending' THEN least(j.run_at, excluded.run_at) ELSE excluded.run_at END
    RETURNING j.id, j.kind, j.key
),
hint AS MATERIALIZED (
    SELECT pg_notify($12::text, $1::text)::text AS sent WHERE $12::text IS NOT NULL AND EXISTS (SELECT FROM put)
),
placed AS (
    SELECT ord, own_id, max(live_id) OVER w AS id, bool_or(same) OVER w AS same
    FROM (SELECT kind, key, ord, id AS own_id, NULL::bigint AS live_id, false AS same FROM input WHERE key IS NOT NULL
          UNION ALL SELECT kind, key, NULL, NULL, id, false FROM put WHERE key IS NOT NULL
          UNION ALL SELECT kind, key, NULL, NULL, same_id, true FROM keyed WHERE same_id IS NOT NULL) x
    WINDOW w AS (PARTITION BY kind, key)
)
SELECT ord, id, outcome, (SELECT count(*) FROM hint) AS hints
FROM (SELECT ord, id, 'inserted' AS outcome FROM input WHERE key IS NULL
      UNION ALL
      SELECT ord, id, CASE WHEN same THEN 'same' WHEN id = own_id THEN 'inserted' ELSE 'replaced' END FROM placed WHERE ord IS NOT NULL) r
ORDER BY ord;

-- name: enqueue_one
INSERT INTO {schema}.jobs (queue, kind, payload, metadata, tags, priority, run_at, max_attempts)
VALUES ($1::text, $2::text, $3::text::jsonb, $4::text::jsonb, $5::text[], $6::smallint,
        coalesce($7::timestamptz, statement_timestamp()) + coalesce($8::bigint, 0) * interval '1 microsecond', $9::smallint)
RETURNING id;

-- name: enqueue_one_hint
INSERT INTO {schema}.jobs (queue, kind, payload, metadata, tags, priority, run_at, max_attempts)
VALUES ($1::text, $2::text, $3::text::jsonb, $4::text::jsonb, $5::text[], $6::smallint,
        coalesce($7::timestamptz, statement_timestamp()) + coalesce($8::bigint, 0) * interval '1 microsecond', $9::smallint)
RETURNING id, pg_notify($10::text, $1::text)::text AS sent;

-- name: enqueue_unique
SELECT u.ord, u.id, u.outcome, 0::bigint AS hints, u.state
FROM {schema}.enqueue_unique_batch($1::text, $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::smallint[],
    $9::timestamptz[], $10::bigint[], $11::smallint[], $12::text[], $13::text[], $14::bigint[], $15::text) u;

-- name: ensure_history
SELECT {schema}.ensure_history($1::int);

-- name: expire_attention
SELECT {schema}.expire_attention($1::bigint * interval '1 second', $2::int);

-- name: expire_progress
SELECT e.gone, e.next FROM {schema}.expire_progress($1::bigint, $2::int) e;

-- name: expire_unique_keys
SELECT {schema}.expire_unique_keys($1::int);

-- name: find
WITH page AS MATERIALIZED (
    SELECT s.* FROM (SELECT u.*, row_number() OVER w AS n, sum(u.weight) OVER w - u.weight AS before
FROM ((SELECT j.id, j.queue, j.kind, j.key, j.revision, j.state, j.priority, j.run_at, j.created_at, j.claimed_at, j.lease_expires_at,
j.cancel_requested_at IS NOT NULL AS cancel, NULL::timestamptz AS finished_at, NULL::date AS day, j.claimed_by, j.attempt, j.generation,
j.failures, j.max_attempts, j.error_count, j.tags, j.payload, j.errors,
CASE WHEN $16::text IS NULL THEN 0 ELSE pg_column_size(j.payload) END
    + CASE WHEN $15::text IS NULL OR j.errors IS NULL THEN 0 ELSE pg_column_size(j.errors) END AS weight FROM {schema}.jobs j WHERE ($1::text[] IS NULL OR $1::text[] && ARRAY['pending', 'running']) AND $11::timestamptz IS NULL AND $12::timestamptz IS NULL AND ($7::bigint IS NULL OR j.id >= $7::bigint) AND ($8::bigint IS NULL OR j.id <= $8::bigint) AND ($18::bigint[] IS NULL OR j.id = ANY ($18::bigint[]))
AND ($19::bigint IS NULL OR j.id > $19::bigint) ORDER BY j.id ASC LIMIT $21::int)
      UNION ALL
      (SELECT h.id, h.queue, h.kind, h.key, h.revision, h.state, h.priority, h.run_at, h.created_at, h.claimed_at, NULL::timestamptz AS lease_expires_at,
false AS cancel, h.finished_at, h.day, h.claimed_by, h.attempt, h.generation,
h.failures, h.max_attempts, h.error_count, h.tags, h.payload, h.errors,
CASE WHEN $16::text IS NULL THEN 0 ELSE pg_column_size(h.payload) END
    + CASE WHEN $15::text IS NULL OR h.errors IS NULL THEN 0 ELSE pg_column_size(h.errors) END AS weight FROM {schema}.history h WHERE     ($1::text[] IS NULL OR $1::text[] && ARRAY['succeeded', 'cancelled', 'failed', 'dead'])
AND ($1::text[] IS NULL OR $1::text[] && ARRAY['failed', 'dead'] OR h.day < 'infinity')
AND ($1::text[] IS NULL OR $1::text[] && ARRAY['succeeded', 'cancelled'] OR h.day = 'infinity')
AND ($11::timestamptz IS NULL OR h.day >= ($11::timestamptz AT TIME ZONE 'UTC')::date - 2)
AND ($12::timestamptz IS NULL OR h.day <= ($12::timestamptz AT TIME ZONE 'UTC')::date OR h.day = 'infinity') AND ($7::bigint IS NULL OR h.id >= $7::bigint) AND ($8::bigint IS NULL OR h.id <= $8::bigint) AND ($18::bigint[] IS NULL OR h.id = ANY ($18::bigint[]))
AND ($19::bigint IS NULL OR h.id > $19::bigint) ORDER BY h.id ASC LIMIT $21::int)) u
WINDOW w AS (ORDER BY u.id ASC ROWS UNBOUNDED PRECEDING)
ORDER BY u.id ASC LIMIT $21::int) s WHERE     s.before <= 67108864
AND ($1::text[] IS NULL OR s.state = ANY ($1::text[]))
AND ($2::text IS NULL OR s.queue = $2::text)
AND ($3::text IS NULL OR s.kind = $3::text)
AND ($4::text IS NULL OR s.key = $4::text)
AND ($5::text[] IS NULL OR s.tags @> $5::text[])
AND ($6::smallint IS NULL OR s.priority = $6::smallint)
AND ($7::bigint IS NULL OR s.id >= $7::bigint)
AND ($8::bigint IS NULL OR s.id <= $8::bigint)
AND ($9::timestamptz IS NULL OR s.created_at >= $9::timestamptz)
AND ($10::timestamptz IS NULL OR s.created_at < $10::timestamptz)
AND ($11::timestamptz IS NULL OR s.finished_at >= $11::timestamptz)
AND ($12::timestamptz IS NULL OR s.finished_at < $12::timestamptz)
AND ($13::timestamptz IS NULL OR s.run_at >= $13::timestamptz)
AND ($14::timestamptz IS NULL OR s.run_at < $14::timestamptz)
AND ($17::text IS NULL OR s.claimed_by = $17::text)
AND ($18::bigint[] IS NULL OR s.id = ANY ($18::bigint[]))
AND ($15::text IS NULL OR CASE WHEN s.error_count > 0 THEN s.errors->-1->>'code' END = $15::text)
AND ($16::text IS NULL OR CASE WHEN s.before <= 67108864 THEN s.payload @> $16::text::jsonb END) ORDER BY s.id LIMIT $20::int
)
SELECT e.n AS scanned, e.n < e.total OR e.total >= $21::int AS more, e.id AS last_id, p.id, p.state, p.attempt, p.generation, p.day,
       row_number() OVER (ORDER BY p.queue, p.kind, p.key NULLS FIRST, p.id) AS turn
FROM (SELECT count(*) AS found FROM page) c
     LEFT JOIN LATERAL (
        SELECT s.n, s.id, max(s.n) OVER () AS total FROM (SELECT u.*, row_number() OVER w AS n, sum(u.weight) OVER w - u.weight AS before
FROM ((SELECT j.id, j.queue, j.kind, j.key, j.revision, j.state, j.priority, j.run_at, j.created_at, j.claimed_at, j.lease_expires_at,
j.cancel_requested_at IS NOT NULL AS cancel, NULL::timestamptz AS finished_at, NULL::date AS day, j.claimed_by, j.attempt, j.generation,
j.failures, j.max_attempts, j.error_count, j.tags, j.payload, j.errors,
CASE WHEN $16::text IS NULL THEN 0 ELSE pg_column_size(j.payload) END
    + CASE WHEN $15::text IS NULL OR j.errors IS NULL THEN 0 ELSE pg_column_size(j.errors) END AS weight FROM {schema}.jobs j WHERE ($1::text[] IS NULL OR $1::text[] && ARRAY['pending', 'running']) AND $11::timestamptz IS NULL AND $12::timestamptz IS NULL AND ($7::bigint IS NULL OR j.id >= $7::bigint) AND ($8::bigint IS NULL OR j.id <= $8::bigint) AND ($18::bigint[] IS NULL OR j.id = ANY ($18::bigint[]))
AND ($19::bigint IS NULL OR j.id > $19::bigint) ORDER BY j.id ASC LIMIT $21::int)
      UNION ALL
      (SELECT h.id, h.queue, h.kind, h.key, h.revision, h.state, h.priority, h.run_at, h.created_at, h.claimed_at, NULL::timestamptz AS lease_expires_at,
false AS cancel, h.finished_at, h.day, h.claimed_by, h.attempt, h.generation,
h.failures, h.max_attempts, h.error_count, h.tags, h.payload, h.errors,
CASE WHEN $16::text IS NULL THEN 0 ELSE pg_column_size(h.payload) END
    + CASE WHEN $15::text IS NULL OR h.errors IS NULL THEN 0 ELSE pg_column_size(h.errors) END AS weight FROM {schema}.history h WHERE     ($1::text[] IS NULL OR $1::text[] && ARRAY['succeeded', 'cancelled', 'failed', 'dead'])
AND ($1::text[] IS NULL OR $1::text[] && ARRAY['failed', 'dead'] OR h.day < 'infinity')
AND ($1::text[] IS NULL OR $1::text[] && ARRAY['succeeded', 'cancelled'] OR h.day = 'infinity')
AND ($11::timestamptz IS NULL OR h.day >= ($11::timestamptz AT TIME ZONE 'UTC')::date - 2)
AND ($12::timestamptz IS NULL OR h.day <= ($12::timestamptz AT TIME ZONE 'UTC')::date OR h.day = 'infinity') AND ($7::bigint IS NULL OR h.id >= $7::bigint) AND ($8::bigint IS NULL OR h.id <= $8::bigint) AND ($18::bigint[] IS NULL OR h.id = ANY ($18::bigint[]))
AND ($19::bigint IS NULL OR h.id > $19::bigint) ORDER BY h.id ASC LIMIT $21::int)) u
WINDOW w AS (ORDER BY u.id ASC ROWS UNBOUNDED PRECEDING)
ORDER BY u.id ASC LIMIT $21::int) s
        WHERE c.found < $20::int ORDER BY s.before <= 67108864 DESC, s.n DESC LIMIT 1) e ON true
     LEFT JOIN page p ON true;

-- name: finish
WITH l AS MATERIALIZED (
    SELECT j.id, f.verdict, f.result, f.history, f.bound,
           statement_timestamp() + f.delay_us * interval '1 microsecond' AS due, (now() AT TIME ZONE 'UTC')::date AS today,
           CASE WHEN f.code IS NOT NULL THEN jsonb_strip_nulls(jsonb_build_object('code', f.code, 'message', nullif(f.message, ''),
                'attempt', j.attempt, 'started', j.claimed_at, 'at', statement_timestamp(), 'by', j.claimed_by)) END AS error,
           CASE WHEN j.generation <> j.claimed_generation                           THEN 'superseded'
                WHEN f.verdict = 'success' AND f.history = 'off'                    THEN 'later'
                WHEN f.verdict = 'success'                                          THEN 'succeeded'
                WHEN f.verdict = 'cancel' OR j.cancel_requested_at IS NOT NULL      THEN 'cancelled'
                WHEN f.verdict = 'fail'                                             THEN 'failed'
                WHEN f.verdict = 'retry'
                     AND j.failures + 1 >= least(j.max_attempts, f.bound)           THEN 'dead'
                ELSE 'pending' END AS fate
    FROM unnest($2::bigint[], $3::int[], $4::text[], $5::bigint[], $6::text[], $7::text[], $8::text[], $9::text[],
                $10::int[]) AS f(id, attempt, verdict, delay_us, code, message, result, history, bound)
         CROSS JOIN LATERAL (
            SELECT * FROM {schema}.jobs x
            WHERE x.queue = $1 AND x.id = f.id AND x.attempt = f.attempt
              AND (x.state = 'running' OR (f.verdict = 'success' AND x.claimed_at IS NOT NULL))
            FOR UPDATE SKIP LOCKED) j
),
d AS (
    DELETE FROM {schema}.jobs j USING l
    WHERE j.queue = $1 AND j.id = l.id AND l.fate IN ('succeeded', 'cancelled', 'failed', 'dead')
    RETURNING j.*, l.fate, l.today, l.error, l.result, l.history, l.bound
)
INSERT INTO {schema}.history (id, run_at, created_at, claimed_at, finished_at, day, attempt, generation, error_count, priority, failures,
    max_attempts, queue, kind, state, claimed_by, key, revision, payload, metadata, tags, errors, result)
SELECT id, run_at, created_at, claimed_at, now(), CASE WHEN fate IN ('failed', 'dead') THEN 'infinity' ELSE today END,
    attempt, generation, error_count + (error IS NOT NULL)::int, priority, failures + (fate IN ('failed', 'dead'))::int,
    CASE WHEN fate = 'dead' THEN least(max_attempts, bound) ELSE max_attempts END, queue, kind, fate, claimed_by, key, revision,
    CASE WHEN fate = 'succeeded' AND history = 'slim' THEN '{}' ELSE payload END, metadata, tags,
    CASE WHEN error IS NULL THEN errors WHEN jsonb_array_length(errors) >= 10 THEN (errors - 0) || error
         ELSE coalesce(errors, '[]') || error END, result::jsonb
FROM d RETURNING id, attempt, state;

-- name: goodbye
SELECT {schema}.goodbye($1::text);

-- name: heartbeat
SELECT {schema}.heartbeat($1::text, $2::text, $3::int, $4::text, CASE WHEN $5::boolean THEN statement_timestamp() END,
    $6::bigint * interval '1 microsecond', $7::boolean, $8::text::jsonb, $9::text::jsonb);

-- name: highest
SELECT greatest((SELECT id FROM {schema}.jobs ORDER BY id DESC LIMIT 1), (SELECT id FROM {schema}.history ORDER BY id DESC LIMIT 1), 0) AS id;

-- name: hint
SELECT pg_notify($1::text, q.name)::text AS sent FROM unnest($2::text[]) AS q(name);

-- name: hold_one
WITH held AS (SELECT j.id FROM {schema}.jobs j WHERE j.id = $1::bigint AND j.state = 'pending' FOR UPDATE SKIP LOCKED)
UPDATE {schema}.jobs AS j SET run_at = least(j.run_at, statement_timestamp())
FROM held WHERE j.id = held.id
RETURNING j.queue, j.kind, j.priority, j.run_at;

-- name: list_by_due_ascending
WITH page AS MATERIALIZED (
    SELECT s.* FROM (SELECT u.*, row_number() OVER w AS n, sum(u.weight) OVER w - u.weight AS before
FROM (SELECT j.id, j.queue, j.kind, j.key, j.revision, j.state, j.priority, j.run_at, j.created_at, j.claimed_at, j.lease_expires_at,
j.cancel_requested_at IS NOT NULL AS cancel, NULL::timestamptz AS finished_at, NULL::date AS day, j.claimed_by, j.attempt, j.generation,
j.failures, j.max_attempts, j.error_count, j.tags, j.payload, j.errors,
CASE WHEN $16::text IS NULL THEN 0 ELSE pg_column_size(j.payload) END
    + CASE WHEN $15::text IS NULL OR j.errors IS NULL THEN 0 ELSE pg_column_size(j.errors) END AS weight FROM {schema}.jobs j
      WHERE j.queue = $2::text AND j.state = 'pending'
        AND ($19::bigint IS NULL OR (j.priority, j.run_at, j.id) > ($24::smallint, $23::timestamptz, $19::bigint))
      ORDER BY j.priority ASC, j.run_at ASC, j.id ASC LIMIT $21::int) u
WINDOW w AS (ORDER BY u.priority ASC, u.run_at ASC, u.id ASC ROWS UNBOUNDED PRECEDING)
ORDER BY u.priority ASC, u.run_at ASC, u.id ASC LIMIT $21::int) s WHERE     s.before <= 67108864
AND ($1::text[] IS NULL OR s.state = ANY ($1::text[]))
AND ($2::text IS NULL OR s.queue = $2::text)
AND ($3::text IS NULL OR s.kind = $3::text)
AND ($4::text IS NULL OR s.key = $4::text)
AND ($5::text[] IS NULL OR s.tags @> $5::text[])
AND ($6::smallint IS NULL OR s.priority = $6::smallint)
AND ($7::bigint IS NULL OR s.id >= $7::bigint)
AND ($8::bigint IS NULL OR s.id <= $8::bigint)
AND ($9::timestamptz IS NULL OR s.created_at >= $9::timestamptz)
AND ($10::timestamptz IS NULL OR s.created_at < $10::timestamptz)
AND ($11::timestamptz IS NULL OR s.finished_at >= $11::timestamptz)
AND ($12::timestamptz IS NULL OR s.finished_at < $12::timestamptz)
AND ($13::timestamptz IS NULL OR s.run_at >= $13::timestamptz)
AND ($14::timestamptz IS NULL OR s.run_at < $14::timestamptz)
AND ($17::text IS NULL OR s.claimed_by = $17::text)
AND ($18::bigint[] IS NULL OR s.id = ANY ($18::bigint[]))
AND ($15::text IS NULL OR CASE WHEN s.error_count > 0 THEN s.errors->-1->>'code' END = $15::text)
AND ($16::text IS NULL OR CASE WHEN s.before <= 67108864 THEN s.payload @> $16::text::jsonb END) ORDER BY s.priority ASC, s.run_at ASC, s.id ASC LIMIT $20::int + 1
)
SELECT e.n AS scanned, e.n < e.total OR e.total >= $21::int AS more, e.id AS last_id, e.at AS last_at, e.priority AS last_priority, p.at, p.id, p.queue, p.kind, p.key, p.revision, p.state, p.priority, p.run_at, p.created_at, p.claimed_at, p.lease_expires_at, p.cancel, p.finished_at,
p.claimed_by, p.attempt, p.generation, p.failures, p.max_attempts, p.error_count,
ARRAY (SELECT coalesce(left(t.tag, 255), '') FROM unnest(p.tags[1:20]) t(tag)) AS tags,
pg_column_size(p.payload) AS stored,
CASE WHEN $22::int > 0 AND pg_column_size(p.payload) <= 16384
     THEN left(p.payload::text, CASE WHEN p.payload ? '$pgqueue' THEN 65536 ELSE $22::int + 1 END) END AS payload,
CASE WHEN pg_column_size(p.errors) <= 65536 THEN left(p.errors->-1->>'code', 64) END AS code,
CASE WHEN pg_column_size(p.errors) <= 65536
     THEN left(p.errors->-1->>'message', CASE WHEN p.errors->-1->>'message' LIKE '_"$pgqueue":%' THEN 8192 ELSE 256 END) END AS message
FROM (SELECT count(*) AS found FROM page) c
     LEFT JOIN LATERAL (
        SELECT s.n, s.id, s.priority, s.run_at AS at, max(s.n) OVER () AS total FROM (SELECT u.*, row_number() OVER w AS n, sum(u.weight) OVER w - u.weight AS before
FROM (SELECT j.id, j.queue, j.kind, j.key, j.revision, j.state, j.priority, j.run_at, j.created_at, j.claimed_at, j.lease_expires_at,
j.cancel_requested_at IS NOT NULL AS cancel, NULL::timestamptz AS finished_at, NULL::date AS day, j.claimed_by, j.attempt, j.generation,
j.failures, j.max_attempts, j.error_count, j.tags, j.payload, j.errors,
CASE WHEN $16::text IS NULL THEN 0 ELSE pg_column_size(j.payload) END
    + CASE WHEN $15::text IS NULL OR j.errors IS NULL THEN 0 ELSE pg_column_size(j.errors) END AS weight FROM {schema}.jobs j
      WHERE j.queue = $2::text AND j.state = 'pending'
        AND ($19::bigint IS NULL OR (j.priority, j.run_at, j.id) > ($24::smallint, $23::timestamptz, $19::bigint))
      ORDER BY j.priority ASC, j.run_at ASC, j.id ASC LIMIT $21::int) u
WINDOW w AS (ORDER BY u.priority ASC, u.run_at ASC, u.id ASC ROWS UNBOUNDED PRECEDING)
ORDER BY u.priority ASC, u.run_at ASC, u.id ASC LIMIT $21::int) s
        WHERE c.found <= $20::int ORDER BY s.before <= 67108864 DESC, s.n DESC LIMIT 1) e ON true
     LEFT JOIN (SELECT s.*, s.run_at AS at FROM page s) p ON true
ORDER BY p.n;

-- name: list_by_due_descending
WITH page AS MATERIALIZED (
    SELECT s.* FROM (SELECT u.*, row_number() OVER w AS n, sum(u.weight) OVER w - u.weight AS before
FROM (SELECT j.id, j.queue, j.kind, j.key, j.revision, j.state, j.priority, j.run_at, j.created_at, j.claimed_at, j.lease_expires_at,
j.cancel_requested_at IS NOT NULL AS cancel, NULL::timestamptz AS finished_at, NULL::date AS day, j.claimed_by, j.attempt, j.generation,
j.failures, j.max_attempts, j.error_count, j.tags, j.payload, j.errors,
CASE WHEN $16::text IS NULL THEN 0 ELSE pg_column_size(j.payload) END
    + CASE WHEN $15::text IS NULL OR j.errors IS NULL THEN 0 ELSE pg_column_size(j.errors) END AS weight FROM {schema}.jobs j
      WHERE j.queue = $2::text AND j.state = 'pending'
        AND ($19::bigint IS NULL OR (j.priority, j.run_at, j.id) < ($24::smallint, $23::timestamptz, $19::bigint))
      ORDER BY j.priority DESC, j.run_at DESC, j.id DESC LIMIT $21::int) u
WINDOW w AS (ORDER BY u.priority DESC, u.run_at DESC, u.id DESC ROWS UNBOUNDED PRECEDING)
ORDER BY u.priority DESC, u.run_at DESC, u.id DESC LIMIT $21::int) s WHERE     s.before <= 67108864
AND ($1::text[] IS NULL OR s.state = ANY ($1::text[]))
AND ($2::text IS NULL OR s.queue = $2::text)
AND ($3::text IS NULL OR s.kind = $3::text)
AND ($4::text IS NULL OR s.key = $4::text)
AND ($5::text[] IS NULL OR s.tags @> $5::text[])
AND ($6::smallint IS NULL OR s.priority = $6::smallint)
AND ($7::bigint IS NULL OR s.id >= $7::bigint)
AND ($8::bigint IS NULL OR s.id <= $8::bigint)
AND ($9::timestamptz IS NULL OR s.created_at >= $9::timestamptz)
AND ($10::timestamptz IS NULL OR s.created_at < $10::timestamptz)
AND ($11::timestamptz IS NULL OR s.finished_at >= $11::timestamptz)
AND ($12::timestamptz IS NULL OR s.finished_at < $12::timestamptz)
AND ($13::timestamptz IS NULL OR s.run_at >= $13::timestamptz)
AND ($14::timestamptz IS NULL OR s.run_at < $14::timestamptz)
AND ($17::text IS NULL OR s.claimed_by = $17::text)
AND ($18::bigint[] IS NULL OR s.id = ANY ($18::bigint[]))
AND ($15::text IS NULL OR CASE WHEN s.error_count > 0 THEN s.errors->-1->>'code' END = $15::text)
AND ($16::text IS NULL OR CASE WHEN s.before <= 67108864 THEN s.payload @> $16::text::jsonb END) ORDER BY s.priority DESC, s.run_at DESC, s.id DESC LIMIT $20::int + 1
)
SELECT e.n AS scanned, e.n < e.total OR e.total >= $21::int AS more, e.id AS last_id, e.at AS last_at, e.priority AS last_priority, p.at, p.id, p.queue, p.kind, p.key, p.revision, p.state, p.priority, p.run_at, p.created_at, p.claimed_at, p.lease_expires_at, p.cancel, p.finished_at,
p.claimed_by, p.attempt, p.generation, p.failures, p.max_attempts, p.error_count,
ARRAY (SELECT coalesce(left(t.tag, 255), '') FROM unnest(p.tags[1:20]) t(tag)) AS tags,
pg_column_size(p.payload) AS stored,
CASE WHEN $22::int > 0 AND pg_column_size(p.payload) <= 16384
     THEN left(p.payload::text, CASE WHEN p.payload ? '$pgqueue' THEN 65536 ELSE $22::int + 1 END) END AS payload,
CASE WHEN pg_column_size(p.errors) <= 65536 THEN left(p.errors->-1->>'code', 64) END AS code,
CASE WHEN pg_column_size(p.errors) <= 65536
     THEN left(p.errors->-1->>'message', CASE WHEN p.errors->-1->>'message' LIKE '_"$pgqueue":%' THEN 8192 ELSE 256 END) END AS message
FROM (SELECT count(*) AS found FROM page) c
     LEFT JOIN LATERAL (
        SELECT s.n, s.id, s.priority, s.run_at AS at, max(s.n) OVER () AS total FROM (SELECT u.*, row_number() OVER w AS n, sum(u.weight) OVER w - u.weight AS before
FROM (SELECT j.id, j.queue, j.kind, j.key, j.revision, j.state, j.priority, j.run_at, j.created_at, j.claimed_at, j.lease_expires_at,
j.cancel_requested_at IS NOT NULL AS cancel, NULL::timestamptz AS finished_at, NULL::date AS day, j.claimed_by, j.attempt, j.generation,
j.failures, j.max_attempts, j.error_count, j.tags, j.payload, j.errors,
CASE WHEN $16::text IS NULL THEN 0 ELSE pg_column_size(j.payload) END
    + CASE WHEN $15::text IS NULL OR j.errors IS NULL THEN 0 ELSE pg_column_size(j.errors) END AS weight FROM {schema}.jobs j
      WHERE j.queue = $2::text AND j.state = 'pending'
        AND ($19::bigint IS NULL OR (j.priority, j.run_at, j.id) < ($24::smallint, $23::timestamptz, $19::bigint))
      ORDER BY j.priority DESC, j.run_at DESC, j.id DESC LIMIT $21::int) u
WINDOW w AS (ORDER BY u.priority DESC, u.run_at DESC, u.id DESC ROWS UNBOUNDED PRECEDING)
ORDER BY u.priority DESC, u.run_at DESC, u.id DESC LIMIT $21::int) s
        WHERE c.found <= $20::int ORDER BY s.before <= 67108864 DESC, s.n DESC LIMIT 1) e ON true
     LEFT JOIN (SELECT s.*, s.run_at AS at FROM page s) p ON true
ORDER BY p.n;

-- name: list_by_finished_ascending
WITH page AS MATERIALIZED (
    SELECT s.* FROM (SELECT u.*, row_number() OVER w AS n, sum(u.weight) OVER w - u.weight AS before
FROM (SELECT h.id, h.queue, h.kind, h.key, h.revision, h.state, h.priority, h.run_at, h.created_at, h.claimed_at, NULL::timestamptz AS lease_expires_at,
false AS cancel, h.finished_at, h.day, h.claimed_by, h.attempt, h.generation,
h.failures, h.max_attempts, h.error_count, h.tags, h.payload, h.errors,
CASE WHEN $16::text IS NULL THEN 0 ELSE pg_column_size(h.payload) END
    + CASE WHEN $15::text IS NULL OR h.errors IS NULL THEN 0 ELSE pg_column_size(h.errors) END AS weight FROM {schema}.history h
      WHERE h.day = 'infinity' 
        AND ($11::timestamptz IS NULL OR h.finished_at >= $11::timestamptz) AND ($12::timestamptz IS NULL OR h.finished_at < $12::timestamptz)
        AND ($19::bigint IS NULL OR (h.finished_at, h.id) > ($23::timestamptz, $19::bigint))
      ORDER BY  h.finished_at ASC, h.id ASC LIMIT $21::int) u
WINDOW w AS (ORDER BY u.finished_at ASC, u.id ASC ROWS UNBOUNDED PRECEDING)
ORDER BY u.finished_at ASC, u.id ASC LIMIT $21::int) s WHERE     s.before <= 67108864
AND ($1::text[] IS NULL OR s.state = ANY ($1::text[]))
AND ($2::text IS NULL OR s.queue = $2::text)
AND ($3::text IS NULL OR s.kind = $3::text)
AND ($4::text IS NULL OR s.key = $4::text)
AND ($5::text[] IS NULL OR s.tags @> $5::text[])
AND ($6::smallint IS NULL OR s.priority = $6::smallint)
AND ($7::bigint IS NULL OR s.id >= $7::bigint)
AND ($8::bigint IS NULL OR s.id <= $8::bigint)
AND ($9::timestamptz IS NULL OR s.created_at >= $9::timestamptz)
AND ($10::timestamptz IS NULL OR s.created_at < $10::timestamptz)
AND ($11::timestamptz IS NULL OR s.finished_at >= $11::timestamptz)
AND ($12::timestamptz IS NULL OR s.finished_at < $12::timestamptz)
AND ($13::timestamptz IS NULL OR s.run_at >= $13::timestamptz)
AND ($14::timestamptz IS NULL OR s.run_at < $14::timestamptz)
AND ($17::text IS NULL OR s.claimed_by = $17::text)
AND ($18::bigint[] IS NULL OR s.id = ANY ($18::bigint[]))
AND ($15::text IS NULL OR CASE WHEN s.error_count > 0 THEN s.errors->-1->>'code' END = $15::text)
AND ($16::text IS NULL OR CASE WHEN s.before <= 67108864 THEN s.payload @> $16::text::jsonb END) ORDER BY s.finished_at ASC, s.id ASC LIMIT $20::int + 1
)
SELECT e.n AS scanned, e.n < e.total OR e.total >= $21::int AS more, e.id AS last_id, e.at AS last_at, e.priority AS last_priority, p.at, p.id, p.queue, p.kind, p.key, p.revision, p.state, p.priority, p.run_at, p.created_at, p.claimed_at, p.lease_expires_at, p.cancel, p.finished_at,
p.claimed_by, p.attempt, p.generation, p.failures, p.max_attempts, p.error_count,
ARRAY (SELECT coalesce(left(t.tag, 255), '') FROM unnest(p.tags[1:20]) t(tag)) AS tags,
pg_column_size(p.payload) AS stored,
CASE WHEN $22::int > 0 AND pg_column_size(p.payload) <= 16384
     THEN left(p.payload::text, CASE WHEN p.payload ? '$pgqueue' THEN 65536 ELSE $22::int + 1 END) END AS payload,
CASE WHEN pg_column_size(p.errors) <= 65536 THEN left(p.errors->-1->>'code', 64) END AS code,
CASE WHEN pg_column_size(p.errors) <= 65536
     THEN left(p.errors->-1->>'message', CASE WHEN p.errors->-1->>'message' LIKE '_"$pgqueue":%' THEN 8192 ELSE 256 END) END AS message
FROM (SELECT count(*) AS found FROM page) c
     LEFT JOIN LATERAL (
        SELECT s.n, s.id, s.priority, s.finished_at AS at, max(s.n) OVER () AS total FROM (SELECT u.*, row_number() OVER w AS n, sum(u.weight) OVER w - u.weight AS before
FROM (SELECT h.id, h.queue, h.kind, h.key, h.revision, h.state, h.priority, h.run_at, h.created_at, h.claimed_at, NULL::timestamptz AS lease_expires_at,
false AS cancel, h.finished_at, h.day, h.claimed_by, h.attempt, h.generation,
h.failures, h.max_attempts, h.error_count, h.tags, h.payload, h.errors,
CASE WHEN $16::text IS NULL THEN 0 ELSE pg_column_size(h.payload) END
    + CASE WHEN $15::text IS NULL OR h.errors IS NULL THEN 0 ELSE pg_column_size(h.errors) END AS weight FROM {schema}.history h
      WHERE h.day = 'infinity' 
        AND ($11::timestamptz IS NULL OR h.finished_at >= $11::timestamptz) AND ($12::timestamptz IS NULL OR h.finished_at < $12::timestamptz)
        AND ($19::bigint IS NULL OR (h.finished_at, h.id) > ($23::timestamptz, $19::bigint))
      ORDER BY  h.finished_at ASC, h.id ASC LIMIT $21::int) u
WINDOW w AS (ORDER BY u.finished_at ASC, u.id ASC ROWS UNBOUNDED PRECEDING)
ORDER BY u.finished_at ASC, u.id ASC LIMIT $21::int) s
        WHERE c.found <= $20::int ORDER BY s.before <= 67108864 DESC, s.n DESC LIMIT 1) e ON true
     LEFT JOIN (SELECT s.*, s.finished_at AS at FROM page s) p ON true
ORDER BY p.n;

-- name: list_by_finished_descending
WITH page AS MATERIALIZED (
    SELECT s.* FROM (SELECT u.*, row_number() OVER w AS n, sum(u.weight) OVER w - u.weight AS before
FROM (SELECT h.id, h.queue, h.kind, h.key, h.revision, h.state, h.priority, h.run_at, h.created_at, h.claimed_at, NULL::timestamptz AS lease_expires_at,
false AS cancel, h.finished_at, h.day, h.claimed_by, h.attempt, h.generation,
h.failures, h.max_attempts, h.error_count, h.tags, h.payload, h.errors,
CASE WHEN $16::text IS NULL THEN 0 ELSE pg_column_size(h.payload) END
    + CASE WHEN $15::text IS NULL OR h.errors IS NULL THEN 0 ELSE pg_column_size(h.errors) END AS weight FROM {schema}.history h
      WHERE h.day = 'infinity' 
        AND ($11::timestamptz IS NULL OR h.finished_at >= $11::timestamptz) AND ($12::timestamptz IS NULL OR h.finished_at < $12::timestamptz)
        AND ($19::bigint IS NULL OR (h.finished_at, h.id) < ($23::timestamptz, $19::bigint))
      ORDER BY  h.finished_at DESC, h.id DESC LIMIT $21::int) u
WINDOW w AS (ORDER BY u.finished_at DESC, u.id DESC ROWS UNBOUNDED PRECEDING)
ORDER BY u.finished_at DESC, u.id DESC LIMIT $21::int) s WHERE     s.before <= 67108864
AND ($1::text[] IS NULL OR s.state = ANY ($1::text[]))
AND ($2::text IS NULL OR s.queue = $2::text)
AND ($3::text IS NULL OR s.kind = $3::text)
AND ($4::text IS NULL OR s.key = $4::text)
AND ($5::text[] IS NULL OR s.tags @> $5::text[])
AND ($6::smallint IS NULL OR s.priority = $6::smallint)
AND ($7::bigint IS NULL OR s.id >= $7::bigint)
AND ($8::bigint IS NULL OR s.id <= $8::bigint)
AND ($9::timestamptz IS NULL OR s.created_at >= $9::timestamptz)
AND ($10::timestamptz IS NULL OR s.created_at < $10::timestamptz)
AND ($11::timestamptz IS NULL OR s.finished_at >= $11::timestamptz)
AND ($12::timestamptz IS NULL OR s.finished_at < $12::timestamptz)
AND ($13::timestamptz IS NULL OR s.run_at >= $13::timestamptz)
AND ($14::timestamptz IS NULL OR s.run_at < $14::timestamptz)
AND ($17::text IS NULL OR s.claimed_by = $17::text)
AND ($18::bigint[] IS NULL OR s.id = ANY ($18::bigint[]))
AND ($15::text IS NULL OR CASE WHEN s.error_count > 0 THEN s.errors->-1->>'code' END = $15::text)
AND ($16::text IS NULL OR CASE WHEN s.before <= 67108864 THEN s.payload @> $16::text::jsonb END) ORDER BY s.finished_at DESC, s.id DESC LIMIT $20::int + 1
)
SELECT e.n AS scanned, e.n < e.total OR e.total >= $21::int AS more, e.id AS last_id, e.at AS last_at, e.priority AS last_priority, p.at, p.id, p.queue, p.kind, p.key, p.revision, p.state, p.priority, p.run_at, p.created_at, p.claimed_at, p.lease_expires_at, p.cancel, p.finished_at,
p.claimed_by, p.attempt, p.generation, p.failures, p.max_attempts, p.error_count,
ARRAY (SELECT coalesce(left(t.tag, 255), '') FROM unnest(p.tags[1:20]) t(tag)) AS tags,
pg_column_size(p.payload) AS stored,
CASE WHEN $22::int > 0 AND pg_column_size(p.payload) <= 16384
     THEN left(p.payload::text, CASE WHEN p.payload ? '$pgqueue' THEN 65536 ELSE $22::int + 1 END) END AS payload,
CASE WHEN pg_column_size(p.errors) <= 65536 THEN left(p.errors->-1->>'code', 64) END AS code,
CASE WHEN pg_column_size(p.errors) <= 65536
     THEN left(p.errors->-1->>'message', CASE WHEN p.errors->-1->>'message' LIKE '_"$pgqueue":%' THEN 8192 ELSE 256 END) END AS message
FROM (SELECT count(*) AS found FROM page) c
     LEFT JOIN LATERAL (
        SELECT s.n, s.id, s.priority, s.finished_at AS at, max(s.n) OVER () AS total FROM (SELECT u.*, row_number() OVER w AS n, sum(u.weight) OVER w - u.weight AS before
FROM (SELECT h.id, h.queue, h.kind, h.key, h.revision, h.state, h.priority, h.run_at, h.created_at, h.claimed_at, NULL::timestamptz AS lease_expires_at,
false AS cancel, h.finished_at, h.day, h.claimed_by, h.attempt, h.generation,
h.failures, h.max_attempts, h.error_count, h.tags, h.payload, h.errors,
CASE WHEN $16::text IS NULL THEN 0 ELSE pg_column_size(h.payload) END
    + CASE WHEN $15::text IS NULL OR h.errors IS NULL THEN 0 ELSE pg_column_size(h.errors) END AS weight FROM {schema}.history h
      WHERE h.day = 'infinity' 
        AND ($11::timestamptz IS NULL OR h.finished_at >= $11::timestamptz) AND ($12::timestamptz IS NULL OR h.finished_at < $12::timestamptz)
        AND ($19::bigint IS NULL OR (h.finished_at, h.id) < ($23::timestamptz, $19::bigint))
      ORDER BY  h.finished_at DESC, h.id DESC LIMIT $21::int) u
WINDOW w AS (ORDER BY u.finished_at DESC, u.id DESC ROWS UNBOUNDED PRECEDING)
ORDER BY u.finished_at DESC, u.id DESC LIMIT $21::int) s
        WHERE c.found <= $20::int ORDER BY s.before <= 67108864 DESC, s.n DESC LIMIT 1) e ON true
     LEFT JOIN (SELECT s.*, s.finished_at AS at FROM page s) p ON true
ORDER BY p.n;

-- name: list_by_finished_in_queue_ascending
WITH page AS MATERIALIZED (
    SELECT s.* FROM (SELECT u.*, row_number() OVER w AS n, sum(u.weight) OVER w - u.weight AS before
FROM (SELECT h.id, h.queue, h.kind, h.key, h.revision, h.state, h.priority, h.run_at, h.created_at, h.claimed_at, NULL::timestamptz AS lease_expires_at,
false AS cancel, h.finished_at, h.day, h.claimed_by, h.attempt, h.generation,
h.failures, h.max_attempts, h.error_count, h.tags, h.payload, h.errors,
CASE WHEN $16::text IS NULL THEN 0 ELSE pg_column_size(h.payload) END
    + CASE WHEN $15::text IS NULL OR h.errors IS NULL THEN 0 ELSE pg_column_size(h.errors) END AS weight FROM {schema}.history h
      WHERE h.day = 'infinity' AND h.queue BETWEEN $2::text AND $2::text
        AND ($11::timestamptz IS NULL OR h.finished_at >= $11::timestamptz) AND ($12::timestamptz IS NULL OR h.finished_at < $12::timestamptz)
        AND ($19::bigint IS NULL OR (h.finished_at, h.id) > ($23::timestamptz, $19::bigint))
      ORDER BY h.queue ASC, h.finished_at ASC, h.id ASC LIMIT $21::int) u
WINDOW w AS (ORDER BY u.finished_at ASC, u.id ASC ROWS UNBOUNDED PRECEDING)
ORDER BY u.finished_at ASC, u.id ASC LIMIT $21::int) s WHERE     s.before <= 67108864
AND ($1::text[] IS NULL OR s.state = ANY ($1::text[]))
AND ($2::text IS NULL OR s.queue = $2::text)
AND ($3::text IS NULL OR s.kind = $3::text)
AND ($4::text IS NULL OR s.key = $4::text)
AND ($5::text[] IS NULL OR s.tags @> $5::text[])
AND ($6::smallint IS NULL OR s.priority = $6::smallint)
AND ($7::bigint IS NULL OR s.id >= $7::bigint)
AND ($8::bigint IS NULL OR s.id <= $8::bigint)
AND ($9::timestamptz IS NULL OR s.created_at >= $9::timestamptz)
AND ($10::timestamptz IS NULL OR s.created_at < $10::timestamptz)
AND ($11::timestamptz IS NULL OR s.finished_at >= $11::timestamptz)
AND ($12::timestamptz IS NULL OR s.finished_at < $12::timestamptz)
AND ($13::timestamptz IS NULL OR s.run_at >= $13::timestamptz)
AND ($14::timestamptz IS NULL OR s.run_at < $14::timestamptz)
AND ($17::text IS NULL OR s.claimed_by = $17::text)
AND ($18::bigint[] IS NULL OR s.id = ANY ($18::bigint[]))
AND ($15::text IS NULL OR CASE WHEN s.error_count > 0 THEN s.errors->-1->>'code' END = $15::text)
AND ($16::text IS NULL OR CASE WHEN s.before <= 67108864 THEN s.payload @> $16::text::jsonb END) ORDER BY s.finished_at ASC, s.id ASC LIMIT $20::int + 1
)
SELECT e.n AS scanned, e.n < e.total OR e.total >= $21::int AS more, e.id AS last_id, e.at AS last_at, e.priority AS last_priority, p.at, p.id, p.queue, p.kind, p.key, p.revision, p.state, p.priority, p.run_at, p.created_at, p.claimed_at, p.lease_expires_at, p.cancel, p.finished_at,
p.claimed_by, p.attempt, p.generation, p.failures, p.max_attempts, p.error_count,
ARRAY (SELECT coalesce(left(t.tag, 255), '') FROM unnest(p.tags[1:20]) t(tag)) AS tags,
pg_column_size(p.payload) AS stored,
CASE WHEN $22::int > 0 AND pg_column_size(p.payload) <= 16384
     THEN left(p.payload::text, CASE WHEN p.payload ? '$pgqueue' THEN 65536 ELSE $22::int + 1 END) END AS payload,
CASE WHEN pg_column_size(p.errors) <= 65536 THEN left(p.errors->-1->>'code', 64) END AS code,
CASE WHEN pg_column_size(p.errors) <= 65536
     THEN left(p.errors->-1->>'message', CASE WHEN p.errors->-1->>'message' LIKE '_"$pgqueue":%' THEN 8192 ELSE 256 END) END AS message
FROM (SELECT count(*) AS found FROM page) c
     LEFT JOIN LATERAL (
        SELECT s.n, s.id, s.priority, s.finished_at AS at, max(s.n) OVER () AS total FROM (SELECT u.*, row_number() OVER w AS n, sum(u.weight) OVER w - u.weight AS before
FROM (SELECT h.id, h.queue, h.kind, h.key, h.revision, h.state, h.priority, h.run_at, h.created_at, h.claimed_at, NULL::timestamptz AS lease_expires_at,
false AS cancel, h.finished_at, h.day, h.claimed_by, h.attempt, h.generation,
h.failures, h.max_attempts, h.error_count, h.tags, h.payload, h.errors,
CASE WHEN $16::text IS NULL THEN 0 ELSE pg_column_size(h.payload) END
    + CASE WHEN $15::text IS NULL OR h.errors IS NULL THEN 0 ELSE pg_column_size(h.errors) END AS weight FROM {schema}.history h
      WHERE h.day = 'infinity' AND h.queue BETWEEN $2::text AND $2::text
        AND ($11::timestamptz IS NULL OR h.finished_at >= $11::timestamptz) AND ($12::timestamptz IS NULL OR h.finished_at < $12::timestamptz)
        AND ($19::bigint IS NULL OR (h.finished_at, h.id) > ($23::timestamptz, $19::bigint))
      ORDER BY h.queue ASC, h.finished_at ASC, h.id ASC LIMIT $21::int) u
WINDOW w AS (ORDER BY u.finished_at ASC, u.id ASC ROWS UNBOUNDED PRECEDING)
ORDER BY u.finished_at ASC, u.id ASC LIMIT $21::int) s
        WHERE c.found <= $20::int ORDER BY s.before <= 67108864 DESC, s.n DESC LIMIT 1) e ON true
     LEFT JOIN (SELECT s.*, s.finished_at AS at FROM page s) p ON true
ORDER BY p.n;

-- name: list_by_finished_in_queue_descending
WITH page AS MATERIALIZED (
    SELECT s.* FROM (SELECT u.*, row_number() OVER w AS n, sum(u.weight) OVER w - u.weight AS before
FROM (SELECT h.id, h.queue, h.kind, h.key, h.revision, h.state, h.priority, h.run_at, h.created_at, h.claimed_at, NULL::timestamptz AS lease_expires_at,
false AS cancel, h.finished_at, h.day, h.claimed_by, h.attempt, h.generation,
h.failures, h.max_attempts, h.error_count, h.tags, h.payload, h.errors,
CASE WHEN $16::text IS NULL THEN 0 ELSE pg_column_size(h.payload) END
    + CASE WHEN $15::text IS NULL OR h.errors IS NULL THEN 0 ELSE pg_column_size(h.errors) END AS weight FROM {schema}.history h
      WHERE h.day = 'infinity' AND h.queue BETWEEN $2::text AND $2::text
        AND ($11::timestamptz IS NULL OR h.finished_at >= $11::timestamptz) AND ($12::timestamptz IS NULL OR h.finished_at < $12::timestamptz)
        AND ($19::bigint IS NULL OR (h.finished_at, h.id) < ($23::timestamptz, $19::bigint))
      ORDER BY h.queue DESC, h.finished_at DESC, h.id DESC LIMIT $21::int) u
WINDOW w AS (ORDER BY u.finished_at DESC, u.id DESC ROWS UNBOUNDED PRECEDING)
ORDER BY u.finished_at DESC, u.id DESC LIMIT $21::int) s WHERE     s.before <= 67108864
AND ($1::text[] IS NULL OR s.state = ANY ($1::text[]))
AND ($2::text IS NULL OR s.queue = $2::text)
AND ($3::text IS NULL OR s.kind = $3::text)
AND ($4::text IS NULL OR s.key = $4::text)
AND ($5::text[] IS NULL OR s.tags @> $5::text[])
AND ($6::smallint IS NULL OR s.priority = $6::smallint)
AND ($7::bigint IS NULL OR s.id >= $7::bigint)
AND ($8::bigint IS NULL OR s.id <= $8::bigint)
AND ($9::timestamptz IS NULL OR s.created_at >= $9::timestamptz)
AND ($10::timestamptz IS NULL OR s.created_at < $10::timestamptz)
AND ($11::timestamptz IS NULL OR s.finished_at >= $11::timestamptz)
AND ($12::timestamptz IS NULL OR s.finished_at < $12::timestamptz)
AND ($13::timestamptz IS NULL OR s.run_at >= $13::timestamptz)
AND ($14::timestamptz IS NULL OR s.run_at < $14::timestamptz)
AND ($17::text IS NULL OR s.claimed_by = $17::text)
AND ($18::bigint[] IS NULL OR s.id = ANY ($18::bigint[]))
AND ($15::text IS NULL OR CASE WHEN s.error_count > 0 THEN s.errors->-1->>'code' END = $15::text)
AND ($16::text IS NULL OR CASE WHEN s.before <= 67108864 THEN s.payload @> $16::text::jsonb END) ORDER BY s.finished_at DESC, s.id DESC LIMIT $20::int + 1
)
SELECT e.n AS scanned, e.n < e.total OR e.total >= $21::int AS more, e.id AS last_id, e.at AS last_at, e.priority AS last_priority, p.at, p.id, p.queue, p.kind, p.key, p.revision, p.state, p.priority, p.run_at, p.created_at, p.claimed_at, p.lease_expires_at, p.cancel, p.finished_at,
p.claimed_by, p.attempt, p.generation, p.failures, p.max_attempts, p.error_count,
ARRAY (SELECT coalesce(left(t.tag, 255), '') FROM unnest(p.tags[1:20]) t(tag)) AS tags,
pg_column_size(p.payload) AS stored,
CASE WHEN $22::int > 0 AND pg_column_size(p.payload) <= 16384
     THEN left(p.payload::text, CASE WHEN p.payload ? '$pgqueue' THEN 65536 ELSE $22::int + 1 END) END AS payload,
CASE WHEN pg_column_size(p.errors) <= 65536 THEN left(p.errors->-1->>'code', 64) END AS code,
CASE WHEN pg_column_size(p.errors) <= 65536
     THEN left(p.errors->-1->>'message', CASE WHEN p.errors->-1->>'message' LIKE '_"$pgqueue":%' THEN 8192 ELSE 256 END) END AS message
FROM (SELECT count(*) AS found FROM page) c
     LEFT JOIN LATERAL (
        SELECT s.n, s.id, s.priority, s.finished_at AS at, max(s.n) OVER () AS total FROM (SELECT u.*, row_number() OVER w AS n, sum(u.weight) OVER w - u.weight AS before
FROM (SELECT h.id, h.queue, h.kind, h.key, h.revision, h.state, h.priority, h.run_at, h.created_at, h.claimed_at, NULL::timestamptz AS lease_expires_at,
false AS cancel, h.finished_at, h.day, h.claimed_by, h.attempt, h.generation,
h.failures, h.max_attempts, h.error_count, h.tags, h.payload, h.errors,
CASE WHEN $16::text IS NULL THEN 0 ELSE pg_column_size(h.payload) END
    + CASE WHEN $15::text IS NULL OR h.errors IS NULL THEN 0 ELSE pg_column_size(h.errors) END AS weight FROM {schema}.history h
      WHERE h.day = 'infinity' AND h.queue BETWEEN $2::text AND $2::text
        AND ($11::timestamptz IS NULL OR h.finished_at >= $11::timestamptz) AND ($12::timestamptz IS NULL OR h.finished_at < $12::timestamptz)
        AND ($19::bigint IS NULL OR (h.finished_at, h.id) < ($23::timestamptz, $19::bigint))
      ORDER BY h.queue DESC, h.finished_at DESC, h.id DESC LIMIT $21::int) u
WINDOW w AS (ORDER BY u.finished_at DESC, u.id DESC ROWS UNBOUNDED PRECEDING)
ORDER BY u.finished_at DESC, u.id DESC LIMIT $21::int) s
        WHERE c.found <= $20::int ORDER BY s.before <= 67108864 DESC, s.n DESC LIMIT 1) e ON true
     LEFT JOIN (SELECT s.*, s.finished_at AS at FROM page s) p ON true
ORDER BY p.n;

-- name: list_by_id_ascending
WITH page AS MATERIALIZED (
    SELECT s.* FROM (SELECT u.*, row_number() OVER w AS n, sum(u.weight) OVER w - u.weight AS before
FROM ((SELECT j.id, j.queue, j.kind, j.key, j.revision, j.state, j.priority, j.run_at, j.created_at, j.claimed_at, j.lease_expires_at,
j.cancel_requested_at IS NOT NULL AS cancel, NULL::timestamptz AS finished_at, NULL::date AS day, j.claimed_by, j.attempt, j.generation,
j.failures, j.max_attempts, j.error_count, j.tags, j.payload, j.errors,
CASE WHEN $16::text IS NULL THEN 0 ELSE pg_column_size(j.payload) END
    + CASE WHEN $15::text IS NULL OR j.errors IS NULL THEN 0 ELSE pg_column_size(j.errors) END AS weight FROM {schema}.jobs j WHERE ($1::text[] IS NULL OR $1::text[] && ARRAY['pending', 'running']) AND $11::timestamptz IS NULL AND $12::timestamptz IS NULL AND ($7::bigint IS NULL OR j.id >= $7::bigint) AND ($8::bigint IS NULL OR j.id <= $8::bigint) AND ($18::bigint[] IS NULL OR j.id = ANY ($18::bigint[]))
AND ($19::bigint IS NULL OR j.id > $19::bigint) ORDER BY j.id ASC LIMIT $21::int)
      UNION ALL
      (SELECT h.id, h.queue, h.kind, h.key, h.revision, h.state, h.priority, h.run_at, h.created_at, h.claimed_at, NULL::timestamptz AS lease_expires_at,
false AS cancel, h.finished_at, h.day, h.claimed_by, h.attempt, h.generation,
h.failures, h.max_attempts, h.error_count, h.tags, h.payload, h.errors,
CASE WHEN $16::text IS NULL THEN 0 ELSE pg_column_size(h.payload) END
    + CASE WHEN $15::text IS NULL OR h.errors IS NULL THEN 0 ELSE pg_column_size(h.errors) END AS weight FROM {schema}.history h WHERE     ($1::text[] IS NULL OR $1::text[] && ARRAY['succeeded', 'cancelled', 'failed', 'dead'])
AND ($1::text[] IS NULL OR $1::text[] && ARRAY['failed', 'dead'] OR h.day < 'infinity')
AND ($1::text[] IS NULL OR $1::text[] && ARRAY['succeeded', 'cancelled'] OR h.day = 'infinity')
AND ($11::timestamptz IS NULL OR h.day >= ($11::timestamptz AT TIME ZONE 'UTC')::date - 2)
AND ($12::timestamptz IS NULL OR h.day <= ($12::timestamptz AT TIME ZONE 'UTC')::date OR h.day = 'infinity') AND ($7::bigint IS NULL OR h.id >= $7::bigint) AND ($8::bigint IS NULL OR h.id <= $8::bigint) AND ($18::bigint[] IS NULL OR h.id = ANY ($18::bigint[]))
AND ($19::bigint IS NULL OR h.id > $19::bigint) ORDER BY h.id ASC LIMIT $21::int)) u
WINDOW w AS (ORDER BY u.id ASC ROWS UNBOUNDED PRECEDING)
ORDER BY u.id ASC LIMIT $21::int) s WHERE     s.before <= 67108864
AND ($1::text[] IS NULL OR s.state = ANY ($1::text[]))
AND ($2::text IS NULL OR s.queue = $2::text)
AND ($3::text IS NULL OR s.kind = $3::text)
AND ($4::text IS NULL OR s.key = $4::text)
AND ($5::text[] IS NULL OR s.tags @> $5::text[])
AND ($6::smallint IS NULL OR s.priority = $6::smallint)
AND ($7::bigint IS NULL OR s.id >= $7::bigint)
AND ($8::bigint IS NULL OR s.id <= $8::bigint)
AND ($9::timestamptz IS NULL OR s.created_at >= $9::timestamptz)
AND ($10::timestamptz IS NULL OR s.created_at < $10::timestamptz)
AND ($11::timestamptz IS NULL OR s.finished_at >= $11::timestamptz)
AND ($12::timestamptz IS NULL OR s.finished_at < $12::timestamptz)
AND ($13::timestamptz IS NULL OR s.run_at >= $13::timestamptz)
AND ($14::timestamptz IS NULL OR s.run_at < $14::timestamptz)
AND ($17::text IS NULL OR s.claimed_by = $17::text)
AND ($18::bigint[] IS NULL OR s.id = ANY ($18::bigint[]))
AND ($15::text IS NULL OR CASE WHEN s.error_count > 0 THEN s.errors->-1->>'code' END = $15::text)
AND ($16::text IS NULL OR CASE WHEN s.before <= 67108864 THEN s.payload @> $16::text::jsonb END) ORDER BY s.id ASC LIMIT $20::int + 1
)
SELECT e.n AS scanned, e.n < e.total OR e.total >= $21::int AS more, e.id AS last_id, e.at AS last_at, e.priority AS last_priority, p.at, p.id, p.queue, p.kind, p.key, p.revision, p.state, p.priority, p.run_at, p.created_at, p.claimed_at, p.lease_expires_at, p.cancel, p.finished_at,
p.claimed_by, p.attempt, p.generation, p.failures, p.max_attempts, p.error_count,
ARRAY (SELECT coalesce(left(t.tag, 255), '') FROM unnest(p.tags[1:20]) t(tag)) AS tags,
pg_column_size(p.payload) AS stored,
CASE WHEN $22::int > 0 AND pg_column_size(p.payload) <= 16384
     THEN left(p.payload::text, CASE WHEN p.payload ? '$pgqueue' THEN 65536 ELSE $22::int + 1 END) END AS payload,
CASE WHEN pg_column_size(p.errors) <= 65536 THEN left(p.errors->-1->>'code', 64) END AS code,
CASE WHEN pg_column_size(p.errors) <= 65536
     THEN left(p.errors->-1->>'message', CASE WHEN p.errors->-1->>'message' LIKE '_"$pgqueue":%' THEN 8192 ELSE 256 END) END AS message
FROM (SELECT count(*) AS found FROM page) c
     LEFT JOIN LATERAL (
        SELECT s.n, s.id, s.priority, s.finished_at AS at, max(s.n) OVER () AS total FROM (SELECT u.*, row_number() OVER w AS n, sum(u.weight) OVER w - u.weight AS before
FROM ((SELECT j.id, j.queue, j.kind, j.key, j.revision, j.state, j.priority, j.run_at, j.created_at, j.claimed_at, j.lease_expires_at,
j.cancel_requested_at IS NOT NULL AS cancel, NULL::timestamptz AS finished_at, NULL::date AS day, j.claimed_by, j.attempt, j.generation,
j.failures, j.max_attempts, j.error_count, j.tags, j.payload, j.errors,
CASE WHEN $16::text IS NULL THEN 0 ELSE pg_column_size(j.payload) END
    + CASE WHEN $15::text IS NULL OR j.errors IS NULL THEN 0 ELSE pg_column_size(j.errors) END AS weight FROM {schema}.jobs j WHERE ($1::text[] IS NULL OR $1::text[] && ARRAY['pending', 'running']) AND $11::timestamptz IS NULL AND $12::timestamptz IS NULL AND ($7::bigint IS NULL OR j.id >= $7::bigint) AND ($8::bigint IS NULL OR j.id <= $8::bigint) AND ($18::bigint[] IS NULL OR j.id = ANY ($18::bigint[]))
AND ($19::bigint IS NULL OR j.id > $19::bigint) ORDER BY j.id ASC LIMIT $21::int)
      UNION ALL
      (SELECT h.id, h.queue, h.kind, h.key, h.revision, h.state, h.priority, h.run_at, h.created_at, h.claimed_at, NULL::timestamptz AS lease_expires_at,
false AS cancel, h.finished_at, h.day, h.claimed_by, h.attempt, h.generation,
h.failures, h.max_attempts, h.error_count, h.tags, h.payload, h.errors,
CASE WHEN $16::text IS NULL THEN 0 ELSE pg_column_size(h.payload) END
    + CASE WHEN $15::text IS NULL OR h.errors IS NULL THEN 0 ELSE pg_column_size(h.errors) END AS weight FROM {schema}.history h WHERE     ($1::text[] IS NULL OR $1::text[] && ARRAY['succeeded', 'cancelled', 'failed', 'dead'])
AND ($1::text[] IS NULL OR $1::text[] && ARRAY['failed', 'dead'] OR h.day < 'infinity')
AND ($1::text[] IS NULL OR $1::text[] && ARRAY['succeeded', 'cancelled'] OR h.day = 'infinity')
AND ($11::timestamptz IS NULL OR h.day >= ($11::timestamptz AT TIME ZONE 'UTC')::date - 2)
AND ($12::timestamptz IS NULL OR h.day <= ($12::timestamptz AT TIME ZONE 'UTC')::date OR h.day = 'infinity') AND ($7::bigint IS NULL OR h.id >= $7::bigint) AND ($8::bigint IS NULL OR h.id <= $8::bigint) AND ($18::bigint[] IS NULL OR h.id = ANY ($18::bigint[]))
AND ($19::bigint IS NULL OR h.id > $19::bigint) ORDER BY h.id ASC LIMIT $21::int)) u
WINDOW w AS (ORDER BY u.id ASC ROWS UNBOUNDED PRECEDING)
ORDER BY u.id ASC LIMIT $21::int) s
        WHERE c.found <= $20::int ORDER BY s.before <= 67108864 DESC, s.n DESC LIMIT 1) e ON true
     LEFT JOIN (SELECT s.*, s.finished_at AS at FROM page s) p ON true
ORDER BY p.n;

-- name: list_by_id_descending
WITH page AS MATERIALIZED (
    SELECT s.* FROM (SELECT u.*, row_number() OVER w AS n, sum(u.weight) OVER w - u.weight AS before
FROM ((SELECT j.id, j.queue, j.kind, j.key, j.revision, j.state, j.priority, j.run_at, j.created_at, j.claimed_at, j.lease_expires_at,
j.cancel_requested_at IS NOT NULL AS cancel, NULL::timestamptz AS finished_at, NULL::date AS day, j.claimed_by, j.attempt, j.generation,
j.failures, j.max_attempts, j.error_count, j.tags, j.payload, j.errors,
CASE WHEN $16::text IS NULL THEN 0 ELSE pg_column_size(j.payload) END
    + CASE WHEN $15::text IS NULL OR j.errors IS NULL THEN 0 ELSE pg_column_size(j.errors) END AS weight FROM {schema}.jobs j WHERE ($1::text[] IS NULL OR $1::text[] && ARRAY['pending', 'running']) AND $11::timestamptz IS NULL AND $12::timestamptz IS NULL AND ($7::bigint IS NULL OR j.id >= $7::bigint) AND ($8::bigint IS NULL OR j.id <= $8::bigint) AND ($18::bigint[] IS NULL OR j.id = ANY ($18::bigint[]))
AND ($19::bigint IS NULL OR j.id < $19::bigint) ORDER BY j.id DESC LIMIT $21::int)
      UNION ALL
      (SELECT h.id, h.queue, h.kind, h.key, h.revision, h.state, h.priority, h.run_at, h.created_at, h.claimed_at, NULL::timestamptz AS lease_expires_at,
false AS cancel, h.finished_at, h.day, h.claimed_by, h.attempt, h.generation,
h.failures, h.max_attempts, h.error_count, h.tags, h.payload, h.errors,
CASE WHEN $16::text IS NULL THEN 0 ELSE pg_column_size(h.payload) END
    + CASE WHEN $15::text IS NULL OR h.errors IS NULL THEN 0 ELSE pg_column_size(h.errors) END AS weight FROM {schema}.history h WHERE     ($1::text[] IS NULL OR $1::text[] && ARRAY['succeeded', 'cancelled', 'failed', 'dead'])
AND ($1::text[] IS NULL OR $1::text[] && ARRAY['failed', 'dead'] OR h.day < 'infinity')
AND ($1::text[] IS NULL OR $1::text[] && ARRAY['succeeded', 'cancelled'] OR h.day = 'infinity')
AND ($11::timestamptz IS NULL OR h.day >= ($11::timestamptz AT TIME ZONE 'UTC')::date - 2)
AND ($12::timestamptz IS NULL OR h.day <= ($12::timestamptz AT TIME ZONE 'UTC')::date OR h.day = 'infinity') AND ($7::bigint IS NULL OR h.id >= $7::bigint) AND ($8::bigint IS NULL OR h.id <= $8::bigint) AND ($18::bigint[] IS NULL OR h.id = ANY ($18::bigint[]))
AND ($19::bigint IS NULL OR h.id < $19::bigint) ORDER BY h.id DESC LIMIT $21::int)) u
WINDOW w AS (ORDER BY u.id DESC ROWS UNBOUNDED PRECEDING)
ORDER BY u.id DESC LIMIT $21::int) s WHERE     s.before <= 67108864
AND ($1::text[] IS NULL OR s.state = ANY ($1::text[]))
AND ($2::text IS NULL OR s.queue = $2::text)
AND ($3::text IS NULL OR s.kind = $3::text)
AND ($4::text IS NULL OR s.key = $4::text)
AND ($5::text[] IS NULL OR s.tags @> $5::text[])
AND ($6::smallint IS NULL OR s.priority = $6::smallint)
AND ($7::bigint IS NULL OR s.id >= $7::bigint)
AND ($8::bigint IS NULL OR s.id <= $8::bigint)
AND ($9::timestamptz IS NULL OR s.created_at >= $9::timestamptz)
AND ($10::timestamptz IS NULL OR s.created_at < $10::timestamptz)
AND ($11::timestamptz IS NULL OR s.finished_at >= $11::timestamptz)
AND ($12::timestamptz IS NULL OR s.finished_at < $12::timestamptz)
AND ($13::timestamptz IS NULL OR s.run_at >= $13::timestamptz)
AND ($14::timestamptz IS NULL OR s.run_at < $14::timestamptz)
AND ($17::text IS NULL OR s.claimed_by = $17::text)
AND ($18::bigint[] IS NULL OR s.id = ANY ($18::bigint[]))
AND ($15::text IS NULL OR CASE WHEN s.error_count > 0 THEN s.errors->-1->>'code' END = $15::text)
AND ($16::text IS NULL OR CASE WHEN s.before <= 67108864 THEN s.payload @> $16::text::jsonb END) ORDER BY s.id DESC LIMIT $20::int + 1
)
SELECT e.n AS scanned, e.n < e.total OR e.total >= $21::int AS more, e.id AS last_id, e.at AS last_at, e.priority AS last_priority, p.at, p.id, p.queue, p.kind, p.key, p.revision, p.state, p.priority, p.run_at, p.created_at, p.claimed_at, p.lease_expires_at, p.cancel, p.finished_at,
p.claimed_by, p.attempt, p.generation, p.failures, p.max_attempts, p.error_count,
ARRAY (SELECT coalesce(left(t.tag, 255), '') FROM unnest(p.tags[1:20]) t(tag)) AS tags,
pg_column_size(p.payload) AS stored,
CASE WHEN $22::int > 0 AND pg_column_size(p.payload) <= 16384
     THEN left(p.payload::text, CASE WHEN p.payload ? '$pgqueue' THEN 65536 ELSE $22::int + 1 END) END AS payload,
CASE WHEN pg_column_size(p.errors) <= 65536 THEN left(p.errors->-1->>'code', 64) END AS code,
CASE WHEN pg_column_size(p.errors) <= 65536
     THEN left(p.errors->-1->>'message', CASE WHEN p.errors->-1->>'message' LIKE '_"$pgqueue":%' THEN 8192 ELSE 256 END) END AS message
FROM (SELECT count(*) AS found FROM page) c
     LEFT JOIN LATERAL (
        SELECT s.n, s.id, s.priority, s.finished_at AS at, max(s.n) OVER () AS total FROM (SELECT u.*, row_number() OVER w AS n, sum(u.weight) OVER w - u.weight AS before
FROM ((SELECT j.id, j.queue, j.kind, j.key, j.revision, j.state, j.priority, j.run_at, j.created_at, j.claimed_at, j.lease_expires_at,
j.cancel_requested_at IS NOT NULL AS cancel, NULL::timestamptz AS finished_at, NULL::date AS day, j.claimed_by, j.attempt, j.generation,
j.failures, j.max_attempts, j.error_count, j.tags, j.payload, j.errors,
CASE WHEN $16::text IS NULL THEN 0 ELSE pg_column_size(j.payload) END
    + CASE WHEN $15::text IS NULL OR j.errors IS NULL THEN 0 ELSE pg_column_size(j.errors) END AS weight FROM {schema}.jobs j WHERE ($1::text[] IS NULL OR $1::text[] && ARRAY['pending', 'running']) AND $11::timestamptz IS NULL AND $12::timestamptz IS NULL AND ($7::bigint IS NULL OR j.id >= $7::bigint) AND ($8::bigint IS NULL OR j.id <= $8::bigint) AND ($18::bigint[] IS NULL OR j.id = ANY ($18::bigint[]))
AND ($19::bigint IS NULL OR j.id < $19::bigint) ORDER BY j.id DESC LIMIT $21::int)
      UNION ALL
      (SELECT h.id, h.queue, h.kind, h.key, h.revision, h.state, h.priority, h.run_at, h.created_at, h.claimed_at, NULL::timestamptz AS lease_expires_at,
false AS cancel, h.finished_at, h.day, h.claimed_by, h.attempt, h.generation,
h.failures, h.max_attempts, h.error_count, h.tags, h.payload, h.errors,
CASE WHEN $16::text IS NULL THEN 0 ELSE pg_column_size(h.payload) END
    + CASE WHEN $15::text IS NULL OR h.errors IS NULL THEN 0 ELSE pg_column_size(h.errors) END AS weight FROM {schema}.history h WHERE     ($1::text[] IS NULL OR $1::text[] && ARRAY['succeeded', 'cancelled', 'failed', 'dead'])
AND ($1::text[] IS NULL OR $1::text[] && ARRAY['failed', 'dead'] OR h.day < 'infinity')
AND ($1::text[] IS NULL OR $1::text[] && ARRAY['succeeded', 'cancelled'] OR h.day = 'infinity')
AND ($11::timestamptz IS NULL OR h.day >= ($11::timestamptz AT TIME ZONE 'UTC')::date - 2)
AND ($12::timestamptz IS NULL OR h.day <= ($12::timestamptz AT TIME ZONE 'UTC')::date OR h.day = 'infinity') AND ($7::bigint IS NULL OR h.id >= $7::bigint) AND ($8::bigint IS NULL OR h.id <= $8::bigint) AND ($18::bigint[] IS NULL OR h.id = ANY ($18::bigint[]))
AND ($19::bigint IS NULL OR h.id < $19::bigint) ORDER BY h.id DESC LIMIT $21::int)) u
WINDOW w AS (ORDER BY u.id DESC ROWS UNBOUNDED PRECEDING)
ORDER BY u.id DESC LIMIT $21::int) s
        WHERE c.found <= $20::int ORDER BY s.before <= 67108864 DESC, s.n DESC LIMIT 1) e ON true
     LEFT JOIN (SELECT s.*, s.finished_at AS at FROM page s) p ON true
ORDER BY p.n;

-- name: list_few_ascending
WITH few AS MATERIALIZED (
    SELECT u.* FROM (
        (SELECT j.id, j.queue, j.kind, j.key, j.revision, j.state, j.priority, j.run_at, j.created_at, j.claimed_at, j.lease_expires_at,
j.cancel_requested_at IS NOT NULL AS cancel, NULL::timestamptz AS finished_at, NULL::date AS day, j.claimed_by, j.attempt, j.generation,
j.failures, j.max_attempts, j.error_count, j.tags, j.payload, j.errors,
CASE WHEN $16::text IS NULL THEN 0 ELSE pg_column_size(j.payload) END
    + CASE WHEN $15::text IS NULL OR j.errors IS NULL THEN 0 ELSE pg_column_size(j.errors) END AS weight FROM {schema}.jobs j
         WHERE $2::text IS NOT NULL AND $3::text IS NOT NULL AND $4::text IS NOT NULL AND ($1::text[] IS NULL OR $1::text[] && ARRAY['pending', 'running']) AND $11::timestamptz IS NULL AND $12::timestamptz IS NULL
           AND j.queue = $2::text AND j.kind = $3::text AND j.key = $4::text)
        UNION ALL
        (SELECT j.id, j.queue, j.kind, j.key, j.revision, j.state, j.priority, j.run_at, j.created_at, j.claimed_at, j.lease_expires_at,
j.cancel_requested_at IS NOT NULL AS cancel, NULL::timestamptz AS finished_at, NULL::date AS day, j.claimed_by, j.attempt, j.generation,
j.failures, j.max_attempts, j.error_count, j.tags, j.payload, j.errors,
CASE WHEN $16::text IS NULL THEN 0 ELSE pg_column_size(j.payload) END
    + CASE WHEN $15::text IS NULL OR j.errors IS NULL THEN 0 ELSE pg_column_size(j.errors) END AS weight FROM {schema}.jobs j
         WHERE ($3::text IS NULL OR $4::text IS NULL) AND 'pending' = ANY ($1::text[])
           AND j.queue = $2::text AND j.state = 'pending'
         ORDER BY j.priority, j.run_at, j.id LIMIT $21::int + 1)
        UNION ALL
        (SELECT j.id, j.queue, j.kind, j.key, j.revision, j.state, j.priority, j.run_at, j.created_at, j.claimed_at, j.lease_expires_at,
j.cancel_requested_at IS NOT NULL AS cancel, NULL::timestamptz AS finished_at, NULL::date AS day, j.claimed_by, j.attempt, j.generation,
j.failures, j.max_attempts, j.error_count, j.tags, j.payload, j.errors,
CASE WHEN $16::text IS NULL THEN 0 ELSE pg_column_size(j.payload) END
    + CASE WHEN $15::text IS NULL OR j.errors IS NULL THEN 0 ELSE pg_column_size(j.errors) END AS weight FROM {schema}.jobs j
         WHERE ($2::text IS NULL OR $3::text IS NULL OR $4::text IS NULL) AND 'running' = ANY ($1::text[])
           AND ($2::text IS NULL OR j.queue = $2::text) AND j.state = 'running'
         ORDER BY j.queue, j.claimed_at, j.id LIMIT $21::int + 1)
        UNION ALL
        (SELECT h.id, h.queue, h.kind, h.key, h.revision, h.state, h.priority, h.run_at, h.created_at, h.claimed_at, NULL::timestamptz AS lease_expires_at,
false AS cancel, h.finished_at, h.day, h.claimed_by, h.attempt, h.generation,
h.failures, h.max_attempts, h.error_count, h.tags, h.payload, h.errors,
CASE WHEN $16::text IS NULL THEN 0 ELSE pg_column_size(h.payload) END
    + CASE WHEN $15::text IS NULL OR h.errors IS NULL THEN 0 ELSE pg_column_size(h.errors) END AS weight FROM {schema}.history h
         WHERE $1::text[] && ARRAY['failed', 'dead'] AND h.day = 'infinity' AND h.queue BETWEEN $2::text AND $2::text
         ORDER BY h.queue, h.finished_at LIMIT $21::int + 1)) u
    LIMIT $21::int + 1
),
page AS MATERIALIZED (
    SELECT s.* FROM (SELECT f.*, 0 AS before FROM few f) s
    WHERE (SELECT count(*) <= $21::int AND coalesce(sum(weight), 0) <= 67108864 FROM few)
      AND ($19::bigint IS NULL OR s.id > $19::bigint) AND     s.before <= 67108864
AND ($1::text[] IS NULL OR s.state = ANY ($1::text[]))
AND ($2::text IS NULL OR s.queue = $2::text)
AND ($3::text IS NULL OR s.kind = $3::text)
AND ($4::text IS NULL OR s.key = $4::text)
AND ($5::text[] IS NULL OR s.tags @> $5::text[])
AND ($6::smallint IS NULL OR s.priority = $6::smallint)
AND ($7::bigint IS NULL OR s.id >= $7::bigint)
AND ($8::bigint IS NULL OR s.id <= $8::bigint)
AND ($9::timestamptz IS NULL OR s.created_at >= $9::timestamptz)
AND ($10::timestamptz IS NULL OR s.created_at < $10::timestamptz)
AND ($11::timestamptz IS NULL OR s.finished_at >= $11::timestamptz)
AND ($12::timestamptz IS NULL OR s.finished_at < $12::timestamptz)
AND ($13::timestamptz IS NULL OR s.run_at >= $13::timestamptz)
AND ($14::timestamptz IS NULL OR s.run_at < $14::timestamptz)
AND ($17::text IS NULL OR s.claimed_by = $17::text)
AND ($18::bigint[] IS NULL OR s.id = ANY ($18::bigint[]))
AND ($15::text IS NULL OR CASE WHEN s.error_count > 0 THEN s.errors->-1->>'code' END = $15::text)
AND ($16::text IS NULL OR CASE WHEN s.before <= 67108864 THEN s.payload @> $16::text::jsonb END)
    ORDER BY s.id ASC LIMIT $20::int + 1
)
SELECT c.usable, p.finished_at AS at, p.id, p.queue, p.kind, p.key, p.revision, p.state, p.priority, p.run_at, p.created_at, p.claimed_at, p.lease_expires_at, p.cancel, p.finished_at,
p.claimed_by, p.attempt, p.generation, p.failures, p.max_attempts, p.error_count,
ARRAY (SELECT coalesce(left(t.tag, 255), '') FROM unnest(p.tags[1:20]) t(tag)) AS tags,
pg_column_size(p.payload) AS stored,
CASE WHEN $22::int > 0 AND pg_column_size(p.payload) <= 16384
     THEN left(p.payload::text, CASE WHEN p.payload ? '$pgqueue' THEN 65536 ELSE $22::int + 1 END) END AS payload,
CASE WHEN pg_column_size(p.errors) <= 65536 THEN left(p.errors->-1->>'code', 64) END AS code,
CASE WHEN pg_column_size(p.errors) <= 65536
     THEN left(p.errors->-1->>'message', CASE WHEN p.errors->-1->>'message' LIKE '_"$pgqueue":%' THEN 8192 ELSE 256 END) END AS message
FROM (SELECT count(*) <= $21::int AND coalesce(sum(weight), 0) <= 67108864 AS usable FROM few) c
     LEFT JOIN page p ON true
ORDER BY p.id ASC;

-- name: list_few_descending
WITH few AS MATERIALIZED (
    SELECT u.* FROM (
        (SELECT j.id, j.queue, j.kind, j.key, j.revision, j.state, j.priority, j.run_at, j.created_at, j.claimed_at, j.lease_expires_at,
j.cancel_requested_at IS NOT NULL AS cancel, NULL::timestamptz AS finished_at, NULL::date AS day, j.claimed_by, j.attempt, j.generation,
j.failures, j.max_attempts, j.error_count, j.tags, j.payload, j.errors,
CASE WHEN $16::text IS NULL THEN 0 ELSE pg_column_size(j.payload) END
    + CASE WHEN $15::text IS NULL OR j.errors IS NULL THEN 0 ELSE pg_column_size(j.errors) END AS weight FROM {schema}.jobs j
         WHERE $2::text IS NOT NULL AND $3::text IS NOT NULL AND $4::text IS NOT NULL AND ($1::text[] IS NULL OR $1::text[] && ARRAY['pending', 'running']) AND $11::timestamptz IS NULL AND $12::timestamptz IS NULL
           AND j.queue = $2::text AND j.kind = $3::text AND j.key = $4::text)
        UNION ALL
        (SELECT j.id, j.queue, j.kind, j.key, j.revision, j.state, j.priority, j.run_at, j.created_at, j.claimed_at, j.lease_expires_at,
j.cancel_requested_at IS NOT NULL AS cancel, NULL::timestamptz AS finished_at, NULL::date AS day, j.claimed_by, j.attempt, j.generation,
j.failures, j.max_attempts, j.error_count, j.tags, j.payload, j.errors,
CASE WHEN $16::text IS NULL THEN 0 ELSE pg_column_size(j.payload) END
    + CASE WHEN $15::text IS NULL OR j.errors IS NULL THEN 0 ELSE pg_column_size(j.errors) END AS weight FROM {schema}.jobs j
         WHERE ($3::text IS NULL OR $4::text IS NULL) AND 'pending' = ANY ($1::text[])
           AND j.queue = $2::text AND j.state = 'pending'
         ORDER BY j.priority, j.run_at, j.id LIMIT $21::int + 1)
        UNION ALL
        (SELECT j.id, j.queue, j.kind, j.key, j.revision, j.state, j.priority, j.run_at, j.created_at, j.claimed_at, j.lease_expires_at,
j.cancel_requested_at IS NOT NULL AS cancel, NULL::timestamptz AS finished_at, NULL::date AS day, j.claimed_by, j.attempt, j.generation,
j.failures, j.max_attempts, j.error_count, j.tags, j.payload, j.errors,
CASE WHEN $16::text IS NULL THEN 0 ELSE pg_column_size(j.payload) END
    + CASE WHEN $15::text IS NULL OR j.errors IS NULL THEN 0 ELSE pg_column_size(j.errors) END AS weight FROM {schema}.jobs j
         WHERE ($2::text IS NULL OR $3::text IS NULL OR $4::text IS NULL) AND 'running' = ANY ($1::text[])
           AND ($2::text IS NULL OR j.queue = $2::text) AND j.state = 'running'
         ORDER BY j.queue, j.claimed_at, j.id LIMIT $21::int + 1)
        UNION ALL
        (SELECT h.id, h.queue, h.kind, h.key, h.revision, h.state, h.priority, h.run_at, h.created_at, h.claimed_at, NULL::timestamptz AS lease_expires_at,
false AS cancel, h.finished_at, h.day, h.claimed_by, h.attempt, h.generation,
h.failures, h.max_attempts, h.error_count, h.tags, h.payload, h.errors,
CASE WHEN $16::text IS NULL THEN 0 ELSE pg_column_size(h.payload) END
    + CASE WHEN $15::text IS NULL OR h.errors IS NULL THEN 0 ELSE pg_column_size(h.errors) END AS weight FROM {schema}.history h
         WHERE $1::text[] && ARRAY['failed', 'dead'] AND h.day = 'infinity' AND h.queue BETWEEN $2::text AND $2::text
         ORDER BY h.queue, h.finished_at LIMIT $21::int + 1)) u
    LIMIT $21::int + 1
),
page AS MATERIALIZED (
    SELECT s.* FROM (SELECT f.*, 0 AS before FROM few f) s
    WHERE (SELECT count(*) <= $21::int AND coalesce(sum(weight), 0) <= 67108864 FROM few)
      AND ($19::bigint IS NULL OR s.id < $19::bigint) AND     s.before <= 67108864
AND ($1::text[] IS NULL OR s.state = ANY ($1::text[]))
AND ($2::text IS NULL OR s.queue = $2::text)
AND ($3::text IS NULL OR s.kind = $3::text)
AND ($4::text IS NULL OR s.key = $4::text)
AND ($5::text[] IS NULL OR s.tags @> $5::text[])
AND ($6::smallint IS NULL OR s.priority = $6::smallint)
AND ($7::bigint IS NULL OR s.id >= $7::bigint)
AND ($8::bigint IS NULL OR s.id <= $8::bigint)
AND ($9::timestamptz IS NULL OR s.created_at >= $9::timestamptz)
AND ($10::timestamptz IS NULL OR s.created_at < $10::timestamptz)
AND ($11::timestamptz IS NULL OR s.finished_at >= $11::timestamptz)
AND ($12::timestamptz IS NULL OR s.finished_at < $12::timestamptz)
AND ($13::timestamptz IS NULL OR s.run_at >= $13::timestamptz)
AND ($14::timestamptz IS NULL OR s.run_at < $14::timestamptz)
AND ($17::text IS NULL OR s.claimed_by = $17::text)
AND ($18::bigint[] IS NULL OR s.id = ANY ($18::bigint[]))
AND ($15::text IS NULL OR CASE WHEN s.error_count > 0 THEN s.errors->-1->>'code' END = $15::text)
AND ($16::text IS NULL OR CASE WHEN s.before <= 67108864 THEN s.payload @> $16::text::jsonb END)
    ORDER BY s.id DESC LIMIT $20::int + 1
)
SELECT c.usable, p.finished_at AS at, p.id, p.queue, p.kind, p.key, p.revision, p.state, p.priority, p.run_at, p.created_at, p.claimed_at, p.lease_expires_at, p.cancel, p.finished_at,
p.claimed_by, p.attempt, p.generation, p.failures, p.max_attempts, p.error_count,
ARRAY (SELECT coalesce(left(t.tag, 255), '') FROM unnest(p.tags[1:20]) t(tag)) AS tags,
pg_column_size(p.payload) AS stored,
CASE WHEN $22::int > 0 AND pg_column_size(p.payload) <= 16384
     THEN left(p.payload::text, CASE WHEN p.payload ? '$pgqueue' THEN 65536 ELSE $22::int + 1 END) END AS payload,
CASE WHEN pg_column_size(p.errors) <= 65536 THEN left(p.errors->-1->>'code', 64) END AS code,
CASE WHEN pg_column_size(p.errors) <= 65536
     THEN left(p.errors->-1->>'message', CASE WHEN p.errors->-1->>'message' LIKE '_"$pgqueue":%' THEN 8192 ELSE 256 END) END AS message
FROM (SELECT count(*) <= $21::int AND coalesce(sum(weight), 0) <= 67108864 AS usable FROM few) c
     LEFT JOIN page p ON true
ORDER BY p.id DESC;

-- name: look
SELECT id, attempt, state = 'running' AS running, claimed_at IS NOT NULL AS open, generation <> claimed_generation AS superseded
FROM {schema}.jobs WHERE queue = $1 AND id = ANY ($2::bigint[]);

-- name: make_partition
SELECT {schema}.ensure_history(0)::text AS made;

-- name: may_read
SELECT CASE WHEN coalesce(bool_and(has_table_privilege(c.oid, 'SELECT')), false) THEN 'yes' ELSE 'no' END
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = $1::text AND c.relname IN ('jobs', 'history');

-- name: now
SELECT statement_timestamp();

-- name: pause
SELECT {schema}.pause($1::text, $2::text)::text AS since;

-- name: pause_kind
SELECT {schema}.pause_kind($1::text, $2::text, $3::timestamptz, $4::text)::text AS ends;

-- name: pause_until
SELECT {schema}.pause_until($1::text, $2::timestamptz, $3::text)::text AS ends;

-- name: paused_kinds
SELECT p.kind, p.queue, p.paused_at, p.paused_until, p.reason
FROM {schema}.paused_kinds p
WHERE coalesce(p.paused_until, 'infinity') > statement_timestamp()
ORDER BY p.kind, p.queue LIMIT $1::int;

-- name: peek
SELECT x.queue, x.kind, x.key, x.revision, x.state, x.priority, x.run_at, x.created_at, x.claimed_at, x.lease_expires_at, x.cancel,
       x.finished_at, x.claimed_by, x.attempt, x.failures, x.max_attempts, x.generation, x.error_count,
       (SELECT jsonb_agg(jsonb_strip_nulls(jsonb_build_object('code', left(e.value->>'code', 64), 'message',
                   left(e.value->>'message', CASE WHEN e.value->>'message' LIKE '_"$pgqueue":%' THEN 8192 ELSE 2048 END),
                   'attempt', e.value->'attempt', 'at', e.value->'at', 'by', left(e.value->>'by', 255), 'started', e.value->'started')) ORDER BY e.ord)
        FROM jsonb_array_elements(CASE WHEN jsonb_typeof(x.errors) = 'array' THEN x.errors ELSE '[]' END) WITH ORDINALITY e(value, ord)
        WHERE jsonb_typeof(e.value) = 'object')::text AS errors,
       x.tags, left(t.payload, CASE WHEN t.payload LIKE '_"$pgqueue":%' THEN $3::int ELSE $2::int END) AS payload,
       left(t.metadata, $2::int) AS metadata,
       left(t.result, CASE WHEN t.result LIKE '_"$pgqueue":%' THEN $3::int ELSE $2::int END) AS result,
       octet_length(t.payload) AS payload_size, octet_length(t.metadata) AS metadata_size, coalesce(octet_length(t.result), 0) AS result_size
FROM (SELECT queue, kind, key, revision, state, priority, run_at, created_at, claimed_at, lease_expires_at, cancel_requested_at IS NOT NULL AS cancel,
             NULL::timestamptz AS finished_at, claimed_by, attempt, failures, max_attempts, generation, error_count,
             errors, tags, payload, metadata, NULL::jsonb AS result
      FROM {schema}.jobs WHERE id = $1::bigint
      UNION ALL
      SELECT queue, kind, key, revision, state, priority, run_at, created_at, claimed_at, NULL, false,
             finished_at, claimed_by, attempt, failures, max_attempts, generation, error_count,
             errors, tags, payload, metadata, result
      FROM {schema}.history WHERE id = $1::bigint
      ORDER BY finished_at DESC NULLS FIRST
      LIMIT 1) x
     CROSS JOIN LATERAL (SELECT x.payload::text AS payload, x.metadata::text AS metadata, x.result::text AS result OFFSET 0) t;

-- name: peers
SELECT q.queue, count(*) AS peers
FROM (SELECT w.queues FROM {schema}.live_workers w WHERE w.id <> $1::text AND NOT w.stopping LIMIT 200) o
     CROSS JOIN LATERAL unnest($2::text[]) AS q(queue)
WHERE jsonb_exists(o.queues, q.queue)
GROUP BY q.queue;

-- name: probe
SELECT u.ord, now() AS db_now, h.paused_until, p.next_due, h.kinds AS paused_kinds, (extract(epoch FROM e.at - b.at) * 1000000)::bigint AS took_us
FROM unnest($1::text[]) WITH ORDINALITY AS u(queue, ord)
     CROSS JOIN LATERAL (SELECT clock_timestamp() AS at, u.queue OFFSET 0) b
     CROSS JOIN LATERAL (
        SELECT (SELECT coalesce(q.paused_until, 'infinity') FROM {schema}.queues q
                WHERE q.name = b.queue AND q.paused_at IS NOT NULL AND coalesce(q.paused_until, 'infinity') > now()) AS paused_until,
               a.kinds, a.held, a.soonest
        FROM (SELECT json_agg(json_build_array(k.kind, CASE WHEN isfinite(k.paused_until)
                         THEN ceil(extract(epoch FROM k.paused_until - now()) * 1000000) END))::text AS kinds,
                     array_agg(k.kind) AS held,
                     min(k.paused_until) FILTER (WHERE $4::text[] IS NULL OR k.kind = ANY ($4::text[])) AS soonest
              FROM {schema}.paused_kinds k
              WHERE k.queue IN ('', b.queue) AND coalesce(k.paused_until, 'infinity') > now()) a
        OFFSET 0) h
     CROSS JOIN LATERAL (
        SELECT CASE WHEN h.paused_until IS NOT NULL THEN h.paused_until ELSE least(h.soonest,
               (SELECT min(CASE WHEN s.ours IS NOT NULL THEN s.ours
                                WHEN s.seen = 100 THEN greatest(s.latest, now() + interval '1 second') END)
                FROM (SELECT c.priority, ($2::timestamptz[])[4 * (u.ord - 1) + c.priority] AS since,
                             ($3::bigint[])[4 * (u.ord - 1) + c.priority] AS since_id
                      FROM unnest(ARRAY[1, 2, 3, 4]::smallint[]) AS c(priority)) m
                     CROSS JOIN LATERAL (
                        SELECT min(f.run_at) FILTER (WHERE ($4::text[] IS NULL OR f.kind = ANY ($4::text[]))
                                                       AND (h.held IS NULL OR f.kind <> ALL (h.held))) AS ours,
                               max(f.run_at) AS latest, count(*) AS seen
                        FROM (SELECT r.run_at, r.kind FROM {schema}.jobs r
                              WHERE r.queue = b.queue AND r.priority = m.priority AND r.state = 'pending'
                                AND (r.run_at, r.id) >= (m.since, m.since_id)
                              ORDER BY r.run_at, r.id LIMIT 100) f) s)) END AS next_due
        OFFSET 0) p
     CROSS JOIN LATERAL (SELECT clock_timestamp() AS at, p.next_due OFFSET 0) e
ORDER BY u.ord;

-- name: progress_forget
DELETE FROM {schema}.job_progress p USING unnest($1::bigint[], $2::int[]) f(id, attempt)
WHERE p.job_id = f.id AND p.attempt <= f.attempt;

-- name: progress_read
SELECT j.kind, p.progress::text, p.attempt, p.updated_at
FROM {schema}.job_progress p JOIN {schema}.jobs j ON j.id = p.job_id
WHERE p.job_id = $1::bigint;

-- name: progress_write
INSERT INTO {schema}.job_progress AS p (job_id, updated_at, attempt, progress)
SELECT j.id, statement_timestamp(), f.attempt, f.progress::jsonb
FROM unnest($2::bigint[], $3::int[], $4::text[]) AS f(id, attempt, progress)
     CROSS JOIN LATERAL (SELECT x.id FROM {schema}.jobs x WHERE x.queue = $1 AND x.id = f.id AND x.attempt = f.attempt LIMIT 1) j
ORDER BY j.id
ON CONFLICT (job_id) DO UPDATE SET updated_at = excluded.updated_at, attempt = excluded.attempt, progress = excluded.progress
WHERE p.attempt <= excluded.attempt;

-- name: put_back
WITH l AS MATERIALIZED (
    SELECT j.id, f.verdict, f.result, f.history, f.bound,
           statement_timestamp() + f.delay_us * interval '1 microsecond' AS due, (now() AT TIME ZONE 'UTC')::date AS today,
           CASE WHEN f.code IS NOT NULL THEN jsonb_strip_nulls(jsonb_build_object('code', f.code, 'message', nullif(f.message, ''),
                'attempt', j.attempt, 'started', j.claimed_at, 'at', statement_timestamp(), 'by', j.claimed_by)) END AS error,
           CASE WHEN j.generation <> j.claimed_generation                           THEN 'superseded'
                WHEN f.verdict = 'success' AND f.history = 'off'                    THEN 'later'
                WHEN f.verdict = 'success'                                          THEN 'succeeded'
                WHEN f.verdict = 'cancel' OR j.cancel_requested_at IS NOT NULL      THEN 'cancelled'
                WHEN f.verdict = 'fail'                                             THEN 'failed'
                WHEN f.verdict = 'retry'
                     AND j.failures + 1 >= least(j.max_attempts, f.bound)           THEN 'dead'
                ELSE 'pending' END AS fate
    FROM unnest($2::bigint[], $3::int[], $4::text[], $5::bigint[], $6::text[], $7::text[], $8::text[], $9::text[],
                $10::int[]) AS f(id, attempt, verdict, delay_us, code, message, result, history, bound)
         CROSS JOIN LATERAL (
            SELECT * FROM {schema}.jobs x
            WHERE x.queue = $1 AND x.id = f.id AND x.attempt = f.attempt
              AND (x.state = 'running' OR (f.verdict = 'success' AND x.claimed_at IS NOT NULL))
            FOR UPDATE SKIP LOCKED) j
)
UPDATE {schema}.jobs j
SET state = 'pending', lease_expires_at = NULL, claimed_at = NULL, claimed_by = NULL,
    run_at      = CASE WHEN l.fate = 'superseded' OR l.due IS NULL THEN j.run_at ELSE l.due END,
    failures    = j.failures + (l.fate = 'pending' AND l.verdict = 'retry')::int,
    error_count = j.error_count + (l.error IS NOT NULL)::int,
    errors      = CASE WHEN l.error IS NULL THEN j.errors WHEN jsonb_array_length(j.errors) >= 10 THEN (j.errors - 0) || l.error
                       ELSE coalesce(j.errors, '[]') || l.error END
FROM l
WHERE j.queue = $1 AND j.id = l.id AND l.fate IN ('superseded', 'pending')
RETURNING j.id, j.attempt, CASE WHEN l.fate = 'superseded' THEN l.fate ELSE l.verdict END AS state, j.priority, j.run_at;

-- name: queues
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

-- name: read
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

-- name: reap
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

-- name: reap_from
SELECT least(coalesce(min(claimed_at), now()), now() - interval '1 minute') AS since
FROM {schema}.jobs WHERE queue = $1 AND state = 'running' AND claimed_at >= $2;

-- name: release_key
SELECT {schema}.release_key($1::text, $2::text, $3::text);

-- name: renew
UPDATE {schema}.jobs SET lease_expires_at = statement_timestamp() + $4::bigint * interval '1 microsecond'
WHERE queue = $1 AND id = ANY (ARRAY (
    SELECT l.id FROM unnest($2::bigint[], $3::int[]) f(id, attempt)
           CROSS JOIN LATERAL (
              SELECT j.id FROM {schema}.jobs j
              WHERE j.queue = $1 AND j.id = f.id AND j.attempt = f.attempt AND j.state <> 'pending'
              FOR NO KEY UPDATE SKIP LOCKED) l))
RETURNING id, attempt, cancel_requested_at IS NOT NULL AS cancel;

-- name: reschedule
SELECT {schema}.reschedule($1::bigint, $2::timestamptz) AS outcome;

-- name: reschedule_many
SELECT f.id, {schema}.reschedule(f.id, greatest($4::timestamptz, statement_timestamp()) + random() * $5::bigint * interval '1 microsecond') AS outcome,
       NULL::bigint AS other_id
FROM unnest($1::bigint[], $2::int[], $3::int[]) WITH ORDINALITY f(id, attempt, generation, ord)
     CROSS JOIN LATERAL (SELECT FROM {schema}.jobs j WHERE j.id = f.id AND j.attempt = f.attempt AND j.generation = f.generation LIMIT 1) j;

-- name: resume
SELECT {schema}.resume($1::text)::text AS resumed;

-- name: resume_kind
SELECT {schema}.resume_kind($1::text, $2::text)::text AS resumed;

-- name: retry
SELECT r.outcome, r.other_id FROM {schema}.retry($1::bigint) r;

-- name: retry_many
SELECT f.id, r.outcome, r.other_id
FROM unnest($1::bigint[]) WITH ORDINALITY f(id, ord) CROSS JOIN LATERAL {schema}.retry(f.id) r;

-- name: retry_with
SELECT r.outcome, r.other_id FROM {schema}.retry_with($1::bigint, $2::text::jsonb, $3::int) r;

-- name: revive
WITH d AS (
    DELETE FROM {schema}.history x USING unnest($2::bigint[], $3::int[], $4::text[], $5::text[]) f(id, attempt, result, keep)
    WHERE x.queue = $1 AND x.day = 'infinity' AND x.id = f.id AND x.attempt = f.attempt AND x.state = 'dead'
      AND x.errors->-1->>'code' = 'lease_expired' AND x.errors->-1->>'attempt' = f.attempt::text
    RETURNING x.*, f.result AS new_result, f.keep
),
h AS (
    INSERT INTO {schema}.history (id, run_at, created_at, claimed_at, finished_at, day, attempt, generation, error_count, priority, failures,
        max_attempts, queue, kind, state, claimed_by, key, revision, payload, metadata, tags, errors, result)
    SELECT id, run_at, created_at, claimed_at, now(), (now() AT TIME ZONE 'UTC')::date, attempt, generation, error_count, priority, failures,
        max_attempts, queue, kind, 'succeeded', claimed_by, key, revision,
        CASE WHEN keep = 'slim' THEN '{}' ELSE payload END, metadata, tags, errors, new_result::jsonb
    FROM d WHERE keep <> 'off'
)
SELECT id, attempt FROM d;

-- name: set_history
INSERT INTO {schema}.queues AS q (name, history) VALUES ($1::text, $2::text)
ON CONFLICT (name) DO UPDATE SET history = excluded.history, updated_at = excluded.updated_at;

-- name: set_max_attempts
SELECT {schema}.set_max_attempts($1::bigint, $2::int) AS state;

-- name: set_priority
SELECT {schema}.set_priority($1::bigint, $2::int) AS state;

-- name: set_priority_many
SELECT f.id, CASE {schema}.set_priority(f.id, $4::int) WHEN 'not_found' THEN 'not_found' ELSE 'set' END AS outcome, NULL::bigint AS other_id
FROM unnest($1::bigint[], $2::int[], $3::int[]) WITH ORDINALITY f(id, attempt, generation, ord)
     CROSS JOIN LATERAL (
        SELECT FROM (SELECT j.attempt, j.generation FROM {schema}.jobs j WHERE j.id = f.id
                     UNION ALL
                     SELECT h.attempt, h.generation FROM {schema}.history h WHERE h.id = f.id AND h.day = 'infinity') v
        WHERE v.attempt = f.attempt AND v.generation = f.generation LIMIT 1) v;

-- name: settle
WITH l AS MATERIALIZED (
    SELECT j.id, (now() AT TIME ZONE 'UTC')::date AS today,
           CASE WHEN j.generation <> j.claimed_generation THEN 'superseded'
                WHEN $5::text <> 'off' AND to_regclass({history_day} || to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD')) IS NULL
                                                          THEN 'no_partition'
                ELSE 'succeeded' END AS fate
    FROM {schema}.jobs j
    WHERE j.queue = $1 AND j.id = $2 AND j.attempt = $3 AND j.claimed_at IS NOT NULL
    FOR UPDATE
),
d AS (
    DELETE FROM {schema}.jobs j USING l WHERE j.queue = $1 AND j.id = l.id AND l.fate = 'succeeded'
    RETURNING j.*, l.today
),
h AS (
    INSERT INTO {schema}.history (id, run_at, created_at, claimed_at, finished_at, day, attempt, generation, error_count, priority, failures,
        max_attempts, queue, kind, state, claimed_by, key, revision, payload, metadata, tags, errors, result)
    SELECT id, run_at, created_at, claimed_at, statement_timestamp(), today, attempt, generation, error_count, priority, failures,
        max_attempts, queue, kind, 'succeeded', claimed_by, key, revision,
        CASE WHEN $5::text = 'slim' THEN '{}' ELSE payload END, metadata, tags, errors, $4::text::jsonb
    FROM d WHERE $5::text <> 'off'
),
u AS (
    UPDATE {schema}.jobs j SET state = 'pending', lease_expires_at = NULL, claimed_at = NULL, claimed_by = NULL
    FROM l WHERE j.queue = $1 AND j.id = l.id AND l.fate = 'superseded'
    RETURNING j.id
)
SELECT 'succeeded' AS state FROM d UNION ALL SELECT 'superseded' FROM u UNION ALL SELECT fate FROM l WHERE fate = 'no_partition';

-- name: spread
SELECT f.id, {schema}.reschedule(f.id, statement_timestamp() + random() * $2::bigint * interval '1 microsecond') AS outcome
FROM unnest($1::bigint[]) f(id);

-- name: start_check
SELECT pg_catalog.pg_is_in_recovery() AS standby,
       pg_catalog.current_setting('transaction_read_only') = 'on' AS read_only,
       pg_catalog.current_setting('client_encoding') AS encoding,
       pg_catalog.current_setting('DateStyle') AS date_style,
       pg_catalog.current_setting('array_nulls') = 'on' AS array_nulls,
       current_user::text AS role,
       l.problem, l.target, l.privilege
FROM (VALUES (true)) AS session (exists)
     LEFT JOIN LATERAL (
        SELECT CASE WHEN NOT o.has THEN 'missing' WHEN p.barred THEN 'barred' WHEN NOT coalesce(p.some, true) THEN 'hidden' ELSE 'partial' END AS problem,
               o.target, w.privilege, w.ord
        FROM unnest($2::text[], $3::text[], $4::text[]) WITH ORDINALITY AS w (kind, object, privilege, ord)
             JOIN pg_catalog.pg_namespace n ON n.nspname = $1::text
             CROSS JOIN LATERAL (
                SELECT 'schema ' || pg_catalog.quote_ident(n.nspname) AS target, pg_catalog.has_schema_privilege(n.oid, w.privilege) AS has, NULL::oid AS tab
                WHERE w.kind = 'schema'
                UNION ALL
                SELECT 'table ' || pg_catalog.format('%I.%I', n.nspname, c.relname), pg_catalog.has_table_privilege(c.oid, w.privilege), c.oid
                FROM pg_catalog.pg_class c WHERE c.relnamespace = n.oid AND c.relname = w.object AND w.kind = 'table'
                UNION ALL
                SELECT 'function ' || pg_catalog.format('%I.%I(%s)', n.nspname, f.proname, pg_catalog.pg_get_function_identity_arguments(f.oid)),
                       pg_catalog.has_function_privilege(f.oid, w.privilege), NULL
                FROM pg_catalog.pg_proc f WHERE f.pronamespace = n.oid AND f.proname = w.object AND w.kind = 'function') AS o
             LEFT JOIN LATERAL (
                SELECT pg_catalog.current_setting('row_security') = 'off' AS barred,
                       coalesce(bool_or(y.polpermissive AND y.seen <> 'false') AND bool_or(y.polpermissive AND y.written <> 'false')
                                AND bool_and(y.polpermissive OR (y.seen <> 'false' AND y.written <> 'false')), false) AS some,
                       coalesce(bool_or(y.polpermissive AND y.seen = 'true') AND bool_or(y.polpermissive AND y.written = 'true')
                                AND bool_and(y.polpermissive OR (y.seen = 'true' AND y.written = 'true')), false) AS every
                FROM (SELECT q.polpermissive,
                             CASE WHEN w.privilege = 'INSERT' THEN e.written ELSE e.seen END AS seen,
                             CASE WHEN w.privilege IN ('INSERT', 'UPDATE') THEN e.written ELSE e.seen END AS written
                      FROM pg_catalog.pg_policy q
                           CROSS JOIN LATERAL (
                              SELECT coalesce(pg_catalog.pg_get_expr(q.polqual, q.polrelid), (NOT q.polpermissive)::text) AS seen,
                                     coalesce(pg_catalog.pg_get_expr(coalesce(q.polwithcheck, q.polqual), q.polrelid), (NOT q.polpermissive)::text) AS written) AS e
                      WHERE q.polrelid = o.tab
                        AND q.polcmd IN ('*', CASE w.privilege WHEN 'SELECT' THEN 'r' WHEN 'INSERT' THEN 'a' WHEN 'UPDATE' THEN 'w' ELSE 'd' END::"char")
                        AND EXISTS (SELECT FROM unnest(q.polroles) AS g (id) WHERE g.id = 0 OR pg_catalog.pg_has_role(g.id, 'USAGE'))) AS y
             ) AS p ON o.tab IS NOT NULL AND pg_catalog.row_security_active(o.tab)
        WHERE NOT o.has OR p.barred OR NOT coalesce(p.every, true)) AS l ON true
ORDER BY l.ord;

-- name: stats
SELECT u.queue, q.paused_at, q.paused_until, q.paused_reason, coalesce(s.history, 'full') AS history,
       due.ready, due.oldest, future.scheduled, future.retrying, future.most, running.n, running.expired,
       ended.failed, ended.dead, ended.n
FROM unnest($1::text[]) WITH ORDINALITY AS u(queue, ord)
     LEFT JOIN {schema}.queues s ON s.name = u.queue
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

-- name: tell
SELECT pg_notify($1::text, $2::text || ' ' || u.id) FROM unnest($3::bigint[]) AS u(id);

-- name: unknown_kinds
SELECT DISTINCT ON (u.queue) u.queue, f.kind
FROM unnest($1::text[]) AS u(queue)
     CROSS JOIN unnest(ARRAY[1, 2, 3, 4]::smallint[]) AS c(priority)
     CROSS JOIN LATERAL (
        SELECT r.kind FROM {schema}.jobs r
        WHERE r.queue = u.queue AND r.priority = c.priority AND r.state = 'pending' AND r.run_at <= statement_timestamp()
        ORDER BY r.run_at, r.id LIMIT 100) f
WHERE NOT f.kind = ANY ($2::text[])
  AND NOT EXISTS (SELECT 1 FROM {schema}.paused_kinds p
                  WHERE p.kind = f.kind AND p.queue IN ('', u.queue) AND coalesce(p.paused_until, 'infinity') > statement_timestamp())
  AND NOT EXISTS (SELECT FROM {schema}.live_workers w WHERE jsonb_exists(w.queues, u.queue) AND jsonb_exists(w.kinds, f.kind))
ORDER BY u.queue, f.kind;

-- name: versions
SELECT id, state, attempt, generation FROM {schema}.jobs WHERE id = ANY ($1::bigint[])
UNION ALL
SELECT id, state, attempt, generation FROM {schema}.history WHERE id = ANY ($1::bigint[]);

-- name: why_not_running
SELECT {schema}.why_not_running($1::bigint) AS reason;

-- name: without_history
SELECT name FROM {schema}.queues WHERE name = ANY ($1::text[]) AND history = 'off' ORDER BY name;

-- name: workers
SELECT w.id, w.host, w.pid, w.version, w.started_at, w.seen_at, extract(epoch FROM w.heartbeat_every)::float8 AS every, w.stopping,
       EXISTS (SELECT FROM {schema}.live_workers l WHERE l.id = w.id) AS alive, w.queues::text AS queues, w.kinds::text AS kinds
FROM {schema}.workers w
ORDER BY w.id
LIMIT $1::int;

-- name: schedule_advance
WITH linked AS (
    UPDATE {schema}.schedule_ticks k
    SET job_id = j.id
    FROM unnest($2::timestamptz[], $3::bigint[]) j (tick, id)
    WHERE k.name = $1::text AND k.tick = j.tick)
UPDATE {schema}.schedules s
SET next_run_at = coalesce($4::timestamptz, 'infinity'), last_run_at = greatest(s.last_run_at, $5::timestamptz),
    last_job_id = coalesce($6::bigint, s.last_job_id), last_error = NULL, failures = 0, retry_at = NULL
WHERE s.name = $1::text;

-- name: schedule_bound
SELECT set_config('statement_timeout', $1::text, true), set_config('lock_timeout', $1::text, true),
       set_config('idle_in_transaction_session_timeout', $2::text, true);

-- name: schedule_bury
DELETE FROM {schema}.schedules s
WHERE s.name = ANY (ARRAY (
    SELECT r.name FROM {schema}.schedules r
    WHERE r.retired_at < statement_timestamp() - $1::bigint * interval '1 second' ORDER BY r.name LIMIT 100 FOR UPDATE SKIP LOCKED));

-- name: schedule_delete
DELETE FROM {schema}.schedules s WHERE s.name = $1::text RETURNING s.name;

-- name: schedule_due
SELECT d.name, d.wait, d.failing
FROM (
    (SELECT s.name, 0::bigint AS wait, false AS failing
     FROM {schema}.schedules s
     WHERE s.enabled AND s.retired_at IS NULL AND s.next_run_at IS NULL AND (s.retry_at IS NULL OR s.retry_at <= statement_timestamp()) AND s.failures <= 0
       AND (NOT s.dynamic OR s.name = ANY ($1::text[])) AND s.name <> ALL ($2::text[])
     LIMIT $3::int)
    UNION ALL
    (SELECT s.name, 0, false
     FROM {schema}.schedules s
     WHERE s.enabled AND s.retired_at IS NULL AND s.next_run_at <= statement_timestamp() AND (s.retry_at IS NULL OR s.retry_at <= statement_timestamp()) AND s.failures <= 0
       AND (NOT s.dynamic OR s.name = ANY ($1::text[])) AND s.name <> ALL ($2::text[])
     ORDER BY s.next_run_at NULLS FIRST
     LIMIT $3::int)
    UNION ALL
    (SELECT s.name, 0, true
     FROM {schema}.schedules s
     WHERE s.enabled AND s.retired_at IS NULL AND s.failures > 0 AND (s.next_run_at IS NULL OR s.next_run_at <= statement_timestamp())
       AND (s.retry_at IS NULL OR s.retry_at <= statement_timestamp())
       AND (NOT s.dynamic OR s.name = ANY ($1::text[])) AND s.name <> ALL ($2::text[])
     ORDER BY s.retry_at NULLS FIRST
     LIMIT $3::int)
    UNION ALL
    (SELECT '', (extract(epoch FROM s.next_run_at - statement_timestamp()) * 1000000)::bigint, false
     FROM {schema}.schedules s
     WHERE s.enabled AND s.retired_at IS NULL AND s.next_run_at > statement_timestamp() AND s.next_run_at < 'infinity'
       AND (NOT s.dynamic OR s.name = ANY ($1::text[]))
     ORDER BY s.next_run_at NULLS FIRST
     LIMIT 1)
) d;

-- name: schedule_fail
UPDATE {schema}.schedules s
SET last_error = $3::text, failures = s.failures + 1, retry_at = statement_timestamp() + $4::bigint * interval '1 microsecond'
WHERE s.name = (SELECT f.name FROM {schema}.schedules f
                WHERE f.name = $1::text AND f.next_run_at IS NOT DISTINCT FROM $2::timestamptz
                FOR UPDATE SKIP LOCKED);

-- name: schedule_forget
WITH RECURSIVE names AS (
    (SELECT k.name FROM {schema}.schedule_ticks k ORDER BY k.name LIMIT 1)
    UNION ALL
    SELECT (SELECT k.name FROM {schema}.schedule_ticks k WHERE k.name > n.name ORDER BY k.name LIMIT 1)
    FROM names n WHERE n.name IS NOT NULL
),
old AS (
    SELECT o.name, o.tick
    FROM names n
         CROSS JOIN LATERAL (SELECT c.tick FROM {schema}.schedule_ticks c WHERE c.name = n.name ORDER BY c.tick DESC OFFSET $1::int LIMIT 1) c
         CROSS JOIN LATERAL (
            SELECT k.name, k.tick FROM {schema}.schedule_ticks k
            WHERE k.name = n.name AND k.tick <= c.tick AND k.tick < statement_timestamp() - $2::bigint * interval '1 second'
            ORDER BY k.tick LIMIT $3::int) o
    LIMIT $3::int
)
DELETE FROM {schema}.schedule_ticks d
USING old
WHERE d.name = old.name AND d.tick = old.tick;

-- name: schedule_list
SELECT s.name, s.spec, s.time_zone, s.kind, s.queue, coalesce(s.key, ''), s.priority, s.max_attempts, s.payload::text, s.metadata::text, s.tags,
       s.catch_up, s.catch_up_limit, (extract(epoch FROM s.jitter) * 1000000)::bigint, s.dynamic, s.enabled, s.source, s.failures,
       coalesce(s.last_error, ''), coalesce(s.last_job_id, 0), s.created_at, s.updated_at,
       nullif(nullif(s.next_run_at, 'infinity'), '-infinity'), s.next_run_at IS NOT DISTINCT FROM 'infinity',
       nullif(nullif(s.last_run_at, 'infinity'), '-infinity'), s.retry_at, s.retired_at
FROM {schema}.schedules s
WHERE s.name > $1::text AND ($2::text IS NULL OR s.source = $2::text) AND ($4::text IS NULL OR s.name = $4::text)
ORDER BY s.name
LIMIT $3::int;

-- name: schedule_mark
INSERT INTO {schema}.schedule_ticks AS k (tick, enqueued_at, name)
SELECT t.tick, statement_timestamp(), $1::text
FROM unnest($2::timestamptz[]) t (tick)
ON CONFLICT (name, tick) DO NOTHING
RETURNING k.tick;

-- name: schedule_put
INSERT INTO {schema}.schedules AS s
       (created_at, updated_at, jitter, catch_up_limit, priority, max_attempts, name, spec, time_zone, catch_up, queue, kind, key,
        payload, metadata, tags)
VALUES (statement_timestamp(), statement_timestamp(), $1::bigint * interval '1 microsecond', $2::int, $3::smallint, $4::smallint, $5::text, $6::text, $7::text, $8::text, $9::text,
        $10::text, $11::text, $12::jsonb, $13::jsonb, $14::text[])
ON CONFLICT (name) DO UPDATE SET
       updated_at = excluded.updated_at, jitter = excluded.jitter, catch_up_limit = excluded.catch_up_limit, priority = excluded.priority,
       max_attempts = excluded.max_attempts, dynamic = false, spec = excluded.spec, time_zone = excluded.time_zone,
       catch_up = excluded.catch_up, queue = excluded.queue, kind = excluded.kind, key = excluded.key, payload = excluded.payload,
       metadata = excluded.metadata, tags = excluded.tags, retired_at = NULL
RETURNING s.created_at = s.updated_at;

-- name: schedule_register
INSERT INTO {schema}.schedules AS s
       (created_at, updated_at, seen_at, jitter, catch_up_limit, priority, max_attempts, dynamic, name, spec, time_zone, catch_up, queue, kind,
        key, source, definition, payload, metadata, tags)
VALUES (statement_timestamp(), statement_timestamp(), statement_timestamp(), $1::bigint * interval '1 microsecond', $2::int, $3::smallint, $4::smallint, $5::boolean, $6::text, $7::text, $8::text,
        $9::text, $10::text, $11::text, $12::text, $13::text, $14::text, $15::jsonb, $16::jsonb, $17::text[])
ON CONFLICT (name) DO UPDATE SET
       updated_at = excluded.updated_at, seen_at = excluded.seen_at, retired_at = NULL, jitter = excluded.jitter,
       catch_up_limit = excluded.catch_up_limit, priority = excluded.priority, max_attempts = excluded.max_attempts, dynamic = excluded.dynamic,
       spec = excluded.spec, time_zone = excluded.time_zone, catch_up = excluded.catch_up, queue = excluded.queue, kind = excluded.kind,
       key = excluded.key, source = excluded.source, definition = excluded.definition, payload = excluded.payload,
       metadata = excluded.metadata, tags = excluded.tags
WHERE (s.source, s.definition) IS DISTINCT FROM (excluded.source, excluded.definition);

-- name: schedule_registered
SELECT s.name, s.source, s.definition
FROM {schema}.schedules s
WHERE s.name = ANY ($1::text[]);

-- name: schedule_retire
UPDATE {schema}.schedules s
SET retired_at = statement_timestamp()
WHERE s.name = ANY (ARRAY (
    SELECT r.name FROM {schema}.schedules r
    WHERE r.source = $1::text AND r.source <> '' AND r.name <> ALL ($2::text[]) AND r.retired_at IS NULL
      AND (r.seen_at IS NULL OR r.seen_at <= statement_timestamp() - $3::bigint * interval '1 microsecond')
    ORDER BY r.name
    FOR UPDATE SKIP LOCKED))
RETURNING s.name;

-- name: schedule_see
UPDATE {schema}.schedules s
SET seen_at = statement_timestamp(), retired_at = NULL, updated_at = CASE WHEN s.retired_at IS NULL THEN s.updated_at ELSE statement_timestamp() END
WHERE s.name = ANY (ARRAY (
    SELECT v.name FROM {schema}.schedules v
    WHERE v.name = ANY ($1::text[]) AND v.source <> ''
      AND (v.retired_at IS NOT NULL OR v.seen_at IS NULL OR v.seen_at <= statement_timestamp() - $2::bigint * interval '1 microsecond' OR v.seen_at > statement_timestamp())
    ORDER BY v.name
    FOR UPDATE SKIP LOCKED));

-- name: schedule_set_enabled
UPDATE {schema}.schedules s SET enabled = $2::boolean, updated_at = CASE WHEN s.enabled = $2::boolean THEN s.updated_at ELSE statement_timestamp() END
WHERE s.name = $1::text RETURNING s.name;

-- name: schedule_set_spec
UPDATE {schema}.schedules s SET spec = $2::text, time_zone = $3::text, updated_at = statement_timestamp() WHERE s.name = $1::text RETURNING s.name;

-- name: schedule_take
SELECT s.spec, s.time_zone, s.kind, s.queue, s.key, s.priority, s.max_attempts, s.payload::text, s.metadata::text, s.tags,
       s.catch_up, s.catch_up_limit, (extract(epoch FROM s.jitter) * 1000000)::bigint, s.dynamic, s.failures,
       s.created_at, s.updated_at, s.last_run_at, s.next_run_at, statement_timestamp()
FROM {schema}.schedules s
WHERE s.name = $1::text AND s.enabled AND s.retired_at IS NULL AND (s.next_run_at IS NULL OR s.next_run_at <= statement_timestamp())
  AND (s.retry_at IS NULL OR s.retry_at <= statement_timestamp()) AND (NOT s.dynamic OR $2::boolean)
FOR UPDATE OF s SKIP LOCKED;

-- name: schedule_ticks
SELECT k.tick, k.enqueued_at, coalesce(k.job_id, 0)
FROM {schema}.schedule_ticks k
WHERE k.name = $1::text AND k.tick < coalesce($2::timestamptz, 'infinity')
ORDER BY k.tick DESC
LIMIT $3::int;
