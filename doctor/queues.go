package doctor

import (
	"context"
	"fmt"
)

// paused is where what is paused now is read from.
func (x *examination) paused() string {
	if x.before(4) {
		return `(SELECT q.name AS queue, NULL::text AS kind, q.paused_at, NULL::timestamptz AS paused_until, q.paused_reason AS reason
			FROM {schema}.queues q WHERE q.paused_at IS NOT NULL)`
	}
	return `{schema}.paused`
}

// pausedQueues, and kinds, that somebody paused and perhaps forgot. Those that end by themselves are nobody's to remember.
func pausedQueues(ctx context.Context, x *examination) ([]Finding, error) {
	type row struct {
		Queue, Kind, Reason string // an empty queue or kind: all
		Seconds             float64
	}
	rows, err := read[row](ctx, x, `
		SELECT coalesce(p.queue, ''), coalesce(p.kind, ''), coalesce(p.reason, ''), extract(epoch FROM statement_timestamp() - p.paused_at)::float8
		FROM `+x.paused()+` p
		WHERE p.paused_at < statement_timestamp() - $1::float8 * interval '1 second' AND isfinite(p.paused_at)
		  AND coalesce(p.paused_until, 'infinity') = 'infinity'
		ORDER BY p.paused_at, p.queue, p.kind LIMIT 20`, x.o.Thresholds.Paused.Seconds())
	if err != nil {
		return nil, err
	}
	var found []Finding
	for _, r := range rows {
		why := "without a reason"
		if r.Reason != "" {
			why = fmt.Sprintf("because of %q", excerpt(r.Reason))
		}
		f := Finding{
			Severity: Warning, Subject: fmt.Sprintf("queue %q", r.Queue),
			Summary: fmt.Sprintf("The queue %q has been paused for %s, %s.", r.Queue, seconds(r.Seconds), why),
			Why:     "Nothing is claimed from it, by any worker, until somebody resumes it.",
			Fix:     "Resume it.",
			FixSQL:  []string{fmt.Sprintf("SELECT %s(%s)", ident(x.o.Schema, "resume"), literal(r.Queue))},
		}
		if r.Kind != "" {
			place, arguments := "all queues", literal(r.Kind)
			if r.Queue != "" {
				place, arguments = fmt.Sprintf("queue %q", r.Queue), arguments+", "+literal(r.Queue)
			}
			f.Subject = fmt.Sprintf("kind %q in %s", r.Kind, place)
			f.Summary = fmt.Sprintf("The kind %q has been paused in %s for %s, %s.", r.Kind, place, seconds(r.Seconds), why)
			f.Why = "No job of it is claimed there, by any worker, until somebody resumes it."
			f.FixSQL = []string{fmt.Sprintf("SELECT %s(%s)", ident(x.o.Schema, "resume_kind"), arguments)}
		}
		found = append(found, f)
	}
	return found, nil
}

// dueJobs are the jobs that have been due for a while, the first ones of each queue and priority, less what is paused. A worker
// serves a queue, or a kind in it, when it says so in its heartbeat, or when a job of it is running with a lease: workers may be told not
// to report themselves.
func (x *examination) dueJobs() string {
	return queueNames + `,
	due AS (
		SELECT c.queue, e.kind, e.run_at
		FROM classes c
		     CROSS JOIN LATERAL (
		        SELECT j.kind, j.run_at FROM {schema}.jobs j
		        WHERE j.queue = c.queue AND j.priority = c.priority AND j.state = 'pending'
		          AND j.run_at <= statement_timestamp() - $1::float8 * interval '1 second'
		        ORDER BY j.run_at, j.id LIMIT 250) e
		WHERE NOT EXISTS (SELECT FROM ` + x.paused() + ` p WHERE coalesce(p.queue, c.queue) = c.queue AND coalesce(p.kind, e.kind) = e.kind)
	),
	live AS (SELECT w.queues, w.kinds FROM {schema}.live_workers w WHERE NOT w.stopping LIMIT 10000),
	active AS (
		SELECT n.queue, r.kind
		FROM names n
		     CROSS JOIN LATERAL (
		        SELECT j.kind FROM {schema}.jobs j
		        WHERE j.queue = n.queue AND j.state = 'running' AND j.lease_expires_at > statement_timestamp()
		        ORDER BY j.claimed_at, j.id LIMIT 1000) r
	)`
}

type dueRow struct {
	Queue, Kind string
	Count       int64
	Seconds     float64
}

// unservedQueues have due jobs, and no live worker serves them.
func unservedQueues(ctx context.Context, x *examination) ([]Finding, error) {
	if x.noWorkersTable() {
		return nil, nil
	}
	rows, err := readByIndex[dueRow](ctx, x, x.dueJobs()+`
		SELECT d.queue, '', count(*), extract(epoch FROM statement_timestamp() - min(d.run_at) FILTER (WHERE isfinite(d.run_at)))::float8
		FROM due d
		WHERE NOT EXISTS (SELECT FROM live l WHERE l.queues ? d.queue) AND NOT EXISTS (SELECT FROM active a WHERE a.queue = d.queue)
		GROUP BY d.queue HAVING bool_or(isfinite(d.run_at)) ORDER BY d.queue LIMIT 20`, x.o.Thresholds.Unserved.Seconds())
	if err != nil {
		return nil, err
	}
	var found []Finding
	for _, r := range rows {
		found = append(found, Finding{
			Severity: Warning, Subject: fmt.Sprintf("queue %q", r.Queue),
			Summary: fmt.Sprintf("At least %s due in the queue %q, the first for %s, and no live worker serves it.", plural(r.Count, "job"), r.Queue, seconds(r.Seconds)),
			Why:     "They wait until one does.",
			Fix:     fmt.Sprintf("Start a worker whose Queues name %q, or correct the name where it is enqueued.", r.Queue),
		})
	}
	return found, nil
}

// unservedKinds are due in a queue whose live workers have no handler for them.
func unservedKinds(ctx context.Context, x *examination) ([]Finding, error) {
	if x.noWorkersTable() {
		return nil, nil
	}
	rows, err := readByIndex[dueRow](ctx, x, x.dueJobs()+`
		SELECT d.queue, d.kind, count(*), extract(epoch FROM statement_timestamp() - min(d.run_at) FILTER (WHERE isfinite(d.run_at)))::float8
		FROM due d
		WHERE EXISTS (SELECT FROM live l WHERE l.queues ? d.queue)
		  AND NOT EXISTS (SELECT FROM live l WHERE l.queues ? d.queue AND l.kinds ? d.kind)
		  AND NOT EXISTS (SELECT FROM active a WHERE a.queue = d.queue AND a.kind = d.kind)
		GROUP BY d.queue, d.kind HAVING bool_or(isfinite(d.run_at)) ORDER BY d.queue, d.kind LIMIT 20`, x.o.Thresholds.Unserved.Seconds())
	if err != nil {
		return nil, err
	}
	var found []Finding
	for _, r := range rows {
		found = append(found, Finding{
			Severity: Warning, Subject: fmt.Sprintf("kind %q in queue %q", r.Kind, r.Queue),
			Summary: fmt.Sprintf("At least %s of kind %q due in the queue %q, the first for %s, and none of its live workers has a handler for it.",
				plural(r.Count, "job"), r.Kind, r.Queue, seconds(r.Seconds)),
			Why: "They are left for others and wait for ever; a million of them cost every claim 200 ms.",
			Fix: fmt.Sprintf("Start a worker that has a handler for %q, or cancel the jobs: SELECT %s(id).", r.Kind, ident(x.o.Schema, "cancel")),
		})
	}
	return found, nil
}

// noWorkersTable says, and notes, that the schema is older than the heartbeats.
func (x *examination) noWorkersTable() bool {
	if x.before(3) {
		x.skip("workers report themselves from schema version 3 on")
		return true
	}
	return false
}

// before says that the schema is known to be older than a version.
func (x *examination) before(version uint) bool {
	return x.stateErr == nil && x.state.Exists && x.state.Version < version
}
