package jobstore

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// Record is one job as it is stored, live or finished. The History of its Row is not set.
type Record struct {
	Row
	State          string
	LeaseExpiresAt time.Time // zero: not running
	FinishedAt     time.Time // zero: live
	ClaimedBy      string
	Cancelling     bool // it runs and was asked to stop
	ErrorCount     int
	Errors         []Failed
	Result         json.RawMessage
}

// Failed is one element of the column errors.
type Failed struct {
	Attempt int       `json:"attempt"`
	Code    string    `json:"code"`
	Message string    `json:"message"`
	Started time.Time `json:"started"` // zero in what an earlier version stored
	At      time.Time `json:"at"`
	By      string    `json:"by"`
}

// Read returns a job by its number; nil if there is none.
func (s *Store) Read(ctx context.Context, q Querier, id int64) (*Record, error) {
	return readRecord(ctx, q, id, s.sql.read, []any{id})
}

// recordScan is where one row of such a statement is put, and what becomes of it.
type recordScan struct {
	row                                      Record
	runAt, created, claimed, lease, finished pgtype.Timestamptz
	by, failed, payload, metadata, result    *string
}

// into are the columns of read, in order.
func (s *recordScan) into() []any {
	row := &s.row
	return []any{
		&row.Queue, &row.Kind, &row.Key, &row.Revision, &row.State, &row.Priority, &s.runAt, &s.created, &s.claimed, &s.lease, &row.Cancelling,
		&s.finished, &s.by, &row.Attempt, &row.Failures, &row.MaxAttempts, &row.Generation, &row.ErrorCount,
		&s.failed, &row.Tags, &s.payload, &s.metadata, &s.result,
	}
}

// record is what was scanned.
func (s *recordScan) record() (*Record, error) {
	row := &s.row
	row.RunAt, row.CreatedAt, row.ClaimedAt = finite(s.runAt), finite(s.created), finite(s.claimed)
	row.LeaseExpiresAt, row.FinishedAt = finite(s.lease), finite(s.finished)
	row.Payload, row.Metadata, row.Result = raw(s.payload), raw(s.metadata), raw(s.result)
	if s.by != nil {
		row.ClaimedBy = *s.by
	}
	if s.failed != nil {
		if err := json.Unmarshal([]byte(*s.failed), &row.Errors); err != nil {
			return nil, fmt.Errorf("read the errors of job %d: %w", row.ID, err)
		}
	}
	return row, nil
}

// readRecord reads one job with a statement that answers like read; more takes what it answers behind that.
func readRecord(ctx context.Context, q Querier, id int64, sql string, args []any, more ...any) (*Record, error) {
	rows, err := q.Query(ctx, sql, slices.Concat(freshFor(q), args)...)
	if err != nil {
		return nil, fmt.Errorf("read job %d: %w", id, err)
	}
	scan, found := recordScan{row: Record{Row: Row{ID: id}}}, false
	_, err = pgx.ForEachRow(rows, append(scan.into(), more...), func() error {
		found = true
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read job %d: %w", id, err)
	}
	if !found {
		return nil, nil
	}
	return scan.record()
}

func raw(text *string) json.RawMessage {
	if text == nil {
		return nil
	}
	return json.RawMessage(*text)
}
