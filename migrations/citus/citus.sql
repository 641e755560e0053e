-- pgqueue on Citus: distributes the tables by queue. See docs/scaling.md. No numbered migration: apply it by hand, on the coordinator, after
-- migrations.Up, and again after each later one (it changes only what is not yet as it should be).
--
-- It is one transaction, sent as one message. Tables that hold rows are copied to their shards under a lock; afterwards
--    SELECT truncate_local_data_after_distributing_table('...') frees the coordinator's old copy.
-- Clients are made with pgqueue.WithCitus().
SET LOCAL search_path = pg_catalog, pg_temp;
SET LOCAL client_min_messages = warning;
SET LOCAL check_function_bodies = on;
-- One connection to each node: Citus refuses functions behind tables that were made over several in the same transaction.
SET LOCAL citus.multi_shard_modify_mode = 'sequential';

DO {tag}
BEGIN
    IF to_regclass('pg_catalog.pg_dist_partition') IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'undefined_object', MESSAGE = 'pgqueue: this database has no extension citus',
            HINT = 'CREATE EXTENSION citus, on the coordinator and on every worker, needs shared_preload_libraries = ''citus''.';
    END IF;
    IF to_regclass(format('%I.paused_kinds', {schema_literal})) IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'undefined_table', MESSAGE = format('pgqueue: the tables of schema %I are not there, or old', {schema_literal}),
            HINT = 'Apply the migrations first.';
    END IF;
END {tag};

-- ---------------------------------------------------------------------------------------------------------------------- tables ----

-- * A unique index of a distributed table must hold the distribution column: one node cannot know what another has. jobs_key does. The
--   primary keys get the queue in front; a number stays unique because one sequence, the coordinator's, gives it.
-- * history is distributed like jobs, so that a job and its history are on one node and a completion is a transaction of that node.
-- * unique_keys is distributed like jobs, too: an enqueue with a unique key is a transaction of one node.
-- * queues and paused_kinds are copies on every node: each claim reads them, and people write them now and then.
-- * workers, stats_cache, job_progress, schedules, schedule_ticks and audit stay on the coordinator. Nothing that a worker's hot statements do needs them.
-- * How many shards: citus.shard_count, 32 unless set otherwise. A queue is in one of them.
DO {tag}
DECLARE
    jobs    regclass := format('%I.jobs', {schema_literal})::regclass;
    history regclass := format('%I.history', {schema_literal})::regclass;
    queues  regclass := format('%I.queues', {schema_literal})::regclass;
    kinds   regclass := format('%I.paused_kinds', {schema_literal})::regclass;
    keys    regclass := format('%I.unique_keys', {schema_literal})::regclass;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_dist_partition p WHERE p.logicalrelid = jobs) THEN
        ALTER TABLE {schema}.jobs DROP CONSTRAINT jobs_pkey;
        ALTER TABLE {schema}.jobs ADD CONSTRAINT jobs_pkey PRIMARY KEY (queue, id);
        CREATE INDEX jobs_id ON {schema}.jobs (id);
        COMMENT ON INDEX {schema}.jobs_pkey IS 'pgqueue: one job by its queue and number.';
        COMMENT ON INDEX {schema}.jobs_id IS 'pgqueue: one job by its number, on each shard.';
        PERFORM create_distributed_table(jobs, 'queue', colocate_with => 'none');
    END IF;
    IF NOT EXISTS (SELECT FROM pg_dist_partition p WHERE p.logicalrelid = history) THEN
        ALTER TABLE {schema}.history DROP CONSTRAINT history_pkey;
        ALTER TABLE {schema}.history ADD CONSTRAINT history_pkey PRIMARY KEY (queue, id, day);
        CREATE INDEX history_id ON {schema}.history (id);
        COMMENT ON INDEX {schema}.history_pkey IS 'pgqueue: one finished job by its queue, number and day.';
        COMMENT ON INDEX {schema}.history_id IS 'pgqueue: one finished job by its number, on each shard.';
        PERFORM create_distributed_table(history, 'queue', colocate_with => jobs::text);
    END IF;
    IF NOT EXISTS (SELECT FROM pg_dist_partition p WHERE p.logicalrelid = queues) THEN
        PERFORM create_reference_table(queues);
    END IF;
    IF NOT EXISTS (SELECT FROM pg_dist_partition p WHERE p.logicalrelid = kinds) THEN
        PERFORM create_reference_table(kinds);
    END IF;
    IF NOT EXISTS (SELECT FROM pg_dist_partition p WHERE p.logicalrelid = keys) THEN
        PERFORM create_distributed_table(keys, 'queue', colocate_with => jobs::text);
    END IF;
END {tag};

-- ------------------------------------------------------------------------------------------------------------------- functions ----

-- The functions that people use name a job by its number alone. Citus locks rows only where the queue is named, so each looks the queue
-- up first, in all shards, and then works in one. What they do and answer is the same as without Citus. All run on the coordinator.

CREATE OR REPLACE FUNCTION {schema}.retry(id bigint, OUT outcome text, OUT other_id bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan AS {tag}
#variable_conflict use_column
DECLARE
    place text;
    old   {schema}.history%ROWTYPE;
BEGIN
    SELECT h.queue INTO place FROM {schema}.history h WHERE h.id = retry.id AND h.day = 'infinity';
    SELECT * INTO old FROM {schema}.history h WHERE h.queue = place AND h.id = retry.id AND h.day = 'infinity' FOR UPDATE;
    IF NOT FOUND THEN
        outcome := CASE WHEN EXISTS (SELECT 1 FROM {schema}.jobs j WHERE j.id = retry.id) THEN 'live' ELSE 'not_found' END;
        RETURN;
    END IF;

    FOR round IN 1 .. 100 LOOP
        INSERT INTO {schema}.jobs (id, run_at, created_at, attempt, generation, claimed_generation, error_count, priority, failures,
            max_attempts, queue, kind, key, revision, payload, metadata, tags, errors)
        VALUES (old.id, statement_timestamp(), old.created_at, old.attempt, old.generation, old.generation, old.error_count, old.priority, 0,
            old.max_attempts, old.queue, old.kind, old.key, old.revision, old.payload, old.metadata, old.tags, old.errors)
        ON CONFLICT DO NOTHING;
        IF FOUND THEN
            DELETE FROM {schema}.history h WHERE h.queue = place AND h.id = old.id AND h.day = 'infinity';
            PERFORM pg_notify({channel_literal}, place);
            outcome := 'retried';
            RETURN;
        END IF;

        SELECT j.id INTO other_id FROM {schema}.jobs j WHERE j.queue = place AND j.kind = old.kind AND j.key = old.key;
        IF FOUND THEN
            outcome := 'key_taken';
            RETURN;
        END IF;
        IF EXISTS (SELECT 1 FROM {schema}.jobs j WHERE j.queue = place AND j.id = old.id) THEN
            outcome := 'live';
            RETURN;
        END IF;
    END LOOP;
    RAISE EXCEPTION USING ERRCODE = 'serialization_failure',
        MESSAGE = format('retry: the key of job %s is taken and given back all the time', old.id);
END {tag};

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
        -- The row is locked, so what was read is what stands there.
        IF job.cancel_requested_at IS NULL THEN
            UPDATE {schema}.jobs j SET cancel_requested_at = statement_timestamp() WHERE j.queue = place AND j.id = job.id;
        END IF;
        PERFORM pg_notify({control_literal}, 'cancel ' || job.id);
        RETURN 'requested';
    END IF;

    PERFORM {schema}.ensure_history(0);
    DELETE FROM {schema}.jobs j WHERE j.queue = place AND j.id = job.id;
    DELETE FROM {schema}.job_progress p WHERE p.job_id = job.id;
    INSERT INTO {schema}.history (id, run_at, created_at, claimed_at, finished_at, day, attempt, generation, error_count, priority, failures,
        max_attempts, queue, kind, state, claimed_by, key, revision, payload, metadata, tags, errors)
    VALUES (job.id, job.run_at, job.created_at, job.claimed_at, statement_timestamp(), (statement_timestamp() AT TIME ZONE 'UTC')::date,
        job.attempt, job.generation, job.error_count, job.priority, job.failures,
        job.max_attempts, job.queue, job.kind, 'cancelled', job.claimed_by, job.key, job.revision, job.payload, job.metadata, job.tags, job.errors);
    PERFORM pg_notify({control_literal}, 'done ' || job.id);
    RETURN 'cancelled';
END {tag};

CREATE OR REPLACE FUNCTION {schema}.set_max_attempts(id bigint, max_attempts int) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan AS {tag}
#variable_conflict use_column
DECLARE
    place   text;
    job     {schema}.jobs%ROWTYPE;
    outcome text;
BEGIN
    IF set_max_attempts.max_attempts IS NULL OR set_max_attempts.max_attempts NOT BETWEEN 1 AND 32767 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'max_attempts',
            MESSAGE = format('set_max_attempts: max_attempts must be from 1 to 32767, is %s', coalesce(set_max_attempts.max_attempts::text, 'NULL'));
    END IF;

    SELECT j.queue INTO place FROM {schema}.jobs j WHERE j.id = set_max_attempts.id;
    UPDATE {schema}.jobs j SET max_attempts = set_max_attempts.max_attempts::smallint
    WHERE j.queue = place AND j.id = set_max_attempts.id RETURNING * INTO job;
    IF NOT FOUND THEN
        SELECT h.queue INTO place FROM {schema}.history h WHERE h.id = set_max_attempts.id AND h.day = 'infinity';
        UPDATE {schema}.history h SET max_attempts = set_max_attempts.max_attempts::smallint
        WHERE h.queue = place AND h.id = set_max_attempts.id AND h.day = 'infinity' RETURNING h.state INTO outcome;
        RETURN coalesce(outcome, 'not_found');
    END IF;
    IF job.state = 'running' OR job.failures < job.max_attempts THEN
        RETURN job.state;
    END IF;

    DELETE FROM {schema}.jobs j WHERE j.queue = place AND j.id = job.id;
    DELETE FROM {schema}.job_progress p WHERE p.job_id = job.id;
    INSERT INTO {schema}.history (id, run_at, created_at, claimed_at, finished_at, day, attempt, generation, error_count, priority, failures,
        max_attempts, queue, kind, state, claimed_by, key, revision, payload, metadata, tags, errors)
    VALUES (job.id, job.run_at, job.created_at, job.claimed_at, statement_timestamp(), 'infinity',
        job.attempt, job.generation, job.error_count, job.priority, job.failures,
        job.max_attempts, job.queue, job.kind, 'dead', job.claimed_by, job.key, job.revision, job.payload, job.metadata, job.tags, job.errors);
    PERFORM pg_notify({control_literal}, 'done ' || job.id);
    RETURN 'dead';
END {tag};

-- Queue by queue, the whole batch for whichever still has old ones. No halving: nothing outside can point at a distributed partition.
CREATE OR REPLACE FUNCTION {schema}.expire_attention(keep interval, batch int DEFAULT 1000) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan AS {tag}
#variable_conflict use_column
DECLARE
    before timestamptz := now() - keep;
    place  text;
    gone   int := 0;
    n      int;
BEGIN
    IF keep IS NULL OR keep < interval '0' THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'keep',
            MESSAGE = format('expire_attention: keep must not be negative, but is %s', coalesce(keep::text, 'NULL'));
    END IF;
    IF batch IS NULL OR batch NOT BETWEEN 1 AND 100000 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'batch',
            MESSAGE = format('expire_attention: batch must be between 1 and 100000, not %s', coalesce(batch::text, 'NULL'));
    END IF;

    FOR place IN SELECT DISTINCT a.queue FROM {schema}.history_attention a WHERE a.finished_at < before LOOP
        EXIT WHEN gone >= batch;
        DELETE FROM {schema}.history_attention x
        WHERE x.queue = place AND x.day = 'infinity' AND x.id = ANY (ARRAY (
            SELECT a.id
            FROM {schema}.history_attention a
            WHERE a.queue = place AND a.finished_at < before
            ORDER BY a.finished_at, a.id
            LIMIT batch - gone
            FOR UPDATE SKIP LOCKED));
        GET DIAGNOSTICS n = ROW_COUNT;
        gone := gone + n;
    END LOOP;
    RETURN gone;
END {tag};

-- Queue by queue, for the same reason.
CREATE OR REPLACE FUNCTION {schema}.expire_unique_keys(batch int DEFAULT 1000) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET plan_cache_mode = force_custom_plan AS {tag}
DECLARE
    before timestamptz := now();
    place  text;
    gone   int := 0;
    n      int;
BEGIN
    IF batch IS NULL OR batch NOT BETWEEN 1 AND 100000 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'batch',
            MESSAGE = format('expire_unique_keys: batch must be between 1 and 100000, not %s', coalesce(batch::text, 'NULL'));
    END IF;

    FOR place IN SELECT DISTINCT k.queue FROM {schema}.unique_keys k WHERE k.expires_at < before LOOP
        EXIT WHEN gone >= batch;
        WITH old AS MATERIALIZED (
            SELECT k.kind, k.key
            FROM {schema}.unique_keys k
            WHERE k.queue = place AND k.expires_at < before
            ORDER BY k.expires_at
            LIMIT batch - gone
            FOR UPDATE SKIP LOCKED
        )
        DELETE FROM {schema}.unique_keys x USING old
        WHERE x.queue = place AND x.kind = old.kind AND x.key = old.key;
        GET DIAGNOSTICS n = ROW_COUNT;
        gone := gone + n;
    END LOOP;
    RETURN gone;
END {tag};

-- job_progress is on the coordinator, and jobs are not: which of the jobs live is asked first.
CREATE OR REPLACE FUNCTION {schema}.expire_progress(after bigint DEFAULT 0, batch int DEFAULT 1000, OUT gone int, OUT next bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan AS {tag}
#variable_conflict use_column
DECLARE
    seen bigint[];
    live bigint[];
BEGIN
    IF expire_progress.batch IS NULL OR expire_progress.batch NOT BETWEEN 1 AND 100000 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'batch',
            MESSAGE = format('expire_progress: batch must be between 1 and 100000, not %s', coalesce(expire_progress.batch::text, 'NULL'));
    END IF;

    seen := ARRAY (SELECT p.job_id FROM {schema}.job_progress p WHERE p.job_id > coalesce(expire_progress.after, 0)
                   ORDER BY p.job_id LIMIT expire_progress.batch);
    IF cardinality(seen) > 0 THEN
        SELECT array_agg(j.id) INTO live FROM {schema}.jobs j WHERE j.id = ANY (seen);
    END IF;
    DELETE FROM {schema}.job_progress p
    WHERE p.job_id = ANY (seen) AND p.updated_at < statement_timestamp() - interval '10 seconds' AND p.job_id <> ALL (coalesce(live, '{}'));
    GET DIAGNOSTICS gone = ROW_COUNT;
    IF cardinality(seen) = expire_progress.batch THEN
        next := seen[expire_progress.batch];
    END IF;
END {tag};

-- Citus plans no recursion over shards, so each shard reads all of its live jobs' queues: a question for people and metrics, not for loops.
CREATE OR REPLACE FUNCTION {schema}.queue_names(most int DEFAULT 1000) RETURNS TABLE (queue text)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan AS {tag}
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT a.queue
    FROM (SELECT j.queue FROM (SELECT DISTINCT x.queue FROM {schema}.jobs x) j
          UNION SELECT h.queue FROM (SELECT DISTINCT x.queue FROM {schema}.history_attention x) h
          UNION SELECT q.name FROM {schema}.queues q) a
    ORDER BY a.queue LIMIT queue_names.most;
END {tag};

-- The counting of version 3, one queue after the other, each on its shard.
CREATE OR REPLACE FUNCTION {schema}.count_queues(queues text[], most int DEFAULT 10000)
RETURNS TABLE (queue text, ready1 bigint, ready2 bigint, ready3 bigint, ready4 bigint, oldest_ready_seconds float8,
    scheduled bigint, retrying bigint, running bigint, expired bigint, failed bigint, dead bigint, capped boolean)
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 10 SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan AS {tag}
#variable_conflict use_column
DECLARE
    place text;
BEGIN
    FOREACH place IN ARRAY count_queues.queues LOOP
        RETURN QUERY
        SELECT place, least(due.n[1], count_queues.most), least(due.n[2], count_queues.most), least(due.n[3], count_queues.most),
               least(due.n[4], count_queues.most), due.oldest,
               least(future.scheduled, count_queues.most), least(future.retrying, count_queues.most),
               least(running.n, count_queues.most), least(running.expired, count_queues.most),
               least(ended.failed, count_queues.most), least(ended.dead, count_queues.most),
               greatest(due.most, future.most, running.n, ended.n) > count_queues.most
        FROM (
                SELECT array_agg(x.n ORDER BY c.priority) AS n, max(x.n) AS most,
                       coalesce(extract(epoch FROM statement_timestamp() - min(x.oldest)), 0)::float8 AS oldest
                FROM unnest(ARRAY[1, 2, 3, 4]::smallint[]) AS c (priority)
                     CROSS JOIN LATERAL (
                        SELECT count(*) AS n, min(r.run_at) FILTER (WHERE isfinite(r.run_at)) AS oldest
                        FROM (SELECT j.run_at FROM {schema}.jobs j
                              WHERE j.queue = place AND j.priority = c.priority AND j.state = 'pending' AND j.run_at <= statement_timestamp()
                              ORDER BY j.run_at, j.id LIMIT count_queues.most::bigint + 1) r) x) due
             CROSS JOIN LATERAL (
                SELECT sum(x.scheduled)::bigint AS scheduled, sum(x.retrying)::bigint AS retrying, max(x.n) AS most
                FROM unnest(ARRAY[1, 2, 3, 4]::smallint[]) AS c (priority)
                     CROSS JOIN LATERAL (
                        SELECT count(*) FILTER (WHERE r.failures = 0) AS scheduled, count(*) FILTER (WHERE r.failures > 0) AS retrying, count(*) AS n
                        FROM (SELECT j.failures FROM {schema}.jobs j
                              WHERE j.queue = place AND j.priority = c.priority AND j.state = 'pending' AND j.run_at > statement_timestamp()
                              ORDER BY j.run_at, j.id LIMIT count_queues.most::bigint + 1) r) x) future
             CROSS JOIN LATERAL (
                SELECT count(*) AS n, count(*) FILTER (WHERE r.lease_expires_at < statement_timestamp()) AS expired
                FROM (SELECT j.lease_expires_at FROM {schema}.jobs j
                      WHERE j.queue = place AND j.state = 'running'
                      ORDER BY j.claimed_at, j.id LIMIT count_queues.most::bigint + 1) r) running
             CROSS JOIN LATERAL (
                SELECT count(*) FILTER (WHERE r.state = 'failed') AS failed, count(*) FILTER (WHERE r.state = 'dead') AS dead, count(*) AS n
                FROM (SELECT h.state FROM {schema}.history_attention h
                      WHERE h.queue = place
                      ORDER BY h.queue DESC, h.finished_at DESC LIMIT count_queues.most::bigint + 1) r) ended;
    END LOOP;
END {tag};

-- Row locks are on the shards' nodes, where this cannot look; the rest is told as without Citus, in fewer words.
CREATE OR REPLACE FUNCTION {schema}.why_not_running(id bigint) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan AS {tag}
#variable_conflict use_column
DECLARE
    job       record;
    head      text;
    reasons   text[] := '{}';
    no_worker text;
    tail      text := E'\nWhether its row is locked is not known: the tables are distributed by Citus.';
BEGIN
    SELECT j.queue, j.kind, j.state, j.run_at, j.attempt, j.claimed_by, j.claimed_at, j.lease_expires_at INTO job
    FROM {schema}.jobs j WHERE j.id = why_not_running.id;
    IF NOT FOUND THEN
        RETURN {schema}.how_it_ended(why_not_running.id);
    END IF;
    head := format('Job %s (kind "%s", queue "%s")', why_not_running.id, job.kind, job.queue);
    IF job.state = 'running' THEN
        RETURN head || format(' is running: attempt %s is held by %s since %s, ', job.attempt, coalesce(job.claimed_by, 'somebody unknown'), {schema}.in_words(job.claimed_at))
            || CASE WHEN job.lease_expires_at < clock_timestamp() THEN 'but its lease ran out at ' ELSE 'with a lease until ' END
            || {schema}.in_words(job.lease_expires_at) || '.' || tail;
    END IF;
    reasons := reasons || {schema}.pauses_in_words(job.queue, job.kind, job.run_at);
    IF job.run_at > clock_timestamp() THEN
        reasons := reasons || ('it is due at ' || {schema}.in_words(job.run_at));
    END IF;
    no_worker := {schema}.why_no_worker(job.queue, job.kind, job.run_at);
    IF no_worker IS NOT NULL THEN
        reasons := reasons || no_worker;
    END IF;
    IF cardinality(reasons) = 0 THEN
        RETURN head || ' is due since ' || {schema}.in_words(job.run_at) || ': live workers take the jobs of the queue in turn.' || tail;
    END IF;
    RETURN head || ' does not run, because ' || array_to_string(reasons, E'.\nAlso: ') || '.' || tail;
END {tag};

-- Its one plan for all calls does not tell Citus the queue.
ALTER FUNCTION {schema}.enqueue_unique_batch(text, text[], text[], text[], text[], text[], text[], smallint[], timestamptz[], bigint[], smallint[],
    text[], text[], bigint[], text) SET plan_cache_mode = 'force_custom_plan';
