package sqltx

import (
	"database/sql"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// target is what database/sql can scan into where pgqueue hands pgx something: arrays, and times that may be infinite.
func target(into any) any {
	switch into := into.(type) {
	case *pgtype.Timestamptz:
		return textTo{into}
	case *[]string:
		return textTo{pgtype.NewMap().SQLScanner(into)}
	}
	return into
}

// textTo gives a scanner text as a string; lib/pq gives bytes.
type textTo struct{ sql.Scanner }

func (t textTo) Scan(value any) error {
	if text, ok := value.([]byte); ok {
		value = string(text)
	}
	return t.Scanner.Scan(value)
}

// rows shows *sql.Rows as pgx.Rows. What database/sql does not tell (command tags, raw values, the connection) is empty.
type rows struct {
	rows *sql.Rows
	err  error
}

var _ pgx.Rows = (*rows)(nil)

func (r *rows) Close() {
	if err := r.rows.Close(); err != nil && r.err == nil {
		r.err = err
	}
}

func (r *rows) Err() error {
	if err := r.rows.Err(); err != nil {
		return err
	}
	return r.err
}

// Next closes the rows at their end, as pgx does: a transaction takes no other statement before that.
func (r *rows) Next() bool {
	if r.rows.Next() {
		return true
	}
	r.Close()
	return false
}

func (r *rows) Scan(into ...any) error {
	targets := make([]any, len(into))
	for i := range into {
		targets[i] = target(into[i])
	}
	if err := r.rows.Scan(targets...); err != nil {
		r.err = err
		return err
	}
	return nil
}

var errUnsupported = errors.New("sqltx: not available through database/sql")

func (r *rows) Values() ([]any, error)                       { return nil, errUnsupported }
func (r *rows) RawValues() [][]byte                          { return nil }
func (r *rows) CommandTag() pgconn.CommandTag                { return pgconn.CommandTag{} }
func (r *rows) FieldDescriptions() []pgconn.FieldDescription { return nil }
func (r *rows) Conn() *pgx.Conn                              { return nil }
func (r *rows) TypeMap() *pgtype.Map                         { return nil }

// row is the first of rows.
type row struct {
	rows pgx.Rows
	err  error
}

func (r *row) Scan(into ...any) error {
	if r.err != nil {
		return r.err
	}
	defer r.rows.Close()
	if !r.rows.Next() {
		if err := r.rows.Err(); err != nil {
			return err
		}
		return pgx.ErrNoRows
	}
	if err := r.rows.Scan(into...); err != nil {
		return err
	}
	r.rows.Close()
	return r.rows.Err()
}
