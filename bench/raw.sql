-- The statements of pgqueue/internal/jobstore, which explains them. go test says when they have changed there.

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
                  AND (r.run_at, r.id) >= (p.since, p.since_id)
                  AND CASE WHEN r.kind = ANY (ARRAY (
                        SELECT h.kind FROM {schema}.paused_kinds h
                        WHERE h.queue IN ('', $1) AND coalesce(h.paused_until, 'infinity') > statement_timestamp())) THEN NULL
                      WHEN $5::text[] IS NULL OR r.kind = ANY ($5::text[]) THEN 1 END IS NOT NULL
                ORDER BY r.run_at, r.id LIMIT $2 FOR UPDATE SKIP LOCKED) c
        ORDER BY p.ord LIMIT $2))
      AND NOT EXISTS (SELECT FROM {schema}.queues q
                      WHERE q.name = $1 AND q.paused_at IS NOT NULL AND coalesce(q.paused_until, 'infinity') > statement_timestamp())
    RETURNING j.id, j.attempt, j.kind, j.priority, j.run_at, j.failures, j.max_attempts, j.generation, j.key, j.revision,
              j.created_at, j.payload::text AS payload, nullif(j.metadata, '{}')::text AS metadata, j.ctid AS place, nullif(j.tags, '{}') AS tags,
              (SELECT clock_timestamp()) AS found_at
)
SELECT c.id, c.attempt, c.kind, c.priority, c.run_at, c.failures, c.max_attempts, c.generation, c.key, c.revision,
       c.created_at, c.payload, c.metadata, c.place, c.tags, c.found_at,
       NULL AS claimed_at, NULL AS db_now, NULL AS history, NULL AS paused_until, NULL AS paused_kinds
FROM claimed c
UNION ALL
SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, clock_timestamp(),
       statement_timestamp(), now(), coalesce((SELECT q.history FROM {schema}.queues q WHERE q.name = $1), 'full'),
       (SELECT coalesce(q.paused_until, 'infinity') FROM {schema}.queues q
        WHERE q.name = $1 AND q.paused_at IS NOT NULL AND coalesce(q.paused_until, 'infinity') > statement_timestamp()),
       (SELECT json_agg(json_build_array(h.kind, CASE WHEN isfinite(h.paused_until)
                   THEN ceil(extract(epoch FROM h.paused_until - statement_timestamp()) * 1000000) END))::text
        FROM {schema}.paused_kinds h
        WHERE h.queue IN ('', $1) AND coalesce(h.paused_until, 'infinity') > statement_timestamp());

-- name: complete_at
WITH d AS (
    DELETE FROM {schema}.jobs
    WHERE queue = $1 AND ctid = ANY (ARRAY (
        SELECT l.ctid FROM unnest($2::bigint[], $3::int[], $4::tid[]) f(id, attempt, place)
               CROSS JOIN LATERAL (
                  SELECT j.ctid FROM {schema}.jobs j
                  WHERE j.ctid = f.place AND j.queue = $1 AND j.id IS NOT DISTINCT FROM f.id AND j.attempt = f.attempt
                    AND j.claimed_at IS NOT NULL AND j.generation = j.claimed_generation
                  FOR UPDATE SKIP LOCKED) l))
    RETURNING *
)
INSERT INTO {schema}.history (id, run_at, created_at, claimed_at, finished_at, day, attempt, generation, error_count, priority, failures,
    max_attempts, queue, kind, state, claimed_by, key, revision, payload, metadata, tags, errors)
SELECT id, run_at, created_at, claimed_at, now(), (now() AT TIME ZONE 'UTC')::date, attempt, generation, error_count, priority, failures,
    max_attempts, queue, kind, 'succeeded', claimed_by, key, revision, CASE WHEN $5::boolean THEN '{}' ELSE payload END, metadata, tags, errors
FROM d RETURNING id, attempt;

-- name: complete_forget_at
DELETE FROM {schema}.jobs
WHERE queue = $1 AND ctid = ANY (ARRAY (
    SELECT l.ctid FROM unnest($2::bigint[], $3::int[], $4::tid[]) f(id, attempt, place)
           CROSS JOIN LATERAL (
              SELECT j.ctid FROM {schema}.jobs j
              WHERE j.ctid = f.place AND j.queue = $1 AND j.id IS NOT DISTINCT FROM f.id AND j.attempt = f.attempt
                AND j.claimed_at IS NOT NULL AND j.generation = j.claimed_generation
              FOR UPDATE SKIP LOCKED) l))
RETURNING id, attempt;
