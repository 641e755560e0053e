-- pgqueue, version 4: time and control. Schedules (schedules, schedule_ticks), pauses that end by themselves and pauses of a kind
-- (paused_until, paused_kinds), keys that stay taken after success (unique_keys), progress of running jobs (job_progress), and the
-- functions of people: reschedule, set_priority, edit_payload and the like.
--
-- One file is one transaction; see version 1. Of what is there already queues gets a column, and bodies of functions are replaced.
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
              AND c.relname = ANY (ARRAY['paused', 'paused_kinds', 'paused_kinds_pkey', 'job_progress', 'job_progress_pkey',
                                         'unique_keys', 'unique_keys_pkey', 'unique_keys_expires',
                                         'schedules', 'schedules_pkey', 'schedules_due', 'schedules_failing', 'schedule_ticks', 'schedule_ticks_pkey'])
            UNION ALL
            SELECT 'type ' || quote_ident(t.typname)
            FROM pg_type t
            WHERE t.typnamespace = n.oid AND t.typrelid = 0
              AND t.typname = ANY (ARRAY['paused', 'paused_kinds', 'job_progress', 'unique_keys', 'schedules', 'schedule_ticks'])
            UNION ALL
            SELECT 'function ' || quote_ident(p.proname)
            FROM pg_proc p
            WHERE p.pronamespace = n.oid
              -- every function that this version brings; those whose body it replaces are not among them
              AND p.proname = ANY (ARRAY['args_fingerprint', 'enqueue_unique_batch', 'enqueue_unique', 'expire_unique_keys', 'release_key',
                                         'pauses_in_words', 'pause_until', 'pause_kind', 'resume_kind', 'hint_kind', 'end_pauses',
                                         'expire_progress', 'reschedule', 'set_priority', 'edit_payload', 'retry_with', 'schedule_changed'])
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

-- ======================================================================================================== pauses (section: pauses) ====

-- EXECUTE, because Citus passes on the text of an ALTER TABLE as it was sent, and this whole file is sent as one message.
DO {tag}
BEGIN
    EXECUTE format('ALTER TABLE %I.queues ADD COLUMN paused_until timestamptz', {schema_literal});
END {tag};
COMMENT ON COLUMN {schema}.queues.paused_until IS
    'When the pause ends by itself; NULL = at resume. Workers go by it at once; upkeep clears a pause that has ended.';

CREATE TABLE {schema}.paused_kinds (
    paused_at    timestamptz NOT NULL DEFAULT statement_timestamp(),
    paused_until timestamptz,
    queue        text        NOT NULL DEFAULT '',
    kind         text        NOT NULL,
    reason       text,
    CONSTRAINT paused_kinds_pkey PRIMARY KEY (kind, queue),
    CONSTRAINT paused_kinds_queue_check CHECK (octet_length(queue) <= 128),
    CONSTRAINT paused_kinds_kind_check  CHECK (octet_length(kind) BETWEEN 1 AND 128)
);
COMMENT ON TABLE {schema}.paused_kinds IS
    'pgqueue: kinds of jobs that nobody claims for the time being. What is running goes on.';
COMMENT ON INDEX {schema}.paused_kinds_pkey IS
    'pgqueue: one kind, in one queue or in all.';
COMMENT ON COLUMN {schema}.paused_kinds.paused_at IS 'Since when.';
COMMENT ON COLUMN {schema}.paused_kinds.paused_until IS 'When the pause ends by itself; NULL = at resume_kind.';
COMMENT ON COLUMN {schema}.paused_kinds.queue IS 'In which queue; empty = in all.';
COMMENT ON COLUMN {schema}.paused_kinds.kind IS 'The kind.';
COMMENT ON COLUMN {schema}.paused_kinds.reason IS 'Why it is paused, for people.';

-- Every claim reads it beside queues, so whoever may read that table may read this one: a fleet whose roles were granted what version 3
-- needs goes on. (0 = PUBLIC.)
DO {tag}
DECLARE
    reader text;
BEGIN
    FOR reader IN
        SELECT CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(r.rolname) END
        FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) a LEFT JOIN pg_roles r ON r.oid = a.grantee
        WHERE c.oid = format('%I.queues', {schema_literal})::regclass AND a.privilege_type = 'SELECT' AND a.grantee <> c.relowner
          AND (a.grantee = 0 OR r.oid IS NOT NULL)
        GROUP BY 1 ORDER BY 1
    LOOP
        EXECUTE format('GRANT SELECT ON %I.paused_kinds TO %s', {schema_literal}, reader);
    END LOOP;
END {tag};

-- What is paused is decided by the clock of the database at each claim: a pause whose end has come is none, whether its row was cleared or
-- not. Rows of ended pauses are cleared by the heartbeat of any worker, for programs of version 3, which know paused_at alone.
--
-- No pause shortens another: a handler that is told "come back in a minute" must not end what somebody paused for the night. Only resume
-- ends a pause before its time. DO UPDATE takes its times from the row that was to be inserted: on Citus it must be the same on every copy.
CREATE OR REPLACE FUNCTION {schema}.pause(queue text, reason text DEFAULT NULL) RETURNS timestamptz
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

    INSERT INTO {schema}.queues AS q (name, paused_at, paused_reason, updated_at)
    VALUES (pause.queue, statement_timestamp(), nullif(pause.reason, ''), statement_timestamp())
    ON CONFLICT (name) DO UPDATE SET
        paused_at = CASE WHEN q.paused_until <= excluded.paused_at THEN excluded.paused_at ELSE coalesce(q.paused_at, excluded.paused_at) END,
        paused_until = NULL, paused_reason = excluded.paused_reason, updated_at = excluded.updated_at
    RETURNING q.paused_at INTO since;
    PERFORM pg_notify({channel_literal}, pause.queue);
    RETURN since;
END {tag};

COMMENT ON FUNCTION {schema}.pause(text, text) IS
    'pgqueue: pauses a queue for every worker, until resume; what is running goes on. Returns since when it is paused; a queue that is paused already keeps that time and gets the new reason, and one that was paused until a time is paused until resume now. A queue that nobody has used yet may be paused.';

CREATE FUNCTION {schema}.pause_until(queue text, until timestamptz, reason text DEFAULT NULL) RETURNS timestamptz
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS {tag}
#variable_conflict use_column
DECLARE
    ends timestamptz;
BEGIN
    IF pause_until.queue IS NULL OR octet_length(pause_until.queue) NOT BETWEEN 1 AND 128 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'queue',
            MESSAGE = 'pause_until: queue must have 1 to 128 bytes';
    END IF;
    IF pause_until.until IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'until',
            MESSAGE = 'pause_until: until must not be NULL', HINT = 'pause() pauses until resume().';
    END IF;
    IF octet_length(pause_until.reason) > 1024 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'reason',
            MESSAGE = format('pause_until: reason is too long: %s bytes where 1024 are allowed', octet_length(pause_until.reason));
    END IF;
    IF pause_until.until = 'infinity' THEN
        PERFORM {schema}.pause(pause_until.queue, pause_until.reason);
        RETURN 'infinity';
    END IF;

    IF pause_until.until > statement_timestamp() THEN
        INSERT INTO {schema}.queues AS q (name, paused_at, paused_until, paused_reason, updated_at)
        VALUES (pause_until.queue, statement_timestamp(), pause_until.until, nullif(pause_until.reason, ''), statement_timestamp())
        ON CONFLICT (name) DO UPDATE SET
            paused_at     = CASE WHEN q.paused_until <= excluded.paused_at THEN excluded.paused_at
                                 ELSE coalesce(q.paused_at, excluded.paused_at) END,
            paused_until  = CASE WHEN q.paused_at IS NULL THEN excluded.paused_until
                                 WHEN q.paused_until IS NOT NULL THEN greatest(q.paused_until, excluded.paused_until) END,
            paused_reason = CASE WHEN q.paused_at IS NOT NULL AND coalesce(q.paused_until, 'infinity') > excluded.paused_until
                                 THEN q.paused_reason ELSE excluded.paused_reason END,
            updated_at    = excluded.updated_at;
        PERFORM pg_notify({channel_literal}, pause_until.queue);
    END IF;

    SELECT coalesce(q.paused_until, 'infinity') INTO ends
    FROM {schema}.queues q
    WHERE q.name = pause_until.queue AND q.paused_at IS NOT NULL AND coalesce(q.paused_until, 'infinity') > statement_timestamp();
    RETURN ends;
END {tag};

COMMENT ON FUNCTION {schema}.pause_until(text, timestamptz, text) IS
    'pgqueue: pauses a queue for every worker until a time, by the database clock, at which it goes on by itself; what is running goes on. A pause that lasts longer stays as it is. Returns until when the queue is paused now: infinity = until resume, NULL = it is not, because that time has passed.';
REVOKE ALL ON FUNCTION {schema}.pause_until(text, timestamptz, text) FROM PUBLIC;

CREATE OR REPLACE FUNCTION {schema}.resume(queue text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS {tag}
#variable_conflict use_column
DECLARE
    ended boolean;
BEGIN
    IF resume.queue IS NULL OR octet_length(resume.queue) NOT BETWEEN 1 AND 128 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'queue',
            MESSAGE = 'resume: queue must have 1 to 128 bytes';
    END IF;

    SELECT coalesce(q.paused_until <= statement_timestamp(), false) INTO ended FROM {schema}.queues q WHERE q.name = resume.queue;
    UPDATE {schema}.queues q SET paused_at = NULL, paused_until = NULL, paused_reason = NULL, updated_at = statement_timestamp()
    WHERE q.name = resume.queue AND q.paused_at IS NOT NULL;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM pg_notify({channel_literal}, resume.queue);
    RETURN NOT ended;
END {tag};

COMMENT ON FUNCTION {schema}.resume(text) IS
    'pgqueue: ends the pause of a queue, also one that would end by itself later, and wakes its workers; returns whether it was paused.';

-- The hint goes to every queue that the kind may be in: those that hold jobs or have settings, of which there are few. No worker holds
-- a job of any other.
CREATE FUNCTION {schema}.hint_kind(queue text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS {tag}
#variable_conflict use_column
BEGIN
    IF hint_kind.queue <> '' THEN
        PERFORM pg_notify({channel_literal}, hint_kind.queue);
    ELSE
        PERFORM pg_notify({channel_literal}, n.queue) FROM {schema}.queue_names() n;
    END IF;
END {tag};

COMMENT ON FUNCTION {schema}.hint_kind(text) IS
    'pgqueue: for pause_kind and resume_kind: wakes the workers of a queue, or (empty) of all that hold anything.';
REVOKE ALL ON FUNCTION {schema}.hint_kind(text) FROM PUBLIC;

CREATE FUNCTION {schema}.pause_kind(kind text, queue text DEFAULT NULL, until timestamptz DEFAULT NULL, reason text DEFAULT NULL)
RETURNS timestamptz
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS {tag}
#variable_conflict use_column
DECLARE
    place text := coalesce(pause_kind.queue, '');
    ends  timestamptz := nullif(pause_kind.until, 'infinity');
BEGIN
    IF pause_kind.kind IS NULL OR octet_length(pause_kind.kind) NOT BETWEEN 1 AND 128 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'kind',
            MESSAGE = 'pause_kind: kind must have 1 to 128 bytes';
    END IF;
    IF octet_length(place) > 128 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'queue',
            MESSAGE = 'pause_kind: queue must have at most 128 bytes';
    END IF;
    IF octet_length(pause_kind.reason) > 1024 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'reason',
            MESSAGE = format('pause_kind: reason is too long: %s bytes where 1024 are allowed', octet_length(pause_kind.reason));
    END IF;

    IF ends IS NULL OR ends > statement_timestamp() THEN
        INSERT INTO {schema}.paused_kinds AS p (paused_at, paused_until, queue, kind, reason)
        VALUES (statement_timestamp(), ends, place, pause_kind.kind, nullif(pause_kind.reason, ''))
        ON CONFLICT (kind, queue) DO UPDATE SET
            paused_at    = CASE WHEN p.paused_until <= excluded.paused_at THEN excluded.paused_at ELSE p.paused_at END,
            paused_until = CASE WHEN p.paused_until IS NOT NULL AND excluded.paused_until IS NOT NULL
                                THEN greatest(p.paused_until, excluded.paused_until) END,
            reason       = CASE WHEN coalesce(p.paused_until, 'infinity') > coalesce(excluded.paused_until, 'infinity')
                                THEN p.reason ELSE excluded.reason END;
        PERFORM {schema}.hint_kind(place);
    END IF;

    SELECT coalesce(p.paused_until, 'infinity') INTO ends
    FROM {schema}.paused_kinds p
    WHERE p.kind = pause_kind.kind AND p.queue = place AND coalesce(p.paused_until, 'infinity') > statement_timestamp();
    RETURN ends;
END {tag};

COMMENT ON FUNCTION {schema}.pause_kind(text, text, timestamptz, text) IS
    'pgqueue: pauses a kind of jobs for every worker, in one queue or (queue NULL) in all, until a time or (until NULL) until resume_kind; what is running goes on. A pause that lasts longer stays as it is. Returns until when it is paused now: infinity = until resume_kind, NULL = it is not, because until has passed.';
REVOKE ALL ON FUNCTION {schema}.pause_kind(text, text, timestamptz, text) FROM PUBLIC;

CREATE FUNCTION {schema}.resume_kind(kind text, queue text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS {tag}
#variable_conflict use_column
DECLARE
    place text := coalesce(resume_kind.queue, '');
    ends  timestamptz;
BEGIN
    IF resume_kind.kind IS NULL OR octet_length(resume_kind.kind) NOT BETWEEN 1 AND 128 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'kind',
            MESSAGE = 'resume_kind: kind must have 1 to 128 bytes';
    END IF;

    DELETE FROM {schema}.paused_kinds p WHERE p.kind = resume_kind.kind AND p.queue = place
    RETURNING coalesce(p.paused_until, 'infinity') INTO ends;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM {schema}.hint_kind(place);
    RETURN ends > statement_timestamp();
END {tag};

COMMENT ON FUNCTION {schema}.resume_kind(text, text) IS
    'pgqueue: ends what pause_kind began with the same queue (NULL = all) and wakes workers; returns whether it was paused. A kind that is paused both in all queues and in one has to be resumed twice.';
REVOKE ALL ON FUNCTION {schema}.resume_kind(text, text) FROM PUBLIC;

-- One by one, and not long: a row that somebody is changing is left to the next call, and a heartbeat does not wait for it. Nobody needs
-- it soon: to claims an ended pause is none already. (No SKIP LOCKED: Citus has none in what changes a reference table.)
CREATE FUNCTION {schema}.end_pauses() RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '50ms' AS {tag}
DECLARE
    gone  record;
    ended int := 0;
BEGIN
    FOR gone IN SELECT q.name FROM {schema}.queues q WHERE q.paused_until <= statement_timestamp() ORDER BY q.name LIMIT 1000 LOOP
        BEGIN
            UPDATE {schema}.queues q SET paused_at = NULL, paused_until = NULL, paused_reason = NULL, updated_at = statement_timestamp()
            WHERE q.name = gone.name AND q.paused_until <= statement_timestamp();
            IF FOUND THEN
                ended := ended + 1;
                PERFORM pg_notify({channel_literal}, gone.name);
            END IF;
        EXCEPTION WHEN lock_not_available THEN
            CONTINUE;
        END;
    END LOOP;
    FOR gone IN SELECT p.kind, p.queue FROM {schema}.paused_kinds p WHERE p.paused_until <= statement_timestamp() ORDER BY p.kind, p.queue LIMIT 1000 LOOP
        BEGIN
            DELETE FROM {schema}.paused_kinds p WHERE p.kind = gone.kind AND p.queue = gone.queue AND p.paused_until <= statement_timestamp();
            IF FOUND THEN
                ended := ended + 1;
            END IF;
        EXCEPTION WHEN lock_not_available THEN
            CONTINUE;
        END;
    END LOOP;
    RETURN ended;
END {tag};

COMMENT ON FUNCTION {schema}.end_pauses() IS
    'pgqueue: clears the pauses whose time has come, which every heartbeat does; returns how many. Nothing of this version waits for it.';
REVOKE ALL ON FUNCTION {schema}.end_pauses() FROM PUBLIC;

-- As in version 3, and it clears ended pauses: the heartbeats of programs of version 3 do so, too.
CREATE OR REPLACE FUNCTION {schema}.heartbeat(
    id         text,
    host       text,
    pid        int,
    version    text,
    started_at timestamptz,
    every      interval,
    stopping   boolean,
    queues     jsonb,
    kinds      jsonb
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS {tag}
#variable_conflict use_column
DECLARE
    field   text;
    problem text;
BEGIN
    SELECT f.name, f.problem INTO field, problem
    FROM (VALUES
        (1, 'id',       CASE WHEN octet_length(heartbeat.id) BETWEEN 1 AND 255 THEN NULL ELSE 'must have 1 to 255 bytes' END),
        (2, 'host',     CASE WHEN octet_length(heartbeat.host) > 255 THEN 'must have at most 255 bytes' END),
        (3, 'version',  CASE WHEN octet_length(heartbeat.version) > 255 THEN 'must have at most 255 bytes' END),
        (4, 'every',    CASE WHEN heartbeat.every BETWEEN interval '1 s' AND interval '1 h' THEN NULL ELSE 'must be from 1 s to 1 h' END),
        (5, 'queues',   CASE WHEN jsonb_typeof(heartbeat.queues) = 'object' THEN NULL ELSE 'must be a JSON object' END),
        (6, 'kinds',    CASE WHEN jsonb_typeof(heartbeat.kinds) = 'object' THEN NULL ELSE 'must be a JSON object' END),
        (7, 'queues',   CASE WHEN octet_length(heartbeat.queues::text) > 1048576 THEN 'must have at most 1 MB' END),
        (8, 'kinds',    CASE WHEN octet_length(heartbeat.kinds::text) > 1048576 THEN 'must have at most 1 MB' END)
    ) f (ord, name, problem)
    WHERE f.problem IS NOT NULL
    ORDER BY f.ord
    LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = field, MESSAGE = format('heartbeat: %s %s', field, problem);
    END IF;

    INSERT INTO {schema}.workers AS w (started_at, seen_at, heartbeat_every, pid, stopping, id, host, version, queues, kinds)
    VALUES (coalesce(heartbeat.started_at, statement_timestamp()), statement_timestamp(), heartbeat.every, coalesce(heartbeat.pid, 0),
            coalesce(heartbeat.stopping, false), heartbeat.id, coalesce(heartbeat.host, ''), coalesce(heartbeat.version, ''),
            heartbeat.queues, heartbeat.kinds)
    ON CONFLICT (id) DO UPDATE SET
        started_at = coalesce(heartbeat.started_at, w.started_at), seen_at = excluded.seen_at, heartbeat_every = excluded.heartbeat_every,
        pid = excluded.pid, stopping = excluded.stopping, host = excluded.host, version = excluded.version,
        queues = excluded.queues, kinds = excluded.kinds;

    DELETE FROM {schema}.workers w
    WHERE w.id = ANY (ARRAY (
        SELECT x.id FROM {schema}.workers x
        WHERE x.seen_at < statement_timestamp() - interval '1 hour'
        LIMIT 100
        FOR UPDATE SKIP LOCKED));

    IF EXISTS (SELECT 1 FROM {schema}.queues q WHERE q.paused_until <= statement_timestamp())
       OR EXISTS (SELECT 1 FROM {schema}.paused_kinds p WHERE p.paused_until <= statement_timestamp()) THEN
        PERFORM {schema}.end_pauses();
    END IF;
END {tag};

-- ====================================================================================================== control (section: control) ====

-- The queue of a job is looked up by its number first, and then named: Citus locks a row only where it can tell the shard.
--
-- A time that has passed means now: the place of an earlier one is behind every claimer's mark, where nobody looks for a while. A job that is
-- due already and is to run now keeps its place in line.
CREATE FUNCTION {schema}.reschedule(id bigint, run_at timestamptz DEFAULT NULL) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan AS {tag}
#variable_conflict use_column
DECLARE
    at    timestamptz := greatest(reschedule.run_at, statement_timestamp());
    place text;
    was text;
    due   timestamptz;
BEGIN
    IF NOT isfinite(reschedule.run_at) OR at >= '10000-01-01 00:00+00' THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'run_at',
            MESSAGE = format('reschedule: run_at must lie in the years 1 to 9999, is %s', reschedule.run_at);
    END IF;

    SELECT j.queue INTO place FROM {schema}.jobs j WHERE j.id = reschedule.id;
    SELECT j.state, j.run_at INTO was, due FROM {schema}.jobs j WHERE j.queue = place AND j.id = reschedule.id FOR UPDATE;
    IF was IS NULL THEN
        RETURN 'not_found';
    ELSIF was = 'running' THEN
        RETURN 'running';
    END IF;
    IF at > statement_timestamp() OR due > statement_timestamp() THEN
        UPDATE {schema}.jobs j SET run_at = at WHERE j.queue = place AND j.id = reschedule.id;
    END IF;
    PERFORM pg_notify({channel_literal}, place);
    RETURN 'rescheduled';
END {tag};

COMMENT ON FUNCTION {schema}.reschedule(bigint, timestamptz) IS
    'pgqueue: sets when a pending job is due (NULL or a time that has passed = now) and wakes workers. rescheduled; running = it runs and was left as it is; not_found = no live job has this number.';
REVOKE ALL ON FUNCTION {schema}.reschedule(bigint, timestamptz) FROM PUBLIC;

-- It keeps its due time, and so its place among the jobs of the new priority.
CREATE FUNCTION {schema}.set_priority(id bigint, priority int) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan AS {tag}
#variable_conflict use_column
DECLARE
    place text;
    was text;
BEGIN
    IF set_priority.priority IS NULL OR set_priority.priority NOT BETWEEN 1 AND 4 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'priority',
            MESSAGE = format('set_priority: priority must be from 1 to 4, is %s', coalesce(set_priority.priority::text, 'NULL'));
    END IF;

    SELECT j.queue INTO place FROM {schema}.jobs j WHERE j.id = set_priority.id;
    UPDATE {schema}.jobs j SET priority = set_priority.priority::smallint WHERE j.queue = place AND j.id = set_priority.id
    RETURNING j.state INTO was;
    IF was = 'pending' THEN
        PERFORM pg_notify({channel_literal}, place);
    ELSIF was IS NULL THEN
        SELECT h.queue INTO place FROM {schema}.history h WHERE h.id = set_priority.id AND h.day = 'infinity';
        UPDATE {schema}.history h SET priority = set_priority.priority::smallint
        WHERE h.queue = place AND h.id = set_priority.id AND h.day = 'infinity' RETURNING h.state INTO was;
    END IF;
    RETURN coalesce(was, 'not_found');
END {tag};

COMMENT ON FUNCTION {schema}.set_priority(bigint, int) IS
    'pgqueue: sets the priority of a job, 1 (first) to 4 (last), and returns its state: pending, running, failed, dead or not_found. For a running job it counts from the next attempt on; a failed or dead one keeps it for its retry.';
REVOKE ALL ON FUNCTION {schema}.set_priority(bigint, int) FROM PUBLIC;

-- What an enqueue of a new input with the job's key does: a new generation with a new budget, and a wish to cancel the old one is gone. The
-- revision stays: the same one enqueued again leaves the edited input alone, the next one replaces it.
CREATE FUNCTION {schema}.edit_payload(id bigint, payload jsonb, generation int DEFAULT NULL) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan AS {tag}
#variable_conflict use_column
DECLARE
    place  text;
    was  text;
    number int;
    t      timestamptz := statement_timestamp(); -- in a CASE, Citus takes no function that is not immutable
BEGIN
    IF edit_payload.payload IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'payload', MESSAGE = 'edit_payload: payload must not be NULL';
    END IF;

    SELECT j.queue INTO place FROM {schema}.jobs j WHERE j.id = edit_payload.id;
    SELECT j.state, j.generation INTO was, number FROM {schema}.jobs j WHERE j.queue = place AND j.id = edit_payload.id FOR UPDATE;
    IF was IS NULL THEN
        RETURN 'not_found';
    ELSIF number <> edit_payload.generation THEN
        RETURN 'changed';
    END IF;
    UPDATE {schema}.jobs j SET payload = edit_payload.payload, generation = j.generation + 1, failures = 0, cancel_requested_at = NULL,
        run_at = CASE WHEN j.state = 'running' THEN greatest(j.run_at, t) ELSE j.run_at END
    WHERE j.queue = place AND j.id = edit_payload.id;
    RETURN CASE WHEN was = 'running' THEN 'superseded' ELSE 'edited' END;
END {tag};

COMMENT ON FUNCTION {schema}.edit_payload(bigint, jsonb, int) IS
    'pgqueue: replaces the input of a live job, which gets a new budget of failures. edited; superseded = it runs, that run counts for nothing, and it runs again with the new input; changed = its generation is another than the given one and nothing was changed; not_found = no live job has this number. For failed and dead jobs see retry_with.';
REVOKE ALL ON FUNCTION {schema}.edit_payload(bigint, jsonb, int) FROM PUBLIC;

CREATE FUNCTION {schema}.retry_with(id bigint, payload jsonb, generation int DEFAULT NULL, OUT outcome text, OUT other_id bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan AS {tag}
#variable_conflict use_column
DECLARE
    number int;
BEGIN
    IF retry_with.payload IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'payload', MESSAGE = 'retry_with: payload must not be NULL';
    END IF;

    SELECT h.generation INTO number FROM {schema}.history h WHERE h.id = retry_with.id AND h.day = 'infinity';
    IF number <> retry_with.generation THEN
        outcome := 'changed';
        RETURN;
    END IF;
    SELECT r.outcome, r.other_id INTO outcome, other_id FROM {schema}.retry(retry_with.id) r;
    -- It is ours now. Only a job that was retried and died again between the two statements above has another generation.
    IF outcome = 'retried' AND {schema}.edit_payload(retry_with.id, retry_with.payload, retry_with.generation) <> 'edited' THEN
        RAISE EXCEPTION USING ERRCODE = 'serialization_failure', MESSAGE = format('retry_with: job %s has just changed', retry_with.id);
    END IF;
END {tag};

COMMENT ON FUNCTION {schema}.retry_with(bigint, jsonb, int) IS
    'pgqueue: brings a failed or dead job back with another input; otherwise as retry. outcome: retried; key_taken = the live job other_id has its key; live = it has not ended; changed = its generation is another than the given one; not_found. Only retried changes anything.';
REVOKE ALL ON FUNCTION {schema}.retry_with(bigint, jsonb, int) FROM PUBLIC;

-- cancel and set_max_attempts of version 2, and the messages about single jobs: the worker of a running job looks at once whether it was
-- asked to stop, instead of with its next renewal, and who awaits the job hears that it has ended. They are told after COMMIT, and may
-- be lost: nothing depends on them.
CREATE OR REPLACE FUNCTION {schema}.cancel(id bigint) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan AS {tag}
#variable_conflict use_column
DECLARE
    place text;
    job   {schema}.jobs%ROWTYPE;
BEGIN
    SELECT j.queue INTO place FROM {schema}.jobs j WHERE j.id = cancel.id;
    SELECT * INTO job FROM {schema}.jobs j WHERE j.queue = place AND j.id = cancel.id FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 'not_found';
    END IF;
    IF job.state = 'running' THEN
        UPDATE {schema}.jobs j SET cancel_requested_at = coalesce(j.cancel_requested_at, statement_timestamp())
        WHERE j.queue = job.queue AND j.id = job.id;
        PERFORM pg_notify({control_literal}, 'cancel ' || job.id);
        RETURN 'requested';
    END IF;

    PERFORM {schema}.ensure_history(0); -- costs two look-ups where upkeep did its work
    DELETE FROM {schema}.jobs j WHERE j.queue = job.queue AND j.id = job.id;
    DELETE FROM {schema}.job_progress p WHERE p.job_id = job.id;
    INSERT INTO {schema}.history (id, run_at, created_at, claimed_at, finished_at, day, attempt, generation, error_count, priority, failures,
        max_attempts, queue, kind, state, claimed_by, key, revision, payload, metadata, tags, errors)
    VALUES (job.id, job.run_at, job.created_at, job.claimed_at, statement_timestamp(), (statement_timestamp() AT TIME ZONE 'UTC')::date,
        job.attempt, job.generation, job.error_count, job.priority, job.failures,
        job.max_attempts, job.queue, job.kind, 'cancelled', job.claimed_by, job.key, job.revision, job.payload, job.metadata, job.tags, job.errors);
    PERFORM pg_notify({control_literal}, 'done ' || job.id);
    RETURN 'cancelled';
END {tag};

COMMENT ON FUNCTION {schema}.cancel(bigint) IS
    'pgqueue: ends a pending job (cancelled) or asks a running one to stop (requested), of which its worker is told at COMMIT; not_found = no live job has this number.';

CREATE OR REPLACE FUNCTION {schema}.set_max_attempts(id bigint, max_attempts int) RETURNS text
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

    DELETE FROM {schema}.jobs j WHERE j.queue = job.queue AND j.id = job.id;
    DELETE FROM {schema}.job_progress p WHERE p.job_id = job.id;
    INSERT INTO {schema}.history (id, run_at, created_at, claimed_at, finished_at, day, attempt, generation, error_count, priority, failures,
        max_attempts, queue, kind, state, claimed_by, key, revision, payload, metadata, tags, errors)
    VALUES (job.id, job.run_at, job.created_at, job.claimed_at, statement_timestamp(), 'infinity',
        job.attempt, job.generation, job.error_count, job.priority, job.failures,
        job.max_attempts, job.queue, job.kind, 'dead', job.claimed_by, job.key, job.revision, job.payload, job.metadata, job.tags, job.errors);
    PERFORM pg_notify({control_literal}, 'done ' || job.id);
    RETURN 'dead';
END {tag};

-- =================================================================================================== progress (section: progress) ====

-- Apart from jobs: a row that is written every second belongs in no table that claims walk, and most jobs have none.
CREATE TABLE {schema}.job_progress (
    job_id     bigint      NOT NULL,
    updated_at timestamptz NOT NULL,
    attempt    int         NOT NULL,
    progress   jsonb       NOT NULL,
    CONSTRAINT job_progress_pkey PRIMARY KEY (job_id)
)
WITH (fillfactor = 50, vacuum_truncate = off, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
COMMENT ON TABLE {schema}.job_progress IS
    'pgqueue: how far running jobs have come, as their handlers report it. The row of a job goes when it ends.';
COMMENT ON INDEX {schema}.job_progress_pkey IS 'pgqueue: one job.';
COMMENT ON COLUMN {schema}.job_progress.job_id IS 'Number of the job.';
COMMENT ON COLUMN {schema}.job_progress.updated_at IS 'When it was reported last, by the database clock.';
COMMENT ON COLUMN {schema}.job_progress.attempt IS 'By which attempt.';
COMMENT ON COLUMN {schema}.job_progress.progress IS 'What the handler said.';

-- Rows of jobs that have ended without their worker taking them along: it died, or another worker ended the job. It walks the table by
-- number, and looks at no more than a batch a call, so that it may be called in turn: after says where to go on.
CREATE FUNCTION {schema}.expire_progress(after bigint DEFAULT 0, batch int DEFAULT 1000, OUT gone int, OUT next bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan AS {tag}
#variable_conflict use_column
DECLARE
    seen bigint[];
BEGIN
    IF expire_progress.batch IS NULL OR expire_progress.batch NOT BETWEEN 1 AND 100000 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'batch',
            MESSAGE = format('expire_progress: batch must be between 1 and 100000, not %s', coalesce(expire_progress.batch::text, 'NULL'));
    END IF;

    seen := ARRAY (SELECT p.job_id FROM {schema}.job_progress p WHERE p.job_id > coalesce(expire_progress.after, 0)
                   ORDER BY p.job_id LIMIT expire_progress.batch);
    -- A row that was written this moment may be of a job that a snapshot from before does not show.
    DELETE FROM {schema}.job_progress p
    WHERE p.job_id = ANY (seen) AND p.updated_at < statement_timestamp() - interval '10 seconds'
      AND NOT EXISTS (SELECT FROM {schema}.jobs j WHERE j.id = p.job_id);
    GET DIAGNOSTICS gone = ROW_COUNT;
    IF cardinality(seen) = expire_progress.batch THEN
        next := seen[expire_progress.batch];
    END IF;
END {tag};

COMMENT ON FUNCTION {schema}.expire_progress(bigint, int) IS
    'pgqueue: deletes the progress of jobs that have ended, among the next batch rows behind the job after; returns how many are gone and where to go on, NULL at the end.';
REVOKE ALL ON FUNCTION {schema}.expire_progress(bigint, int) FROM PUBLIC;

-- ======================================================================================================== unique (section: unique) ====

CREATE TABLE {schema}.unique_keys (
    job_id     bigint      NOT NULL,
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    queue      text        NOT NULL,
    kind       text        NOT NULL,
    key        text        NOT NULL,
    CONSTRAINT unique_keys_pkey PRIMARY KEY (queue, kind, key),
    CONSTRAINT unique_keys_key_check CHECK (octet_length(key) BETWEEN 1 AND 640)
)
WITH (vacuum_truncate = off, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 5000);
CREATE INDEX unique_keys_expires ON {schema}.unique_keys (expires_at);
COMMENT ON TABLE {schema}.unique_keys IS
    'pgqueue: keys that stay taken for a while, also when their job has ended: an enqueue with one of them finds the job of the first.';
COMMENT ON INDEX {schema}.unique_keys_pkey IS 'pgqueue: one key of a queue and kind.';
COMMENT ON INDEX {schema}.unique_keys_expires IS 'pgqueue: what upkeep deletes: the keys whose time has passed.';
COMMENT ON COLUMN {schema}.unique_keys.job_id IS 'The job that was enqueued with the key.';
COMMENT ON COLUMN {schema}.unique_keys.created_at IS 'When.';
COMMENT ON COLUMN {schema}.unique_keys.expires_at IS 'From when on the key is free again.';
COMMENT ON COLUMN {schema}.unique_keys.queue IS 'Of the job.';
COMMENT ON COLUMN {schema}.unique_keys.kind IS 'Of the job.';
COMMENT ON COLUMN {schema}.unique_keys.key IS
    'What is taken: key: and an idempotency key, or args:, members: or kind for arguments; slot: and its length in microseconds stands before what is free at the end of a slot.';

-- ---------------------------------------------------------------------------------------------------- args_fingerprint ----

-- The identity of arguments: the same from SQL and from Go (pgqueue/unique_canonical.go writes the same text). jsonb is the canonical
-- form: members in one order, the last of two of one name, no white space, each number with its digits as they were written (1 and
-- 1.0 differ, 100 and 1e2 do not), each character in one spelling.
-- Of members that are named, an object is made whose names are their JSON pointers: what is not there is left out, so absent and null
-- differ, and {"a": {"b": 1}} and {"a.b": 1} do.
CREATE FUNCTION {schema}.args_fingerprint(payload jsonb, members text[] DEFAULT NULL) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS {tag}
    SELECT CASE WHEN args_fingerprint.members IS NULL
        THEN 'args:' || encode(sha256(convert_to(args_fingerprint.payload::text, 'UTF8')), 'hex')
        ELSE 'members:' || encode(sha256(convert_to((
            SELECT coalesce(jsonb_object_agg(s.pointer, s.value), '{}')::text
            FROM (SELECT p.pointer, args_fingerprint.payload #> ARRAY (
                             SELECT replace(replace(u.step, '~1', '/'), '~0', '~')
                             FROM unnest(CASE WHEN p.pointer = '/' THEN ARRAY[''] ELSE string_to_array(substr(p.pointer, 2), '/') END)
                                  WITH ORDINALITY AS u(step, ord)
                             ORDER BY u.ord) AS value
                  FROM (SELECT CASE WHEN left(m.name, 1) = '/' THEN m.name ELSE '/' || replace(replace(m.name, '~', '~0'), '/', '~1') END AS pointer
                        FROM unnest(args_fingerprint.members) AS m(name)) p) s
            WHERE s.value IS NOT NULL), 'UTF8')), 'hex') END;
{tag};
COMMENT ON FUNCTION {schema}.args_fingerprint(jsonb, text[]) IS
    'pgqueue: what stands for a payload in the identity of a job: a hash of the whole, or of the members named, each a name or a JSON pointer such as /user/id.';

-- ------------------------------------------------------------------------------------------------ enqueue_unique_batch ----

-- Jobs of one queue, some of which are enqueued at most once by a rule of their own. What Go sends, and what enqueue_unique calls:
-- one verdict for both. Jobs without a rule are treated as everywhere else, so that a batch may hold all of them. It validates nothing.
--   policies[]    NULL = none, or
--                 keep      identities[] stays taken for spans[] microseconds from the first enqueue, whatever becomes of the job
--                 slot      the same until the end of the slot of spans[] microseconds, counted from 1970 in UTC
--                 live      keys[] is made from the arguments: taken while its job is pending or running (revisions[] is not NULL)
--                 debounce  keys[]: due delays[] microseconds after the last enqueue, and no later than spans[] microseconds after the first of a burst
--   The other arrays are those of the statement enqueue in pgqueue/internal/jobstore/enqueue.sql; so are the reasons for the shape of
--   step 2 here.
-- * A function, because a decision stands between two writes: who holds an identity is known when its row is locked, and only then
--   is a job written, whose number goes back into that row where an older live job of the key took the input. In one
--   statement neither could see the other. One call is one statement to the caller: all or nothing in autocommit too.
-- * Locks are taken in one order: identities sorted, then keys sorted. Overlapping calls cannot deadlock.
-- * An identity that is taken is answered from the snapshot, without a lock: a thousand duplicates do not queue behind each other, nor
--   leave dead rows. Only an identity that is free, has expired, or was taken since the snapshot is written, and that waits for
--   whoever is writing it: after their rollback we hold it, after their COMMIT we know their job. DO UPDATE has no WHERE, because a
--   WHERE that says no returns nothing. In REPEATABLE READ and SERIALIZABLE such a row is 40001, which reaches the caller as it is.
-- * The plans live as long as the session and may have been made while the tables were empty: hence no sequential scan. No join in them has
--   more than one shape, so one plan does for a job and for thousands, and no call plans anew.
CREATE FUNCTION {schema}.enqueue_unique_batch(
    queue        text,
    kinds        text[],
    keys         text[],
    revisions    text[],
    payloads     text[],
    metadata     text[],
    tags         text[],
    priorities   smallint[],
    run_ats      timestamptz[],
    delays       bigint[],
    max_attempts smallint[],
    policies     text[],
    identities   text[],
    spans        bigint[],
    hint_channel text
) RETURNS TABLE (ord bigint, id bigint, outcome text, state text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET jit = off AS {tag}
#variable_conflict use_column
DECLARE
    t         timestamptz := statement_timestamp();
    now_us    bigint      := (extract(epoch FROM statement_timestamp()) * 1000000)::bigint;
    committed boolean     := current_setting('transaction_isolation') IN ('read committed', 'read uncommitted');
    numbers   regclass    := format('%I.jobs_id_seq', {schema_literal})::regclass;
    ids       bigint[]; -- drawn in input order, so that FIFO inside the batch is the input's order although rows are written in key order
    holders   bigint[]; -- who holds the identity of each job; NULL = it has none. Its own number = it is the one to be written
    places    bigint[]; -- where each one ended up
    outcomes  text[];
    written   boolean;
    moved     record;
BEGIN
    ids := ARRAY (SELECT nextval(numbers) FROM generate_series(1, cardinality(kinds)));

    -- 1. Identities. Of several in the batch the first counts. expires_at is not in the WHERE: it has an index, which must not be walked.
    IF 'keep' = ANY (policies) OR 'slot' = ANY (policies) THEN
        WITH input AS MATERIALIZED (
            SELECT u.* FROM unnest(ids, kinds, policies, identities, spans) WITH ORDINALITY AS u(id, kind, policy, identity, span, ord)
        ),
        wanted AS MATERIALIZED (
            SELECT w.*, CASE WHEN h.expires_at > t THEN h.job_id END AS holder
            FROM (SELECT DISTINCT ON (kind, identity) * FROM input WHERE policy IN ('keep', 'slot') ORDER BY kind, identity, ord) w
                 LEFT JOIN LATERAL (SELECT k.job_id, k.expires_at FROM {schema}.unique_keys k
                                    WHERE k.queue = enqueue_unique_batch.queue AND k.kind = w.kind AND k.key = w.identity
                                    LIMIT 1) h ON true
        ),
        taken AS (
            INSERT INTO {schema}.unique_keys AS k (job_id, created_at, expires_at, queue, kind, key)
            SELECT w.id, t,
                   CASE w.policy WHEN 'keep' THEN t + w.span * interval '1 microsecond'
                        ELSE timestamptz '1970-01-01 00:00+00' + (now_us / w.span + 1) * w.span * interval '1 microsecond' END,
                   enqueue_unique_batch.queue, w.kind, w.identity
            FROM wanted w
            WHERE w.holder IS NULL
            ORDER BY w.kind, w.identity
            ON CONFLICT (queue, kind, key) DO UPDATE SET
                job_id     = CASE WHEN k.expires_at <= t THEN excluded.job_id     ELSE k.job_id     END,
                created_at = CASE WHEN k.expires_at <= t THEN excluded.created_at ELSE k.created_at END,
                expires_at = CASE WHEN k.expires_at <= t THEN excluded.expires_at ELSE k.expires_at END
            RETURNING k.kind, k.key, k.job_id
        )
        SELECT array_agg(x.holder ORDER BY x.ord) INTO holders
        FROM (SELECT y.ord, max(y.holder) OVER (PARTITION BY y.kind, y.identity) AS holder
              FROM (SELECT kind, identity, ord, NULL::bigint AS holder FROM input
                    UNION ALL SELECT kind, identity, NULL, holder FROM wanted WHERE holder IS NOT NULL
                    UNION ALL SELECT kind, key, NULL, job_id FROM taken) y) x
        WHERE x.ord IS NOT NULL;
    ELSE
        holders := array_fill(NULL::bigint, ARRAY[cardinality(kinds)]);
    END IF;

    -- 2. Jobs: all that have no identity, or hold it.
    -- * The last of a key in the batch counts; with 'live' the first. What is there already with an equal revision stays as it is: with
    --   'live' the payloads may differ, in members that do not count.
    -- * A debounced job has the end of its burst in metadata, because only the row itself can tell, when it is locked, whether the burst
    --   goes on: it ends when the input is claimed (generation = claimed_generation). microseconds since 1970, and looked at with care: people
    --   may write metadata. A pending job that was enqueued without debounce keeps its due time; it was promised.
    -- * DO UPDATE calls nothing but immutable functions: Citus evaluates it on the shard's node and takes no others.
    WITH input AS MATERIALIZED (
        SELECT u.*, u.holder IS NULL OR u.holder = u.id AS goes_on
        FROM unnest(ids, holders, kinds, keys, revisions, payloads, enqueue_unique_batch.metadata, enqueue_unique_batch.tags, priorities, run_ats,
                    delays, enqueue_unique_batch.max_attempts, policies, spans) WITH ORDINALITY
             AS u(id, holder, kind, key, revision, payload, metadata, tags, priority, run_at, delay_us, max_attempts, policy, span, ord)
    ),
    keyed AS MATERIALIZED (
        SELECT k.*, s.cancelling, CASE WHEN committed AND NOT s.cancelling THEN s.id END AS same_id
        FROM (SELECT DISTINCT ON (kind, key) * FROM input
              WHERE key IS NOT NULL AND goes_on
              ORDER BY kind, key, CASE WHEN policy = 'live' THEN ord ELSE -ord END) k
             LEFT JOIN LATERAL (SELECT j.id, j.cancel_requested_at IS NOT NULL AS cancelling FROM {schema}.jobs j
                                WHERE j.queue = enqueue_unique_batch.queue AND j.kind = k.kind AND j.key = k.key AND j.revision = k.revision
                                LIMIT 1) s ON true
    ),
    put AS (
        INSERT INTO {schema}.jobs AS j (id, queue, kind, key, revision, payload, metadata, tags, priority, run_at, max_attempts)
        SELECT i.id, enqueue_unique_batch.queue, i.kind, i.key, i.revision, i.payload::jsonb,
               CASE WHEN i.policy = 'debounce' THEN i.metadata::jsonb || jsonb_build_object('pgqueue.debounce_until', now_us + i.span)
                    ELSE i.metadata::jsonb - 'pgqueue.debounce_until' END,
               i.tags::text[], i.priority, coalesce(i.run_at, t) + coalesce(i.delay_us, 0) * interval '1 microsecond', i.max_attempts
        FROM (SELECT *, NULL::boolean AS cancelling, NULL::bigint AS same_id FROM input WHERE key IS NULL AND goes_on
              UNION ALL
              SELECT * FROM keyed WHERE same_id IS NULL) i
        ORDER BY i.kind, i.key NULLS FIRST, i.id
        ON CONFLICT (queue, kind, key) WHERE key IS NOT NULL DO UPDATE SET
            revision = excluded.revision, cancel_requested_at = NULL,
            payload      = CASE WHEN j.revision = excluded.revision AND j.cancel_requested_at IS NULL THEN j.payload      ELSE excluded.payload      END,
            tags         = CASE WHEN j.revision = excluded.revision AND j.cancel_requested_at IS NULL THEN j.tags         ELSE excluded.tags         END,
            priority     = CASE WHEN j.revision = excluded.revision AND j.cancel_requested_at IS NULL THEN j.priority     ELSE excluded.priority     END,
            max_attempts = CASE WHEN j.revision = excluded.revision AND j.cancel_requested_at IS NULL THEN j.max_attempts ELSE excluded.max_attempts END,
            metadata   = CASE WHEN j.revision = excluded.revision AND j.cancel_requested_at IS NULL THEN j.metadata
                              WHEN NOT excluded.metadata ? 'pgqueue.debounce_until' OR j.generation = j.claimed_generation THEN excluded.metadata
                              WHEN jsonb_typeof(j.metadata->'pgqueue.debounce_until') = 'number'
                              THEN jsonb_set(excluded.metadata, '{pgqueue.debounce_until}', j.metadata->'pgqueue.debounce_until')
                              ELSE excluded.metadata - 'pgqueue.debounce_until' END,
            generation = CASE WHEN j.revision = excluded.revision AND j.cancel_requested_at IS NULL THEN j.generation ELSE j.generation + 1 END,
            failures   = CASE WHEN j.revision = excluded.revision AND j.cancel_requested_at IS NULL THEN j.failures ELSE 0 END,
            run_at     = CASE WHEN j.revision = excluded.revision AND j.cancel_requested_at IS NULL THEN j.run_at
                              WHEN excluded.metadata ? 'pgqueue.debounce_until' THEN CASE
                                  WHEN j.generation = j.claimed_generation THEN excluded.run_at
                                  WHEN jsonb_typeof(j.metadata->'pgqueue.debounce_until') IS DISTINCT FROM 'number' THEN least(j.run_at, excluded.run_at)
                                  WHEN (j.metadata->'pgqueue.debounce_until')::numeric <= now_us THEN j.run_at
                                  WHEN (j.metadata->'pgqueue.debounce_until')::numeric > 253402300799000000 THEN excluded.run_at -- beyond the year 9999
                                  ELSE least(to_timestamp((j.metadata->'pgqueue.debounce_until')::float8 / 1000000), excluded.run_at) END
                              WHEN j.state = 'pending' THEN least(j.run_at, excluded.run_at) ELSE excluded.run_at END
        RETURNING j.id, j.kind, j.key
    ),
    placed AS (
        SELECT ord, own_id, policy, max(live_id) OVER w AS id, bool_or(same) OVER w AS same, bool_or(cancelling) OVER w AS cancelling
        FROM (SELECT kind, key, ord, id AS own_id, policy, NULL::bigint AS live_id, false AS same, false AS cancelling
              FROM input WHERE key IS NOT NULL AND goes_on
              UNION ALL SELECT kind, key, NULL, NULL, NULL, id, false, false FROM put WHERE key IS NOT NULL
              UNION ALL SELECT kind, key, NULL, NULL, NULL, same_id, same_id IS NOT NULL, cancelling FROM keyed) x
        WINDOW w AS (PARTITION BY kind, key)
    )
    SELECT array_agg(r.id ORDER BY r.ord), array_agg(r.outcome ORDER BY r.ord), EXISTS (SELECT FROM put)
    INTO places, outcomes, written
    FROM (SELECT ord, id, 'inserted' AS outcome FROM input WHERE key IS NULL AND goes_on
          UNION ALL
          SELECT ord, holder, 'duplicate' FROM input WHERE NOT goes_on
          UNION ALL
          SELECT ord, id, CASE WHEN id = own_id THEN 'inserted'
                               WHEN policy = 'live' AND NOT coalesce(cancelling, false) THEN 'duplicate'
                               WHEN same THEN 'same'
                               ELSE 'replaced' END
          FROM placed WHERE ord IS NOT NULL) r;

    -- 3. An identity whose job has a key that was live already belongs to that job. One by one: joined, the planner may read every
    --    key of the queue.
    FOR moved IN
        SELECT u.job, u.kind, u.identity FROM unnest(ids, holders, places, kinds, identities) AS u(id, holder, job, kind, identity)
        WHERE u.holder = u.id AND u.job <> u.id
    LOOP
        UPDATE {schema}.unique_keys k SET job_id = moved.job
        WHERE k.queue = enqueue_unique_batch.queue AND k.kind = moved.kind AND k.key = moved.identity;
    END LOOP;

    -- Delivered after COMMIT, never for a rollback; what changed nothing wakes nobody.
    IF hint_channel IS NOT NULL AND written THEN
        PERFORM pg_notify(hint_channel, enqueue_unique_batch.queue);
    END IF;

    -- A duplicate says in which state its job is: NULL = it has ended. History is not asked: a producer may not read it.
    RETURN QUERY
    SELECT x.ord, x.job, x.outcome,
           CASE WHEN x.outcome = 'duplicate'
                THEN (SELECT j.state FROM {schema}.jobs j WHERE j.queue = enqueue_unique_batch.queue AND j.id = x.job) END
    FROM (SELECT u.ord, u.outcome,
                 CASE WHEN u.holder IS NULL THEN u.job
                      ELSE coalesce(max(u.job) FILTER (WHERE u.holder = u.id) OVER (PARTITION BY u.kind, u.identity), u.job) END AS job
          FROM unnest(ids, holders, places, outcomes, kinds, identities) WITH ORDINALITY
               AS u(id, holder, job, outcome, kind, identity, ord)) x
    ORDER BY x.ord;
END {tag};
COMMENT ON FUNCTION {schema}.enqueue_unique_batch(text, text[], text[], text[], text[], text[], text[], smallint[], timestamptz[], bigint[], smallint[],
    text[], text[], bigint[], text) IS
    'pgqueue: enqueues jobs of one queue of which some are unique by a rule of their own. For programs: it validates nothing. People call enqueue_unique.';

-- ------------------------------------------------------------------------------------------------------ enqueue_unique ----

-- enqueue for one job with a rule, from psql or a trigger. It runs with the rights of the caller. The bounds are those of the Go API.
CREATE FUNCTION {schema}.enqueue_unique(
    kind            text,
    payload         jsonb       DEFAULT '{}',
    queue           text        DEFAULT 'default',
    key             text        DEFAULT NULL,
    revision        text        DEFAULT NULL,
    run_at          timestamptz DEFAULT NULL,
    priority        int         DEFAULT 1,
    max_attempts    int         DEFAULT 3,
    tags            text[]      DEFAULT '{}',
    metadata        jsonb       DEFAULT '{}',
    idempotency_key text        DEFAULT NULL,
    unique_by       text        DEFAULT NULL,
    members         text[]      DEFAULT NULL,
    keep            interval    DEFAULT NULL,
    period          interval    DEFAULT NULL,
    throttle        interval    DEFAULT NULL,
    debounce        interval    DEFAULT NULL,
    debounce_max    interval    DEFAULT NULL,
    hint_channel    text        DEFAULT {channel_literal}
) RETURNS TABLE (id bigint, outcome text, state text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS {tag}
#variable_conflict use_column
DECLARE
    field     text;
    problem   text;
    policy    text;
    ident     text;
    span      interval;
    job_key   text := enqueue_unique.key;
    job_rev   text := enqueue_unique.revision;
BEGIN
    SELECT f.name, f.problem INTO field, problem
    FROM (VALUES
        (1, 'kind',
            CASE WHEN coalesce(enqueue_unique.kind, '') = '' THEN 'must not be empty'
                 WHEN octet_length(enqueue_unique.kind) > 128 THEN format('is too long: %s bytes where 128 are allowed', octet_length(enqueue_unique.kind)) END),
        (2, 'payload',
            CASE WHEN enqueue_unique.payload IS NULL THEN 'must not be NULL' END),
        (3, 'queue',
            CASE WHEN coalesce(enqueue_unique.queue, '') = '' THEN 'must not be empty'
                 WHEN octet_length(enqueue_unique.queue) > 128 THEN format('is too long: %s bytes where 128 are allowed', octet_length(enqueue_unique.queue)) END),
        (4, 'key',
            CASE WHEN enqueue_unique.key = '' THEN 'must not be empty (NULL = no key)'
                 WHEN octet_length(enqueue_unique.key) > 512 THEN format('is too long: %s bytes where 512 are allowed', octet_length(enqueue_unique.key))
                 WHEN enqueue_unique.key IS NULL AND enqueue_unique.debounce IS NOT NULL THEN 'is needed by debounce'
                 WHEN enqueue_unique.key IS NOT NULL AND enqueue_unique.unique_by IS NOT NULL AND enqueue_unique.keep IS NULL AND enqueue_unique.period IS NULL
                 THEN 'cannot be combined with unique_by without keep or period: the arguments are the key then' END),
        (5, 'revision',
            CASE WHEN enqueue_unique.revision = '' THEN 'must not be empty (NULL = no revision)'
                 WHEN enqueue_unique.revision IS NOT NULL AND enqueue_unique.key IS NULL THEN 'needs a key'
                 WHEN enqueue_unique.revision IS NOT NULL AND enqueue_unique.debounce IS NOT NULL THEN 'cannot be combined with debounce'
                 WHEN octet_length(enqueue_unique.revision) > 512 THEN format('is too long: %s bytes where 512 are allowed', octet_length(enqueue_unique.revision)) END),
        (6, 'run_at',
            CASE WHEN NOT isfinite(enqueue_unique.run_at) OR enqueue_unique.run_at < '0001-01-01 00:00+00' OR enqueue_unique.run_at >= '10000-01-01 00:00+00'
                 THEN format('must lie in the years 1 to 9999, is %s', enqueue_unique.run_at)
                 WHEN enqueue_unique.run_at IS NOT NULL AND enqueue_unique.debounce IS NOT NULL THEN 'cannot be combined with debounce' END),
        (7, 'priority',
            CASE WHEN enqueue_unique.priority BETWEEN 1 AND 4 THEN NULL
                 ELSE format('must be from 1 to 4, is %s', coalesce(enqueue_unique.priority::text, 'NULL')) END),
        (8, 'max_attempts',
            CASE WHEN enqueue_unique.max_attempts BETWEEN 1 AND 32767 THEN NULL
                 ELSE format('must be from 1 to 32767, is %s', coalesce(enqueue_unique.max_attempts::text, 'NULL')) END),
        (9, 'tags',
            CASE WHEN enqueue_unique.tags IS NULL THEN 'must not be NULL'
                 WHEN array_ndims(enqueue_unique.tags) > 1 THEN 'must have one dimension'
                 WHEN cardinality(enqueue_unique.tags) > 100 THEN format('are too many: %s where 100 are allowed', cardinality(enqueue_unique.tags))
                 WHEN EXISTS (SELECT FROM unnest(enqueue_unique.tags) AS u(tag) WHERE coalesce(u.tag, '') = '') THEN 'must not hold an empty one'
                 WHEN EXISTS (SELECT FROM unnest(enqueue_unique.tags) AS u(tag) WHERE octet_length(u.tag) > 255)
                 THEN 'hold one that is too long: 255 bytes are allowed' END),
        (10, 'metadata',
            CASE WHEN enqueue_unique.metadata IS NULL THEN 'must not be NULL'
                 WHEN jsonb_typeof(enqueue_unique.metadata) <> 'object' THEN format('must be a JSON object, is %s', jsonb_typeof(enqueue_unique.metadata)) END),
        (11, 'hint_channel',
            CASE WHEN enqueue_unique.hint_channel = '' THEN 'must not be empty (NULL = no hint)'
                 WHEN octet_length(enqueue_unique.hint_channel) > 63
                 THEN format('is too long: %s bytes where 63 are allowed', octet_length(enqueue_unique.hint_channel)) END),
        (12, 'idempotency_key',
            CASE WHEN num_nonnulls(enqueue_unique.idempotency_key, enqueue_unique.unique_by, enqueue_unique.throttle, enqueue_unique.debounce) <> 1
                 THEN 'or one of unique_by, throttle and debounce must be given, and no two of them'
                 WHEN enqueue_unique.idempotency_key = '' THEN 'must not be empty'
                 WHEN octet_length(enqueue_unique.idempotency_key) > 512
                 THEN format('is too long: %s bytes where 512 are allowed', octet_length(enqueue_unique.idempotency_key)) END),
        (13, 'unique_by',
            CASE WHEN enqueue_unique.unique_by NOT IN ('args', 'kind') THEN format('must be args or kind, is %s', enqueue_unique.unique_by) END),
        (14, 'members',
            CASE WHEN enqueue_unique.members IS NULL THEN NULL
                 WHEN enqueue_unique.unique_by IS DISTINCT FROM 'args' THEN 'need unique_by => ''args'''
                 WHEN array_ndims(enqueue_unique.members) IS DISTINCT FROM 1 THEN 'must name at least one (NULL = the whole payload)'
                 WHEN cardinality(enqueue_unique.members) > 32 THEN format('are too many: %s where 32 are allowed', cardinality(enqueue_unique.members))
                 WHEN EXISTS (SELECT FROM unnest(enqueue_unique.members) AS u(name) WHERE coalesce(u.name, '') = '') THEN 'must not hold an empty one'
                 WHEN EXISTS (SELECT FROM unnest(enqueue_unique.members) AS u(name) WHERE octet_length(u.name) > 255)
                 THEN 'hold one that is too long: 255 bytes are allowed'
                 WHEN EXISTS (SELECT FROM unnest(enqueue_unique.members) AS u(name) WHERE left(u.name, 1) = '/' AND u.name ~ '~([^01]|$)')
                 THEN 'hold a JSON pointer with a ~ that is neither ~0 nor ~1'
                 WHEN EXISTS (SELECT FROM unnest(enqueue_unique.members) AS u(name),
                                          unnest(CASE WHEN left(u.name, 1) = '/' THEN string_to_array(u.name, '/') ELSE ARRAY[u.name] END) AS s(step)
                              WHERE s.step ~ '^[ \t\n\v\f\r]*[+-]?[0-9]+$' AND s.step !~ '^(0|[1-9][0-9]*)$')
                 THEN 'hold a number that is not written plainly' END),
        (15, 'keep',
            CASE WHEN enqueue_unique.idempotency_key IS NOT NULL AND enqueue_unique.keep IS NULL THEN 'is needed by idempotency_key'
                 WHEN enqueue_unique.keep IS NOT NULL AND enqueue_unique.idempotency_key IS NULL AND enqueue_unique.unique_by IS NULL
                 THEN 'needs idempotency_key or unique_by'
                 WHEN enqueue_unique.keep NOT BETWEEN '1 millisecond' AND '36500 days'
                 THEN format('must be from 1 ms to 100 years, is %s', enqueue_unique.keep) END),
        (16, 'period',
            CASE WHEN enqueue_unique.period IS NOT NULL AND enqueue_unique.unique_by IS NULL THEN 'needs unique_by'
                 WHEN enqueue_unique.period IS NOT NULL AND enqueue_unique.keep IS NOT NULL THEN 'cannot be combined with keep'
                 WHEN enqueue_unique.period NOT BETWEEN '1 millisecond' AND '36500 days'
                 THEN format('must be from 1 ms to 100 years, is %s', enqueue_unique.period) END),
        (17, 'throttle',
            CASE WHEN enqueue_unique.throttle NOT BETWEEN '1 millisecond' AND '36500 days'
                 THEN format('must be from 1 ms to 100 years, is %s', enqueue_unique.throttle) END),
        (18, 'debounce',
            CASE WHEN enqueue_unique.debounce NOT BETWEEN '1 millisecond' AND '36500 days'
                 THEN format('must be from 1 ms to 100 years, is %s', enqueue_unique.debounce) END),
        (19, 'debounce_max',
            CASE WHEN enqueue_unique.debounce IS NOT NULL AND enqueue_unique.debounce_max IS NULL THEN 'is needed by debounce'
                 WHEN enqueue_unique.debounce_max IS NOT NULL AND enqueue_unique.debounce IS NULL THEN 'needs debounce'
                 WHEN enqueue_unique.debounce_max < enqueue_unique.debounce THEN 'must not be shorter than debounce'
                 WHEN enqueue_unique.debounce_max > '36500 days' THEN format('must be at most 100 years, is %s', enqueue_unique.debounce_max) END)
    ) AS f (ord, name, problem)
    WHERE f.problem IS NOT NULL
    ORDER BY f.ord
    LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = field, MESSAGE = 'enqueue_unique: ' || field || ' ' || problem;
    END IF;
    IF enqueue_unique.payload = 'null' THEN
        enqueue_unique.payload := '{}'; -- "no arguments" has one form
    END IF;

    -- How identities are spelt; pgqueue/unique_identity.go says the same.
    IF idempotency_key IS NOT NULL THEN
        policy := 'keep'; ident := 'key:' || idempotency_key; span := keep;
    ELSIF debounce IS NOT NULL THEN
        policy := 'debounce'; span := debounce_max;
    ELSIF throttle IS NOT NULL THEN
        policy := 'slot'; span := throttle; ident := CASE WHEN job_key IS NULL THEN 'kind' ELSE 'key:' || job_key END;
    ELSE
        ident := CASE unique_by WHEN 'kind' THEN 'kind' ELSE {schema}.args_fingerprint(enqueue_unique.payload, enqueue_unique.members) END;
        policy := CASE WHEN keep IS NOT NULL THEN 'keep' WHEN period IS NOT NULL THEN 'slot' ELSE 'live' END;
        span := coalesce(keep, period);
        IF policy = 'live' THEN
            job_key := 'unique:' || ident; job_rev := 'unique'; ident := NULL;
        END IF;
    END IF;
    IF policy = 'slot' THEN
        ident := format('slot:%s:%s', (extract(epoch FROM span) * 1000000)::bigint, ident);
    END IF;

    RETURN QUERY
    SELECT b.id, b.outcome, b.state
    FROM {schema}.enqueue_unique_batch(enqueue_unique.queue, ARRAY[enqueue_unique.kind], ARRAY[job_key], ARRAY[job_rev], ARRAY[enqueue_unique.payload::text],
             ARRAY[enqueue_unique.metadata::text], ARRAY[enqueue_unique.tags::text], ARRAY[enqueue_unique.priority::smallint], ARRAY[enqueue_unique.run_at],
             ARRAY[(extract(epoch FROM debounce) * 1000000)::bigint], ARRAY[enqueue_unique.max_attempts::smallint],
             ARRAY[policy], ARRAY[ident], ARRAY[(extract(epoch FROM span) * 1000000)::bigint], enqueue_unique.hint_channel) b;
END {tag};
COMMENT ON FUNCTION {schema}.enqueue_unique(text, jsonb, text, text, text, timestamptz, int, int, text[], jsonb, text, text, text[], interval, interval,
    interval, interval, interval, text) IS
    'pgqueue: enqueue with one rule: idempotency_key (and keep), unique_by args or kind (while live, or with keep or period), throttle, or debounce (with key and debounce_max). A duplicate changes nothing and returns the job that is there, with its state, NULL = it has ended. Bad arguments raise 22023.';

-- -------------------------------------------------------------------------------------------------- expire_unique_keys ----

-- SKIP LOCKED: what somebody takes over this moment is left alone, and its new expiry is seen by the recheck.
CREATE FUNCTION {schema}.expire_unique_keys(batch int DEFAULT 1000) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS {tag}
DECLARE
    gone int;
BEGIN
    IF batch IS NULL OR batch NOT BETWEEN 1 AND 100000 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'batch',
            MESSAGE = format('expire_unique_keys: batch must be between 1 and 100000, not %s', coalesce(batch::text, 'NULL'));
    END IF;

    WITH old AS MATERIALIZED (
        SELECT k.queue, k.kind, k.key
        FROM {schema}.unique_keys k
        WHERE k.expires_at < now()
        ORDER BY k.expires_at
        LIMIT batch
        FOR UPDATE SKIP LOCKED
    )
    DELETE FROM {schema}.unique_keys x USING old
    WHERE x.queue = old.queue AND x.kind = old.kind AND x.key = old.key;
    GET DIAGNOSTICS gone = ROW_COUNT;
    RETURN gone;
END {tag};
COMMENT ON FUNCTION {schema}.expire_unique_keys(int) IS
    'pgqueue: deletes at most batch unique keys whose time has passed, the oldest first; returns how many. Fewer than batch = done. An expired key is free also before it is deleted.';
REVOKE ALL ON FUNCTION {schema}.expire_unique_keys(int) FROM PUBLIC;

-- --------------------------------------------------------------------------------------------------------- release_key ----

CREATE FUNCTION {schema}.release_key(queue text, kind text, key text) RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS {tag}
    DELETE FROM {schema}.unique_keys k
    WHERE k.queue = release_key.queue AND k.kind = release_key.kind AND k.key = 'key:' || release_key.key
    RETURNING k.job_id;
{tag};
COMMENT ON FUNCTION {schema}.release_key(text, text, text) IS
    'pgqueue: frees an idempotency key before its time, so that the next enqueue with it makes a new job. The job itself stays as it is. Returns its number, NULL = the key was not taken.';
REVOKE ALL ON FUNCTION {schema}.release_key(text, text, text) FROM PUBLIC;

-- ================================================================================================== schedules (section: schedules) ====

-- What a scheduler needs beside the rights of a producer (docs/roles.md):
--   GRANT SELECT, INSERT, UPDATE, DELETE ON schedules, schedule_ticks TO the worker;  SELECT ON both TO viewer and watcher.
-- DELETE is for old ticks, and for schedules that no program has had for a month. Nothing else is needed: all that is done here is
-- done by plain statements (package schedule), so a DBA may do the same.
CREATE TABLE {schema}.schedules (
    next_run_at    timestamptz,
    last_run_at    timestamptz,
    retry_at       timestamptz,
    seen_at        timestamptz,
    retired_at     timestamptz,
    created_at     timestamptz NOT NULL DEFAULT statement_timestamp(),
    updated_at     timestamptz NOT NULL DEFAULT statement_timestamp(),
    jitter         interval    NOT NULL DEFAULT '0',
    last_job_id    bigint,
    failures       int         NOT NULL DEFAULT 0,
    catch_up_limit int         NOT NULL DEFAULT 100,
    priority       smallint    NOT NULL DEFAULT 1,
    max_attempts   smallint    NOT NULL DEFAULT 3,
    enabled        boolean     NOT NULL DEFAULT true,
    dynamic        boolean     NOT NULL DEFAULT false,
    name           text        NOT NULL,
    spec           text        NOT NULL,
    time_zone      text        NOT NULL DEFAULT 'UTC',
    catch_up       text        NOT NULL DEFAULT 'latest',
    queue          text        NOT NULL DEFAULT 'default',
    kind           text        NOT NULL,
    key            text,
    source         text        NOT NULL DEFAULT '',
    definition     text,
    last_error     text,
    payload        jsonb       NOT NULL DEFAULT '{}',
    metadata       jsonb       NOT NULL DEFAULT '{}',
    tags           text[]      NOT NULL DEFAULT '{}',
    CONSTRAINT schedules_pkey PRIMARY KEY (name),
    CONSTRAINT schedules_name_check     CHECK (octet_length(name) BETWEEN 1 AND 128),
    CONSTRAINT schedules_queue_check    CHECK (octet_length(queue) BETWEEN 1 AND 128),
    CONSTRAINT schedules_kind_check     CHECK (octet_length(kind) BETWEEN 1 AND 128),
    CONSTRAINT schedules_key_check      CHECK (octet_length(key) BETWEEN 1 AND 512),
    CONSTRAINT schedules_metadata_check CHECK (jsonb_typeof(metadata) = 'object'),
    CONSTRAINT schedules_priority_check CHECK (priority BETWEEN 1 AND 4),
    CONSTRAINT schedules_max_attempts_check CHECK (max_attempts >= 1),
    CONSTRAINT schedules_catch_up_check CHECK (catch_up IN ('skip', 'latest', 'all')),
    CONSTRAINT schedules_catch_up_limit_check CHECK (catch_up_limit BETWEEN 1 AND 10000),
    CONSTRAINT schedules_jitter_check   CHECK (jitter >= '0' AND jitter <= '1 day'),
    -- What a scheduler could not read: it would know of such a row nothing but its name.
    CONSTRAINT schedules_time_zone_check CHECK (time_zone <> ''),
    CONSTRAINT schedules_tags_check     CHECK (array_ndims(tags) = 1 AND array_position(tags, NULL) IS NULL),
    CONSTRAINT schedules_next_run_at_check CHECK (next_run_at > '-infinity'), -- infinity is a meaning, see below
    CONSTRAINT schedules_times_check    CHECK (isfinite(last_run_at) AND isfinite(retry_at) AND isfinite(seen_at) AND isfinite(retired_at)
                                               AND isfinite(created_at) AND isfinite(updated_at))
)
WITH (fillfactor = 50, vacuum_truncate = off, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
-- What has no next_run_at stands first: it has to be worked out.
CREATE INDEX schedules_due ON {schema}.schedules (next_run_at NULLS FIRST) WHERE enabled AND retired_at IS NULL;
-- Those that fail stand in a line of their own, in which nobody overtakes: after a failure a schedule goes to its end.
CREATE INDEX schedules_failing ON {schema}.schedules (retry_at NULLS FIRST) WHERE enabled AND retired_at IS NULL AND failures > 0;
COMMENT ON TABLE {schema}.schedules IS
    'pgqueue: what is enqueued by the clock. Any process with a scheduler does it; rows may be changed with SQL.';
COMMENT ON INDEX {schema}.schedules_pkey IS 'pgqueue: one schedule by its name.';
COMMENT ON INDEX {schema}.schedules_due IS 'pgqueue: what a scheduler looks at: which one is due next.';
COMMENT ON INDEX {schema}.schedules_failing IS 'pgqueue: what a scheduler looks at: which one that failed is to be tried again.';
COMMENT ON COLUMN {schema}.schedules.next_run_at IS 'The next tick; NULL = to be worked out from spec, which any scheduler does within a second or so; infinity = there is none any more; not -infinity.';
COMMENT ON COLUMN {schema}.schedules.last_run_at IS 'The latest tick that was enqueued or skipped. No tick up to it happens again.';
COMMENT ON COLUMN {schema}.schedules.retry_at IS 'After a failure: not before then is it tried again.';
COMMENT ON COLUMN {schema}.schedules.seen_at IS 'When a program that has it in its code said so last.';
COMMENT ON COLUMN {schema}.schedules.retired_at IS 'Since when no program of its source has it in its code; it rests then. NULL = it counts.';
COMMENT ON COLUMN {schema}.schedules.created_at IS 'When it was made. The ticks of @every are counted from here.';
COMMENT ON COLUMN {schema}.schedules.updated_at IS 'When it was last changed by people or programs, ticks apart. A next_run_at that is to be worked out lies after it.';
COMMENT ON COLUMN {schema}.schedules.jitter IS 'Each job becomes due a random while after its tick, at most this one.';
COMMENT ON COLUMN {schema}.schedules.last_job_id IS 'The job of the latest tick.';
COMMENT ON COLUMN {schema}.schedules.failures IS 'How often in a row its tick could not be enqueued.';
COMMENT ON COLUMN {schema}.schedules.catch_up_limit IS 'With catch_up = all: at most so many missed ticks, the latest ones.';
COMMENT ON COLUMN {schema}.schedules.priority IS 'Of its jobs.';
COMMENT ON COLUMN {schema}.schedules.max_attempts IS 'Of its jobs.';
COMMENT ON COLUMN {schema}.schedules.enabled IS 'false = it rests. Switched on again, it goes on with the next tick from then.';
COMMENT ON COLUMN {schema}.schedules.dynamic IS 'The payload is made by a Go function: only programs that have it enqueue this one.';
COMMENT ON COLUMN {schema}.schedules.name IS 'Its name.';
COMMENT ON COLUMN {schema}.schedules.spec IS 'A cron expression of five fields, @every 90m, @at 2027-01-31T09:00:00Z, or @hourly, @daily, @weekly, @monthly, @yearly.';
COMMENT ON COLUMN {schema}.schedules.time_zone IS 'The IANA zone in which the fields of a cron expression are meant.';
COMMENT ON COLUMN {schema}.schedules.catch_up IS 'What becomes of ticks that nobody was there for: skip, latest (one job for all of them) or all.';
COMMENT ON COLUMN {schema}.schedules.queue IS 'Of its jobs.';
COMMENT ON COLUMN {schema}.schedules.kind IS 'Of its jobs.';
COMMENT ON COLUMN {schema}.schedules.key IS 'Of its jobs: with a key at most one of them is live. NULL = they may overlap.';
COMMENT ON COLUMN {schema}.schedules.source IS 'Which program registered it; empty = it was made by hand.';
COMMENT ON COLUMN {schema}.schedules.definition IS 'What the program said last, as a hash: a restart that says the same again changes nothing that people have edited.';
COMMENT ON COLUMN {schema}.schedules.last_error IS 'Why its last tick could not be enqueued, or its spec not be understood; NULL = all is well.';
COMMENT ON COLUMN {schema}.schedules.payload IS 'Of its jobs.';
COMMENT ON COLUMN {schema}.schedules.metadata IS 'Of its jobs.';
COMMENT ON COLUMN {schema}.schedules.tags IS 'Of its jobs.';

-- An edit takes effect whoever makes it. When a schedule begins to mean other instants, or is switched on, the next one has to be worked
-- out anew, unless the same statement says which it is; the instant of the edit is kept, so that no tick after it is lost however late
-- that happens. What failed is tried at once after an edit. The scheduler's own UPDATE changes none of these columns.
CREATE FUNCTION {schema}.schedule_changed() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS {tag}
DECLARE
    anew boolean := (NEW.spec, NEW.time_zone) IS DISTINCT FROM (OLD.spec, OLD.time_zone)
                 OR (NEW.enabled AND NOT OLD.enabled) OR (NEW.retired_at IS NULL AND OLD.retired_at IS NOT NULL);
BEGIN
    IF anew AND NEW.next_run_at IS NOT DISTINCT FROM OLD.next_run_at THEN
        NEW.next_run_at := NULL;
    END IF;
    IF anew OR (NEW.next_run_at IS NULL AND OLD.next_run_at IS NOT NULL)
            OR (NEW.enabled, NEW.dynamic, NEW.jitter, NEW.catch_up, NEW.catch_up_limit, NEW.priority, NEW.max_attempts, NEW.queue, NEW.kind,
                NEW.key, NEW.source, NEW.payload, NEW.metadata, NEW.tags)
               IS DISTINCT FROM
               (OLD.enabled, OLD.dynamic, OLD.jitter, OLD.catch_up, OLD.catch_up_limit, OLD.priority, OLD.max_attempts, OLD.queue, OLD.kind,
                OLD.key, OLD.source, OLD.payload, OLD.metadata, OLD.tags) THEN
        IF NEW.updated_at IS NOT DISTINCT FROM OLD.updated_at THEN
            NEW.updated_at := statement_timestamp();
        END IF;
        NEW.failures := 0;
        NEW.retry_at := NULL;
        NEW.last_error := NULL;
    END IF;
    RETURN NEW;
END
{tag};
COMMENT ON FUNCTION {schema}.schedule_changed() IS
    'pgqueue: an edit of a schedule takes effect: its next tick is worked out anew where it changed, and it is tried at once.';
REVOKE ALL ON FUNCTION {schema}.schedule_changed() FROM PUBLIC;
CREATE TRIGGER schedule_changed BEFORE UPDATE ON {schema}.schedules FOR EACH ROW EXECUTE FUNCTION {schema}.schedule_changed();
COMMENT ON TRIGGER schedule_changed ON {schema}.schedules IS 'pgqueue: see the function.';

-- The identity of a tick, apart from the job, which may be long gone.
CREATE TABLE {schema}.schedule_ticks (
    tick        timestamptz NOT NULL,
    enqueued_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    job_id      bigint,
    name        text        NOT NULL,
    CONSTRAINT schedule_ticks_pkey PRIMARY KEY (name, tick)
);
COMMENT ON TABLE {schema}.schedule_ticks IS
    'pgqueue: which tick of which schedule was enqueued, when and as which job. Old ones are deleted by schedulers.';
COMMENT ON INDEX {schema}.schedule_ticks_pkey IS 'pgqueue: a tick happens once.';
COMMENT ON COLUMN {schema}.schedule_ticks.tick IS 'The instant of the tick.';
COMMENT ON COLUMN {schema}.schedule_ticks.enqueued_at IS 'When it was enqueued, by the database clock.';
COMMENT ON COLUMN {schema}.schedule_ticks.job_id IS 'The job; NULL = it was skipped. Of several skipped in a row only the last stands here.';
COMMENT ON COLUMN {schema}.schedule_ticks.name IS 'The schedule.';

-- ================================================================================ views and words (section: views, why_not_running) ====

-- What is paused now is decided here, for all that people read. Workers ask the tables themselves; see claim.
CREATE VIEW {schema}.paused AS
SELECT q.name AS queue, NULL::text AS kind, q.paused_at, q.paused_until, q.paused_reason AS reason
FROM {schema}.queues q
WHERE q.paused_at IS NOT NULL AND (q.paused_until IS NULL OR q.paused_until > statement_timestamp())
UNION ALL
SELECT nullif(k.queue, ''), k.kind, k.paused_at, k.paused_until, k.reason
FROM {schema}.paused_kinds k
WHERE k.paused_until IS NULL OR k.paused_until > statement_timestamp();

COMMENT ON VIEW {schema}.paused IS
    'pgqueue: what is paused now: queues, and kinds of jobs. Pauses that have ended are not in it.';
COMMENT ON COLUMN {schema}.paused.queue IS 'Name of the queue; NULL = all queues.';
COMMENT ON COLUMN {schema}.paused.kind IS 'The kind; NULL = all kinds, that is the queue.';
COMMENT ON COLUMN {schema}.paused.paused_at IS 'Since when.';
COMMENT ON COLUMN {schema}.paused.paused_until IS 'When the pause ends by itself; NULL = when somebody ends it.';
COMMENT ON COLUMN {schema}.paused.reason IS 'Why, for people; NULL = no reason was given.';

-- Where version 3 was distributed with Citus, these two views are on its nodes too, and may not depend on tables that are not yet there.
-- Nobody reads them there. (To a Postgres without Citus this is a setting that nobody knows.)
SET LOCAL citus.enable_ddl_propagation = off;

-- The same columns as in version 3, and one more.
CREATE OR REPLACE VIEW {schema}.queue_stats AS
SELECT n.queue, c.ready1 + c.ready2 + c.ready3 + c.ready4 AS ready, c.ready1, c.ready2, c.ready3, c.ready4,
       c.oldest_ready_seconds, c.scheduled, c.retrying, c.running, c.expired, c.failed, c.dead, c.capped,
       p.paused_at, p.reason AS paused_reason, coalesce(q.history, 'full') AS history, p.paused_until
FROM {schema}.queue_names() n
     CROSS JOIN LATERAL {schema}.count_queues(ARRAY[n.queue]) c
     LEFT JOIN {schema}.queues q ON q.name = n.queue
     LEFT JOIN {schema}.paused p ON p.queue = n.queue AND p.kind IS NULL;

COMMENT ON COLUMN {schema}.queue_stats.paused_until IS 'When the pause ends by itself; NULL = when somebody ends it, or it is not paused.';

-- The same columns as in version 3, and two more.
CREATE OR REPLACE VIEW {schema}.active_jobs AS
SELECT j.id, j.queue, j.kind, j.key, j.priority, j.attempt, j.claimed_by AS worker, j.claimed_at AS started_at,
       CASE WHEN isfinite(j.claimed_at) THEN statement_timestamp() - j.claimed_at END AS running_for,
       j.lease_expires_at,
       CASE WHEN isfinite(j.lease_expires_at) THEN j.lease_expires_at - statement_timestamp() END AS lease_left,
       j.cancel_requested_at, j.generation <> j.claimed_generation AS superseded, j.failures, j.max_attempts, j.run_at, j.created_at, j.tags,
       p.progress, p.updated_at AS progress_at
FROM {schema}.jobs j
     -- What an earlier attempt said is no news of this one.
     LEFT JOIN {schema}.job_progress p ON p.job_id = j.id AND p.attempt = j.attempt
WHERE j.state = 'running';

COMMENT ON COLUMN {schema}.active_jobs.progress IS 'How far it has come, as its handler reported it last; NULL = it did not.';
COMMENT ON COLUMN {schema}.active_jobs.progress_at IS 'When that was.';
SET LOCAL citus.enable_ddl_propagation = on;

-- A pause that will have ended when the job is due keeps it from nothing.
CREATE FUNCTION {schema}.pauses_in_words(queue text, kind text, due timestamptz) RETURNS text[]
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS {tag}
    SELECT coalesce(array_agg(x.what || ' since ' || {schema}.in_words(x.paused_at) || coalesce(': ' || x.reason, ', no reason was given') || '; '
               || CASE WHEN isfinite(x.paused_until)
                       THEN 'that ends by itself at ' || {schema}.in_words(x.paused_until) || ', and ' || x.remedy || ' ends it now'
                       ELSE x.remedy || ' ends that' END
               ORDER BY x.ord), '{}')
    FROM (SELECT CASE WHEN p.kind IS NULL THEN 1 WHEN p.queue IS NOT NULL THEN 2 ELSE 3 END AS ord, p.paused_at, p.paused_until, p.reason,
                 CASE WHEN p.kind IS NULL THEN 'the queue is paused'
                      ELSE format('kind "%s" is paused in %s', p.kind, CASE WHEN p.queue IS NULL THEN 'all queues' ELSE 'this queue' END) END AS what,
                 CASE WHEN p.kind IS NULL THEN format('SELECT %I.resume(%L)', {schema_literal}, p.queue)
                      WHEN p.queue IS NULL THEN format('SELECT %I.resume_kind(%L)', {schema_literal}, p.kind)
                      ELSE format('SELECT %I.resume_kind(%L, %L)', {schema_literal}, p.kind, p.queue) END AS remedy
          FROM {schema}.paused p
          WHERE (p.queue IS NULL OR p.queue = pauses_in_words.queue) AND (p.kind IS NULL OR p.kind = pauses_in_words.kind)
            AND (p.paused_until IS NULL OR p.paused_until > greatest(pauses_in_words.due, statement_timestamp()))) x;
{tag};

COMMENT ON FUNCTION {schema}.pauses_in_words(text, text, timestamptz) IS
    'pgqueue: the pauses that keep a job of this queue, kind and due time waiting, for people.';
REVOKE ALL ON FUNCTION {schema}.pauses_in_words(text, text, timestamptz) FROM PUBLIC;

-- The body of version 3 with two changes: it knows paused_kinds, and asks pauses_in_words.
CREATE OR REPLACE FUNCTION {schema}.why_not_running(id bigint) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan SET enable_seqscan = off
SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS {tag}
#variable_conflict use_column
DECLARE
    jobs_table regclass := format('%I.jobs', {schema_literal})::regclass;
    read_only  boolean := current_setting('transaction_read_only') = 'on';
    lag        text := '';
    reasons    text[] := '{}';
    job        record;
    again      boolean;
    taken      boolean;
    locker     text;
    no_worker  text;
    worker     text;
    handled    text[];
    looked     bigint;
    ahead      bigint;
    others     text;
    head       text;
    failed     text := '';
BEGIN
    IF why_not_running.id IS NULL THEN
        RETURN 'There is no job NULL: ask for a number.';
    END IF;
    IF pg_is_in_recovery() THEN
        lag := E'\nThis is a standby: row locks of the primary are not seen here, and what is said is as old as replication'
            || coalesce(', whose last transaction was committed at ' || {schema}.in_words(pg_last_xact_replay_timestamp()), '') || '.';
    END IF;

    BEGIN
        LOCK TABLE {schema}.jobs, {schema}.history, {schema}.queues, {schema}.paused_kinds, {schema}.workers IN ACCESS SHARE MODE NOWAIT;
    EXCEPTION WHEN lock_not_available THEN
        RETURN format('Whether job %s can run is not known, and nothing of the queue can be read or written, because a table is locked: %s', why_not_running.id,
            coalesce((SELECT string_agg(t.name || ': ' || l.words, ' ' ORDER BY t.ord)
                      FROM unnest(ARRAY['jobs', 'history', 'queues', 'paused_kinds', 'workers']) WITH ORDINALITY t (name, ord)
                           CROSS JOIN LATERAL {schema}.table_lockers_in_words(format('%I.%I', {schema_literal}, t.name)::regclass) l (words)
                      WHERE l.words IS NOT NULL), 'it was a moment ago. Ask again.')) || lag;
    END;

    -- More than one round only where the job changed between two statements.
    FOR round IN 1 .. 5 LOOP
        SELECT j.queue, j.kind, j.state, j.priority, j.run_at, j.failures, j.max_attempts, j.attempt, j.claimed_at, j.claimed_by, j.lease_expires_at,
               j.cancel_requested_at, j.generation <> j.claimed_generation AS superseded, j.errors->-1 AS last, j.ctid AS place, j.xmin AS writer, j.xmax AS locked_by,
               j.run_at > clock_timestamp() AS later, j.lease_expires_at < clock_timestamp() AS expired
        INTO job FROM {schema}.jobs j WHERE j.id = why_not_running.id;
        IF NOT FOUND THEN
            RETURN {schema}.how_it_ended(why_not_running.id) || lag;
        END IF;

        taken := NULL;
        IF NOT read_only THEN
            BEGIN
                PERFORM FROM {schema}.jobs j WHERE j.id = why_not_running.id FOR UPDATE SKIP LOCKED;
                taken := NOT FOUND;
                RAISE EXCEPTION USING ERRCODE = 'PGQ00'; -- gives the lock back
            EXCEPTION
                WHEN SQLSTATE 'PGQ00' THEN NULL;
                WHEN serialization_failure THEN taken := NULL; -- an old snapshot: somebody has changed the row since
            END;
        END IF;
        locker := NULL;
        IF taken IS DISTINCT FROM false THEN
            -- Read again: where it is another row now, the look came between two statements. (xmax of a free row may be left over.)
            SELECT CASE WHEN j.xmax <> '0'::xid THEN {schema}.lockers_in_words(j.xmax, jobs_table, taken IS TRUE) END, j.ctid <> job.place OR j.xmax <> job.locked_by
            INTO locker, again FROM {schema}.jobs j WHERE j.id = why_not_running.id;
            CONTINUE WHEN NOT FOUND OR taken AND (again OR locker IS NULL);
        END IF;
        EXIT;
    END LOOP;

    IF taken OR locker IS NOT NULL THEN
        reasons := reasons || ('its row is locked by ' || coalesce(locker, 'a transaction that cannot be found, and a moment ago by others: ask again'));
    ELSIF EXISTS (SELECT FROM pg_locks l WHERE l.locktype = 'transactionid' AND l.pid = pg_backend_pid() AND l.transactionid IN (job.writer, job.locked_by)) THEN
        reasons := reasons || 'your own transaction has changed or locked its row and is not committed'::text;
    END IF;
    locker := {schema}.table_lockers_in_words(jobs_table);
    IF locker IS NOT NULL THEN
        reasons := reasons || ('the table jobs is locked: ' || rtrim(locker, '.'));
    END IF;

    head := format('Job %s (kind "%s", queue "%s")', why_not_running.id, job.kind, job.queue);
    SELECT w.id || CASE WHEN l.id IS NOT NULL THEN ' (live, last seen ' ELSE ' (silent, last seen ' END
        || CASE WHEN isfinite(w.seen_at) THEN {schema}.in_words(statement_timestamp() - w.seen_at) || ' ago)' ELSE w.seen_at || ')' END INTO worker
    FROM {schema}.workers w LEFT JOIN {schema}.live_workers l ON l.id = w.id WHERE w.id = job.claimed_by;
    worker := coalesce(worker, job.claimed_by || ' (which is not on the list of workers)', 'somebody unknown');

    IF job.state = 'running' THEN
        head := head || format(' is running: attempt %s is held by %s since %s, ', job.attempt, worker, {schema}.in_words(job.claimed_at));
        IF job.expired THEN
            head := head || 'but its lease ran out at ' || {schema}.in_words(job.lease_expires_at) || '. '
                || CASE WHEN EXISTS (SELECT FROM {schema}.live_workers w WHERE w.queues ? job.queue AND NOT w.stopping)
                        THEN 'The reaper of a live worker of the queue takes it back within seconds (5 s, unless set otherwise)'
                        ELSE 'Nobody takes it back, because ' || coalesce({schema}.why_no_worker(job.queue, job.kind, job.run_at), 'every live worker of the queue is stopping') END || '.';
        ELSE
            head := head || 'with a lease until ' || {schema}.in_words(job.lease_expires_at) || ', which its worker should renew.';
        END IF;
        IF job.cancel_requested_at IS NOT NULL THEN
            head := head || E'\nIt was asked to stop at ' || {schema}.in_words(job.cancel_requested_at)
                || ': its worker learns that when it renews the lease, and the job ends when its handler returns, or with the lease.';
        END IF;
        IF job.superseded THEN
            head := head || E'\nIts input was replaced meanwhile: when this run ends, it runs once more with the new one.';
        END IF;
        IF cardinality(reasons) > 0 THEN
            head := head || E'\nIts outcome cannot be written now, because ' || array_to_string(reasons, E'.\nAlso: ') || '.';
        END IF;
        RETURN head || lag;
    END IF;

    IF job.failures > 0 THEN
        failed := format(E'\nOf at most %s attempts %s %s failed, the last one with the error %s.', job.max_attempts, job.failures,
            CASE job.failures WHEN 1 THEN 'has' ELSE 'have' END, coalesce(job.last->>'code', 'unknown') || coalesce(': ' || nullif(job.last->>'message', ''), ''));
    END IF;
    reasons := reasons || {schema}.pauses_in_words(job.queue, job.kind, job.run_at);
    IF job.later AND NOT isfinite(job.run_at) THEN
        reasons := reasons || 'it is never due: its run_at is infinity'::text;
    ELSIF job.later THEN
        reasons := reasons || ('it is due at ' || {schema}.in_words(job.run_at));
    END IF;
    no_worker := {schema}.why_no_worker(job.queue, job.kind, job.run_at);
    IF no_worker IS NOT NULL THEN
        reasons := reasons || no_worker;
    END IF;

    -- What a claim would take before it, looked at by index and no further than a bound. Jobs that no live worker of the queue has a
    -- handler for are not in its way; NULL = that is not known.
    IF NOT job.later THEN
        SELECT CASE WHEN NOT bool_or(w.kinds = '{}') THEN array_agg(DISTINCT k.kind) END INTO handled
        FROM {schema}.live_workers w
             LEFT JOIN LATERAL jsonb_object_keys(CASE WHEN jsonb_typeof(w.kinds) = 'object' THEN w.kinds END) k (kind) ON true
        WHERE w.queues ? job.queue;
        SELECT count(*), count(*) FILTER (WHERE handled IS NULL OR x.kind = ANY (handled)) INTO looked, ahead
        FROM (SELECT r.kind FROM generate_series(1, job.priority) p (priority)
                   CROSS JOIN LATERAL (
                      SELECT j.kind FROM {schema}.jobs j
                      WHERE j.queue = job.queue AND j.priority = p.priority::smallint AND j.state = 'pending' AND j.run_at <= statement_timestamp()
                        AND (p.priority < job.priority OR (j.run_at, j.id) < (job.run_at, why_not_running.id))
                      ORDER BY j.run_at, j.id LIMIT 10000) r
              LIMIT 10000) x;
        others := ahead || CASE WHEN looked >= 10000 THEN ' or more' ELSE '' END || CASE WHEN ahead = 1 AND looked < 10000 THEN ' other job' ELSE ' other jobs' END
            || ' of the queue' || CASE WHEN ahead = 1 AND looked < 10000 THEN '%s is due ' ELSE '%s are due ' END;
    END IF;

    IF cardinality(reasons) = 0 THEN
        RETURN head || ' is due since ' || {schema}.in_words(job.run_at) || CASE WHEN ahead > 0 THEN
                ' and waits behind ' || format(others, ' that') || 'too: live workers take them in turn.'
            ELSE ', and nothing is in its way: a worker should claim it within its poll interval (1 s, unless set otherwise).' END || failed || lag;
    END IF;
    IF ahead > 0 THEN
        reasons := reasons || (format(others, '') || 'before it');
    END IF;
    RETURN head || ' does not run, because ' || array_to_string(reasons, E'.\nAlso: ') || '.' || failed || lag;
END {tag};
