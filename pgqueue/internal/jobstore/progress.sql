-- How far running jobs have come, as their handlers say.

-- name: progress_write
-- $1 queue  $2 id[]  $3 attempt[]  $4 progress[] (json text). What all jobs of a queue and process said since the last time. The fence is the
-- attempt, and not the state: what was said last is written also when the attempt has failed meanwhile, for the next one to read. A job
-- that has ended, or was claimed again, is left out. LIMIT keeps the planner from a join, as in verdict.sql. Rows are written in
-- order, because two processes may hold the same jobs, one of them by mistake.
INSERT INTO {schema}.job_progress AS p (job_id, updated_at, attempt, progress)
SELECT j.id, statement_timestamp(), f.attempt, f.progress::jsonb
FROM unnest($2::bigint[], $3::int[], $4::text[]) AS f(id, attempt, progress)
     CROSS JOIN LATERAL (SELECT x.id FROM {schema}.jobs x WHERE x.queue = $1 AND x.id = f.id AND x.attempt = f.attempt LIMIT 1) j
ORDER BY j.id
ON CONFLICT (job_id) DO UPDATE SET updated_at = excluded.updated_at, attempt = excluded.attempt, progress = excluded.progress
WHERE p.attempt <= excluded.attempt;

-- name: progress_forget
-- $1 id[]  $2 attempt[]. Of jobs that these attempts have ended. One that somebody has retried since keeps what a later attempt said.
DELETE FROM {schema}.job_progress p USING unnest($1::bigint[], $2::int[]) f(id, attempt)
WHERE p.job_id = f.id AND p.attempt <= f.attempt;

-- name: progress_read
-- $1 id. What was said about a live job.
SELECT j.kind, p.progress::text, p.attempt, p.updated_at
FROM {schema}.job_progress p JOIN {schema}.jobs j ON j.id = p.job_id
WHERE p.job_id = $1::bigint;

-- name: expire_progress
-- $1 the job behind which to go on (0: from the start)  $2 batch
SELECT e.gone, e.next FROM {schema}.expire_progress($1::bigint, $2::int) e;
