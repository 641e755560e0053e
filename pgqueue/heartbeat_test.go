package pgqueue_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// lockedLog keeps what is logged, as text.
type lockedLog struct {
	mutex sync.Mutex
	text  bytes.Buffer
}

func (l *lockedLog) Write(line []byte) (int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.text.Write(line)
}

func (l *lockedLog) count(part string) int {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return strings.Count(l.text.String(), part)
}

func (l *lockedLog) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// startReporting runs a worker that reports itself more often than a configuration may say.
func startReporting(t testing.TB, client *pgqueue.Client, mux *pgqueue.Mux, config pgqueue.WorkerConfig) *running {
	t.Helper()
	listenDirectly(t, client, &config)
	worker, err := client.NewWorker(mux, config)
	if err != nil {
		t.Fatal(err)
	}
	worker.ReportEvery(200 * time.Millisecond)
	return run(t, worker)
}

// reported is a row of the table workers.
type reported struct {
	Host, Version string
	PID           int
	Stopping      bool
	Age, Every    float64
	Queues        map[string]struct {
		Workers     int        `json:"workers"`
		InFlight    int        `json:"in_flight"`
		Buffered    int        `json:"buffered"`
		Stuck       int        `json:"stuck"`
		PausedUntil *time.Time `json:"paused_until"`
	}
	Kinds map[string]struct {
		Workers  int            `json:"workers"`
		InFlight map[string]int `json:"in_flight"`
		AliasOf  string         `json:"alias_of"`
	}
}

func workerRow(t testing.TB, pool *pgxpool.Pool, id string) (r reported, ok bool) {
	t.Helper()
	var queues, kinds string
	err := pool.QueryRow(testContext(t), `SELECT host, version, pid, stopping, extract(epoch FROM statement_timestamp() - started_at)::float8,
		extract(epoch FROM heartbeat_every)::float8, queues::text, kinds::text FROM pgqueue.workers WHERE id = $1`, id).
		Scan(&r.Host, &r.Version, &r.PID, &r.Stopping, &r.Age, &r.Every, &queues, &kinds)
	if err == pgx.ErrNoRows {
		return r, false
	}
	if err != nil {
		t.Fatal(err)
	}
	for text, into := range map[string]any{queues: &r.Queues, kinds: &r.Kinds} {
		if err := json.Unmarshal([]byte(text), into); err != nil {
			t.Fatal(err)
		}
	}
	return r, true
}

// A worker says at once that it is there, then what it does, then that it stops, and is gone after a clean stop.
func TestAWorkerReportsItself(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	gate := make(chan struct{})
	open := sync.OnceFunc(func() { close(gate) })
	t.Cleanup(open)
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(ctx context.Context, job *pgqueue.Job[task]) error {
		if job.Args.Do == "pause" {
			return pgqueue.Pause(time.Hour)
		}
		<-gate
		return nil
	}, pgqueue.KindAliases("old_task"), pgqueue.KindWorkers(3))
	pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[other]) error { return nil })
	first := startWorker(t, client, mux, pgqueue.WorkerConfig{ID: "slow", Queues: pgqueue.Queues{"a": {}}})
	eventually(t, "the first report, which waits for no interval", func() bool {
		_, ok := workerRow(t, db.Pool, "slow")
		return ok
	})
	if err := first.end(t); err != nil {
		t.Error(err)
	}
	if _, ok := workerRow(t, db.Pool, "slow"); ok {
		t.Error("a worker that stopped cleanly is still there")
	}

	worker := startReporting(t, client, mux, pgqueue.WorkerConfig{
		ID: "w", Version: "1.2.3", Queues: pgqueue.Queues{"a": {Workers: 5}, "b": {}}, StopTimeout: patience,
	})
	enqueue(t, client, db.Pool, task{}, pgqueue.OnQueue("a"))
	enqueue(t, client, db.Pool, pgqueue.Raw{Name: "old_task"}, pgqueue.OnQueue("a"))
	enqueue(t, client, db.Pool, task{Do: "pause"}, pgqueue.OnQueue("b"))
	var row reported
	eventually(t, "it reports what it does", func() bool {
		row, _ = workerRow(t, db.Pool, "w")
		return row.Queues["a"].InFlight == 2 && row.Queues["b"].PausedUntil != nil
	})
	if row.Version != "1.2.3" || row.PID == 0 || row.Host == "" || row.Stopping || row.Every != 10 {
		t.Errorf("row %+v", row)
	}
	if a, b := row.Queues["a"], row.Queues["b"]; a.Workers != 5 || b.Workers != 2 || a.PausedUntil != nil || time.Until(*b.PausedUntil) < 50*time.Minute {
		t.Errorf("queues %+v", row.Queues)
	}
	if k := row.Kinds["task"]; k.Workers != 3 || k.InFlight["a"] != 2 || len(k.InFlight) != 1 || k.AliasOf != "" {
		t.Errorf("kind task: %+v", k)
	}
	if k := row.Kinds["old_task"]; k.AliasOf != "task" || k.Workers != 3 {
		t.Errorf("the alias: %+v", k)
	}
	if k := row.Kinds["other"]; k.Workers != 4 || len(k.InFlight) != 0 || len(row.Kinds) != 3 {
		t.Errorf("kinds: %+v", row.Kinds)
	}
	worker.stop()
	eventually(t, "it says that it stops", func() bool {
		row, ok := workerRow(t, db.Pool, "w")
		return ok && row.Stopping
	})
	open()
	if err := worker.end(t); err != nil {
		t.Error(err)
	}
	if _, ok := workerRow(t, db.Pool, "w"); ok {
		t.Error("it is still there")
	}
}

// The first report races with the start of the runners, and says the same whoever wins: here none has begun.
func TestTheFirstReportHasEveryKind(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[task]) error { return nil }, pgqueue.KindAliases("old_task"), pgqueue.KindWorkers(5))
	pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[other]) error { return nil })
	worker, err := quietClient(t, db.Pool).NewWorker(mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"a": {Workers: 3}, "b": {Workers: 10}}})
	if err != nil {
		t.Fatal(err)
	}
	queues, kinds, err := worker.Describe()
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"old_task":{"workers":5,"in_flight":{},"alias_of":"task"},"other":{"workers":9,"in_flight":{}},"task":{"workers":5,"in_flight":{}}}`; kinds != want {
		t.Errorf("kinds\n\t%s\nwant\n\t%s", kinds, want)
	}
	if !strings.Contains(queues, `"a":{"workers":3,`) || !strings.Contains(queues, `"b":{"workers":10,`) {
		t.Errorf("queues %s", queues)
	}
	// And so nobody says that it has no handler.
	exec(t, db.Pool, `SELECT pgqueue.heartbeat('w', 'h', 1, '', NULL, '10 s', false, $1, $2)`, queues, kinds)
	id := enqueue(t, quietClient(t, db.Pool), db.Pool, task{}, pgqueue.OnQueue("a")).ID
	var why string
	if err := db.Pool.QueryRow(testContext(t), `SELECT pgqueue.why_not_running($1)`, id).Scan(&why); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(why, "nothing is in its way") {
		t.Error(why)
	}
}

// A worker with the id of one that died takes its row over, with a start of its own.
func TestARestartUnderTheSameID(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	exec(t, db.Pool, `SELECT pgqueue.heartbeat('pod-0', 'h', 1, '', now() - interval '1 day', '10 s', false, '{}', '{}')`)
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[task]) error { return nil })
	startReporting(t, client, mux, pgqueue.WorkerConfig{ID: "pod-0", Queues: pgqueue.Queues{"a": {}}})
	eventually(t, "it reports itself", func() bool {
		row, _ := workerRow(t, db.Pool, "pod-0")
		return row.Queues["a"].Workers == 2
	})
	if row, _ := workerRow(t, db.Pool, "pod-0"); row.Age > 3600 {
		t.Errorf("it started %v s ago", row.Age)
	}
}

// Reports that fail change nothing for the work, and the log says so once.
func TestReportsThatFailDisturbNothing(t *testing.T) {
	t.Parallel()
	for name, sql := range map[string]string{
		"not there": `DROP FUNCTION pgqueue.heartbeat`,
		"refused": `CREATE OR REPLACE FUNCTION pgqueue.heartbeat(id text, host text, pid int, version text, started_at timestamptz, every interval,
			stopping boolean, queues jsonb, kinds jsonb) RETURNS void LANGUAGE plpgsql AS $$ BEGIN RAISE insufficient_privilege; END $$`,
		"locked": `BEGIN; LOCK TABLE pgqueue.workers IN ACCESS EXCLUSIVE MODE`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := pgqueuetest.New(t)
			conn, err := db.Pool.Acquire(testContext(t))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Release()
			defer exec(t, conn, `ROLLBACK`)
			exec(t, conn, sql)
			log, sent := &lockedLog{}, &statements{}
			client := newClient(t, db.Pool, pgqueue.WithLogger(log.logger()))
			mux := pgqueue.NewMux()
			ran := make(chan struct{}, 10)
			pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[task]) error {
				ran <- struct{}{}
				return nil
			})
			traced := poolLike(t, db.Pool, func(config *pgxpool.Config) { config.ConnConfig.Tracer = sent })
			worker := startReporting(t, client, mux, pgqueue.WorkerConfig{
				Queues: pgqueue.Queues{"default": {}}, Pool: traced, StorageTimeout: 300 * time.Millisecond,
			})
			eventually(t, "it has tried three times", func() bool { return sent.with("heartbeat(") >= 3 })
			enqueue(t, client, db.Pool, task{})
			receive(t, ran, "a job")
			eventually(t, "its health says so", func() bool {
				p := probe(t, false, worker.Worker)
				loop := p.loops["heartbeat"]
				if name == "locked" { // which is an ailment, and will pass
					return p.status == 503 && !loop.OK
				}
				return p.status == 200 && loop.OK && strings.Contains(loop.Detail, "not allowed")
			})
			if err := worker.end(t); err != nil {
				t.Error(err)
			}
			if n := log.count("could not report itself") + log.count("cannot report itself"); n != 1 {
				t.Errorf("%d warnings:\n%s", n, log.text.String())
			}
		})
	}
}

// The role of docs/roles.md may do all of it.
func TestADocumentedWorkerMayReportItself(t *testing.T) {
	t.Parallel()
	db, as := documentedRoles(t)
	log, sent := &lockedLog{}, &statements{}
	pool := poolLike(t, as("app"), func(config *pgxpool.Config) { config.ConnConfig.Tracer = sent })
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[task]) error { return nil })
	client := newClient(t, pool, pgqueue.WithLogger(slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))))
	worker := startReporting(t, client, mux, pgqueue.WorkerConfig{ID: "w", Queues: pgqueue.Queues{"q": {}}})
	eventually(t, "it has reported itself and looked around", func() bool { return sent.with("heartbeat(") >= 3 })
	if _, ok := workerRow(t, db.Pool, "w"); !ok {
		t.Error("it is not there")
	}
	if err := worker.end(t); err != nil {
		t.Error(err)
	}
	if _, ok := workerRow(t, db.Pool, "w"); ok {
		t.Error("it is still there")
	}
	if n := log.count("42501"); n != 0 {
		t.Errorf("the log:\n%s", log.text.String())
	}
}

// A drain that takes longer than an interval reports itself too, and is gone afterwards; a short one costs nothing.
func TestALongDrainReportsItself(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	sent := &statements{}
	traced := poolLike(t, db.Pool, func(config *pgxpool.Config) { config.ConnConfig.Tracer = sent })
	client := quietClient(t, traced)
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[task]) error { return nil })
	pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[other]) error {
		eventually(t, "the drain is among the workers", func() bool {
			_, ok := workerRow(t, db.Pool, "cron")
			return ok
		})
		return nil
	})
	enqueue(t, client, db.Pool, task{})
	drain(t, client, mux, pgqueue.WorkerConfig{ID: "cron"})
	if n := sent.with("heartbeat(") + sent.with("goodbye("); n != 0 {
		t.Errorf("a short drain has reported itself %d times", n)
	}
	enqueue(t, client, db.Pool, other{})
	drain(t, client, mux, pgqueue.WorkerConfig{ID: "cron", HeartbeatEvery: 5 * time.Second})
	if _, ok := workerRow(t, db.Pool, "cron"); ok {
		t.Error("the drain is over and still there")
	}
}

// The log says once that jobs wait which no live worker has a handler for, by one that serves their queue.
func TestC28_UnknownKindsAreToldOnce(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	log := &lockedLog{}
	client := newClient(t, db.Pool, pgqueue.WithLogger(log.logger()))
	mux, both := pgqueue.NewMux(), pgqueue.NewMux()
	for _, m := range []*pgqueue.Mux{mux, both} {
		pgqueue.Handle(m, func(context.Context, *pgqueue.Job[task]) error { return nil })
	}
	pgqueue.Handle(both, func(context.Context, *pgqueue.Job[other]) error { return nil })
	sent := &statements{}
	traced := poolLike(t, db.Pool, func(config *pgxpool.Config) { config.ConnConfig.Tracer = sent })
	// A live worker elsewhere has a handler for the kind of the queue "known".
	exec(t, db.Pool, `SELECT pgqueue.heartbeat('elsewhere', 'h', 1, '', NULL, '1 h', false, '{"known": {"workers": 1}}', '{"other": {"workers": 1}}')`)
	startReporting(t, client, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {}, "known": {}}, Pool: traced})
	enqueue(t, client, db.Pool, other{}, pgqueue.OnQueue("known"))
	enqueue(t, client, db.Pool, other{}, pgqueue.WithDelay(time.Hour))
	exec(t, db.Pool, `SELECT pgqueue.pause('known')`)
	reports := sent.with("heartbeat(")
	eventually(t, "reports", func() bool { return sent.with("heartbeat(") >= reports+3 })
	if n := log.count("no live worker has a handler"); n != 0 {
		t.Errorf("told although there is a handler, or nothing is due:\n%s", log.text.String())
	}
	enqueue(t, client, db.Pool, other{})
	eventually(t, "it is told", func() bool { return log.count("no live worker has a handler") > 0 })
	reports = sent.with("heartbeat(")
	eventually(t, "more reports", func() bool { return sent.with("heartbeat(") >= reports+3 })
	if log.count("no live worker has a handler") != 1 || log.count("queue=default") == 0 || log.count("kind=other") != 1 {
		t.Errorf("the log:\n%s", log.text.String())
	}
}

func TestHeartbeatSettings(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[task]) error { return nil })
	for _, every := range []time.Duration{time.Second, 2 * time.Hour} {
		_, err := client.NewWorker(mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"a": {}}, HeartbeatEvery: every})
		requireInvalid(t, err, "HeartbeatEvery")
	}
	_, err := client.NewWorker(mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"a": {}}, Version: "1\x00"})
	requireInvalid(t, err, "Version")
	sent := &statements{}
	traced := poolLike(t, db.Pool, func(config *pgxpool.Config) { config.ConnConfig.Tracer = sent })
	worker := startWorker(t, client, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"a": {}}, HeartbeatEvery: -1, Pool: traced})
	eventually(t, "it is idle", func() bool { return sent.with(probeText) >= 3 })
	if err := worker.end(t); err != nil {
		t.Error(err)
	}
	if n := sent.with("heartbeat(") + sent.with("goodbye(") + sent.with("live_workers"); n != 0 {
		t.Errorf("%d reports of a worker that makes none", n)
	}
}
