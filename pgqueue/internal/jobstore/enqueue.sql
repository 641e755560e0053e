-- The producer's statements. {schema} is the quoted schema, {sequence} the literal that names the sequence of job ids.

-- name: enqueue
-- One statement for one job or many of a queue, keyed or not; ids come back by input position.
-- (Several queues: one statement each in one pgx.Batch, queues in sorted order.)
--  $1 queue  $2 kind[] $3 key[] $4 revision[] $5 payload[] (json text) $6 metadata[] (json text) $7 tags[] (each an array literal)
--  $8 priority[] $9 run_at[] (NULL = now) $10 delay in µs[] (NULL = 0) $11 max_attempts[] $12 channel of the hint, NULL = none
-- * Ids are drawn in input order, so that FIFO inside the batch is the input's order although rows are written in key order.
-- * Rows are written in (kind, key) order: two overlapping batches cannot deadlock.
-- * The last of a key in the batch is the one that counts; every position of it gets the same id.
-- * same_id: an identical input (equal, non-NULL revision) that is already live is answered from the snapshot, without a lock.
--   Only in READ COMMITTED: an older snapshot may show a job that has long been replaced or finished, and the enqueue would
--   vanish without an error. And only with a revision: the caller's own writes are not committed yet, so without one nothing says
--   that the live job will see them (it may run and finish before this transaction commits). No revision = always a new input.
-- * put: DO UPDATE has no WHERE. It locks the row anyway, and a WHERE that says no would return no id for a row that was
--   committed after our snapshot; so in that rare race an equal input is written over itself and nothing else changes
--   (NULL = NULL is not true: an enqueue without revision always takes the ELSE branches).
--   The lock on a pending row lasts to the caller's COMMIT: nobody can claim it before the caller's data is visible.
-- * A replaced pending job keeps its place in line (least); a running one gets the new due time for its second run.
-- * A completion that is deleting the row makes DO UPDATE wait; when it commits, Postgres retries and inserts a new job.
-- * No join between two CTEs, and LIMIT 1 in the LATERAL so that it stays one index probe a key: with a cached generic plan
--   Postgres takes every array for ten elements and may join by nested loop (5,000 equal keys: 1.8 s instead of 25 ms).
-- * The hint is sent where something was written: an enqueue that found everything the same wakes nobody.
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
-- The common case, one job without a key: no CTE, 0.05 ms of planning once.
-- $1 queue $2 kind $3 payload $4 metadata $5 tags $6 priority $7 run_at or NULL $8 delay µs or NULL $9 max_attempts
INSERT INTO {schema}.jobs (queue, kind, payload, metadata, tags, priority, run_at, max_attempts)
VALUES ($1::text, $2::text, $3::text::jsonb, $4::text::jsonb, $5::text[], $6::smallint,
        coalesce($7::timestamptz, statement_timestamp()) + coalesce($8::bigint, 0) * interval '1 microsecond', $9::smallint)
RETURNING id;

-- name: enqueue_one_hint
-- The same with its hint, in the same round trip: RETURNING runs once a row, after the row is in.
-- $10 channel of the hint
INSERT INTO {schema}.jobs (queue, kind, payload, metadata, tags, priority, run_at, max_attempts)
VALUES ($1::text, $2::text, $3::text::jsonb, $4::text::jsonb, $5::text[], $6::smallint,
        coalesce($7::timestamptz, statement_timestamp()) + coalesce($8::bigint, 0) * interval '1 microsecond', $9::smallint)
RETURNING id, pg_notify($10::text, $1::text)::text AS sent;

-- name: hint
-- The trailing hints of a client, several queues in one transaction of their own. $1 channel $2 queue[]
SELECT pg_notify($1::text, q.name)::text AS sent FROM unnest($2::text[]) AS q(name);

-- name: now
-- The time from which delays of copied rows count: COPY takes values, not expressions, and no worker's clock is used.
SELECT statement_timestamp();
