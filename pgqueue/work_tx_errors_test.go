package pgqueue_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// requireBroken drains what is broken and wants the reason named.
func (f *txFixture) requireBroken(parts ...string) error {
	f.Helper()
	_, err := f.tryDrain()
	if err == nil {
		f.Fatal("no error")
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			f.Errorf("the error does not say %q: %v", part, err)
		}
	}
	return err
}

func TestDrainTxSaysThatAHandlerEndedTheTransaction(t *testing.T) {
	t.Parallel()
	f := openTx(t)
	f.mux.HandleFunc("ends", func(ctx context.Context, _ *pgqueue.AnyJob) error { return f.tx.Rollback(ctx) })
	f.enqueue("ends")
	f.enqueue("ends")
	if err := f.requireBroken("after the handler of job 1 attempt 1", "closed"); !errors.Is(err, pgx.ErrTxClosed) {
		t.Errorf("%v", err)
	}
}

func TestDrainTxSaysThatAHandlerLeftRowsOpen(t *testing.T) {
	t.Parallel()
	f := openTx(t)
	f.mux.HandleFunc("reads", func(ctx context.Context, _ *pgqueue.AnyJob) error {
		rows, err := f.tx.Query(ctx, "SELECT generate_series(1, 10)")
		if err == nil {
			f.Cleanup(rows.Close)
		}
		return err
	})
	f.enqueue("reads")
	f.requireBroken("after the handler of job 1 attempt 1", "busy")
}

func TestDrainTxSaysThatTheTransactionWasAbortedBefore(t *testing.T) {
	t.Parallel()
	f := openTx(t)
	f.mux.HandleFunc("any", func(context.Context, *pgqueue.AnyJob) error { return nil })
	_, _ = f.tx.Exec(f.ctx, "SELECT 1/0")
	if err := f.requireBroken(`claim of queue "default"`); !isCode(err, "25P02") {
		t.Errorf("%v", err)
	}
}

func TestDrainTxSaysThatThereAreNoTables(t *testing.T) {
	t.Parallel()
	f := openTx(t)
	f.mux.HandleFunc("any", func(context.Context, *pgqueue.AnyJob) error { return nil })
	f.client = f.db.Client(t, pgqueue.WithSchema("elsewhere"))
	if err := f.requireBroken("elsewhere.jobs"); !errors.Is(err, pgqueue.ErrSchema) {
		t.Errorf("%v", err)
	}
	f.exec("SELECT 1") // and it is behind a savepoint
}

// The deadline ends the handler's statement, and with it the connection: the job is undone, and nothing hangs.
func TestDrainTxEndsWithItsConnection(t *testing.T) {
	t.Parallel()
	f := openTx(t)
	f.mux.HandleFunc("slow", func(ctx context.Context, _ *pgqueue.AnyJob) error {
		_, err := f.tx.Exec(ctx, "SELECT pg_sleep(600)")
		return err
	}, pgqueue.KindDeadline(50*time.Millisecond))
	f.enqueue("slow")
	f.requireBroken("after the handler of job 1 attempt 1")
	_ = f.tx.Rollback(f.ctx)
	if left := f.states(f.db.Pool); len(left) != 0 {
		t.Errorf("there is %q", left)
	}
}

// A context that ends stops the drain behind the job that runs, whose end is written.
func TestDrainTxStopsWithItsContext(t *testing.T) {
	t.Parallel()
	f := openTx(t)
	ctx, cancel := context.WithCancel(f.ctx)
	f.mux.HandleFunc("last", func(context.Context, *pgqueue.AnyJob) error { cancel(); return nil })
	f.enqueue("last")
	f.enqueue("last")
	result, err := f.client.DrainTx(ctx, f.tx, f.mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {}}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	// Between the cancel and its notice another job may run.
	if result.Outcomes.Succeeded == 0 || result.Outcomes.Lost != 0 {
		t.Errorf("%+v", result)
	}
	if states := f.states(f.tx); slices.Contains(states, "last running") || !slices.Contains(states, "last succeeded") {
		t.Errorf("the jobs are %q", states)
	}
}

func TestDrainTxRefusesBadInput(t *testing.T) {
	t.Parallel()
	f := openTx(t)
	mux := pgqueue.NewMux()
	mux.HandleFunc("any", func(context.Context, *pgqueue.AnyJob) error { return nil })
	queues := pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {}}}
	for field, try := range map[string]func() (pgqueue.DrainResult, error){
		"tx":     func() (pgqueue.DrainResult, error) { return f.client.DrainTx(f.ctx, nil, mux, queues) },
		"mux":    func() (pgqueue.DrainResult, error) { return f.client.DrainTx(f.ctx, f.tx, nil, queues) },
		"Queues": func() (pgqueue.DrainResult, error) { return f.client.DrainTx(f.ctx, f.tx, mux, pgqueue.WorkerConfig{}) },
	} {
		_, err := try()
		requireInvalid(t, err, field)
	}
	if _, err := f.tryDrain(); err == nil { // the fixture's mux has no handler
		t.Error("a mux without handlers was taken")
	}
}
