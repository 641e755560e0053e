package integration

import (
	"context"
	"log/slog"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// The server crashes under an idle worker. It is back before the worker's listener is, which the proxy keeps away, and
// work arrives in between: no notification of it is ever delivered, and the poll is far away.
func TestC60_WorkInTheGapOfARestart(t *testing.T) {
	t.Parallel()
	const jobs = 10
	server := pgqueuetest.NewServer(t)
	s := serviceOn(t, server.DB(t))
	proxy := startProxy(t, s.db.URL)
	mux, ran := newNotes()
	events := newListenerEvents()
	worker := serve(t, s.client, mux, pgqueue.WorkerConfig{
		Queues: pgqueue.Queues{queueName: {Poll: never}}, Observer: events,
		ListenerConn: func(ctx context.Context) (*pgx.Conn, error) {
			return pgx.Connect(ctx, throughProxy(t, s.db.URL, proxy))
		},
	})
	receive(t, events.connected, "the listener's connection")
	note(t, s.client, s.pool, -1)
	receive(t, ran, "a job before the crash")
	// A claim that the crash interrupts would be tried again, and find the work without any listener.
	quiet(t, events.claims, 3*pgqueue.DefaultHintWindow)

	proxy.Refuse(true)
	if err := server.Restart(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	receive(t, events.disconnected, "the loss of the listener's connection")
	other := poolAt(t, s.db.URL, func(*pgxpool.Config) {})
	client := newClient(t, other, s.db.Schema)
	for i := range jobs {
		note(t, client, other, i)
	}
	if worker.Status().Listener.Connected || len(ran) != 0 {
		t.Fatalf("the listener was not kept away, or %d jobs ran without it", len(ran))
	}

	proxy.Refuse(false)
	receive(t, events.connected, "the listener's return")
	seen := map[int]bool{}
	for len(seen) < jobs {
		seen[receive(t, ran, "the jobs that arrived in the gap").N] = true
	}
}

// A worker that is started before its database waits for it.
func TestC60_WorkerBeforeDatabase(t *testing.T) {
	t.Parallel()
	server := pgqueuetest.NewServer(t)
	db := server.DB(t)
	if err := server.Halt(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	pool := poolAt(t, db.URL, func(*pgxpool.Config) {})
	logs := newLogBook()
	mux, ran := newNotes()
	serve(t, newClient(t, pool, db.Schema, pgqueue.WithLogger(slog.New(logs))), mux,
		pgqueue.WorkerConfig{Queues: pgqueue.Queues{queueName: {Poll: never}}})
	logs.await(t, "pgqueue: waiting for the database")

	if err := server.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	other := poolAt(t, db.URL, func(*pgxpool.Config) {})
	note(t, newClient(t, other, db.Schema), other, 1)
	receive(t, ran, "a job after the database has come up")
}
