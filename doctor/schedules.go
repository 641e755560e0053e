package doctor

import (
	"context"
	"fmt"
)

// noTimeTables says, and notes, that the schema is older than schedules and unique keys.
func (x *examination) noTimeTables() bool {
	if x.before(4) {
		x.skip("schedules and unique keys are there from schema version 4 on")
		return true
	}
	return false
}

// overdueSchedules: the tick has passed, or should have been worked out, and no scheduler has come. Those that fail are told by
// schedule-failing; they are tried again later and later.
func overdueSchedules(ctx context.Context, x *examination) ([]Finding, error) {
	if x.noTimeTables() {
		return nil, nil
	}
	type row struct {
		Count   int64
		First   string
		Seconds float64
	}
	rows, err := read[row](ctx, x, `
		SELECT count(*), (array_agg(o.name ORDER BY o.since, o.name))[1], extract(epoch FROM statement_timestamp() - min(o.since))::float8
		FROM (SELECT s.name, coalesce(s.next_run_at, s.updated_at) AS since
		      FROM {schema}.schedules s
		      WHERE s.enabled AND s.retired_at IS NULL AND s.last_error IS NULL
		        AND (s.next_run_at IS NULL OR s.next_run_at < statement_timestamp() - $1::float8 * interval '1 second')
		      ORDER BY s.next_run_at NULLS FIRST LIMIT 1000) o
		WHERE o.since < statement_timestamp() - $1::float8 * interval '1 second' AND isfinite(o.since)
		HAVING count(*) > 0`, x.o.Thresholds.Unserved.Seconds())
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	r := rows[0]
	return []Finding{{
		Severity: Warning, Subject: "table schedules",
		Summary: fmt.Sprintf("Schedules are overdue: %d, the longest of them %q, for %s.", r.Count, r.First, seconds(r.Seconds)),
		Why:     "No process with a scheduler lives, or none that has the function of a dynamic schedule: nothing is enqueued by the clock.",
		Fix:     "Start a program with a scheduler. What was missed is then treated as each schedule's catch_up says.",
	}}, nil
}

// failingSchedules: the scheduler could not do what they say.
func failingSchedules(ctx context.Context, x *examination) ([]Finding, error) {
	if x.noTimeTables() {
		return nil, nil
	}
	type row struct {
		Name, Error string
		Failures    int64
	}
	rows, err := read[row](ctx, x, `
		SELECT s.name, s.last_error, s.failures::bigint FROM {schema}.schedules s
		WHERE s.enabled AND s.retired_at IS NULL AND s.last_error IS NOT NULL
		ORDER BY s.name LIMIT 20`)
	if err != nil {
		return nil, err
	}
	var found []Finding
	for _, r := range rows {
		found = append(found, Finding{
			Severity: Warning, Subject: fmt.Sprintf("schedule %q", r.Name),
			Summary: fmt.Sprintf("The schedule %q has failed %s: %s", r.Name, times(r.Failures), excerpt(r.Error)),
			Why:     "Its tick stays due and is tried again, less and less often; nothing is enqueued meanwhile.",
			Fix:     "Correct the row, which is tried at once then. The statement switches the schedule off.",
			FixSQL:  []string{fmt.Sprintf("UPDATE %s SET enabled = false WHERE name = %s", ident(x.o.Schema, "schedules"), literal(r.Name))},
		})
	}
	return found, nil
}

// times says how often.
func times(n int64) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// expiredKeys: an expired key is free, but its row takes space until upkeep deletes it.
func expiredKeys(ctx context.Context, x *examination) ([]Finding, error) {
	if x.noTimeTables() {
		return nil, nil
	}
	type row struct {
		Count   int64
		Seconds float64
	}
	rows, err := readByIndex[row](ctx, x, `
		SELECT count(*), extract(epoch FROM statement_timestamp() - min(k.expires_at) FILTER (WHERE isfinite(k.expires_at)))::float8
		FROM (SELECT u.expires_at FROM {schema}.unique_keys u
		      WHERE u.expires_at < statement_timestamp() - $1::float8 * interval '1 second'
		      ORDER BY u.expires_at LIMIT $2::int) k
		HAVING bool_or(isfinite(k.expires_at))`, x.o.Thresholds.KeysExpired.Seconds(), mostJobs)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	r := rows[0]
	more := ""
	if r.Count >= mostJobs {
		more = "at least "
	}
	return []Finding{{
		Severity: Warning, Subject: "table unique_keys",
		Summary: fmt.Sprintf("There are %s%s, the first %s ago, and nobody deleted them.", more, expired(r.Count), seconds(r.Seconds)),
		Why:     "Workers delete them: so none lives, or it may not. Expired keys are free; but the table grows by each enqueue with a new one.",
		Fix:     "Start a worker, or grant its role EXECUTE on expire_unique_keys. The statement deletes the oldest by hand; repeat it until it answers less.",
		FixSQL:  []string{fmt.Sprintf("SELECT %s(100000)", ident(x.o.Schema, "expire_unique_keys"))},
	}}, nil
}

// expired says how many keys have.
func expired(n int64) string {
	if n == 1 {
		return "1 unique key that expired"
	}
	return fmt.Sprintf("%d unique keys that expired", n)
}
