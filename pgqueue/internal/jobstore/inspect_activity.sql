-- What has happened lately: which jobs ended, how fast, and how long they had waited and run. Sent behind by_index; only reads, and works
-- on a standby.
--
-- No index knows when a success ended: it would be paid for by every job. But the partition of a day is written from its first page to its
-- last, as jobs end, and nothing is taken from it before all of it is dropped. So its last pages hold what ended last, whatever
-- the numbers of these jobs are: a backlog of yesterday, drained now, is seen, which the highest numbers would not show.

-- name: activity
-- $1 window in seconds  $2 pages a partition  $3 failed and dead jobs looked at  $4 buckets  $5 queues  $6 beginning of the names of
-- partitions, quoted. One row for all together (total), and one for each queue, the busiest first.
WITH clock AS MATERIALIZED (
    SELECT statement_timestamp() AS until, statement_timestamp() - $1::float8 * interval '1 s' AS opens,
           (statement_timestamp() AT TIME ZONE 'UTC')::date AS today
),
pages AS MATERIALIZED ({pages}),
tail AS MATERIALIZED ({tail}),
-- Failed and dead jobs have their own index by the time of their end.
bad AS MATERIALIZED (
    SELECT h.queue, h.state, h.run_at, h.claimed_at, h.finished_at
    FROM {schema}.history h
    WHERE h.day = 'infinity' AND h.finished_at >= (SELECT c.opens FROM clock c)
    ORDER BY h.finished_at DESC LIMIT $3::int + 1
),
-- Where not all of the window was looked at, the numbers are of the part that was. A row may stand a little out of line (writers extend a
-- table side by side), so the earliest of the pages says little, and the earliest but for a twentieth enough.
reach AS MATERIALIZED (
    SELECT greatest(c.opens,
               CASE WHEN {tail_cut} THEN (SELECT percentile_disc(0.05) WITHIN GROUP (ORDER BY t.finished_at) FROM tail t WHERE t.part = (SELECT max(x.part) FROM tail x)) END,
               CASE WHEN (SELECT count(*) > $3::int FROM bad) THEN (SELECT min(b.finished_at) FROM bad b) END) AS since,
           c.opens, c.until
    FROM clock c
),
span AS MATERIALIZED (
    SELECT least(r.since, r.until - interval '1 s') AS since, r.until, r.since > r.opens AS more,
           extract(epoch FROM least(r.since, r.until - interval '1 s'))::float8 AS low, extract(epoch FROM r.until)::float8 AS high
    FROM reach r
),
-- Times are subtracted only where they are finite: before Postgres 17 infinity minus anything is an error. A claim before the due time is
-- one that the reaper had taken back when its success came.
ended AS MATERIALIZED (
    SELECT e.queue, e.state,
           CASE WHEN isfinite(e.run_at) AND isfinite(e.claimed_at) THEN greatest(0, extract(epoch FROM e.claimed_at - e.run_at)::float8) END AS wait,
           CASE WHEN isfinite(e.claimed_at) THEN greatest(0, extract(epoch FROM e.finished_at - e.claimed_at)::float8) END AS run,
           least($4::int, greatest(1, width_bucket(extract(epoch FROM e.finished_at)::float8, s.low, s.high, $4::int))) AS bucket
    FROM (SELECT t.queue, t.state, t.run_at, t.claimed_at, t.finished_at FROM tail t
          UNION ALL
          SELECT b.queue, b.state, b.run_at, b.claimed_at, b.finished_at FROM bad b) e, span s
    WHERE e.finished_at >= s.since AND isfinite(e.finished_at)
),
series AS MATERIALIZED (
    SELECT grouping(b.queue) = 1 AS total, b.queue, array_agg(b.bucket ORDER BY b.bucket) AS buckets,
           array_agg(b.good ORDER BY b.bucket) AS good, array_agg(b.bad ORDER BY b.bucket) AS bad
    FROM (SELECT e.queue, e.bucket, count(*) FILTER (WHERE e.state IN ('succeeded', 'cancelled')) AS good,
                 count(*) FILTER (WHERE e.state IN ('failed', 'dead')) AS bad
          FROM ended e GROUP BY e.queue, e.bucket) b
    GROUP BY GROUPING SETS ((b.queue), ())
),
numbers AS MATERIALIZED (
    SELECT grouping(e.queue) = 1 AS total, e.queue, count(*) AS n,
           count(*) FILTER (WHERE e.state = 'succeeded') AS succeeded, count(*) FILTER (WHERE e.state = 'failed') AS failed,
           count(*) FILTER (WHERE e.state = 'dead') AS dead, count(*) FILTER (WHERE e.state = 'cancelled') AS cancelled,
           percentile_disc(ARRAY[0.5, 0.95]) WITHIN GROUP (ORDER BY e.wait) AS wait, max(e.wait) AS longest_wait,
           percentile_disc(ARRAY[0.5, 0.95]) WITHIN GROUP (ORDER BY e.run) AS run, max(e.run) AS longest_run
    FROM ended e GROUP BY GROUPING SETS ((e.queue), ())
)
SELECT s.since, s.until, s.more, {holes} AS holes, n.total, coalesce(n.queue, '') AS queue, n.succeeded, n.failed, n.dead, n.cancelled,
       n.wait, n.longest_wait, n.run, n.longest_run, x.buckets, x.good, x.bad
FROM span s CROSS JOIN numbers n LEFT JOIN series x ON x.total = n.total AND x.queue IS NOT DISTINCT FROM n.queue
ORDER BY n.total DESC, n.n DESC, n.queue
LIMIT $5::int + 1;

-- name: part_activity_pages
-- From which page on the partitions of today and yesterday are read, and whether much has been deleted from them. Then new rows fill
-- the holes, the last pages are not the latest, and the numbers of jobs say more.
SELECT d.back, greatest(0, z.pages - $2::int) AS first, ('(' || greatest(0, z.pages - $2::int) || ',0)')::tid AS start,
       coalesce(pg_stat_get_tuples_deleted(z.oid) > 1000, false) AS holes
FROM clock c
     CROSS JOIN (VALUES (0), (1)) d(back)
     CROSS JOIN LATERAL (SELECT to_regclass($6::text || to_char(c.today - d.back, 'YYYYMMDD')) AS oid OFFSET 0) p
     CROSS JOIN LATERAL (SELECT p.oid, pg_relation_size(p.oid) / current_setting('block_size')::int AS pages OFFSET 0) z

-- name: part_activity_tail
-- A TID range scan (Postgres 14) of the last pages. Yesterday's are read only if the window reaches there and today's were not too many.
SELECT 0 AS part, h.queue, h.state, h.run_at, h.claimed_at, h.finished_at
FROM {schema}.history h
WHERE h.day = (statement_timestamp() AT TIME ZONE 'UTC')::date AND h.ctid >= (SELECT p.start FROM pages p WHERE p.back = 0)
UNION ALL
SELECT 1, h.queue, h.state, h.run_at, h.claimed_at, h.finished_at
FROM {schema}.history h
WHERE h.day = (statement_timestamp() AT TIME ZONE 'UTC')::date - 1
  AND h.ctid >= (SELECT y.start FROM pages y, pages t, clock c
                 WHERE y.back = 1 AND t.back = 0 AND coalesce(t.first, 0) = 0 AND c.opens < c.today::timestamp AT TIME ZONE 'UTC')

-- name: part_activity_tail_cut
coalesce((SELECT p.first FROM pages p WHERE p.back = (SELECT max(t.part) FROM tail t)), 0) > 0

-- name: part_activity_holes
(SELECT bool_or(p.holes) FROM pages p)

-- name: part_activity_no_pages
-- The form by number: for partitions out of which much was deleted, and for Citus, where the pages are elsewhere.
SELECT $2::int AS pages, $6::text AS names

-- name: part_activity_latest
SELECT 0 AS part, h.queue, h.state, h.run_at, h.claimed_at, h.finished_at
FROM {schema}.history h
WHERE h.day >= ((statement_timestamp() - $1::float8 * interval '1 s') AT TIME ZONE 'UTC')::date AND h.day < 'infinity'
ORDER BY h.id DESC LIMIT $3::int + 1

-- name: part_activity_latest_cut
(SELECT count(*) > $3::int FROM tail)
