-- pgqueue, version 4, down. No CASCADE: what others have built upon these makes this fail and is named in the error.
SET LOCAL search_path = pg_catalog, pg_temp;
SET LOCAL client_min_messages = warning;

-- section: views, why_not_running

-- The bodies and views of version 3. A view loses a column by being made anew.
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
    paused     record;
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
        LOCK TABLE {schema}.jobs, {schema}.history, {schema}.queues, {schema}.workers IN ACCESS SHARE MODE NOWAIT;
    EXCEPTION WHEN lock_not_available THEN
        RETURN format('Whether job %s can run is not known, and nothing of the queue can be read or written, because a table is locked: %s', why_not_running.id,
            coalesce((SELECT string_agg(t.name || ': ' || l.words, ' ' ORDER BY t.ord)
                      FROM unnest(ARRAY['jobs', 'history', 'queues', 'workers']) WITH ORDINALITY t (name, ord)
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
    SELECT q.paused_at, q.paused_reason INTO paused FROM {schema}.queues q WHERE q.name = job.queue AND q.paused_at IS NOT NULL;
    IF FOUND THEN
        reasons := reasons || format('the queue is paused since %s%s; SELECT %I.resume(%L) ends that', {schema}.in_words(paused.paused_at),
            coalesce(': ' || paused.paused_reason, ', no reason was given'), {schema_literal}, job.queue);
    END IF;
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
DROP FUNCTION {schema}.pauses_in_words(text, text, timestamptz);

-- Those who may read the two views may read them afterwards.
SELECT set_config('pgqueue.grants', coalesce(string_agg(format('GRANT %s ON %I.%I TO %s%s;', a.privilege_type, {schema_literal}, c.relname,
           coalesce(quote_ident(r.rolname), 'PUBLIC'), CASE WHEN a.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END), ' '), ''), true)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace CROSS JOIN LATERAL aclexplode(c.relacl) a LEFT JOIN pg_roles r ON r.oid = a.grantee
WHERE n.nspname = {schema_literal} AND c.relname IN ('active_jobs', 'queue_stats') AND a.grantee <> c.relowner;

DROP VIEW {schema}.active_jobs;
CREATE VIEW {schema}.active_jobs AS
SELECT j.id, j.queue, j.kind, j.key, j.priority, j.attempt, j.claimed_by AS worker, j.claimed_at AS started_at,
       CASE WHEN isfinite(j.claimed_at) THEN statement_timestamp() - j.claimed_at END AS running_for,
       j.lease_expires_at,
       CASE WHEN isfinite(j.lease_expires_at) THEN j.lease_expires_at - statement_timestamp() END AS lease_left,
       j.cancel_requested_at, j.generation <> j.claimed_generation AS superseded, j.failures, j.max_attempts, j.run_at, j.created_at, j.tags
FROM {schema}.jobs j
WHERE j.state = 'running';
COMMENT ON VIEW {schema}.active_jobs IS
    'pgqueue: the jobs that a worker holds now.';
COMMENT ON COLUMN {schema}.active_jobs.id IS 'Number of the job.';
COMMENT ON COLUMN {schema}.active_jobs.queue IS 'Name of the queue.';
COMMENT ON COLUMN {schema}.active_jobs.kind IS 'Which handler does the work.';
COMMENT ON COLUMN {schema}.active_jobs.key IS 'Stable key of the work; NULL = none.';
COMMENT ON COLUMN {schema}.active_jobs.priority IS '1 (first) to 4 (last).';
COMMENT ON COLUMN {schema}.active_jobs.attempt IS 'Number of this attempt.';
COMMENT ON COLUMN {schema}.active_jobs.worker IS 'Who holds it; see live_workers.';
COMMENT ON COLUMN {schema}.active_jobs.started_at IS 'When it was claimed.';
COMMENT ON COLUMN {schema}.active_jobs.running_for IS 'How long ago that is.';
COMMENT ON COLUMN {schema}.active_jobs.lease_expires_at IS 'End of the lease, which its worker renews.';
COMMENT ON COLUMN {schema}.active_jobs.lease_left IS 'How long the lease still holds; negative = it has run out.';
COMMENT ON COLUMN {schema}.active_jobs.cancel_requested_at IS 'When somebody asked it to stop.';
COMMENT ON COLUMN {schema}.active_jobs.superseded IS 'true = its input was replaced meanwhile: it will run once more.';
COMMENT ON COLUMN {schema}.active_jobs.failures IS 'How many attempts have failed.';
COMMENT ON COLUMN {schema}.active_jobs.max_attempts IS 'How many may fail.';
COMMENT ON COLUMN {schema}.active_jobs.run_at IS 'When it was due.';
COMMENT ON COLUMN {schema}.active_jobs.created_at IS 'When it was enqueued.';
COMMENT ON COLUMN {schema}.active_jobs.tags IS 'Labels.';
DROP VIEW {schema}.queue_stats;
CREATE VIEW {schema}.queue_stats AS
SELECT n.queue, c.ready1 + c.ready2 + c.ready3 + c.ready4 AS ready, c.ready1, c.ready2, c.ready3, c.ready4,
       c.oldest_ready_seconds, c.scheduled, c.retrying, c.running, c.expired, c.failed, c.dead, c.capped,
       q.paused_at, q.paused_reason, coalesce(q.history, 'full') AS history
FROM {schema}.queue_names() n
     CROSS JOIN LATERAL {schema}.count_queues(ARRAY[n.queue]) c
     LEFT JOIN {schema}.queues q ON q.name = n.queue;
COMMENT ON VIEW {schema}.queue_stats IS
    'pgqueue: what each queue holds, by index and bounded: at most 1000 queues, no number counted beyond 10000. A condition on queue counts that queue alone.';
COMMENT ON COLUMN {schema}.queue_stats.queue IS 'Name of the queue.';
COMMENT ON COLUMN {schema}.queue_stats.ready IS 'Jobs that are due and wait for a worker: the sum of ready1 to ready4.';
COMMENT ON COLUMN {schema}.queue_stats.ready1 IS 'Those of priority 1.';
COMMENT ON COLUMN {schema}.queue_stats.ready2 IS 'Those of priority 2.';
COMMENT ON COLUMN {schema}.queue_stats.ready3 IS 'Those of priority 3.';
COMMENT ON COLUMN {schema}.queue_stats.ready4 IS 'Those of priority 4.';
COMMENT ON COLUMN {schema}.queue_stats.oldest_ready_seconds IS 'How long the first of them has been due: the lag of the queue. 0 where none is.';
COMMENT ON COLUMN {schema}.queue_stats.scheduled IS 'Jobs that are due later and have not failed.';
COMMENT ON COLUMN {schema}.queue_stats.retrying IS 'Jobs that wait for their next attempt after a failed one.';
COMMENT ON COLUMN {schema}.queue_stats.running IS 'Jobs that a worker has claimed.';
COMMENT ON COLUMN {schema}.queue_stats.expired IS 'Those of them whose lease has run out and that no reaper has returned yet.';
COMMENT ON COLUMN {schema}.queue_stats.failed IS 'Jobs in history for which trying again is pointless.';
COMMENT ON COLUMN {schema}.queue_stats.dead IS 'Jobs in history that spent their attempts.';
COMMENT ON COLUMN {schema}.queue_stats.capped IS 'true = at least one number stands for itself or more: the counting stopped there.';
COMMENT ON COLUMN {schema}.queue_stats.paused_at IS 'Since when the queue is paused; NULL = it is not.';
COMMENT ON COLUMN {schema}.queue_stats.paused_reason IS 'Why.';
COMMENT ON COLUMN {schema}.queue_stats.history IS 'What is kept of a success: full, slim or off.';
DO {tag}
BEGIN
    EXECUTE current_setting('pgqueue.grants');
END {tag};
DROP VIEW {schema}.paused;

-- section: schedules
DROP TABLE {schema}.schedule_ticks;
DROP TABLE {schema}.schedules;
DROP FUNCTION {schema}.schedule_changed();

-- section: unique
DROP FUNCTION {schema}.release_key(text, text, text);
DROP FUNCTION {schema}.expire_unique_keys(int);
DROP FUNCTION {schema}.enqueue_unique(text, jsonb, text, text, text, timestamptz, int, int, text[], jsonb, text, text, text[], interval, interval,
    interval, interval, interval, text);
DROP FUNCTION {schema}.enqueue_unique_batch(text, text[], text[], text[], text[], text[], text[], smallint[], timestamptz[], bigint[], smallint[],
    text[], text[], bigint[], text);
DROP FUNCTION {schema}.args_fingerprint(jsonb, text[]);
DROP TABLE {schema}.unique_keys;

-- section: progress
DROP FUNCTION {schema}.expire_progress(bigint, int);
DROP TABLE {schema}.job_progress;

-- section: control
-- The bodies of version 2.
CREATE OR REPLACE FUNCTION {schema}.cancel(id bigint) RETURNS text
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

    DELETE FROM {schema}.jobs j WHERE j.id = job.id;
    INSERT INTO {schema}.history (id, run_at, created_at, claimed_at, finished_at, day, attempt, generation, error_count, priority, failures,
        max_attempts, queue, kind, state, claimed_by, key, revision, payload, metadata, tags, errors)
    VALUES (job.id, job.run_at, job.created_at, job.claimed_at, statement_timestamp(), 'infinity',
        job.attempt, job.generation, job.error_count, job.priority, job.failures,
        job.max_attempts, job.queue, job.kind, 'dead', job.claimed_by, job.key, job.revision, job.payload, job.metadata, job.tags, job.errors);
    RETURN 'dead';
END {tag};

DROP FUNCTION {schema}.retry_with(bigint, jsonb, int);
DROP FUNCTION {schema}.edit_payload(bigint, jsonb, int);
DROP FUNCTION {schema}.set_priority(bigint, int);
DROP FUNCTION {schema}.reschedule(bigint, timestamptz);

-- section: pauses
-- What has ended by now is ended; a pause that would end later is one until resume.
UPDATE {schema}.queues SET paused_at = NULL, paused_reason = NULL WHERE paused_until <= statement_timestamp();
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

CREATE OR REPLACE FUNCTION {schema}.resume(queue text) RETURNS boolean
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
END {tag};

COMMENT ON FUNCTION {schema}.heartbeat(text, text, int, text, timestamptz, interval, boolean, jsonb, jsonb) IS
    'pgqueue: a worker reports itself. started_at NULL = the time of its first report. Deletes up to 100 workers that were not seen for an hour.';

DROP FUNCTION {schema}.end_pauses();
DROP FUNCTION {schema}.resume_kind(text, text);
DROP FUNCTION {schema}.pause_kind(text, text, timestamptz, text);
DROP FUNCTION {schema}.hint_kind(text);
DROP FUNCTION {schema}.pause_until(text, timestamptz, text);
DROP TABLE {schema}.paused_kinds;
DO {tag}
BEGIN
    EXECUTE format('ALTER TABLE %I.queues DROP COLUMN paused_until', {schema_literal});
END {tag};
