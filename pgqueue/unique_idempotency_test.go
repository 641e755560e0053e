package pgqueue_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

const day = 24 * time.Hour

// requireDuplicate checks that an enqueue found another job, in that state; "" is one that has ended.
func requireDuplicate(t testing.TB, got pgqueue.Enqueued, of int64, state pgqueue.JobState) {
	t.Helper()
	if want := (pgqueue.Enqueued{ID: of, Outcome: pgqueue.Duplicate, State: state}); got != want {
		t.Fatalf("%+v, want %+v", got, want)
	}
}

// awaitBlocked polls until so many sessions of the database wait for a lock.
func awaitBlocked(t testing.TB, pool *pgxpool.Pool, n int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d enqueues wait", n), func() bool {
		return one[int](t, pool, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") == n
	})
}

func TestAnIdempotencyKeyIsTakenForItsTime(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := newClient(t, db.Pool)
	again := func() pgqueue.Enqueued {
		return enqueue(t, client, db.Pool, greet{"again"}, pgqueue.WithIdempotencyKey("order 17", day), pgqueue.WithPriority(4))
	}
	first := enqueue(t, client, db.Pool, greet{"ada"}, pgqueue.WithIdempotencyKey("order 17", time.Hour))
	requireOutcome(t, first, pgqueue.Inserted)
	requireDuplicate(t, again(), first.ID, pgqueue.JobPending)
	exec(t, db.Pool, "UPDATE pgqueue.jobs SET state = 'running', attempt = 1, claimed_generation = 1, claimed_at = now(), lease_expires_at = now()")
	requireDuplicate(t, again(), first.ID, pgqueue.JobRunning)
	exec(t, db.Pool, "DELETE FROM pgqueue.jobs")
	requireDuplicate(t, again(), first.ID, "")
	if left := one[string](t, db.Pool, "SELECT (expires_at - created_at)::text FROM pgqueue.unique_keys"); left != "01:00:00" {
		t.Errorf("the key is taken for %s, and not for the time that its first enqueue said", left)
	}

	// Other queues and kinds have keys of their own, and so have jobs.
	requireOutcome(t, enqueue(t, client, db.Pool, greet{}, pgqueue.WithIdempotencyKey("order 17", day), pgqueue.OnQueue("other")), pgqueue.Inserted)
	requireOutcome(t, enqueue(t, client, db.Pool, other{}, pgqueue.WithIdempotencyKey("order 17", day)), pgqueue.Inserted)
	requireOutcome(t, enqueue(t, client, db.Pool, greet{}, pgqueue.WithKey("order 17")), pgqueue.Inserted)

	// When its time has passed it is free, deleted or not.
	exec(t, db.Pool, "UPDATE pgqueue.unique_keys SET created_at = created_at - interval '1 hour', expires_at = statement_timestamp() WHERE job_id = $1", first.ID)
	second := again()
	requireOutcome(t, second, pgqueue.Inserted)
	if second.ID == first.ID {
		t.Error("the second job has the number of the first")
	}
	requireDuplicate(t, again(), second.ID, pgqueue.JobPending)
	if left := one[string](t, db.Pool, "SELECT (expires_at - created_at)::text FROM pgqueue.unique_keys WHERE job_id = $1", second.ID); left != "1 day" {
		t.Errorf("the key that was taken over is taken for %s", left)
	}
}

// What changed nothing leaves the transaction usable and wakes nobody.
func TestADuplicateLeavesTheTransactionUsable(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := newClient(t, db.Pool)
	first := enqueue(t, client, db.Pool, greet{}, pgqueue.WithIdempotencyKey("k", day))
	hears := listen(t, db.Pool, "pgqueue")
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		tx := begin(t, db.Pool, pgx.TxOptions{IsoLevel: level})
		requireDuplicate(t, enqueue(t, client, tx, greet{}, pgqueue.WithIdempotencyKey("k", day)), first.ID, pgqueue.JobPending)
		if n := one[int](t, tx, "SELECT count(*) FROM pgqueue.jobs"); n != 1 {
			t.Errorf("%s: %d jobs", level, n)
		}
		if err := tx.Commit(testContext(t)); err != nil {
			t.Fatal(err)
		}
	}
	if hints := hears.until(t, db.Pool, "pgqueue"); len(hints) != 0 {
		t.Errorf("duplicates sent the hints %q", hints)
	}
}

// Nor does the trailing hint of a client whose hints are held back.
func TestDuplicatesLeaveNoHintBehind(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	enqueue(t, newClient(t, db.Pool), db.Pool, greet{}, pgqueue.WithIdempotencyKey("k", day))
	hears := listen(t, db.Pool, "pgqueue")
	client := newClient(t, db.Pool)
	for range 60 { // more than a client sends at once
		enqueue(t, client, db.Pool, greet{}, pgqueue.WithIdempotencyKey("k", day))
	}
	if err := client.Close(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if hints := hears.until(t, db.Pool, "pgqueue"); len(hints) != 0 {
		t.Errorf("duplicates sent %d hints", len(hints))
	}
}

// Duplicates take no lock: they do not queue behind one another, and write nothing.
func TestDuplicatesDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := newClient(t, db.Pool)
	first := enqueue(t, client, db.Pool, greet{}, pgqueue.WithIdempotencyKey("k", day))
	tx := begin(t, db.Pool, pgx.TxOptions{})
	requireDuplicate(t, enqueue(t, client, tx, greet{}, pgqueue.WithIdempotencyKey("k", day)), first.ID, pgqueue.JobPending)
	before := one[string](t, db.Pool, "SELECT ctid::text || xmax FROM pgqueue.unique_keys")
	other := begin(t, db.Pool, pgx.TxOptions{})
	exec(t, other, "SET LOCAL lock_timeout = '1ms'")
	requireDuplicate(t, enqueue(t, client, other, greet{}, pgqueue.WithIdempotencyKey("k", day)), first.ID, pgqueue.JobPending)
	if after := one[string](t, db.Pool, "SELECT ctid::text || xmax FROM pgqueue.unique_keys"); after != before {
		t.Errorf("a duplicate wrote or locked the row: %s, %s", before, after)
	}
}

// The second enqueue waits for the first one's transaction, and goes by how that ends.
func TestASecondEnqueueWaitsForTheFirst(t *testing.T) {
	t.Parallel()
	for name, option := range map[string]pgqueue.EnqueueOption{
		"idempotency key": pgqueue.WithIdempotencyKey("k", day),
		"unique, kept":    pgqueue.WithUnique(pgqueue.Unique{Keep: day}),
		"unique, slot":    pgqueue.WithUnique(pgqueue.Unique{Period: 100 * 365 * day}),
		"unique, live":    pgqueue.WithUnique(pgqueue.Unique{}),
		"throttle":        pgqueue.WithThrottle(100 * 365 * day),
	} {
		for _, commit := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, commit %t", name, commit), func(t *testing.T) {
				t.Parallel()
				db := pgqueuetest.New(t)
				client := newClient(t, db.Pool)
				ctx := testContext(t)
				tx := begin(t, db.Pool, pgx.TxOptions{})
				first := enqueue(t, client, tx, greet{"ada"}, option)
				type answer struct {
					pgqueue.Enqueued
					err error
				}
				answers := make(chan answer, 1)
				go func() {
					second, err := client.Enqueue(ctx, db.Pool, greet{"ada"}, option)
					answers <- answer{second, err}
				}()
				awaitBlocked(t, db.Pool, 1)
				end := tx.Rollback
				if commit {
					end = tx.Commit
				}
				if err := end(ctx); err != nil {
					t.Fatal(err)
				}
				second := receive(t, answers, "the second enqueue answers")
				if second.err != nil {
					t.Fatal(second.err)
				}
				if commit {
					requireDuplicate(t, second.Enqueued, first.ID, pgqueue.JobPending)
				} else {
					requireOutcome(t, second.Enqueued, pgqueue.Inserted)
				}
				if n := one[int](t, db.Pool, "SELECT count(*) FROM pgqueue.jobs"); n != 1 {
					t.Errorf("%d jobs", n)
				}
			})
		}
	}
}

// A savepoint that is rolled back takes the key along.
func TestARolledBackSavepointFreesTheKey(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := newClient(t, db.Pool)
	ctx := testContext(t)
	tx := begin(t, db.Pool, pgx.TxOptions{})
	savepoint, err := tx.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	enqueue(t, client, savepoint, greet{}, pgqueue.WithIdempotencyKey("k", day))
	if err := savepoint.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	requireOutcome(t, enqueue(t, client, tx, greet{}, pgqueue.WithIdempotencyKey("k", day)), pgqueue.Inserted)
}

// With an old snapshot, a key that was taken since is a serialization failure, not a second job and not a guess.
func TestAKeyTakenSinceTheSnapshotIs40001(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := newClient(t, db.Pool)
	for i, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		for name, option := range map[string]pgqueue.EnqueueOption{
			"idempotency": pgqueue.WithIdempotencyKey(fmt.Sprint(i), day),
			"live":        pgqueue.WithUnique(pgqueue.Unique{}),
		} {
			args := greet{fmt.Sprint(i, name)}
			tx := begin(t, db.Pool, pgx.TxOptions{IsoLevel: level})
			one[int](t, tx, "SELECT count(*) FROM pgqueue.jobs")
			enqueue(t, client, db.Pool, args, option)
			if got, err := client.Enqueue(testContext(t), tx, args, option); !isCode(err, "40001") {
				t.Errorf("%s, %s: %+v, %v", level, name, got, err)
			}
		}
	}
}

// A job that an old snapshot shows as live has ended: the enqueue must not vanish into it.
func TestAnOldSnapshotDoesNotFindAJobThatHasEnded(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := newClient(t, db.Pool)
	for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		enqueue(t, client, db.Pool, greet{string(level)}, pgqueue.WithUnique(pgqueue.Unique{}))
		tx := begin(t, db.Pool, pgx.TxOptions{IsoLevel: level})
		one[int](t, tx, "SELECT count(*) FROM pgqueue.jobs")
		exec(t, db.Pool, "DELETE FROM pgqueue.jobs")
		got, err := client.Enqueue(testContext(t), tx, greet{string(level)}, pgqueue.WithUnique(pgqueue.Unique{}))
		if !isCode(err, "40001") && (err != nil || got.Outcome != pgqueue.Inserted) {
			t.Errorf("%s: %+v, %v", level, got, err)
		}
	}
}

// A hundred at once, half of which roll back: one job, whoever it is of, and each of the others knows it.
func TestAHundredEnqueuersOfOneKey(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	pool := poolLike(t, db.Pool, func(c *pgxpool.Config) { c.MaxConns = 25 })
	client := newClient(t, pool)
	ctx := testContext(t)
	changed := errors.New("changed my mind")
	for window := range size(3, 20) {
		var (
			group    sync.WaitGroup
			inserted atomic.Int64
			answers  sync.Map
		)
		for i := range 100 {
			group.Go(func() {
				err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
					got, err := client.Enqueue(ctx, tx, greet{fmt.Sprint(i)}, pgqueue.WithIdempotencyKey("k", time.Hour))
					if err != nil {
						return err
					}
					if i%2 == 0 {
						return changed
					}
					if got.Outcome == pgqueue.Inserted {
						inserted.Add(1)
					}
					answers.Store(got.ID, true)
					return nil
				})
				if err != nil && !errors.Is(err, changed) {
					t.Error(err)
				}
			})
		}
		group.Wait()
		known := 0
		answers.Range(func(any, any) bool { known++; return true })
		if n := one[int](t, pool, "SELECT count(*) FROM pgqueue.jobs"); n != window+1 || known != 1 || inserted.Load() != 1 {
			t.Fatalf("window %d: %d jobs in all, %d numbers told, %d inserted", window, n, known, inserted.Load())
		}
		exec(t, pool, "UPDATE pgqueue.unique_keys SET expires_at = statement_timestamp()")
	}
}

// A key of the job's own is another matter: the idempotency key is asked first, and then the job is replaced as always. The row of
// the key then names the job that has the input.
func TestAnIdempotencyKeyBesideAKey(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := newClient(t, db.Pool)
	event := func(n int) []pgqueue.EnqueueOption {
		return []pgqueue.EnqueueOption{pgqueue.WithKey("customer 1"), pgqueue.WithIdempotencyKey(fmt.Sprint("event ", n), day)}
	}
	first := enqueue(t, client, db.Pool, greet{"1"}, event(1)...)
	second := enqueue(t, client, db.Pool, greet{"2"}, event(2)...)
	requireOutcome(t, first, pgqueue.Inserted)
	requireOutcome(t, second, pgqueue.Replaced)
	if second.ID != first.ID {
		t.Fatal(first, second)
	}
	requireDuplicate(t, enqueue(t, client, db.Pool, greet{"1 again"}, event(1)...), first.ID, pgqueue.JobPending)
	requireDuplicate(t, enqueue(t, client, db.Pool, greet{"2 again"}, event(2)...), first.ID, pgqueue.JobPending)
	many, err := client.EnqueueMany(testContext(t), db.Pool, []pgqueue.NewJob{
		{Args: greet{"3"}, Options: event(3)}, {Args: greet{"3"}, Options: event(3)}, {Args: greet{"4"}, Options: append(event(4), pgqueue.WithRevision("r"))},
	})
	if err != nil {
		t.Fatal(err)
	}
	requireOutcome(t, many[0], pgqueue.Replaced)
	requireDuplicate(t, many[1], first.ID, pgqueue.JobPending)
	requireOutcome(t, many[2], pgqueue.Replaced)
	same := enqueue(t, client, db.Pool, greet{"5"}, append(event(5), pgqueue.WithRevision("r"))...)
	requireOutcome(t, same, pgqueue.Same)
	if n := one[int](t, db.Pool, "SELECT count(*) FROM pgqueue.unique_keys WHERE job_id = $1", first.ID); n != 5 {
		t.Errorf("%d of 5 keys name the job", n)
	}
	if name := one[string](t, db.Pool, "SELECT payload->>'name' FROM pgqueue.jobs"); name != "4" {
		t.Errorf("the input is that of %s", name)
	}
}

// A plain and a keyed enqueue send what they sent before there were rules.
func TestEnqueuesWithoutARuleSendTheirOwnStatements(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	seen := &statements{}
	client := newClient(t, poolLike(t, db.Pool, func(c *pgxpool.Config) { c.ConnConfig.Tracer = seen }))
	pool := poolLike(t, db.Pool, func(c *pgxpool.Config) { c.ConnConfig.Tracer = seen })
	enqueue(t, client, pool, greet{})
	enqueue(t, client, pool, greet{}, pgqueue.WithKey("k"), pgqueue.WithRevision("r"))
	many := func(jobs ...pgqueue.NewJob) {
		if _, err := client.EnqueueMany(context.Background(), pool, jobs); err != nil {
			t.Fatal(err)
		}
	}
	many(pgqueue.NewJob{Args: greet{}}, pgqueue.NewJob{Args: greet{}, Options: withKey("k")})
	if n := seen.with("unique"); n != 0 {
		t.Errorf("%d statements about rules", n)
	}
	seen.forget()
	// One job with a rule: the other queue's statement stays.
	many(pgqueue.NewJob{Args: greet{}, Options: []pgqueue.EnqueueOption{pgqueue.WithUnique(pgqueue.Unique{})}}, pgqueue.NewJob{Args: greet{}, Options: []pgqueue.EnqueueOption{pgqueue.OnQueue("b")}})
	if ruled, all := seen.with("unique"), seen.with("pgqueue"); ruled != 1 || all != 2 {
		t.Errorf("%d of %d statements are about rules, want 1 of 2", ruled, all)
	}
}
