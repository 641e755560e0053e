-- One job alone, worked in the caller's transaction, for tests.

-- name: hold_one
-- $1 id. Locks the job, so that the claim that follows in the same transaction cannot find it taken, and makes it due if it is not:
-- a test wants to see its handler run now. Nobody waits for a job that somebody else has locked.
WITH held AS (SELECT j.id FROM {schema}.jobs j WHERE j.id = $1::bigint AND j.state = 'pending' FOR UPDATE SKIP LOCKED)
UPDATE {schema}.jobs AS j SET run_at = least(j.run_at, statement_timestamp())
FROM held WHERE j.id = held.id
RETURNING j.queue, j.kind, j.priority, j.run_at;
