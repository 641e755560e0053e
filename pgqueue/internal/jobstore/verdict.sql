-- Statements that end a claim, or extend it. All of them are fenced with (id, attempt), and none waits for a row lock:
-- an application that holds one row delays the completion of that job alone. (settle, which runs in a caller's own
-- transaction, is the exception and waits.)
--
-- How a verdict is written, in every statement here:
-- * The lock step carries the whole fence, locks without waiting, and decides on the LOCKED version of the row: when a row
--   changed between snapshot and lock, Postgres rechecks the step's whole WHERE and computes its columns anew.
-- * The lock step looks up one job at a time, in a LATERAL subquery, which FOR UPDATE keeps the planner from turning into a
--   join. Statistics gathered while nothing ran say that claimed_at is never set. A join then expects one row of jobs, reads the
--   whole table, and walks the arrays once for each job that runs: 700 ms instead of 10 for 1,325 of them (docs/decisions/0001).
-- * The write step finds its rows by queue and id alone. A condition on the row's other columns there is checked against the
--   snapshot's older version first; a row that was replaced in between would be neither deleted nor put back and stay in
--   running. A join by ctid fails in the same way, so only the fast paths of success go by ctid: what they leave out is sent on.
-- * The outcome is what was really written (RETURNING), never what the lock step planned.
-- * generation <> claimed_generation, "superseded", is asked first. Otherwise a job with one attempt whose input was
--   replaced during the run would die of the old input's failure, and the new input would never run.
-- * claimed_at IS NOT NULL means that no verdict of this attempt is stored yet. Each verdict clears it, so a second report
--   finds nothing.

-- name: complete_at
-- The fast path of success without a result: $1 queue  $2 id[]  $3 attempt[]  $4 place[]  $5 slim: leave the payload behind.
-- place is where the claim left the row (its ctid), and so where a job that ran for a moment still lies: no index is walked. The fence is the whole one nevertheless, the number included, as by now
-- another row may lie there. What was renewed, reaped or changed since lies elsewhere, does not come back, and goes on to complete.
-- IS NOT DISTINCT FROM is = for what is never NULL, and no condition of an index: with = the planner prefers the primary key for
-- thousands of rows. The DELETE goes by place too. A row that changed between snapshot and lock is left out as well.
WITH d AS (
    DELETE FROM {schema}.jobs
    WHERE queue = $1 AND ctid = ANY (ARRAY (
        SELECT l.ctid FROM unnest($2::bigint[], $3::int[], $4::tid[]) f(id, attempt, place)
               CROSS JOIN LATERAL (
                  SELECT j.ctid FROM {schema}.jobs j
                  WHERE j.ctid = f.place AND j.queue = $1 AND j.id IS NOT DISTINCT FROM f.id AND j.attempt = f.attempt
                    AND j.claimed_at IS NOT NULL AND j.generation = j.claimed_generation
                  FOR UPDATE SKIP LOCKED) l))
    RETURNING *
)
INSERT INTO {schema}.history (id, run_at, created_at, claimed_at, finished_at, day, attempt, generation, error_count, priority, failures,
    max_attempts, queue, kind, state, claimed_by, key, revision, payload, metadata, tags, errors)
SELECT id, run_at, created_at, claimed_at, now(), (now() AT TIME ZONE 'UTC')::date, attempt, generation, error_count, priority, failures,
    max_attempts, queue, kind, 'succeeded', claimed_by, key, revision, CASE WHEN $5::boolean THEN '{}' ELSE payload END, metadata, tags, errors
FROM d RETURNING id, attempt;

-- name: complete_forget_at
-- complete_at on a queue that keeps no history of successes: one DELETE. Arguments as there, without the last.
DELETE FROM {schema}.jobs
WHERE queue = $1 AND ctid = ANY (ARRAY (
    SELECT l.ctid FROM unnest($2::bigint[], $3::int[], $4::tid[]) f(id, attempt, place)
           CROSS JOIN LATERAL (
              SELECT j.ctid FROM {schema}.jobs j
              WHERE j.ctid = f.place AND j.queue = $1 AND j.id IS NOT DISTINCT FROM f.id AND j.attempt = f.attempt
                AND j.claimed_at IS NOT NULL AND j.generation = j.claimed_generation
              FOR UPDATE SKIP LOCKED) l))
RETURNING id, attempt;

-- name: complete
-- The same for jobs that lie elsewhere now: $1 queue  $2 id[]  $3 attempt[]  $4 slim.
-- Also for a job that was reaped and not claimed again (pending, claim still open): the work was done, and doing it a
-- second time helps nobody. What does not come back goes on to finish and put_back.
WITH d AS (
    DELETE FROM {schema}.jobs
    WHERE queue = $1 AND id = ANY (ARRAY (
        SELECT l.id FROM unnest($2::bigint[], $3::int[]) f(id, attempt)
               CROSS JOIN LATERAL (
                  SELECT j.id FROM {schema}.jobs j
                  WHERE j.queue = $1 AND j.id = f.id AND j.attempt = f.attempt
                    AND j.claimed_at IS NOT NULL AND j.generation = j.claimed_generation
                  FOR UPDATE SKIP LOCKED) l))
    RETURNING *
)
INSERT INTO {schema}.history (id, run_at, created_at, claimed_at, finished_at, day, attempt, generation, error_count, priority, failures,
    max_attempts, queue, kind, state, claimed_by, key, revision, payload, metadata, tags, errors)
SELECT id, run_at, created_at, claimed_at, now(), (now() AT TIME ZONE 'UTC')::date, attempt, generation, error_count, priority, failures,
    max_attempts, queue, kind, 'succeeded', claimed_by, key, revision, CASE WHEN $4::boolean THEN '{}' ELSE payload END, metadata, tags, errors
FROM d RETURNING id, attempt;

-- name: complete_forget
-- Success on a queue that keeps no history of successes: one DELETE. Arguments as in complete, without the last.
-- By ctid, which saves looking up each id a second time. A row that was renewed between snapshot and lock has another ctid than
-- the snapshot's, and is left out: the verdict comes back Busy, the claim stands, and the next report finds it.
DELETE FROM {schema}.jobs
WHERE queue = $1 AND ctid = ANY (ARRAY (
    SELECT l.ctid FROM unnest($2::bigint[], $3::int[]) f(id, attempt)
           CROSS JOIN LATERAL (
              SELECT j.ctid FROM {schema}.jobs j
              WHERE j.queue = $1 AND j.id = f.id AND j.attempt = f.attempt
                AND j.claimed_at IS NOT NULL AND j.generation = j.claimed_generation
              FOR UPDATE SKIP LOCKED) l))
RETURNING id, attempt;

-- name: finish
-- All other verdicts go through finish and then put_back, with the same arguments, in one transaction: each job is taken
-- by the one that its fate calls for. What neither returns is locked or lost: look.
-- $1 queue  $2 id[]  $3 attempt[]  $4 verdict[] (success fail cancel retry snooze release)
-- $5 delay in µs[] (retry, snooze; NULL: run_at stays)  $6 code[] and $7 message[] of the failure (NULL: none)
-- $8 result[] (json text or NULL)  $9 history[] (full, slim, off: the queue's setting when the job was claimed)
-- $10 bound[] of the handler beside the job's max_attempts (retry; NULL: none). A job that dies of it says so by its max_attempts.
--
-- The stored error is put together here: its attempt, times and worker are the database's knowledge, not the reporter's.
-- A success on a queue without history is complete_forget's; here it is only put back when it is superseded ('later').
-- Two statements, and times as columns of l, because Citus plans neither an INSERT in a CTE below another CTE nor a stable
-- function with columns in an UPDATE.
WITH l AS MATERIALIZED (
    SELECT j.id, f.verdict, f.result, f.history, f.bound,
           statement_timestamp() + f.delay_us * interval '1 microsecond' AS due, (now() AT TIME ZONE 'UTC')::date AS today,
           CASE WHEN f.code IS NOT NULL THEN jsonb_strip_nulls(jsonb_build_object('code', f.code, 'message', nullif(f.message, ''),
                'attempt', j.attempt, 'started', j.claimed_at, 'at', statement_timestamp(), 'by', j.claimed_by)) END AS error,
           CASE WHEN j.generation <> j.claimed_generation                           THEN 'superseded'
                WHEN f.verdict = 'success' AND f.history = 'off'                    THEN 'later'
                WHEN f.verdict = 'success'                                          THEN 'succeeded'
                WHEN f.verdict = 'cancel' OR j.cancel_requested_at IS NOT NULL      THEN 'cancelled'
                WHEN f.verdict = 'fail'                                             THEN 'failed'
                WHEN f.verdict = 'retry'
                     AND j.failures + 1 >= least(j.max_attempts, f.bound)           THEN 'dead'
                ELSE 'pending' END AS fate
    FROM unnest($2::bigint[], $3::int[], $4::text[], $5::bigint[], $6::text[], $7::text[], $8::text[], $9::text[],
                $10::int[]) AS f(id, attempt, verdict, delay_us, code, message, result, history, bound)
         CROSS JOIN LATERAL (
            SELECT * FROM {schema}.jobs x
            WHERE x.queue = $1 AND x.id = f.id AND x.attempt = f.attempt
              AND (x.state = 'running' OR (f.verdict = 'success' AND x.claimed_at IS NOT NULL))
            FOR UPDATE SKIP LOCKED) j
),
d AS (
    DELETE FROM {schema}.jobs j USING l
    WHERE j.queue = $1 AND j.id = l.id AND l.fate IN ('succeeded', 'cancelled', 'failed', 'dead')
    RETURNING j.*, l.fate, l.today, l.error, l.result, l.history, l.bound
)
INSERT INTO {schema}.history (id, run_at, created_at, claimed_at, finished_at, day, attempt, generation, error_count, priority, failures,
    max_attempts, queue, kind, state, claimed_by, key, revision, payload, metadata, tags, errors, result)
SELECT id, run_at, created_at, claimed_at, now(), CASE WHEN fate IN ('failed', 'dead') THEN 'infinity' ELSE today END,
    attempt, generation, error_count + (error IS NOT NULL)::int, priority, failures + (fate IN ('failed', 'dead'))::int,
    CASE WHEN fate = 'dead' THEN least(max_attempts, bound) ELSE max_attempts END, queue, kind, fate, claimed_by, key, revision,
    CASE WHEN fate = 'succeeded' AND history = 'slim' THEN '{}' ELSE payload END, metadata, tags,
    CASE WHEN error IS NULL THEN errors WHEN jsonb_array_length(errors) >= 10 THEN (errors - 0) || error
         ELSE coalesce(errors, '[]') || error END, result::jsonb
FROM d RETURNING id, attempt, state;

-- name: put_back
-- See finish. l is the same text in both.
WITH l AS MATERIALIZED (
    SELECT j.id, f.verdict, f.result, f.history, f.bound,
           statement_timestamp() + f.delay_us * interval '1 microsecond' AS due, (now() AT TIME ZONE 'UTC')::date AS today,
           CASE WHEN f.code IS NOT NULL THEN jsonb_strip_nulls(jsonb_build_object('code', f.code, 'message', nullif(f.message, ''),
                'attempt', j.attempt, 'started', j.claimed_at, 'at', statement_timestamp(), 'by', j.claimed_by)) END AS error,
           CASE WHEN j.generation <> j.claimed_generation                           THEN 'superseded'
                WHEN f.verdict = 'success' AND f.history = 'off'                    THEN 'later'
                WHEN f.verdict = 'success'                                          THEN 'succeeded'
                WHEN f.verdict = 'cancel' OR j.cancel_requested_at IS NOT NULL      THEN 'cancelled'
                WHEN f.verdict = 'fail'                                             THEN 'failed'
                WHEN f.verdict = 'retry'
                     AND j.failures + 1 >= least(j.max_attempts, f.bound)           THEN 'dead'
                ELSE 'pending' END AS fate
    FROM unnest($2::bigint[], $3::int[], $4::text[], $5::bigint[], $6::text[], $7::text[], $8::text[], $9::text[],
                $10::int[]) AS f(id, attempt, verdict, delay_us, code, message, result, history, bound)
         CROSS JOIN LATERAL (
            SELECT * FROM {schema}.jobs x
            WHERE x.queue = $1 AND x.id = f.id AND x.attempt = f.attempt
              AND (x.state = 'running' OR (f.verdict = 'success' AND x.claimed_at IS NOT NULL))
            FOR UPDATE SKIP LOCKED) j
)
UPDATE {schema}.jobs j
SET state = 'pending', lease_expires_at = NULL, claimed_at = NULL, claimed_by = NULL,
    run_at      = CASE WHEN l.fate = 'superseded' OR l.due IS NULL THEN j.run_at ELSE l.due END,
    failures    = j.failures + (l.fate = 'pending' AND l.verdict = 'retry')::int,
    error_count = j.error_count + (l.error IS NOT NULL)::int,
    errors      = CASE WHEN l.error IS NULL THEN j.errors WHEN jsonb_array_length(j.errors) >= 10 THEN (j.errors - 0) || l.error
                       ELSE coalesce(j.errors, '[]') || l.error END
FROM l
WHERE j.queue = $1 AND j.id = l.id AND l.fate IN ('superseded', 'pending')
RETURNING j.id, j.attempt, CASE WHEN l.fate = 'superseded' THEN l.fate ELSE l.verdict END AS state, j.priority, j.run_at;

-- name: look
-- $1 queue  $2 id[]. Asked when a statement left something out, and for Confirm. Reads, locks nothing.
-- Not ours any more, or gone = lost; ours = locked by somebody, try again.
-- LIMIT 1 keeps it one walk down the primary key for each number: where statistics were gathered on the empty table, = ANY (…) of
-- some hundred numbers reads the whole table.
SELECT j.id, j.attempt, j.running, j.open, j.superseded
FROM unnest($2::bigint[]) f(id)
     CROSS JOIN LATERAL (
        SELECT x.id, x.attempt, x.state = 'running' AS running, x.claimed_at IS NOT NULL AS open, x.generation <> x.claimed_generation AS superseded
        FROM {schema}.jobs x WHERE x.queue = $1 AND x.id = f.id LIMIT 1) j;

-- name: renew
-- $1 queue  $2 id[]  $3 attempt[]  $4 lease in µs. What does not come back is looked at: locked by somebody is no refusal, it
-- may be the job's own transaction, and the reaper cannot take a locked row either. The generation plays no part: a
-- superseded run goes on. lease_expires_at is in no index, so with free space on the page the update is HOT.
-- state <> 'pending' is running, and says so without inviting the planner to jobs_running: to statistics of an idle hour that
-- index looks empty, and walking it for each id is the same mistake as the join above.
UPDATE {schema}.jobs SET lease_expires_at = statement_timestamp() + $4::bigint * interval '1 microsecond'
WHERE queue = $1 AND id = ANY (ARRAY (
    SELECT l.id FROM unnest($2::bigint[], $3::int[]) f(id, attempt)
           CROSS JOIN LATERAL (
              SELECT j.id FROM {schema}.jobs j
              WHERE j.queue = $1 AND j.id = f.id AND j.attempt = f.attempt AND j.state <> 'pending'
              FOR NO KEY UPDATE SKIP LOCKED) l))
RETURNING id, attempt, cancel_requested_at IS NOT NULL AS cancel;

-- name: revive
-- $1 queue  $2 id[]  $3 attempt[]  $4 result[] (json text or NULL)  $5 history[]
-- The last word of a success that came back lost: if the reaper spent the budget on this very attempt (dead, lease_expired),
-- the work was done all the same. It becomes a success, instead of a retry by a human that does it twice.
WITH d AS (
    DELETE FROM {schema}.history x USING unnest($2::bigint[], $3::int[], $4::text[], $5::text[]) f(id, attempt, result, keep)
    WHERE x.queue = $1 AND x.day = 'infinity' AND x.id = f.id AND x.attempt = f.attempt AND x.state = 'dead'
      AND x.errors->-1->>'code' = 'lease_expired' AND x.errors->-1->>'attempt' = f.attempt::text
    RETURNING x.*, f.result AS new_result, f.keep
),
h AS (
    INSERT INTO {schema}.history (id, run_at, created_at, claimed_at, finished_at, day, attempt, generation, error_count, priority, failures,
        max_attempts, queue, kind, state, claimed_by, key, revision, payload, metadata, tags, errors, result)
    SELECT id, run_at, created_at, claimed_at, now(), (now() AT TIME ZONE 'UTC')::date, attempt, generation, error_count, priority, failures,
        max_attempts, queue, kind, 'succeeded', claimed_by, key, revision,
        CASE WHEN keep = 'slim' THEN '{}' ELSE payload END, metadata, tags, errors, new_result::jsonb
    FROM d WHERE keep <> 'off'
)
SELECT id, attempt FROM d;

-- name: settle
-- A success inside the caller's own transaction. $1 queue  $2 id  $3 attempt  $4 result (json text or NULL)  $5 history
-- Unlike the others it waits for the row: the caller has decided to commit with it, and is told the outcome at once. Zero rows =
-- the claim no longer stands, which is an answer and no error: the caller's transaction stays usable. For the same reason it looks
-- whether there is a partition for today, and does nothing where there is none ('no_partition'): the INSERT would fail.
WITH l AS MATERIALIZED (
    SELECT j.id, (now() AT TIME ZONE 'UTC')::date AS today,
           CASE WHEN j.generation <> j.claimed_generation THEN 'superseded'
                WHEN $5::text <> 'off' AND to_regclass({history_day} || to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD')) IS NULL
                                                          THEN 'no_partition'
                ELSE 'succeeded' END AS fate
    FROM {schema}.jobs j
    WHERE j.queue = $1 AND j.id = $2 AND j.attempt = $3 AND j.claimed_at IS NOT NULL
    FOR UPDATE
),
d AS (
    DELETE FROM {schema}.jobs j USING l WHERE j.queue = $1 AND j.id = l.id AND l.fate = 'succeeded'
    RETURNING j.*, l.today
),
h AS (
    INSERT INTO {schema}.history (id, run_at, created_at, claimed_at, finished_at, day, attempt, generation, error_count, priority, failures,
        max_attempts, queue, kind, state, claimed_by, key, revision, payload, metadata, tags, errors, result)
    SELECT id, run_at, created_at, claimed_at, statement_timestamp(), today, attempt, generation, error_count, priority, failures,
        max_attempts, queue, kind, 'succeeded', claimed_by, key, revision,
        CASE WHEN $5::text = 'slim' THEN '{}' ELSE payload END, metadata, tags, errors, $4::text::jsonb
    FROM d WHERE $5::text <> 'off'
),
u AS (
    UPDATE {schema}.jobs j SET state = 'pending', lease_expires_at = NULL, claimed_at = NULL, claimed_by = NULL
    FROM l WHERE j.queue = $1 AND j.id = l.id AND l.fate = 'superseded'
    RETURNING j.id
)
SELECT 'succeeded' AS state FROM d UNION ALL SELECT 'superseded' FROM u UNION ALL SELECT fate FROM l WHERE fate = 'no_partition';

-- name: make_partition
-- Today's partition of history, for settle. In another transaction than the caller's, which may stay open for long.
SELECT {schema}.ensure_history(0)::text AS made;
