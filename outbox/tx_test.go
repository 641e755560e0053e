package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/outbox"
	"github.com/pgqueue/pgqueue/runner"
)

// transactional makes a worker whose handler has a transaction.
func transactional(t testing.TB, q *queue, handle outbox.TxHandler[row, result]) *outbox.Worker[row, result] {
	t.Helper()
	w, err := outbox.NewWorker(q, outbox.HandleTx(q, handle))
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// What a handler writes commits with its row, or not at all.
func TestHandleTxCommitsWithTheRow(t *testing.T) {
	t.Parallel()
	db := database(t)
	s := plain()
	s.result = "jsonb"
	q := s.open(t, db.Pool, outbox.Config{Logger: quiet(), MaxAttempts: 1})
	exec(t, db.Pool, `CREATE TABLE app.effects (name text)`)
	insert(t, db.Pool, 1, 7)
	w := transactional(t, q, func(ctx context.Context, tx pgx.Tx, task *task) (result, error) {
		if task.Payload.Name == "row 5" {
			return result{"without"}, nil // never used its transaction
		}
		if _, err := tx.Exec(ctx, `INSERT INTO app.effects VALUES ($1)`, task.Payload.Name); err != nil {
			return result{}, err
		}
		switch task.Payload.Name {
		case "row 2":
			return result{}, errors.New("no")
		case "row 3":
			panic("no")
		case "row 4": // somebody else has the row
			_, err := db.Pool.Exec(ctx, `UPDATE app.deliveries SET attempts = attempts + 1, attempted_at = now() WHERE id = 4`)
			return result{}, err
		case "row 6":
			if err := tx.Commit(ctx); !errors.Is(err, outbox.ErrTxOwned) {
				return result{}, fmt.Errorf("Commit: %w", err)
			}
		case "row 7":
			_, _ = tx.Exec(ctx, `SELECT 1/0`) // the transaction cannot commit
		}
		return result{"with"}, nil
	})
	got := drain(t, w)
	if got.Outcomes.Succeeded != 3 || got.Outcomes.Lost != 1 || got.Outcomes.Dead != 3 {
		t.Errorf("%+v", got.Outcomes)
	}
	if got := one[string](t, db.Pool, `SELECT string_agg(name, ', ' ORDER BY name) FROM app.effects`); got != "row 1, row 6" {
		t.Errorf("effects of %s", got)
	}
	if got := one[string](t, db.Pool, `SELECT string_agg(id || ' ' || (result->>'text'), ', ' ORDER BY id) FROM app.deliveries WHERE status = 'delivered'`); got !=
		"1 with, 5 without, 6 with" {
		t.Errorf("delivered %s", got)
	}
}

// A handler may complete its row in a transaction of its own. If it says so and the transaction did not commit, the attempt
// has failed.
func TestCompleteTxInATransactionOfTheHandlers(t *testing.T) {
	t.Parallel()
	db := database(t)
	q := plain().open(t, db.Pool, outbox.Config{Logger: quiet()})
	insert(t, db.Pool, 1, 2)
	w := newWorker(t, q, func(ctx context.Context, task *task) error {
		tx, err := db.Pool.Begin(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
		if err := q.CompleteTx(ctx, tx, task.Token, nil); err != nil {
			return err
		}
		if task.Payload.Name == "row 1" {
			if err := tx.Commit(ctx); err != nil {
				return err
			}
		} else if err := tx.Rollback(ctx); err != nil {
			return err
		}
		return runner.ErrConfirm
	})
	if got := drain(t, w); got.Outcomes.Succeeded != 1 || got.Outcomes.Retrying != 1 {
		t.Errorf("%+v", got.Outcomes)
	}
	if got := one[string](t, db.Pool, `SELECT string_agg(concat_ws(' ', id, status, error_code), ', ' ORDER BY id) FROM app.deliveries`); got !=
		"1 delivered, 2 pending tx_not_committed" {
		t.Errorf("the rows are %s", got)
	}
}

// A claim that is lost is an answer: the caller's transaction stays usable.
func TestCompleteTxOfALostClaim(t *testing.T) {
	t.Parallel()
	db := database(t)
	q := plain().open(t, db.Pool, outbox.Config{})
	insert(t, db.Pool, 1, 1)
	tasks, err := q.Claim(t.Context(), runner.ClaimRequest{Limit: 1, Lease: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	exec(t, db.Pool, `DELETE FROM app.deliveries`)
	insert(t, db.Pool, 1, 1)
	err = pgx.BeginFunc(t.Context(), db.Pool, func(tx pgx.Tx) error {
		err := q.CompleteTx(t.Context(), tx, tasks[0].Token, nil)
		if !errors.Is(err, outbox.ErrClaimLost) || !errors.Is(err, runner.ErrLeaseLost) {
			t.Errorf("got %v", err)
		}
		_, err = tx.Exec(t.Context(), `SELECT 1`)
		return err
	})
	if err != nil {
		t.Errorf("the transaction: %v", err)
	}
	if got := counted(t, db.Pool, "pending"); got != 1 {
		t.Error("the row that was made again was completed")
	}
}

// The renewal of a row that its handler has completed finds nothing, and that is no loss.
func TestRenewalOfACompletedRowIsNoLoss(t *testing.T) {
	t.Parallel()
	db := database(t)
	s := plain()
	s.lease = true
	q := s.open(t, db.Pool, outbox.Config{})
	insert(t, db.Pool, 1, 1)
	tasks, err := q.Claim(t.Context(), runner.ClaimRequest{Limit: 1, Lease: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if err := pgx.BeginFunc(t.Context(), db.Pool, func(tx pgx.Tx) error { return q.CompleteTx(t.Context(), tx, tasks[0].Token, nil) }); err != nil {
		t.Fatal(err)
	}
	renewing, ok := q.Renewing()
	if !ok {
		t.Fatal("it does not renew")
	}
	if got, err := renewing.Renew(t.Context(), []runner.Token{tasks[0].Token}, time.Minute); err != nil || got[0] != runner.Renewed {
		t.Errorf("%v, %v", got, err)
	}
}
