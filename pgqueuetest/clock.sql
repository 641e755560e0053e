-- What moves the time of one test database. Each statement is sent by NewClock in one transaction, in this order.

-- name: schema
-- The functions have the names of Postgres' own, and stand before pg_catalog in the search path of every session: an unqualified
-- now() means this one. Everybody may read them, whatever role a test connects as.
CREATE SCHEMA pgqueue_clock;

-- name: usage
GRANT USAGE ON SCHEMA pgqueue_clock TO PUBLIC;

-- name: setting
-- How far ahead of the server's clock the test's is. An interval of microseconds: one of days would be 23 hours long at times.
CREATE TABLE pgqueue_clock.setting (one boolean PRIMARY KEY DEFAULT true CHECK (one), ahead interval NOT NULL DEFAULT interval '0 s');

-- name: row
INSERT INTO pgqueue_clock.setting DEFAULT VALUES;

-- name: read
GRANT SELECT ON pgqueue_clock.setting TO PUBLIC;

-- name: function
-- {name} is each of Postgres' four clocks in turn. STABLE, as now() is, so that an index can be searched by it; clock_timestamp is
-- too: within one statement all four are equally far ahead, so that no statement seems to take hours when the clock is moved under it.
CREATE FUNCTION pgqueue_clock.{name}() RETURNS timestamptz LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
BEGIN
    RETURN pg_catalog.{name}() + (SELECT s.ahead FROM pgqueue_clock.setting s);
END $$;

-- name: definitions
-- $1 schema. What the schema's own defaults, views and functions say, as statements that make them once more: they were resolved
-- when they were made, and are resolved anew under the search path of the clock. pg_get_expr and the like write names that the path
-- of the moment finds without their schema, so now() must be found when this is asked: with pg_catalog alone.
SELECT format('ALTER TABLE %s ALTER COLUMN %I SET DEFAULT %s', d.adrelid::regclass, a.attname, pg_get_expr(d.adbin, d.adrelid))
FROM pg_attrdef d
     JOIN pg_class c ON c.oid = d.adrelid
     JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum
WHERE c.relnamespace = $1::text::regnamespace AND a.attgenerated = '' AND pg_get_expr(d.adbin, d.adrelid) ~ '\m(now|[a-z]+_timestamp)\(\)'
UNION ALL
SELECT format('CREATE OR REPLACE VIEW %s %s AS %s', c.oid::regclass,
              (SELECT 'WITH (' || string_agg(o, ', ') || ')' FROM unnest(c.reloptions) o), pg_get_viewdef(c.oid))
FROM pg_class c
WHERE c.relnamespace = $1::text::regnamespace AND c.relkind = 'v' AND pg_get_viewdef(c.oid) ~ '\m(now|[a-z]+_timestamp)\(\)'
UNION ALL
-- A function that has a search path of its own looks names up when it runs.
SELECT format('ALTER ROUTINE %s SET search_path = pgqueue_clock, pg_catalog, pg_temp', p.oid::regprocedure)
FROM pg_proc p
WHERE p.pronamespace = $1::text::regnamespace AND p.prosrc ~ '\m(now|[a-z]+_timestamp)\(\)'
  AND EXISTS (SELECT FROM unnest(p.proconfig) s WHERE s = 'search_path=pg_catalog, pg_temp');

-- name: path
-- The schema comes after those of the session, so that what the test creates goes where it always does, and before pg_catalog.
SELECT format('ALTER DATABASE %I SET search_path = %s', current_database(),
              concat_ws(', ', nullif(current_setting('search_path'), ''), 'pgqueue_clock', 'pg_catalog'));

-- name: hang_up
-- A pooler has opened sessions that know nothing of this, for which the test cannot ask.
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid();

-- name: works
-- Whether this session sees the clock.
SELECT now() - pg_catalog.now() = (SELECT s.ahead FROM pgqueue_clock.setting s) AND to_regproc('now') = 'pgqueue_clock.now'::regproc;

-- name: advance
-- $1 microseconds
UPDATE pgqueue_clock.setting SET ahead = ahead + $1::bigint * interval '1 microsecond';

-- name: set
-- $1 the time. The clock goes on from there.
UPDATE pgqueue_clock.setting
SET ahead = (extract(epoch FROM $1::timestamptz - pg_catalog.clock_timestamp()) * 1000000)::bigint * interval '1 microsecond';

-- name: hint
-- $1 channel. Idle workers sleep until the next job is due by the time that was. The hint comes with the COMMIT that moves the clock.
SELECT count(pg_notify($1::text, q.name)::text) FROM (SELECT name FROM {schema}.queues UNION SELECT queue FROM {schema}.jobs) q;

-- name: now
SELECT pg_catalog.clock_timestamp() + s.ahead FROM pgqueue_clock.setting s;
