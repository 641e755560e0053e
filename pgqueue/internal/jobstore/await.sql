-- What those who wait for the end of jobs ask, and what is said about single jobs on the control channel.

-- name: tell
-- $1 channel  $2 word (await, done)  $3 id[]. One message for each job, in a transaction of its own.
SELECT pg_notify($1::text, $2::text || ' ' || u.id) FROM unnest($3::bigint[]) AS u(id);

-- name: await_live
-- $1 id[]. Those of the jobs that are live, and whether their queue would keep nothing of a success. Asked again and again, so it reads
-- jobs by primary key and nothing else: what is missing in the answer has ended, or was deleted, and is then read once.
SELECT j.id, coalesce(q.history, 'full') = 'off' AS forgotten
FROM {schema}.jobs j LEFT JOIN {schema}.queues q ON q.name = j.queue
WHERE j.id = ANY ($1::bigint[]);

-- name: await_read
-- $1 id[]. read for several jobs at once: one statement is one snapshot, in which a job that moves to history is in one of the two
-- places, whenever it moves. Of two rows of one job the first counts.
SELECT id, queue, kind, key, revision, state, priority, run_at, created_at, claimed_at, lease_expires_at, cancel_requested_at IS NOT NULL AS cancel,
       NULL::timestamptz AS finished_at, claimed_by, attempt, failures, max_attempts, generation, error_count,
       errors::text, tags, payload::text, metadata::text, NULL AS result
FROM {schema}.jobs WHERE id = ANY ($1::bigint[])
UNION ALL
SELECT id, queue, kind, key, revision, state, priority, run_at, created_at, claimed_at, NULL, false,
       finished_at, claimed_by, attempt, failures, max_attempts, generation, error_count,
       errors::text, tags, payload::text, metadata::text, result::text
FROM {schema}.history WHERE id = ANY ($1::bigint[])
ORDER BY id, finished_at DESC NULLS FIRST;
