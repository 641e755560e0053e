package outbox

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"reflect"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pgqueue/pgqueue/runner"
)

// Columns of a claim's answer behind the key, as the part "claimed" of statements.sql lists them.
const (
	colAttempts = iota
	colAttemptedAt
	colCreatedAt
	colDue
	colClass
	colKind
	colFailures
	colMaxAttempts
	colToken
	colIdempotency
	colFound
	ownColumns
)

var errNoJoin = errors.New("the join found nothing for this row")

// reader decodes the answer of one claim. Each row is decoded by itself: pgx closes the whole result at the first value
// that does not scan, and one unreadable row would take its batch with it, claimed and never run.
type reader[P, R any] struct {
	queue  *Queue[P, R]
	fields []pgconn.FieldDescription
	user   userRow
	keys   int
}

// readClaim reads all rows.
func (q *Queue[P, R]) readClaim(rows pgx.Rows, limit int) ([]runner.Task[P], error) {
	defer rows.Close()
	r := &reader[P, R]{queue: q, keys: len(q.table.Key)}
	tasks := make([]runner.Task[P], 0, min(limit, 1024))
	for rows.Next() {
		if r.fields == nil {
			r.fields = rows.FieldDescriptions()
			if len(r.fields) < r.keys+ownColumns {
				return nil, fmt.Errorf("the answer has %d columns, not at least %d", len(r.fields), r.keys+ownColumns)
			}
			r.user.open(rows, r.keys+ownColumns)
		}
		task, err := r.row(rows.RawValues())
		if err != nil {
			return nil, err
		}
		tasks = append(tasks, task)
	}
	return tasks, rows.Err()
}

// row decodes one row. An error means that nothing can be said about it.
func (r *reader[P, R]) row(values [][]byte) (runner.Task[P], error) {
	token := &claimToken{table: &r.queue.full, key: make([]string, r.keys)}
	for i := range token.key {
		token.key[i] = string(values[i])
	}
	own := values[r.keys:]
	fields := r.fields[r.keys:]
	var task runner.Task[P]
	var number [4]int64
	for i, column := range []int{colAttempts, colClass, colFailures, colMaxAttempts} {
		var err error
		if number[i], err = integer(fields[column], own[column]); err != nil {
			return task, err
		}
	}
	var at [3]pgtype.Timestamptz
	for i, column := range []int{colAttemptedAt, colCreatedAt, colDue} {
		var err error
		if at[i], err = r.user.timestamp(fields[column], own[column]); err != nil {
			return task, err
		}
	}
	token.attempts, token.attemptedAt, token.createdAt, token.due = number[0], at[0], at[1], at[2]
	token.random, token.idempotency = string(own[colToken]), string(own[colIdempotency])
	task = runner.Task[P]{
		Token: token, Kind: r.queue.kindName(own[colKind]), Class: runner.Class(clamp16(number[1])),
		Attempt: clampInt(number[0]), Failures: clampInt(number[2]), MaxAttempts: clampInt(number[3]),
		Due: finite(at[2]), Claimed: finite(at[0]),
	}
	if task.Due.IsZero() { // due since ever
		task.Due = task.Claimed
	}
	if own[colFound] == nil {
		task.Err = errNoJoin
		return task, nil
	}
	r.user.values = values[r.keys+ownColumns:]
	task.Payload, task.Err = r.decode()
	return task, nil
}

// decode calls the application's Scan and contains it.
func (r *reader[P, R]) decode() (payload P, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			r.queue.log.Error("outbox: Scan panicked", "type", fmt.Sprintf("%T", cause), "stack", string(debug.Stack()))
			r.queue.log.Debug("outbox: text of a panic in Scan", "panic", cause)
			err = runner.Safe(scanPanic{fmt.Sprintf("%T", cause)})
		}
	}()
	return r.queue.table.Scan(&r.user)
}

// scanPanic is a panic of the application's Scan.
type scanPanic struct{ kind string }

func (p scanPanic) Error() string { return "panic in Scan of type " + p.kind }

func clampInt(n int64) int  { return int(max(math.MinInt32, min(n, math.MaxInt32))) }
func clamp16(n int64) int64 { return max(math.MinInt16, min(n, math.MaxInt16)) }

func integer(field pgconn.FieldDescription, value []byte) (int64, error) {
	switch {
	case value == nil:
		return 0, fmt.Errorf("column %s is NULL", field.Name)
	case field.Format == pgx.BinaryFormatCode && len(value) == 8:
		return int64(binary.BigEndian.Uint64(value)), nil
	}
	return strconv.ParseInt(string(value), 10, 64)
}

// yearTwoThousand is the zero of Postgres' binary times, in microseconds since 1970.
const yearTwoThousand = 946_684_800 * 1_000_000

// userRow is the part of a row that the application asked for, as a row of its own: [pgx.RowToStructByName] and its like
// see the columns of the description and no others. A value that does not scan is an error and no more.
type userRow struct {
	pgx.Rows
	from   int // first column
	types  *pgtype.Map
	fields []pgconn.FieldDescription
	values [][]byte
	plans  []pgtype.ScanPlan
	kinds  []reflect.Type // of the destinations that the plans are for
}

var _ pgx.Rows = (*userRow)(nil)

func (u *userRow) open(rows pgx.Rows, from int) {
	u.Rows, u.from, u.fields = rows, from, rows.FieldDescriptions()[from:]
	u.types = pgtype.NewMap()
	if conn := rows.Conn(); conn != nil {
		u.types = conn.TypeMap()
	}
	u.plans, u.kinds = make([]pgtype.ScanPlan, len(u.fields)), make([]reflect.Type, len(u.fields))
}

// FieldDescriptions describes the application's columns.
func (u *userRow) FieldDescriptions() []pgconn.FieldDescription { return u.fields }

// RawValues are the application's columns as they came. They are good until the next row.
func (u *userRow) RawValues() [][]byte { return u.values }

// Values decodes the application's columns.
func (u *userRow) Values() ([]any, error) {
	values, err := u.Rows.Values()
	if err != nil {
		return nil, err
	}
	return values[u.from:], nil
}

// Scan decodes the application's columns into dest.
func (u *userRow) Scan(dest ...any) error {
	if len(dest) == 1 {
		if whole, ok := dest[0].(pgx.RowScanner); ok {
			return whole.ScanRow(u)
		}
	}
	if len(dest) != len(u.fields) {
		return runner.Safe(&countError{len(u.fields), len(dest)})
	}
	for i, dst := range dest {
		if dst == nil {
			continue
		}
		if kind := reflect.TypeOf(dst); u.kinds[i] != kind {
			u.plans[i], u.kinds[i] = u.types.PlanScan(u.fields[i].DataTypeOID, u.fields[i].Format, dst), kind
		}
		if err := u.plans[i].Scan(u.values[i], dst); err != nil {
			// The cause may quote the value; where it happened does not.
			return &safeError{pgx.ScanArgError{ColumnIndex: i, FieldName: u.fields[i].Name, Err: err},
				runner.Safef("column %q does not scan into %T", u.fields[i].Name, dst)}
		}
	}
	return nil
}

// countError says that Scan reads another number of columns than there are.
type countError struct{ columns, destinations int }

func (e *countError) Error() string {
	return fmt.Sprintf("scan of %d columns into %d destinations", e.columns, e.destinations)
}

// timestamp decodes one of our own columns.
func (u *userRow) timestamp(field pgconn.FieldDescription, value []byte) (at pgtype.Timestamptz, err error) {
	if value == nil {
		return at, nil
	}
	if field.Format == pgx.BinaryFormatCode && len(value) == 8 {
		switch n := int64(binary.BigEndian.Uint64(value)); n {
		case math.MaxInt64:
			return pgtype.Timestamptz{InfinityModifier: pgtype.Infinity, Valid: true}, nil
		case math.MinInt64:
			return pgtype.Timestamptz{InfinityModifier: pgtype.NegativeInfinity, Valid: true}, nil
		default:
			return pgtype.Timestamptz{Time: time.UnixMicro(n + yearTwoThousand), Valid: true}, nil
		}
	}
	return at, u.types.Scan(field.DataTypeOID, field.Format, value, &at)
}
