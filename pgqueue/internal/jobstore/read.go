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

// readRecord reads one job with a statement that answers like read; more takes what it answers behind that.
func readRecord(ctx context.Context, q Querier, id int64, sql string, args []any, more ...any) (*Record, error) {
	rows, err := q.Query(ctx, sql, slices.Concat(freshFor(q), args)...)
	if err != nil {
		return nil, fmt.Errorf("read job %d: %w", id, err)
	}
	var found *Record
	row := Record{Row: Row{ID: id}}
	var runAt, created, claimed, lease, finished pgtype.Timestamptz
	var by, failed, payload, metadata, result *string
	_, err = pgx.ForEachRow(rows, append([]any{
		&row.Queue, &row.Kind, &row.Key, &row.Revision, &row.State, &row.Priority, &runAt, &created, &claimed, &lease, &row.Cancelling,
		&finished, &by, &row.Attempt, &row.Failures, &row.MaxAttempts, &row.Generation, &row.ErrorCount,
		&failed, &row.Tags, &payload, &metadata, &result,
	}, more...), func() error {
		found = &row
		return nil
	})
	if err != nil || found == nil {
		if err != nil {
			err = fmt.Errorf("read job %d: %w", id, err)
		}
		return nil, err
	}
	row.RunAt, row.CreatedAt, row.ClaimedAt = finite(runAt), finite(created), finite(claimed)
	row.LeaseExpiresAt, row.FinishedAt = finite(lease), finite(finished)
	row.Payload, row.Metadata, row.Result = raw(payload), raw(metadata), raw(result)
	if by != nil {
		row.ClaimedBy = *by
	}
	if failed != nil {
		if err := json.Unmarshal([]byte(*failed), &row.Errors); err != nil {
			return nil, fmt.Errorf("read the errors of job %d: %w", id, err)
		}
	}
	return found, nil
}

func raw(text *string) json.RawMessage {
	if text == nil {
		return nil
	}
	return json.RawMessage(*text)
}
