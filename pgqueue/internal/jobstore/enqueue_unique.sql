-- The producer's statement for jobs that are enqueued at most once by a rule of their own. All others are sent by enqueue.sql, which
-- knows nothing of this; where one job of a queue has a rule, all jobs of the call for that queue are sent by this one, so that their
-- numbers keep the order of the input and all locks are taken in one order.

-- name: enqueue_unique
-- A function of the schema, the same that SQL calls, because two writes depend on each other here: first who holds an identity
-- (unique_keys) is settled, which may wait for another transaction, and then the jobs of those who do are written. It is
-- one statement all the same: all of it or nothing, on a pool too. Why it is built as it is stands with it, in
-- migrations/sql/0004_time.up.sql.
--  $1 queue  $2 kind[] $3 key[] $4 revision[] $5 payload[] (json text) $6 metadata[] (json text) $7 tags[] (each an array literal)
--  $8 priority[] $9 run_at[] (NULL = now) $10 delay in µs[] (NULL = 0) $11 max_attempts[]
--  $12 policy[] (NULL, keep, slot, live, debounce) $13 identity[] (keep, slot) $14 span in µs[] (keep, slot, debounce)
--  $15 channel of the hint, NULL = none
SELECT u.ord, u.id, u.outcome, 0::bigint AS hints, u.state
FROM {schema}.enqueue_unique_batch($1::text, $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::smallint[],
    $9::timestamptz[], $10::bigint[], $11::smallint[], $12::text[], $13::text[], $14::bigint[], $15::text) u;

-- name: expire_unique_keys
-- $1 batch. Keys whose time has passed; fewer than a batch = done.
SELECT {schema}.expire_unique_keys($1::int);

-- name: release_key
-- $1 queue  $2 kind  $3 key. The number of the job, NULL = the key was not taken.
SELECT {schema}.release_key($1::text, $2::text, $3::text);
