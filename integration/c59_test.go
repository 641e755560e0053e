package integration

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// The listener's connection is not the pool's: ten of them die and the pool has all of its four.
func TestC59_KilledListenerCostsThePoolNothing(t *testing.T) {
	t.Parallel()
	const size, kills = 4, 10
	s := newService(t)
	small := poolAt(t, s.db.URL, func(c *pgxpool.Config) { c.MaxConns = size })
	client := newClient(t, small, s.db.Schema)
	mux, ran := newNotes()
	events := newListenerEvents()
	serve(t, client, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{queueName: {Poll: never}}, Observer: events, ListenerConn: s.directly()})
	receive(t, events.connected, "the listener's first connection")
	pid := s.awaitListener(0)
	for i := range kills {
		s.terminate(pid)
		receive(t, events.connected, "the listener's return")
		pid = s.awaitListener(pid)
		note(t, s.client, s.pool, i)
		receive(t, ran, "a job after the listener's return")
	}

	until(t, "at most one connection in use", func() int32 { return small.Stat().AcquiredConns() }, func(n int32) bool { return n <= 1 })
	// All of the pool at once, which one lost connection would prevent.
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for i := range size {
		conn, err := small.Acquire(ctx)
		if err != nil {
			t.Fatalf("connection %d of %d: %v", i+1, size, err)
		}
		defer conn.Release()
		if _, err := conn.Exec(ctx, "SELECT 1"); err != nil {
			t.Fatal(err)
		}
	}
}

// The pool retires its connections after two seconds, and the listener stays: no wake-up is lost.
func TestC59_PoolLifetimeDoesNotTouchTheListener(t *testing.T) {
	t.Parallel()
	retirements := int64(3)
	if full() {
		retirements = 10
	}
	s := newService(t)
	short := poolAt(t, s.db.URL, func(c *pgxpool.Config) {
		c.MaxConns, c.MaxConnLifetime, c.HealthCheckPeriod = 4, 2*time.Second, 200*time.Millisecond
	})
	client := newClient(t, short, s.db.Schema)
	mux, ran := newNotes()
	events := newListenerEvents()
	worker := serve(t, client, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{queueName: {Poll: never}}, Observer: events, ListenerConn: s.directly()})
	receive(t, events.connected, "the listener's connection")
	pid := s.awaitListener(0)
	for i := 0; short.Stat().MaxLifetimeDestroyCount() < retirements; i++ {
		note(t, s.client, s.pool, i)
		receive(t, ran, "a job")
	}
	if now := s.awaitListener(0); now != pid {
		t.Errorf("backend %d listens, not %d as before", now, pid)
	}
	if status := worker.Status().Listener; status.Reconnects != 0 || len(events.disconnected) != 0 {
		t.Errorf("the listener lost its connection: %+v", *status)
	}
}
