package pgqueue

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/pgqueue/pgqueue/pgqueue/internal/jobstore"
)

// AuditFilter says which entries of the audit log are meant. The zero value means all; all that is set must hold.
type AuditFilter struct {
	// Time bounds when it was done, by the database's clock. It is found by index.
	Time TimeRange
	// Job is one of the jobs that it was done to; 0 means any. It is found by index.
	Job int64
	// Actor, Role, Via, Queue, Kind and Subject are exact; empty means any.
	Actor, Role, Via, Queue, Kind, Subject string
	// Actions are those that are wanted: any of them.
	Actions []Action
}

// AuditOptions says which page of the audit log is wanted. The zero value is the first page.
type AuditOptions struct {
	// Limit is how many entries a page has: 50 by default, at most 1,000.
	Limit int
	// Cursor is Next of another page of the same filter, and refused with others; empty is the first page.
	Cursor string
	// Scan is how many entries are looked at for one page, where the filter has something without an index: 10,000 by default, at least
	// one more than Limit, at most 100,000.
	Scan int
}

// AuditRecord is an entry of the audit log, as it was written.
type AuditRecord struct {
	// The entry. Filter is nil, see StoredFilter, and Jobs has [MaxAuditJobs] at most.
	AuditEntry
	ID int64
	At time.Time // by the database's clock
	// Role is who was connected to Postgres. It is what Postgres knows, where Actor is what the tool said.
	Role string
	Via  string // the tool; see [RecordAudit]
	// JobCount is how many jobs the action was done to. Where somebody has called record_action from SQL, that may be more than Jobs has.
	JobCount int
	// StoredFilter is what a bulk action was asked to act on, as a JSON object: {"queue": "mail", "state": ["dead"]}. Its members have the
	// names of the command line's flags. It tells of a payload only that one was asked for. Nil: none.
	StoredFilter json.RawMessage
}

// AuditPage is one page of the audit log.
type AuditPage struct {
	Records []AuditRecord
	// Next is the cursor of the page behind this one; empty where nothing is left.
	Next string
	// Short says that looking ended at the bound, before the page was full: go on with Next. Scanned is then how many were looked at. Such
	// a page may be empty.
	Short   bool
	Scanned int
}

// orderAudit is in the cursors of the audit log.
const orderAudit ListOrder = "audit"

// AuditLog reads one page of the table that [RecordAudit] writes, the latest first. It is bounded as [Inspector.List] is, and works on a
// standby. The error is a [*ValidationError], [ErrSchema] (there is no such table before schema version 5), or Postgres's; the role needs
// SELECT on audit, which a viewer has.
func (i *Inspector) AuditLog(ctx context.Context, filter AuditFilter, options AuditOptions) (*AuditPage, error) {
	page, err := i.auditLog(ctx, &filter, options)
	if err != nil {
		return nil, fmt.Errorf("read the audit log: %w", i.auditExplained(err))
	}
	return page, nil
}

func (i *Inspector) auditLog(ctx context.Context, filter *AuditFilter, options AuditOptions) (*AuditPage, error) {
	if err := runsOn(i.q); err != nil {
		return nil, err
	}
	ask, err := filter.check()
	if err != nil {
		return nil, err
	}
	if err := options.check(); err != nil {
		return nil, err
	}
	from := cursor{order: orderAudit}
	if from.filter, err = digestOf(filter); err != nil {
		return nil, err
	}
	if options.Cursor != "" {
		if from, err = parseCursor(options.Cursor, orderAudit, from.filter); err != nil {
			return nil, err
		}
		ask.After = &from.place
	}
	// One more than wanted says whether more is left; without conditions that cost a look, there is no need to look at more.
	ask.Limit, ask.Scan = options.Limit+1, max(options.Scan, options.Limit+1)
	if filter.indexed() {
		ask.Scan = ask.Limit
	}
	found, err := i.store.AuditLog(ctx, i.q, ask)
	if err != nil {
		return nil, err
	}
	page := &AuditPage{Records: []AuditRecord{}}
	for n := range found.Rows {
		if n == options.Limit {
			break
		}
		page.Records = append(page.Records, newAuditRecord(&found.Rows[n]))
	}
	switch {
	case len(found.Rows) > options.Limit:
		from.place = found.Rows[options.Limit-1].Place
		page.Next = from.String()
	case found.Scanned >= ask.Scan:
		from.place = found.Last
		page.Next, page.Short, page.Scanned = from.String(), true, found.Scanned
	}
	return page, nil
}

func newAuditRecord(row *jobstore.AuditRow) AuditRecord {
	record := AuditRecord{
		AuditEntry: AuditEntry{
			Actor: row.Actor, Action: Action(row.Action), Jobs: row.Jobs, Queue: row.Queue, Kind: row.Kind, Subject: row.Subject, Detail: row.Detail,
		},
		ID: row.Place.ID, At: row.At, Role: row.Role, Via: row.Via, JobCount: row.JobCount,
	}
	if row.Filter != nil {
		record.StoredFilter = json.RawMessage(*row.Filter)
	}
	return record
}

// check validates the filter and writes it as jobstore takes it.
func (f *AuditFilter) check() (*jobstore.AuditQuery, error) {
	ask := &jobstore.AuditQuery{}
	for _, text := range []struct {
		field string
		value string
		limit int
		to    **string
	}{
		{"actor", f.Actor, maxAuditActor, &ask.Actor},
		{"role", f.Role, maxAuditName, &ask.Role},
		{"via", f.Via, maxAuditName, &ask.Via},
		{"queue", f.Queue, maxAuditName, &ask.Queue},
		{"kind", f.Kind, maxAuditName, &ask.Kind},
		{"subject", f.Subject, maxAuditSubject, &ask.Subject},
	} {
		if text.value == "" {
			continue
		}
		if err := checkText("filter."+text.field, text.value, text.limit); err != nil {
			return nil, err
		}
		*text.to = &text.value
	}
	if len(f.Actions) > maxTags {
		return nil, invalid("filter.actions", fmt.Sprintf("are too many: %d where %d are allowed", len(f.Actions), maxTags))
	}
	for n, action := range f.Actions {
		if err := checkText(fmt.Sprintf("filter.actions[%d]", n), string(action), maxAuditName); err != nil {
			return nil, err
		}
		ask.Actions = append(ask.Actions, string(action))
	}
	if f.Job < 0 {
		return nil, invalid("filter.job", fmt.Sprintf("must not be negative, is %d", f.Job))
	}
	ask.Job = f.Job
	var err error
	ask.From, ask.To, err = checkRange("filter.time", f.Time)
	return ask, err
}

// checkRange validates a range of times; nil is an open side.
func checkRange(field string, span TimeRange) (from, to *time.Time, err error) {
	for _, side := range []struct {
		field string
		value time.Time
		to    **time.Time
	}{{field + ".from", span.From, &from}, {field + ".to", span.To, &to}} {
		if side.value.IsZero() {
			continue
		}
		at := side.value.UTC()
		if year := at.Year(); year < 1 || year > 9999 {
			return nil, nil, invalid(side.field, fmt.Sprintf("must lie in the years 1 to 9999, is in %d", year))
		}
		*side.to = &at
	}
	if from != nil && to != nil && !from.Before(*to) {
		return nil, nil, invalid(field, "ends before it begins")
	}
	return from, to, nil
}

// indexed tells whether all that matches is found without a look at what does not.
func (f *AuditFilter) indexed() bool {
	return f.Actor == "" && f.Role == "" && f.Via == "" && f.Queue == "" && f.Kind == "" && f.Subject == "" && len(f.Actions) == 0
}

// check validates the options and puts the defaults in.
func (o *AuditOptions) check() error {
	for _, number := range []struct {
		field             string
		value             *int
		fallback, highest int
	}{{"limit", &o.Limit, DefaultListLimit, MaxListLimit}, {"scan", &o.Scan, DefaultListScan, MaxListScan}} {
		switch {
		case *number.value == 0:
			*number.value = number.fallback
		case *number.value < 0 || *number.value > number.highest:
			return invalid("options."+number.field, fmt.Sprintf("must be from 1 to %d, is %d", number.highest, *number.value))
		}
	}
	return nil
}
