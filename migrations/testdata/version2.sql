-- The statements that the programs of schema version 2 send, without their comments: pgqueue/internal/jobstore/*.sql as they were in the last
-- commit before version 3. Version N works with the programs of N-1 (docs/compatibility.md), so these must go on to work with version 3.

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
                ORDER BY r.run_at, r.id LIMIT $2 FOR UPDATE SKIP LOCKED) c
        ORDER BY p.ord LIMIT $2))
      AND NOT EXISTS (SELECT FROM {schema}.queues q WHERE q.name = $1 AND q.paused_at IS NOT NULL)
    RETURNING j.id, j.attempt, j.kind, j.priority, j.run_at, j.failures, j.max_attempts, j.generation, j.key, j.revision,
              j.created_at, j.payload::text AS payload, nullif(j.metadata, '{}')::text AS metadata, nullif(j.tags, '{}') AS tags,
              (SELECT clock_timestamp()) AS found_at
)
SELECT c.id, c.attempt, c.kind, c.priority, c.run_at, c.failures, c.max_attempts, c.generation, c.key, c.revision,
       c.created_at, c.payload, c.metadata, c.tags, c.found_at,
       NULL AS claimed_at, NULL AS db_now, NULL AS history, NULL AS paused
FROM claimed c
UNION ALL
SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, clock_timestamp(),
       statement_timestamp(), now(), coalesce((SELECT q.history FROM {schema}.queues q WHERE q.name = $1), 'full'),
       EXISTS (SELECT FROM {schema}.queues q WHERE q.name = $1 AND q.paused_at IS NOT NULL);

-- name: probe
SELECT u.ord, now() AS db_now, p.paused, p.next_due, (extract(epoch FROM e.at - b.at) * 1000000)::bigint AS took_us
FROM unnest($1::text[]) WITH ORDINALITY AS u(queue, ord)
     CROSS JOIN LATERAL (SELECT clock_timestamp() AS at, u.queue OFFSET 0) b
     CROSS JOIN LATERAL (
        SELECT EXISTS (SELECT FROM {schema}.queues q WHERE q.name = b.queue AND q.paused_at IS NOT NULL) AS paused,
               (SELECT min(CASE WHEN s.ours IS NOT NULL THEN s.ours
                                WHEN s.seen = 100 THEN greatest(s.latest, now() + interval '1 second') END)
                FROM (SELECT c.priority, ($2::timestamptz[])[4 * (u.ord - 1) + c.priority] AS since,
                             ($3::bigint[])[4 * (u.ord - 1) + c.priority] AS since_id
                      FROM unnest(ARRAY[1, 2, 3, 4]::smallint[]) AS c(priority)) m
                     CROSS JOIN LATERAL (
                        SELECT min(f.run_at) FILTER (WHERE $4::text[] IS NULL OR f.kind = ANY ($4::text[])) AS ours,
                               max(f.run_at) AS latest, count(*) AS seen
                        FROM (SELECT r.run_at, r.kind FROM {schema}.jobs r
                              WHERE r.queue = b.queue AND r.priority = m.priority AND r.state = 'pending'
                                AND (r.run_at, r.id) >= (m.since, m.since_id)
                              ORDER BY r.run_at, r.id LIMIT 100) f) s) AS next_due
        OFFSET 0) p
     CROSS JOIN LATERAL (SELECT clock_timestamp() AS at, p.next_due, p.paused OFFSET 0) e
ORDER BY u.ord;

-- name: cancel
SELECT {schema}.cancel($1::bigint) AS outcome;

-- name: retry
SELECT r.outcome, r.other_id FROM {schema}.retry($1::bigint) r;

-- name: set_max_attempts
SELECT {schema}.set_max_attempts($1::bigint, $2::int) AS state;

-- name: pause
SELECT {schema}.pause($1::text, $2::text)::text AS since;

-- name: resume
SELECT {schema}.resume($1::text)::text AS resumed;

-- name: set_history
INSERT INTO {schema}.queues AS q (name, history) VALUES ($1::text, $2::text)
ON CONFLICT (name) DO UPDATE SET history = excluded.history, updated_at = statement_timestamp();

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

-- name: by_index
SELECT set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true), set_config('enable_sort', 'off', true),
       set_config('plan_cache_mode', 'force_custom_plan', true), set_config('jit', 'off', true);

-- name: stats
SELECT u.queue, q.paused_at, q.paused_reason, coalesce(q.history, 'full') AS history,
       due.ready, due.oldest, future.scheduled, future.retrying, future.most, running.n, running.expired,
       ended.failed, ended.dead, ended.n
FROM unnest($1::text[]) WITH ORDINALITY AS u(queue, ord)
     LEFT JOIN {schema}.queues q ON q.name = u.queue
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

-- name: hint
SELECT pg_notify($1::text, q.name)::text AS sent FROM unnest($2::text[]) AS q(name);

-- name: now
SELECT statement_timestamp();

-- name: reap
WITH l AS MATERIALIZED (
    SELECT j.id, statement_timestamp() AS t, (now() AT TIME ZONE 'UTC')::date AS today,
           jsonb_build_object('code', 'lease_expired', 'attempt', j.attempt, 'at', statement_timestamp(), 'by', j.claimed_by) AS error,
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

-- name: ensure_history
SELECT {schema}.ensure_history($1::int);

-- name: drop_history
SELECT {schema}.drop_history($1::bigint * interval '1 second');

-- name: expire_attention
SELECT {schema}.expire_attention($1::bigint * interval '1 second', $2::int);

-- name: without_history
SELECT name FROM {schema}.queues WHERE name = ANY ($1::text[]) AND history = 'off' ORDER BY name;

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

-- name: finish
WITH l AS MATERIALIZED (
    SELECT j.id, f.verdict, f.result, f.history, f.bound,
           statement_timestamp() + f.delay_us * interval '1 microsecond' AS due, (now() AT TIME ZONE 'UTC')::date AS today,
           CASE WHEN f.code IS NOT NULL THEN jsonb_strip_nulls(jsonb_build_object('code', f.code, 'message', nullif(f.message, ''),
                'attempt', j.attempt, 'at', statement_timestamp(), 'by', j.claimed_by)) END AS error,
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

-- name: put_back
WITH l AS MATERIALIZED (
    SELECT j.id, f.verdict, f.result, f.history, f.bound,
           statement_timestamp() + f.delay_us * interval '1 microsecond' AS due, (now() AT TIME ZONE 'UTC')::date AS today,
           CASE WHEN f.code IS NOT NULL THEN jsonb_strip_nulls(jsonb_build_object('code', f.code, 'message', nullif(f.message, ''),
                'attempt', j.attempt, 'at', statement_timestamp(), 'by', j.claimed_by)) END AS error,
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

-- name: look
SELECT id, attempt, state = 'running' AS running, claimed_at IS NOT NULL AS open, generation <> claimed_generation AS superseded
FROM {schema}.jobs WHERE queue = $1 AND id = ANY ($2::bigint[]);

-- name: renew
UPDATE {schema}.jobs SET lease_expires_at = statement_timestamp() + $4::bigint * interval '1 microsecond'
WHERE queue = $1 AND id = ANY (ARRAY (
    SELECT l.id FROM unnest($2::bigint[], $3::int[]) f(id, attempt)
           CROSS JOIN LATERAL (
              SELECT j.id FROM {schema}.jobs j
              WHERE j.queue = $1 AND j.id = f.id AND j.attempt = f.attempt AND j.state <> 'pending'
              FOR NO KEY UPDATE SKIP LOCKED) l))
RETURNING id, attempt, cancel_requested_at IS NOT NULL AS cancel;

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

-- name: make_partition
SELECT {schema}.ensure_history(0)::text AS made;
