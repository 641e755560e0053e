package doctor

import (
	"context"
	"fmt"
)

// notifyQueue tells how full the NOTIFY queue of the whole server is, and which session may be in its way. Postgres does not tell who
// listens to what; the session that pins the queue is one with a transaction as old as the oldest notification, in whatever database.
func notifyQueue(ctx context.Context, x *examination) ([]Finding, error) {
	type row struct {
		Usage                        float64
		PID                          int64
		Role, Database, State, Query string
		Seconds                      float64
	}
	rows, err := read[row](ctx, x, `
		SELECT u.usage, coalesce(a.pid, 0), coalesce(a.usename::text, ''), coalesce(a.datname::text, ''), coalesce(a.state, ''), coalesce(a.query, ''),
		       coalesce(extract(epoch FROM clock_timestamp() - a.xact_start), 0)::float8
		FROM (SELECT pg_notification_queue_usage() AS usage WHERE NOT pg_is_in_recovery()) u
		     LEFT JOIN LATERAL (
		        SELECT * FROM pg_stat_activity s
		        WHERE s.backend_type = 'client backend' AND s.xact_start IS NOT NULL AND s.pid <> pg_backend_pid()
		        ORDER BY s.xact_start LIMIT 1) a ON true
		WHERE u.usage > $1::float8`, x.o.Thresholds.NotifyUsage)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	r := rows[0]
	f := Finding{
		Severity: Warning, Subject: "notify queue",
		Summary: fmt.Sprintf("The server's NOTIFY queue is %.3g %% full.", 100*r.Usage),
		Why:     "When it is full, every COMMIT with a NOTIFY fails, and so every transaction that enqueues.",
		Fix: "End the session that listens inside an open transaction. Until then clients can do without hints (pgqueue.WithoutHints): " +
			"workers then find jobs by polling.",
	}
	if r.Usage > min(0.5, 5*x.o.Thresholds.NotifyUsage) {
		f.Severity = Error
	}
	if r.PID != 0 {
		f.Summary += fmt.Sprintf(" The oldest transaction is that of session %d (role %q, database %q, %s) since %s; its query: %s",
			r.PID, r.Role, r.Database, r.State, seconds(r.Seconds), excerpt(r.Query))
		f.FixSQL = []string{fmt.Sprintf("SELECT pg_terminate_backend(%d)", r.PID)}
	}
	return []Finding{f}, x.sayWhatIsHidden(ctx)
}
