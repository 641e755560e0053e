package pgqueue_test

import (
	"context"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
	"github.com/pgqueue/pgqueue/runner"
)

// countingLog counts what is logged at warning and above.
type countingLog struct {
	slog.Handler
	n *atomic.Int64
}

func (l countingLog) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn
}
func (l countingLog) Handle(context.Context, slog.Record) error { l.n.Add(1); return nil }
func (l countingLog) WithAttrs([]slog.Attr) slog.Handler        { return l }
func (l countingLog) WithGroup(string) slog.Handler             { return l }

// ourGoroutines counts the goroutines with code of this module on their stacks, the proxy of the tests excepted. (pgx takes
// up to 15 s to close a connection that stalls, in goroutines of its own.)
func ourGoroutines() (n int) {
	stacks := make([]byte, 16<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for stack := range strings.SplitSeq(string(stacks), "\n\n") {
		if strings.Contains(stack, "github.com/pgqueue/pgqueue/") && !strings.Contains(stack, "internal/pgproxy") {
			n++
		}
	}
	return n
}

// The table cannot be reached for a while: locked, behind a connection that stalls, or not at all. A claim has a deadline, fails at a
// sane rate and leaves nothing behind, and work goes on by itself afterwards.
//
// It counts goroutines, so no other test runs beside it.
func TestC30_AClaimThatHangs(t *testing.T) {
	outage := size(3*time.Second, 20*time.Second)
	for _, c := range []string{"lock", "stall", "refuse"} {
		t.Run(c, func(t *testing.T) {
			db := pgqueuetest.New(t)
			var logged atomic.Int64
			client := newClient(t, db.Pool, pgqueue.WithLogger(slog.New(countingLog{n: &logged})))
			ran := make(chan int, 100)
			mux := pgqueue.NewMux()
			pgqueue.Handle(mux, func(_ context.Context, job *pgqueue.Job[task]) error {
				ran <- job.Args.N
				return nil
			})
			proxy, proxied := throughProxy(t, db.Pool)
			var mutex sync.Mutex
			var failures []time.Time
			worker := startWorker(t, client, mux, pgqueue.WorkerConfig{
				Queues: pgqueue.Queues{"default": {Poll: 200 * time.Millisecond}}, Pool: proxied, StorageTimeout: 500 * time.Millisecond,
				Observer: &hooks{claim: func(e runner.ClaimEvent) {
					if e.Err != nil {
						mutex.Lock()
						defer mutex.Unlock()
						failures = append(failures, time.Now())
					}
				}},
			})
			enqueue(t, client, db.Pool, task{N: 1})
			receive(t, ran, "a job before the outage")
			eventually(t, "it is idle", func() bool { return worker.Status().Queues["default"].Outcomes.Succeeded == 1 })
			goroutines := ourGoroutines()

			var tx pgx.Tx
			switch c {
			case "lock":
				tx = begin(t, db.Pool, pgx.TxOptions{})
				exec(t, tx, `LOCK TABLE pgqueue.jobs IN ACCESS EXCLUSIVE MODE`)
			case "stall":
				proxy.Stall()
			case "refuse":
				proxy.Refuse(true)
				proxy.Cut()
			}
			began := time.Now()
			eventually(t, "claims have failed for a while", func() bool {
				mutex.Lock()
				defer mutex.Unlock()
				return len(failures) >= 2 && time.Since(began) >= outage
			})
			if message := worker.Status().Queues["default"].LastClaimError; message == "" {
				t.Error("the status does not show that claims fail")
			}
			grown := ourGoroutines() - goroutines
			mutex.Lock()
			fastest := time.Hour
			for i := 1; i < len(failures); i++ {
				fastest = min(fastest, failures[i].Sub(failures[i-1]))
			}
			n := len(failures)
			mutex.Unlock()
			// Each takes its deadline of 500 ms, unless it fails at once, and the pause between them grows to 2 s.
			if c != "refuse" && fastest < 500*time.Millisecond || n > 6+int(time.Since(began)/time.Second) {
				t.Errorf("%d claims failed in %s, two of them within %s", n, time.Since(began), fastest)
			}
			// Claims, probes, reaper and listener together, each once a few seconds.
			if most := 10 + 6*int64(time.Since(began)/time.Second); logged.Load() > most {
				t.Errorf("%d warnings in %s, want at most %d", logged.Load(), time.Since(began), most)
			}
			if grown > 5 {
				t.Errorf("%d more goroutines during the outage", grown)
			}

			switch c {
			case "lock":
				_ = tx.Rollback(testContext(t))
			case "stall":
				proxy.Resume()
			case "refuse":
				proxy.Refuse(false)
			}
			enqueue(t, client, db.Pool, task{N: 2})
			if n := receive(t, ran, "the job after the outage"); n != 2 {
				t.Errorf("job %d ran", n)
			}
			eventually(t, "claims work again", func() bool { return worker.Status().Queues["default"].LastClaimError == "" })
			if n := one[int](t, db.Pool, `SELECT count(*) FROM pgqueue.jobs WHERE failures > 0`); n != 0 {
				t.Errorf("%d jobs paid for the outage", n)
			}
		})
	}
}

// The server crashes while stale jobs are being returned: each is returned exactly once, and the worker lives.
func TestC43_RestartDuringTheReaperPass(t *testing.T) {
	t.Parallel()
	server := pgqueuetest.NewServer(t, pgqueuetest.WithDurability())
	db := server.DB(t)
	client := quietClient(t, db.Pool, pgqueue.WithoutHints())
	n := size(120, 300)
	jobs := make([]pgqueue.NewJob, n)
	for i := range jobs {
		jobs[i] = pgqueue.NewJob{Args: other{N: i}} // of a kind that nobody handles, so that they stay where the reaper puts them
	}
	if _, err := client.EnqueueMany(testContext(t), db.Pool, jobs); err != nil {
		t.Fatal(err)
	}
	exec(t, db.Pool, `UPDATE pgqueue.jobs SET state = 'running', attempt = 1, claimed_generation = generation, claimed_by = 'dead',
		claimed_at = now() - interval '1 minute', lease_expires_at = now() - interval '1 second'`)
	// Each row takes its time, so that the crash hits the middle of a pass.
	exec(t, db.Pool, `CREATE FUNCTION public.slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(0.01); RETURN NEW; END';
		CREATE TRIGGER slow BEFORE UPDATE ON pgqueue.jobs FOR EACH ROW WHEN (OLD.state = 'running') EXECUTE FUNCTION public.slow()`)
	failed := make(chan struct{}, 1000)
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[task]) error { return nil })
	worker := startWorker(t, client, mux, pgqueue.WorkerConfig{
		Queues: pgqueue.Queues{"default": {}}, ReapInterval: 100 * time.Millisecond, Lease: 3 * time.Second,
		Observer: &hooks{failed: func(string, string, error) {
			select {
			case failed <- struct{}{}:
			default:
			}
		}},
	})
	eventually(t, "the reaper is in the middle of a pass", func() bool {
		return one[bool](t, db.Pool, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE query LIKE '%lease_expires_at < now()%' AND query LIKE 'WITH l%' AND state = 'active' AND pid <> pg_backend_pid())`)
	})
	if err := server.Restart(testContext(t), true); err != nil {
		t.Fatal(err)
	}
	receive(t, failed, "the pass that failed")
	count := `SELECT count(*) FROM pgqueue.jobs WHERE state = 'pending' AND attempt = 1 AND failures = 1 AND error_count = 1
		AND jsonb_array_length(errors) = 1 AND errors->0->>'code' = 'lease_expired'`
	eventually(t, "all are returned, each once", func() bool {
		var got int
		err := db.Pool.QueryRow(testContext(t), count).Scan(&got)
		return err == nil && got == n
	})
	if !worker.Status().Running {
		t.Error("the worker has ended")
	}
	enqueue(t, client, db.Pool, task{})
	eventually(t, "it works", func() bool { return worker.Status().Queues["default"].Outcomes.Succeeded == 1 })
}
