package jobstore_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/runner"
)

// afterLook runs a function once, when the statement that looks at claims has been answered.
type afterLook struct {
	sql  func() string
	once sync.Once
	then func()
}

type tracedSQL struct{}

func (*afterLook) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	return context.WithValue(ctx, tracedSQL{}, data.SQL)
}

func (a *afterLook) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) {
	if a.then != nil && ctx.Value(tracedSQL{}) == a.sql() {
		a.once.Do(a.then)
	}
}

// A transaction that is asked about ends between the question and the failed attempt that would follow from it: it has committed, so
// the job has succeeded.
func TestConfirmOfATransactionThatCommitsMeanwhile(t *testing.T) {
	t.Parallel()
	tracer := &afterLook{}
	f := open(t, traced(tracer))
	f.insert(1)
	row := f.claim1()
	tx := must(f.pool.Begin(f.ctx))(t)
	if got := must(f.store.CompleteTx(f.ctx, tx, row, json.RawMessage(nil)))(t); got != runner.Succeeded {
		t.Fatalf("CompleteTx said %v", got)
	}
	committed := false
	tracer.sql = func() string { return f.store.SQL("look") }
	tracer.then = func() {
		if err := tx.Commit(f.ctx); err != nil {
			t.Error(err)
		}
		committed = true
	}
	f.report([]verdict{{Token: row, Decision: runner.Confirm, Delay: time.Hour}}, runner.Succeeded)
	if !committed || f.state(row.ID) != "succeeded" {
		t.Errorf("committed %t, the job is %s", committed, f.state(row.ID))
	}
}
