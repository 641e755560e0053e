-- pgqueue, version 5: the audit log. One table that nothing else refers to, a function that writes it, and one that deletes what is old.
--
-- One file is one transaction; see version 1. Of what is there already nothing is touched.
SET LOCAL search_path = pg_catalog, pg_temp;
SET LOCAL client_min_messages = warning;
SET LOCAL check_function_bodies = on;

-- Names that are taken already; see versions 1 and 2.
DO {tag}
DECLARE
    taken text;
BEGIN
    SELECT x.what INTO taken
    FROM pg_namespace n
         CROSS JOIN LATERAL (
            SELECT 'relation ' || quote_ident(c.relname) AS what
            FROM pg_class c
            WHERE c.relnamespace = n.oid
              AND c.relname = ANY (ARRAY['audit', 'audit_pkey', 'audit_at', 'audit_job_ids', 'audit_id_seq'])
            UNION ALL
            SELECT 'type ' || quote_ident(t.typname)
            FROM pg_type t
            WHERE t.typnamespace = n.oid AND t.typrelid = 0 AND t.typname = ANY (ARRAY['audit'])
            UNION ALL
            SELECT 'function ' || quote_ident(p.proname)
            FROM pg_proc p
            WHERE p.pronamespace = n.oid AND p.proname = ANY (ARRAY['record_action', 'expire_audit'])
         ) x
    WHERE n.nspname = {schema_literal}
    ORDER BY x.what
    LIMIT 1;

    IF taken IS NOT NULL THEN
        RAISE EXCEPTION USING
            ERRCODE = 'duplicate_object',
            MESSAGE = format('pgqueue cannot be installed in schema %I: %s already exists there', {schema_literal}, taken),
            HINT    = 'Choose another schema, or rename what is in the way.';
    END IF;
END {tag};

-- ================================================================================================================== audit ====

-- What people did with the command line and the console. It is apart from jobs, without a foreign key: an entry outlives its jobs, and
-- that is its purpose. No payload is in it.
--
-- Nobody but the owner has a right on it beside reading. record_action writes, and neither changes nor deletes; expire_audit deletes, but
-- nothing that is younger than a week.
CREATE TABLE {schema}.audit (
    id        bigint      GENERATED ALWAYS AS IDENTITY,
    at        timestamptz NOT NULL DEFAULT statement_timestamp(),
    job_count int         NOT NULL DEFAULT 0,
    role      text        NOT NULL,
    action    text        NOT NULL,
    actor     text,
    via       text,
    queue     text,
    kind      text,
    subject   text,
    detail    text,
    filter    jsonb,
    job_ids   bigint[]    NOT NULL DEFAULT '{}',
    CONSTRAINT audit_pkey PRIMARY KEY (id),
    CONSTRAINT audit_job_count_check CHECK (job_count >= cardinality(job_ids)),
    CONSTRAINT audit_job_ids_check   CHECK (cardinality(job_ids) <= 1000)
);
-- People read it from the end and it leaves from the beginning, both by time.
CREATE INDEX audit_at ON {schema}.audit (at, id);
-- What was done to one job: the question of each page about a job. An entry costs as many index entries as it has jobs; that is little
-- beside what it took to act on them, and fastupdate collects them first.
CREATE INDEX audit_job_ids ON {schema}.audit USING gin (job_ids);

COMMENT ON TABLE {schema}.audit IS
    'pgqueue: what people did with the command line and the console, and who. Written by record_action alone; no payload is in it. What somebody does in SQL without it is not here.';
COMMENT ON SEQUENCE {schema}.audit_id_seq IS 'pgqueue: numbers of entries.';
COMMENT ON INDEX {schema}.audit_pkey IS 'pgqueue: one entry.';
COMMENT ON INDEX {schema}.audit_at IS 'pgqueue: entries by time, for people and for expire_audit.';
COMMENT ON INDEX {schema}.audit_job_ids IS 'pgqueue: what was done to one job: job_ids @> ARRAY[17].';
COMMENT ON COLUMN {schema}.audit.id IS 'Number of the entry.';
COMMENT ON COLUMN {schema}.audit.at IS 'When, by the database clock.';
COMMENT ON COLUMN {schema}.audit.job_count IS 'How many jobs it was done to.';
COMMENT ON COLUMN {schema}.audit.role IS 'The role that was connected (session_user), as Postgres knows it.';
COMMENT ON COLUMN {schema}.audit.action IS 'What was done: retry, cancel, delete, pause, enqueue and so on.';
COMMENT ON COLUMN {schema}.audit.actor IS 'In whose name, as the tool said: a user of the console, say. Postgres knows nothing of it.';
COMMENT ON COLUMN {schema}.audit.via IS 'With which tool: cli, console.';
COMMENT ON COLUMN {schema}.audit.queue IS 'The queue that it was done to, if it was one.';
COMMENT ON COLUMN {schema}.audit.kind IS 'The kind that was paused or resumed.';
COMMENT ON COLUMN {schema}.audit.subject IS 'What else it was done to: the name of a schedule.';
COMMENT ON COLUMN {schema}.audit.detail IS 'More, where there is more to say: a number, a reason.';
COMMENT ON COLUMN {schema}.audit.filter IS 'What a bulk action was asked to act on. Of a payload only that one was asked for.';
COMMENT ON COLUMN {schema}.audit.job_ids IS 'The jobs, 1,000 at most.';
REVOKE ALL ON {schema}.audit FROM PUBLIC;

-- It runs with the owner's rights, so that who acts needs no right on the table, and can neither change what is there nor write in the name
-- of another database role: session_user is who connected, whatever SET ROLE and this function have made of current_user.
--
-- Text that is too long is cut, and jobs that are too many are counted and not named: an entry that says less is better than an action that
-- fails for its reason's length. Empty texts are NULL. search_path holds nothing of the caller.
CREATE FUNCTION {schema}.record_action(
    actor   text,
    via     text,
    action  text,
    job_ids bigint[] DEFAULT NULL,
    queue   text     DEFAULT NULL,
    kind    text     DEFAULT NULL,
    subject text     DEFAULT NULL,
    filter  jsonb    DEFAULT NULL,
    detail  text     DEFAULT NULL
) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS {tag}
#variable_conflict use_column
DECLARE
    jobs   bigint[];
    number bigint;
BEGIN
    IF coalesce(record_action.action, '') = '' THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'action',
            MESSAGE = 'record_action: action must not be empty';
    END IF;
    IF array_ndims(record_action.job_ids) > 1 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'job_ids',
            MESSAGE = 'record_action: job_ids must have one dimension';
    END IF;
    IF jsonb_typeof(record_action.filter) <> 'object' OR octet_length(record_action.filter::text) > 32768 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'filter',
            MESSAGE = 'record_action: filter must be a JSON object of at most 32 kB';
    END IF;

    jobs := array_remove(coalesce(record_action.job_ids, '{}'), NULL);
    INSERT INTO {schema}.audit AS a (job_count, role, action, actor, via, queue, kind, subject, detail, filter, job_ids)
    VALUES (cardinality(jobs), session_user, left(record_action.action, 128), left(nullif(record_action.actor, ''), 255),
            left(nullif(record_action.via, ''), 128), left(nullif(record_action.queue, ''), 128), left(nullif(record_action.kind, ''), 128),
            left(nullif(record_action.subject, ''), 512), left(nullif(record_action.detail, ''), 1024), record_action.filter,
            (ARRAY (SELECT j.id FROM unnest(jobs) WITH ORDINALITY AS j (id, ord) ORDER BY j.ord LIMIT 1000)))
    RETURNING a.id INTO number;
    RETURN number;
END {tag};
COMMENT ON FUNCTION {schema}.record_action(text, text, text, bigint[], text, text, text, jsonb, text) IS
    'pgqueue: writes an entry of the audit log, with session_user as the role; returns its number. For tools: it does nothing of what it records.';
REVOKE ALL ON FUNCTION {schema}.record_action(text, text, text, bigint[], text, text, text, jsonb, text) FROM PUBLIC;

-- Workers call it, with the owner's rights, so it must not be a way to be rid of an entry that somebody may still look for: what is younger
-- than a week stays, whatever keep says. SKIP LOCKED and the batch, as in expire_attention.
CREATE FUNCTION {schema}.expire_audit(keep interval, batch int DEFAULT 1000) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan SET enable_seqscan = off AS {tag}
DECLARE
    before timestamptz := now() - keep;
    gone   int;
BEGIN
    IF keep IS NULL OR before > now() - interval '7 days' THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'keep',
            MESSAGE = format('expire_audit: keep must be at least 7 days, but is %s', coalesce(keep::text, 'NULL')),
            HINT    = 'The owner of the table may DELETE.';
    END IF;
    IF batch IS NULL OR batch NOT BETWEEN 1 AND 100000 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'batch',
            MESSAGE = format('expire_audit: batch must be between 1 and 100000, not %s', coalesce(batch::text, 'NULL'));
    END IF;

    DELETE FROM {schema}.audit x
    WHERE x.id = ANY (ARRAY (
        SELECT a.id
        FROM {schema}.audit a
        WHERE a.at < before
        ORDER BY a.at, a.id
        LIMIT batch
        FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS gone = ROW_COUNT;
    RETURN gone;
END {tag};
COMMENT ON FUNCTION {schema}.expire_audit(interval, int) IS
    'pgqueue: deletes at most batch entries of the audit log that are older than keep, which must be at least 7 days, the oldest first; returns how many. Fewer than batch = done.';
REVOKE ALL ON FUNCTION {schema}.expire_audit(interval, int) FROM PUBLIC;
