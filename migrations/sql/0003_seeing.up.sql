-- pgqueue, version 3: seeing it. Who works (workers, heartbeat, goodbye), how much there is (queue_stats, cached_stats), what runs, hangs,
-- failed and finished (active_jobs, stuck_jobs, needs_attention, job_log, attempts), and why a job does not run (why_not_running).
--
-- One file is one transaction; see version 1. Of what is there already two bodies are replaced, those of expire_attention and drop_history.
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
              AND c.relname = ANY (ARRAY['workers', 'workers_pkey', 'stats_cache', 'stats_cache_pkey', 'queue_stats', 'active_jobs', 'stuck_jobs',
                                         'needs_attention', 'job_log', 'live_workers', 'attempts'])
            UNION ALL
            SELECT 'type ' || quote_ident(t.typname)
            FROM pg_type t
            WHERE t.typnamespace = n.oid AND t.typrelid = 0
              AND t.typname = ANY (ARRAY['workers', 'stats_cache', 'queue_stats', 'active_jobs', 'stuck_jobs', 'needs_attention', 'job_log',
                                         'live_workers', 'attempts'])
            UNION ALL
            SELECT 'function ' || quote_ident(p.proname)
            FROM pg_proc p
            WHERE p.pronamespace = n.oid
              AND p.proname = ANY (ARRAY['heartbeat', 'goodbye', 'queue_names', 'count_queues', 'cached_stats', 'why_not_running',
                                         'in_words', 'query_in_words', 'sessions_in_words', 'lockers_in_words', 'table_lockers_in_words',
                                         'why_no_worker', 'how_it_ended'])
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

-- --------------------------------------------------------------------------------------------------------------------- workers ----

CREATE TABLE {schema}.workers (
    started_at      timestamptz NOT NULL,
    seen_at         timestamptz NOT NULL,
    heartbeat_every interval    NOT NULL,
    pid             int         NOT NULL,
    stopping        boolean     NOT NULL,
    id              text        NOT NULL,
    host            text        NOT NULL,
    version         text        NOT NULL,
    queues          jsonb       NOT NULL,
    kinds           jsonb       NOT NULL,
    CONSTRAINT workers_pkey PRIMARY KEY (id)
)
-- One row a process, written every few seconds: no index but the primary key, and half of each page free, so that every write is HOT
-- and cleans up after the one before. The rest as for jobs.
WITH (fillfactor = 50, vacuum_truncate = off, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500,
      autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 5000,
      toast.vacuum_truncate = off, toast.autovacuum_vacuum_scale_factor = 0, toast.autovacuum_vacuum_threshold = 500);

COMMENT ON TABLE {schema}.workers IS
    'pgqueue: the processes that work, one row each, written by themselves every few seconds. For people and for why_not_running: nothing else is decided by it. See live_workers.';
COMMENT ON INDEX {schema}.workers_pkey IS
    'pgqueue: one worker by its id.';
COMMENT ON COLUMN {schema}.workers.started_at IS
    'When the worker started.';
COMMENT ON COLUMN {schema}.workers.seen_at IS
    'When it last reported itself, by the database clock. Rows that are an hour old are deleted by other workers.';
COMMENT ON COLUMN {schema}.workers.heartbeat_every IS
    'How often it means to report. Silent for three times as long = not live any more.';
COMMENT ON COLUMN {schema}.workers.pid IS
    'Number of the process on its host.';
COMMENT ON COLUMN {schema}.workers.stopping IS
    'true = it claims nothing more and ends when its running jobs have.';
COMMENT ON COLUMN {schema}.workers.id IS
    'The worker as it stands in claimed_by.';
COMMENT ON COLUMN {schema}.workers.host IS
    'Name of the machine or pod.';
COMMENT ON COLUMN {schema}.workers.version IS
    'Version of the application; empty where it told none.';
COMMENT ON COLUMN {schema}.workers.queues IS
    'What it serves: {"mail": {"workers": 10, "in_flight": 3, "buffered": 0, "stuck": 0, "paused_until": null}}.';
COMMENT ON COLUMN {schema}.workers.kinds IS
    'Kinds that it has handlers for, with their bound in each queue and what runs in each now: {"send": {"workers": 5, "in_flight": {"mail": 2}}}. An alias has alias_of.';

-- One statement a process and interval. Those who are gone without a goodbye are removed by those who live: SKIP LOCKED, so that two
-- do not wait for each other, and a bounded number of them.
CREATE FUNCTION {schema}.heartbeat(
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
REVOKE ALL ON FUNCTION {schema}.heartbeat(text, text, int, text, timestamptz, interval, boolean, jsonb, jsonb) FROM PUBLIC;

CREATE FUNCTION {schema}.goodbye(id text) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS {tag}
    DELETE FROM {schema}.workers w WHERE w.id = goodbye.id;
{tag};

COMMENT ON FUNCTION {schema}.goodbye(text) IS
    'pgqueue: a worker has stopped and leaves the list.';
REVOKE ALL ON FUNCTION {schema}.goodbye(text) FROM PUBLIC;

-- What live means is decided here and nowhere else.
CREATE VIEW {schema}.live_workers AS
SELECT w.id, w.host, w.pid, w.version, w.started_at, w.seen_at, w.heartbeat_every, w.stopping,
       t.workers, t.in_flight, t.buffered, t.stuck, w.queues, w.kinds
FROM {schema}.workers w
     CROSS JOIN LATERAL (
        -- A number that is none counts as nothing: one process that reports nonsense must not take the list from everybody.
        SELECT coalesce(sum(CASE WHEN q.value->>'workers'   ~ '^[0-9]{1,9}$' THEN (q.value->>'workers')::int   END), 0) AS workers,
               coalesce(sum(CASE WHEN q.value->>'in_flight' ~ '^[0-9]{1,9}$' THEN (q.value->>'in_flight')::int END), 0) AS in_flight,
               coalesce(sum(CASE WHEN q.value->>'buffered'  ~ '^[0-9]{1,9}$' THEN (q.value->>'buffered')::int  END), 0) AS buffered,
               coalesce(sum(CASE WHEN q.value->>'stuck'     ~ '^[0-9]{1,9}$' THEN (q.value->>'stuck')::int     END), 0) AS stuck
        FROM jsonb_each(w.queues) q) t
WHERE w.seen_at > statement_timestamp() - greatest(3 * w.heartbeat_every, interval '15 s');

COMMENT ON VIEW {schema}.live_workers IS
    'pgqueue: the workers that reported themselves within three of their intervals.';
COMMENT ON COLUMN {schema}.live_workers.id IS 'The worker as it stands in claimed_by.';
COMMENT ON COLUMN {schema}.live_workers.host IS 'Name of the machine or pod.';
COMMENT ON COLUMN {schema}.live_workers.pid IS 'Number of the process on its host.';
COMMENT ON COLUMN {schema}.live_workers.version IS 'Version of the application.';
COMMENT ON COLUMN {schema}.live_workers.started_at IS 'When it started.';
COMMENT ON COLUMN {schema}.live_workers.seen_at IS 'When it last reported itself.';
COMMENT ON COLUMN {schema}.live_workers.heartbeat_every IS 'How often it means to report.';
COMMENT ON COLUMN {schema}.live_workers.stopping IS 'true = it claims nothing more.';
COMMENT ON COLUMN {schema}.live_workers.workers IS 'How many jobs it runs at once at most, over all of its queues.';
COMMENT ON COLUMN {schema}.live_workers.in_flight IS 'How many it runs now.';
COMMENT ON COLUMN {schema}.live_workers.buffered IS 'How many it has claimed and not started.';
COMMENT ON COLUMN {schema}.live_workers.stuck IS 'How many of those that run are past their deadline and do not end.';
COMMENT ON COLUMN {schema}.live_workers.queues IS 'The same numbers by queue; see workers.';
COMMENT ON COLUMN {schema}.live_workers.kinds IS 'The kinds that it has handlers for; see workers.';

-- ---------------------------------------------------------------------------------------------------------------- queue_names ----

-- From each index one look-up a name: DISTINCT would read every row. The settings of the function hold while its statement is planned: the
-- bound must hold whatever the statistics say, and where they are old a bitmap scan and a sort of a million rows look cheap.
CREATE FUNCTION {schema}.queue_names(most int DEFAULT 1000) RETURNS TABLE (queue text)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_sort = off SET plan_cache_mode = force_generic_plan SET jit = off AS {tag}
#variable_conflict use_column
BEGIN
    IF queue_names.most IS NULL OR queue_names.most < 0 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'most',
            MESSAGE = format('queue_names: most must not be negative, but is %s', coalesce(queue_names.most::text, 'NULL'));
    END IF;
    RETURN QUERY
    WITH RECURSIVE pending AS (
        (SELECT j.queue, 1 AS n FROM {schema}.jobs j WHERE j.state = 'pending' ORDER BY j.queue LIMIT 1)
        UNION ALL
        SELECT (SELECT j.queue FROM {schema}.jobs j WHERE j.state = 'pending' AND j.queue > p.queue ORDER BY j.queue LIMIT 1), p.n + 1
        FROM pending p WHERE p.queue IS NOT NULL AND p.n < queue_names.most
    ),
    running AS (
        (SELECT j.queue, 1 AS n FROM {schema}.jobs j WHERE j.state = 'running' ORDER BY j.queue LIMIT 1)
        UNION ALL
        SELECT (SELECT j.queue FROM {schema}.jobs j WHERE j.state = 'running' AND j.queue > p.queue ORDER BY j.queue LIMIT 1), p.n + 1
        FROM running p WHERE p.queue IS NOT NULL AND p.n < queue_names.most
    ),
    ended AS (
        (SELECT h.queue, 1 AS n FROM {schema}.history_attention h ORDER BY h.queue LIMIT 1)
        UNION ALL
        SELECT (SELECT h.queue FROM {schema}.history_attention h WHERE h.queue > p.queue ORDER BY h.queue LIMIT 1), p.n + 1
        FROM ended p WHERE p.queue IS NOT NULL AND p.n < queue_names.most
    )
    SELECT a.queue
    FROM (SELECT p.queue FROM pending p UNION SELECT r.queue FROM running r UNION SELECT e.queue FROM ended e
          UNION (SELECT q.name FROM {schema}.queues q ORDER BY q.name LIMIT queue_names.most)) a
    WHERE a.queue IS NOT NULL ORDER BY a.queue LIMIT queue_names.most;
END {tag};

COMMENT ON FUNCTION {schema}.queue_names(int) IS
    'pgqueue: the queues that hold live, failed or dead jobs or have settings, sorted, at most so many. One look-up in the index a name.';
REVOKE ALL ON FUNCTION {schema}.queue_names(int) FROM PUBLIC;

-- --------------------------------------------------------------------------------------------------------------- count_queues ----

-- Ten ranges of an index a queue, each of at most one row more than the bound: the one more says that there are more.
-- The ORDER BY in each range is that of one index; together with the settings it leaves the planner no other way.
CREATE FUNCTION {schema}.count_queues(queues text[], most int DEFAULT 10000)
RETURNS TABLE (queue text, ready1 bigint, ready2 bigint, ready3 bigint, ready4 bigint, oldest_ready_seconds float8,
    scheduled bigint, retrying bigint, running bigint, expired bigint, failed bigint, dead bigint, capped boolean)
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 10 SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_sort = off SET plan_cache_mode = force_generic_plan SET jit = off AS {tag}
#variable_conflict use_column
BEGIN
    IF count_queues.most IS NULL OR count_queues.most < 0 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'most',
            MESSAGE = format('count_queues: most must not be negative, but is %s', coalesce(count_queues.most::text, 'NULL'));
    END IF;
    RETURN QUERY
    SELECT u.queue, least(due.n[1], count_queues.most), least(due.n[2], count_queues.most), least(due.n[3], count_queues.most),
           least(due.n[4], count_queues.most), due.oldest,
           least(future.scheduled, count_queues.most), least(future.retrying, count_queues.most),
           least(running.n, count_queues.most), least(running.expired, count_queues.most),
           least(ended.failed, count_queues.most), least(ended.dead, count_queues.most),
           greatest(due.most, future.most, running.n, ended.n) > count_queues.most
    FROM unnest(count_queues.queues) WITH ORDINALITY AS u (queue, ord)
         CROSS JOIN LATERAL (
            SELECT array_agg(x.n ORDER BY c.priority) AS n, max(x.n) AS most,
                   coalesce(extract(epoch FROM statement_timestamp() - min(x.oldest)), 0)::float8 AS oldest
            FROM unnest(ARRAY[1, 2, 3, 4]::smallint[]) AS c (priority)
                 CROSS JOIN LATERAL (
                    SELECT count(*) AS n, min(r.run_at) FILTER (WHERE isfinite(r.run_at)) AS oldest
                    FROM (SELECT j.run_at FROM {schema}.jobs j
                          WHERE j.queue = u.queue AND j.priority = c.priority AND j.state = 'pending' AND j.run_at <= statement_timestamp()
                          ORDER BY j.run_at, j.id LIMIT count_queues.most::bigint + 1) r) x) due
         CROSS JOIN LATERAL (
            SELECT sum(x.scheduled)::bigint AS scheduled, sum(x.retrying)::bigint AS retrying, max(x.n) AS most
            FROM unnest(ARRAY[1, 2, 3, 4]::smallint[]) AS c (priority)
                 CROSS JOIN LATERAL (
                    SELECT count(*) FILTER (WHERE r.failures = 0) AS scheduled, count(*) FILTER (WHERE r.failures > 0) AS retrying, count(*) AS n
                    FROM (SELECT j.failures FROM {schema}.jobs j
                          WHERE j.queue = u.queue AND j.priority = c.priority AND j.state = 'pending' AND j.run_at > statement_timestamp()
                          ORDER BY j.run_at, j.id LIMIT count_queues.most::bigint + 1) r) x) future
         CROSS JOIN LATERAL (
            SELECT count(*) AS n, count(*) FILTER (WHERE r.lease_expires_at < statement_timestamp()) AS expired
            FROM (SELECT j.lease_expires_at FROM {schema}.jobs j
                  WHERE j.queue = u.queue AND j.state = 'running'
                  ORDER BY j.claimed_at, j.id LIMIT count_queues.most::bigint + 1) r) running
         CROSS JOIN LATERAL (
            SELECT count(*) FILTER (WHERE r.state = 'failed') AS failed, count(*) FILTER (WHERE r.state = 'dead') AS dead, count(*) AS n
            -- BETWEEN instead of =, because otherwise the index by time alone gives the same order, with other queues' rows in it.
            FROM (SELECT h.state FROM {schema}.history_attention h
                  WHERE h.queue BETWEEN u.queue AND u.queue
                  ORDER BY h.queue DESC, h.finished_at DESC LIMIT count_queues.most::bigint + 1) r) ended
    ORDER BY u.ord;
END {tag};

COMMENT ON FUNCTION {schema}.count_queues(text[], int) IS
    'pgqueue: what these queues hold, counted by index and no further than most; capped = some number would have been larger. Scheduled and retrying are told apart among the first so many of each priority, expired among the oldest claims, failed and dead among the latest.';
REVOKE ALL ON FUNCTION {schema}.count_queues(text[], int) FROM PUBLIC;

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

-- --------------------------------------------------------------------------------------------------------------- cached_stats ----

CREATE TABLE {schema}.stats_cache (
    taken_at timestamptz NOT NULL,
    one      boolean     NOT NULL DEFAULT true,
    stats    jsonb       NOT NULL,
    CONSTRAINT stats_cache_pkey PRIMARY KEY (one),
    CONSTRAINT stats_cache_one_check CHECK (one)
)
WITH (fillfactor = 50, vacuum_truncate = off, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500,
      toast.vacuum_truncate = off, toast.autovacuum_vacuum_scale_factor = 0, toast.autovacuum_vacuum_threshold = 500);

COMMENT ON TABLE {schema}.stats_cache IS
    'pgqueue: the numbers that cached_stats took last, one row. Scrapes of many processes cost one count.';
COMMENT ON INDEX {schema}.stats_cache_pkey IS
    'pgqueue: the one row.';
COMMENT ON COLUMN {schema}.stats_cache.taken_at IS
    'When they were taken.';
COMMENT ON COLUMN {schema}.stats_cache.one IS
    'Always true: there is one row.';
COMMENT ON COLUMN {schema}.stats_cache.stats IS
    'The rows of count_queues as a JSON array.';

INSERT INTO {schema}.stats_cache (taken_at, stats) VALUES ('-infinity', '[]');

-- * Who finds the numbers too old locks the row and counts; who finds it locked takes the numbers that are there. Nobody waits.
-- * The lock lasts to the end of the caller's transaction, and so does the age of what others get: call it by itself.
-- * On a standby, in a read-only transaction and in one with an old snapshot nothing can be kept for others: it counts for itself.
-- * A time in the future (restored on a server whose clock is behind) is not fresh; a few seconds are other calls of this moment.
CREATE FUNCTION {schema}.cached_stats(max_age interval)
RETURNS TABLE (taken_at timestamptz, queue text, ready1 bigint, ready2 bigint, ready3 bigint, ready4 bigint, oldest_ready_seconds float8,
    scheduled bigint, retrying bigint, running bigint, expired bigint, failed bigint, dead bigint, capped boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS {tag}
#variable_conflict use_column
DECLARE
    oldest timestamptz := statement_timestamp() - cached_stats.max_age;
    newest timestamptz := statement_timestamp() + interval '1 minute';
    cached {schema}.stats_cache%ROWTYPE;
    locked {schema}.stats_cache%ROWTYPE;
    alone  boolean := current_setting('transaction_read_only') = 'on' OR current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted');
BEGIN
    IF cached_stats.max_age IS NULL OR cached_stats.max_age < interval '0' THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'max_age',
            MESSAGE = format('cached_stats: max_age must not be negative, but is %s', coalesce(cached_stats.max_age::text, 'NULL'));
    END IF;

    SELECT * INTO cached FROM {schema}.stats_cache c;
    IF cached.taken_at IS NULL AND NOT alone THEN -- somebody deleted the row
        INSERT INTO {schema}.stats_cache (taken_at, stats) VALUES ('-infinity', '[]') ON CONFLICT DO NOTHING;
    END IF;
    IF cached.taken_at IS NULL OR cached.taken_at NOT BETWEEN oldest AND newest THEN
        IF NOT alone THEN
            -- The latest version of the row, not the snapshot's: somebody may have counted since.
            SELECT * INTO locked FROM {schema}.stats_cache c FOR UPDATE SKIP LOCKED;
            IF FOUND THEN
                cached := locked;
            END IF;
        END IF;
        IF alone OR locked.taken_at NOT BETWEEN oldest AND newest THEN
            cached.taken_at := statement_timestamp();
            SELECT coalesce(jsonb_agg(to_jsonb(n)), '[]') INTO cached.stats
            FROM {schema}.count_queues(ARRAY (SELECT q.queue FROM {schema}.queue_names() q)) n;
            IF NOT alone THEN
                UPDATE {schema}.stats_cache c SET taken_at = cached.taken_at, stats = cached.stats;
            END IF;
        END IF;
    END IF;

    RETURN QUERY
    SELECT cached.taken_at, r.*
    FROM jsonb_to_recordset(cached.stats) AS r (queue text, ready1 bigint, ready2 bigint, ready3 bigint, ready4 bigint,
        oldest_ready_seconds float8, scheduled bigint, retrying bigint, running bigint, expired bigint, failed bigint, dead bigint,
        capped boolean);
END {tag};

COMMENT ON FUNCTION {schema}.cached_stats(interval) IS
    'pgqueue: the numbers of queue_stats, counted at most once in max_age for all callers together; taken_at says when. Nobody waits: while one counts, the others get the numbers before. For metrics; call it outside of longer transactions.';
REVOKE ALL ON FUNCTION {schema}.cached_stats(interval) FROM PUBLIC;

-- ----------------------------------------------------------------------------------------------------------------------- views ----

-- None shows a payload, metadata or a result: who may read a view may not read those. Like every view they read with the owner's rights.
-- A condition or an ORDER BY ... LIMIT on id, queue, state, key or day reaches the tables below and is answered by index; a test asks the planner.

-- Infinite times, which only SQL by hand can make, have no distance: they must not take the list from everybody.
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

CREATE VIEW {schema}.stuck_jobs AS
SELECT j.id, j.queue, j.kind, j.key, j.attempt, j.claimed_by AS worker, j.claimed_at AS started_at, j.lease_expires_at, j.cancel_requested_at,
       w.seen_at AS worker_seen_at,
       CASE WHEN j.lease_expires_at < statement_timestamp()
                THEN 'the lease has run out and nobody has returned the job yet'
            WHEN j.cancel_requested_at < statement_timestamp() - interval '1 min'
                THEN 'it was asked to stop and goes on'
            ELSE 'its worker is silent' END AS reason
FROM {schema}.jobs j
     LEFT JOIN {schema}.workers w ON w.id = j.claimed_by
WHERE j.state = 'running'
  AND (j.lease_expires_at < statement_timestamp()
       OR j.cancel_requested_at < statement_timestamp() - interval '1 min'
       OR w.seen_at < statement_timestamp() - greatest(3 * w.heartbeat_every, interval '15 s'));

COMMENT ON VIEW {schema}.stuck_jobs IS
    'pgqueue: running jobs with which something is wrong: the lease has run out, or a request to stop is a minute old, or their worker is silent.';
COMMENT ON COLUMN {schema}.stuck_jobs.id IS 'Number of the job.';
COMMENT ON COLUMN {schema}.stuck_jobs.queue IS 'Name of the queue.';
COMMENT ON COLUMN {schema}.stuck_jobs.kind IS 'Which handler does the work.';
COMMENT ON COLUMN {schema}.stuck_jobs.key IS 'Stable key of the work; NULL = none.';
COMMENT ON COLUMN {schema}.stuck_jobs.attempt IS 'Number of this attempt.';
COMMENT ON COLUMN {schema}.stuck_jobs.worker IS 'Who holds it.';
COMMENT ON COLUMN {schema}.stuck_jobs.started_at IS 'When it was claimed.';
COMMENT ON COLUMN {schema}.stuck_jobs.lease_expires_at IS 'End of the lease.';
COMMENT ON COLUMN {schema}.stuck_jobs.cancel_requested_at IS 'When somebody asked it to stop.';
COMMENT ON COLUMN {schema}.stuck_jobs.worker_seen_at IS 'When its worker last reported itself; NULL = it is not on the list.';
COMMENT ON COLUMN {schema}.stuck_jobs.reason IS 'What is wrong.';

CREATE VIEW {schema}.needs_attention AS
SELECT h.id, h.queue, h.kind, h.key, h.state, h.finished_at, h.errors->-1->>'code' AS code, h.errors->-1->>'message' AS message,
       h.attempt, h.failures, h.max_attempts, h.error_count, h.claimed_by AS worker, h.priority, h.created_at, h.tags
FROM {schema}.history_attention h;

COMMENT ON VIEW {schema}.needs_attention IS
    'pgqueue: the failed and dead jobs, with their last error. retry(id) brings one back.';
COMMENT ON COLUMN {schema}.needs_attention.id IS 'Number of the job.';
COMMENT ON COLUMN {schema}.needs_attention.queue IS 'Name of the queue.';
COMMENT ON COLUMN {schema}.needs_attention.kind IS 'Which handler did the work.';
COMMENT ON COLUMN {schema}.needs_attention.key IS 'Stable key of the work; NULL = none.';
COMMENT ON COLUMN {schema}.needs_attention.state IS 'failed = trying again is pointless, says the handler; dead = the attempts are spent.';
COMMENT ON COLUMN {schema}.needs_attention.finished_at IS 'When it ended.';
COMMENT ON COLUMN {schema}.needs_attention.code IS 'Code of the last error.';
COMMENT ON COLUMN {schema}.needs_attention.message IS 'Its message, as far as it is stored.';
COMMENT ON COLUMN {schema}.needs_attention.attempt IS 'How often it had been claimed.';
COMMENT ON COLUMN {schema}.needs_attention.failures IS 'How many attempts of its last input failed.';
COMMENT ON COLUMN {schema}.needs_attention.max_attempts IS 'How many might fail.';
COMMENT ON COLUMN {schema}.needs_attention.error_count IS 'All errors in its life.';
COMMENT ON COLUMN {schema}.needs_attention.worker IS 'Who ran the last attempt.';
COMMENT ON COLUMN {schema}.needs_attention.priority IS '1 (first) to 4 (last).';
COMMENT ON COLUMN {schema}.needs_attention.created_at IS 'When it was enqueued.';
COMMENT ON COLUMN {schema}.needs_attention.tags IS 'Labels.';

-- Neither arm has a WHERE or a join: so Postgres takes the UNION ALL for one table with parts, and can merge the parts by id.
CREATE VIEW {schema}.job_log AS
SELECT j.id, j.queue, j.kind, j.key, j.revision, j.state, j.priority, j.attempt, j.failures, j.max_attempts, j.error_count,
       j.run_at, j.created_at, j.claimed_at AS started_at, NULL::timestamptz AS finished_at, NULL::date AS day, j.claimed_by AS worker,
       j.errors->-1->>'code' AS code, j.errors->-1->>'message' AS message, j.tags
FROM {schema}.jobs j
UNION ALL
SELECT h.id, h.queue, h.kind, h.key, h.revision, h.state, h.priority, h.attempt, h.failures, h.max_attempts, h.error_count,
       h.run_at, h.created_at, h.claimed_at, h.finished_at, h.day, h.claimed_by,
       h.errors->-1->>'code', h.errors->-1->>'message', h.tags
FROM {schema}.history h;

COMMENT ON VIEW {schema}.job_log IS
    'pgqueue: all jobs, live and finished. Ask for id, for queue and state of live ones, for a day, or with ORDER BY id DESC LIMIT: these go by index. Live ones have no finished_at.';
COMMENT ON COLUMN {schema}.job_log.id IS 'Number of the job; a later one was enqueued later.';
COMMENT ON COLUMN {schema}.job_log.queue IS 'Name of the queue.';
COMMENT ON COLUMN {schema}.job_log.kind IS 'Which handler does the work.';
COMMENT ON COLUMN {schema}.job_log.key IS 'Stable key of the work; NULL = none.';
COMMENT ON COLUMN {schema}.job_log.revision IS 'Revision of its input; NULL = none.';
COMMENT ON COLUMN {schema}.job_log.state IS 'pending, running, succeeded, failed, dead or cancelled.';
COMMENT ON COLUMN {schema}.job_log.priority IS '1 (first) to 4 (last).';
COMMENT ON COLUMN {schema}.job_log.attempt IS 'How often it was claimed.';
COMMENT ON COLUMN {schema}.job_log.failures IS 'How many attempts of this input failed.';
COMMENT ON COLUMN {schema}.job_log.max_attempts IS 'How many may fail.';
COMMENT ON COLUMN {schema}.job_log.error_count IS 'All errors in its life.';
COMMENT ON COLUMN {schema}.job_log.run_at IS 'When it is or was due.';
COMMENT ON COLUMN {schema}.job_log.created_at IS 'When it was enqueued.';
COMMENT ON COLUMN {schema}.job_log.started_at IS 'Start of the last attempt; NULL = none, or it was given back.';
COMMENT ON COLUMN {schema}.job_log.finished_at IS 'When it ended; NULL = it is live.';
COMMENT ON COLUMN {schema}.job_log.day IS 'UTC day on which it succeeded or was cancelled, infinity for failed and dead, NULL for live. A condition on it spares the other days.';
COMMENT ON COLUMN {schema}.job_log.worker IS 'Who ran the last attempt.';
COMMENT ON COLUMN {schema}.job_log.code IS 'Code of the last error; also of a job that succeeded later.';
COMMENT ON COLUMN {schema}.job_log.message IS 'Its message, as far as it is stored.';
COMMENT ON COLUMN {schema}.job_log.tags IS 'Labels.';

-- What is shown is what is stored anyway: the entries of errors, the claim that is open, and the run that ended the job. So attempts cost
-- the hot row nothing; and what spends nothing (snoozed, released, superseded) leaves no trace.
-- An entry that is not as it should be must not take the list from everybody: hence the patterns before each cast.
CREATE VIEW {schema}.attempts AS
SELECT l.id AS job_id, l.queue, l.kind, a.attempt, a.outcome, a.worker, a.started_at, a.ended_at, a.code, a.message
FROM (SELECT j.id, j.queue, j.kind, j.state, j.attempt, j.claimed_by, j.claimed_at, NULL::timestamptz AS finished_at, j.errors
      FROM {schema}.jobs j
      UNION ALL
      SELECT h.id, h.queue, h.kind, h.state, h.attempt, h.claimed_by, h.claimed_at, h.finished_at, h.errors
      FROM {schema}.history h) l
     CROSS JOIN LATERAL (
        SELECT n.attempt, 'failed' AS outcome, e.value->>'by' AS worker,
               coalesce(CASE WHEN e.value->>'started' ~ '^[0-9]{4}-(0[1-9]|1[0-2])-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-5][0-9]([.][0-9]+)?(Z|[+-][0-9:]{2,8})$'
                             THEN (e.value->>'started')::timestamptz END,
                        CASE WHEN n.attempt = l.attempt THEN l.claimed_at END) AS started_at,
               CASE WHEN e.value->>'at' ~ '^[0-9]{4}-(0[1-9]|1[0-2])-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-5][0-9]([.][0-9]+)?(Z|[+-][0-9:]{2,8})$'
                    THEN (e.value->>'at')::timestamptz END AS ended_at,
               e.value->>'code' AS code, e.value->>'message' AS message
        FROM jsonb_array_elements(CASE WHEN jsonb_typeof(l.errors) = 'array' THEN l.errors END) e
             CROSS JOIN LATERAL (SELECT CASE WHEN e.value->>'attempt' ~ '^[0-9]{1,9}$' THEN (e.value->>'attempt')::int END AS attempt) n
        UNION ALL
        SELECT l.attempt, l.state, l.claimed_by, l.claimed_at, l.finished_at, NULL, NULL
        WHERE l.state IN ('running', 'succeeded')
           OR l.state = 'cancelled' AND l.claimed_at IS NOT NULL AND l.errors->-1->>'attempt' IS DISTINCT FROM l.attempt::text) a;

COMMENT ON VIEW {schema}.attempts IS
    'pgqueue: one row for each attempt that is known: the last ten that failed, the one that runs, the one that succeeded or was cancelled. Ask for job_id. Attempts that were snoozed, released or superseded spend nothing and are not kept.';
COMMENT ON COLUMN {schema}.attempts.job_id IS 'Number of the job.';
COMMENT ON COLUMN {schema}.attempts.queue IS 'Name of the queue.';
COMMENT ON COLUMN {schema}.attempts.kind IS 'Which handler did the work.';
COMMENT ON COLUMN {schema}.attempts.attempt IS 'Number of the attempt.';
COMMENT ON COLUMN {schema}.attempts.outcome IS 'failed, running, succeeded or cancelled.';
COMMENT ON COLUMN {schema}.attempts.worker IS 'Who ran it.';
COMMENT ON COLUMN {schema}.attempts.started_at IS 'When it was claimed; NULL = not known.';
COMMENT ON COLUMN {schema}.attempts.ended_at IS 'When its outcome was written; NULL = it runs.';
COMMENT ON COLUMN {schema}.attempts.code IS 'Code of the error.';
COMMENT ON COLUMN {schema}.attempts.message IS 'Its message, as far as it is stored.';

-- ------------------------------------------------------------------------------------------------------------ why_not_running ----

-- Whatever TimeZone, DateStyle and IntervalStyle say, people read the same words.
CREATE FUNCTION {schema}.in_words(span interval) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS {tag}
DECLARE
    s numeric := abs(extract(epoch FROM span));
    n bigint;
BEGIN
    IF s < 1 THEN
        RETURN round(s, 1) || ' s';
    END IF;
    n := trunc(s);
    RETURN CASE WHEN n < 60    THEN n || ' s'
                WHEN n < 3600  THEN n / 60 || ' min' || CASE WHEN n % 60 > 0 THEN ' ' || n % 60 || ' s' ELSE '' END
                WHEN n < 86400 THEN n / 3600 || ' h' || CASE WHEN n % 3600 >= 60 THEN ' ' || n % 3600 / 60 || ' min' ELSE '' END
                ELSE n / 86400 || CASE WHEN n < 172800 THEN ' day' ELSE ' days' END
                     || CASE WHEN n % 86400 >= 3600 THEN ' ' || n % 86400 / 3600 || ' h' ELSE '' END END;
END {tag};

COMMENT ON FUNCTION {schema}.in_words(interval) IS
    'pgqueue: a span for people, without its sign: 2 h 5 min.';

CREATE FUNCTION {schema}.in_words(at timestamptz) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS {tag}
BEGIN
    IF at IS NULL THEN
        RETURN 'an unknown time';
    ELSIF NOT isfinite(at) THEN
        RETURN at::text;
    END IF;
    RETURN to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS') || ' UTC ('
        || CASE WHEN at > clock_timestamp() THEN 'in ' || {schema}.in_words(at - clock_timestamp())
                ELSE {schema}.in_words(clock_timestamp() - at) || ' ago' END || ')';
END {tag};

COMMENT ON FUNCTION {schema}.in_words(timestamptz) IS
    'pgqueue: a time for people, in UTC and as a distance: 2030-01-31 12:00:00 UTC (in 2 h 5 min).';

-- What a session runs, for people who may not see data: every string, number and comment is left out, for they may hold what belongs
-- to a payload, or a password. Read token by token, as Postgres does, because a quote within a comment, a name or another string begins
-- nothing. Where a literal has no end in the text (which the server cuts too), or where it depends on the session's
-- standard_conforming_strings whether it ends, the rest is left out. Its own text must not depend on that either: hence E''.
CREATE FUNCTION {schema}.query_in_words(query text) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS {tag}
DECLARE
    rest  text := left(query, 2000);
    shown text := '';
    token text;
    depth int;
    place int;
BEGIN
    WHILE rest <> '' AND length(shown) <= 300 LOOP
        -- Blanks, and comments to the end of the line.
        token := substring(rest FROM E'^(?:[[:space:]]|--[^\\n\\r]*)+');
        IF token IS NOT NULL THEN
            shown := shown || ' ';
        ELSIF left(rest, 2) = '/*' THEN -- these nest
            depth := 1;
            place := 3;
            WHILE depth > 0 AND place <= length(rest) LOOP
                depth := depth + CASE substr(rest, place, 2) WHEN '/*' THEN 1 WHEN '*/' THEN -1 ELSE 0 END;
                place := place + CASE WHEN substr(rest, place, 2) IN ('/*', '*/') THEN 2 ELSE 1 END;
            END LOOP;
            token := left(rest, place - 1);
            shown := shown || ' ';
        ELSIF left(rest, 1) = '"' THEN -- a name
            token := substring(rest FROM '^"(?:[^"]|"")*"');
            shown := shown || coalesce(token, '');
        ELSIF left(rest, 1) = '''' THEN
            token := substring(rest FROM '^''(?:[^'']|'''')*''');
            IF position(E'\\''' IN token) > 0 THEN
                token := NULL;
            END IF;
            shown := shown || '?';
        ELSIF left(rest, 2) IN ('e''', 'E''') THEN
            token := substring(rest FROM E'^.''(?:[^''\\\\]|\\\\.|'''')*''');
            shown := shown || '?';
        ELSIF rest ~ E'^[.]?[0-9]' THEN
            token := substring(rest FROM E'^[.]?[0-9][0-9a-zA-Z_.]*');
            shown := shown || '?';
        ELSIF rest ~ E'^[$](?:[a-zA-Z_]|[^\\u0001-\\u007f]|[$])' THEN
            token := substring(rest FROM E'^[$](?:[a-zA-Z_0-9]|[^\\u0001-\\u007f])*[$]');
            place := strpos(substr(rest, length(token) + 1), token);
            token := CASE WHEN place > 0 THEN left(rest, 2 * length(token) + place - 1) END;
            shown := shown || '?';
        ELSE
            -- A key word or name, a parameter, or one character of anything else.
            token := coalesce(substring(rest FROM E'^(?:[a-zA-Z_]|[^\\u0001-\\u007f])(?:[a-zA-Z_0-9$]|[^\\u0001-\\u007f])*'),
                              substring(rest FROM E'^[$][0-9]+'), left(rest, 1));
            shown := shown || token;
        END IF;
        rest := substr(rest, length(token) + 1);
        IF rest IS NULL THEN
            shown := shown || '…';
            EXIT;
        END IF;
    END LOOP;
    shown := btrim(regexp_replace(shown, ' +', ' ', 'g'));
    RETURN CASE WHEN length(shown) > 300 OR rest <> '' THEN left(shown, 300) || '…' ELSE shown END;
END {tag};

COMMENT ON FUNCTION {schema}.query_in_words(text) IS
    'pgqueue: a query for people, without its strings, numbers and comments, cut to 300 characters.';

-- Who holds some locks, for people. A prepared transaction has no process.
CREATE FUNCTION {schema}.sessions_in_words(pids int[], xids xid[] DEFAULT '{}') RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS {tag}
DECLARE
    words text;
BEGIN
    SELECT string_agg(s.words, '; and by ' ORDER BY s.ord, s.words) INTO words
    FROM (
        SELECT 1 AS ord, CASE WHEN p.pid = pg_backend_pid() THEN 'your own transaction'
            ELSE format('pid %s (user %s, application %s%s, %s)', p.pid, coalesce(a.usename::text, 'unknown'),
                coalesce('"' || a.application_name || '"', 'unknown'), CASE WHEN a.xact_start IS NULL THEN '' ELSE ', in its transaction since ' || {schema}.in_words(a.xact_start) END,
                CASE WHEN a.pid IS NULL THEN 'it has just ended'
                     WHEN a.query = '<insufficient privilege>' OR a.query IS NULL
                         THEN format('what it does is not shown to role %s, which owns this function: GRANT pg_read_all_stats TO it', quote_ident(current_user))
                     ELSE format('%s, %s: %s', coalesce(a.state, 'state unknown'),
                         CASE WHEN a.state = 'active' THEN 'query' ELSE 'last query' END,
                         {schema}.query_in_words(a.query)) END) END AS words
        FROM (SELECT DISTINCT u.pid FROM unnest(pids) u (pid) WHERE u.pid IS NOT NULL) p
             LEFT JOIN pg_stat_activity a ON a.pid = p.pid
        UNION ALL
        SELECT 2, format('the prepared transaction %L (user %s, prepared %s): COMMIT PREPARED or ROLLBACK PREPARED ends it', x.gid, x.owner,
            {schema}.in_words(x.prepared))
        FROM pg_prepared_xacts x WHERE x.transaction = ANY (xids)
        ORDER BY 1, 2 LIMIT 5) s;
    RETURN words;
END {tag};

COMMENT ON FUNCTION {schema}.sessions_in_words(int[], xid[]) IS
    'pgqueue: sessions for people: process, user, application, since when, query without its literals; and prepared transactions.';

-- The transactions that a row names as its lockers, if they are still under way. xmax is one transaction, or a multixact of several, and
-- only the flags of the row, which SQL does not show, say which: so first the one, then the other. The number of a savepoint that
-- was released is known to nobody: then, where the row is certainly locked, it
-- is one of those who have locked rows of the table at all.
CREATE FUNCTION {schema}.lockers_in_words(xmax xid, relation regclass, certain boolean) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS {tag}
DECLARE
    xids  xid[] := ARRAY[xmax];
    pids  int[];
    words text;
BEGIN
    FOR try IN 1 .. 2 LOOP
        SELECT array_agg(l.pid) INTO pids FROM pg_locks l
        WHERE l.locktype = 'transactionid' AND l.granted AND l.mode = 'ExclusiveLock' AND l.transactionid = ANY (xids);
        EXIT WHEN pids IS NOT NULL OR try = 2;
        BEGIN
            SELECT array_agg(m.xid) INTO xids FROM pg_get_multixact_members(xmax) m;
        EXCEPTION WHEN OTHERS THEN
            EXIT; -- no multixact of this number
        END;
    END LOOP;
    words := {schema}.sessions_in_words(pids, xids);
    IF words IS NOT NULL OR NOT certain THEN
        RETURN words;
    END IF;

    -- A prepared transaction has no process, and its number in place of a virtual one.
    SELECT array_agg(l.pid), array_agg(split_part(l.virtualtransaction, '/', 2)::xid) FILTER (WHERE l.pid IS NULL) INTO pids, xids
    FROM pg_locks l
    WHERE l.locktype = 'relation' AND l.relation = lockers_in_words.relation AND l.granted AND l.mode IN ('RowShareLock', 'RowExclusiveLock')
      AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()) AND l.pid IS DISTINCT FROM pg_backend_pid();
    words := {schema}.sessions_in_words(pids, xids);
    RETURN 'a transaction with savepoints, one of those that write to the table: ' || words;
END {tag};

COMMENT ON FUNCTION {schema}.lockers_in_words(xid, regclass, boolean) IS
    'pgqueue: who locks a row with this xmax of this table, for people; NULL = nobody that is still there.';

-- Who keeps workers away from a whole table: modes that conflict with a claim (ROW EXCLUSIVE). A request counts too: it queues in front of
-- every later claim.
CREATE FUNCTION {schema}.table_lockers_in_words(relation regclass) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS {tag}
DECLARE
    words text;
BEGIN
    SELECT string_agg(w.words, ' ' ORDER BY w.granted DESC, w.mode) INTO words
    FROM (
        SELECT l.granted, l.mode, format('%s by %s.', CASE WHEN l.granted THEN l.mode || ' is held' ELSE l.mode || ' is waited for, in front of every claim,' END,
            coalesce({schema}.sessions_in_words(array_agg(l.pid)), 'a transaction without a process here: a prepared one, or one of the primary')) AS words
        FROM pg_locks l
        WHERE l.locktype = 'relation' AND l.relation = table_lockers_in_words.relation
          AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
          AND l.mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
          AND l.pid IS DISTINCT FROM pg_backend_pid()
        GROUP BY l.granted, l.mode) w;
    RETURN words;
END {tag};

COMMENT ON FUNCTION {schema}.table_lockers_in_words(regclass) IS
    'pgqueue: who keeps claims away from a table, for people; NULL = nobody.';

-- Each live worker of the queue with the first thing that keeps it from this kind. What will pass before the job is due is not counted: a
-- worker that is busy now says nothing about tomorrow.
CREATE FUNCTION {schema}.why_no_worker(queue text, kind text, due timestamptz) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS {tag}
#variable_conflict use_column
DECLARE
    live  bigint;
    free  bigint;
    words text;
    name  text;
    seen  timestamptz;
    other text;
BEGIN
    SELECT sum(g.n), sum(g.n) FILTER (WHERE g.obstacle = 'none'),
           string_agg(g.n || CASE g.obstacle
               WHEN 'stopping' THEN CASE WHEN g.n = 1 THEN ' is stopping' ELSE ' are stopping' END
               WHEN 'unknown'  THEN format(CASE WHEN g.n = 1 THEN ' has no handler for kind "%s"' ELSE ' have no handler for kind "%s"' END, why_no_worker.kind)
               WHEN 'paused'   THEN CASE WHEN g.n = 1 THEN ' has paused the queue for itself until ' ELSE ' have paused the queue for themselves, the first until ' END
                                    || coalesce({schema}.in_words(g.until), 'an unknown time')
               WHEN 'bound'    THEN CASE WHEN g.n = 1 THEN ' runs' ELSE ' run' END || format(' as many jobs of kind "%s" as may run at once, its bound', why_no_worker.kind)
               WHEN 'busy'     THEN CASE WHEN g.n = 1 THEN ' is busy with other jobs' ELSE ' are busy with other jobs' END
           END || ' (' || g.who || CASE WHEN g.n > 5 THEN ', …' ELSE '' END || ')', ', ' ORDER BY g.n DESC, g.obstacle) FILTER (WHERE g.obstacle <> 'none')
    INTO live, free, words
    FROM (
        SELECT o.obstacle, count(*) AS n, min(o.until) AS until, string_agg(o.who, ', ' ORDER BY o.id) FILTER (WHERE o.nth <= 5) AS who
        FROM (
            SELECT d.id, d.obstacle, d.until, row_number() OVER (PARTITION BY d.obstacle ORDER BY d.id) AS nth,
                   d.id || CASE d.obstacle WHEN 'bound' THEN format(': %s of %s', d.kind_in_flight, d.kind_workers)
                                           WHEN 'busy'  THEN format(': %s of %s', d.in_flight, d.workers) ELSE '' END AS who
            FROM (
                SELECT n.*, CASE WHEN n.stopping                           THEN 'stopping'
                                 WHEN n.unknown                            THEN 'unknown'
                                 WHEN n.paused AND (n.until IS NULL OR n.until > greatest(why_no_worker.due, clock_timestamp())) THEN 'paused'
                                 WHEN why_no_worker.due > clock_timestamp() THEN 'none'
                                 WHEN n.kind_in_flight >= n.kind_workers   THEN 'bound'
                                 WHEN n.in_flight >= n.workers             THEN 'busy'
                                 ELSE 'none' END AS obstacle
                FROM (
                    -- What is no number, or no time, counts as not told.
                    SELECT w.id, w.stopping, w.kinds <> '{}' AND NOT w.kinds ? why_no_worker.kind AS unknown,
                           q.value->>'paused_until' IS NOT NULL AS paused,
                           CASE WHEN q.value->>'paused_until' ~ '^[0-9]{4}-(0[1-9]|1[0-2])-([0-2][0-9]|30)T[0-2][0-9]:[0-5][0-9]:[0-5][0-9]([.][0-9]+)?(Z|[+-][0-9:]{2,8})$'
                                THEN (q.value->>'paused_until')::timestamptz END AS until,
                           CASE WHEN q.value->>'workers'   ~ '^[1-9][0-9]{0,8}$' THEN (q.value->>'workers')::int END AS workers,
                           CASE WHEN q.value->>'in_flight' ~ '^[0-9]{1,9}$'      THEN (q.value->>'in_flight')::int END AS in_flight,
                           CASE WHEN k.value->>'workers'   ~ '^[1-9][0-9]{0,8}$' THEN (k.value->>'workers')::int END AS kind_workers,
                           CASE WHEN k.value->'in_flight'->>why_no_worker.queue ~ '^[0-9]{1,9}$'
                                THEN (k.value->'in_flight'->>why_no_worker.queue)::int END AS kind_in_flight
                    FROM {schema}.live_workers w
                         CROSS JOIN LATERAL (SELECT w.queues->why_no_worker.queue AS value) q
                         -- An alias shares the bound of its kind.
                         CROSS JOIN LATERAL (SELECT coalesce(w.kinds->(w.kinds->why_no_worker.kind->>'alias_of'), w.kinds->why_no_worker.kind) AS value) k
                    WHERE w.queues ? why_no_worker.queue) n) d) o
        GROUP BY o.obstacle) g;

    IF free > 0 THEN
        RETURN NULL;
    ELSIF live > 0 THEN
        RETURN format(CASE WHEN live = 1 THEN 'its one live worker does not take it: %2$s' ELSE 'none of its %1$s live workers takes it: %2$s' END, live, words);
    END IF;

    -- Programs that were built for version 2, or whose role may not call heartbeat, work without being on the list.
    SELECT j.claimed_by INTO other
    FROM (SELECT x.claimed_by, x.lease_expires_at FROM {schema}.jobs x WHERE x.queue = why_no_worker.queue AND x.state = 'running'
          ORDER BY x.claimed_at DESC, x.id DESC LIMIT 1000) j
    WHERE j.lease_expires_at > statement_timestamp() LIMIT 1;
    IF FOUND THEN
        RETURN format('no worker of the queue is on the list of live ones, although %s, which does not report itself, runs jobs of it: what keeps it from this one is not known here',
            coalesce(other, 'somebody'));
    END IF;
    SELECT w.id, w.seen_at INTO name, seen FROM {schema}.workers w WHERE w.queues ? why_no_worker.queue ORDER BY w.seen_at DESC LIMIT 1;
    RETURN 'no live worker serves the queue: ' || CASE WHEN name IS NULL THEN 'none has reported itself for it within the last hour, or ever'
        ELSE format('the last one seen was %s, at %s', name, {schema}.in_words(seen)) END;
END {tag};

COMMENT ON FUNCTION {schema}.why_no_worker(text, text, timestamptz) IS
    'pgqueue: what keeps each live worker of a queue from a job of this kind and due time, for people; NULL = some worker could take it when it is due.';

-- A job that is not live: how it ended, or why there is none.
CREATE FUNCTION {schema}.how_it_ended(id bigint) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan AS {tag}
#variable_conflict use_column
DECLARE
    h     record;
    error text;
    given bigint;
    since text;
    quiet text;
BEGIN
    -- By the primary key, once in each partition.
    SELECT x.kind, x.queue, x.state, x.finished_at, x.attempt, x.failures, x.max_attempts, x.claimed_at, x.claimed_by, x.errors->-1 AS last INTO h
    FROM {schema}.history x WHERE x.id = how_it_ended.id ORDER BY x.finished_at DESC LIMIT 1;
    IF FOUND THEN
        error := coalesce(h.last->>'code', 'unknown') || coalesce(': ' || nullif(h.last->>'message', ''), '');
        RETURN format('Job %s (kind "%s", queue "%s") ', how_it_ended.id, h.kind, h.queue) || CASE h.state
            WHEN 'succeeded' THEN format('has succeeded at %s, in attempt %s by %s.', {schema}.in_words(h.finished_at), h.attempt, coalesce(h.claimed_by, 'somebody unknown'))
            -- What is stored does not always tell who it was; what is certain is said as such. The claim is still open in the row of a job
            -- that was not waiting.
            WHEN 'cancelled' THEN format('was cancelled at %s, ', {schema}.in_words(h.finished_at)) || CASE
                WHEN h.claimed_at IS NULL THEN format('on request, while it waited, after %s.',
                    CASE h.attempt WHEN 0 THEN 'no attempt' WHEN 1 THEN '1 attempt' ELSE h.attempt || ' attempts' END
                    || CASE WHEN h.last IS NOT NULL THEN ', the last error was ' || error ELSE '' END)
                WHEN h.last->>'attempt' IS DISTINCT FROM h.attempt::text
                    THEN format('in attempt %s by %s: on request, or by its handler, which gave no error.', h.attempt, coalesce(h.claimed_by, 'somebody unknown'))
                WHEN h.last->>'code' = 'lease_expired'
                    THEN format('on request, after the lease of attempt %s by %s had run out.', h.attempt, coalesce(h.claimed_by, 'somebody unknown'))
                ELSE format('in attempt %s by %s: by its handler, or because that failed after somebody had asked for it, with the error %s.',
                    h.attempt, coalesce(h.claimed_by, 'somebody unknown'), error) END
            WHEN 'failed'    THEN format('has failed at %s, in attempt %s: trying again is pointless, said its handler, with the error %s. All the same, SELECT %I.retry(%s) runs it again.',
                {schema}.in_words(h.finished_at), h.attempt, error, {schema_literal}, how_it_ended.id)
            ELSE                  format('is dead since %s: %s of %s attempts have failed, the last one with the error %s. SELECT %I.retry(%s) runs it again.',
                {schema}.in_words(h.finished_at), h.failures, h.max_attempts, error, {schema_literal}, how_it_ended.id) END;
    END IF;

    SELECT CASE WHEN s.is_called THEN s.last_value ELSE s.last_value - 1 END INTO given FROM {schema}.jobs_id_seq s;
    IF how_it_ended.id > given OR how_it_ended.id < 1 THEN
        RETURN format('There is no job %s and never was: the numbers given out so far go up to %s.', how_it_ended.id, given);
    END IF;
    SELECT to_char(to_date(right(min(c.relname COLLATE "C"), 8), 'YYYYMMDD'), 'YYYY-MM-DD') INTO since
    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = format('%I.history', {schema_literal})::regclass AND c.relname ~ '^history_[0-9]{8}$';
    SELECT string_agg('"' || o.name || '"', ', ' ORDER BY o.name) INTO quiet
    FROM (SELECT q.name FROM {schema}.queues q WHERE q.history = 'off' ORDER BY q.name LIMIT 5) o;
    RETURN format('There is no job %s any more, and no history of it. The number was given out: its transaction was rolled back or is still open, or the job has succeeded or was cancelled '
        || 'and its history is gone (it goes back to %s)%s, or somebody deleted it.', how_it_ended.id, coalesce(since, 'nowhere'),
        coalesce(' or is not kept (of successes in queue ' || quiet || ')', ''));
END {tag};

COMMENT ON FUNCTION {schema}.how_it_ended(bigint) IS
    'pgqueue: how a job that is not live ended, for people, or why there is none of this number.';

REVOKE ALL ON FUNCTION {schema}.in_words(interval), {schema}.in_words(timestamptz), {schema}.query_in_words(text), {schema}.sessions_in_words(int[], xid[]),
    {schema}.lockers_in_words(xid, regclass, boolean), {schema}.table_lockers_in_words(regclass), {schema}.why_no_worker(text, text, timestamptz),
    {schema}.how_it_ended(bigint) FROM PUBLIC;

-- * It waits for nobody. A table that cannot be read at once is itself the answer; so no statement, and no variable of a table's row type,
--   may come before the LOCK ... NOWAIT.
-- * Whether the row is locked is found out by locking it, in a subtransaction that is rolled back: else the question itself would keep
--   claims away until the caller's transaction ends. Where nothing can be locked (a standby, a read-only transaction) the row's
--   xmax must do.
-- * The clock, not the statement's time: the row that is read may be younger than the question, and is not due later for that.
-- * All that stands in the way is said, the hardest first: after one thing is mended, nobody should have to ask again.
CREATE FUNCTION {schema}.why_not_running(id bigint) RETURNS text
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

COMMENT ON FUNCTION {schema}.why_not_running(bigint) IS
    'pgqueue: why a job does not run, in words: due later, paused, locked and by whom, no worker, no handler, all busy, or who runs it, or how it ended. Never waits for a lock. It shows the query of a session that holds a lock, without its strings and numbers.';
REVOKE ALL ON FUNCTION {schema}.why_not_running(bigint) FROM PUBLIC;

-- -------------------------------------------------------------------------------------------------- one row must not stop cleanup ----

-- Tables of the application may point at failed and dead jobs, and triggers may refuse a DELETE. A batch is tried as a whole; one that is
-- refused is halved until what is in the way stands alone, stays where it is and is named in a warning. So the usual batch costs one
-- subtransaction, and one bad row in a thousand twenty more. Where there are more bad rows than that pays for, the rest of the batch is left
-- to another call, and the walk goes on behind it: what follows is deleted all the same. Which half comes first is left to chance, so that
-- no row is left for ever for the company it is in. Fewer than a batch = done, as before.
CREATE OR REPLACE FUNCTION {schema}.expire_attention(keep interval, batch int DEFAULT 1000) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS {tag}
DECLARE
    tries   int := 1000;  -- refusals in one call, so that it comes to an end
    halves  int;          -- refusals after which a batch is no longer halved
    gone    int := 0;
    n       int;
    last_at timestamptz := '-infinity';
    last_id bigint := 0;
    ids     bigint[];
    parts   text[];       -- of ids, as first:last
    lo      int;
    hi      int;
    refused text;
    held    int := 0;     -- how many stay
BEGIN
    IF keep IS NULL OR keep < interval '0' THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'keep',
            MESSAGE = format('expire_attention: keep must not be negative, but is %s', coalesce(keep::text, 'NULL'));
    END IF;
    IF batch IS NULL OR batch NOT BETWEEN 1 AND 100000 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'batch',
            MESSAGE = format('expire_attention: batch must be between 1 and 100000, not %s', coalesce(batch::text, 'NULL'));
    END IF;

    -- A deferred foreign key would refuse at COMMIT, where nothing can be halved any more.
    SET CONSTRAINTS ALL IMMEDIATE;

    WHILE gone < batch AND tries > 0 LOOP
        -- SKIP LOCKED: a row that somebody is retrying this moment is left alone.
        SELECT array_agg(x.id ORDER BY x.finished_at, x.id), max(x.finished_at) INTO ids, last_at
        FROM (SELECT a.id, a.finished_at
              FROM {schema}.history_attention a
              WHERE a.finished_at < now() - keep AND a.finished_at >= last_at AND (a.finished_at > last_at OR a.id > last_id)
              ORDER BY a.finished_at, a.id
              LIMIT batch - gone
              FOR UPDATE SKIP LOCKED) x;
        EXIT WHEN ids IS NULL;
        last_id := ids[cardinality(ids)];

        halves := least(tries, 64);
        parts := ARRAY['1:' || cardinality(ids)];
        WHILE cardinality(parts) > 0 LOOP
            lo := split_part(parts[1], ':', 1);
            hi := split_part(parts[1], ':', 2);
            parts := parts[2:];
            IF tries <= 0 THEN
                held := held + hi - lo + 1;
                CONTINUE;
            END IF;
            BEGIN
                -- By key, not by ctid: a plain UPDATE in between may have moved the rows.
                DELETE FROM {schema}.history_attention x WHERE x.day = 'infinity' AND x.id = ANY (ids[lo:hi]);
                GET DIAGNOSTICS n = ROW_COUNT;
                gone := gone + n;
            EXCEPTION
                WHEN integrity_constraint_violation OR raise_exception THEN -- the first is the whole class 23
                    tries := tries - 1;
                    halves := halves - 1;
                    refused := coalesce(refused, sqlerrm);
                    IF lo < hi AND halves > 0 THEN
                        parts := CASE WHEN random() < 0.5 THEN ARRAY[lo || ':' || (lo + hi) / 2, (lo + hi) / 2 + 1 || ':' || hi]
                                      ELSE ARRAY[(lo + hi) / 2 + 1 || ':' || hi, lo || ':' || (lo + hi) / 2] END || parts;
                    ELSE
                        held := held + hi - lo + 1;
                    END IF;
            END;
        END LOOP;
    END LOOP;

    IF held > 0 THEN
        RAISE WARNING USING MESSAGE = format('pgqueue: expire_attention left %s expired jobs where they are, because something else holds on to them', held),
            DETAIL = coalesce(refused, ''), HINT = 'Delete what points at them, or give the foreign key ON DELETE CASCADE.';
    END IF;
    RETURN gone;
END {tag};

-- The same for partitions: one that cannot be dropped, because something depends on it, must not keep those behind it.
CREATE OR REPLACE FUNCTION {schema}.drop_history(keep interval) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '50ms' AS {tag}
DECLARE
    cutoff date;
    t      text;
    why    text;
BEGIN
    IF keep IS NULL OR keep < interval '0' THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'keep',
            MESSAGE = format('drop_history: keep must not be negative, but is %s', coalesce(keep::text, 'NULL'));
    END IF;
    -- The first day that stays. Never before 1970, where the digits of a year would no longer sort.
    cutoff := greatest(((now() - keep) AT TIME ZONE 'UTC')::date, date '1970-01-01');

    -- By name, and as text: a foreign partition whose name only looks like a date must not make the cast fail.
    FOR t IN
        SELECT c.relname
        FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = format('%I.history', {schema_literal})::regclass AND c.relname ~ '^history_[0-9]{8}$'
          AND right(c.relname, 8) COLLATE "C" < to_char(cutoff, 'YYYYMMDD') COLLATE "C"
        ORDER BY c.relname
    LOOP
        BEGIN
            EXECUTE format('DROP TABLE %I.%I', {schema_literal}, t);
            RETURN t;
        EXCEPTION
            -- Busy, or another process dropped it while we waited for its lock.
            WHEN lock_not_available OR undefined_table THEN
                RETURN NULL;
            WHEN dependent_objects_still_exist THEN
                GET STACKED DIAGNOSTICS why = PG_EXCEPTION_DETAIL;
                RAISE WARNING USING MESSAGE = format('pgqueue: drop_history cannot drop %I.%I', {schema_literal}, t), DETAIL = why,
                    HINT = 'Drop what was built upon the partition. Where a foreign key points at history, no partition can be dropped.';
        END;
    END LOOP;
    RETURN '';
END {tag};
