-- What people want to know about jobs, live and finished together: pages, counts, groups. All of it only reads, works on a standby,
-- and is sent behind by_index (control.sql), so that whatever the statistics say the rows come from an index, in its order.
--
-- Every statement takes the same filter, $1 to $18; what is NULL does not filter. Plans are made for the values at hand, so the
-- planner sees constants: it drops the conditions that are NULL, the tables that cannot hold such a state, and the partitions of
-- other days.
--    $1 state[]  $2 queue  $3 kind  $4 key  $5 tags[] (all of them)  $6 priority  $7 lowest and $8 highest id
--    $9 created from, $10 before  $11 finished from, $12 before  $13 due from, $14 before
--    $15 code of the last error  $16 json that the payload contains  $17 worker  $18 id[]
--
-- Few of these have an index: each would be paid for by every job. So a statement does not look for a page of matches however long
-- that takes. It walks an index in the order of the page, looks at so many rows and no more ("scan"), and says how far it
-- came ("frontier"): the caller goes on from there. {...} are the parts below; {order} is ASC or DESC and {beyond} is > or <.

-- name: part_live
-- One row of jobs as the statements here pass it around. weight is what matching it may have to unpack, in bytes as stored.
j.id, j.queue, j.kind, j.key, j.revision, j.state, j.priority, j.run_at, j.created_at, j.claimed_at, j.lease_expires_at,
j.cancel_requested_at IS NOT NULL AS cancel, NULL::timestamptz AS finished_at, NULL::date AS day, j.claimed_by, j.attempt, j.generation,
j.failures, j.max_attempts, j.error_count, j.tags, j.payload, j.errors,
CASE WHEN $16::text IS NULL THEN 0 ELSE pg_column_size(j.payload) END
    + CASE WHEN $15::text IS NULL OR j.errors IS NULL THEN 0 ELSE pg_column_size(j.errors) END AS weight

-- name: part_ended
-- One row of history.
h.id, h.queue, h.kind, h.key, h.revision, h.state, h.priority, h.run_at, h.created_at, h.claimed_at, NULL::timestamptz AS lease_expires_at,
false AS cancel, h.finished_at, h.day, h.claimed_by, h.attempt, h.generation,
h.failures, h.max_attempts, h.error_count, h.tags, h.payload, h.errors,
CASE WHEN $16::text IS NULL THEN 0 ELSE pg_column_size(h.payload) END
    + CASE WHEN $15::text IS NULL OR h.errors IS NULL THEN 0 ELSE pg_column_size(h.errors) END AS weight

-- name: part_live_wanted
-- Whether jobs can hold what is wanted. Constant, so a part that cannot is not even planned.
($1::text[] IS NULL OR $1::text[] && ARRAY['pending', 'running']) AND $11::timestamptz IS NULL AND $12::timestamptz IS NULL

-- name: part_ended_wanted
-- Which partitions of history can hold it. Failed and dead jobs have the day 'infinity', the others the UTC day of finished_at,
-- or an earlier one where a transaction was open across midnight: two days of patience with it.
    ($1::text[] IS NULL OR $1::text[] && ARRAY['succeeded', 'cancelled', 'failed', 'dead'])
AND ($1::text[] IS NULL OR $1::text[] && ARRAY['failed', 'dead'] OR h.day < 'infinity')
AND ($1::text[] IS NULL OR $1::text[] && ARRAY['succeeded', 'cancelled'] OR h.day = 'infinity')
AND ($11::timestamptz IS NULL OR h.day >= ($11::timestamptz AT TIME ZONE 'UTC')::date - 2)
AND ($12::timestamptz IS NULL OR h.day <= ($12::timestamptz AT TIME ZONE 'UTC')::date OR h.day = 'infinity')

-- name: part_live_ids
-- The range of numbers, and the place ($19) from which to go on.
($7::bigint IS NULL OR j.id >= $7::bigint) AND ($8::bigint IS NULL OR j.id <= $8::bigint) AND ($18::bigint[] IS NULL OR j.id = ANY ($18::bigint[]))
AND ($19::bigint IS NULL OR j.id {beyond} $19::bigint)

-- name: part_ended_ids
($7::bigint IS NULL OR h.id >= $7::bigint) AND ($8::bigint IS NULL OR h.id <= $8::bigint) AND ($18::bigint[] IS NULL OR h.id = ANY ($18::bigint[]))
AND ($19::bigint IS NULL OR h.id {beyond} $19::bigint)

-- name: part_match
-- The whole filter, asked of each row s of a scan. First what is cheap; what has to be unpacked comes last, and not beyond 64 MB
-- of it in one statement. (before is the sum of the weights of the rows before this one, so the first is always looked at.)
    s.before <= 67108864
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

-- name: part_before
-- The weight of the rows before this one, in the order in which they come.
sum(x.weight) OVER (ROWS UNBOUNDED PRECEDING) - x.weight AS before

-- name: part_by_id
-- A job keeps its number for its whole life, in whichever table it is: the one order in which it cannot be passed or met
-- twice while it moves. Both tables are read by their primary keys and merged. $21 is the scan.
SELECT u.*, row_number() OVER w AS n, sum(u.weight) OVER w - u.weight AS before
FROM ((SELECT {live} FROM {schema}.jobs j WHERE {live_wanted} AND {live_ids} ORDER BY j.id {order} LIMIT $21::int)
      UNION ALL
      (SELECT {ended} FROM {schema}.history h WHERE {ended_wanted} AND {ended_ids} ORDER BY h.id {order} LIMIT $21::int)) u
WINDOW w AS (ORDER BY u.id {order} ROWS UNBOUNDED PRECEDING)
ORDER BY u.id {order} LIMIT $21::int

-- name: part_by_finished
-- Failed and dead jobs in the order of their end. $23 and $19 are the place. {queue_is} and {queue_first} are empty, or name the queue:
-- with them the index is (queue, finished_at), without them (finished_at). Jobs of the same instant are sorted by number as they
-- come. (BETWEEN instead of =: otherwise the index by time alone gives the same order, with other queues' rows in it.)
SELECT u.*, row_number() OVER w AS n, sum(u.weight) OVER w - u.weight AS before
FROM (SELECT {ended} FROM {schema}.history h
      WHERE h.day = 'infinity' {queue_is}
        AND ($11::timestamptz IS NULL OR h.finished_at >= $11::timestamptz) AND ($12::timestamptz IS NULL OR h.finished_at < $12::timestamptz)
        AND ($19::bigint IS NULL OR (h.finished_at, h.id) {beyond} ($23::timestamptz, $19::bigint))
      ORDER BY {queue_first} h.finished_at {order}, h.id {order} LIMIT $21::int) u
WINDOW w AS (ORDER BY u.finished_at {order}, u.id {order} ROWS UNBOUNDED PRECEDING)
ORDER BY u.finished_at {order}, u.id {order} LIMIT $21::int

-- name: part_by_due
-- The pending jobs of one queue in the order in which they are claimed. $24, $23 and $19 are the place.
SELECT u.*, row_number() OVER w AS n, sum(u.weight) OVER w - u.weight AS before
FROM (SELECT {live} FROM {schema}.jobs j
      WHERE j.queue = $2::text AND j.state = 'pending'
        AND ($19::bigint IS NULL OR (j.priority, j.run_at, j.id) {beyond} ($24::smallint, $23::timestamptz, $19::bigint))
      ORDER BY j.priority {order}, j.run_at {order}, j.id {order} LIMIT $21::int) u
WINDOW w AS (ORDER BY u.priority {order}, u.run_at {order}, u.id {order} ROWS UNBOUNDED PRECEDING)
ORDER BY u.priority {order}, u.run_at {order}, u.id {order} LIMIT $21::int

-- name: part_shown
-- What a list shows of a row. A large payload is not read at all: what counts is its size as stored, which takes no unpacking.
-- $22 is how many characters are wanted. An encoded value (docs/encryption.md) cannot be decoded in part: of that it is all, in
-- the same bounds.
p.id, p.queue, p.kind, p.key, p.revision, p.state, p.priority, p.run_at, p.created_at, p.claimed_at, p.lease_expires_at, p.cancel, p.finished_at,
p.claimed_by, p.attempt, p.generation, p.failures, p.max_attempts, p.error_count,
ARRAY (SELECT coalesce(left(t.tag, 255), '') FROM unnest(p.tags[1:20]) t(tag)) AS tags,
pg_column_size(p.payload) AS stored,
CASE WHEN $22::int > 0 AND pg_column_size(p.payload) <= 16384 
     THEN left(p.payload::text, CASE WHEN p.payload ? '$pgqueue' THEN 65536 ELSE $22::int + 1 END) END AS payload,
CASE WHEN pg_column_size(p.errors) <= 65536 THEN left(p.errors->-1->>'code', 64) END AS code,
CASE WHEN pg_column_size(p.errors) <= 65536 
     THEN left(p.errors->-1->>'message', CASE WHEN p.errors->-1->>'message' LIKE '_"$pgqueue":%' THEN 8192 ELSE 256 END) END AS message

-- name: list
-- One page. $19 id of the place to go on from (NULL: from the start)  $20 limit  $21 scan  $22 characters of the payload, and $23, $24
-- the rest of the place where {scan} needs them. One row more than the limit says that there is more. The scan stops as soon as it
-- has these (so {sorted} must be the order of {scan}, in its own words); only where it did not find enough is it asked a second time, how far it came.
WITH page AS MATERIALIZED (
    SELECT s.* FROM ({scan}) s WHERE {match} ORDER BY {sorted} LIMIT $20::int + 1
)
SELECT e.n AS scanned, e.n < e.total OR e.total >= $21::int AS more, e.id AS last_id, e.at AS last_at, e.priority AS last_priority, p.at, {shown}
FROM (SELECT count(*) AS found FROM page) c
     LEFT JOIN LATERAL (
        SELECT s.n, s.id, s.priority, {at} AS at, max(s.n) OVER () AS total FROM ({scan}) s
        WHERE c.found <= $20::int ORDER BY s.before <= 67108864 DESC, s.n DESC LIMIT 1) e ON true
     LEFT JOIN (SELECT s.*, {at} AS at FROM page s) p ON true
ORDER BY p.n

-- name: list_few
-- The same page by number where an index knows a small set that holds all of it: what runs, or what is pending, failed or dead in one
-- queue, or one key. Arguments as in list; $21 is how large the set may be. Where it is larger, usable is false and nothing
-- else is said: then such rows are frequent enough for list.
WITH few AS MATERIALIZED (
    SELECT u.* FROM (
        (SELECT {live} FROM {schema}.jobs j
         WHERE $2::text IS NOT NULL AND $3::text IS NOT NULL AND $4::text IS NOT NULL AND {live_wanted}
           AND j.queue = $2::text AND j.kind = $3::text AND j.key = $4::text)
        UNION ALL
        (SELECT {live} FROM {schema}.jobs j
         WHERE ($3::text IS NULL OR $4::text IS NULL) AND 'pending' = ANY ($1::text[])
           AND j.queue = $2::text AND j.state = 'pending'
         ORDER BY j.priority, j.run_at, j.id LIMIT $21::int + 1)
        UNION ALL
        (SELECT {live} FROM {schema}.jobs j
         WHERE ($2::text IS NULL OR $3::text IS NULL OR $4::text IS NULL) AND 'running' = ANY ($1::text[])
           AND ($2::text IS NULL OR j.queue = $2::text) AND j.state = 'running'
         ORDER BY j.queue, j.claimed_at, j.id LIMIT $21::int + 1)
        UNION ALL
        (SELECT {ended} FROM {schema}.history h
         WHERE $1::text[] && ARRAY['failed', 'dead'] AND h.day = 'infinity' AND h.queue BETWEEN $2::text AND $2::text
         ORDER BY h.queue, h.finished_at LIMIT $21::int + 1)) u
    LIMIT $21::int + 1
),
page AS MATERIALIZED (
    SELECT s.* FROM (SELECT f.*, 0 AS before FROM few f) s
    WHERE (SELECT count(*) <= $21::int AND coalesce(sum(weight), 0) <= 67108864 FROM few)
      AND ($19::bigint IS NULL OR s.id {beyond} $19::bigint) AND {match}
    ORDER BY s.id {order} LIMIT $20::int + 1
)
SELECT c.usable, p.finished_at AS at, {shown}
FROM (SELECT count(*) <= $21::int AND coalesce(sum(weight), 0) <= 67108864 AS usable FROM few) c
     LEFT JOIN page p ON true
ORDER BY p.id {order}

-- name: count
-- How many match, by state: of each source at most $19 rows are looked at, from an index that knows the state and, but for what succeeded
-- or was cancelled, the queue. One row more says that there are more.
SELECT s.source, s.state, count(*) AS scanned, count(*) FILTER (WHERE {match}) AS matches, bool_or(s.before > 67108864) AS cut
FROM ((SELECT 1 AS source, x.*, {before} FROM (
          SELECT {live} FROM {schema}.jobs j
          WHERE ($1::text[] IS NULL OR 'pending' = ANY ($1::text[])) AND $11::timestamptz IS NULL AND $12::timestamptz IS NULL
            AND ($2::text IS NULL OR j.queue = $2::text) AND j.state = 'pending'
          ORDER BY j.queue, j.priority, j.run_at, j.id LIMIT $19::int + 1) x)
      UNION ALL
      (SELECT 2, x.*, {before} FROM (
          SELECT {live} FROM {schema}.jobs j
          WHERE ($1::text[] IS NULL OR 'running' = ANY ($1::text[])) AND $11::timestamptz IS NULL AND $12::timestamptz IS NULL
            AND ($2::text IS NULL OR j.queue = $2::text) AND j.state = 'running'
          ORDER BY j.queue, j.claimed_at, j.id LIMIT $19::int + 1) x)
      UNION ALL
      (SELECT 3, x.*, {before} FROM (
          SELECT {ended} FROM {schema}.history h
          WHERE {ended_wanted} AND ($1::text[] IS NULL OR $1::text[] && ARRAY['succeeded', 'cancelled']) AND h.day < 'infinity'
          ORDER BY h.id DESC LIMIT $19::int + 1) x)
      UNION ALL
      (SELECT 4, x.*, {before} FROM (
          SELECT {ended} FROM {schema}.history h
          WHERE ($1::text[] IS NULL OR $1::text[] && ARRAY['failed', 'dead']) AND h.day = 'infinity' {queue_is}
            AND ($11::timestamptz IS NULL OR h.finished_at >= $11::timestamptz)
            AND ($12::timestamptz IS NULL OR h.finished_at < $12::timestamptz)
          ORDER BY {queue_first} h.finished_at DESC LIMIT $19::int + 1) x)) s
GROUP BY s.source, s.state

-- name: count_ids
-- The same by number, for a filter that names jobs or a range of them. $19 is NULL (in the parts it is a place)  $20 what to call the
-- source  $21 the scan.
SELECT $20::int AS source, s.state, count(*) AS scanned, count(*) FILTER (WHERE {match}) AS matches, bool_or(s.before > 67108864) AS cut
FROM ({scan}) s
GROUP BY s.state

-- name: attention
-- Failed and dead jobs in groups of one state, code, kind and queue, among the latest $19 that ended; $20 groups, the largest first.
WITH latest AS MATERIALIZED (
    SELECT s.*, CASE WHEN pg_column_size(s.errors) <= 65536 THEN coalesce(left(s.errors->-1->>'code', 64), '') ELSE '' END AS code
    FROM (SELECT x.*, {before}
          FROM (SELECT {ended} FROM {schema}.history h
                WHERE h.day = 'infinity' {queue_is}
                  AND ($11::timestamptz IS NULL OR h.finished_at >= $11::timestamptz)
                  AND ($12::timestamptz IS NULL OR h.finished_at < $12::timestamptz)
                ORDER BY {queue_first} h.finished_at DESC LIMIT $19::int + 1) x) s
)
SELECT (SELECT count(*) > $19::int OR bool_or(x.before > 67108864) FROM latest x) AS more, s.state, s.code, s.kind, s.queue, count(*) AS n,
       min(s.finished_at) AS first_at, max(s.finished_at) AS last_at, (array_agg(s.id ORDER BY s.finished_at DESC, s.id DESC))[1] AS last_id
FROM latest s WHERE {match}
GROUP BY s.state, s.code, s.kind, s.queue
ORDER BY count(*) DESC, max(s.finished_at) DESC, s.state, s.code, s.kind, s.queue
LIMIT $20::int

-- name: peek
-- $1 id  $2 how many characters  $3 how many of an encoded payload or result, which cannot be decoded in part. One job as read gives it,
-- but of its large columns no more than that, with their sizes.
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

-- name: workers
-- $1 how many. The processes that report themselves. live_workers decides which of them live.
SELECT w.id, w.host, w.pid, w.version, w.started_at, w.seen_at, extract(epoch FROM w.heartbeat_every)::float8 AS every, w.stopping,
       EXISTS (SELECT FROM {schema}.live_workers l WHERE l.id = w.id) AS alive, w.queues::text AS queues, w.kinds::text AS kinds
FROM {schema}.workers w
ORDER BY w.id
LIMIT $1::int;

-- name: why_not_running
-- $1 id. In words; see migrations/sql/0003_seeing.up.sql. They quote the last error as it is stored, which may be large where others wrote it.
SELECT left({schema}.why_not_running($1::bigint), 16384) AS reason;
