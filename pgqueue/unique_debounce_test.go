package pgqueue_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// dueIn is in how many minutes from now, rounded, the only job is due, by the clock of the database.
func dueIn(t testing.TB, pool *pgxpool.Pool) int {
	t.Helper()
	return one[int](t, pool, "SELECT round(extract(epoch FROM run_at - statement_timestamp()) / 60)::int FROM pgqueue.jobs")
}

// pass lets minutes go by: all that is stored moves into the past.
func pass(t testing.TB, pool *pgxpool.Pool, minutes int) {
	t.Helper()
	exec(t, pool, `UPDATE pgqueue.jobs SET run_at = run_at - $1 * interval '1 minute', metadata = CASE WHEN metadata ? 'pgqueue.debounce_until'
		THEN metadata || jsonb_build_object('pgqueue.debounce_until', (metadata->'pgqueue.debounce_until')::bigint - $1 * 60000000::bigint) ELSE metadata END`, minutes)
}

// claimed makes the only job look claimed.
func claimed(t testing.TB, pool *pgxpool.Pool) {
	t.Helper()
	exec(t, pool, `UPDATE pgqueue.jobs SET state = 'running', attempt = attempt + 1, claimed_generation = generation, claimed_by = 'w', claimed_at = now(),
		lease_expires_at = now() + interval '1 hour'`)
}

func TestDebouncePushesUpToItsMaximum(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := newClient(t, db.Pool)
	debounce := func(name string) pgqueue.Enqueued {
		return enqueue(t, client, db.Pool, greet{name}, pgqueue.WithKey("k"), pgqueue.WithDebounce(10*time.Minute, 25*time.Minute))
	}
	requireDue := func(want int) {
		t.Helper()
		if got := dueIn(t, db.Pool); got != want {
			t.Fatalf("due in %d minutes, want %d", got, want)
		}
	}
	first := debounce("1")
	requireOutcome(t, first, pgqueue.Inserted)
	requireDue(10)
	pass(t, db.Pool, 8)
	requireDue(2)
	requireOutcome(t, debounce("2"), pgqueue.Replaced)
	requireDue(10) // 18 after the first
	pass(t, db.Pool, 8)
	debounce("3")
	requireDue(9) // 25 after the first
	pass(t, db.Pool, 8)
	debounce("4")
	requireDue(1)
	pass(t, db.Pool, 8) // overdue: nobody has claimed it
	last := debounce("5")
	requireDue(-7)
	if last.ID != first.ID {
		t.Error("the burst has two jobs")
	}
	if stored := one[string](t, db.Pool, "SELECT concat_ws(' ', payload->>'name', generation) FROM pgqueue.jobs"); stored != "5 5" {
		t.Errorf("the latest input does not win: %s", stored)
	}

	// It runs; what comes meanwhile begins anew, and has its own maximum.
	claimed(t, db.Pool)
	debounce("6")
	requireDue(10)
	pass(t, db.Pool, 9)
	debounce("7")
	requireDue(10)
	pass(t, db.Pool, 9)
	debounce("8")
	requireDue(7)
	// The first run ends, the second is claimed and fails: that one's input has been claimed as well.
	exec(t, db.Pool, "UPDATE pgqueue.jobs SET state = 'pending', lease_expires_at = NULL, claimed_at = NULL, claimed_by = NULL")
	pass(t, db.Pool, 2)
	debounce("9")
	requireDue(5)
	claimed(t, db.Pool)
	exec(t, db.Pool, "UPDATE pgqueue.jobs SET state = 'pending', lease_expires_at = NULL, claimed_at = NULL, failures = 1, run_at = now() + interval '1 minute'")
	debounce("10")
	requireDue(10)
	// Nobody claims it for long: it keeps its place in line.
	pass(t, db.Pool, 30)
	debounce("11")
	requireDue(-20)
}

// Another enqueue of the key keeps what it promised: its job is not pushed.
func TestDebounceDoesNotPushWhatWasPromised(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := newClient(t, db.Pool)
	debounce := func() {
		t.Helper()
		enqueue(t, client, db.Pool, greet{}, pgqueue.WithKey("k"), pgqueue.WithDebounce(10*time.Minute, time.Hour), pgqueue.WithMetadata(map[string]int{"n": 1}))
	}
	enqueue(t, client, db.Pool, greet{}, pgqueue.WithKey("k"), pgqueue.WithDelay(5*time.Minute))
	for range 2 { // and not at the second try either
		debounce()
		if due := dueIn(t, db.Pool); due != 5 {
			t.Errorf("due in %d minutes, want 5", due)
		}
	}
	enqueue(t, client, db.Pool, greet{}, pgqueue.WithKey("k"))
	debounce()
	if due := dueIn(t, db.Pool); due != 0 {
		t.Errorf("due in %d minutes, want 0", due)
	}

	// Whatever somebody wrote where the end of a burst stands, the enqueue goes on.
	for _, until := range []string{`"soon"`, `null`, `{}`, `1e300`, `-1e300`, `9223372036854775807`, `0.5`} {
		exec(t, db.Pool, `UPDATE pgqueue.jobs SET run_at = now() + interval '5 minutes', metadata = jsonb_build_object('pgqueue.debounce_until', $1::text::jsonb)`, until)
		debounce()
		if due := dueIn(t, db.Pool); due != 5 && due != 10 {
			t.Errorf("after %s: due in %d minutes", until, due)
		}
	}
	if stored := one[int](t, db.Pool, "SELECT (metadata->'n')::int FROM pgqueue.jobs"); stored != 1 {
		t.Error("the metadata is lost")
	}
}

// With a worker: a burst is one run with the latest input, and what comes during a run is one more.
func TestDebounceRunsOnceForABurst(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := newClient(t, db.Pool)
	debounce := func(name string) {
		enqueue(t, client, db.Pool, greet{name}, pgqueue.WithKey("k"), pgqueue.WithDebounce(300*time.Millisecond, time.Minute))
	}
	names, goOn := make(chan string, 10), make(chan struct{}, 10)
	early := make(chan bool, 10)
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(ctx context.Context, job *pgqueue.Job[greet]) error {
		var late bool
		if err := db.Pool.QueryRow(ctx, "SELECT run_at <= claimed_at FROM pgqueue.jobs WHERE id = $1", job.ID).Scan(&late); err != nil {
			return err
		}
		early <- !late
		names <- job.Args.Name
		<-goOn
		return nil
	})
	startWorker(t, client, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {Workers: 2}}})
	for _, name := range []string{"1", "2", "3"} {
		debounce(name)
	}
	if name := receive(t, names, "the burst runs"); name != "3" {
		t.Fatalf("it ran with input %s", name)
	}
	debounce("4")
	debounce("5")
	goOn <- struct{}{}
	if name := receive(t, names, "what came meanwhile runs"); name != "5" {
		t.Fatalf("it ran with input %s", name)
	}
	goOn <- struct{}{}
	eventually(t, "all is done", func() bool { return one[int](t, db.Pool, "SELECT count(*) FROM pgqueue.jobs") == 0 })
	if len(names) != 0 || <-early || <-early {
		t.Error("a third run, or one that was not due")
	}
	debounce("6")
	if due := one[bool](t, db.Pool, "SELECT run_at > created_at FROM pgqueue.jobs"); !due {
		t.Error("the new burst does not wait")
	}
	goOn <- struct{}{}
	if name := receive(t, names, "the new burst runs"); name != "6" {
		t.Fatal(name)
	}
}

// One job in a slot of the database's clock, for each key.
func TestThrottleIsOncePerSlotAndKey(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := newClient(t, db.Pool)
	const century = 100 * 365 * day // its slot does not end during the test
	byKind := func(period time.Duration) pgqueue.Enqueued {
		return enqueue(t, client, db.Pool, greet{}, pgqueue.WithThrottle(period))
	}
	first := byKind(century)
	requireOutcome(t, first, pgqueue.Inserted)
	requireDuplicate(t, byKind(century), first.ID, pgqueue.JobPending)
	requireOutcome(t, byKind(50*365*day), pgqueue.Inserted) // another slot
	// It is the same as unique by kind in that period.
	requireDuplicate(t, enqueue(t, client, db.Pool, greet{"x"}, pgqueue.WithUnique(pgqueue.Unique{IgnoreArgs: true, Period: century})), first.ID, pgqueue.JobPending)

	keyed := func(key string) pgqueue.Enqueued {
		return enqueue(t, client, db.Pool, greet{key}, pgqueue.WithKey(key), pgqueue.WithThrottle(century))
	}
	a := keyed("a")
	requireOutcome(t, a, pgqueue.Inserted)
	requireOutcome(t, keyed("b"), pgqueue.Inserted)
	requireDuplicate(t, keyed("a"), a.ID, pgqueue.JobPending)
	exec(t, db.Pool, "DELETE FROM pgqueue.jobs WHERE id = $1", a.ID)
	requireDuplicate(t, keyed("a"), a.ID, "")

	// The next slot; the job of the last one, which is still pending, takes the input.
	b := one[int64](t, db.Pool, "SELECT id FROM pgqueue.jobs WHERE key = 'b'")
	exec(t, db.Pool, "UPDATE pgqueue.unique_keys SET expires_at = statement_timestamp()")
	got := keyed("b")
	if got.Outcome != pgqueue.Replaced || got.ID != b {
		t.Errorf("%+v, want %d replaced", got, b)
	}
	requireDuplicate(t, keyed("b"), b, pgqueue.JobPending)

	// Slots begin at whole multiples of their length.
	exec(t, db.Pool, "DELETE FROM pgqueue.unique_keys WHERE expires_at <= statement_timestamp()")
	byKind(time.Hour)
	byKind(7 * time.Millisecond)
	if wrong := one[int](t, db.Pool, `SELECT count(*) FROM pgqueue.unique_keys, LATERAL (SELECT split_part(key, ':', 2)::numeric AS us) s
		WHERE extract(epoch FROM expires_at) * 1000000 % us <> 0 OR expires_at <= created_at OR extract(epoch FROM expires_at - created_at) * 1000000 > us`); wrong != 0 {
		t.Errorf("%d slots end elsewhere", wrong)
	}
}
