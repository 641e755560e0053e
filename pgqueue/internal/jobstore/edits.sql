-- What people change about single jobs and about pauses. As in control.sql the functions of the schema do the work; see
-- migrations/sql/0004_time.up.sql.

-- name: pause_until
-- $1 queue  $2 until  $3 reason ('' = none)
SELECT {schema}.pause_until($1::text, $2::timestamptz, $3::text)::text AS ends;

-- name: pause_kind
-- $1 kind  $2 queue ('' = all)  $3 until (NULL = until resume_kind)  $4 reason ('' = none)
SELECT {schema}.pause_kind($1::text, $2::text, $3::timestamptz, $4::text)::text AS ends;

-- name: resume_kind
-- $1 kind  $2 queue ('' = all)
SELECT {schema}.resume_kind($1::text, $2::text)::text AS resumed;

-- name: paused_kinds
-- $1 bound. What is paused now; what has ended and was not cleared yet is not.
SELECT p.kind, p.queue, p.paused_at, p.paused_until, p.reason
FROM {schema}.paused_kinds p
WHERE coalesce(p.paused_until, 'infinity') > statement_timestamp()
ORDER BY p.kind, p.queue LIMIT $1::int;

-- name: reschedule
-- $1 id  $2 run_at (NULL = now)
SELECT {schema}.reschedule($1::bigint, $2::timestamptz) AS outcome;

-- name: set_priority
-- $1 id  $2 priority
SELECT {schema}.set_priority($1::bigint, $2::int) AS state;

-- name: edit_payload
-- $1 id  $2 payload  $3 generation that it must have (NULL = any)
SELECT {schema}.edit_payload($1::bigint, $2::text::jsonb, $3::int) AS outcome;

-- name: retry_with
-- $1 id  $2 payload  $3 generation that it must have (NULL = any)
SELECT r.outcome, r.other_id FROM {schema}.retry_with($1::bigint, $2::text::jsonb, $3::int) r;

-- name: reschedule_many
-- $1 id[]  $2 attempt[]  $3 generation[], in the order in which to touch them  $4 run_at (NULL = now)  $5 µs over which they are spread. One
-- that was claimed or replaced since it was found is left out. Not one now() for each, which a long batch would not notice, but for all.
SELECT f.id, {schema}.reschedule(f.id, greatest($4::timestamptz, statement_timestamp()) + random() * $5::bigint * interval '1 microsecond') AS outcome,
       NULL::bigint AS other_id
FROM unnest($1::bigint[], $2::int[], $3::int[]) WITH ORDINALITY f(id, attempt, generation, ord)
     CROSS JOIN LATERAL (SELECT FROM {schema}.jobs j WHERE j.id = f.id AND j.attempt = f.attempt AND j.generation = f.generation LIMIT 1) j;

-- name: set_priority_many
-- $1 id[]  $2 attempt[]  $3 generation[], as above  $4 priority. Those of history count, too.
SELECT f.id, CASE {schema}.set_priority(f.id, $4::int) WHEN 'not_found' THEN 'not_found' ELSE 'set' END AS outcome, NULL::bigint AS other_id
FROM unnest($1::bigint[], $2::int[], $3::int[]) WITH ORDINALITY f(id, attempt, generation, ord)
     CROSS JOIN LATERAL (
        SELECT FROM (SELECT j.attempt, j.generation FROM {schema}.jobs j WHERE j.id = f.id
                     UNION ALL
                     SELECT h.attempt, h.generation FROM {schema}.history h WHERE h.id = f.id AND h.day = 'infinity') v
        WHERE v.attempt = f.attempt AND v.generation = f.generation LIMIT 1) v;

-- name: spread
-- $1 id[]  $2 µs. Behind retry_many, in its transaction: nobody has seen the jobs yet, and they become due over a while instead of at once.
SELECT f.id, {schema}.reschedule(f.id, statement_timestamp() + random() * $2::bigint * interval '1 microsecond') AS outcome
FROM unnest($1::bigint[]) f(id);

-- name: may_read
-- $1 schema. Whether the role may read where jobs are: "yes" or "no". A statement that it may not run would abort the transaction that it
-- is sent in, and operators have no right on any table.
SELECT CASE WHEN coalesce(bool_and(has_table_privilege(c.oid, 'SELECT')), false) THEN 'yes' ELSE 'no' END
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = $1::text AND c.relname IN ('jobs', 'history');
