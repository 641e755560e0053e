package jobstore

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pgqueue/pgqueue/runner"
)

// Row is one claimed job, and the token of its claim: (ID, Attempt) is the fence of every verdict. It is not changed
// after the claim, so it may be read by any goroutine.
type Row struct {
	ID            int64
	Queue         string
	Kind          string
	Key, Revision *string // nil = none
	Priority      int16

	// RunAt, CreatedAt and ClaimedAt are the database's times. An infinite one, which only SQL by hand can write, is
	// the zero time.
	RunAt, CreatedAt, ClaimedAt time.Time

	Attempt     int // claims so far, this one included
	Failures    int // attempts that failed before
	MaxAttempts int
	Generation  int // the number of the input that this claim was given

	Payload, Metadata json.RawMessage
	Tags              []string

	// History is the queue's setting when the job was claimed, "full", "slim" or "off". Completion follows it without
	// asking again; empty means "full".
	History string
}

var _ runner.Token = (*Row)(nil)

// String names the claim, for logs and errors.
func (r *Row) String() string { return fmt.Sprintf("job %d attempt %d", r.ID, r.Attempt) }

// envelope is what a claim says beside its rows.
type envelope struct {
	now    pgtype.Timestamptz // when the claim's transaction began
	paused bool
	took   int64 // µs on the server
}

// claimedRow is one row of a claim's answer.
type claimedRow struct {
	row   *Row
	runAt pgtype.Timestamptz // as stored, infinity included
	err   error              // why the row cannot be used
}

// readClaim reads the answer of the claim statement. Each value is decoded by itself: pgx closes the whole result at
// the first value that does not scan, and one unreadable row would take its batch with it, claimed and never run.
func readClaim(rows pgx.Rows, queue string) (envelope, []claimedRow, error) {
	defer rows.Close()
	var head envelope
	var found []claimedRow
	var scan scanner
	for rows.Next() {
		if scan.types == nil {
			scan = newScanner(rows)
		}
		values := rows.RawValues()
		var history string
		for i, dst := range []any{&head.now, &history, &head.paused} {
			if err := scan.value(i, values[i], dst); err != nil {
				return head, nil, err
			}
		}
		if err := scan.value(18, values[18], &head.took); err != nil {
			return head, nil, err
		}
		if values[3] == nil { // nothing claimed: the envelope alone
			continue
		}
		row := &Row{Queue: queue, History: history}
		for i, dst := range []any{&row.ID, &row.Attempt} {
			if err := scan.value(3+i, values[3+i], dst); err != nil {
				return head, nil, err
			}
		}
		next := claimedRow{row: row}
		var created, claimed pgtype.Timestamptz
		for i, dst := range []any{
			&row.Kind, &row.Priority, &next.runAt, &row.Failures, &row.MaxAttempts, &row.Generation, &row.Key, &row.Revision,
			&created, &claimed, (*[]byte)(&row.Payload), (*[]byte)(&row.Metadata), &row.Tags,
		} {
			if err := scan.value(5+i, values[5+i], dst); err != nil && next.err == nil {
				next.err = fmt.Errorf("%s: %w", row, err)
			}
		}
		row.RunAt, row.CreatedAt, row.ClaimedAt = finite(next.runAt), finite(created), finite(claimed)
		found = append(found, next)
	}
	return head, found, rows.Err()
}

// scanner decodes single values of a result, with the plans made once per column, as pgx does for a whole row.
type scanner struct {
	types  *pgtype.Map
	fields []scanField
}

type scanField struct {
	name   string
	oid    uint32
	format int16
	plan   pgtype.ScanPlan
}

func newScanner(rows pgx.Rows) scanner {
	types := pgtype.NewMap()
	if conn := rows.Conn(); conn != nil {
		types = conn.TypeMap()
	}
	scan := scanner{types: types}
	for _, field := range rows.FieldDescriptions() {
		scan.fields = append(scan.fields, scanField{name: field.Name, oid: field.DataTypeOID, format: field.Format})
	}
	return scan
}

// value decodes src, the value of column i, into dst. dst must have the same type in every row.
func (s *scanner) value(i int, src []byte, dst any) error {
	field := &s.fields[i]
	if field.plan == nil {
		field.plan = s.types.PlanScan(field.oid, field.format, dst)
	}
	if err := field.plan.Scan(src, dst); err != nil {
		return fmt.Errorf("column %s: %w", field.name, err)
	}
	return nil
}

// sortClaimed puts rows in the order in which they should start: RETURNING has none. Rows of the same instant, as a bulk
// insert makes them, go by id.
func sortClaimed(rows []claimedRow, classes []int16) {
	place := func(priority int16) int {
		if i := slices.Index(classes, priority); i >= 0 {
			return i
		}
		return len(classes)
	}
	slices.SortFunc(rows, func(a, b claimedRow) int {
		return cmp.Or(
			cmp.Compare(place(a.row.Priority), place(b.row.Priority)),
			cmp.Compare(micros(a.runAt), micros(b.runAt)),
			cmp.Compare(a.row.ID, b.row.ID))
	})
}

// finite is t, or the zero time for an infinite one.
func finite(t pgtype.Timestamptz) time.Time {
	if !t.Valid || t.InfinityModifier != pgtype.Finite {
		return time.Time{}
	}
	return t.Time
}

// micros orders database times, which count in microseconds, with the infinite ones at the ends.
func micros(t pgtype.Timestamptz) int64 {
	switch t.InfinityModifier {
	case pgtype.Infinity:
		return math.MaxInt64
	case pgtype.NegativeInfinity:
		return math.MinInt64
	default:
		return t.Time.UnixMicro()
	}
}
