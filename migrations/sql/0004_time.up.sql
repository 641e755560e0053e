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
              AND c.relname = ANY (ARRAY['paused_kinds', 'paused_kinds_pkey', 'job_progress', 'job_progress_pkey',
                                         'unique_keys', 'unique_keys_pkey', 'unique_keys_expires',
                                         'schedules', 'schedules_pkey', 'schedules_due', 'schedule_ticks', 'schedule_ticks_pkey'])
            UNION ALL
            SELECT 'type ' || quote_ident(t.typname)
            FROM pg_type t
            WHERE t.typnamespace = n.oid AND t.typrelid = 0
              AND t.typname = ANY (ARRAY['paused_kinds', 'job_progress', 'unique_keys', 'schedules', 'schedule_ticks'])
            UNION ALL
            SELECT 'function ' || quote_ident(p.proname)
            FROM pg_proc p
            WHERE p.pronamespace = n.oid
              -- every function that this version brings; those whose body it replaces are not among them
              AND p.proname = ANY (ARRAY['pause_until', 'pause_kind', 'resume_kind'])
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

ALTER TABLE {schema}.queues ADD COLUMN paused_until timestamptz;
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

-- ====================================================================================================== control (section: control) ====

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

-- ======================================================================================================== unique (section: unique) ====

CREATE TABLE {schema}.unique_keys (
    job_id     bigint      NOT NULL,
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    queue      text        NOT NULL,
    kind       text        NOT NULL,
    key        text        NOT NULL,
    CONSTRAINT unique_keys_pkey PRIMARY KEY (queue, kind, key),
    CONSTRAINT unique_keys_key_check CHECK (octet_length(key) BETWEEN 1 AND 512)
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
COMMENT ON COLUMN {schema}.unique_keys.key IS 'The key.';

-- ================================================================================================== schedules (section: schedules) ====

CREATE TABLE {schema}.schedules (
    next_run_at    timestamptz,
    last_run_at    timestamptz,
    created_at     timestamptz NOT NULL DEFAULT statement_timestamp(),
    updated_at     timestamptz NOT NULL DEFAULT statement_timestamp(),
    jitter         interval    NOT NULL DEFAULT '0',
    last_job_id    bigint,
    catch_up_limit int         NOT NULL DEFAULT 100,
    priority       smallint    NOT NULL DEFAULT 1,
    max_attempts   smallint    NOT NULL DEFAULT 3,
    enabled        boolean     NOT NULL DEFAULT true,
    name           text        NOT NULL,
    spec           text        NOT NULL,
    time_zone      text        NOT NULL DEFAULT 'UTC',
    catch_up       text        NOT NULL DEFAULT 'latest',
    queue          text        NOT NULL DEFAULT 'default',
    kind           text        NOT NULL,
    source         text        NOT NULL DEFAULT '',
    last_error     text,
    payload        jsonb       NOT NULL DEFAULT '{}',
    metadata       jsonb       NOT NULL DEFAULT '{}',
    tags           text[]      NOT NULL DEFAULT '{}',
    CONSTRAINT schedules_pkey PRIMARY KEY (name),
    CONSTRAINT schedules_name_check     CHECK (octet_length(name) BETWEEN 1 AND 128),
    CONSTRAINT schedules_queue_check    CHECK (octet_length(queue) BETWEEN 1 AND 128),
    CONSTRAINT schedules_kind_check     CHECK (octet_length(kind) BETWEEN 1 AND 128),
    CONSTRAINT schedules_priority_check CHECK (priority BETWEEN 1 AND 4),
    CONSTRAINT schedules_max_attempts_check CHECK (max_attempts >= 1),
    CONSTRAINT schedules_catch_up_check CHECK (catch_up IN ('skip', 'latest', 'all')),
    CONSTRAINT schedules_catch_up_limit_check CHECK (catch_up_limit BETWEEN 1 AND 10000),
    CONSTRAINT schedules_jitter_check   CHECK (jitter >= '0' AND jitter <= '1 day')
);
CREATE INDEX schedules_due ON {schema}.schedules (next_run_at) WHERE enabled;
COMMENT ON TABLE {schema}.schedules IS
    'pgqueue: what is enqueued by the clock. Any process with a scheduler does it; rows may be changed with SQL.';
COMMENT ON INDEX {schema}.schedules_pkey IS 'pgqueue: one schedule by its name.';
COMMENT ON INDEX {schema}.schedules_due IS 'pgqueue: what a scheduler looks at: which one is due next.';
COMMENT ON COLUMN {schema}.schedules.next_run_at IS 'The next tick; NULL = to be worked out from spec, which any scheduler does within a second or so.';
COMMENT ON COLUMN {schema}.schedules.last_run_at IS 'The latest tick that was enqueued.';
COMMENT ON COLUMN {schema}.schedules.created_at IS 'When it was made.';
COMMENT ON COLUMN {schema}.schedules.updated_at IS 'When it was last changed by people or programs, ticks apart.';
COMMENT ON COLUMN {schema}.schedules.jitter IS 'Each job becomes due a random while after its tick, at most this one.';
COMMENT ON COLUMN {schema}.schedules.last_job_id IS 'The job of the latest tick.';
COMMENT ON COLUMN {schema}.schedules.catch_up_limit IS 'With catch_up = all: at most so many missed ticks, the latest ones.';
COMMENT ON COLUMN {schema}.schedules.priority IS 'Of its jobs.';
COMMENT ON COLUMN {schema}.schedules.max_attempts IS 'Of its jobs.';
COMMENT ON COLUMN {schema}.schedules.enabled IS 'false = it rests. Switched on again, it goes on with the next tick from then.';
COMMENT ON COLUMN {schema}.schedules.name IS 'Its name.';
COMMENT ON COLUMN {schema}.schedules.spec IS 'A cron expression of five fields, @every 90m, @at 2027-01-31T09:00:00Z, or @hourly, @daily, @weekly, @monthly, @yearly.';
COMMENT ON COLUMN {schema}.schedules.time_zone IS 'The IANA zone in which the fields of a cron expression are meant.';
COMMENT ON COLUMN {schema}.schedules.catch_up IS 'What becomes of ticks that nobody was there for: skip, latest (one job for all of them) or all.';
COMMENT ON COLUMN {schema}.schedules.queue IS 'Of its jobs.';
COMMENT ON COLUMN {schema}.schedules.kind IS 'Of its jobs.';
COMMENT ON COLUMN {schema}.schedules.source IS 'Which program registered it; empty = it was made by hand.';
COMMENT ON COLUMN {schema}.schedules.last_error IS 'Why its last tick could not be enqueued, or its spec not be understood; NULL = all is well.';
COMMENT ON COLUMN {schema}.schedules.payload IS 'Of its jobs.';
COMMENT ON COLUMN {schema}.schedules.metadata IS 'Of its jobs.';
COMMENT ON COLUMN {schema}.schedules.tags IS 'Of its jobs.';

-- The identity of a tick, apart from the job, which may be long gone.
CREATE TABLE {schema}.schedule_ticks (
    tick        timestamptz NOT NULL,
    enqueued_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    job_id      bigint,
    name        text        NOT NULL,
    CONSTRAINT schedule_ticks_pkey PRIMARY KEY (name, tick)
);
COMMENT ON TABLE {schema}.schedule_ticks IS
    'pgqueue: which tick of which schedule was enqueued, when and as which job. Old ones are deleted by upkeep.';
COMMENT ON INDEX {schema}.schedule_ticks_pkey IS 'pgqueue: a tick happens once.';
COMMENT ON COLUMN {schema}.schedule_ticks.tick IS 'The instant of the tick.';
COMMENT ON COLUMN {schema}.schedule_ticks.enqueued_at IS 'When it was enqueued, by the database clock.';
COMMENT ON COLUMN {schema}.schedule_ticks.job_id IS 'The job; NULL = it was skipped.';
COMMENT ON COLUMN {schema}.schedule_ticks.name IS 'The schedule.';

-- ================================================================================ views and words (section: views, why_not_running) ====
