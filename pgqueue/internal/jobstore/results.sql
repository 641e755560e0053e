-- What handlers with results need to know.

-- name: without_history
-- $1 names. Those of the queues that keep nothing of their successes, so that results would have nowhere to go.
SELECT name FROM {schema}.queues WHERE name = ANY ($1::text[]) AND history = 'off' ORDER BY name;
