package pgqueue_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// sentHints counts hints that went out with transactions.
type sentHints struct{ n atomic.Int64 }

func (s *sentHints) HintSent(string) { s.n.Add(1) }

// Hints can be turned off and on while everything runs, for when the server's queue of notifications is full: a session that listens in
// an open transaction pins it, and then no transaction with a NOTIFY commits. Where the server can be given a small queue, from
// Postgres 17 on, it is filled. Our own listener is never in a transaction.
func TestC70_HintsAreTurnedOffAtRunTime(t *testing.T) {
	t.Parallel()
	server := pgqueuetest.NewServer(t)
	small := one[int](t, server.DB(t).Pool, `SELECT current_setting('server_version_num')::int`) >= 170000
	if small {
		server = pgqueuetest.NewServer(t, pgqueuetest.WithSetting("max_notify_queue_pages", "64"))
	}
	db := server.DB(t)
	client := quietClient(t, db.Pool)
	ran := make(chan int, 1000)
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(_ context.Context, job *pgqueue.Job[task]) error {
		ran <- job.Args.N
		return nil
	})
	worker := startWorker(t, client, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {Poll: 200 * time.Millisecond}}})
	eventually(t, "the listener is there", func() bool { return worker.Status().Listener.Connected })
	listener := listen(t, db.Pool, "pgqueue")
	inTransaction := func() int {
		return one[int](t, db.Pool, `SELECT count(*) FROM pg_stat_activity WHERE query ILIKE 'listen %' AND xact_start IS NOT NULL AND state <> 'active'`)
	}

	enqueue(t, client, db.Pool, task{N: 1})
	receive(t, ran, "a job")
	if hints := listener.until(t, db.Pool, "pgqueue"); len(hints) != 1 {
		t.Errorf("%d hints, want 1", len(hints))
	}
	// More than may go out at once: some are held back, and dropped with the switch.
	sent := &sentHints{}
	brief := quietClient(t, db.Pool, pgqueue.WithObserver(sent))
	for range 40 {
		enqueue(t, brief, db.Pool, task{N: 2})
	}
	brief.SetHints(false)
	if err := brief.Close(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if hints := listener.until(t, db.Pool, "pgqueue"); len(hints) != int(sent.n.Load()) || len(hints) == 40 {
		t.Errorf("%d hints, of which %d went with enqueues", len(hints), sent.n.Load())
	}
	client.SetHints(false)
	if n := inTransaction(); n != 0 {
		t.Errorf("%d listeners are in a transaction", n)
	}

	if small {
		rogue, err := pgx.ConnectConfig(testContext(t), db.Pool.Config().ConnConfig)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = rogue.Close(context.Background()) })
		for _, sql := range []string{"LISTEN rogue", "BEGIN", "SELECT 1"} {
			exec(t, rogue, sql)
		}
		eventually(t, "the queue is full", func() bool {
			_, err := db.Pool.Exec(testContext(t), `SELECT pg_notify('rogue', repeat('x', 7000) || clock_timestamp())`)
			return err != nil
		})
		client.SetHints(true)
		if _, err := client.Enqueue(testContext(t), db.Pool, task{N: 3}, pgqueue.OnQueue("another")); err == nil || !strings.Contains(err.Error(), "NOTIFY") {
			t.Errorf("an enqueue with a hint: %v, want the full queue", err)
		}
		client.SetHints(false)
	}
	for len(ran) > 0 {
		<-ran
	}
	tx := begin(t, db.Pool, pgx.TxOptions{})
	enqueue(t, client, tx, task{N: 4})
	if _, err := client.EnqueueCopy(testContext(t), tx, []pgqueue.NewJob{{Args: task{N: 4}}}); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(testContext(t)); err != nil {
		t.Fatalf("a commit without hints: %v", err)
	}
	for n := 0; n < 2; {
		if receive(t, ran, "the jobs, by the poll") == 4 {
			n++
		}
	}
	if !small { // nothing can be sent through a full queue, the mark neither
		if hints := listener.until(t, db.Pool, "pgqueue"); len(hints) != 0 {
			t.Errorf("%d hints although they are off", len(hints))
		}
		client.SetHints(true)
		enqueue(t, client, db.Pool, task{N: 5}, pgqueue.OnQueue("another"))
		if hints := listener.until(t, db.Pool, "pgqueue"); len(hints) == 0 {
			t.Error("no hint although they are on again")
		}
	}
	if n := inTransaction(); n != 0 && !small {
		t.Errorf("%d listeners are in a transaction", n)
	}
}

// A NOTIFY takes a lock of the whole database until after its commit. What keeps many writers from queueing behind it is that a client
// sends few: a burst, and then one a window, however many transactions there are.
func TestC71_ManyWritersSendFewHints(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	const writers = 64
	each := size(20, 300)
	pool := poolLike(t, db.Pool, func(config *pgxpool.Config) { config.MaxConns = 16 })
	client := quietClient(t, pool, pgqueue.WithHintWindow(time.Second))
	listener := listen(t, db.Pool, "pgqueue")
	began := time.Now()
	var group sync.WaitGroup
	for range writers {
		group.Go(func() {
			for n := range each {
				if err := pgx.BeginFunc(testContext(t), pool, func(tx pgx.Tx) error {
					_, err := client.Enqueue(testContext(t), tx, task{N: n})
					return err
				}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	if err := client.Close(testContext(t)); err != nil { // sends what is held back
		t.Fatal(err)
	}
	took := time.Since(began)
	hints := len(listener.until(t, db.Pool, "pgqueue"))
	if most := 20 + 2 + int(took/time.Second) + 1; hints < 1 || hints > most {
		t.Errorf("%d transactions in %s sent %d hints, want at most %d", writers*each, took, hints, most)
	}
}

// Behind a pooler that takes LISTEN and forwards nothing the worker finds out, says so, and works by its poll; with the listener off it
// sends neither LISTEN nor NOTIFY.
func TestC74_NoNotificationsArrive(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	proxy, proxied := throughProxy(t, db.Pool)
	proxy.SwallowNotifications(true)
	ran := make(chan int, 10)
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(_ context.Context, job *pgqueue.Job[task]) error {
		ran <- job.Args.N
		return nil
	})
	config := pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {}}, Pool: proxied}
	config.EchoEvery(100 * time.Millisecond)
	client := quietClient(t, db.Pool)
	worker := startWorker(t, client, mux, config)
	eventually(t, "it is deaf and says so", func() bool {
		h := worker.Health()
		for _, loop := range h.Loops {
			if loop.Name == "listener" && strings.Contains(loop.Detail, "pooler") {
				return worker.Status().Listener.Deaf && !h.Ready && h.Live
			}
		}
		return false
	})
	enqueue(t, client, db.Pool, task{N: 1})
	receive(t, ran, "a job, by the poll")
	if err := worker.end(t); err != nil {
		t.Fatal(err)
	}

	sent := &statements{}
	traced := poolLike(t, db.Pool, func(config *pgxpool.Config) { config.ConnConfig.Tracer = sent })
	mute := quietClient(t, traced, pgqueue.WithoutHints())
	startWorker(t, mute, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {}}, DisableListener: true})
	listener := listen(t, db.Pool, "pgqueue")
	enqueue(t, mute, traced, task{N: 2})
	receive(t, ran, "a job, by the poll")
	if n := sent.with("LISTEN"); n != 0 {
		t.Errorf("%d LISTEN with the listener off", n)
	}
	if hints := listener.until(t, db.Pool, "pgqueue"); len(hints) != 0 {
		t.Errorf("hints %v without hints", hints)
	}
}
