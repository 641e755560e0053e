package integration

import (
	"log/slog"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/migrations"
	"github.com/pgqueue/pgqueue/pgqueue"
)

// Two installations in one database, in schemas of their own, neither wake nor reap each other, nor see each other's jobs.
func TestTwoSchemasInOneDatabase(t *testing.T) {
	t.Parallel()
	const second = `Second "tenant"`
	s := newService(t)
	// The migration says what it did by notices; nobody reads them here.
	if err := migrations.Up(t.Context(), s.pool, second, migrations.WithLogger(slog.New(slog.DiscardHandler))); err != nil {
		t.Fatal(err)
	}
	start := func(schema string) (*serving, *pgqueue.Client, <-chan noted, *listenerEvents) {
		client, events := newClient(t, s.pool, schema), newListenerEvents()
		mux, ran := newNotes()
		worker := serve(t, client, mux, pgqueue.WorkerConfig{
			Queues: pgqueue.Queues{queueName: {Poll: never}}, ReapInterval: shortReap, Observer: events, ListenerConn: s.directly(),
		})
		receive(t, events.connected, "the listener of "+schema)
		return worker, client, ran, events
	}
	one1, client1, ran1, _ := start(s.db.Schema)
	two, client2, ran2, _ := start(second)

	// Each job wakes its own worker and no other. Notifications arrive in the order of the commits, so that what the first
	// schema's listener would hear of the second one's jobs is there before its own.
	const jobs = 5
	for i := range jobs {
		note(t, client2, s.pool, i)
		if got := receive(t, ran2, "a job of the second schema"); got.N != i {
			t.Errorf("job %d ran, want %d", got.N, i)
		}
	}
	note(t, client1, s.pool, 100)
	if got := receive(t, ran1, "a job of the first schema"); got.N != 100 {
		t.Errorf("the first schema ran job %d", got.N)
	}
	if hints := one1.Status().Listener.Hints; hints != 1 {
		t.Errorf("the first schema's listener heard %d hints, want its own", hints)
	}
	if hints := two.Status().Listener.Hints; hints != jobs {
		t.Errorf("the second schema's listener heard %d hints, want %d", hints, jobs)
	}

	// A lease that has run out in the second schema, whose worker is stopped, is left alone by the first one's reaper.
	two.stop()
	table := pgx.Identifier{second, "jobs"}.Sanitize()
	stale := one[int64](t, s.pool, `INSERT INTO `+table+` (queue, kind, payload, state, attempt, claimed_generation, claimed_at,
		lease_expires_at) VALUES ($1, 'note', '{"N": 200}', 'running', 1, 1, now() - interval '1 hour', now() - interval '1 minute')
		RETURNING id`, queueName)
	before := one1.Status().Reaper.Targets[0].Passes
	until(t, "more passes of the first schema's reaper", func() int64 { return one1.Status().Reaper.Targets[0].Passes },
		func(n int64) bool { return n >= before+3 })
	if state := one[string](t, s.pool, "SELECT state FROM "+table+" WHERE id = $1", stale); state != "running" {
		t.Errorf("the job of the second schema is %s", state)
	}
	if total := one1.Status().Reaper.Totals.Total(); total != 0 {
		t.Errorf("the first schema's reaper took %d leases", total)
	}
	// Its own takes it, and wakes its worker, whose poll is far away.
	_, _, ran2, _ = start(second)
	if got := receive(t, ran2, "the reaped job"); got.N != 200 || got.Attempt != 2 {
		t.Errorf("ran %+v", got)
	}
}
