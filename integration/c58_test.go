package integration

import (
	"log/slog"
	"runtime"
	"slices"
	"testing"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// The listener's connection is killed again and again, and each time a job arrives in the gap. Nothing but the listener's
// return can find it: the poll is far away. Not parallel, because goroutines are counted.
func TestC58_ListenerKilledAgainAndAgain(t *testing.T) {
	const kills = 20
	s := newService(t)
	logs, events := newLogBook(), newListenerEvents()
	client := newClient(t, s.pool, s.db.Schema, pgqueue.WithLogger(slog.New(logs)))
	mux, ran := newNotes()
	worker := serve(t, client, mux, pgqueue.WorkerConfig{
		Queues: pgqueue.Queues{queueName: {Poll: never}}, Observer: events,
		ListenerConn: s.directly(),
	})
	receive(t, events.connected, "the listener's first connection")
	pid := s.awaitListener(0)
	note(t, s.client, s.pool, -1)
	receive(t, ran, "a job before the first loss")
	before := runtime.NumGoroutine()

	for i := range kills {
		s.terminate(pid)
		note(t, s.client, s.pool, i)
		if got := receive(t, ran, "the job that arrived in the gap"); got.N != i {
			t.Fatalf("job %d ran, want %d", got.N, i)
		}
		receive(t, events.disconnected, "the loss")
		receive(t, events.connected, "the listener's return")
		pid = s.awaitListener(pid)
	}

	if pids := s.listeners(); len(pids) != 1 {
		t.Errorf("%d backends listen, want 1", len(pids))
	}
	status := worker.Status().Listener
	if status.Attempts > 3*kills || status.Reconnects != kills || !status.Connected {
		t.Errorf("%d kills led to %+v", kills, *status)
	}
	if len(events.disconnected) != 0 || len(events.connected) != 0 {
		t.Errorf("%d losses and %d connections too many", len(events.disconnected), len(events.connected))
	}
	until(t, "no more goroutines than before", runtime.NumGoroutine, func(n int) bool { return n <= before })

	lost := func() int {
		return len(slices.DeleteFunc(logs.all(), func(m string) bool {
			return m != "listener: connection lost; queues live by their poll until it is back"
		}))
	}
	if n := lost(); n != kills {
		t.Errorf("%d log lines for %d losses", n, kills)
	}
	worker.stop()
	if n := len(logs.all()); n != kills {
		t.Errorf("with the normal shutdown the log has %d warnings, %d of them for losses: %q", n, lost(), logs.all())
	}
	untilSQL(t, s.pool, "nobody listens after the stop", `SELECT NOT EXISTS (SELECT FROM pg_stat_activity
		WHERE datname = current_database() AND pid <> pg_backend_pid() AND query ILIKE 'LISTEN %')`)
}
