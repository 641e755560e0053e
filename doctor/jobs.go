package doctor

import (
	"context"
	"fmt"
	"strings"
)

// mostJobs is how many running jobs, or due ones of a queue, are looked at.
const mostJobs = 10_000

// suspects is what a check of running jobs found.
type suspects struct {
	Count, Seen int64
	Examples    []int64
	Longest     float64 // in seconds
}

// text writes how many there are and names a few.
func (s suspects) text() string {
	var ids []string
	for _, id := range s.Examples {
		ids = append(ids, fmt.Sprint(id))
	}
	more := ""
	if s.Seen >= mostJobs {
		more = "at least "
	}
	return fmt.Sprintf("%s%s (for example %s)", more, plural(s.Count, "job"), strings.Join(ids, ", "))
}

// running looks at the running jobs, the oldest claims of each queue first, by index and no further than the bound: how many meet a
// condition, and how far from now the time in a column of theirs is at most, infinite ones left out.
func (x *examination) running(ctx context.Context, condition, since string) (suspects, error) {
	rows, err := readByIndex[suspects](ctx, x, `
		SELECT count(*) FILTER (WHERE r.bad), count(*), coalesce((array_agg(r.id ORDER BY r.id) FILTER (WHERE r.bad))[1:3], '{}'),
		       coalesce(max(r.measure) FILTER (WHERE r.bad), 0)::float8
		FROM (SELECT j.id, coalesce(`+condition+`, false) AS bad, CASE WHEN isfinite(`+since+`) THEN abs(extract(epoch FROM statement_timestamp() - `+since+`)) END AS measure
		      FROM {schema}.jobs j WHERE j.state = 'running'
		      ORDER BY j.queue, j.claimed_at, j.id LIMIT $1::int) r`, mostJobs)
	if err != nil || len(rows) == 0 {
		return suspects{}, err
	}
	return rows[0], nil
}

// putBack is what the reaper does, less the count of a failure: the open claim stays open, so that a late success still counts.
func (x *examination) putBack(condition string) []string {
	return []string{"UPDATE " + ident(x.o.Schema, "jobs") + ` j SET state = 'pending', lease_expires_at = NULL, run_at = greatest(j.run_at, statement_timestamp())` +
		" WHERE j.state = 'running' AND " + condition}
}

// expiredLeases: nobody returns what a dead process left behind.
func expiredLeases(ctx context.Context, x *examination) ([]Finding, error) {
	condition := "j.lease_expires_at < statement_timestamp() - " + interval(x.o.Thresholds.LeaseExpired)
	s, err := x.running(ctx, condition, "j.lease_expires_at")
	if err != nil || s.Count == 0 {
		return nil, err
	}
	return []Finding{{
		Severity: Error, Subject: "table jobs",
		Summary: fmt.Sprintf("The leases of %s have run out, the first %s ago, and nobody returned them.", s.text(), seconds(s.Longest)),
		Why:     "Every worker looks for such jobs every few seconds: so none serves their queues, or it cannot.",
		Fix:     "Start a worker for their queues; it returns them first. The statement does the same by hand.",
		FixSQL:  x.putBack(condition),
	}}, nil
}

// farLeases end so late that nobody would notice the death of their process.
func farLeases(ctx context.Context, x *examination) ([]Finding, error) {
	condition := "j.lease_expires_at > statement_timestamp() + " + interval(x.o.Thresholds.LeaseAhead)
	s, err := x.running(ctx, condition, "j.lease_expires_at")
	if err != nil || s.Count == 0 {
		return nil, err
	}
	return []Finding{{
		Severity: Warning, Subject: "table jobs",
		Summary: fmt.Sprintf("The leases of %s end more than %s from now, some in %s.", s.text(), x.o.Thresholds.LeaseAhead, seconds(s.Longest)),
		Why:     "Until then nobody takes the jobs back if their process has died.",
		Fix:     "End the leases now: workers that live renew theirs, the other jobs are returned. Then look for WorkerConfig.Lease, or for SQL by hand.",
		FixSQL:  []string{"UPDATE " + ident(x.o.Schema, "jobs") + " j SET lease_expires_at = statement_timestamp() WHERE j.state = 'running' AND " + condition},
	}}, nil
}

// unclaimed jobs run, and nobody says that it runs them.
func unclaimed(ctx context.Context, x *examination) ([]Finding, error) {
	const condition = "j.claimed_by IS NULL"
	s, err := x.running(ctx, condition, "j.claimed_at")
	if err != nil || s.Count == 0 {
		return nil, err
	}
	return []Finding{{
		Severity: Warning, Subject: "table jobs",
		Summary: fmt.Sprintf("%s running, and claimed_by names no worker.", s.text()),
		Why:     "No worker of pgqueue claims without its name: the rows were written by hand, and nobody works on them.",
		Fix:     "Put them back; their attempt stays counted.",
		FixSQL:  x.putBack(condition),
	}}, nil
}

// oddNumbers: attempts and generations that no statement of pgqueue writes.
func oddNumbers(ctx context.Context, x *examination) ([]Finding, error) {
	const condition = "(j.attempt < 1 OR j.attempt < j.failures OR j.generation < 1 OR j.claimed_generation NOT BETWEEN 1 AND j.generation)"
	s, err := x.running(ctx, condition, "j.claimed_at")
	if err != nil || s.Count == 0 {
		return nil, err
	}
	return []Finding{{
		Severity: Warning, Subject: "table jobs",
		Summary: fmt.Sprintf("The numbers of %s cannot be: attempt counts the claims, failures some of them, and claimed_generation is a generation that was.", s.text()),
		Why:     "attempt is the fence that keeps two workers from completing the same run; with odd numbers a run counts twice, or never.",
		Fix:     "Raise them to what is possible; nothing may ever lower attempt. Then look for SQL that writes these columns.",
		FixSQL: []string{"UPDATE " + ident(x.o.Schema, "jobs") + ` j SET attempt = greatest(j.attempt, j.failures, 1),` +
			` generation = greatest(j.generation, j.claimed_generation, 1), claimed_generation = greatest(j.claimed_generation, 1)` +
			` WHERE j.state = 'running' AND ` + condition},
	}}, nil
}

// queueNames is the loose scan over the queues with pending jobs: one look-up in the index a name.
const queueNames = `
	WITH RECURSIVE found AS (
		(SELECT j.queue, 1 AS n FROM {schema}.jobs j WHERE j.state = 'pending' ORDER BY j.queue LIMIT 1)
		UNION ALL
		SELECT (SELECT j.queue FROM {schema}.jobs j WHERE j.state = 'pending' AND j.queue > f.queue ORDER BY j.queue LIMIT 1), f.n + 1
		FROM found f WHERE f.queue IS NOT NULL AND f.n < 1000
	),
	names AS (SELECT f.queue FROM found f WHERE f.queue IS NOT NULL),
	classes AS (SELECT n.queue, p.priority FROM names n CROSS JOIN unnest(ARRAY[1, 2, 3, 4]::smallint[]) p (priority))`

// endlessJobs are due at no time that a clock will show.
func endlessJobs(ctx context.Context, x *examination) ([]Finding, error) {
	type row struct {
		Queue   string
		Count   int64
		Example int64
	}
	const condition = "(j.run_at > statement_timestamp() + interval '100 years' OR j.run_at = '-infinity')"
	rows, err := readByIndex[row](ctx, x, queueNames+`
		SELECT c.queue, sum(e.n)::bigint, min(e.id)
		FROM classes c
		     CROSS JOIN LATERAL (
		        SELECT count(*) AS n, min(r.id) AS id
		        FROM (SELECT j.id FROM {schema}.jobs j
		              WHERE j.queue = c.queue AND j.priority = c.priority AND j.state = 'pending' AND j.run_at > statement_timestamp() + interval '100 years'
		              ORDER BY j.run_at, j.id LIMIT $1::int) r
		        UNION ALL
		        SELECT count(*), min(r.id)
		        FROM (SELECT j.id FROM {schema}.jobs j
		              WHERE j.queue = c.queue AND j.priority = c.priority AND j.state = 'pending' AND j.run_at = '-infinity'
		              ORDER BY j.run_at, j.id LIMIT $1::int) r) e
		GROUP BY c.queue HAVING sum(e.n) > 0 ORDER BY c.queue LIMIT 20`, mostJobs)
	if err != nil {
		return nil, err
	}
	var found []Finding
	for _, r := range rows {
		found = append(found, Finding{
			Severity: Warning, Subject: fmt.Sprintf("queue %q", r.Queue),
			Summary: fmt.Sprintf("%s due in a hundred years, or at an infinite time (for example %d).", plural(r.Count, "job"), r.Example),
			Why:     "They never run, keep their keys taken, and an infinite time is none that Go knows.",
			Fix:     fmt.Sprintf("Cancel what nobody wants: SELECT %s(id). The statement makes the rest due now.", ident(x.o.Schema, "cancel")),
			FixSQL: []string{"UPDATE " + ident(x.o.Schema, "jobs") + " j SET run_at = statement_timestamp() WHERE j.queue = " + literal(r.Queue) +
				" AND j.state = 'pending' AND " + condition},
		})
	}
	return found, nil
}
