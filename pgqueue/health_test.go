package pgqueue_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/health"
	"github.com/pgqueue/pgqueue/internal/pgproxy"
	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
	"github.com/pgqueue/pgqueue/runner"
)

// probed is the answer of a probe over HTTP.
type probed struct {
	status int
	body   string
	loops  map[string]health.Loop
	bad    []string // names of those that are not OK
}

func probe(t testing.TB, live bool, worker *pgqueue.Worker) (p probed) {
	t.Helper()
	handler := health.Ready(worker)
	if live {
		handler = health.Live(worker)
	}
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/", nil))
	var body struct{ Loops []health.Loop }
	if err := json.Unmarshal(answer.Body.Bytes(), &body); err != nil {
		t.Fatal(err)
	}
	p.status, p.body, p.loops = answer.Code, answer.Body.String(), map[string]health.Loop{}
	for _, loop := range body.Loops {
		p.loops[loop.Name] = loop
		if !loop.OK {
			p.bad = append(p.bad, loop.Name)
		}
	}
	return p
}

// requireLive checks the liveness probe.
func requireLive(t testing.TB, worker *pgqueue.Worker, when string) {
	t.Helper()
	if p := probe(t, true, worker); p.status != 200 {
		t.Errorf("not live %s: %s", when, p.body)
	}
}

// ailing is a worker whose loops can be frozen, with a job that runs and whose lease is renewed.
type ailing struct {
	*running
	db             *pgqueuetest.DB
	pool, listener *pgproxy.Proxy
	finish         func() // the job that runs
	intervals      map[string]time.Duration
	exitOn         atomic.Bool // FlushDone ends the goroutine that calls it
}

func (a *ailing) FlushDone(runner.FlushEvent) {
	if a.exitOn.Load() {
		runtime.Goexit()
	}
}

func newAiling(t *testing.T) *ailing {
	t.Helper()
	a := &ailing{db: pgqueuetest.New(t)}
	client := quietClient(t, a.db.Pool)
	proxy, pool := throughProxy(t, a.db.Pool)
	listening, listenerPool := throughProxy(t, poolLike(t, a.db.Pool, func(config *pgxpool.Config) {
		config.ConnConfig = directly(t, config.ConnConfig)
	}))
	a.pool, a.listener = proxy, listening
	gate, started := make(chan struct{}), make(chan struct{}, 1)
	a.finish = sync.OnceFunc(func() { close(gate) })
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(_ context.Context, job *pgqueue.Job[task]) error {
		if job.Args.Do == "wait" {
			started <- struct{}{}
			<-gate
		}
		return nil
	})
	config := pgqueue.WorkerConfig{
		Queues: pgqueue.Queues{"q": {Workers: 3, Poll: 100 * time.Millisecond, Deadline: -1}},
		Lease:  30 * time.Second, RenewEvery: time.Second, StorageTimeout: time.Second, ReapInterval: time.Second, Pool: pool,
		ListenerConn: func(ctx context.Context) (*pgx.Conn, error) {
			return pgx.ConnectConfig(ctx, listenerPool.Config().ConnConfig.Copy())
		},
		Observer: a,
	}
	config.EchoEvery(2 * time.Second)
	a.intervals = map[string]time.Duration{
		"claim:q": time.Second, "renew:q": time.Second, "flush:q": time.Second, "probe": time.Second, "reap:q": time.Second,
		"listener": 2 * time.Second, "heartbeat": time.Second,
	}
	worker, err := client.NewWorker(mux, config)
	if err != nil {
		t.Fatal(err)
	}
	worker.ReportEvery(time.Second)
	if p := probe(t, false, worker); p.status != 503 || !strings.Contains(p.body, "does not run") {
		t.Errorf("before Run: %d %s", p.status, p.body)
	}
	requireLive(t, worker, "before Run")
	a.running = run(t, worker)
	t.Cleanup(a.finish)
	enqueue(t, client, a.db.Pool, task{Do: "wait"}, pgqueue.OnQueue("q"))
	receive(t, started, "the job that runs")
	a.awaitReady(t)
	return a
}

func (a *ailing) awaitReady(t *testing.T) {
	t.Helper()
	eventually(t, "it is ready", func() bool { return probe(t, false, a.Worker).status == 200 })
	requireLive(t, a.Worker, "when it is ready")
}

// requireBad waits until all of these loops are named, each within three of its intervals, and then checks that nothing else is.
func (a *ailing) requireBad(t *testing.T, want ...string) {
	t.Helper()
	slices.Sort(want)
	froze := time.Now()
	since := map[string]time.Duration{}
	var p probed
	eventually(t, "not ready because of "+strings.Join(want, ", "), func() bool {
		p = probe(t, false, a.Worker)
		requireLive(t, a.Worker, "while the database does not answer")
		for _, name := range p.bad {
			if _, ok := since[name]; !ok {
				since[name] = time.Since(froze)
			}
		}
		slices.Sort(p.bad)
		return len(p.bad) >= len(want)
	})
	if p.status != 503 || !slices.Equal(p.bad, want) {
		t.Errorf("not ready because of %v, want %v: %s", p.bad, want, p.body)
	}
	for _, name := range p.bad {
		// The rest is for a busy machine.
		if most := 3*a.intervals[name] + 5*time.Second; since[name] > most {
			t.Errorf("%s was named after %v, want at most %v", name, since[name], most)
		}
		if loop := p.loops[name]; loop.Detail == "" || loop.Dead {
			t.Errorf("loop %+v", loop)
		}
	}
	requireNoSecrets(t, p)
}

// requireNoSecrets checks that an answer shows neither addresses and names nor the words of an error.
func requireNoSecrets(t testing.TB, p probed) {
	t.Helper()
	for _, secret := range []string{"127.0.0.1", "localhost", "postgres", "relation", "user=", "connect:"} {
		if strings.Contains(p.body, secret) {
			t.Errorf("the answer shows %q: %s", secret, p.body)
		}
	}
}

func TestC133_TheHealthEndpointDoesNotLie(t *testing.T) {
	t.Parallel()
	lock := func(t *testing.T, a *ailing, what string) (release func()) {
		tx := begin(t, a.db.Pool, pgx.TxOptions{})
		exec(t, tx, "LOCK TABLE "+what)
		return func() { exec(t, tx, "ROLLBACK") }
	}
	for name, test := range map[string]struct {
		freeze func(t *testing.T, a *ailing) (release func())
		bad    []string
	}{
		"the jobs are locked": {func(t *testing.T, a *ailing) func() {
			release := lock(t, a, "pgqueue.jobs IN ACCESS EXCLUSIVE MODE")
			a.finish()
			return release
		}, []string{"claim:q", "flush:q", "probe", "reap:q"}}, // the runner looks by itself when no probe answers
		"the jobs cannot be written": {func(t *testing.T, a *ailing) func() {
			client := quietClient(t, a.db.Pool)
			enqueue(t, client, a.db.Pool, task{}, pgqueue.OnQueue("q"), pgqueue.WithDelay(500*time.Millisecond))
			return lock(t, a, "pgqueue.jobs IN SHARE MODE")
		}, []string{"claim:q", "renew:q", "reap:q"}},
		"the workers are locked": {func(t *testing.T, a *ailing) func() {
			return lock(t, a, "pgqueue.workers IN ACCESS EXCLUSIVE MODE")
		}, []string{"heartbeat"}},
		"the listener hears nothing": {func(_ *testing.T, a *ailing) func() {
			a.listener.Stall()
			return a.listener.Resume
		}, []string{"listener"}},
		"the listener is deaf": {func(_ *testing.T, a *ailing) func() {
			a.listener.SwallowNotifications(true)
			return func() { a.listener.SwallowNotifications(false) }
		}, []string{"listener"}},
		"the database stalls": {func(_ *testing.T, a *ailing) func() {
			a.pool.Stall()
			return a.pool.Resume
		}, []string{"claim:q", "heartbeat", "listener", "probe", "reap:q", "renew:q"}},
		"the database cannot be reached": {func(_ *testing.T, a *ailing) func() {
			for _, proxy := range []*pgproxy.Proxy{a.pool, a.listener} {
				proxy.Refuse(true)
				proxy.Cut()
			}
			return func() {
				a.pool.Refuse(false)
				a.listener.Refuse(false)
			}
		}, []string{"claim:q", "heartbeat", "listener", "probe", "reap:q", "renew:q"}},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAiling(t)
			release := test.freeze(t, a)
			a.requireBad(t, test.bad...)
			release()
			a.awaitReady(t)

			// During the stop, which waits for the job, it is not ready and live.
			a.stop()
			eventually(t, "it is not ready", func() bool {
				p := probe(t, false, a.Worker)
				return p.status == 503 && strings.Contains(p.body, "is stopping")
			})
			requireLive(t, a.Worker, "during the stop")
			a.finish()
			if err := a.end(t); err != nil {
				t.Error(err)
			}
			requireLive(t, a.Worker, "after the stop")
		})
	}
}

// A loop whose goroutine has ended is the one thing that a restart helps against.
func TestC133_ADeadLoopIsNotLive(t *testing.T) {
	t.Parallel()
	a := newAiling(t)
	a.exitOn.Store(true)
	a.finish()
	eventually(t, "it is not live", func() bool { return probe(t, true, a.Worker).status == 503 })
	p := probe(t, false, a.Worker)
	if loop := p.loops["flush:q"]; p.status != 503 || !loop.Dead || loop.OK || !slices.Equal(p.bad, []string{"flush:q"}) {
		t.Errorf("%d %s", p.status, p.body)
	}
}

// A handler that blocks is no loop: its worker is well.
func TestAHandlerThatBlocksIsNoDeadLoop(t *testing.T) {
	t.Parallel()
	a := newAiling(t)
	until := time.Now().Add(4 * time.Second)
	eventually(t, "four seconds have passed", func() bool {
		if p := probe(t, false, a.Worker); p.status != 200 {
			t.Fatalf("not ready: %s", p.body)
		}
		return time.Now().After(until)
	})
}

// A worker that waits for its database is live and not ready, also if the database takes the connection and never answers; the
// log says when it came.
func TestAWorkerThatWaitsForTheDatabase(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	log := &lockedLog{}
	client := newClient(t, db.Pool, pgqueue.WithLogger(log.logger()))
	proxy, pool := throughProxy(t, db.Pool)
	proxy.Refuse(true)
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[task]) error { return nil })
	worker := startWorker(t, client, mux, pgqueue.WorkerConfig{
		Queues: pgqueue.Queues{"q": {}}, Pool: pool, DisableListener: true, StorageTimeout: time.Second,
	})
	eventually(t, "it waits", func() bool { return log.count("waiting for the database") == 1 })
	p := probe(t, false, worker.Worker)
	if p.status != 503 || !strings.Contains(p.body, "waits for the database") {
		t.Errorf("%d %s", p.status, p.body)
	}
	requireNoSecrets(t, p)
	requireLive(t, worker.Worker, "while it waits")
	// Now connections stand, and on the first ones nobody will ever answer.
	proxy.Stall()
	proxy.Refuse(false)
	before := proxy.Accepted()
	eventually(t, "it has tried twice on connections that stall", func() bool { return proxy.Accepted() >= before+2 })
	proxy.HalfOpen()
	proxy.Resume()
	eventually(t, "it is ready", func() bool { return probe(t, false, worker.Worker).status == 200 })
	proxy.Refuse(true)
	eventually(t, "it notices the outage", func() bool {
		proxy.Cut() // again, for a connection that was just being made
		return log.count("looking for due jobs failed") > 0
	})
	proxy.Refuse(false)
	eventually(t, "it says that the outage is over", func() bool { return log.count("the database answers again") == 1 })
	if log.count("the database answers\"") != 1 {
		t.Errorf("the log:\n%s", log.text.String())
	}
}
