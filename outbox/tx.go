package outbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/internal/lazytx"
	"github.com/pgqueue/pgqueue/runner"
)

var (
	// ErrTxOwned is what Commit and Rollback of a [HandleTx] handler's transaction return: it ends with the row.
	ErrTxOwned = errors.New("outbox: the transaction ends with its row")
	// ErrClaimLost means that a claim no longer stands: another worker has the row, or it is gone. It matches
	// [runner.ErrLeaseLost].
	ErrClaimLost error = claimLost{}
)

type claimLost struct{}

func (claimLost) Error() string        { return "outbox: the claim no longer stands" }
func (claimLost) Is(target error) bool { return target == runner.ErrLeaseLost }

// commitTimeout bounds the completion and the COMMIT of a transactional handler, which run in a context of their own: work
// that is done should be stored although the deadline passes at that very moment.
const commitTimeout = 10 * time.Second

// TxHandler handles a row in a transaction that commits with the row's success.
type TxHandler[P, R any] func(ctx context.Context, tx pgx.Tx, task *runner.Task[P]) (R, error)

// HandleTx makes a handler whose transaction commits together with the success of its row, or not at all: what it writes
// through tx happens exactly once per row, however often the row is attempted. What it does elsewhere, such as a call of a
// provider, still happens at least once.
//
// The transaction begins at its first use, in the queue's pool, so slow work belongs before it: an open transaction holds a
// connection and keeps vacuum from its work. All but three connections of the pool may be held so at a time, and one if it
// has no more than three; a handler that waits for its turn until its deadline has failed an attempt. So give the pool
// [Config].Workers and three connections; [Queue.Check] warns of a smaller one. Commit and
// Rollback are the library's and give [ErrTxOwned]; Begin makes a savepoint. A handler that returns an error, panics, or has
// lost its claim is rolled back. One that never uses tx is completed like any other.
func HandleTx[P, R any](q *Queue[P, R], handle TxHandler[P, R]) runner.Handler[P, R] {
	if handle == nil {
		return nil // which [NewWorker] and [runner.New] refuse
	}
	q.inTxs.Store(true)
	return runner.HandlerFunc[P, R](func(ctx context.Context, task *runner.Task[P]) (R, error) {
		lazy := lazytx.New(ctx, q.pool, q.open, ErrTxOwned)
		defer lazy.End() // also when handle panics
		result, err := handle(ctx, lazy, task)
		if err != nil {
			return result, err
		}
		tx, err := lazy.Begun()
		if err != nil {
			return result, fmt.Errorf("begin the transaction of %s: %w", task.Token, err)
		}
		if tx == nil {
			return result, nil
		}
		return result, q.commit(ctx, lazy, tx, task.Token, &result)
	})
}

// commit ends a handler's transaction together with its row.
func (q *Queue[P, R]) commit(ctx context.Context, lazy *lazytx.Tx, tx pgx.Tx, token runner.Token, result *R) error {
	if cause := context.Cause(ctx); errors.Is(cause, runner.ErrLeaseLost) || errors.Is(cause, runner.ErrDeadline) {
		return cause // too late
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
	defer cancel()
	if q.table.Result.Name == "" {
		result = nil
	}
	if err := q.CompleteTx(ctx, tx, token, result); err != nil {
		return q.notCompleted(ctx, token, result, err)
	}
	lazy.Committing()
	switch err := tx.Commit(ctx); {
	case err == nil:
		q.held.drop(token.(*claimToken))
		return runner.ErrSettled
	case lazytx.CommitDecided(err):
		return fmt.Errorf("outbox: commit the transaction of %s: %w", token, storable(err))
	default:
		return runner.ErrConfirm
	}
}

// notCompleted says what becomes of a row whose completion failed.
func (q *Queue[P, R]) notCompleted(ctx context.Context, token runner.Token, result *R, err error) error {
	switch {
	case errors.Is(err, ErrClaimLost):
		// No verdict can change a row whose claim is gone. This one is not logged as a failure that will be tried again, and the
		// queue answers it with Lost.
		return errors.Join(err, runner.SnoozeFor(0))
	case refused(err):
		q.counts.rejected.Add(1)
		q.refusal(ctx, token.String(), err)
		code := CodeVerdictRejected
		if result != nil {
			code = CodeResultRejected
		}
		return runner.Coded(code, storable(err))
	}
	return err
}

// storable marks what may be stored of an error of the database: not its texts, which quote the row.
func storable(err error) error {
	text := why(err)
	if text == "" {
		return err
	}
	return &safeError{err, runner.Safef("%s", text)}
}

// safeError is an error with the part of it that may be stored.
type safeError struct{ err, safe error }

func (e *safeError) Error() string   { return e.err.Error() }
func (e *safeError) Unwrap() []error { return []error{e.err, e.safe} }

// CompleteTx ends the claim of token as a success in tx, which is the caller's: the row is done when tx commits, and stands as
// it was when it rolls back. result may be nil, and is ignored where the table has no column for it. It waits for the row if
// another session has locked it. [ErrClaimLost] means that the claim no longer stands and tx should be rolled back; tx stays
// usable then.
//
// A handler that does so must return [runner.ErrSettled] once tx has committed, or [runner.ErrConfirm] if it does not know
// whether it has. [HandleTx] does all of that.
func (q *Queue[P, R]) CompleteTx(ctx context.Context, tx pgx.Tx, token runner.Token, result *R) error {
	t, ok := q.asToken(token)
	if !ok {
		return q.wrap("complete", fmt.Errorf("token %v is not from this queue", token))
	}
	given := q.claimed([]*claimToken{t})
	var text *string
	if result != nil && q.table.Result.Name != "" {
		encoded, err := q.encode(*result)
		if err != nil {
			return q.wrap("complete", fmt.Errorf("encode the result: %w", err))
		}
		text = &encoded
	}
	given["result"] = []*string{text}
	t.settling.Store(true)
	done, err := q.inTx(ctx, tx, "complete_tx", given)
	if err == nil && !done {
		err = ErrClaimLost
	}
	if err != nil {
		t.settling.Store(false)
	}
	return q.wrap("complete", err)
}

// inTx runs a statement of ours in a transaction of the application's and says whether it answered with a row.
func (q *Queue[P, R]) inTx(ctx context.Context, tx session, name string, given args) (answered bool, err error) {
	s := q.sql[name]
	rows, err := tx.Query(ctx, s.SQL, slices.Concat(q.fresh, s.values(given))...)
	if err != nil {
		return false, err
	}
	for rows.Next() {
		answered = true
	}
	rows.Close()
	return answered, rows.Err()
}
