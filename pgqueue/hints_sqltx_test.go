package pgqueue

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
)

// onTransaction is what an adapter looks like.
type onTransaction struct{ tx any }

func (onTransaction) Query(context.Context, string, ...any) (pgx.Rows, error) { return nil, nil }
func (onTransaction) SendBatch(context.Context, *pgx.Batch) pgx.BatchResults  { return nil }
func (o onTransaction) Transaction() any                                      { return o.tx }

func TestATransactionIsKnownByWhatTheAdapterSays(t *testing.T) {
	t.Parallel()
	one, other := new(int), new(int)
	if transactionOf(onTransaction{one}) != transactionOf(onTransaction{one}) || transactionOf(onTransaction{one}) == nil {
		t.Error("two adapters on one transaction are two")
	}
	if transactionOf(onTransaction{one}) == transactionOf(onTransaction{other}) {
		t.Error("two transactions are one")
	}
	for _, tx := range []any{nil, []int{1}, struct{ any }{[]int{1}}} { // what cannot be compared would panic
		if transactionOf(onTransaction{tx}) != nil {
			t.Errorf("%T is a transaction", tx)
		}
	}
}
