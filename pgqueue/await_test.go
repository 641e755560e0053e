package pgqueue_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/internal/pgproxy"
	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// awaiting is a client in another process, as far as the database can tell. It polls a long time apart, so that what comes soon was
// told.
func awaiting(t testing.TB, db *pgqueuetest.DB, options ...pgqueue.ClientOption) *pgqueue.Client {
	t.Helper()
	pool := poolLike(t, db.Pool, func(*pgxpool.Config) {})
	direct := directly(t, pool.Config().ConnConfig)
	return quietClient(t, pool, append([]pgqueue.ClientOption{
		pgqueue.WithAwaitConn(func(ctx context.Context) (*pgx.Conn, error) { return pgx.ConnectConfig(ctx, direct.Copy()) }),
	}, options...)...)
}

// byMessage has a client hardly ever poll: beside the looks at the start and with a new connection, only messages remain.
func byMessage() pgqueue.ClientOption { return pgqueue.WithAwaitPoll(time.Hour) }

// awaited runs an Await beside the test.
type awaitedEnd struct {
	job *pgqueue.JobStatus
	err error
}

func await(t testing.TB, client *pgqueue.Client, id int64) <-chan awaitedEnd {
	t.Helper()
	ctx := testContext(t)
	ended := make(chan awaitedEnd, 1)
	go func() {
		job, err := client.Await(ctx, id)
		ended <- awaitedEnd{job, err}
	}()
	return ended
}

// double is a job with a result.
type double struct {
	N int `json:"n"`
}

func (double) Kind() string { return "double" }

// gated are handlers of every way to end, each of which starts when it is let go.
func gated(mux *pgqueue.Mux) (let chan struct{}) {
	let = make(chan struct{})
	pgqueue.HandleResult(mux, func(ctx context.Context, job *pgqueue.Job[double]) (int, error) {
		<-let
		return 2 * job.Args.N, nil
	})
	pgqueue.Handle(mux, func(ctx context.Context, job *pgqueue.Job[task]) error {
		<-let
		switch job.Args.Do {
		case "fail":
			return pgqueue.Permanent(pgqueue.Coded("no_such_user", errors.New("a secret")))
		case "die":
			return errors.New("no")
		case "cancel":
			return pgqueue.Cancel(nil)
		}
		return nil
	})
	pgqueue.HandleTx(mux, func(ctx context.Context, tx pgx.Tx, job *pgqueue.Job[other]) error {
		<-let
		if err := job.SetResult("in a transaction"); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "SELECT 1")
		return err
	})
	return let
}

// Every end of a job is told to whoever awaits it, and to nobody else.
func TestAwaitIsTold(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client, caller := quietClient(t, db.Pool), awaiting(t, db, byMessage())
	mux := pgqueue.NewMux()
	let := gated(mux)
	wire := listen(t, db.Pool, "pgqueue!control")
	worker := startWorker(t, client, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {Workers: 20}}})
	eventually(t, "the listener is there", func() bool { return worker.Status().Listener.Connected })
	ids := map[string]int64{
		"result":      enqueue(t, client, db.Pool, double{N: 21}).ID,
		"succeeded":   enqueue(t, client, db.Pool, task{}).ID,
		"failed":      enqueue(t, client, db.Pool, task{Do: "fail"}).ID,
		"dead":        enqueue(t, client, db.Pool, task{Do: "die"}, pgqueue.WithMaxAttempts(1)).ID,
		"cancelled":   enqueue(t, client, db.Pool, task{Do: "cancel"}).ID,
		"transaction": enqueue(t, client, db.Pool, other{}).ID,
		"never run":   enqueue(t, client, db.Pool, task{}, pgqueue.WithDelay(time.Hour)).ID,
		"bounded":     enqueue(t, client, db.Pool, task{}, pgqueue.WithDelay(time.Hour)).ID,
	}
	nobody := enqueue(t, client, db.Pool, task{N: 7}).ID
	exec(t, db.Pool, "UPDATE pgqueue.jobs SET failures = 1 WHERE id = $1", ids["bounded"])
	ended := map[string]<-chan awaitedEnd{}
	for name, id := range ids {
		ended[name] = await(t, caller, id)
	}
	// All have been said to be awaited, and their look at the start is over when this one's is.
	said := map[string]bool{}
	for len(said) < len(ids) {
		notification, err := wire.conn.WaitForNotification(testContext(t))
		if err != nil {
			t.Fatal(err)
		}
		said[notification.Payload] = true
	}
	if said[fmt.Sprint("await ", nobody)] {
		t.Error("the job that nobody awaits is said to be awaited")
	}
	exec(t, db.Pool, "SELECT pg_notify('pgqueue!control', 'nonsense')")
	eventually(t, "the worker has heard", func() bool { return worker.Status().Listener.Control >= int64(len(ids)) })
	for name, end := range ended {
		if len(end) != 0 {
			t.Fatalf("%s: ended before it had: %+v", name, <-end)
		}
	}

	close(let)
	exec(t, db.Pool, "SELECT pgqueue.cancel($1)", ids["never run"])
	exec(t, db.Pool, "SELECT pgqueue.set_max_attempts($1, 1)", ids["bounded"])
	for name, want := range map[string]pgqueue.JobState{
		"result": pgqueue.JobSucceeded, "succeeded": pgqueue.JobSucceeded, "failed": pgqueue.JobFailed, "dead": pgqueue.JobDead,
		"cancelled": pgqueue.JobCancelled, "transaction": pgqueue.JobSucceeded, "never run": pgqueue.JobCancelled, "bounded": pgqueue.JobDead,
	} {
		end := receive(t, ended[name], name)
		if end.err != nil || end.job.State != want || end.job.ID != ids[name] {
			t.Errorf("%s: %+v, %v", name, end.job, end.err)
		}
		if result := map[string]string{"result": "42", "transaction": `"in a transaction"`}[name]; end.err == nil && string(end.job.Result) != result {
			t.Errorf("%s: result %s", name, end.job.Result)
		}
	}
	awaitState(t, db.Pool, nobody, "succeeded")
	if err := worker.end(t); err != nil {
		t.Fatal(err)
	}
	for _, message := range wire.until(t, db.Pool, "pgqueue!control") {
		if message == fmt.Sprint("done ", nobody) {
			t.Error("the end of a job was told that nobody awaits")
		}
	}
}

// Without messages the database is asked, and what has ended already comes back at once.
func TestAwaitByPolling(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	mux := pgqueue.NewMux()
	let := gated(mux)
	startWorker(t, client, mux, pgqueue.WorkerConfig{DisableListener: true, Queues: pgqueue.Queues{"default": {Workers: 10, Poll: 50 * time.Millisecond}}})
	for name, option := range map[string]pgqueue.ClientOption{"without a listener": pgqueue.WithoutAwaitListener(), "without hints": pgqueue.WithoutHints()} {
		caller := awaiting(t, db, option)
		wire := listen(t, db.Pool, "pgqueue!control")
		id := enqueue(t, client, db.Pool, double{N: 4}).ID
		ended := await(t, caller, id)
		select {
		case <-let:
		default:
			close(let)
		}
		if end := receive(t, ended, "the end"); end.err != nil || string(end.job.Result) != "8" {
			t.Errorf("%s: %+v, %v", name, end.job, end.err)
		}
		if job, err := caller.Await(testContext(t), id); err != nil || job.State != pgqueue.JobSucceeded {
			t.Errorf("%s: again: %+v, %v", name, job, err)
		}
		if messages := wire.until(t, db.Pool, "pgqueue!control"); len(messages) != 0 {
			t.Errorf("%s: it sent %q", name, messages)
		}
		if n := one[int](t, db.Pool, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query = 'listen "pgqueue!control"'`); n != 0 {
			t.Errorf("%s: %d connections listen", name, n)
		}
	}
}

// AwaitResult gives the result, or an error that says how the job ended.
func TestAwaitResult(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool, pgqueue.WithoutAwaitListener())
	mux := pgqueue.NewMux()
	close(gated(mux))
	number := enqueue(t, client, db.Pool, double{N: 9007199254740993 / 2}).ID
	none := enqueue(t, client, db.Pool, task{}).ID
	failed := enqueue(t, client, db.Pool, task{Do: "fail"}).ID
	cancelled := enqueue(t, client, db.Pool, task{Do: "cancel"}).ID
	drain(t, client, mux, pgqueue.WorkerConfig{})
	ctx := testContext(t)
	var refused *pgqueue.ValidationError
	if _, err := pgqueue.AwaitResult[int](ctx, nil, number); !errors.As(err, &refused) || refused.Field != "client" {
		t.Errorf("without a client: %v", err)
	}
	if got, err := pgqueue.AwaitResult[int](ctx, client, number); err != nil || got != 9007199254740992 {
		t.Errorf("%d, %v", got, err)
	}
	if got, err := pgqueue.AwaitResult[any](ctx, client, number); err != nil || got != json.Number("9007199254740992") {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := pgqueue.AwaitResult[[]string](ctx, client, number); err == nil {
		t.Errorf("a number is %v", got)
	}
	if _, err := pgqueue.AwaitResult[int](ctx, client, none); !errors.Is(err, pgqueue.ErrNoResult) {
		t.Errorf("without a result: %v", err)
	}
	var how *pgqueue.JobFailedError
	if _, err := pgqueue.AwaitResult[int](ctx, client, failed); !errors.As(err, &how) || how.ID != failed || how.State != pgqueue.JobFailed ||
		how.Code != "no_such_user" || strings.Contains(err.Error(), "secret") {
		t.Errorf("failed: %v", err)
	}
	if _, err := pgqueue.AwaitResult[int](ctx, client, cancelled); !errors.As(err, &how) || how.State != pgqueue.JobCancelled || how.Code != "" {
		t.Errorf("cancelled: %v", err)
	}
}

// What cannot be awaited, or no longer, ends with an error of its own.
func TestAwaitErrors(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client, caller := quietClient(t, db.Pool), awaiting(t, db)
	if _, err := caller.Await(testContext(t), 4711); !errors.Is(err, pgqueue.ErrNotFound) {
		t.Errorf("a job that never was: %v", err)
	}
	if err := client.SetHistory(testContext(t), db.Pool, "off", pgqueue.HistoryOff); err != nil {
		t.Fatal(err)
	}
	forgotten := enqueue(t, client, db.Pool, task{}, pgqueue.OnQueue("off")).ID
	if _, err := caller.Await(testContext(t), forgotten); !errors.Is(err, pgqueue.ErrNoHistory) {
		t.Errorf("a queue without history: %v", err)
	}

	deleted, pending := enqueue(t, client, db.Pool, task{}).ID, enqueue(t, client, db.Pool, task{}).ID
	ended := await(t, caller, deleted)
	ctx, cancel := context.WithCancelCause(testContext(t))
	given := make(chan error, 1)
	go func() {
		_, err := caller.Await(ctx, pending)
		given <- err
	}()
	exec(t, db.Pool, "DELETE FROM pgqueue.jobs WHERE id = $1", deleted)
	if end := receive(t, ended, "the end"); !errors.Is(end.err, pgqueue.ErrNotFound) {
		t.Errorf("a deleted job: %+v, %v", end.job, end.err)
	}
	cancel(errors.New("no more patience"))
	if err := receive(t, given, "the end"); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that ends: %v", err)
	}

	ended = await(t, caller, pending)
	eventually(t, "it is awaited", func() bool {
		return one[int](t, db.Pool, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query ILIKE 'listen %'`) > 0
	})
	if err := caller.Close(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if end := receive(t, ended, "the end"); !errors.Is(end.err, pgqueue.ErrClosed) {
		t.Errorf("a client that is closed: %+v, %v", end.job, end.err)
	}
	if _, err := caller.Await(testContext(t), pending); !errors.Is(err, pgqueue.ErrClosed) {
		t.Errorf("a closed client: %v", err)
	}
	eventually(t, "its connection is closed", func() bool {
		return one[int](t, db.Pool, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query ILIKE 'listen %'`) == 0
	})

	exec(t, db.Pool, "ALTER TABLE pgqueue.jobs RENAME TO elsewhere")
	if _, err := client.Await(testContext(t), pending); !errors.Is(err, pgqueue.ErrSchema) {
		t.Errorf("without the tables: %v", err)
	}
}

// Thousands of Awaits of a client share one connection and few statements.
func TestManyAwaitsShareEverything(t *testing.T) {
	t.Parallel()
	n := size(2000, 20000)
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	sent := &statements{}
	pool := poolLike(t, db.Pool, func(config *pgxpool.Config) { config.ConnConfig.Tracer = sent })
	direct := directly(t, db.Pool.Config().ConnConfig)
	caller := quietClient(t, pool, pgqueue.WithAwaitConn(func(ctx context.Context) (*pgx.Conn, error) { return pgx.ConnectConfig(ctx, direct.Copy()) }))
	exec(t, db.Pool, "INSERT INTO pgqueue.jobs (queue, kind) SELECT 'default', 'task' FROM generate_series(1, $1)", n)
	ids, err := pgx.CollectRows(query(t, db.Pool, "SELECT id FROM pgqueue.jobs ORDER BY id"), pgx.RowTo[int64])
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	var group sync.WaitGroup
	failures := make(chan error, n)
	began := time.Now()
	for _, id := range ids {
		group.Go(func() {
			if job, err := caller.Await(ctx, id); err != nil || job.State != pgqueue.JobSucceeded || job.ID != id {
				failures <- fmt.Errorf("job %d: %+v, %w", id, job, err)
			}
		})
	}
	eventually(t, "they await", func() bool { return sent.with("AS forgotten") > 3 })
	if listeners := one[int](t, db.Pool, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query ILIKE 'listen %'`); listeners != 1 {
		t.Errorf("%d connections listen, want 1", listeners)
	}
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[task]) error { return nil })
	startWorker(t, client, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {Workers: 50, Batch: 1000}}})
	group.Wait()
	close(failures)
	if err := <-failures; err != nil {
		t.Errorf("%d failed, the first one: %v", len(failures)+1, err)
	}
	// A statement a round and 5,000 jobs, a round each 5 ms at most; and one for each hundred that have ended.
	took := time.Since(began)
	if polls, reads := sent.with("AS forgotten"), sent.with("finished_at DESC"); polls > int(took/(5*time.Millisecond))*(1+n/5000) || reads > polls+n/100 {
		t.Errorf("%d polls and %d reads in %v", polls, reads, took)
	} else {
		t.Logf("%d awaits: %d polls, %d reads, %d messages in %v", n, polls, reads, sent.with("pg_notify"), took)
	}
}

func query(t testing.TB, pool *pgxpool.Pool, sql string, args ...any) pgx.Rows {
	t.Helper()
	rows, err := pool.Query(testContext(t), sql, args...)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// A job that moves from the live ones to history, and back by a retry, is never missing on the way.
func TestAwaitNeverMissesAMove(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	caller := awaiting(t, db, pgqueue.WithoutAwaitListener(), pgqueue.WithAwaitPoll(time.Millisecond))
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[task]) error { return errors.New("no") })
	startWorker(t, client, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {Workers: 10}}})
	const jobs = 10
	var group sync.WaitGroup
	for range jobs {
		id := enqueue(t, client, db.Pool, task{}, pgqueue.WithMaxAttempts(1)).ID
		group.Go(func() {
			for range size(20, 200) {
				job, err := caller.Await(testContext(t), id)
				if err != nil || job.State != pgqueue.JobDead {
					t.Errorf("job %d: %+v, %v", id, job, err)
					return
				}
				if err := client.Retry(testContext(t), db.Pool, id); err != nil && !errors.Is(err, pgqueue.ErrJobLive) {
					t.Errorf("retry: %v", err)
					return
				}
			}
		})
	}
	group.Wait()
}

// A lost connection is made anew, and what ended in between is found with it; an outage of the database is waited for.
func TestAwaitSurvivesTheLossOfItsConnection(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	proxy, pool := throughProxy(t, db.Pool)
	// The connection that listens has a proxy of its own: behind a pooler it leads past it.
	wire, straight := throughProxy(t, poolLike(t, db.Pool, func(config *pgxpool.Config) { config.ConnConfig = directly(t, config.ConnConfig) }))
	caller := quietClient(t, pool, byMessage(), pgqueue.WithAwaitConn(func(ctx context.Context) (*pgx.Conn, error) {
		return pgx.ConnectConfig(ctx, straight.Config().ConnConfig)
	}))
	id := enqueue(t, client, db.Pool, task{}, pgqueue.WithDelay(time.Hour)).ID
	ended := await(t, caller, id)
	eventually(t, "it listens", func() bool {
		return one[int](t, db.Pool, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query ILIKE 'listen %'`) > 0
	})
	for _, way := range []*pgproxy.Proxy{proxy, wire} {
		way.Refuse(true)
		way.Cut()
	}
	if _, err := client.Cancel(testContext(t), db.Pool, id); err != nil {
		t.Fatal(err)
	}
	if len(ended) != 0 {
		t.Fatalf("ended without a database: %+v", <-ended)
	}
	pool.Reset() // the connections that were cut: the one look that a message brings must not fail on them
	proxy.Refuse(false)
	wire.Refuse(false)
	if end := receive(t, ended, "the end"); end.err != nil || end.job.State != pgqueue.JobCancelled {
		t.Errorf("%+v, %v", end.job, end.err)
	}
}

// What the reaper ends is told as well.
func TestAwaitOfAJobThatTheReaperEnds(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client, caller := quietClient(t, db.Pool), awaiting(t, db, byMessage())
	mux := pgqueue.NewMux()
	close(gated(mux))
	id := enqueue(t, client, db.Pool, task{}, pgqueue.WithMaxAttempts(1)).ID
	exec(t, db.Pool, `UPDATE pgqueue.jobs SET state = 'running', attempt = 1, claimed_generation = generation, claimed_by = 'dead',
		claimed_at = now(), lease_expires_at = now() + interval '1 hour' WHERE id = $1`, id)
	wire := listen(t, db.Pool, "pgqueue!control")
	worker := startWorker(t, client, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {}}, ReapInterval: 50 * time.Millisecond})
	eventually(t, "the worker listens", func() bool { return worker.Status().Listener.Connected })
	ended := await(t, caller, id)
	if _, err := wire.conn.WaitForNotification(testContext(t)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the worker has heard", func() bool { return worker.Status().Listener.Control > 0 })
	exec(t, db.Pool, "UPDATE pgqueue.jobs SET lease_expires_at = now() - interval '1 second' WHERE id = $1", id)
	if end := receive(t, ended, "the end"); end.err != nil || end.job.State != pgqueue.JobDead {
		t.Errorf("%+v, %v", end.job, end.err)
	}
	if messages := wire.until(t, db.Pool, "pgqueue!control"); !slices.Contains(messages, fmt.Sprint("done ", id)) {
		t.Errorf("messages %q", messages)
	}
}
