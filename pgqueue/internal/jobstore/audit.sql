-- The audit log: what people did. Only record_action writes it.

-- name: record_action
-- $1 actor  $2 via  $3 action  $4 job id[]  $5 queue  $6 kind  $7 subject  $8 filter (json text)  $9 detail
SELECT {schema}.record_action($1::text, $2::text, $3::text, $4::bigint[], $5::text, $6::text, $7::text, $8::text::jsonb, $9::text);

-- name: expire_audit
-- $1 how long to keep, in seconds  $2 batch. Entries that are older; fewer than a batch = done.
SELECT {schema}.expire_audit($1::bigint * interval '1 second', $2::int);

-- name: audit_log
-- $1, $2 the place behind which to go on (time and number; the end of all times for the start)  $3 from  $4 to  $5 actor  $6 role  $7 via
-- $8 action[]  $9 queue  $10 kind  $11 subject  $12 limit  $13 scan  $14 job, if it is one
-- First the places of what is looked at, from one of two indexes and no more than scan; then the rows of those that are wanted, because a
-- row may hold a thousand numbers. Who asks for a job reads {source} by its own index, behind OFFSET 0: the planner takes a job of which it
-- knows nothing for one of many entries, and would walk the whole log by time, sure to meet them soon.
WITH looked AS MATERIALIZED (
    SELECT a.id, a.at,
           ($5::text IS NULL OR a.actor = $5::text) AND ($6::text IS NULL OR a.role = $6::text) AND ($7::text IS NULL OR a.via = $7::text)
           AND ($8::text[] IS NULL OR a.action = ANY ($8::text[])) AND ($9::text IS NULL OR a.queue = $9::text)
           AND ($10::text IS NULL OR a.kind = $10::text) AND ($11::text IS NULL OR a.subject = $11::text) AS wanted
    FROM {source} a
    WHERE (a.at, a.id) < ($1::timestamptz, $2::bigint) AND a.at >= $3::timestamptz AND a.at < $4::timestamptz
    ORDER BY a.at DESC, a.id DESC LIMIT $13::int
), found AS (
    SELECT l.id FROM looked l WHERE l.wanted ORDER BY l.at DESC, l.id DESC LIMIT $12::int
)
SELECT s.scanned, s.last_at, s.last_id, r.id, r.at, r.actor, r.role, r.via, r.action, r.job_ids, r.job_count, r.queue, r.kind, r.subject,
       r.filter::text, r.detail
FROM (SELECT (SELECT count(*) FROM looked) AS scanned, (SELECT l.at FROM looked l ORDER BY l.at, l.id LIMIT 1) AS last_at,
             (SELECT l.id FROM looked l ORDER BY l.at, l.id LIMIT 1) AS last_id) s
     LEFT JOIN (SELECT a.* FROM found f JOIN {schema}.audit a ON a.id = f.id) r ON true
ORDER BY r.at DESC, r.id DESC;
