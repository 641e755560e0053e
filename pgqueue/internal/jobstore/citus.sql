-- Statements in the form that Citus can plan, instead of those of the same name without citus_. See citus.go and
-- migrations/citus.

-- name: citus_enqueue_one_hint
-- In RETURNING Citus takes nothing volatile, and would run it where the row is. Here the row goes to its shard and the NOTIFY is sent
-- by the coordinator, where the listeners are. (On one Postgres enqueue_one_hint does the same a little faster.)
WITH put AS (
    INSERT INTO {schema}.jobs (queue, kind, payload, metadata, tags, priority, run_at, max_attempts)
    VALUES ($1::text, $2::text, $3::text::jsonb, $4::text::jsonb, $5::text[], $6::smallint,
            coalesce($7::timestamptz, statement_timestamp()) + coalesce($8::bigint, 0) * interval '1 microsecond', $9::smallint)
    RETURNING id
)
SELECT id, pg_notify($10::text, $1::text)::text AS sent FROM put;

-- name: citus_queues
-- $1 bound. Citus plans no recursion over all shards; the function asks each of them.
SELECT n.queue FROM {schema}.queue_names($1::int) n ORDER BY n.queue;
