package pgqueue_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
	"github.com/pgqueue/pgqueue/runner"
)

// stubborn is a handler that says when it has started, what has ended its context and when, and returns only when it is let go.
type stubborn struct {
	started chan struct{}
	ended   chan error
	let     chan struct{}
}

func newStubborn(mux *pgqueue.Mux) *stubborn {
	s := &stubborn{started: make(chan struct{}, 10), ended: make(chan error, 10), let: make(chan struct{})}
	pgqueue.Handle(mux, func(ctx context.Context, _ *pgqueue.Job[task]) error {
		s.started <- struct{}{}
		work := time.NewTimer(patience)
		defer work.Stop()
		select {
		case <-ctx.Done():
			s.ended <- context.Cause(ctx)
		case <-work.C:
			return nil
		}
		<-s.let
		return ctx.Err()
	})
	return s
}

// C56: the context of a handler in another process ends at once while the listener is up, with the reconnection of one that
// was lost, and otherwise with the next renewal; the job's key is taken until the handler has really stopped.
func TestC56_CancelFromAnotherProcess(t *testing.T) {
	// Renewals are far apart where they are not what tells the worker.
	const rare, often = 60 * time.Second, 500 * time.Millisecond
	for name, test := range map[string]struct {
		renew  time.Duration
		deaf   bool // poll-only
		killed bool // the listener, and it comes back when the job has been cancelled
		gone   bool // the listener, and it does not come back
		sql    bool
	}{
		"listener up":                 {renew: rare},
		"listener up, with SQL":       {renew: rare, sql: true},
		"listener killed, and back":   {renew: rare, killed: true},
		"listener killed, for good":   {renew: often, killed: true, gone: true},
		"poll-only":                   {renew: often, deaf: true},
		"poll-only, cancelled by SQL": {renew: often, deaf: true, sql: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := pgqueuetest.New(t)
			client, elsewhere := quietClient(t, db.Pool), quietClient(t, poolLike(t, db.Pool, func(*pgxpool.Config) {}))
			mux := pgqueue.NewMux()
			handler := newStubborn(mux)
			open := make(chan struct{}) // the listener may connect
			close(open)
			config := pgqueue.WorkerConfig{
				Queues: pgqueue.Queues{"default": {Deadline: -1}}, Lease: 3 * test.renew, RenewEvery: test.renew, StorageTimeout: often,
				DisableListener: test.deaf,
			}
			direct := directly(t, db.Pool.Config().ConnConfig)
			gate := make(chan chan struct{}, 1)
			gate <- open
			config.ListenerConn = func(ctx context.Context) (*pgx.Conn, error) {
				open := <-gate
				gate <- open
				select {
				case <-open:
				case <-ctx.Done():
					return nil, ctx.Err()
				}
				return pgx.ConnectConfig(ctx, direct.Copy())
			}
			worker := startWorker(t, client, mux, config)
			id := enqueue(t, client, db.Pool, task{}, pgqueue.WithKey("k")).ID
			receive(t, handler.started, "the handler")
			shut := make(chan struct{})
			if !test.deaf {
				eventually(t, "the listener is there", func() bool { return worker.Status().Listener.Connected })
			}
			if test.killed {
				<-gate
				gate <- shut
				exec(t, db.Pool, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND query ILIKE 'listen %'`)
				eventually(t, "the listener is lost", func() bool { return !worker.Status().Listener.Connected })
			}

			if test.sql {
				if got := one[string](t, db.Pool, "SELECT pgqueue.cancel($1)", id); got != "requested" {
					t.Fatalf("cancel answered %q", got)
				}
			} else if state, err := elsewhere.Cancel(testContext(t), elsewhere.Pool(), id); err != nil || state != pgqueue.JobRunning {
				t.Fatalf("cancel: %v, %v", state, err)
			}
			if test.killed && !test.gone {
				close(shut)
			}
			asked := time.Now()
			if cause := receive(t, handler.ended, "the end of the context"); cause != pgqueue.ErrCancelled {
				t.Errorf("the cause is %v, want ErrCancelled", cause)
			}
			took := time.Since(asked)
			t.Logf("the context ended after %v", took)
			if took > 30*time.Second {
				t.Error("that is as late as the next renewal of its turn")
			}

			// The handler goes on nevertheless: the job is live, and so is its key.
			if got := awaitState(t, db.Pool, id, "running"); got.Attempt != 1 {
				t.Errorf("%+v", got)
			}
			const sameKey = `INSERT INTO pgqueue.jobs (queue, kind, key) VALUES ('default', 'task', 'k') ON CONFLICT DO NOTHING`
			if tag, err := db.Pool.Exec(testContext(t), sameKey); err != nil || tag.RowsAffected() != 0 {
				t.Errorf("the key is free before the handler has stopped: %v, %v", tag, err)
			}
			close(handler.let)
			awaitState(t, db.Pool, id, "cancelled").requireState(t, "cancelled", 1, 0)
			if tag, err := db.Pool.Exec(testContext(t), sameKey); err != nil || tag.RowsAffected() != 1 {
				t.Errorf("the key is taken after the job's end: %v, %v", tag, err)
			}
			if test.gone {
				close(shut)
			}
		})
	}
}

// A message on the channel cancels nothing by itself: anybody may send it, and what it says may be over.
func TestACancelMessageIsNotBelieved(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	mux := pgqueue.NewMux()
	handler := newStubborn(mux)
	renewals := make(chan runner.RenewEvent, 100)
	open := make(chan struct{})
	direct := directly(t, db.Pool.Config().ConnConfig)
	startWorker(t, client, mux, pgqueue.WorkerConfig{
		Queues: pgqueue.Queues{"default": {Deadline: -1}}, Lease: 3 * time.Minute, RenewEvery: time.Minute, StopTimeout: -1,
		Observer: &hooks{renew: func(e runner.RenewEvent) { renewals <- e }},
		ListenerConn: func(ctx context.Context) (*pgx.Conn, error) {
			select {
			case <-open:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			return pgx.ConnectConfig(ctx, direct.Copy())
		},
	})
	id := enqueue(t, client, db.Pool, task{}, pgqueue.WithKey("k"), pgqueue.WithRevision("1")).ID
	receive(t, handler.started, "the handler")
	close(open)
	receive(t, renewals, "the renewal of everything, because messages may have been lost before the listener was there")

	exec(t, db.Pool, "SELECT pg_notify('pgqueue!control', m) FROM unnest(ARRAY['cancel', 'cancel ', 'cancel x', 'cancel -1', 'cancel 99999999999999999999', 'nonsense 1']) m")
	exec(t, db.Pool, "SELECT pg_notify('pgqueue!control', 'cancel ' || $1::bigint)", id)
	event := receive(t, renewals, "the renewal that looks")
	if event.Renewed != 1 || event.CancelsRequested != 0 {
		t.Errorf("%+v", event)
	}

	// Cancelled and given a new input in one transaction: the message comes, and the request is gone.
	tx := begin(t, db.Pool, pgx.TxOptions{})
	if _, err := client.Cancel(testContext(t), tx, id); err != nil {
		t.Fatal(err)
	}
	requireOutcome(t, enqueue(t, client, tx, task{N: 2}, pgqueue.WithKey("k"), pgqueue.WithRevision("2")), pgqueue.Replaced)
	if err := tx.Commit(testContext(t)); err != nil {
		t.Fatal(err)
	}
	event = receive(t, renewals, "the renewal that looks")
	if event.Renewed != 1 || event.CancelsRequested != 0 {
		t.Errorf("%+v", event)
	}
	if len(handler.ended) != 0 {
		t.Errorf("the handler was stopped: %v", <-handler.ended)
	}

	// A transaction that rolls back asks nobody.
	tx = begin(t, db.Pool, pgx.TxOptions{})
	if _, err := client.Cancel(testContext(t), tx, id); err != nil {
		t.Fatal(err)
	}
	if err := tx.Rollback(testContext(t)); err != nil {
		t.Fatal(err)
	}
	// One that commits is heard, behind whatever the other might have sent.
	if _, err := client.Cancel(testContext(t), db.Pool, id); err != nil {
		t.Fatal(err)
	}
	event = receive(t, renewals, "the renewal that looks")
	if event.CancelsRequested != 1 {
		t.Errorf("%+v", event)
	}
	if cause := receive(t, handler.ended, "the end of the context"); cause != pgqueue.ErrCancelled {
		t.Errorf("the cause is %v", cause)
	}
	close(handler.let)
}

// In a batch only the context of the job that was cancelled ends; and a bulk cancel tells every worker.
func TestCancelOneJobOfABatch(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	mux := pgqueue.NewMux()
	batches := make(chan []*pgqueue.Job[task], 1)
	let := make(chan struct{})
	pgqueue.HandleBatch(mux, func(ctx context.Context, jobs []*pgqueue.Job[task]) []error {
		batches <- jobs
		<-let
		errs := make([]error, len(jobs))
		for i, job := range jobs {
			errs[i] = job.Context().Err()
		}
		return errs
	}, pgqueue.KindBatch(3), pgqueue.KindCollect(patience))
	var ids []int64
	for n := range 3 {
		ids = append(ids, enqueue(t, client, db.Pool, task{N: n}).ID)
	}
	worker := startWorker(t, client, mux, pgqueue.WorkerConfig{
		Queues: pgqueue.Queues{"default": {Deadline: -1}}, Lease: 3 * time.Minute, RenewEvery: time.Minute,
	})
	jobs := receive(t, batches, "the batch")
	eventually(t, "the listener is there", func() bool { return worker.Status().Listener.Connected })
	inspector := newInspector(t, db.Pool)
	result, err := inspector.CancelMany(testContext(t), pgqueue.Filter{IDs: ids[1:2]}, pgqueue.BulkOptions{})
	if err != nil || result.Done != 1 {
		t.Fatalf("%+v, %v", result, err)
	}
	receive(t, jobs[1].Context().Done(), "the end of one context")
	if cause := context.Cause(jobs[1].Context()); !errors.Is(cause, pgqueue.ErrCancelled) {
		t.Errorf("the cause is %v", cause)
	}
	for _, n := range []int{0, 2} {
		if err := jobs[n].Context().Err(); err != nil {
			t.Errorf("job %d: %v", n, err)
		}
	}
	close(let)
	for n, want := range []string{"succeeded", "cancelled", "succeeded"} {
		awaitState(t, db.Pool, ids[n], want)
	}
}
