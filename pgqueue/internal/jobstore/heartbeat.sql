-- What a worker says about itself, and asks about the others. Nothing is decided by it.

-- name: heartbeat
-- $1 id  $2 host  $3 process id  $4 version  $5 it has just started  $6 interval in µs  $7 it is stopping  $8 queues  $9 kinds
-- The start is the database's time, as every other: the first report of a run gives it, and NULL leaves it alone.
SELECT {schema}.heartbeat($1::text, $2::text, $3::int, $4::text, CASE WHEN $5::boolean THEN statement_timestamp() END,
    $6::bigint * interval '1 microsecond', $7::boolean, $8::text::jsonb, $9::text::jsonb);

-- name: goodbye
-- $1 id
SELECT {schema}.goodbye($1::text);

-- name: peers
-- $1 id of who asks  $2 queue[]. How many other live workers serve each of these queues. More than 20 make no difference to who asks,
-- so it looks at 200 rows at most: a thousand processes that each read a thousand rows would be a load.
SELECT q.queue, count(*) AS peers
FROM (SELECT w.queues FROM {schema}.live_workers w WHERE w.id <> $1::text AND NOT w.stopping LIMIT 200) o
     CROSS JOIN LATERAL unnest($2::text[]) AS q(queue)
WHERE jsonb_exists(o.queues, q.queue)
GROUP BY q.queue;

-- name: unknown_kinds
-- $1 queue[]  $2 kinds that the asker has handlers for. One kind for each of these queues whose jobs are due and which no live worker
-- of the queue has a handler for: somebody forgot to deploy, or renamed it. Only the first 100 due jobs of each priority are looked
-- at, by index, as the probe does: a backlog must not be read for the sake of a line in a log.
SELECT DISTINCT ON (u.queue) u.queue, f.kind
FROM unnest($1::text[]) AS u(queue)
     CROSS JOIN unnest(ARRAY[1, 2, 3, 4]::smallint[]) AS c(priority)
     CROSS JOIN LATERAL (
        SELECT r.kind FROM {schema}.jobs r
        WHERE r.queue = u.queue AND r.priority = c.priority AND r.state = 'pending' AND r.run_at <= statement_timestamp()
        ORDER BY r.run_at, r.id LIMIT 100) f
WHERE NOT f.kind = ANY ($2::text[])
  -- Who paused a kind knows that it does not run.
  AND NOT EXISTS (SELECT 1 FROM {schema}.paused_kinds p
                  WHERE p.kind = f.kind AND p.queue IN ('', u.queue) AND coalesce(p.paused_until, 'infinity') > statement_timestamp())
  AND NOT EXISTS (SELECT FROM {schema}.live_workers w WHERE jsonb_exists(w.queues, u.queue) AND jsonb_exists(w.kinds, f.kind))
ORDER BY u.queue, f.kind;
