-- The statements over a table of the application's, as templates: {{.Table}} and the columns are filled in, quoted, and
-- @limit and the like become parameters. A column that the description does not name is left out. Comments are not sent;
-- Queue.SQL shows them beside the statement.
--
-- In all of them:
-- * Times are the database's. What is stored is statement_timestamp(), because now() in an old transaction is in the past.
-- * Who locks does not wait: SKIP LOCKED. An application that holds one row delays that row alone. FOR NO KEY UPDATE lets
--   it insert rows that reference ours meanwhile.
-- * The lock step carries the whole fence and decides on the LOCKED version of the row; the write step finds its rows by
--   key alone, since a condition on other columns there would be checked against the snapshot's older version first.
-- * The lock step looks up one row at a time, in a LATERAL subquery, which FOR UPDATE keeps the planner from turning into a
--   join. Statistics that were gathered while nothing ran make a join read the whole table.

-- part: fence
-- A claim stands while key, attempts and time (or token) are those of the claim. IS NOT DISTINCT FROM is = here, but no index can
-- serve it: whatever indexes the application has, rows are found by their key. A whole batch has one time, and to statistics
-- of an idle hour an index over it looks empty.
x.{{.Attempts}} IS NOT DISTINCT FROM f.attempts AND {{if .Token}}x.{{.Token}}::text IS NOT DISTINCT FROM f.token{{else}}x.{{.AttemptedAt}} IS NOT DISTINCT FROM f.attempted_at{{end}}

-- part: processing
x.{{.Status}} IS NOT DISTINCT FROM {{.Processing}}

-- part: open
({{template "processing" .}} OR x.{{.Status}} IS NOT DISTINCT FROM {{.Pending}})

-- part: claims
unnest({{args .Keys ""}}, @attempts::bigint[], {{if .Token}}@token::text[]{{else}}@attempted_at::timestamptz[]{{end}}

-- part: claims_as
{{list .Keys}}, attempts, {{if .Token}}token{{else}}attempted_at{{end}}

-- part: due
-- The hold is for rows that were claimed a moment ago, are pending again, and were given no later due time: a trigger or a
-- person set them back. What we put back ourselves is due after its claim, or has none.
p.{{.Status}} = {{.Pending}} AND p.{{.NextAttempt}} <= least(statement_timestamp(), @until::timestamptz)
{{- if not .Priority}} AND (p.{{.NextAttempt}}, p.{{.CreatedAt}}) >= (@mark_due::timestamptz, @mark_created::timestamptz){{end}}
          AND (p.{{.AttemptedAt}} IS NULL OR p.{{.NextAttempt}} > p.{{.AttemptedAt}}
               OR p.{{.AttemptedAt}} <= statement_timestamp() - @hold_us::bigint * interval '1 microsecond')
{{- if .Kind}} AND (@kinds::text[] IS NULL OR p.{{.Kind}}::text = ANY (@kinds::text[])){{end}}
{{- if .One}} AND {{only "p" .Keys}}{{end}}
{{- if .Except}} AND NOT EXISTS (SELECT FROM unnest({{args .Keys "except_"}}) AS e({{list .Keys}}) WHERE {{match "p" .Keys "e"}}){{end}}

-- part: pick
{{if .Priority -}}
    SELECT {{cols "c" .Keys}}
    FROM unnest(@classes::smallint[]) WITH ORDINALITY AS o(class, ord)
         CROSS JOIN LATERAL (
            SELECT {{cols "p" .Keys}} FROM {{.Table}} p
            WHERE p.{{.Priority}} = o.class AND {{template "due" .}}
            ORDER BY p.{{.NextAttempt}}, p.{{.CreatedAt}} LIMIT @limit{{if .Lock}} FOR NO KEY UPDATE SKIP LOCKED{{end}}) c
    ORDER BY o.ord LIMIT @limit
{{- else -}}
    SELECT {{cols "p" .Keys}} FROM {{.Table}} p
    WHERE {{template "due" .}}
    ORDER BY p.{{.NextAttempt}}, p.{{.CreatedAt}} LIMIT @limit{{if .Lock}} FOR NO KEY UPDATE SKIP LOCKED{{end}}
{{- end}}

-- part: claimed
-- What every claim answers with, in the order in which scan.go reads it. Everything is cast, so that it comes as one of
-- four types whatever the table has.
{{textkeys "t" .Keys}}, t.{{.Attempts}}::bigint, t.{{.AttemptedAt}}, t.{{.CreatedAt}}, t.{{.NextAttempt}},
       {{if .Priority}}t.{{.Priority}}{{else}}0{{end}}::bigint, {{if .Kind}}t.{{.Kind}}::text{{else}}NULL::text{{end}},
       ({{if .Failures}}coalesce(t.{{.Failures}}, 0){{else}}t.{{.Attempts}} - 1{{end}})::bigint,
       {{if .MaxAttempts}}coalesce(t.{{.MaxAttempts}}::bigint, @max::bigint){{else}}@max::bigint{{end}},
       {{if .Token}}t.{{.Token}}::text{{else}}NULL::text{{end}}, {{if .IdempotencyKey}}({{.IdempotencyKey}})::text{{else}}NULL::text{{end}}

-- name: claim
-- Takes rows that are due, in the order of their due time, then their creation.
-- * A MATERIALIZED pick runs exactly once. As IN (... LIMIT n ...) it may be run again for every outer row, and one claim
--   then takes the whole table.
-- * Each class is an index range of its own, so rows of one class that are due later hide no other. ORDER BY ord and nothing
--   more: anything else there sorts, and locks rows that are not returned.
-- * RETURNING has no order, whatever the pick says: the caller sorts.
-- * A join for the handler's columns comes after the claim, and from the left: a claimed row for which it finds nothing must
--   come back, to fail alone, and not wait for its lease to end.
WITH picked AS MATERIALIZED (
    {{template "pick" .}}
){{if .Join}},
claimed AS ({{end}}
UPDATE {{.Table}} AS t
SET {{.Status}} = {{.Processing}}, {{.Attempts}} = coalesce(t.{{.Attempts}}, 0) + 1, {{.AttemptedAt}} = statement_timestamp()
{{- if .LeaseUntil}}, {{.LeaseUntil}} = statement_timestamp() + @lease_us::bigint * interval '1 microsecond'{{end}}
{{- if .Token}}, {{.Token}} = gen_random_uuid(){{end}}
{{if .Composite}}FROM picked p WHERE {{same "t" "p" .Keys}}{{else}}WHERE t.{{(index .Keys 0).Name}} = ANY (ARRAY (SELECT p.{{(index .Keys 0).Name}} FROM picked p)){{end}}
{{if .Join -}}
RETURNING t.*
)
SELECT {{template "claimed" .}}, j.*
FROM claimed t LEFT JOIN LATERAL (SELECT true, {{.Columns}} FROM (SELECT 1) AS one {{.Join}}) j ON true
{{- else -}}
RETURNING {{template "claimed" .}}, true, {{.Columns}}
{{- end}}

-- name: peek
-- The keys that a claim would take, locked or not. Asked after a claim that a row refused, to find out which.
SELECT {{textkeys "d" .Keys}} FROM (
    {{template "pick" .}}
) d

-- name: reject
-- A pending row that refuses to be claimed, because a trigger or a constraint raises: that was a failed attempt.
UPDATE {{.Table}} AS t
SET {{.Attempts}} = coalesce(t.{{.Attempts}}, 0) + 1,
    {{- if .Failures}} {{.Failures}} = coalesce(t.{{.Failures}}, 0) + 1,{{end}}
    {{- if .ErrorCode}} {{.ErrorCode}} = 'claim_rejected',{{end}}
    {{- if .LastError}} {{.LastError}} = {{if not .ErrorCode}}'claim_rejected: ' || {{end}}@message::text,{{end}}
    {{- if .FinishedAt}} {{.FinishedAt}} = CASE WHEN {{template "spent_next" .}} THEN statement_timestamp() ELSE t.{{.FinishedAt}} END,{{end}}
    {{.Status}} = CASE WHEN {{template "spent_next" .}} THEN {{.Dead}} ELSE t.{{.Status}} END,
    {{.NextAttempt}} = statement_timestamp() + @delay_us::bigint * interval '1 microsecond'
WHERE {{only "t" .Keys}} AND t.{{.Status}} = {{.Pending}}

-- part: spent_next
coalesce(t.{{if .Failures}}{{.Failures}}{{else}}{{.Attempts}}{{end}}, 0) + 1 >= {{if .MaxAttempts}}coalesce(t.{{.MaxAttempts}}::bigint, @max::bigint){{else}}@max::bigint{{end}}

-- part: spent
-- The failure that is being written counts. Without a column for failures the claim has counted it already.
{{if .Failures}}coalesce(x.{{.Failures}}, 0) + 1{{else}}x.{{.Attempts}}{{end}}

-- part: budget
{{if .MaxAttempts}}coalesce(x.{{.MaxAttempts}}::bigint, @max::bigint){{else}}@max::bigint{{end}}

-- part: written
-- How the write step finds the rows that l has locked. A single key is looked up as an array, which the planner takes for
-- few rows and so uses the index for, however many there are. Several columns have no array; ctid takes its part, and leaves
-- out a row that was changed between snapshot and lock: it comes back as busy.
{{same "t" "l" .Keys}} AND {{if .Composite}}t.ctid = ANY (ARRAY (SELECT w.tid FROM l w)){{else}}t.{{(index .Keys 0).Name}} = ANY (ARRAY (SELECT w.{{(index .Keys 0).Name}} FROM l w)){{end}}

-- name: success
-- The fast path: successes without a result. It counts while the row is processing, and also when the reaper has taken it
-- back and nobody has claimed it again (pending, same fence): the work was done. The answer is the position in the arrays; what
-- is not in it is locked or lost, see look.
WITH l AS MATERIALIZED (
    SELECT f.ord, x.*
    FROM {{template "claims" .}}) WITH ORDINALITY AS f({{template "claims_as" .}}, ord)
         CROSS JOIN LATERAL (
            SELECT {{cols "x" .Keys}}{{if .Composite}}, x.ctid AS tid{{end}} FROM {{.Table}} x
            WHERE {{match "x" .Keys "f"}} AND {{template "fence" .}} AND {{template "open" .}}
            FOR NO KEY UPDATE SKIP LOCKED) x
)
UPDATE {{.Table}} AS t
SET {{.Status}} = {{.Succeeded}}{{if .FinishedAt}}, {{.FinishedAt}} = statement_timestamp(){{end}}{{if .LeaseUntil}}, {{.LeaseUntil}} = NULL{{end}}
FROM l WHERE {{template "written" .}}
RETURNING l.ord

-- name: report
-- All other verdicts: success (with a result), fail, cancel, retry, snooze, release. Only a success counts on a pending row.
-- * What goes back to pending closes the claim, so that a second report finds nothing: {{.AttemptedAt}} moves by a
--   microsecond, which changes it for the fence and not for people; {{if .Token}}the token is taken away; {{end}}a row that is released
--   has none, as if it had not been claimed.
{{- if not .Failures}}
-- * Attempts are the budget. A release of a row that no handler has seen, and a snooze, lower them by one: nothing was
--   spent. The fence does not suffer, since the next claim has another time.{{end}}
WITH l AS MATERIALIZED (
    SELECT f.ord, {{cols "x" .Keys}}{{if .Composite}}, x.tid{{end}}, f.started, f.code, f.message,
           {{- if .Result}} f.result,{{end}}
           statement_timestamp() + f.delay_us * interval '1 microsecond' AS due,
           CASE WHEN f.verdict = 'retry' AND {{template "spent" .}} >= least({{template "budget" .}}, f.bound) THEN 'dead' ELSE f.verdict END AS fate
    FROM {{template "claims" .}}, @verdict::text[], @delay_us::bigint[], @bound::bigint[], @started::boolean[],
                @code::text[], @message::text[]{{if .Result}}, @result::text[]{{end}}) WITH ORDINALITY
                AS f({{template "claims_as" .}}, verdict, delay_us, bound, started, code, message{{if .Result}}, result{{end}}, ord)
         CROSS JOIN LATERAL (
            SELECT x.*{{if .Composite}}, x.ctid AS tid{{end}} FROM {{.Table}} x
            WHERE {{match "x" .Keys "f"}} AND {{template "fence" .}}
              AND ({{template "processing" .}} OR f.verdict = 'success' AND x.{{.Status}} IS NOT DISTINCT FROM {{.Pending}})
            FOR NO KEY UPDATE SKIP LOCKED) x
)
UPDATE {{.Table}} AS t
SET {{.Status}} = CASE l.fate WHEN 'success' THEN {{.Succeeded}} WHEN 'fail' THEN {{.Failed}} WHEN 'dead' THEN {{.Dead}}
        WHEN 'cancel' THEN {{.Cancelled}} WHEN 'retry' THEN {{.Pending}} WHEN 'snooze' THEN {{.Pending}} WHEN 'release' THEN {{.Pending}}
        ELSE t.{{.Status}} END,
    {{.NextAttempt}} = CASE WHEN l.fate IN ('retry', 'snooze') THEN l.due ELSE t.{{.NextAttempt}} END,
    {{.AttemptedAt}} = CASE WHEN l.fate = 'release' THEN NULL WHEN l.fate IN ('retry', 'snooze')
        THEN t.{{.AttemptedAt}} + interval '1 microsecond' ELSE t.{{.AttemptedAt}} END
    {{- if .Failures}},
    {{.Failures}} = CASE WHEN l.fate IN ('retry', 'fail', 'dead') THEN coalesce(t.{{.Failures}}, 0) + 1 ELSE t.{{.Failures}} END
    {{- else}},
    {{.Attempts}} = t.{{.Attempts}} - CASE WHEN l.fate = 'snooze' OR l.fate = 'release' AND NOT l.started THEN 1 ELSE 0 END
    {{- end}}
    {{- if .LeaseUntil}},
    {{.LeaseUntil}} = NULL{{end}}
    {{- if .Token}},
    {{.Token}} = CASE WHEN l.fate IN ('retry', 'snooze', 'release') THEN NULL ELSE t.{{.Token}} END{{end}}
    {{- if .ErrorCode}},
    {{.ErrorCode}} = CASE WHEN l.code IS NULL THEN t.{{.ErrorCode}} ELSE l.code END{{end}}
    {{- if .LastError}},
    {{.LastError}} = CASE WHEN l.code IS NULL THEN t.{{.LastError}} ELSE l.message END{{end}}
    {{- if .FinishedAt}},
    {{.FinishedAt}} = CASE WHEN l.fate IN ('retry', 'snooze', 'release') THEN t.{{.FinishedAt}} ELSE statement_timestamp() END{{end}}
    {{- if .Result}},
    {{.Result}} = CASE WHEN l.fate = 'success' THEN l.result::{{.ResultType}} ELSE t.{{.Result}} END{{end}}
FROM l WHERE {{template "written" .}}
RETURNING l.ord, l.fate

-- name: look
-- Which of these claims still stand, and how? Asked about what a report left out, and for Confirm. Reads, locks nothing. A row that
-- comes back is locked by somebody: try again. One that does not is lost.
SELECT f.ord, x.running
FROM {{template "claims" .}}) WITH ORDINALITY AS f({{template "claims_as" .}}, ord)
     CROSS JOIN LATERAL (
        SELECT x.{{.Status}} = {{.Processing}} AS running FROM {{.Table}} x
        WHERE {{match "x" .Keys "f"}} AND {{template "fence" .}} AND {{template "open" .}}
        LIMIT 1) x

-- name: complete_tx
-- A success in the application's own transaction. It waits for the row: whoever commits with it is told the outcome at once. No
-- row means that the claim no longer stands.
UPDATE {{.Table}} AS x
SET {{.Status}} = {{.Succeeded}}{{if .FinishedAt}}, {{.FinishedAt}} = statement_timestamp(){{end}}{{if .LeaseUntil}}, {{.LeaseUntil}} = NULL{{end}}
    {{- if .Result}}, {{.Result}} = coalesce(f.result::{{.ResultType}}, x.{{.Result}}){{end}}
FROM {{template "claims" .}}{{if .Result}}, @result::text[]{{end}}) AS f({{template "claims_as" .}}{{if .Result}}, result{{end}})
WHERE {{match "x" .Keys "f"}} AND {{template "fence" .}} AND {{template "open" .}}
RETURNING true

-- name: renew
{{if .LeaseUntil -}}
-- Extends leases. What does not come back is looked at: locked by somebody is no refusal.
WITH l AS MATERIALIZED (
    SELECT f.ord, x.*
    FROM {{template "claims" .}}) WITH ORDINALITY AS f({{template "claims_as" .}}, ord)
         CROSS JOIN LATERAL (
            SELECT {{cols "x" .Keys}}{{if .Composite}}, x.ctid AS tid{{end}} FROM {{.Table}} x
            WHERE {{match "x" .Keys "f"}} AND {{template "fence" .}} AND {{template "processing" .}}
            FOR NO KEY UPDATE SKIP LOCKED) x
)
UPDATE {{.Table}} AS t SET {{.LeaseUntil}} = statement_timestamp() + @lease_us::bigint * interval '1 microsecond'
FROM l WHERE {{template "written" .}}
RETURNING l.ord
{{end}}

-- part: stale
{{if .LeaseUntil}}coalesce(x.{{.LeaseUntil}}, coalesce(x.{{.AttemptedAt}}, x.{{.CreatedAt}}) + @lease_us::bigint * interval '1 microsecond')
      < statement_timestamp(){{else}}coalesce(x.{{.AttemptedAt}}, x.{{.CreatedAt}}) < statement_timestamp() - @lease_us::bigint * interval '1 microsecond'{{end}}
      AND NOT EXISTS (SELECT FROM unnest({{args .Keys ""}}, @attempts::bigint[]) AS f({{list .Keys}}, attempts)
                      WHERE {{match "x" .Keys "f"}} AND x.{{.Attempts}} = f.attempts)
      {{- if .One}} AND {{only "x" .Keys}}{{end}}
      {{- if .Except}} AND NOT EXISTS (SELECT FROM unnest({{args .Keys "except_"}}) AS e({{list .Keys}}) WHERE {{match "x" .Keys "e"}}){{end}}

-- name: reap
-- Claims that are older than the lease: pending again, or dead if the budget is spent. One statement decides on the locked row, so
-- a row that is completed meanwhile is never put back, and two reapers never take one lapse twice.
-- * Attempts and {{.AttemptedAt}} stay: a late success of that very claim wins until somebody claims again.
-- * What this process is working on is left out, by key and attempts.
WITH l AS MATERIALIZED (
    SELECT {{cols "x" .Keys}}{{if .Composite}}, x.ctid AS tid{{end}},
           CASE WHEN {{template "spent" .}} >= {{template "budget" .}} THEN 'dead' ELSE 'pending' END AS fate
    FROM {{.Table}} x
    WHERE x.{{.Status}} = {{.Processing}} AND {{template "stale" .}}
    ORDER BY x.{{.AttemptedAt}} LIMIT @limit FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE {{.Table}} AS t
SET {{.Status}} = CASE l.fate WHEN 'dead' THEN {{.Dead}} WHEN 'pending' THEN {{.Pending}} ELSE t.{{.Status}} END,
    {{.NextAttempt}} = CASE l.fate WHEN 'pending' THEN greatest(t.{{.NextAttempt}}, statement_timestamp()) ELSE t.{{.NextAttempt}} END
    {{- if .Failures}},
    {{.Failures}} = coalesce(t.{{.Failures}}, 0) + 1{{end}}
    {{- if .LeaseUntil}},
    {{.LeaseUntil}} = NULL{{end}}
    {{- if .ErrorCode}},
    {{.ErrorCode}} = 'lease_expired'{{end}}
    {{- if .LastError}},
    {{.LastError}} = '{{if not .ErrorCode}}lease_expired: {{end}}the worker did not report before its lease ran out'{{end}}
    {{- if .FinishedAt}},
    {{.FinishedAt}} = CASE l.fate WHEN 'dead' THEN statement_timestamp() ELSE t.{{.FinishedAt}} END{{end}}
FROM l WHERE {{template "written" .}}
RETURNING l.fate

-- name: peek_stale
-- The keys that a reap would take. Asked after one that a row refused.
SELECT {{textkeys "x" .Keys}} FROM {{.Table}} x
WHERE x.{{.Status}} = {{.Processing}} AND {{template "stale" .}}
ORDER BY x.{{.AttemptedAt}} LIMIT @limit

-- part: next
SELECT min(CASE WHEN r.{{.AttemptedAt}} >= r.{{.NextAttempt}}
                THEN greatest(r.{{.NextAttempt}}, r.{{.AttemptedAt}} + @hold_us::bigint * interval '1 microsecond')
                ELSE r.{{.NextAttempt}} END) AS due
FROM (SELECT p.{{.NextAttempt}}, p.{{.AttemptedAt}} FROM {{.Table}} p
      WHERE p.{{.Status}} = {{.Pending}}{{if .Priority}} AND p.{{.Priority}} = o.class{{end}}
      {{- if .Kind}} AND (@kinds::text[] IS NULL OR p.{{.Kind}}::text = ANY (@kinds::text[])){{end}}
      ORDER BY p.{{.NextAttempt}}, p.{{.CreatedAt}} LIMIT 100) r

-- name: next_due
-- When is the next row due? The first rows of each class are read, and nothing is locked.
SELECT CASE WHEN d.due = 'infinity' THEN NULL WHEN d.due <= statement_timestamp() THEN 0
            ELSE (extract(epoch FROM d.due - statement_timestamp()) * 1000000)::bigint END
FROM ({{if .Priority}}SELECT min(n.due) AS due FROM unnest(@classes::smallint[]) AS o(class) CROSS JOIN LATERAL (
    {{template "next" .}}) n{{else}}
    {{template "next" .}}{{end}}) d

-- name: clock
SELECT statement_timestamp()

-- part: resumed
{{.Status}} = {{.Pending}}, {{.NextAttempt}} = statement_timestamp(), {{.AttemptedAt}} = NULL, {{if .Failures}}{{.Failures}}{{else}}{{.Attempts}}{{end}} = 0
{{- if .FinishedAt}}, {{.FinishedAt}} = NULL{{end}}{{if .LeaseUntil}}, {{.LeaseUntil}} = NULL{{end}}{{if .Token}}, {{.Token}} = NULL{{end}}

-- name: resume
-- A failed or dead row gets a whole budget and is due now. It waits for the row if somebody has locked it.
UPDATE {{.Table}} AS t SET {{template "resumed" .}}
WHERE {{only "t" .Keys}} AND t.{{.Status}} IN ({{.Failed}}, {{.Dead}})
RETURNING true

-- name: resume_where
-- The same for many, a thousand at a time: the condition, on t, is the caller's, and so are all parameters.
WITH l AS MATERIALIZED (
    SELECT {{cols "t" .Keys}}{{if .Composite}}, t.ctid AS tid{{end}} FROM {{.Table}} t
    WHERE t.{{.Status}} IN ({{.Failed}}, {{.Dead}}) AND ({condition})
    LIMIT 1000 FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE {{.Table}} AS t SET {{template "resumed" .}}
FROM l WHERE {{template "written" .}}
RETURNING true

-- name: stats
-- How many rows stand how, each counted to @cap at most, and the oldest that is ready.
SELECT (SELECT count(*) FROM (SELECT FROM {{.Table}} t WHERE t.{{.Status}} = {{.Pending}} AND t.{{.NextAttempt}} <= statement_timestamp() LIMIT @cap) c),
       (SELECT count(*) FROM (SELECT FROM {{.Table}} t WHERE t.{{.Status}} = {{.Pending}} AND t.{{.NextAttempt}} > statement_timestamp() AND coalesce(t.{{.Attempts}}, 0) = 0 LIMIT @cap) c),
       (SELECT count(*) FROM (SELECT FROM {{.Table}} t WHERE t.{{.Status}} = {{.Pending}} AND t.{{.NextAttempt}} > statement_timestamp() AND t.{{.Attempts}} > 0 LIMIT @cap) c),
       (SELECT count(*) FROM (SELECT FROM {{.Table}} t WHERE t.{{.Status}} = {{.Processing}} LIMIT @cap) c),
       (SELECT count(*) FROM (SELECT FROM {{.Table}} t WHERE t.{{.Status}} = {{.Failed}} LIMIT @cap) c),
       (SELECT count(*) FROM (SELECT FROM {{.Table}} t WHERE t.{{.Status}} = {{.Dead}} LIMIT @cap) c),
       (SELECT count(*) FROM (SELECT FROM {{.Table}} t WHERE t.{{.Status}} = {{.Pending}} AND t.{{.NextAttempt}} <= statement_timestamp()
                               AND t.{{.AttemptedAt}} >= t.{{.NextAttempt}} AND t.{{.AttemptedAt}} > statement_timestamp() - @hold_us::bigint * interval '1 microsecond' LIMIT @cap) c),
       (SELECT extract(epoch FROM greatest(statement_timestamp() - min(o.due), interval '0'))::float8
        FROM (SELECT t.{{.NextAttempt}} AS due FROM {{.Table}} t WHERE t.{{.Status}} = {{.Pending}} AND t.{{.NextAttempt}} <= statement_timestamp()
              AND t.{{.NextAttempt}} > '-infinity' ORDER BY t.{{.NextAttempt}}, t.{{.CreatedAt}} LIMIT 1) o)

-- name: label
-- For people and views: what the status means. Pending is ready, scheduled or, after an attempt, retrying.
SELECT CASE WHEN t.{{.Status}} = {{.Pending}} AND t.{{.NextAttempt}} <= statement_timestamp() THEN 'ready'
            WHEN t.{{.Status}} = {{.Pending}} AND t.{{.Attempts}} > 0 THEN 'retrying'
            WHEN t.{{.Status}} = {{.Pending}} THEN 'scheduled'
            WHEN t.{{.Status}} = {{.Processing}} THEN 'processing' WHEN t.{{.Status}} = {{.Succeeded}} THEN 'succeeded'
            WHEN t.{{.Status}} = {{.Failed}} THEN 'failed' WHEN t.{{.Status}} = {{.Dead}} THEN 'dead'
            {{- if ne .Cancelled .Failed}} WHEN t.{{.Status}} = {{.Cancelled}} THEN 'cancelled'{{end}} ELSE t.{{.Status}}::text END
FROM {{.Table}} t WHERE {{only "t" .Keys}}
