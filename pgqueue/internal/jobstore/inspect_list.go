package jobstore

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// Order is what a page is sorted by.
type Order uint8

// The orders of pages. Each is that of an index.
const (
	ByID       Order = iota // all jobs
	ByFinished              // failed and dead ones
	ByDue                   // the pending ones of one queue, as they are claimed
)

// Place is where a row stands in an order: what comes before it is smaller.
type Place struct {
	ID       int64
	At       int64 // of ByFinished and ByDue: microseconds, with the infinite times at the ends
	Priority int16 // of ByDue
}

// ListQuery asks for one page.
type ListQuery struct {
	Filter    Filter
	By        Order
	Ascending bool
	After     *Place // go on behind it; nil: from the start
	Limit     int
	Scan      int // rows to look at
	Preview   int // characters of the payload
}

// Listed is one row of a page.
type Listed struct {
	Row
	Place          Place
	State          string
	LeaseExpiresAt time.Time // zero: not running
	FinishedAt     time.Time // zero: live
	ClaimedBy      string
	Cancelling     bool
	ErrorCount     int
	Code, Message  string  // of the last error, cut
	Stored         int     // bytes of the payload as Postgres stores it
	Shown          *string // the payload's first Preview + 1 characters; nil: it is large
}

// Page is what a ListQuery found.
type Page struct {
	Rows []Listed // up to Limit + 1: the one more says that there are more
	// Scanned is how many rows were looked at, where the page is not full, and Last the place of the last of them; nil
	// where no others are left.
	Scanned int
	Last    *Place
}

// List reads one page. It looks at most at Scan rows.
func (s *Store) List(ctx context.Context, q Querier, ask *ListQuery) (*Page, error) {
	direction := descending
	if ask.Ascending {
		direction = ascending
	}
	args := append(ask.Filter.args(), nil, ask.Limit, ask.Scan, ask.Preview)
	at := pgtype.Timestamptz{}
	var priority *int16
	if ask.After != nil {
		args[18] = ask.After.ID
		at, priority = atPlace(ask.After.At), &ask.After.Priority
	}
	var sql string
	switch {
	case ask.By == ByFinished && ask.Filter.Queue != nil:
		sql, args = s.inspect.byFinishedInQueue[direction], append(args, at)
	case ask.By == ByFinished:
		sql, args = s.inspect.byFinished[direction], append(args, at)
	case ask.By == ByDue:
		sql, args = s.inspect.byDue[direction], append(args, at, priority)
	default:
		sql = s.inspect.byID[direction]
	}

	page := &Page{}
	var row listedRow
	var scanned *int
	var more *bool
	var lastID *int64
	var lastAt pgtype.Timestamptz
	var lastPriority *int16
	into := append([]any{&scanned, &more, &lastID, &lastAt, &lastPriority}, row.into()...)
	err := s.byIndex(ctx, q, sql, args, into, func() {
		if scanned != nil {
			page.Scanned = *scanned
			if *more {
				page.Last = &Place{ID: *lastID, At: placeOf(lastAt), Priority: *lastPriority}
			}
		}
		row.addTo(page)
	})
	if err != nil {
		return nil, err
	}
	return page, nil
}

// ListFew reads one page by number from indexes that hold all of it, if they hold at most ask.Scan rows; otherwise it
// answers nil. See list_few for which filters that is made for.
func (s *Store) ListFew(ctx context.Context, q Querier, ask *ListQuery) (*Page, error) {
	direction := descending
	if ask.Ascending {
		direction = ascending
	}
	args := append(ask.Filter.args(), nil, ask.Limit, ask.Scan, ask.Preview)
	if ask.After != nil {
		args[18] = ask.After.ID
	}
	page, usable := &Page{}, false
	var row listedRow
	err := s.byIndex(ctx, q, s.inspect.few[direction], args, append([]any{&usable}, row.into()...), func() { row.addTo(page) })
	if err != nil {
		return nil, err
	}
	if !usable {
		return nil, nil
	}
	return page, nil
}

// listedRow is one row as it is read: all NULL where a page is empty.
type listedRow struct {
	id                                       *int64
	queue, kind, key, revision, state        *string
	priority                                 *int16
	at, runAt, created, claimed, lease, done pgtype.Timestamptz
	cancel                                   *bool
	by                                       *string
	attempt, generation, failures, most      *int
	errors, stored                           *int
	tags                                     []string
	payload, code, message                   *string
}

func (r *listedRow) into() []any {
	return []any{
		&r.at, &r.id, &r.queue, &r.kind, &r.key, &r.revision, &r.state, &r.priority, &r.runAt, &r.created, &r.claimed, &r.lease, &r.cancel, &r.done,
		&r.by, &r.attempt, &r.generation, &r.failures, &r.most, &r.errors, &r.tags, &r.stored, &r.payload, &r.code, &r.message,
	}
}

func (r *listedRow) addTo(page *Page) {
	if r.id == nil {
		return
	}
	page.Rows = append(page.Rows, Listed{
		Row: Row{
			ID: *r.id, Queue: *r.queue, Kind: *r.kind, Key: copyOf(r.key), Revision: copyOf(r.revision), Priority: *r.priority,
			RunAt: finite(r.runAt), CreatedAt: finite(r.created), ClaimedAt: finite(r.claimed),
			Attempt: *r.attempt, Failures: *r.failures, MaxAttempts: *r.most, Generation: *r.generation, Tags: slices.Clone(r.tags),
		},
		Place: Place{ID: *r.id, At: placeOf(r.at), Priority: *r.priority},
		State: *r.state, LeaseExpiresAt: finite(r.lease), FinishedAt: finite(r.done), ClaimedBy: text(r.by), Cancelling: *r.cancel,
		ErrorCount: *r.errors, Code: text(r.code), Message: text(r.message), Stored: *r.stored, Shown: copyOf(r.payload),
	})
}

// copyOf is value in a variable of its own: the one that was read into is read into again.
func copyOf(value *string) *string {
	if value == nil {
		return nil
	}
	text := *value
	return &text
}

// placeOf is a time as a Place holds it.
func placeOf(t pgtype.Timestamptz) int64 {
	if !t.Valid {
		return 0
	}
	return micros(t)
}

// atPlace is the time of a Place.
func atPlace(at int64) pgtype.Timestamptz { return claimedRow{row: &Row{}, at: at}.mark().runAt }
