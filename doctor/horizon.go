package doctor

import (
	"context"
	"fmt"
)

const whyHorizon = "Vacuum removes no row that died after it began: dead rows pile up and every claim walks past them, in all queues."

// oldestXmin tells which sessions hold back vacuum, and for how long.
func oldestXmin(ctx context.Context, x *examination) ([]Finding, error) {
	type row struct {
		PID                                    int64
		Role, Application, Client, State, Kind string
		Seconds                                float64
		Age                                    int64
		Query                                  string
	}
	// Sessions of other databases hold back no table of ours. A vacuum holds back nobody.
	rows, err := read[row](ctx, x, `
		SELECT a.pid, coalesce(a.usename::text, ''), coalesce(a.application_name, ''), coalesce(host(a.client_addr), 'local'), coalesce(a.state, ''),
		       a.backend_type, extract(epoch FROM clock_timestamp() - a.xact_start)::float8,
		       greatest(age(a.backend_xmin), age(a.backend_xid)), coalesce(a.query, '')
		FROM pg_stat_activity a
		WHERE a.datname = current_database() AND a.pid <> pg_backend_pid() AND a.backend_type NOT IN ('autovacuum worker', 'walsender')
		  AND (a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL)
		  AND a.xact_start < clock_timestamp() - $1::float8 * interval '1 second'
		  AND NOT EXISTS (SELECT FROM pg_stat_progress_vacuum v WHERE v.pid = a.pid)
		ORDER BY a.xact_start LIMIT 10`, x.o.Thresholds.TransactionAge.Seconds())
	if err != nil {
		return nil, err
	}
	if err := x.sayWhatIsHidden(ctx); err != nil {
		return nil, err
	}
	var found []Finding
	for _, r := range rows {
		found = append(found, Finding{
			Severity: Warning, Subject: fmt.Sprintf("session %d", r.PID),
			Summary: fmt.Sprintf("Session %d (role %q, application %q, from %s, %s) has been in a transaction for %s, which holds back vacuum by %s; its query: %s",
				r.PID, r.Role, r.Application, r.Client, r.State, seconds(r.Seconds), plural(r.Age, "transaction"), excerpt(r.Query)),
			Why:    whyHorizon,
			Fix:    "End it, after a look at whose it is. For good: idle_in_transaction_session_timeout for its role, reports on a replica without hot_standby_feedback.",
			FixSQL: []string{fmt.Sprintf("SELECT pg_terminate_backend(%d)", r.PID)},
		})
	}
	return found, nil
}

// sayWhatIsHidden notes that sessions of other roles could not be looked at.
func (x *examination) sayWhatIsHidden(ctx context.Context) error {
	hidden, err := readOne[one[int64]](ctx, x, `
		SELECT count(*) FROM pg_stat_activity a WHERE a.query = '<insufficient privilege>' AND NOT pg_has_role('pg_read_all_stats', 'USAGE')`)
	if err == nil && hidden.Value > 0 {
		x.skip(fmt.Sprintf("%s of other roles cannot be seen: GRANT pg_read_all_stats TO %s", plural(hidden.Value, "session"), ident(x.server.Role)))
	}
	return err
}

// preparedTransactions of this database that nobody has ended.
func preparedTransactions(ctx context.Context, x *examination) ([]Finding, error) {
	type row struct {
		GID, Owner string
		Seconds    float64
		Age        int64
	}
	rows, err := read[row](ctx, x, `
		SELECT p.gid, p.owner::text, extract(epoch FROM clock_timestamp() - p.prepared)::float8, age(p.transaction)
		FROM pg_prepared_xacts p
		WHERE p.database = current_database() AND p.prepared < clock_timestamp() - $1::float8 * interval '1 second'
		ORDER BY p.prepared LIMIT 10`, x.o.Thresholds.TransactionAge.Seconds())
	if err != nil {
		return nil, err
	}
	var found []Finding
	for _, r := range rows {
		found = append(found, Finding{
			Severity: Error, Subject: "prepared transaction " + r.GID,
			Summary: fmt.Sprintf("The transaction %q of role %q has been prepared for %s and neither committed nor rolled back; it holds back vacuum by %s.",
				r.GID, r.Owner, seconds(r.Seconds), plural(r.Age, "transaction")),
			Why:    whyHorizon + " It keeps its locks, too, and survives every restart.",
			Fix:    "Ask its transaction manager how it ended. If that is gone, roll it back, as its owner or a superuser (or COMMIT PREPARED).",
			FixSQL: []string{"ROLLBACK PREPARED " + literal(r.GID)},
		})
	}
	return found, nil
}

// replicationSlots that retain WAL for nobody, or hold back vacuum.
func replicationSlots(ctx context.Context, x *examination) ([]Finding, error) {
	type row struct {
		Name, Kind, Status string
		Active             bool
		Retained           int64
		Age, CatalogAge    int64
	}
	rows, err := read[row](ctx, x, `
		SELECT s.slot_name::text, s.slot_type, coalesce(s.wal_status, ''), s.active,
		       coalesce(pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END, s.restart_lsn), 0)::bigint,
		       coalesce(age(s.xmin), 0), coalesce(age(s.catalog_xmin), 0)
		FROM pg_replication_slots s
		WHERE NOT s.active OR s.wal_status = 'lost'
		ORDER BY 5 DESC, 1 LIMIT 20`)
	if err != nil {
		return nil, err
	}
	var found []Finding
	for _, r := range rows {
		f := Finding{
			Severity: Warning, Subject: "replication slot " + r.Name,
			Summary: fmt.Sprintf("Nobody reads from the %s slot %q. It retains %s of WAL", r.Kind, r.Name, bytesText(r.Retained)),
			Why:     "WAL that a slot retains fills the disk, and then the server stops; what the slot holds of the horizon is not vacuumed.",
			Fix:     "Start its reader. If there is none any more, drop the slot; a reader that comes back later must be set up anew.",
			FixSQL:  []string{"SELECT pg_drop_replication_slot(" + literal(r.Name) + ")"},
		}
		if r.Age > 0 {
			f.Summary += fmt.Sprintf(" and holds back vacuum by %s", plural(r.Age, "transaction"))
		}
		if r.CatalogAge > 0 {
			f.Summary += fmt.Sprintf(" and the catalog's by %s", plural(r.CatalogAge, "transaction"))
		}
		f.Summary += "."
		switch {
		case r.Status == "lost":
			f.Summary = fmt.Sprintf("The %s slot %q has lost the WAL that its reader would need.", r.Kind, r.Name)
		case r.Retained > x.o.Thresholds.RetainedWAL, r.Age > x.o.Thresholds.XminAge:
			f.Severity = Error
		}
		found = append(found, f)
	}
	return found, nil
}

// standbyFeedback: queries on a standby hold back vacuum here.
func standbyFeedback(ctx context.Context, x *examination) ([]Finding, error) {
	type row struct {
		Name, Client string
		Age          int64
	}
	rows, err := read[row](ctx, x, `
		SELECT coalesce(nullif(r.application_name, ''), s.slot_name::text, '?'), coalesce(host(r.client_addr), 'local'), h.age
		FROM pg_stat_replication r
		     FULL JOIN (SELECT * FROM pg_replication_slots p WHERE p.slot_type = 'physical' AND p.active) s ON s.active_pid = r.pid
		     CROSS JOIN LATERAL (SELECT greatest(age(r.backend_xmin), age(s.xmin))::bigint AS age) h
		WHERE h.age > $1::bigint
		ORDER BY h.age DESC LIMIT 10`, x.o.Thresholds.XminAge)
	if err != nil {
		return nil, err
	}
	if err := x.sayWhatIsHidden(ctx); err != nil {
		return nil, err
	}
	var found []Finding
	for _, r := range rows {
		found = append(found, Finding{
			Severity: Warning, Subject: "standby " + r.Name,
			Summary: fmt.Sprintf("A query on the standby %q (%s) holds back vacuum here by %s.", r.Name, r.Client, plural(r.Age, "transaction")),
			Why:     whyHorizon,
			Fix: "End the query on the standby: pg_stat_activity there shows it. For good: hot_standby_feedback = off there, with " +
				"max_standby_streaming_delay as long as its reports take.",
		})
	}
	return found, nil
}
