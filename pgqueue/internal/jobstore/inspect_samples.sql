-- What attempts took, for the page about performance: up to a million rows, sent one after the other as the server reads them and
-- kept nowhere. Sent behind by_index; only reads, and works on a standby.
--
-- Cost: a row takes the server and the wire 2 to 3 µs, so a million take some seconds of one connection. Neither payloads nor results
-- are touched, and errors only of jobs that had some.

-- name: sample_days
-- $1 the table history. The days that it has partitions for, the latest first, as far as there can be anything in them, with their size
-- in pages, and whether much has been deleted (inspect_activity.sql says why that matters).
SELECT to_date(right(c.relname, 8), 'YYYYMMDD') AS day,
       (pg_relation_size(c.oid) / current_setting('block_size')::bigint)::bigint AS pages,
       coalesce(pg_stat_get_tuples_deleted(c.oid) > 1000, false) AS holes
FROM pg_catalog.pg_inherits i JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent = to_regclass($1::text) AND c.relname ~ '^history_[0-9]+$' AND length(c.relname) = 16
  AND right(c.relname, 8) <= to_char((statement_timestamp() AT TIME ZONE 'UTC')::date, 'YYYYMMDD')
ORDER BY right(c.relname, 8) DESC;

-- name: samples_of_pages
-- $1 day  $2 queue  $3 kind  $4 not before  $5 first place  $6 place behind the last one  $7 rows to send. What succeeded or was cancelled on that
-- day, in a range of the partition's pages (TID range scan, Postgres 14). A partition is written as jobs end, so the last pages hold
-- the latest, whatever their numbers are: the caller walks from the end to the beginning. No index knows when a success ended. What is sorted
-- here is what a few pages hold.
SELECT 0::bigint AS n, true AS matches, h.finished_at, h.claimed_at, h.run_at, h.state, h.queue, h.kind, h.attempt,
       CASE WHEN h.error_count > 0 AND pg_column_size(h.errors) <= 65536 THEN h.errors::text END AS errors
FROM {schema}.history h
WHERE h.day = $1::date AND h.ctid >= $5::tid AND h.ctid < $6::tid
  AND ($2::text IS NULL OR h.queue = $2::text) AND ($3::text IS NULL OR h.kind = $3::text)
  AND ($4::timestamptz IS NULL OR h.finished_at >= $4::timestamptz)
ORDER BY h.finished_at DESC LIMIT $7::bigint;

-- name: samples_reach
-- $1 day  $2 not before  $3 first place  $4 place behind the last one. Whether anything in these pages ended so late: where a filter leaves
-- nothing of them, that decides whether the pages before them are worth a look.
SELECT EXISTS (SELECT FROM {schema}.history h
               WHERE h.day = $1::date AND h.ctid >= $3::tid AND h.ctid < $4::tid AND h.finished_at >= $2::timestamptz);

-- name: samples_of_day
-- $1 day  $2 queue  $3 kind  $4 not before  $5 rows to look at  $6 rows to send. The same by number, the latest
-- first, for partitions out of which much was deleted, and for Citus, where the pages are elsewhere: the primary key backwards. Every 10,000th row is sent whether it matches or not: it tells how far this is, where little matches.
SELECT s.n, s.matches, s.finished_at, s.claimed_at, s.run_at, s.state, s.queue, s.kind, s.attempt, s.errors
FROM (SELECT row_number() OVER (ORDER BY h.id DESC) AS n,
             ($2::text IS NULL OR h.queue = $2::text) AND ($3::text IS NULL OR h.kind = $3::text)
             AND ($4::timestamptz IS NULL OR h.finished_at >= $4::timestamptz) AS matches,
             h.finished_at, h.claimed_at, h.run_at, h.state, h.queue, h.kind, h.attempt,
             CASE WHEN h.error_count > 0 AND pg_column_size(h.errors) <= 65536 THEN h.errors::text END AS errors
      FROM {schema}.history h
      WHERE h.day = $1::date
      ORDER BY h.id DESC LIMIT $5::bigint) s
WHERE s.matches OR s.n % 10000 = 0
LIMIT $6::bigint;

-- name: samples_of_attention
-- Arguments as above, with 'infinity' for the day. What failed or died, the latest first, by the index on the time of the end. {queue_is}
-- and {queue_first} name the queue, see by_finished.
SELECT s.n, s.matches, s.finished_at, s.claimed_at, s.run_at, s.state, s.queue, s.kind, s.attempt, s.errors
FROM (SELECT row_number() OVER (ORDER BY {queue_first} h.finished_at DESC) AS n, ($3::text IS NULL OR h.kind = $3::text) AS matches,
             h.finished_at, h.claimed_at, h.run_at, h.state, h.queue, h.kind, h.attempt,
             CASE WHEN h.error_count > 0 AND pg_column_size(h.errors) <= 65536 THEN h.errors::text END AS errors
      FROM {schema}.history h
      WHERE h.day = $1::date {queue_is} AND h.finished_at >= coalesce($4::timestamptz, '-infinity')
      ORDER BY {queue_first} h.finished_at DESC LIMIT $5::bigint) s
WHERE s.matches OR s.n % 10000 = 0
LIMIT $6::bigint;

-- name: count_attention
-- $1 not before  $2 queue  $3 bound. How many rows the statement above would look at, no further than the bound.
SELECT count(*)::int
FROM (SELECT FROM {schema}.history h
      WHERE h.day = 'infinity' {queue_is} AND h.finished_at >= coalesce($1::timestamptz, '-infinity')
      ORDER BY {queue_first} h.finished_at DESC LIMIT $3::bigint) s;
