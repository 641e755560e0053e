package pgqueue_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/pgqueue/pgqueue/migrations"
	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
	"github.com/pgqueue/pgqueue/runner"
)

// A handler that ignores its context cannot hold up a stop; it is named, and its job comes back.
func TestC48_AHandlerIgnoresItsContext(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	began, release := make(chan int, 10), make(chan struct{})
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(_ context.Context, job *pgqueue.Job[task]) error {
		began <- job.Attempt
		if job.Attempt == 1 {
			<-release
		}
		return nil
	})
	config := pgqueue.WorkerConfig{
		Queues: pgqueue.Queues{"default": {CleanUp: 500 * time.Millisecond}},
		Lease:  3 * time.Second, ReapInterval: 200 * time.Millisecond, StopTimeout: 500 * time.Millisecond,
	}
	worker := startWorker(t, client, mux, config)
	t.Cleanup(func() { close(release) })
	id := enqueue(t, client, db.Pool, task{}).ID
	receive(t, began, "the handler")

	stopped := make(chan error, 1)
	go func() { stopped <- worker.Stop(testContext(t)) }()
	err := worker.end(t)
	var ignored *runner.StopError
	if !errors.As(err, &ignored) || !strings.Contains(err.Error(), fmt.Sprintf("job %d attempt 1", id)) {
		t.Errorf("Run ended with %v, want an error that names job %d", err, id)
	}
	if err := receive(t, stopped, "the end of Stop"); !errors.As(err, &ignored) {
		t.Errorf("Stop: %v, want the same error", err)
	}
	if err := worker.Stop(testContext(t)); err != nil {
		t.Errorf("a second Stop: %v", err)
	}
	status := worker.Status()
	if status.Running || status.Queues["default"].InFlight != 1 || status.Queues["default"].Lifecycle != runner.Stopped {
		t.Errorf("status %+v, want a stopped worker with one handler in flight", status.Queues["default"])
	}
	job(t, db.Pool, id).requireState(t, "running", 1, 0)

	startWorker(t, client, mux, config)
	if attempt := receive(t, began, "another worker"); attempt != 2 {
		t.Errorf("attempt %d, want 2", attempt)
	}
	awaitState(t, db.Pool, id, "succeeded").requireState(t, "succeeded", 2, 1)
}

// panicking is an error whose text cannot be asked for.
type panicking struct{}

func (panicking) Error() string { panic("no text") }

// typedNil is an error that is often returned as a nil pointer by mistake.
type typedNil struct{ text string }

func (e *typedNil) Error() string { return e.text }

// explosive cannot be decoded without a panic.
type explosive struct{}

func (explosive) Kind() string                { return "explosive" }
func (*explosive) UnmarshalJSON([]byte) error { panic("in UnmarshalJSON") }

// badBackoff is a retry policy that panics.
type badBackoff struct{}

func (badBackoff) Delay(int) time.Duration { panic("in the backoff") }

// Whatever panics, it is one failed attempt of one job, with the place where it happened, and the worker goes on.
func TestC49_PanicsOfEveryKind(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	const here = "failure_shutdown_test.go"
	ways := []struct {
		name, code string
		message    []string
		handle     func() error
	}{
		{"string", runner.CodePanic, []string{"panic: string at", here}, func() error { panic("x") }},
		{"nil", runner.CodePanic, []string{"panic: *runtime.PanicNilError at", here}, func() error { panic(nil) }},
		{"error", runner.CodePanic, []string{"panic: pgqueue_test.panicking at", here}, func() error { panic(panicking{}) }},
		{"index", runner.CodePanic, []string{"panic: runtime.boundsError at", here}, func() error { return []error{}[len(here)] }},
		{"Goexit", runner.CodePanic, []string{"panic: runtime.Goexit at", here}, func() error { runtime.Goexit(); return nil }},
		{"returned error that panics", runner.CodeError, []string{"pgqueue_test.panicking"}, func() error { return panicking{} }},
		{"typed nil", runner.CodeError, []string{"*pgqueue_test.typedNil"}, func() error { var none *typedNil; return none }},
		{"middleware before", runner.CodePanic, []string{"panic: string at", here}, nil},
		{"middleware after", runner.CodePanic, []string{"panic: string at", here}, func() error { return nil }},
		{"backoff", runner.CodeError, []string{"*errors.errorString"}, func() error { return errors.New("x") }},
		{"explosive", runner.CodePanic, []string{"panic: string at", here}, nil},
	}
	mux := pgqueue.NewMux()
	mux.Use(func(next pgqueue.Handler) pgqueue.Handler {
		return pgqueue.HandlerFunc(func(ctx context.Context, job *pgqueue.AnyJob) error {
			if job.Kind == "middleware before" {
				panic("before")
			}
			err := next.HandleJob(ctx, job)
			if job.Kind == "middleware after" {
				panic("after")
			}
			return err
		})
	})
	ids := map[string]int64{}
	for _, way := range ways {
		if way.name == "explosive" {
			pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[explosive]) error { return nil })
		} else {
			mux.HandleFunc(way.name, func(context.Context, *pgqueue.AnyJob) error { return way.handle() }, pgqueue.KindBackoff(badBackoff{}))
		}
		ids[way.name] = enqueue(t, client, db.Pool, pgqueue.Raw{Name: way.name}).ID
	}
	pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[task]) error { return nil })
	// An observer that always panics: nothing of it may show.
	drain(t, client, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {Workers: 2}}, ID: "the worker", Observer: &hooks{
		claim:   func(runner.ClaimEvent) { panic("claim") },
		start:   func(runner.AttemptEvent) { panic("start") },
		end:     func(runner.AttemptEvent) { panic("end") },
		verdict: func(runner.VerdictEvent) { panic("verdict") },
	}})
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			s := job(t, db.Pool, ids[way.name])
			s.requireState(t, "pending", 1, 1)
			if s.DueIn <= 0 {
				t.Errorf("due in %.3f s, want a backoff", s.DueIn)
			}
			if len(s.Errors) != 1 || s.Errors[0].Code != way.code || s.Errors[0].Attempt != 1 || s.Errors[0].By != "the worker" {
				t.Fatalf("errors %+v, want one of attempt 1 with code %s", s.Errors, way.code)
			}
			for _, part := range way.message {
				if !strings.Contains(s.Errors[0].Message, part) {
					t.Errorf("message %q lacks %q", s.Errors[0].Message, part)
				}
			}
		})
	}
	// Both slots are as good as new.
	for i := range 4 {
		enqueue(t, client, db.Pool, task{N: i})
	}
	if result := drain(t, client, mux, pgqueue.WorkerConfig{}); result.Outcomes.Succeeded != 4 {
		t.Errorf("outcomes %+v, want four successes", result.Outcomes)
	}
}

// Starts and stops in every order. Not parallel, because leaked goroutines are looked for.
func TestC54_StartAndStopInEveryOrder(t *testing.T) {
	db := pgqueuetest.New(t)
	proxy, pool := throughProxy(t, db.Pool)
	client := quietClient(t, pool)
	ran := make(chan int, 1000)
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(_ context.Context, job *pgqueue.Job[task]) error {
		ran <- job.Args.N
		return nil
	})
	worker, err := client.NewWorker(mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {}, "second": {}}})
	if err != nil {
		t.Fatal(err)
	}
	ctx := testContext(t)
	exec(t, db.Pool, "SELECT 1")
	before := goleak.IgnoreCurrent()

	// Stop without a start.
	if err := worker.Stop(ctx); err != nil {
		t.Fatalf("Stop of a worker that never ran: %v", err)
	}
	// A start whose context has ended.
	over, cancel := context.WithCancel(ctx)
	cancel()
	if err := worker.Run(over); err != nil {
		t.Fatalf("Run with an ended context: %v", err)
	}
	begin := func() <-chan error {
		t.Helper()
		ended := make(chan error, 1)
		go func() { ended <- worker.Run(context.WithoutCancel(ctx)) }()
		eventually(t, "the worker runs", func() bool {
			select {
			case err := <-ended:
				t.Fatalf("Run ended at once: %v", err)
			default:
			}
			return worker.Status().Running
		})
		return ended
	}
	end := func(ended <-chan error) {
		t.Helper()
		if err := worker.Stop(ctx); err != nil {
			t.Fatalf("Stop: %v", err)
		}
		if err := receive(t, ended, "the end of Run"); err != nil {
			t.Fatalf("Run: %v", err)
		}
	}
	// Two starts; two stops one after the other; several at once.
	ended := begin()
	if err := worker.Run(ctx); !errors.Is(err, pgqueue.ErrWorkerRunning) {
		t.Fatalf("a second Run: %v, want ErrWorkerRunning", err)
	}
	enqueue(t, client, db.Pool, task{N: 1})
	if n := receive(t, ran, "a job after a refused start"); n != 1 {
		t.Fatalf("job %d ran", n)
	}
	end(ended)
	if err := worker.Stop(ctx); err != nil {
		t.Fatalf("a second Stop: %v", err)
	}
	ended = begin()
	var stops sync.WaitGroup
	for range 8 {
		stops.Go(func() {
			if err := worker.Stop(ctx); err != nil {
				t.Errorf("one of several stops: %v", err)
			}
		})
	}
	stops.Wait()
	if err := receive(t, ended, "the end of Run"); err != nil {
		t.Fatalf("Run: %v", err)
	}
	// Start and stop over and over.
	for range size(15, 50) {
		end(begin())
	}
	// Stop while the database cannot be reached; start then, and let the database come.
	proxy.Refuse(true)
	proxy.Cut()
	end(begin())
	ended = begin()
	enqueue(t, client, db.Pool, task{N: 2})
	if len(ran) > 0 {
		t.Fatal("a job ran without a database")
	}
	proxy.Refuse(false)
	if n := receive(t, ran, "a job after the database came"); n != 2 {
		t.Fatalf("job %d ran", n)
	}
	end(ended)
	// After all that it works.
	ended = begin()
	enqueue(t, client, db.Pool, task{N: 3}, pgqueue.OnQueue("second"))
	if n := receive(t, ran, "a job after the last start"); n != 3 {
		t.Fatalf("job %d ran", n)
	}
	end(ended)
	pool.Reset()
	db.Pool.Reset()
	goleak.VerifyNone(t, before, goleak.IgnoreAnyFunction("github.com/jackc/pgx/v5/pgxpool.(*Pool).backgroundHealthCheck"),
		goleak.IgnoreAnyFunction("github.com/pgqueue/pgqueue/internal/pgproxy.(*Proxy).serve"),
		goleak.IgnoreAnyFunction("github.com/pgqueue/pgqueue/internal/pgproxy.(*Proxy).accept.func1"))
}

// Upkeep whose first calls fail is not gone for good.
func TestC54_UpkeepSurvivesAFailedStart(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	stale := enqueue(t, client, db.Pool, task{}).ID
	abandon(t, db.Pool, stale)
	exec(t, db.Pool, "ALTER TABLE pgqueue.jobs RENAME TO away; ALTER FUNCTION pgqueue.ensure_history RENAME TO away")
	exec(t, db.Pool, `DO $$ DECLARE name text; BEGIN
		FOR name IN SELECT c.oid::regclass FROM pg_class c JOIN pg_inherits i ON i.inhrelid = c.oid
			WHERE i.inhparent = 'pgqueue.history'::regclass AND c.relname <> 'history_attention' LOOP
			EXECUTE 'DROP TABLE ' || name;
		END LOOP; END $$`)
	var recovers, maintains atomic.Int64
	failed := make(chan struct{}, 100)
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[task]) error { return nil })
	startWorker(t, client, mux, pgqueue.WorkerConfig{
		Queues: pgqueue.Queues{"default": {}}, Lease: 3 * time.Second, ReapInterval: 200 * time.Millisecond,
		Observer: &hooks{failed: func(_, operation string, _ error) {
			switch operation {
			case "recover":
				recovers.Add(1)
			case "maintain":
				maintains.Add(1)
			}
			select {
			case failed <- struct{}{}:
			default:
			}
		}},
	})
	for recovers.Load() == 0 || maintains.Load() == 0 {
		receive(t, failed, "the first calls to fail")
	}
	exec(t, db.Pool, "ALTER TABLE pgqueue.away RENAME TO jobs; ALTER FUNCTION pgqueue.away RENAME TO ensure_history")
	awaitState(t, db.Pool, stale, "succeeded").requireState(t, "succeeded", 2, 1)
	eventually(t, "there are partitions for two weeks", func() bool {
		return one[int](t, db.Pool, `SELECT count(*) FROM pg_inherits WHERE inhparent = 'pgqueue.history'::regclass`) >= 15
	})
}

// A worker says at once that the schema is missing, with both versions.
func TestAWorkerWithoutSchemaEndsAtOnce(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t, pgqueuetest.WithoutMigrations())
	client := quietClient(t, db.Pool)
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[task]) error { return nil })
	config := pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {}}}
	worker, err := client.NewWorker(mux, config)
	if err != nil {
		t.Fatal(err)
	}
	_, drained := client.Drain(testContext(t), mux, config)
	for _, err := range []error{worker.Run(testContext(t)), drained} {
		if !errors.Is(err, pgqueue.ErrSchema) {
			t.Fatalf("error %v, want ErrSchema", err)
		}
		for _, part := range []string{`"pgqueue"`, "version 0", fmt.Sprintf("needs %d", migrations.Latest)} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("error %q lacks %q", err, part)
			}
		}
	}
}

// Worker and database may start in any order.
func TestAWorkerWaitsForItsDatabase(t *testing.T) {
	t.Parallel()
	server := pgqueuetest.NewServer(t)
	db := server.DB(t, pgqueuetest.WithPoolConfig(func(config *pgxpool.Config) {
		config.ConnConfig.ConnectTimeout = 5 * time.Second
	}))
	client := quietClient(t, db.Pool)
	id := enqueue(t, client, db.Pool, task{}).ID
	ctx := testContext(t)
	if err := server.Halt(ctx, true); err != nil {
		t.Fatal(err)
	}
	began := make(chan struct{}, 1)
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[task]) error {
		began <- struct{}{}
		return nil
	})
	worker := startWorker(t, client, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {}}})
	eventually(t, "the worker runs", func() bool { return worker.Status().Running })
	if err := server.Resume(ctx); err != nil {
		t.Fatal(err)
	}
	receive(t, began, "the job after the database came")
	awaitState(t, db.Pool, id, "succeeded").requireState(t, "succeeded", 1, 0)
}
