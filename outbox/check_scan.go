package outbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// tryScan gives the application's Scan a row without values, to see whether it reads the columns that Columns names: without that, each
// claimed row would fail. Only two answers are sure: another number of columns, and an error before anything was read, by
// which [pgx.RowToStructByName] and its like say that names do not fit. What Scan makes of empty values says nothing.
func (q *Queue[P, R]) tryScan(ctx context.Context, tx pgx.Tx) error {
	description, err := tx.Conn().Prepare(ctx, "", q.sql["claim"].SQL) // unnamed: a pooler may be between
	if err != nil {
		return q.wrap("check", err)
	}
	own := len(q.table.Key) + ownColumns
	if len(description.Fields) < own {
		return q.wrap("check", fmt.Errorf("the claim answers with %d columns, not at least %d", len(description.Fields), own))
	}
	row := &emptyRow{fields: description.Fields[own:]}
	err = q.scanEmpty(row)
	var count *countError
	if errors.As(err, &count) || err != nil && !row.read {
		return fmt.Errorf("%w %s:\n  Table.Scan: it does not read what Table.Columns names: %w", ErrDescription, q.full, err)
	}
	return nil
}

// scanEmpty contains what Scan does with a row that there is not.
func (q *Queue[P, R]) scanEmpty(row *emptyRow) (err error) {
	defer func() {
		if recover() != nil {
			row.read, err = true, nil
		}
	}()
	_, err = q.table.Scan(row)
	return err
}

// emptyRow is a row whose values leave every destination as it is.
type emptyRow struct {
	fields []pgconn.FieldDescription
	read   bool
}

var _ pgx.CollectableRow = (*emptyRow)(nil)

// FieldDescriptions describes the application's columns.
func (e *emptyRow) FieldDescriptions() []pgconn.FieldDescription { return e.fields }

// Values are none.
func (e *emptyRow) Values() ([]any, error) {
	e.read = true
	return make([]any, len(e.fields)), nil
}

// RawValues are none.
func (e *emptyRow) RawValues() [][]byte {
	e.read = true
	return make([][]byte, len(e.fields))
}

// Scan counts the destinations.
func (e *emptyRow) Scan(dest ...any) error {
	if len(dest) == 1 {
		if whole, ok := dest[0].(pgx.RowScanner); ok {
			return whole.ScanRow(emptyRows{e})
		}
	}
	e.read = true
	if len(dest) != len(e.fields) {
		return &countError{len(e.fields), len(dest)}
	}
	return nil
}

// emptyRows is an emptyRow where pgx wants rows.
type emptyRows struct{ *emptyRow }

// Close does nothing.
func (emptyRows) Close() {}

// Err is none.
func (emptyRows) Err() error { return nil }

// CommandTag is empty.
func (emptyRows) CommandTag() pgconn.CommandTag { return pgconn.CommandTag{} }

// Next is false: there is no other.
func (emptyRows) Next() bool { return false }

// TypeMap knows the types that every database has.
func (emptyRows) TypeMap() *pgtype.Map { return pgtype.NewMap() }

// Conn is none.
func (emptyRows) Conn() *pgx.Conn { return nil }
