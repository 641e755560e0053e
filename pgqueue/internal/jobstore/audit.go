package jobstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// auditStatements are the texts of audit.sql.
type auditStatements struct {
	record, expire string
	log, logOfJob  string
}

// load looks every statement up by name.
func (a *auditStatements) load(schema string, found statements) error {
	for name, text := range map[string]*string{"record_action": &a.record, "expire_audit": &a.expire, "audit_log": &a.log} {
		var err error
		if *text, err = found.get(name); err != nil {
			return err
		}
	}
	// Once: a schema's name may hold braces.
	before, after, ok := strings.Cut(a.log, "FROM {source} a\n")
	if !ok {
		return errors.New("audit_log has no {source}")
	}
	table := pgx.Identifier{schema, "audit"}.Sanitize()
	a.log = before + "FROM " + table + " a\n" + after
	a.logOfJob = before + "FROM (SELECT x.* FROM " + table + " x WHERE x.job_ids @> ARRAY[$14::bigint] OFFSET 0) a\n" + after
	return nil
}

// AuditEntry is one entry to be written. Empty texts are none.
type AuditEntry struct {
	Actor, Via, Action           string
	Jobs                         []int64
	Queue, Kind, Subject, Detail string
	Filter                       *string // JSON; nil: none
}

// RecordAction writes an entry of the audit log.
func (s *Store) RecordAction(ctx context.Context, q Querier, entry *AuditEntry) error {
	rows, err := q.Query(ctx, s.audit.record, entry.Actor, entry.Via, entry.Action, entry.Jobs, entry.Queue, entry.Kind, entry.Subject,
		entry.Filter, entry.Detail)
	if err == nil {
		_, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[int64])
	}
	if err != nil {
		return fmt.Errorf("record %s: %w", entry.Action, err)
	}
	return nil
}

// AuditQuery asks for one page of the audit log. What is nil does not filter.
type AuditQuery struct {
	Actor, Role, Via, Queue, Kind, Subject *string
	Actions                                []string
	Job                                    int64 // 0: any
	From, To                               *time.Time
	After                                  *Place // go on behind it; nil: from the latest
	Limit, Scan                            int
}

// AuditRow is one entry as it was written.
type AuditRow struct {
	Place                        Place
	At                           time.Time
	Actor, Role, Via, Action     string
	Jobs                         []int64
	JobCount                     int
	Queue, Kind, Subject, Detail string
	Filter                       *string // JSON
}

// AuditFound is what an AuditQuery found.
type AuditFound struct {
	Rows    []AuditRow // up to Limit
	Scanned int        // how many were looked at
	Last    Place      // of those
}

// AuditLog reads one page of the audit log, the latest first. It looks at most at Scan entries.
func (s *Store) AuditLog(ctx context.Context, q Querier, ask *AuditQuery) (*AuditFound, error) {
	after := Place{ID: math.MaxInt64, At: placeOf(pgtype.Timestamptz{Valid: true, InfinityModifier: pgtype.Infinity})}
	if ask.After != nil {
		after = *ask.After
	}
	from := pgtype.Timestamptz{Valid: true, InfinityModifier: pgtype.NegativeInfinity}
	to := pgtype.Timestamptz{Valid: true, InfinityModifier: pgtype.Infinity}
	if ask.From != nil {
		from = pgtype.Timestamptz{Valid: true, Time: *ask.From}
	}
	if ask.To != nil {
		to = pgtype.Timestamptz{Valid: true, Time: *ask.To}
	}
	sql := s.audit.log
	args := []any{atPlace(after.At), after.ID, from, to, ask.Actor, ask.Role, ask.Via, ask.Actions, ask.Queue, ask.Kind, ask.Subject, ask.Limit, ask.Scan}
	if ask.Job > 0 {
		sql, args = s.audit.logOfJob, append(args, ask.Job)
	}
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("audit log: %w", err)
	}
	found := &AuditFound{}
	var (
		lastAt, at                                                pgtype.Timestamptz
		lastID, id                                                *int64
		actor, role, via, action, queue, kind, subject, detail, f *string
		jobs                                                      []int64
		count                                                     *int
	)
	_, err = pgx.ForEachRow(rows, []any{
		&found.Scanned, &lastAt, &lastID, &id, &at, &actor, &role, &via, &action, &jobs, &count, &queue, &kind, &subject, &f, &detail,
	}, func() error {
		if lastID != nil {
			found.Last = Place{ID: *lastID, At: placeOf(lastAt)}
		}
		if id == nil {
			return nil
		}
		found.Rows = append(found.Rows, AuditRow{
			Place: Place{ID: *id, At: placeOf(at)}, At: finite(at), Actor: text(actor), Role: text(role), Via: text(via), Action: text(action),
			Jobs: jobs, JobCount: *count, Queue: text(queue), Kind: text(kind), Subject: text(subject), Detail: text(detail), Filter: f,
		})
		jobs, f = nil, nil
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("audit log: %w", err)
	}
	return found, nil
}

// expireAudit deletes old entries of the audit log. Nothing depends on it but the size of a table, so a role that may not, as before its
// GRANT of version 5, is told once and goes on.
func (q *Queue) expireAudit(ctx context.Context) error {
	for range maxDrops {
		var gone int
		err := q.one(ctx, &gone, q.auditSQL.expire, seconds(q.config.KeepAudit), expireBatch)
		var refused *pgconn.PgError
		switch {
		case errors.As(err, &refused) && (refused.Code == codeForbidden || refused.Code == codeNoFunction):
			if !q.auditRefused.Swap(true) {
				q.log.WarnContext(ctx, "pgqueue: old entries of the audit log are not deleted; docs/roles.md has the GRANT", "error", err)
			}
			return nil
		case err != nil:
			return q.wrap("retention", err)
		case gone < expireBatch:
			return nil
		}
	}
	return nil
}
