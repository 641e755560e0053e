package jobstore

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// Columns of the claim's answer. Those behind colFoundAt are NULL but in the envelope, which is a row of its own.
const (
	colID = iota
	colAttempt
	colKind
	colPriority
	colRunAt
	colFailures
	colMaxAttempts
	colGeneration
	colKey
	colRevision
	colCreatedAt
	colPayload
	colMetadata
	colPlace
	colTags
	colFoundAt
	colClaimedAt
	colNow
	colHistory
	colPausedUntil
	colPausedKinds
)

const (
	slabRows  = 64      // rows that are allocated together: one that is kept keeps the others in memory
	slabBytes = 8 << 10 // the same for payloads
)

// claimReader decodes the answer of one claim. Where the server sends the binary formats that pgx asks for by default it
// reads them by itself: for a queue of short jobs pgx's scan plans are the largest part of the cost on this side.
type claimReader struct {
	scan     scanner
	binary   bool
	location *time.Location // for times; nil: local

	queue   string
	kinds   []string // that are known: a row gets one of these strings, not its own copy
	head    envelope
	began   pgtype.Timestamptz // claimed_at of all rows
	scanned pgtype.Timestamptz // when the scan was over
	history string

	rows  []Row
	bytes []byte
	found []claimedRow
}

// readClaim reads the answer of the claim statement. Each value is decoded by itself: pgx closes the whole result at
// the first value that does not scan, and one unreadable row would take its batch with it, claimed and never run.
func readClaim(rows pgx.Rows, queue string, kinds []string, limit int) (envelope, []claimedRow, error) {
	defer rows.Close()
	r := claimReader{queue: queue, kinds: kinds}
	for rows.Next() {
		values := rows.RawValues()
		if r.scan.types == nil {
			r.scan = newScanner(rows)
			r.binary, r.location = r.scan.binaryClaim()
			r.found = make([]claimedRow, 0, min(limit, maxRows))
		}
		var err error
		if values[colID] == nil {
			err = r.readHead(values)
		} else {
			err = r.readRow(values)
		}
		if err != nil {
			return r.head, nil, err
		}
	}
	claimed := finite(r.began)
	for i := range r.found {
		r.found[i].row.History, r.found[i].row.ClaimedAt = r.history, claimed
	}
	r.head.took = r.scanned.Time.Sub(r.began.Time).Microseconds()
	return r.head, r.found, rows.Err()
}

// readHead reads the envelope.
func (r *claimReader) readHead(values [][]byte) error {
	if len(r.found) == 0 {
		if err := r.scan.value(colFoundAt, values[colFoundAt], &r.scanned); err != nil {
			return err
		}
	}
	for _, column := range []struct {
		at  int
		dst any
	}{{colClaimedAt, &r.began}, {colNow, &r.head.now}, {colHistory, &r.history}, {colPausedUntil, &r.head.pausedUntil},
		{colPausedKinds, &r.head.pausedKinds}} {
		if err := r.scan.value(column.at, values[column.at], column.dst); err != nil {
			return err
		}
	}
	return nil
}

func (r *claimReader) readRow(values [][]byte) error {
	if len(r.rows) == 0 {
		r.rows = make([]Row, slabRows)
	}
	row := &r.rows[0]
	r.rows = r.rows[1:]
	row.Queue = r.queue
	if len(r.found) == 0 {
		if err := r.scan.value(colFoundAt, values[colFoundAt], &r.scanned); err != nil {
			return err
		}
	}
	next := claimedRow{row: row}
	var err error
	if r.binary {
		r.readBinary(row, &next, values)
	} else {
		err = r.readAny(row, &next, values)
	}
	if err != nil {
		return err
	}
	if row.Metadata == nil {
		row.Metadata = r.copied([]byte("{}"))
	}
	if row.Tags == nil {
		row.Tags = []string{}
	}
	r.found = append(r.found, next)
	return nil
}

// readBinary is readAny for the formats that binaryClaim has checked.
func (r *claimReader) readBinary(row *Row, next *claimedRow, values [][]byte) {
	row.ID = int64(binary.BigEndian.Uint64(values[colID]))
	row.Attempt = int(int32(binary.BigEndian.Uint32(values[colAttempt])))
	row.Kind = r.interned(values[colKind])
	row.Priority = int16(binary.BigEndian.Uint16(values[colPriority]))
	row.Failures = int(int16(binary.BigEndian.Uint16(values[colFailures])))
	row.MaxAttempts = int(int16(binary.BigEndian.Uint16(values[colMaxAttempts])))
	row.Generation = int(int32(binary.BigEndian.Uint32(values[colGeneration])))
	row.Key, row.Revision = optional(values[colKey]), optional(values[colRevision])
	due := r.timestamp(values[colRunAt])
	next.at = micros(due)
	row.RunAt, row.CreatedAt = finite(due), finite(r.timestamp(values[colCreatedAt]))
	row.Payload = r.copied(values[colPayload])
	if values[colMetadata] != nil {
		row.Metadata = r.copied(values[colMetadata])
	}
	row.place = pgtype.TID{BlockNumber: binary.BigEndian.Uint32(values[colPlace]), OffsetNumber: binary.BigEndian.Uint16(values[colPlace][4:]), Valid: true}
	if values[colTags] != nil {
		if err := r.scan.value(colTags, values[colTags], &row.Tags); err != nil {
			next.err = fmt.Errorf("%s: %w", row, err)
		}
	}
}

// readAny reads a row in whatever format it comes. Without its id and attempt nothing can be said about it.
func (r *claimReader) readAny(row *Row, next *claimedRow, values [][]byte) error {
	for i, dst := range []any{&row.ID, &row.Attempt} {
		if err := r.scan.value(i, values[i], dst); err != nil {
			return err
		}
	}
	var due, created pgtype.Timestamptz
	for i, dst := range []any{
		&row.Kind, &row.Priority, &due, &row.Failures, &row.MaxAttempts, &row.Generation, &row.Key, &row.Revision,
		&created, (*[]byte)(&row.Payload), (*[]byte)(&row.Metadata), &row.place, &row.Tags,
	} {
		if err := r.scan.value(colKind+i, values[colKind+i], dst); err != nil && next.err == nil {
			next.err = fmt.Errorf("%s: %w", row, err)
		}
	}
	next.at = micros(due)
	row.RunAt, row.CreatedAt = finite(due), finite(created)
	return nil
}

// interned is text as a string, without a copy where it is the name of a known kind.
func (r *claimReader) interned(text []byte) string {
	for _, kind := range r.kinds {
		if string(text) == kind {
			return kind
		}
	}
	if n := len(r.found); n > 0 && r.found[n-1].row.Kind == string(text) {
		return r.found[n-1].row.Kind
	}
	return string(text)
}

// copied is a copy of text, which belongs to the connection.
func (r *claimReader) copied(text []byte) json.RawMessage {
	if len(text) > slabBytes/8 {
		return slices.Clone(text)
	}
	if len(r.bytes)+len(text) > cap(r.bytes) {
		r.bytes = make([]byte, 0, slabBytes)
	}
	from := len(r.bytes)
	r.bytes = append(r.bytes, text...)
	return r.bytes[from:len(r.bytes):len(r.bytes)]
}

func optional(text []byte) *string {
	if text == nil {
		return nil
	}
	copied := string(text)
	return &copied
}

// yearTwoThousand is the zero of Postgres' binary times, in microseconds since 1970.
const yearTwoThousand = 946_684_800 * 1_000_000

// timestamp decodes a binary timestamptz.
func (r *claimReader) timestamp(value []byte) pgtype.Timestamptz {
	switch n := int64(binary.BigEndian.Uint64(value)); n {
	case math.MaxInt64:
		return pgtype.Timestamptz{InfinityModifier: pgtype.Infinity, Valid: true}
	case math.MinInt64:
		return pgtype.Timestamptz{InfinityModifier: pgtype.NegativeInfinity, Valid: true}
	default:
		t := time.UnixMicro(n + yearTwoThousand)
		if r.location != nil {
			t = t.In(r.location)
		}
		return pgtype.Timestamptz{Time: t, Valid: true}
	}
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

// binary says whether the first columns have these types and come in binary format.
func (s *scanner) binary(oids ...uint32) bool {
	for i, oid := range oids {
		field := &s.fields[i]
		// The binary format of text is its text format.
		if field.oid != oid || field.format != pgx.BinaryFormatCode && oid != pgtype.TextOID {
			return false
		}
	}
	return true
}

// binaryClaim says whether a claim's rows come as readBinary expects them, and where pgx would place their times.
func (s *scanner) binaryClaim() (ok bool, location *time.Location) {
	if !s.binary(pgtype.Int8OID, pgtype.Int4OID, pgtype.TextOID, pgtype.Int2OID, pgtype.TimestamptzOID, pgtype.Int2OID, pgtype.Int2OID,
		pgtype.Int4OID, pgtype.TextOID, pgtype.TextOID, pgtype.TimestamptzOID, pgtype.TextOID, pgtype.TextOID, pgtype.TIDOID) {
		return false, nil
	}
	times, ok := s.types.TypeForOID(pgtype.TimestamptzOID)
	if !ok {
		return false, nil
	}
	codec, ok := times.Codec.(*pgtype.TimestamptzCodec)
	if !ok {
		return false, nil // the application has its own
	}
	return true, codec.ScanLocation
}
