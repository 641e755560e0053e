package pgqueue_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/internal/pgproxy"
	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/runner"
)

// patience is how long a test waits for what must happen; only a broken program makes it wait so long.
const patience = 60 * time.Second

// task is the job of the worker tests: N tells jobs apart, and Do is for the handler.
type task struct {
	N  int    `json:"n"`
	Do string `json:"do,omitempty"`
}

func (task) Kind() string { return "task" }

// other is a second kind.
type other struct {
	N int `json:"n"`
}

func (other) Kind() string { return "other" }

// size is small in every run and full where PGQUEUE_TEST_FULL asks for the sizes of the failure cases' text.
func size[T any](small, full T) T {
	if os.Getenv("PGQUEUE_TEST_FULL") != "" {
		return full
	}
	return small
}

// quietClient is a client whose workers log nothing: these tests make them complain a lot.
func quietClient(t testing.TB, pool *pgxpool.Pool, options ...pgqueue.ClientOption) *pgqueue.Client {
	t.Helper()
	return newClient(t, pool, append([]pgqueue.ClientOption{pgqueue.WithLogger(slog.New(slog.DiscardHandler))}, options...)...)
}

// running is a worker whose Run is under way.
type running struct {
	*pgqueue.Worker
	stop  context.CancelFunc
	ended chan struct{}
	err   error // of Run; read after ended
	taken bool  // the test looks at err itself
}

// startWorker runs a worker until the test ends, or until end is called. Its Run must end without an error, unless the
// test takes the error by calling end.
func startWorker(t testing.TB, client *pgqueue.Client, mux *pgqueue.Mux, config pgqueue.WorkerConfig) *running {
	t.Helper()
	listenDirectly(t, client, &config)
	worker, err := client.NewWorker(mux, config)
	if err != nil {
		t.Fatal(err)
	}
	return run(t, worker)
}

func run(t testing.TB, worker *pgqueue.Worker) *running {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	r := &running{Worker: worker, stop: stop, ended: make(chan struct{})}
	go func() {
		defer close(r.ended)
		r.err = worker.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		select {
		case <-r.ended:
			if r.err != nil && !r.taken {
				t.Errorf("the worker ended with: %v", r.err)
			}
		case <-time.After(patience):
			t.Error("the worker did not stop")
		}
	})
	return r
}

// end stops the worker and returns Run's error.
func (r *running) end(t testing.TB) error {
	t.Helper()
	r.taken = true
	r.stop()
	receive(t, r.ended, "the end of the worker")
	return r.err
}

// receive waits for a value, or for the channel to be closed.
func receive[T any](t testing.TB, from <-chan T, what string) T {
	t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case value := <-from:
		return value
	case <-timer.C:
		t.Fatalf("waited in vain for %s", what)
		panic("unreachable")
	}
}

// eventually polls for what leaves no other evidence than a query's answer or a status.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
		<-tick.C
	}
}

// hooks implements the runner's and the reaper's observer interfaces with functions, any of which may be nil.
type hooks struct {
	claim   func(runner.ClaimEvent)
	start   func(runner.AttemptEvent)
	end     func(runner.AttemptEvent)
	verdict func(runner.VerdictEvent)
	renew   func(runner.RenewEvent)
	lost    func(runner.LeaseEvent)
	stuck   func(runner.StuckEvent)
	wake    func(runner.WakeEvent)
	failed  func(target, operation string, err error)
}

func (h *hooks) ClaimDone(e runner.ClaimEvent) { call(h.claim, e) }
func (h *hooks) AttemptStarted(ctx context.Context, e runner.AttemptEvent) context.Context {
	call(h.start, e)
	return ctx
}
func (h *hooks) AttemptEnded(_ context.Context, e runner.AttemptEvent) { call(h.end, e) }
func (h *hooks) VerdictDone(e runner.VerdictEvent)                     { call(h.verdict, e) }
func (h *hooks) RenewDone(e runner.RenewEvent)                         { call(h.renew, e) }
func (h *hooks) LeaseLost(e runner.LeaseEvent)                         { call(h.lost, e) }
func (h *hooks) TaskStuck(e runner.StuckEvent)                         { call(h.stuck, e) }
func (h *hooks) Woken(e runner.WakeEvent)                              { call(h.wake, e) }
func (h *hooks) ReaperFailed(target, operation string, err error) {
	if h.failed != nil {
		h.failed(target, operation, err)
	}
}

func call[E any](hook func(E), event E) {
	if hook != nil {
		hook(event)
	}
}

// storedError is one element of errors.
type storedError struct {
	Code    string    `json:"code"`
	Message string    `json:"message"`
	By      string    `json:"by"`
	Attempt int       `json:"attempt"`
	At      time.Time `json:"at"`
}

// stored is a job as SQL shows it, live or finished.
type stored struct {
	State, Revision                           string
	Attempt, Failures, Generation, ErrorCount int
	DueIn                                     float64 // seconds from now; 0 where infinite
	Errors                                    []storedError
}

// job reads a job from wherever it is.
func job(t testing.TB, pool *pgxpool.Pool, id int64) stored {
	t.Helper()
	var s stored
	var errors string
	const sql = `
		SELECT state, coalesce(revision, ''), attempt, failures, generation, error_count,
		       CASE WHEN isfinite(run_at) THEN extract(epoch FROM run_at - statement_timestamp())::float8 ELSE 0 END,
		       coalesce(errors, '[]')::text
		FROM (SELECT id, state, revision, attempt, failures, generation, error_count, run_at, errors FROM pgqueue.jobs
		      UNION ALL
		      SELECT id, state, revision, attempt, failures, generation, error_count, run_at, errors FROM pgqueue.history) j
		WHERE id = $1`
	err := pool.QueryRow(testContext(t), sql, id).Scan(&s.State, &s.Revision, &s.Attempt, &s.Failures, &s.Generation, &s.ErrorCount,
		&s.DueIn, &errors)
	if err != nil {
		t.Fatalf("job %d: %v", id, err)
	}
	if err := json.Unmarshal([]byte(errors), &s.Errors); err != nil {
		t.Fatal(err)
	}
	return s
}

// requireState checks where a job stands.
func (s stored) requireState(t testing.TB, state string, attempt, failures int) {
	t.Helper()
	if s.State != state || s.Attempt != attempt || s.Failures != failures {
		t.Errorf("state %s, attempt %d, failures %d; want %s, %d, %d (errors %+v)",
			s.State, s.Attempt, s.Failures, state, attempt, failures, s.Errors)
	}
}

// awaitState polls until a job has a state.
func awaitState(t testing.TB, pool *pgxpool.Pool, id int64, state string) stored {
	t.Helper()
	var s stored
	eventually(t, "a job is "+state, func() bool {
		s = job(t, pool, id)
		return s.State == state
	})
	return s
}

// abandon makes a job look as if a worker had claimed it and died.
func abandon(t testing.TB, pool *pgxpool.Pool, id int64) {
	t.Helper()
	exec(t, pool, `UPDATE pgqueue.jobs SET state = 'running', attempt = attempt + 1, claimed_generation = generation, claimed_by = 'dead',
		claimed_at = now() - interval '1 minute', lease_expires_at = now() - interval '1 second' WHERE id = $1`, id)
}

// throughProxy is a pool on the same database whose connections can be stalled and cut.
func throughProxy(t testing.TB, pool *pgxpool.Pool) (*pgproxy.Proxy, *pgxpool.Pool) {
	t.Helper()
	server := pool.Config().ConnConfig
	proxy, err := pgproxy.Start(pgconn.NetworkAddress(server.Host, server.Port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	return proxy, poolLike(t, pool, func(config *pgxpool.Config) {
		config.ConnConfig.Host, config.ConnConfig.Port = proxy.Host(), proxy.Port()
		config.ConnConfig.TLSConfig, config.ConnConfig.Fallbacks = nil, nil
	})
}

// statements records the SQL that a pool sends.
type statements struct {
	mutex sync.Mutex
	sent  []string
}

func (s *statements) add(sql string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.sent = append(s.sent, sql)
}

// with counts the statements that contain a text.
func (s *statements) with(text string) (n int) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, sql := range s.sent {
		if strings.Contains(sql, text) {
			n++
		}
	}
	return n
}

// forget drops what was recorded, and longest is the length of the longest statement since.
func (s *statements) forget() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.sent = nil
}

func (s *statements) longest() (n int) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, sql := range s.sent {
		n = max(n, len(sql))
	}
	return n
}

func (s *statements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	s.add(data.SQL)
	return ctx
}
func (s *statements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
func (s *statements) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}
func (s *statements) TraceBatchQuery(_ context.Context, _ *pgx.Conn, data pgx.TraceBatchQueryData) {
	s.add(data.SQL)
}
func (s *statements) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// afterTheDrain keeps what failed from being due again in the same drain, however slow the machine is.
var afterTheDrain = runner.Exponential{Base: time.Hour, Max: time.Hour}

// drain works off queues and checks that nothing went wrong with it. What fails is not tried again, unless its kind or queue has a
// backoff of its own.
func drain(t testing.TB, client *pgqueue.Client, mux *pgqueue.Mux, config pgqueue.WorkerConfig) pgqueue.DrainResult {
	t.Helper()
	if config.Queues == nil {
		config.Queues = pgqueue.Queues{"default": {}}
	}
	config.Queues = maps.Clone(config.Queues)
	for name, queue := range config.Queues {
		if queue.Backoff == nil {
			queue.Backoff = afterTheDrain
			config.Queues[name] = queue
		}
	}
	result, err := client.Drain(testContext(t), mux, config)
	if err != nil {
		t.Fatal(err)
	}
	return result
}
