package lazytx

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// rollbackTimeout bounds the ROLLBACK of an abandoned transaction; after it pgx closes the connection, which rolls
// back too.
const rollbackTimeout = 5 * time.Second

// Beginner is the part of a pool that a transactional handler needs.
type Beginner interface {
	BeginTx(ctx context.Context, options pgx.TxOptions) (pgx.Tx, error)
}

// Tx is the transaction of one handler. It begins at its first use, in READ COMMITTED whatever the role's default, because
// the completion that shares it must see the row as it is now.
type Tx struct {
	ctx   context.Context // the handler's: Conn and LargeObjects, which take none, begin in it
	pool  Beginner
	open  Slots // bounds how many are open beside this one
	owned error // what Commit and Rollback answer
	done  bool  // committed, or about to be: nothing to roll back

	mutex sync.Mutex
	tx    pgx.Tx
	err   error
}

var _ pgx.Tx = (*Tx)(nil)

// New makes the transaction of a handler whose context is ctx. The handler's own Commit and Rollback get the error owned.
func New(ctx context.Context, pool Beginner, open Slots, owned error) *Tx {
	return &Tx{ctx: ctx, pool: pool, open: open, owned: owned}
}

func (l *Tx) begin(ctx context.Context) (pgx.Tx, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.tx == nil && l.err == nil {
		if l.err = l.open.take(ctx); l.err != nil {
			return nil, l.err
		}
		if l.tx, l.err = l.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}); l.err != nil {
			l.tx = nil
			l.open.give()
		}
	}
	return l.tx, l.err
}

// Begun returns the transaction if one was begun, or why it could not begin; both are nil when the handler used none.
func (l *Tx) Begun() (pgx.Tx, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.tx, l.err
}

// Committing says that whoever owns the transaction is about to commit it: End rolls nothing back any more.
func (l *Tx) Committing() { l.done = true }

// End rolls back what was begun and not committed, and lets another transaction begin.
func (l *Tx) End() {
	tx, _ := l.Begun()
	if tx == nil {
		return
	}
	defer l.open.give()
	if l.done {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.ctx), rollbackTimeout)
	defer cancel()
	_ = tx.Rollback(ctx) // a failure closes the connection, which rolls back
}

// Begin makes a savepoint.
func (l *Tx) Begin(ctx context.Context) (pgx.Tx, error) {
	tx, err := l.begin(ctx)
	if err != nil {
		return nil, err
	}
	return tx.Begin(ctx)
}

// Commit is not the handler's.
func (l *Tx) Commit(context.Context) error { return l.owned }

// Rollback is not the handler's.
func (l *Tx) Rollback(context.Context) error { return l.owned }

// CopyFrom begins the transaction if need be; see [pgx.Tx].
func (l *Tx) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, source pgx.CopyFromSource) (int64, error) {
	tx, err := l.begin(ctx)
	if err != nil {
		return 0, err
	}
	return tx.CopyFrom(ctx, table, columns, source)
}

// SendBatch begins the transaction if need be; see [pgx.Tx].
func (l *Tx) SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults {
	tx, err := l.begin(ctx)
	if err != nil {
		return pgx.FailedBatchResults(batch, err)
	}
	return tx.SendBatch(ctx, batch)
}

// LargeObjects returns an unusable value when the transaction could not begin; the handler's next statement says why.
func (l *Tx) LargeObjects() pgx.LargeObjects {
	tx, err := l.begin(l.ctx)
	if err != nil {
		return pgx.LargeObjects{}
	}
	return tx.LargeObjects()
}

// Prepare begins the transaction if need be; see [pgx.Tx].
func (l *Tx) Prepare(ctx context.Context, name, sql string) (*pgconn.StatementDescription, error) {
	tx, err := l.begin(ctx)
	if err != nil {
		return nil, err
	}
	return tx.Prepare(ctx, name, sql)
}

// Exec begins the transaction if need be; see [pgx.Tx].
func (l *Tx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	tx, err := l.begin(ctx)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	return tx.Exec(ctx, sql, args...)
}

// Query begins the transaction if need be; see [pgx.Tx].
func (l *Tx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	tx, err := l.begin(ctx)
	if err != nil {
		return nil, err
	}
	return tx.Query(ctx, sql, args...)
}

// QueryRow begins the transaction if need be; see [pgx.Tx].
func (l *Tx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	tx, err := l.begin(ctx)
	if err != nil {
		return failedRow{err}
	}
	return tx.QueryRow(ctx, sql, args...)
}

// Conn returns nil when the transaction could not begin.
func (l *Tx) Conn() *pgx.Conn {
	tx, err := l.begin(l.ctx)
	if err != nil {
		return nil
	}
	return tx.Conn()
}

// failedRow carries the error of a transaction that could not begin to where pgx reports errors.
type failedRow struct{ err error }

func (f failedRow) Scan(...any) error { return f.err }

// CommitDecided tells whether a failed COMMIT certainly did not commit: the server said so. Anything else, such as a lost
// connection, leaves the question open.
func CommitDecided(err error) bool {
	var fromServer *pgconn.PgError
	return errors.As(err, &fromServer) || errors.Is(err, pgx.ErrTxCommitRollback) || errors.Is(err, pgx.ErrTxClosed)
}
