-- pgqueue, version 1, down: removes all that version 1 made, partitions included, with every job in it. The schema itself stays: grants
-- and objects of others may live in it.
--
-- No CASCADE: what others have built upon our tables (a view, a foreign key) makes this fail and is named in the error. One
-- transaction, as in the other direction.
SET LOCAL search_path = pg_catalog, pg_temp;
SET LOCAL client_min_messages = warning;

-- Jobs first, as a worker does: it locks jobs, then history.
DROP TABLE {schema}.jobs;
-- With all of its attached partitions.
DROP TABLE {schema}.history;
DROP TABLE {schema}.queues;

-- Partitions that somebody detached are plain tables now; our comment tells them from tables of others.
DO {tag}
DECLARE
    t text;
BEGIN
    FOR t IN
        SELECT c.relname
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = {schema_literal} AND c.relkind = 'r' AND c.relname ~ '^history_[0-9]{8}$'
          AND obj_description(c.oid, 'pg_class') LIKE 'pgqueue: %'
    LOOP
        EXECUTE format('DROP TABLE %I.%I', {schema_literal}, t);
    END LOOP;
END {tag};

DROP FUNCTION {schema}.enqueue(text, jsonb, text, text, text, timestamptz, int, int, text[], jsonb, text);
DROP FUNCTION {schema}.expire_attention(interval, int);
DROP FUNCTION {schema}.drop_history(interval);
DROP FUNCTION {schema}.ensure_history(int);
