package sqltx

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Queryer is what can run a statement: *sql.Tx is the one to use. *sql.DB, *sql.Conn and the Statement.ConnPool of a
// *gorm.DB have the method as well. A bun.Tx has it too but reads placeholders of its own: pass the *sql.Tx inside it.
type Queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// Querier runs the statements of a pgqueue.Client on a [Queryer]. It is as safe for concurrent use as that is: a transaction
// is not. Errors are the driver's, wrapped.
type Querier struct {
	on Queryer
}

// On makes a Querier; it costs nothing and holds nothing, so make one for each call or keep it as long as the transaction.
// A nil Queryer is refused at the first call.
func On(queryer Queryer) *Querier { return &Querier{on: queryer} }

var errNil = errors.New("sqltx: the transaction is nil")

// Query sends one statement with its arguments.
func (q *Querier) Query(ctx context.Context, query string, args ...any) (pgx.Rows, error) {
	if q == nil || q.on == nil || isNilTx(q.on) {
		return nil, errNil
	}
	translated, err := arguments(args)
	if err != nil {
		return nil, err
	}
	answer, err := q.on.QueryContext(ctx, query, translated...) //nolint:rowserrcheck // the reader of rows asks Err
	if err != nil {
		return nil, err
	}
	return &rows{rows: answer}, nil
}

// SendBatch sends the statements of a batch one after the other, each when its answer is asked for: database/sql knows no
// pipeline. What is not asked for is sent by Close.
func (q *Querier) SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults {
	return &results{ctx: ctx, on: q, left: batch.QueuedQueries}
}

// Transaction is the identity of what the statements run on, nil where that is no *sql.Tx. The client's limit on hints asks for it:
// within one transaction equal hints cost nothing, so none is held back.
func (q *Querier) Transaction() any {
	if tx, ok := q.on.(*sql.Tx); ok {
		return tx
	}
	return nil
}

func isNilTx(q Queryer) bool {
	tx, ok := q.(*sql.Tx)
	return ok && tx == nil
}

// results is a batch that is sent as it is read.
type results struct {
	ctx  context.Context
	on   *Querier
	left []*pgx.QueuedQuery
	err  error
}

var errNoMore = errors.New("sqltx: the batch has no more statements")

func (r *results) Query() (pgx.Rows, error) {
	if r.err != nil {
		return nil, r.err
	}
	if len(r.left) == 0 {
		return nil, errNoMore
	}
	next := r.left[0]
	r.left = r.left[1:]
	answer, err := r.on.Query(r.ctx, next.SQL, next.Arguments...)
	r.err = err
	return answer, err
}

func (r *results) Exec() (pgconn.CommandTag, error) {
	answer, err := r.Query()
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	answer.Close()
	if err := answer.Err(); err != nil {
		r.err = err
		return pgconn.CommandTag{}, err
	}
	return answer.CommandTag(), nil
}

func (r *results) QueryRow() pgx.Row {
	answer, err := r.Query()
	return &row{rows: answer, err: err}
}

// Tx is nil: pgqueue's batches begin no transaction.
func (r *results) Tx() pgx.Tx { return nil }

// Close sends what has not been asked for, unless something failed before: a failed statement ends a transaction.
func (r *results) Close() error {
	for r.err == nil && len(r.left) > 0 {
		if read := r.left[0].Fn; read != nil { // it asks for its answer
			if r.err = read(r); r.err != nil {
				return fmt.Errorf("sqltx: %w", r.err)
			}
			continue
		}
		if _, err := r.Exec(); err != nil {
			return fmt.Errorf("sqltx: %w", err)
		}
	}
	r.left = nil
	return r.err
}
