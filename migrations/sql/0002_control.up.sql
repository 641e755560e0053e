-- pgqueue, version 2: what people do to jobs and queues: pause, resume, retry, cancel, set_max_attempts.
--
-- One file is one transaction; see version 1.
SET LOCAL search_path = pg_catalog, pg_temp;
SET LOCAL client_min_messages = warning;
SET LOCAL check_function_bodies = on;

-- Names that are taken already: a function of the same name with other arguments would make every call ambiguous.
DO {tag}
DECLARE
    taken text;
BEGIN
    SELECT 'function ' || quote_ident(p.proname) INTO taken
    FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
    WHERE n.nspname = {schema_literal}
      AND p.proname = ANY (ARRAY['pause', 'resume', 'retry', 'cancel', 'set_max_attempts'])
    ORDER BY 1
    LIMIT 1;

    IF taken IS NOT NULL THEN
        RAISE EXCEPTION USING
            ERRCODE = 'duplicate_object',
            MESSAGE = format('pgqueue cannot be installed in schema %I: %s already exists there', {schema_literal}, taken),
            HINT    = 'Choose another schema, or rename what is in the way.';
    END IF;
END {tag};

-- All functions here run with the owner's rights and are nobody's until they are granted, so that a role may be allowed to pause and to
-- retry without a right on any table. Go calls the same functions: there is one way to do each thing.
--
-- A session that is kept open would keep the plans of the first calls, and those may come from an empty table: hence
-- force_custom_plan where jobs are looked up.

-- ----------------------------------------------------------------------------------------------------------------- pause, resume ----

-- The hint wakes idle workers, whose next claim learns of the pause. It is a courtesy: the claim asks the table, and so does every
-- worker's probe, so a lost hint delays a pause by one poll and no more.
CREATE FUNCTION {schema}.pause(queue text, reason text DEFAULT NULL) RETURNS timestamptz
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS {tag}
#variable_conflict use_column
DECLARE
    since timestamptz;
BEGIN
    IF pause.queue IS NULL OR octet_length(pause.queue) NOT BETWEEN 1 AND 128 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'queue',
            MESSAGE = 'pause: queue must have 1 to 128 bytes';
    END IF;
    IF octet_length(pause.reason) > 1024 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'reason',
            MESSAGE = format('pause: reason is too long: %s bytes where 1024 are allowed', octet_length(pause.reason));
    END IF;

    INSERT INTO {schema}.queues AS q (name, paused_at, paused_reason)
    VALUES (pause.queue, statement_timestamp(), nullif(pause.reason, ''))
    ON CONFLICT (name) DO UPDATE SET
        paused_at = coalesce(q.paused_at, excluded.paused_at), paused_reason = excluded.paused_reason, updated_at = statement_timestamp()
    RETURNING q.paused_at INTO since;
    PERFORM pg_notify({channel_literal}, pause.queue);
    RETURN since;
END {tag};

COMMENT ON FUNCTION {schema}.pause(text, text) IS
    'pgqueue: pauses a queue for every worker, until resume; what is running goes on. Returns since when it is paused; a queue that is paused already keeps that time and gets the new reason. A queue that nobody has used yet may be paused.';
REVOKE ALL ON FUNCTION {schema}.pause(text, text) FROM PUBLIC;

CREATE FUNCTION {schema}.resume(queue text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS {tag}
#variable_conflict use_column
BEGIN
    IF resume.queue IS NULL OR octet_length(resume.queue) NOT BETWEEN 1 AND 128 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'queue',
            MESSAGE = 'resume: queue must have 1 to 128 bytes';
    END IF;

    UPDATE {schema}.queues q SET paused_at = NULL, paused_reason = NULL, updated_at = statement_timestamp()
    WHERE q.name = resume.queue AND q.paused_at IS NOT NULL;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM pg_notify({channel_literal}, resume.queue);
    RETURN true;
END {tag};

COMMENT ON FUNCTION {schema}.resume(text) IS
    'pgqueue: ends the pause of a queue and wakes its workers; returns whether it was paused.';
REVOKE ALL ON FUNCTION {schema}.resume(text) FROM PUBLIC;

-- ------------------------------------------------------------------------------------------------------------------------- retry ----

-- attempt goes on from where it was and claimed_at is NULL: a late report of the old attempt finds nothing. A live job of the same key
-- wins: then nothing moves and nothing is lost.
CREATE FUNCTION {schema}.retry(id bigint, OUT outcome text, OUT other_id bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan AS {tag}
#variable_conflict use_column
DECLARE
    old {schema}.history%ROWTYPE;
BEGIN
    SELECT * INTO old FROM {schema}.history h WHERE h.id = retry.id AND h.day = 'infinity' FOR UPDATE;
    IF NOT FOUND THEN
        outcome := CASE WHEN EXISTS (SELECT FROM {schema}.jobs j WHERE j.id = retry.id) THEN 'live' ELSE 'not_found' END;
        RETURN;
    END IF;

    -- More than one round only where the other job ended between two statements.
    FOR round IN 1 .. 100 LOOP
        INSERT INTO {schema}.jobs (id, run_at, created_at, attempt, generation, claimed_generation, error_count, priority, failures,
            max_attempts, queue, kind, key, revision, payload, metadata, tags, errors)
        VALUES (old.id, statement_timestamp(), old.created_at, old.attempt, old.generation, old.generation, old.error_count, old.priority, 0,
            old.max_attempts, old.queue, old.kind, old.key, old.revision, old.payload, old.metadata, old.tags, old.errors)
        ON CONFLICT DO NOTHING;
        IF FOUND THEN
            DELETE FROM {schema}.history h WHERE h.id = old.id AND h.day = 'infinity';
            PERFORM pg_notify({channel_literal}, old.queue);
            outcome := 'retried';
            RETURN;
        END IF;

        SELECT j.id INTO other_id FROM {schema}.jobs j WHERE j.queue = old.queue AND j.kind = old.kind AND j.key = old.key;
        IF FOUND THEN
            outcome := 'key_taken';
            RETURN;
        END IF;
        IF EXISTS (SELECT FROM {schema}.jobs j WHERE j.id = old.id) THEN
            outcome := 'live'; -- two jobs of one number, which only SQL by hand can make
            RETURN;
        END IF;
    END LOOP;
    RAISE EXCEPTION USING ERRCODE = 'serialization_failure',
        MESSAGE = format('retry: the key of job %s is taken and given back all the time', old.id);
END {tag};

COMMENT ON FUNCTION {schema}.retry(bigint) IS
    'pgqueue: brings a failed or dead job back, due now and with a new budget; its attempt number goes on. outcome: retried; key_taken = the live job other_id has its key and nothing was changed; live = it has not ended; not_found = no failed or dead job has this number.';
REVOKE ALL ON FUNCTION {schema}.retry(bigint) FROM PUBLIC;

-- ------------------------------------------------------------------------------------------------------------------------ cancel ----

-- A pending job ends at once; the open claim of a reaped one is closed by the deletion. A running one is asked: renewal tells its worker,
-- and its verdict, or the reaper, ends the job. Its key stays taken until then.
CREATE FUNCTION {schema}.cancel(id bigint) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan AS {tag}
#variable_conflict use_column
DECLARE
    job {schema}.jobs%ROWTYPE;
BEGIN
    SELECT * INTO job FROM {schema}.jobs j WHERE j.id = cancel.id FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 'not_found';
    END IF;
    IF job.state = 'running' THEN
        UPDATE {schema}.jobs j SET cancel_requested_at = coalesce(j.cancel_requested_at, statement_timestamp()) WHERE j.id = job.id;
        RETURN 'requested';
    END IF;

    PERFORM {schema}.ensure_history(0); -- costs two look-ups where upkeep did its work
    DELETE FROM {schema}.jobs j WHERE j.id = job.id;
    INSERT INTO {schema}.history (id, run_at, created_at, claimed_at, finished_at, day, attempt, generation, error_count, priority, failures,
        max_attempts, queue, kind, state, claimed_by, key, revision, payload, metadata, tags, errors)
    VALUES (job.id, job.run_at, job.created_at, job.claimed_at, statement_timestamp(), (statement_timestamp() AT TIME ZONE 'UTC')::date,
        job.attempt, job.generation, job.error_count, job.priority, job.failures,
        job.max_attempts, job.queue, job.kind, 'cancelled', job.claimed_by, job.key, job.revision, job.payload, job.metadata, job.tags, job.errors);
    RETURN 'cancelled';
END {tag};

COMMENT ON FUNCTION {schema}.cancel(bigint) IS
    'pgqueue: ends a pending job (cancelled) or asks a running one to stop (requested); not_found = no live job has this number.';
REVOKE ALL ON FUNCTION {schema}.cancel(bigint) FROM PUBLIC;

-- -------------------------------------------------------------------------------------------------------------- set_max_attempts ----

-- A job that waits for a retry which the new bound does not allow ends here and now: left in place it would run once more before
-- anybody noticed. A running one is decided by the end of its run, and a failed or dead one keeps the number for its retry.
CREATE FUNCTION {schema}.set_max_attempts(id bigint, max_attempts int) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan AS {tag}
#variable_conflict use_column
DECLARE
    job     {schema}.jobs%ROWTYPE;
    outcome text;
BEGIN
    IF set_max_attempts.max_attempts IS NULL OR set_max_attempts.max_attempts NOT BETWEEN 1 AND 32767 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'max_attempts',
            MESSAGE = format('set_max_attempts: max_attempts must be from 1 to 32767, is %s', coalesce(set_max_attempts.max_attempts::text, 'NULL'));
    END IF;

    UPDATE {schema}.jobs j SET max_attempts = set_max_attempts.max_attempts::smallint WHERE j.id = set_max_attempts.id RETURNING * INTO job;
    IF NOT FOUND THEN
        UPDATE {schema}.history h SET max_attempts = set_max_attempts.max_attempts::smallint
        WHERE h.id = set_max_attempts.id AND h.day = 'infinity' RETURNING h.state INTO outcome;
        RETURN coalesce(outcome, 'not_found');
    END IF;
    IF job.state = 'running' OR job.failures < job.max_attempts THEN
        RETURN job.state;
    END IF;

    DELETE FROM {schema}.jobs j WHERE j.id = job.id;
    INSERT INTO {schema}.history (id, run_at, created_at, claimed_at, finished_at, day, attempt, generation, error_count, priority, failures,
        max_attempts, queue, kind, state, claimed_by, key, revision, payload, metadata, tags, errors)
    VALUES (job.id, job.run_at, job.created_at, job.claimed_at, statement_timestamp(), 'infinity',
        job.attempt, job.generation, job.error_count, job.priority, job.failures,
        job.max_attempts, job.queue, job.kind, 'dead', job.claimed_by, job.key, job.revision, job.payload, job.metadata, job.tags, job.errors);
    RETURN 'dead';
END {tag};

COMMENT ON FUNCTION {schema}.set_max_attempts(bigint, int) IS
    'pgqueue: sets how many attempts of a job may fail, and returns its state: pending, running, failed, dead or not_found. A pending job of which so many have failed already becomes dead at once; a failed or dead one keeps the number for its retry.';
REVOKE ALL ON FUNCTION {schema}.set_max_attempts(bigint, int) FROM PUBLIC;
