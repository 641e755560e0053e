//go:build poolers

package integration

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/migrations"
	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// These tests meet a real PgBouncer in transaction mode, which scripts/test-poolers.sh starts. The databases are made directly.

// keepsPrepared says that the pooler keeps prepared statements: PgBouncer 1.24 is started with max_prepared_statements.
func keepsPrepared() bool { return os.Getenv("PGQUEUE_TEST_POOLER_VERSION") == "1.24" }

// behind is the URL of a database through the pooler, with parameters such as "default_query_exec_mode=exec".
func behind(t *testing.T, db *pgqueuetest.DB, parameters ...string) string {
	t.Helper()
	port := os.Getenv("PGQUEUE_TEST_POOLER_PORT")
	if port == "" {
		t.Fatal("no pooler: run scripts/test-poolers.sh, which starts one")
	}
	location, err := url.Parse(db.URL)
	if err != nil {
		t.Fatal(err)
	}
	location.Host = "127.0.0.1:" + port
	location.RawQuery = strings.Join(append(parameters, "sslmode=disable"), "&")
	return location.String()
}

// pooled is a service whose application goes through the pooler.
func pooled(t *testing.T, parameters ...string) *service {
	t.Helper()
	db := pgqueuetest.New(t)
	s := &service{t: t, db: db, pool: poolAt(t, behind(t, db, parameters...), func(c *pgxpool.Config) { c.MaxConns = 8 })}
	s.client = newClient(t, s.pool, db.Schema)
	return s
}

const modeExec = "default_query_exec_mode=exec"

func requirePooler(t *testing.T, what string, err error, words ...string) {
	t.Helper()
	if !errors.Is(err, pgqueue.ErrPooler) {
		t.Fatalf("%s: %v, want ErrPooler", what, err)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %q does not say %q", what, err, word)
		}
	}
}

// startOnce runs a worker and a drain that are refused, and returns their errors.
func startOnce(t *testing.T, s *service) (run, drain error) {
	t.Helper()
	mux, _ := newNotes()
	config := pgqueue.WorkerConfig{Queues: pgqueue.Queues{queueName: {}}, DisableListener: true}
	worker, err := s.client.NewWorker(mux, config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	run = worker.Run(ctx)
	if ctx.Err() != nil {
		t.Fatal("the worker started, and no pooler stood in its way")
	}
	_, drain = s.client.Drain(ctx, mux, config)
	return run, drain
}

// A mode of pgx that this pooler cannot do is named at the start, and one that it can do works.
func TestPoolerWrongModeIsNamedAtTheStart(t *testing.T) {
	for _, mode := range []string{"cache_statement", "describe_exec", "cache_describe", "exec", "simple_protocol"} {
		t.Run(mode, func(t *testing.T) {
			s := pooled(t, "default_query_exec_mode="+mode)
			if mode == "describe_exec" || mode == "cache_statement" && !keepsPrepared() {
				run, drain := startOnce(t, s)
				requirePooler(t, "Run", run, "pooler in transaction mode", modeExec)
				requirePooler(t, "Drain", drain, "pooler in transaction mode", modeExec)
				return
			}
			mux, ran := newNotes()
			serve(t, s.client, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{queueName: {}}, DisableListener: true})
			note(t, s.client, s.pool, 1, pgqueue.OnQueue(queueName))
			receive(t, ran, "the job")
		})
	}
}

// The proof needs no luck: a pool of one connection, on a pooler that nobody else uses, is refused as well.
func TestPoolerWrongModeIsNamedToASmallPool(t *testing.T) {
	db := pgqueuetest.New(t)
	pool := poolAt(t, behind(t, db), func(c *pgxpool.Config) { c.MaxConns = 1 })
	s := &service{t: t, db: db, pool: pool, client: newClient(t, pool, db.Schema)}
	if keepsPrepared() {
		mux, ran := newNotes()
		serve(t, s.client, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{queueName: {Workers: 1}}, DisableListener: true})
		note(t, s.client, s.pool, 1, pgqueue.OnQueue(queueName))
		receive(t, ran, "the job")
		return
	}
	run, drain := startOnce(t, s)
	requirePooler(t, "Run", run, modeExec)
	requirePooler(t, "Drain", drain, modeExec)
}

// A client that only enqueues meets the pooler in the middle of its work. Its error keeps what Postgres said.
func TestPoolerEnqueueSaysWhy(t *testing.T) {
	s := pooled(t)
	var group sync.WaitGroup
	problems := make(chan error, 1000)
	for n := range 8 {
		group.Go(func() {
			for range 20 {
				// At once, whether or not something has failed: the sessions have to change hands.
				_, err := s.client.Enqueue(t.Context(), s.pool, noteJob{n}, pgqueue.OnQueue(queueName))
				if err != nil {
					problems <- err
				}
			}
		})
	}
	group.Wait()
	close(problems)
	codes := map[string]int{}
	for err := range problems {
		requirePooler(t, "Enqueue", err, modeExec)
		var fromServer *pgconn.PgError
		if !errors.As(err, &fromServer) {
			t.Fatalf("the error of Postgres is gone from %v", err)
		}
		codes[fromServer.Code]++
	}
	t.Logf("refused: %v", codes)
	if keepsPrepared() != (len(codes) == 0) {
		t.Errorf("refused: %v", codes)
	}
}

// A setting in the connection string is refused by PgBouncer, unless it was told to ignore it.
func TestPoolerStartupParameterIsNamed(t *testing.T) {
	s := pooled(t, modeExec, "statement_timeout=5000")
	run, drain := startOnce(t, s)
	requirePooler(t, "Run", run, "statement_timeout", "ALTER ROLE")
	requirePooler(t, "Drain", drain, "statement_timeout", "ALTER ROLE")
	_, err := s.client.Enqueue(t.Context(), s.pool, noteJob{1})
	requirePooler(t, "Enqueue", err, "statement_timeout", "ALTER ROLE")
}

// C74: LISTEN succeeds and nothing ever comes. It is noticed, said once, and the jobs are found by polling.
func TestPoolerListenerHearsNothing(t *testing.T) {
	s := pooled(t, modeExec)
	logged := newLogBook()
	client := newClient(t, s.pool, s.db.Schema, pgqueue.WithLogger(slog.New(logged)))
	mux, ran := newNotes()
	worker := serve(t, client, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{queueName: {Poll: time.Second}}})
	until(t, "the listener knows that it is deaf", func() bool { return worker.Status().Listener.Deaf }, func(deaf bool) bool { return deaf })
	for n := range 3 {
		note(t, s.client, s.pool, n, pgqueue.OnQueue(queueName))
		if got := receive(t, ran, "a job, by polling"); got.N != n {
			t.Errorf("job %d ran, want %d", got.N, n)
		}
	}
	// Deaf a second time, it says nothing more.
	tries := worker.Status().Listener.Attempts
	until(t, "two more tries", func() int { return worker.Status().Listener.Attempts }, func(now int) bool { return now >= tries+2 })
	if status := worker.Status().Listener; !status.Deaf || !strings.Contains(status.LastError, "pooler in transaction mode") {
		t.Errorf("the listener: %+v", status)
	}
	warnings := 0
	for _, message := range logged.all() {
		if strings.HasPrefix(message, "listener: ") {
			warnings++
		}
	}
	if warnings != 1 {
		t.Errorf("%d warnings of the listener, want one: %q", warnings, logged.all())
	}
}

// With a connection of its own past the pooler the listener brings jobs at once.
func TestPoolerListenerOnADirectConnection(t *testing.T) {
	s := pooled(t, modeExec)
	mux, ran := newNotes()
	worker := serve(t, s.client, mux, pgqueue.WorkerConfig{
		Queues:       pgqueue.Queues{queueName: {Poll: never}},
		ListenerConn: func(ctx context.Context) (*pgx.Conn, error) { return pgx.Connect(ctx, s.db.DirectURL) },
	})
	until(t, "an echo came back", func() bool { return !worker.Status().Listener.LastEcho.IsZero() }, func(heard bool) bool { return heard })
	for n := range 20 {
		note(t, s.client, s.pool, n, pgqueue.OnQueue(queueName))
		receive(t, ran, "a job, by its hint")
	}
	if status := worker.Status().Listener; !status.Connected || status.Deaf || status.Hints == 0 {
		t.Errorf("the listener: %+v", status)
	}
}

// An Await whose listener hears nothing because of the pooler finds the end of its job by polling, says so once, and stops listening
// when the client is closed.
func TestPoolerAwaitHearsNothing(t *testing.T) {
	s := pooled(t, modeExec)
	logged := newLogBook()
	client := newClient(t, s.pool, s.db.Schema, pgqueue.WithLogger(slog.New(logged)))
	mux, ran := newNotes()
	serve(t, s.client, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{queueName: {Poll: 100 * time.Millisecond}}, DisableListener: true})
	awaitOne := func(n int, delay time.Duration, meanwhile func()) {
		t.Helper()
		enqueued, err := client.Enqueue(t.Context(), s.pool, noteJob{n}, pgqueue.OnQueue(queueName), pgqueue.WithDelay(delay))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		ended := make(chan error, 1)
		go func() {
			job, err := client.Await(ctx, enqueued.ID)
			if err == nil && job.State != pgqueue.JobSucceeded {
				err = fmt.Errorf("the job is %s", job.State)
			}
			ended <- err
		}()
		meanwhile()
		if err := receive(t, ended, "the end of the Await"); err != nil {
			t.Error(err)
		}
		receive(t, ran, "the job")
	}
	awaitOne(1, 0, func() {}) // nobody knows yet that nothing is heard
	awaitOne(2, 7*time.Second, func() { logged.await(t, "listener: connection lost; queues live by their poll until it is back") })
	awaitOne(3, time.Second, func() {})
	warnings := 0
	for _, message := range logged.all() {
		if strings.HasPrefix(message, "listener: ") {
			warnings++
		}
	}
	if warnings != 1 {
		t.Errorf("%d warnings of the listener, want one: %q", warnings, logged.all())
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := client.Close(ctx); err != nil {
		t.Error(err)
	}
}

// An Await that listens past the pooler is told by messages that workers send through it.
func TestPoolerAwaitOnADirectConnection(t *testing.T) {
	s := pooled(t, modeExec)
	sent := &heardSQL{}
	client := newClient(t, s.pool, s.db.Schema, pgqueue.WithAwaitConn(func(ctx context.Context) (*pgx.Conn, error) {
		config, err := pgx.ParseConfig(s.db.DirectURL)
		if err != nil {
			return nil, err
		}
		config.Tracer = sent
		return pgx.ConnectConfig(ctx, config)
	}))
	mux, ran := newNotes()
	worker := serve(t, s.client, mux, pgqueue.WorkerConfig{
		Queues:       pgqueue.Queues{queueName: {Poll: 100 * time.Millisecond}},
		ListenerConn: func(ctx context.Context) (*pgx.Conn, error) { return pgx.Connect(ctx, s.db.DirectURL) },
	})
	until(t, "the worker listens", func() bool { return worker.Status().Listener.Connected }, func(listens bool) bool { return listens })
	wire, err := pgx.Connect(t.Context(), s.db.DirectURL)
	if err != nil {
		t.Fatal(err)
	}
	defer wire.Close(context.Background())
	if _, err := wire.Exec(t.Context(), "LISTEN "+pgx.Identifier{migrations.ControlChannel(s.db.Schema)}.Sanitize()); err != nil {
		t.Fatal(err)
	}
	enqueued, err := client.Enqueue(t.Context(), s.pool, noteJob{1}, pgqueue.OnQueue(queueName), pgqueue.WithDelay(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := client.Await(ctx, enqueued.ID)
		ended <- err
	}()
	told := func(message string) {
		t.Helper()
		for {
			got, err := wire.WaitForNotification(ctx)
			if err != nil {
				t.Fatalf("waited in vain for %q: %v", message, err)
			}
			if got.Payload == message {
				return
			}
		}
	}
	told(fmt.Sprint("await ", enqueued.ID))
	until(t, "the worker has heard", func() int64 { return worker.Status().Listener.Control }, func(n int64) bool { return n > 0 })
	if _, err := s.pool.Exec(ctx, "UPDATE "+pgx.Identifier{s.db.Schema, "jobs"}.Sanitize()+" SET run_at = now() WHERE id = $1", enqueued.ID); err != nil {
		t.Fatal(err)
	}
	receive(t, ran, "the job")
	told(fmt.Sprint("done ", enqueued.ID))
	if err := receive(t, ended, "the end of the Await"); err != nil {
		t.Error(err)
	}
	if len(sent.with("LISTEN ")) != 2 { // to the control channel and, for its echo, to one of its own
		t.Errorf("the direct connection sent %q, want two LISTEN", sent.with(""))
	}
}

// heardSQL notes the statements of a pool and of the connections that are like its own.
type heardSQL struct {
	mu   sync.Mutex
	sent []string
}

func (h *heardSQL) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sent = append(h.sent, data.SQL)
	return ctx
}
func (h *heardSQL) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (h *heardSQL) with(text string) (found []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, sql := range h.sent {
		if strings.Contains(strings.ToUpper(sql), text) {
			found = append(found, sql)
		}
	}
	return found
}

// With the listener off nothing listens, and nothing is left in the pooler's sessions.
func TestPoolerListenerOff(t *testing.T) {
	db := pgqueuetest.New(t)
	for _, off := range []bool{false, true} {
		sent := &heardSQL{}
		pool := poolAt(t, behind(t, db, modeExec), func(c *pgxpool.Config) { c.ConnConfig.Tracer = sent })
		client := newClient(t, pool, db.Schema, pgqueue.WithoutHints())
		mux, ran := newNotes()
		worker := serve(t, client, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{queueName: {Poll: 100 * time.Millisecond}}, DisableListener: off})
		note(t, client, pool, 1, pgqueue.OnQueue(queueName))
		receive(t, ran, "the job")
		if !off {
			until(t, "the listener has listened", func() int { return worker.Status().Listener.Attempts }, func(n int) bool { return n > 0 })
			until(t, "LISTEN was sent", func() int { return len(sent.with("LISTEN ")) }, func(n int) bool { return n > 0 })
		}
		worker.stop()
		if listens := sent.with("LISTEN "); off && len(listens) > 0 {
			t.Errorf("with the listener off: %q", listens)
		}
		if notifies := sent.with("PG_NOTIFY("); off && len(notifies) > 0 {
			t.Errorf("without hints: %q", notifies)
		}
	}
}

// The whole schema can be installed, looked at and taken away through the pooler.
func TestPoolerMigrations(t *testing.T) {
	modes := []string{"exec", "simple_protocol", "cache_describe"}
	if keepsPrepared() {
		modes = append(modes, "cache_statement")
	}
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) {
			db := pgqueuetest.New(t, pgqueuetest.WithoutMigrations())
			pool := poolAt(t, behind(t, db, "default_query_exec_mode="+mode), func(*pgxpool.Config) {})
			quiet := migrations.WithLogger(slog.New(slog.DiscardHandler))
			var group sync.WaitGroup
			errs := make([]error, 3)
			for i := range errs { // as several processes at once do
				group.Go(func() { errs[i] = migrations.Up(t.Context(), pool, db.Schema, quiet) })
			}
			group.Wait()
			if err := errors.Join(errs...); err != nil {
				t.Fatal(err)
			}
			status, err := migrations.Status(t.Context(), pool, db.Schema)
			if err != nil || !status.Current() {
				t.Fatalf("%+v, %v", status, err)
			}
			if locks := one[int](t, db.Pool, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'
				AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`); locks != 0 {
				t.Errorf("%d advisory locks were left in the pooler's sessions", locks)
			}
			if err := migrations.Down(t.Context(), pool, db.Schema, quiet); err != nil {
				t.Fatal(fmt.Errorf("down: %w", err))
			}
		})
	}
}
