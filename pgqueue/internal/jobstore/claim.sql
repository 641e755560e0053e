-- Statements that take work: claim, and probe for the idle. Times are the database's own; none comes from a worker.

-- name: claim
-- $1 queue  $2 limit  $3 lease in µs  $4 who claims  $5 kinds (NULL = any)  $6 priorities in the wanted order
-- $7 mark run_at[]  $8 mark id[] (one mark for each priority; '-infinity' and 0 make it a full scan)
-- One row of the answer, without an id, is the envelope: database time, history setting and pauses, from the same snapshot as
-- the rest. So an empty answer still tells the time that the marks move to, and completion knows what the queue keeps without
-- a statement of its own. It is a row because as columns of each job it costs more than all the job's numbers.
--
-- * = ANY (ARRAY (...)) runs the inner SELECT exactly once. As IN (... LIMIT n ...) or a joined subquery it may be run
--   again for every outer row, and one claim then takes the whole queue.
-- * The rows are found again by their numbers and not by where they lie (ctid), although that would be cheaper: a row that was replaced between
--   the snapshot and its lock lies where the snapshot sees nothing. It would be left out, the answer would be one short and look like the
--   end of the backlog, and the marks would pass over all that is left. place is where the claimed version lies, for complete_at.
-- * Each priority is an index range of its own, read in index order: a million future jobs of priority 1 do not hide
--   priority 2, and the backlog is never sorted.
-- * ORDER BY p.ord costs nothing, the ordinality is already in that order, and it must stay exactly that. With run_at, id
--   behind it the planner sorts, and locks up to one LIMIT of rows per priority that it does not return.
-- * SKIP LOCKED: a row that another claimer, an enqueue that is replacing it, or an application holds is left alone.
-- * statement_timestamp(), not now(), in what is stored: now() is the start of the transaction, or of a wait for a table
--   lock, and a lease written with it can be born expired. db_now is now(), the earlier of the two, because marks
--   must never be later than what this statement's snapshot could see.
--   Due is what is due by statement_timestamp() too: in a transaction that is longer than this statement (QueueTx), now()
--   is before whatever was enqueued in it.
-- * RETURNING has no order, whatever the inner SELECT says: the caller sorts.
-- * found_at - claimed_at is what the scan cost on the server: the network and the wait for a connection say nothing about
--   dead index entries. In its own SELECT the clock is read once, at the first row, when the scan is over and the writing begins;
--   where there is no row the envelope's counts.
-- * Empty metadata and tags, which most jobs have, come as NULL: turning them into text and reading that back costs more than
--   the scan.
-- * errors stay behind. They are not needed to run a job and can be the largest part of the row.
-- * What is paused is decided here, by the database's clock: a pause whose end has come is none, whether anybody has cleared it or
--   not. In the envelope 'infinity' is a pause until resume, and NULL none.
-- * ARRAY (...) over paused_kinds does not depend on the row, so it is evaluated once, before the first row. Where no kind is paused it
--   is an empty table that is read once and an empty array that each row is compared with. paused_kinds gives [kind, µs to its end or null].
-- * CASE … IS NOT NULL says to the planner that nearly every row passes. kind <> ALL (…) would say, where one kind is frequent, that hardly
--   one does: then it does not trust LIMIT to end the scan early and reads and sorts the backlog instead (half the throughput; see
--   docs/decisions/0012-the-claim-tells-the-planner-that-rows-pass.md). The kinds that are asked for stand there for the same reason:
--   statistics from an hour in which others filled the queue say that hardly a row is of ours.
-- * No SELECT without columns in the envelope: Citus cannot fetch such a subquery.
WITH claimed AS (
    UPDATE {schema}.jobs AS j
    SET state = 'running', attempt = j.attempt + 1, claimed_generation = j.generation, claimed_by = $4,
        claimed_at = statement_timestamp(), lease_expires_at = statement_timestamp() + $3::bigint * interval '1 microsecond'
    WHERE j.queue = $1 AND j.id = ANY (ARRAY (
        SELECT c.id
        FROM unnest($6::smallint[], $7::timestamptz[], $8::bigint[]) WITH ORDINALITY AS p(priority, since, since_id, ord)
             CROSS JOIN LATERAL (
                SELECT r.id FROM {schema}.jobs r
                WHERE r.queue = $1 AND r.priority = p.priority AND r.state = 'pending' AND r.run_at <= statement_timestamp()
                  AND (r.run_at, r.id) >= (p.since, p.since_id)
                  AND CASE WHEN r.kind = ANY (ARRAY (
                        SELECT h.kind FROM {schema}.paused_kinds h
                        WHERE h.queue IN ('', $1) AND coalesce(h.paused_until, 'infinity') > statement_timestamp())) THEN NULL
                      WHEN $5::text[] IS NULL OR r.kind = ANY ($5::text[]) THEN 1 END IS NOT NULL
                ORDER BY r.run_at, r.id LIMIT $2 FOR UPDATE SKIP LOCKED) c
        ORDER BY p.ord LIMIT $2))
      AND NOT EXISTS (SELECT FROM {schema}.queues q
                      WHERE q.name = $1 AND q.paused_at IS NOT NULL AND coalesce(q.paused_until, 'infinity') > statement_timestamp())
    RETURNING j.id, j.attempt, j.kind, j.priority, j.run_at, j.failures, j.max_attempts, j.generation, j.key, j.revision,
              j.created_at, j.payload::text AS payload, nullif(j.metadata, '{}')::text AS metadata, j.ctid AS place, nullif(j.tags, '{}') AS tags,
              (SELECT clock_timestamp()) AS found_at
)
SELECT c.id, c.attempt, c.kind, c.priority, c.run_at, c.failures, c.max_attempts, c.generation, c.key, c.revision,
       c.created_at, c.payload, c.metadata, c.place, c.tags, c.found_at,
       NULL AS claimed_at, NULL AS db_now, NULL AS history, NULL AS paused_until, NULL AS paused_kinds
FROM claimed c
UNION ALL
SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, clock_timestamp(),
       statement_timestamp(), now(), coalesce((SELECT q.history FROM {schema}.queues q WHERE q.name = $1), 'full'),
       (SELECT coalesce(q.paused_until, 'infinity') FROM {schema}.queues q
        WHERE q.name = $1 AND q.paused_at IS NOT NULL AND coalesce(q.paused_until, 'infinity') > statement_timestamp()),
       (SELECT json_agg(json_build_array(h.kind, CASE WHEN isfinite(h.paused_until)
                   THEN ceil(extract(epoch FROM h.paused_until - statement_timestamp()) * 1000000) END))::text
        FROM {schema}.paused_kinds h
        WHERE h.queue IN ('', $1) AND coalesce(h.paused_until, 'infinity') > statement_timestamp());

-- name: probe
-- $1 queue[]  $2 mark run_at[] and $3 mark id[], four a queue: priorities 1..4  $4 kinds (NULL = any)
-- When is the next job of these kinds due, in each of these queues? The one frequent statement that may name several queues: an
-- idle process asks it once a poll for all that it serves. It reads the first rows of each priority and no more: a million
-- jobs of other kinds, due or in the future, must not cost an idle worker a walk. Where none of those rows is ours the
-- answer is a guess on the early side, the last row that was read, but a second from now at the earliest, so that other
-- people's jobs never look as if they were ours and due. Nothing is locked.
-- * A paused queue is due when its pause ends, and nothing else is looked at. Paused kinds are nobody's for the time being; the end of
--   their pause counts like a job that is due then. paused_kinds is as in claim.
-- * took_us is what each queue cost by itself, because each rations its full scans by it. The three LATERAL steps depend on
--   each other, so they run in this order; OFFSET 0 keeps the planner from merging them.
SELECT u.ord, now() AS db_now, h.paused_until, p.next_due, h.kinds AS paused_kinds, (extract(epoch FROM e.at - b.at) * 1000000)::bigint AS took_us
FROM unnest($1::text[]) WITH ORDINALITY AS u(queue, ord)
     CROSS JOIN LATERAL (SELECT clock_timestamp() AS at, u.queue OFFSET 0) b
     CROSS JOIN LATERAL (
        SELECT (SELECT coalesce(q.paused_until, 'infinity') FROM {schema}.queues q
                WHERE q.name = b.queue AND q.paused_at IS NOT NULL AND coalesce(q.paused_until, 'infinity') > now()) AS paused_until,
               a.kinds, a.held, a.soonest
        FROM (SELECT json_agg(json_build_array(k.kind, CASE WHEN isfinite(k.paused_until)
                         THEN ceil(extract(epoch FROM k.paused_until - now()) * 1000000) END))::text AS kinds,
                     array_agg(k.kind) AS held,
                     min(k.paused_until) FILTER (WHERE $4::text[] IS NULL OR k.kind = ANY ($4::text[])) AS soonest
              FROM {schema}.paused_kinds k
              WHERE k.queue IN ('', b.queue) AND coalesce(k.paused_until, 'infinity') > now()) a
        OFFSET 0) h
     CROSS JOIN LATERAL (
        SELECT CASE WHEN h.paused_until IS NOT NULL THEN h.paused_until ELSE least(h.soonest,
               (SELECT min(CASE WHEN s.ours IS NOT NULL THEN s.ours
                                WHEN s.seen = 100 THEN greatest(s.latest, now() + interval '1 second') END)
                FROM (SELECT c.priority, ($2::timestamptz[])[4 * (u.ord - 1) + c.priority] AS since,
                             ($3::bigint[])[4 * (u.ord - 1) + c.priority] AS since_id
                      FROM unnest(ARRAY[1, 2, 3, 4]::smallint[]) AS c(priority)) m
                     CROSS JOIN LATERAL (
                        SELECT min(f.run_at) FILTER (WHERE ($4::text[] IS NULL OR f.kind = ANY ($4::text[]))
                                                       AND (h.held IS NULL OR f.kind <> ALL (h.held))) AS ours,
                               max(f.run_at) AS latest, count(*) AS seen
                        FROM (SELECT r.run_at, r.kind FROM {schema}.jobs r
                              WHERE r.queue = b.queue AND r.priority = m.priority AND r.state = 'pending'
                                AND (r.run_at, r.id) >= (m.since, m.since_id)
                              ORDER BY r.run_at, r.id LIMIT 100) f) s)) END AS next_due
        OFFSET 0) p
     CROSS JOIN LATERAL (SELECT clock_timestamp() AS at, p.next_due OFFSET 0) e
ORDER BY u.ord;
