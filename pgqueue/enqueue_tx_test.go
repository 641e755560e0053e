package pgqueue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// A duplicate is an answer, not an error, and the caller's transaction goes on.
func TestC01_DuplicateLeavesTransactionUsable(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := newClient(t, db.Pool)
	exec(t, db.Pool, "CREATE TABLE orders (id int PRIMARY KEY)")
	first := enqueue(t, client, db.Pool, greet{}, pgqueue.WithKey("K"), pgqueue.WithRevision("1"))
	requireOutcome(t, first, pgqueue.Inserted)

	tx := begin(t, db.Pool, pgx.TxOptions{})
	exec(t, tx, "INSERT INTO orders VALUES (1)")
	again := enqueue(t, client, tx, greet{}, pgqueue.WithKey("K"), pgqueue.WithRevision("1"))
	requireOutcome(t, again, pgqueue.Same)
	replaced := enqueue(t, client, tx, greet{Name: "new"}, pgqueue.WithKey("K"), pgqueue.WithRevision("2"))
	requireOutcome(t, replaced, pgqueue.Replaced)
	if again.ID != first.ID || replaced.ID != first.ID {
		t.Fatalf("ids %d, %d, want %d", again.ID, replaced.ID, first.ID)
	}
	exec(t, tx, "INSERT INTO orders VALUES (2)")
	many, err := client.EnqueueMany(testContext(t), tx, []pgqueue.NewJob{
		{Args: greet{}, Options: []pgqueue.EnqueueOption{pgqueue.WithKey("K"), pgqueue.WithRevision("2")}},
		{Args: greet{}, Options: []pgqueue.EnqueueOption{pgqueue.WithKey("new")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	requireOutcome(t, many[0], pgqueue.Same)
	requireOutcome(t, many[1], pgqueue.Inserted)
	exec(t, tx, "INSERT INTO orders VALUES (3)")
	if err := tx.Commit(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if n := one[int](t, db.Pool, "SELECT count(*) FROM orders"); n != 3 {
		t.Fatalf("%d orders, want 3", n)
	}
	if n := one[int](t, db.Pool, "SELECT count(*) FROM pgqueue.jobs"); n != 2 {
		t.Fatalf("%d jobs, want 2", n)
	}
}

// What a savepoint takes back is gone without trace, hint included.
func TestC02_RollbackLeavesNothing(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := newClient(t, db.Pool)
	hints := listen(t, db.Pool, "pgqueue")

	tx := begin(t, db.Pool, pgx.TxOptions{})
	sub, err := tx.Begin(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	enqueue(t, client, sub, greet{}, pgqueue.OnQueue("gone"), pgqueue.WithKey("K"))
	enqueue(t, client, sub, greet{}, pgqueue.OnQueue("kept"))
	if err := sub.Rollback(testContext(t)); err != nil {
		t.Fatal(err)
	}
	enqueue(t, client, tx, greet{}, pgqueue.OnQueue("kept"))
	if err := tx.Commit(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if got := hints.until(t, db.Pool, "pgqueue"); !slices.Equal(got, []string{"kept"}) {
		t.Fatalf("hints %q, want [kept]", got)
	}
	if n := one[int](t, db.Pool, "SELECT count(*) FROM pgqueue.jobs"); n != 1 {
		t.Fatalf("%d jobs, want 1", n)
	}
	requireOutcome(t, enqueue(t, client, db.Pool, greet{}, pgqueue.OnQueue("gone"), pgqueue.WithKey("K")), pgqueue.Inserted)
	hints.until(t, db.Pool, "pgqueue")

	// The savepoint is released and the whole is rolled back.
	tx = begin(t, db.Pool, pgx.TxOptions{})
	if sub, err = tx.Begin(testContext(t)); err != nil {
		t.Fatal(err)
	}
	enqueue(t, client, sub, greet{}, pgqueue.OnQueue("gone"), pgqueue.WithKey("L"))
	if err := sub.Commit(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if err := tx.Rollback(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if got := hints.until(t, db.Pool, "pgqueue"); len(got) != 0 {
		t.Fatalf("hints %q after a rollback", got)
	}
	if n := one[int](t, db.Pool, "SELECT count(*) FROM pgqueue.jobs WHERE key = 'L'"); n != 0 {
		t.Fatal("a job outlived its transaction")
	}
}

// The loser of a race waits for the winner's end and then does what is right.
func TestC03_RaceWhereTheWinnerRollsBack(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := newClient(t, db.Pool)
	for _, commit := range []bool{false, true} {
		key := fmt.Sprintf("commit=%t", commit)
		winner := begin(t, db.Pool, pgx.TxOptions{})
		first := enqueue(t, client, winner, greet{}, pgqueue.WithKey(key))
		loser := begin(t, db.Pool, pgx.TxOptions{})
		pid := one[int](t, loser, "SELECT pg_backend_pid()")
		type answer struct {
			enqueued pgqueue.Enqueued
			err      error
		}
		answers := make(chan answer, 1)
		go func() {
			enqueued, err := client.Enqueue(context.Background(), loser, greet{}, pgqueue.WithKey(key))
			answers <- answer{enqueued, err}
		}()
		awaitLockWait(t, db, pid)
		select {
		case got := <-answers:
			t.Fatalf("%s: did not wait: %+v", key, got)
		default:
		}
		end := winner.Rollback
		want := pgqueue.Inserted
		if commit {
			end, want = winner.Commit, pgqueue.Replaced
		}
		if err := end(testContext(t)); err != nil {
			t.Fatal(err)
		}
		got := <-answers
		if got.err != nil {
			t.Fatal(got.err)
		}
		requireOutcome(t, got.enqueued, want)
		if commit && got.enqueued.ID != first.ID {
			t.Fatalf("id %d, want the winner's %d", got.enqueued.ID, first.ID)
		}
		if err := loser.Commit(testContext(t)); err != nil {
			t.Fatal(err)
		}
		if n := one[int](t, db.Pool, "SELECT count(*) FROM pgqueue.jobs WHERE key = $1", key); n != 1 {
			t.Fatalf("%s: %d jobs, want 1", key, n)
		}
	}

	t.Run("fifty", func(t *testing.T) {
		var group sync.WaitGroup
		for i := range 50 {
			group.Add(1)
			go func() {
				defer group.Done()
				err := pgx.BeginFunc(context.Background(), db.Pool, func(tx pgx.Tx) error {
					if _, err := client.Enqueue(context.Background(), tx, greet{}, pgqueue.WithKey("fifty")); err != nil {
						return err
					}
					if i%2 == 0 {
						return errRolledBack
					}
					return nil
				})
				if err != nil && !errors.Is(err, errRolledBack) {
					t.Error(err)
				}
			}()
		}
		group.Wait()
		if n := one[int](t, db.Pool, "SELECT count(*) FROM pgqueue.jobs WHERE key = 'fifty'"); n != 1 {
			t.Fatalf("%d jobs, want 1", n)
		}
		if n := one[int](t, db.Pool, "SELECT generation FROM pgqueue.jobs WHERE key = 'fifty'"); n != 25 {
			t.Fatalf("generation %d, want one for each of the 25 that committed", n)
		}
	})
}

var errRolledBack = errors.New("rolled back on purpose")

// awaitLockWait returns when the backend waits for a lock.
func awaitLockWait(t *testing.T, db *pgqueuetest.DB, pid int) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !one[bool](t, db.Pool, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1 AND wait_event_type = 'Lock')", pid) {
		if time.Now().After(deadline) {
			t.Fatal("the backend never waited for a lock")
		}
	}
}

// A snapshot that is too old is the caller's to retry; READ COMMITTED always gets an id.
func TestC15_IsolationLevels(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := newClient(t, db.Pool)
	for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		for _, revision := range []bool{false, true} {
			key := fmt.Sprintf("%s revision=%t", level, revision)
			options := []pgqueue.EnqueueOption{pgqueue.WithKey(key)}
			if revision {
				options = append(options, pgqueue.WithRevision("1"))
			}
			tx := begin(t, db.Pool, pgx.TxOptions{IsoLevel: level})
			exec(t, tx, "SELECT 1 FROM pgqueue.jobs") // takes the snapshot
			enqueue(t, client, db.Pool, greet{}, options...)
			if _, err := client.Enqueue(testContext(t), tx, greet{}, options...); !isCode(err, "40001") {
				t.Fatalf("%s: error %v, want 40001", key, err)
			}
		}
	}
	// A job that the old snapshot shows as live has finished: its enqueue must not be answered with Same.
	requireOutcome(t, enqueue(t, client, db.Pool, greet{}, pgqueue.WithKey("done"), pgqueue.WithRevision("1")), pgqueue.Inserted)
	tx := begin(t, db.Pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	exec(t, tx, "SELECT 1 FROM pgqueue.jobs")
	exec(t, db.Pool, "DELETE FROM pgqueue.jobs WHERE key = 'done'")
	if got, err := client.Enqueue(testContext(t), tx, greet{}, pgqueue.WithKey("done"), pgqueue.WithRevision("1")); err == nil && got.Outcome == pgqueue.Same {
		t.Fatal("the enqueue vanished: the job it was the same as had finished")
	}

	tx = begin(t, db.Pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	exec(t, tx, "SELECT 1 FROM pgqueue.jobs")
	first := enqueue(t, client, db.Pool, greet{}, pgqueue.WithKey("rc"), pgqueue.WithRevision("1"))
	got := enqueue(t, client, tx, greet{}, pgqueue.WithKey("rc"), pgqueue.WithRevision("1"))
	requireOutcome(t, got, pgqueue.Same)
	if got.ID != first.ID {
		t.Fatalf("id %d, want %d", got.ID, first.ID)
	}
}
