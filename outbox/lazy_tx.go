package outbox

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// rollbackTimeout bounds the ROLLBACK of an abandoned transaction; after it pgx closes the connection, which rolls back too.
	rollbackTimeout = 5 * time.Second
	// reservedConnections stay for the queue's own statements when transactional handlers fill the pool.
	reservedConnections = 3
)

// transactionSlots bounds how many transactions of handlers are open at a time.
type transactionSlots chan struct{}

// newTransactionSlots leaves reservedConnections of a pool of the given size, and always allows one transaction.
func newTransactionSlots(poolSize int32) transactionSlots {
	return make(transactionSlots, max(1, int(poolSize)-reservedConnections))
}

// lazyTx is the transaction of one transactional handler. It begins at its first use, in READ COMMITTED whatever the role's
// default, because the completion that shares it must see the row as it is now.
type lazyTx struct {
	ctx  context.Context // the handler's: Conn and LargeObjects, which take none, begin in it
	pool *pgxpool.Pool
	open transactionSlots
	done bool // committed, or about to be: nothing to roll back

	mu  sync.Mutex
	tx  pgx.Tx
	err error
}

var _ pgx.Tx = (*lazyTx)(nil)

func (l *lazyTx) begin(ctx context.Context) (pgx.Tx, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tx != nil || l.err != nil {
		return l.tx, l.err
	}
	select {
	case l.open <- struct{}{}:
	case <-ctx.Done():
		l.err = fmt.Errorf("wait for one of the %d transactions that handlers may have open: %w", cap(l.open), context.Cause(ctx))
		return nil, l.err
	}
	if l.tx, l.err = l.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}); l.err != nil {
		l.tx = nil
		<-l.open
	}
	return l.tx, l.err
}

// begun returns the transaction if one was begun.
func (l *lazyTx) begun() (pgx.Tx, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tx, l.err
}

// end rolls back what was begun and not committed, and lets another transaction begin.
func (l *lazyTx) end() {
	tx, _ := l.begun()
	if tx == nil {
		return
	}
	defer func() { <-l.open }()
	if l.done {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.ctx), rollbackTimeout)
	defer cancel()
	_ = tx.Rollback(ctx) // a failure closes the connection, which rolls back
}

// Begin makes a savepoint.
func (l *lazyTx) Begin(ctx context.Context) (pgx.Tx, error) {
	tx, err := l.begin(ctx)
	if err != nil {
		return nil, err
	}
	return tx.Begin(ctx)
}

// Commit is the library's; see [ErrTxOwned].
func (l *lazyTx) Commit(context.Context) error { return ErrTxOwned }

// Rollback is the library's; see [ErrTxOwned].
func (l *lazyTx) Rollback(context.Context) error { return ErrTxOwned }

func (l *lazyTx) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, source pgx.CopyFromSource) (int64, error) {
	tx, err := l.begin(ctx)
	if err != nil {
		return 0, err
	}
	return tx.CopyFrom(ctx, table, columns, source)
}

func (l *lazyTx) SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults {
	tx, err := l.begin(ctx)
	if err != nil {
		return pgx.FailedBatchResults(batch, err)
	}
	return tx.SendBatch(ctx, batch)
}

// LargeObjects returns an unusable value when the transaction could not begin; the handler's next statement says why.
func (l *lazyTx) LargeObjects() pgx.LargeObjects {
	tx, err := l.begin(l.ctx)
	if err != nil {
		return pgx.LargeObjects{}
	}
	return tx.LargeObjects()
}

func (l *lazyTx) Prepare(ctx context.Context, name, sql string) (*pgconn.StatementDescription, error) {
	tx, err := l.begin(ctx)
	if err != nil {
		return nil, err
	}
	return tx.Prepare(ctx, name, sql)
}

func (l *lazyTx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	tx, err := l.begin(ctx)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	return tx.Exec(ctx, sql, args...)
}

func (l *lazyTx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	tx, err := l.begin(ctx)
	if err != nil {
		return nil, err
	}
	return tx.Query(ctx, sql, args...)
}

func (l *lazyTx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	tx, err := l.begin(ctx)
	if err != nil {
		return failedRow{err}
	}
	return tx.QueryRow(ctx, sql, args...)
}

// Conn returns nil when the transaction could not begin.
func (l *lazyTx) Conn() *pgx.Conn {
	tx, err := l.begin(l.ctx)
	if err != nil {
		return nil
	}
	return tx.Conn()
}

// failedRow carries the error of a transaction that could not begin to where pgx reports errors.
type failedRow struct{ err error }

func (f failedRow) Scan(...any) error { return f.err }
