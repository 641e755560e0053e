-- What the console itself asks Postgres: the figures of the screen "database health", and two small helpers of its actions. Everything
-- about jobs, queues and schedules goes through pgqueue and schedule, and findings through doctor.
--
-- The figures are read one by one, each in a read-only transaction of its own with a statement timeout of 2 s and a lock timeout of
-- 200 ms, so that what one of them may not see, or has to wait for, costs none of the others. Each is bounded, works on 14 to 18 and on a
-- standby, and reads catalogs and statistics only, never a job. $1 is the name of the schema, where nothing else is said.

-- The clock that everything is measured by, and who looks.
-- name: server
SELECT statement_timestamp(), current_setting('server_version'), current_setting('server_version_num')::int, current_database()::text,
       current_user::text, pg_is_in_recovery(), pg_postmaster_start_time(),
       -- How far the oldest row of this database is behind, and where Postgres begins to freeze by force.
       (SELECT age(d.datfrozenxid)::bigint FROM pg_database d WHERE d.datname = current_database()),
       current_setting('autovacuum_freeze_max_age')::bigint,
       -- What has arrived here and is not yet replayed; -1 on a primary, and where WAL comes from an archive.
       coalesce(CASE WHEN pg_is_in_recovery() THEN pg_wal_lsn_diff(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn())::bigint END, -1),
       CASE WHEN pg_is_in_recovery() THEN pg_last_xact_replay_timestamp() END;

-- The tables that are always there, largest first. n_dead_tup is what the statistics of this server say: a standby has none of its own
-- making. The threshold is that of autovacuum: the table's own parameters before the server's, and from Postgres 18 on a highest one.
-- name: tables
SELECT c.relname::text, pg_relation_size(c.oid), pg_indexes_size(c.oid), pg_total_relation_size(c.oid),
       s.n_live_tup, s.n_dead_tup, v.threshold, s.n_tup_upd, s.n_tup_hot_upd, greatest(s.last_vacuum, s.last_autovacuum),
       s.vacuum_count + s.autovacuum_count
FROM pg_namespace n
     JOIN pg_class c ON c.relnamespace = n.oid AND c.relkind = 'r'
     JOIN pg_stat_all_tables s ON s.relid = c.oid
     CROSS JOIN LATERAL (
        SELECT least(coalesce(max(o.option_value) FILTER (WHERE o.option_name = 'autovacuum_vacuum_threshold'), current_setting('autovacuum_vacuum_threshold'))::float8
                     + coalesce(max(o.option_value) FILTER (WHERE o.option_name = 'autovacuum_vacuum_scale_factor'), current_setting('autovacuum_vacuum_scale_factor'))::float8
                     * greatest(c.reltuples, 0),
                     nullif(greatest(current_setting('autovacuum_vacuum_max_threshold', true)::float8, 0), 0)) AS threshold
        FROM pg_options_to_table(c.reloptions) o) v
WHERE n.nspname = $1::text
  AND c.relname IN ('jobs', 'history_attention', 'queues', 'paused_kinds', 'workers', 'stats_cache', 'schedules', 'schedule_ticks',
                    'unique_keys', 'job_progress', 'audit', 'pgqueue_migrations')
ORDER BY 4 DESC, 1
LIMIT 30;

-- The days of history, the newest first, with what each takes; and of all of them how many there are. The inner LIMIT keeps the sizes,
-- which are looked up file by file, to sixty tables, whatever somebody's retention is.
-- name: partitions
SELECT p.name, p.day, p.day - p.today, pg_total_relation_size(p.oid), greatest(p.rows, 0)::bigint, p.pending, p.all_of_them
FROM (
    SELECT c.oid, c.relname::text AS name, d.day, t.today, c.reltuples AS rows, i.inhdetachpending AS pending, count(*) OVER () AS all_of_them
    FROM pg_namespace n
         JOIN pg_class h ON h.relnamespace = n.oid AND h.relname = 'history' AND h.relkind = 'p'
         JOIN pg_inherits i ON i.inhparent = h.oid
         JOIN pg_class c ON c.oid = i.inhrelid AND c.relkind = 'r'
         CROSS JOIN LATERAL (SELECT (statement_timestamp() AT TIME ZONE 'UTC')::date AS today) t
         -- Digits are not always a day; what is none is left to the doctor (history-foreign).
         JOIN LATERAL (
            SELECT make_date(m[1]::int, m[2]::int, 1) + (m[3]::int - 1) AS day
            FROM regexp_matches(c.relname, '^history_((?!0000)\d{4})(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])$') m) d
            ON to_char(d.day, 'YYYYMMDD') = right(c.relname, 8)
    WHERE n.nspname = $1::text
    ORDER BY d.day DESC
    LIMIT 60) p
ORDER BY p.day DESC;

-- Who holds back vacuum, the oldest first: vacuum removes no row that died after the oldest of these began. Sessions of other databases
-- hold back no table of ours; a vacuum and a standby's walsender are not in the way by themselves. Without pg_read_all_stats the sessions
-- of other roles have no xmin here; how many those are is said by "hidden". Queries are not read: they hold other people's data.
-- name: holders
SELECT h.what, h.name, h.since, coalesce(h.transactions, -1), h.detail
FROM (
    (SELECT 'session' AS what, a.pid::text AS name, a.xact_start AS since, greatest(age(a.backend_xmin), age(a.backend_xid))::bigint AS transactions,
            concat_ws(', ', 'role ' || quote_ident(a.usename), 'application ' || quote_literal(nullif(a.application_name, '')),
                      coalesce(host(a.client_addr), 'local'), a.state) AS detail
     FROM pg_stat_activity a
     WHERE a.datname = current_database() AND a.pid <> pg_backend_pid() AND a.backend_type NOT IN ('autovacuum worker', 'walsender')
       AND (a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL)
       AND NOT EXISTS (SELECT FROM pg_stat_progress_vacuum v WHERE v.pid = a.pid)
     ORDER BY a.xact_start NULLS LAST
     LIMIT 10)
    UNION ALL
    (SELECT 'prepared transaction', p.gid, p.prepared, age(p.transaction)::bigint, 'role ' || quote_ident(p.owner)
     FROM pg_prepared_xacts p
     WHERE p.database = current_database()
     ORDER BY p.prepared
     LIMIT 10)
    UNION ALL
    (SELECT 'replication slot', s.slot_name::text, NULL, greatest(age(s.xmin), age(s.catalog_xmin))::bigint,
            concat_ws(', ', s.slot_type, CASE WHEN s.active THEN 'in use' ELSE 'nobody reads from it' END)
     FROM pg_replication_slots s
     WHERE s.xmin IS NOT NULL OR s.catalog_xmin IS NOT NULL
     ORDER BY 4 DESC
     LIMIT 10)
    UNION ALL
    (SELECT 'standby', coalesce(nullif(r.application_name, ''), r.pid::text), NULL, age(r.backend_xmin)::bigint,
            concat_ws(', ', 'a query there, by hot_standby_feedback', coalesce(host(r.client_addr), 'local'))
     FROM pg_stat_replication r
     WHERE r.backend_xmin IS NOT NULL
     ORDER BY 4 DESC
     LIMIT 10)) h
ORDER BY h.transactions DESC NULLS LAST, h.since, h.what, h.name
LIMIT 20;

-- Sessions of other roles that this role may not look at, and whether it could.
-- name: hidden
SELECT count(*) FILTER (WHERE a.query = '<insufficient privilege>'), pg_has_role('pg_read_all_stats', 'USAGE')
FROM pg_stat_activity a;

-- Replication slots: what each keeps for its reader.
-- name: slots
SELECT s.slot_name::text, s.slot_type, s.active, coalesce(s.wal_status, ''),
       coalesce(pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END, s.restart_lsn), 0)::bigint,
       coalesce(greatest(age(s.xmin), age(s.catalog_xmin)), -1)::bigint
FROM pg_replication_slots s
ORDER BY 5 DESC, 1
LIMIT 20;

-- Standbys, with how far each is behind. Without pg_read_all_stats the columns of others are NULL.
-- name: standbys
SELECT coalesce(nullif(r.application_name, ''), r.pid::text), coalesce(host(r.client_addr), 'local'), coalesce(r.state, ''), coalesce(r.sync_state, ''),
       coalesce(pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END, r.replay_lsn), -1)::bigint,
       extract(epoch FROM r.replay_lag)::float8
FROM pg_stat_replication r
ORDER BY 5 DESC NULLS LAST, 1
LIMIT 20;

-- The NOTIFY queue of the whole server. In recovery nobody can LISTEN, and there is none.
-- name: notify
SELECT CASE WHEN NOT pg_is_in_recovery() THEN pg_notification_queue_usage() END;

-- Connections, from the counters of the databases, which everybody may see.
-- name: connections
SELECT (SELECT coalesce(sum(d.numbackends), 0)::bigint FROM pg_stat_database d),
       (SELECT coalesce(sum(d.numbackends), 0)::bigint FROM pg_stat_database d WHERE d.datname = current_database()),
       current_setting('max_connections')::bigint, current_setting('superuser_reserved_connections')::bigint;

-- What is being vacuumed in this schema now.
-- name: vacuuming
SELECT c.relname::text, coalesce(p.phase, ''), coalesce(p.heap_blks_scanned, 0), coalesce(p.heap_blks_total, 0)
FROM pg_stat_progress_vacuum p JOIN pg_class c ON c.oid = p.relid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE p.datname = current_database() AND n.nspname = $1::text
ORDER BY 1
LIMIT 10;

-- Settings that decide how a queue lives here, as this connection has them. $1 the names.
-- name: settings
SELECT s.name, coalesce(current_setting(s.name, true), s.setting), s.source, s.pending_restart
FROM pg_settings s
WHERE s.name = ANY ($1::text[])
ORDER BY s.name
LIMIT 100;

-- The helpers of actions.

-- Two people who act on one thing through consoles take turns, so that the second one's look at what he saw is a look at what the first
-- one left. $1 names the thing. It holds until the end of the transaction; workers and psql never wait for it.
-- name: take_turns
SELECT statement_timestamp() FROM (SELECT pg_advisory_xact_lock(hashtextextended('pgqueue console ' || $1::text, 0))) turn;

-- The same for a schedule, by its row: then nobody else changes it either. {schema} is the quoted schema. No row: there is no such schedule.
-- name: lock_schedule
SELECT s.updated_at FROM {schema}.schedules s WHERE s.name = $1::text FOR UPDATE;

-- name: clock
SELECT statement_timestamp();
