-- pgqueue, version 3, down. No CASCADE: what others have built upon the views makes this fail and is named in the error.
SET LOCAL search_path = pg_catalog, pg_temp;
SET LOCAL client_min_messages = warning;

DROP FUNCTION {schema}.why_not_running(bigint);
DROP FUNCTION {schema}.how_it_ended(bigint);
DROP FUNCTION {schema}.why_no_worker(text, text, timestamptz);
DROP FUNCTION {schema}.table_lockers_in_words(regclass);
DROP FUNCTION {schema}.lockers_in_words(xid, regclass, boolean);
DROP FUNCTION {schema}.sessions_in_words(int[], xid[]);
DROP FUNCTION {schema}.query_in_words(text);
DROP FUNCTION {schema}.in_words(timestamptz);
DROP FUNCTION {schema}.in_words(interval);
DROP VIEW {schema}.attempts;
DROP VIEW {schema}.job_log;
DROP VIEW {schema}.needs_attention;
DROP VIEW {schema}.stuck_jobs;
DROP VIEW {schema}.active_jobs;
DROP VIEW {schema}.queue_stats;
DROP FUNCTION {schema}.cached_stats(interval);
DROP TABLE {schema}.stats_cache;
DROP FUNCTION {schema}.count_queues(text[], int);
DROP FUNCTION {schema}.queue_names(int);
DROP VIEW {schema}.live_workers;
DROP FUNCTION {schema}.goodbye(text);
DROP FUNCTION {schema}.heartbeat(text, text, int, text, timestamptz, interval, boolean, jsonb, jsonb);
DROP TABLE {schema}.workers;

-- The bodies of version 1.
CREATE OR REPLACE FUNCTION {schema}.expire_attention(keep interval, batch int DEFAULT 1000) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS {tag}
DECLARE
    gone int;
BEGIN
    IF keep IS NULL OR keep < interval '0' THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'keep',
            MESSAGE = format('expire_attention: keep must not be negative, but is %s', coalesce(keep::text, 'NULL'));
    END IF;
    IF batch IS NULL OR batch NOT BETWEEN 1 AND 100000 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'batch',
            MESSAGE = format('expire_attention: batch must be between 1 and 100000, not %s', coalesce(batch::text, 'NULL'));
    END IF;

    DELETE FROM {schema}.history_attention x
    WHERE x.day = 'infinity' AND x.id = ANY (ARRAY (
        SELECT a.id
        FROM {schema}.history_attention a
        WHERE a.finished_at < now() - keep
        ORDER BY a.finished_at
        LIMIT batch
        FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS gone = ROW_COUNT;
    RETURN gone;
END {tag};

CREATE OR REPLACE FUNCTION {schema}.drop_history(keep interval) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '50ms' AS {tag}
DECLARE
    cutoff date;
    t      text;
BEGIN
    IF keep IS NULL OR keep < interval '0' THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'keep',
            MESSAGE = format('drop_history: keep must not be negative, but is %s', coalesce(keep::text, 'NULL'));
    END IF;
    -- The first day that stays. Never before 1970, where the digits of a year would no longer sort.
    cutoff := greatest(((now() - keep) AT TIME ZONE 'UTC')::date, date '1970-01-01');

    -- By name, and as text: a foreign partition whose name only looks like a date must not make the cast fail.
    SELECT c.relname INTO t
    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = format('%I.history', {schema_literal})::regclass AND c.relname ~ '^history_[0-9]{8}$'
      AND right(c.relname, 8) COLLATE "C" < to_char(cutoff, 'YYYYMMDD') COLLATE "C"
    ORDER BY c.relname
    LIMIT 1;
    IF t IS NULL THEN
        RETURN '';
    END IF;

    BEGIN
        EXECUTE format('DROP TABLE %I.%I', {schema_literal}, t);
    EXCEPTION
        -- Busy, or another process dropped it while we waited for its lock.
        WHEN lock_not_available OR undefined_table THEN
            RETURN NULL;
    END;
    RETURN t;
END {tag};
