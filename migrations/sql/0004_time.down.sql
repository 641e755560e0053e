-- pgqueue, version 4, down. No CASCADE: what others have built upon these makes this fail and is named in the error.
SET LOCAL search_path = pg_catalog, pg_temp;
SET LOCAL client_min_messages = warning;

-- section: views, why_not_running

-- section: schedules
DROP TABLE {schema}.schedule_ticks;
DROP TABLE {schema}.schedules;

-- section: unique
DROP TABLE {schema}.unique_keys;

-- section: progress
DROP TABLE {schema}.job_progress;

-- section: control

-- section: pauses
DROP TABLE {schema}.paused_kinds;
ALTER TABLE {schema}.queues DROP COLUMN paused_until;
