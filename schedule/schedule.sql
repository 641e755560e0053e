-- All statements of package schedule. {schema} stands for the quoted name of the schema; {now} for the instant that everything here is
-- measured by: statement_timestamp() of the database, and in tests a clock that can be moved. No statement takes a time from a process.

-- What is due, and how long until the next one is. The first two parts are index ranges of schedules_due; they leave out what this process
-- has in hand already ($2), and what is made by a function that it does not have ($1). Both are short however many schedules there are. NULLS
-- FIRST is the order of the index, without which ten thousand schedules would be sorted each second.
--
-- What failed the last time comes from an index of its own, by the time of its next attempt, which each failure moves on: so those that keep
-- failing take turns, and however many they are, they are not in the sight of those that are well. An edit sets failures to 0.
-- name: due
SELECT d.name, d.wait, d.failing
FROM (
    (SELECT s.name, 0::bigint AS wait, false AS failing
     FROM {schema}.schedules s
     WHERE s.enabled AND s.retired_at IS NULL AND s.next_run_at IS NULL AND (s.retry_at IS NULL OR s.retry_at <= {now}) AND s.failures <= 0
       AND (NOT s.dynamic OR s.name = ANY ($1::text[])) AND s.name <> ALL ($2::text[])
     LIMIT $3::int)
    UNION ALL
    (SELECT s.name, 0, false
     FROM {schema}.schedules s
     WHERE s.enabled AND s.retired_at IS NULL AND s.next_run_at <= {now} AND (s.retry_at IS NULL OR s.retry_at <= {now}) AND s.failures <= 0
       AND (NOT s.dynamic OR s.name = ANY ($1::text[])) AND s.name <> ALL ($2::text[])
     ORDER BY s.next_run_at NULLS FIRST
     LIMIT $3::int)
    UNION ALL
    (SELECT s.name, 0, true
     FROM {schema}.schedules s
     WHERE s.enabled AND s.retired_at IS NULL AND s.failures > 0 AND (s.next_run_at IS NULL OR s.next_run_at <= {now})
       AND (s.retry_at IS NULL OR s.retry_at <= {now})
       AND (NOT s.dynamic OR s.name = ANY ($1::text[])) AND s.name <> ALL ($2::text[])
     ORDER BY s.retry_at NULLS FIRST
     LIMIT $3::int)
    UNION ALL
    -- infinity minus a time is an error before Postgres 17
    (SELECT '', (extract(epoch FROM s.next_run_at - {now}) * 1000000)::bigint, false
     FROM {schema}.schedules s
     WHERE s.enabled AND s.retired_at IS NULL AND s.next_run_at > {now} AND s.next_run_at < 'infinity'
       AND (NOT s.dynamic OR s.name = ANY ($1::text[]))
     ORDER BY s.next_run_at NULLS FIRST
     LIMIT 1)
) d;

-- The bounds of a tick's transaction hold on the server too: a process that is stopped, or cut off, in the midst of it keeps the row locked
-- no longer than this, and then the others go on.
-- name: bound
SELECT set_config('statement_timeout', $1::text, true), set_config('lock_timeout', $1::text, true),
       set_config('idle_in_transaction_session_timeout', $2::text, true);

-- The decision who enqueues a tick: whoever gets the row. SKIP LOCKED, so nobody waits for anybody; the conditions are looked at again on
-- the newest version of the row, so that a process which comes late finds the tick gone.
-- name: take
SELECT s.spec, s.time_zone, s.kind, s.queue, s.key, s.priority, s.max_attempts, s.payload::text, s.metadata::text, s.tags,
       s.catch_up, s.catch_up_limit, (extract(epoch FROM s.jitter) * 1000000)::bigint, s.dynamic, s.failures,
       s.created_at, s.updated_at, s.last_run_at, s.next_run_at, {now}
FROM {schema}.schedules s
WHERE s.name = $1::text AND s.enabled AND s.retired_at IS NULL AND (s.next_run_at IS NULL OR s.next_run_at <= {now})
  AND (s.retry_at IS NULL OR s.retry_at <= {now}) AND (NOT s.dynamic OR $2::boolean)
FOR UPDATE OF s SKIP LOCKED;

-- The identity of ticks. What was there already is not answered, and not enqueued again, whatever the clock has done since.
-- name: mark
INSERT INTO {schema}.schedule_ticks AS k (tick, enqueued_at, name)
SELECT t.tick, {now}, $1::text
FROM unnest($2::timestamptz[]) t (tick)
ON CONFLICT (name, tick) DO NOTHING
RETURNING k.tick;

-- Which job a tick became, and on to the next one. No next one ($4 NULL) is infinity: NULL would mean that it has to be worked out.
-- name: advance
WITH linked AS (
    UPDATE {schema}.schedule_ticks k
    SET job_id = j.id
    FROM unnest($2::timestamptz[], $3::bigint[]) j (tick, id)
    WHERE k.name = $1::text AND k.tick = j.tick)
UPDATE {schema}.schedules s
SET next_run_at = coalesce($4::timestamptz, 'infinity'), last_run_at = greatest(s.last_run_at, $5::timestamptz),
    last_job_id = coalesce($6::bigint, s.last_job_id), last_error = NULL, failures = 0, retry_at = NULL
WHERE s.name = $1::text;

-- After the transaction of a tick has failed, in one of its own. If the schedule has moved on meanwhile, or is locked, nothing is written.
-- name: fail
UPDATE {schema}.schedules s
SET last_error = $3::text, failures = s.failures + 1, retry_at = {now} + $4::bigint * interval '1 microsecond'
WHERE s.name = (SELECT f.name FROM {schema}.schedules f
                WHERE f.name = $1::text AND f.next_run_at IS NOT DISTINCT FROM $2::timestamptz
                FOR UPDATE SKIP LOCKED);

-- What of a program's schedules is there, so that a restart which changes nothing writes nothing.
-- name: registered
SELECT s.name, s.source, s.definition
FROM {schema}.schedules s
WHERE s.name = ANY ($1::text[]);

-- One schedule of a program. A definition that stands there already changes nothing, so that what people have edited survives
-- restarts; enabled and the times are theirs in any case. The trigger sees to next_run_at where spec or zone are new.
-- name: register
INSERT INTO {schema}.schedules AS s
       (created_at, updated_at, seen_at, jitter, catch_up_limit, priority, max_attempts, dynamic, name, spec, time_zone, catch_up, queue, kind,
        key, source, definition, payload, metadata, tags)
VALUES ({now}, {now}, {now}, $1::bigint * interval '1 microsecond', $2::int, $3::smallint, $4::smallint, $5::boolean, $6::text, $7::text, $8::text,
        $9::text, $10::text, $11::text, $12::text, $13::text, $14::text, $15::jsonb, $16::jsonb, $17::text[])
ON CONFLICT (name) DO UPDATE SET
       updated_at = excluded.updated_at, seen_at = excluded.seen_at, retired_at = NULL, jitter = excluded.jitter,
       catch_up_limit = excluded.catch_up_limit, priority = excluded.priority, max_attempts = excluded.max_attempts, dynamic = excluded.dynamic,
       spec = excluded.spec, time_zone = excluded.time_zone, catch_up = excluded.catch_up, queue = excluded.queue, kind = excluded.kind,
       key = excluded.key, source = excluded.source, definition = excluded.definition, payload = excluded.payload,
       metadata = excluded.metadata, tags = excluded.tags
WHERE (s.source, s.definition) IS DISTINCT FROM (excluded.source, excluded.definition);

-- A program says which schedules it has in its code ($1); one of several processes writes it, once in a while ($2, microseconds). What was
-- retired comes back. A row that somebody has locked is seen the next time.
-- name: see
UPDATE {schema}.schedules s
SET seen_at = {now}, retired_at = NULL, updated_at = CASE WHEN s.retired_at IS NULL THEN s.updated_at ELSE {now} END
WHERE s.name = ANY (ARRAY (
    SELECT v.name FROM {schema}.schedules v
    WHERE v.name = ANY ($1::text[]) AND v.source <> ''
      AND (v.retired_at IS NOT NULL OR v.seen_at IS NULL OR v.seen_at <= {now} - $2::bigint * interval '1 microsecond' OR v.seen_at > {now})
    ORDER BY v.name
    FOR UPDATE SKIP LOCKED));

-- Schedules of this source ($1) that this program does not have ($2), and that no program has said for a while ($3) that it has.
-- name: retire
UPDATE {schema}.schedules s
SET retired_at = {now}
WHERE s.name = ANY (ARRAY (
    SELECT r.name FROM {schema}.schedules r
    WHERE r.source = $1::text AND r.source <> '' AND r.name <> ALL ($2::text[]) AND r.retired_at IS NULL
      AND (r.seen_at IS NULL OR r.seen_at <= {now} - $3::bigint * interval '1 microsecond')
    ORDER BY r.name
    FOR UPDATE SKIP LOCKED))
RETURNING s.name;

-- Old ticks: for each schedule the newest $1 stay, and those of the last $2 seconds; at most $3 go at a time. The names are found by one
-- look-up each; DISTINCT would read the whole table.
-- name: forget
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
            WHERE k.name = n.name AND k.tick <= c.tick AND k.tick < {now} - $2::bigint * interval '1 second'
            ORDER BY k.tick LIMIT $3::int) o
    LIMIT $3::int
)
DELETE FROM {schema}.schedule_ticks d
USING old
WHERE d.name = old.name AND d.tick = old.tick;

-- Schedules that no program has had for a month.
-- name: bury
DELETE FROM {schema}.schedules s
WHERE s.name = ANY (ARRAY (
    SELECT r.name FROM {schema}.schedules r
    WHERE r.retired_at < {now} - $1::bigint * interval '1 second' ORDER BY r.name LIMIT 100 FOR UPDATE SKIP LOCKED));

-- Of people. A schedule that is put says all but who owns it, whether it is enabled, and the times.
-- name: put
INSERT INTO {schema}.schedules AS s
       (created_at, updated_at, jitter, catch_up_limit, priority, max_attempts, name, spec, time_zone, catch_up, queue, kind, key,
        payload, metadata, tags)
VALUES ({now}, {now}, $1::bigint * interval '1 microsecond', $2::int, $3::smallint, $4::smallint, $5::text, $6::text, $7::text, $8::text, $9::text,
        $10::text, $11::text, $12::jsonb, $13::jsonb, $14::text[])
ON CONFLICT (name) DO UPDATE SET
       updated_at = excluded.updated_at, jitter = excluded.jitter, catch_up_limit = excluded.catch_up_limit, priority = excluded.priority,
       max_attempts = excluded.max_attempts, dynamic = false, spec = excluded.spec, time_zone = excluded.time_zone,
       catch_up = excluded.catch_up, queue = excluded.queue, kind = excluded.kind, key = excluded.key, payload = excluded.payload,
       metadata = excluded.metadata, tags = excluded.tags, retired_at = NULL
RETURNING s.created_at = s.updated_at;

-- name: set_spec
UPDATE {schema}.schedules s SET spec = $2::text, time_zone = $3::text, updated_at = {now} WHERE s.name = $1::text RETURNING s.name;

-- name: set_enabled
UPDATE {schema}.schedules s SET enabled = $2::boolean, updated_at = CASE WHEN s.enabled = $2::boolean THEN s.updated_at ELSE {now} END
WHERE s.name = $1::text RETURNING s.name;

-- name: delete
DELETE FROM {schema}.schedules s WHERE s.name = $1::text RETURNING s.name;

-- After a name ($1), of one source or of all ($2 NULL), or the one of that name ($4).
-- name: list
SELECT s.name, s.spec, s.time_zone, s.kind, s.queue, coalesce(s.key, ''), s.priority, s.max_attempts, s.payload::text, s.metadata::text, s.tags,
       s.catch_up, s.catch_up_limit, (extract(epoch FROM s.jitter) * 1000000)::bigint, s.dynamic, s.enabled, s.source, s.failures,
       coalesce(s.last_error, ''), coalesce(s.last_job_id, 0), s.created_at, s.updated_at,
       nullif(nullif(s.next_run_at, 'infinity'), '-infinity'), s.next_run_at IS NOT DISTINCT FROM 'infinity',
       nullif(nullif(s.last_run_at, 'infinity'), '-infinity'), s.retry_at, s.retired_at
FROM {schema}.schedules s
WHERE s.name > $1::text AND ($2::text IS NULL OR s.source = $2::text) AND ($4::text IS NULL OR s.name = $4::text)
ORDER BY s.name
LIMIT $3::int;

-- name: ticks
SELECT k.tick, k.enqueued_at, coalesce(k.job_id, 0)
FROM {schema}.schedule_ticks k
WHERE k.name = $1::text AND k.tick < coalesce($2::timestamptz, 'infinity')
ORDER BY k.tick DESC
LIMIT $3::int;
