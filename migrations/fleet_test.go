package migrations_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/migrations"
	"github.com/pgqueue/pgqueue/pgqueue"
)

// A statement waits for a migration as long as its lock_timeout, half a second. All that is beyond is for a busy machine.
const longestWait = 3 * time.Second

// blockALTER opens two transactions that stay open until release: a reader of the tables in an old snapshot, and a writer that has not
// committed. Any ALTER of these tables waits for both, and everybody else behind it.
func blockALTER(t *testing.T, pool *pgxpool.Pool) (release func()) {
	t.Helper()
	reader := blocker(t, pool, `SET TRANSACTION ISOLATION LEVEL REPEATABLE READ;
		SELECT (SELECT count(*) FROM pgqueue.jobs), (SELECT count(*) FROM pgqueue.history)`)
	writer := blocker(t, pool, `INSERT INTO pgqueue.jobs (queue, kind) VALUES ('other', 'k'); DELETE FROM pgqueue.history WHERE queue = 'other'`)
	return func() { reader(); writer() }
}

// goOn wants a fleet to claim many times more.
func (f *fleet) goOn(t *testing.T, more int) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for goal := f.claims() + more; f.claims() < goal; {
		select {
		case <-testContext(t).Done():
			t.Fatal("the fleet stands still")
		case <-tick.C:
		}
	}
}

// The real upgrades are additive: they go through beside a fleet at work, a reader and a writer of jobs and history that stay, and nobody
// waits for them.
func TestUpgrade_NeverBlocksARunningFleet(t *testing.T) {
	for from := uint(1); from < migrations.Latest; from++ {
		t.Run(fmt.Sprintf("from %d", from), func(t *testing.T) {
			pool := at(t, from)
			old := startFleet(t, pool, max(from, oldestKept), 4, 2)
			defer func() {
				old.end()
				old.check(t, pool, longestWait)
			}()
			waitFor(t, pool, "the fleet to work", `(SELECT count(*) > 50 FROM pgqueue.history)`)
			release := blockALTER(t, pool)
			defer release()
			// Nobody ends those transactions: an upgrade that needs more than they allow ends with the context.
			ctx, cancel := context.WithTimeout(testContext(t), 30*time.Second)
			defer cancel()
			if err := migrations.Up(ctx, pool, "", quiet()); err != nil {
				t.Fatalf("up from %d: %v", from, err)
			}
			requireNoDrift(t, pool, "")
			old.goOn(t, 200) // the programs of the old version go on with the new one
		})
	}
}

// Version 4 gives queues a column, for which it needs the table to itself for a moment. Whoever keeps a transaction open that has read queues
// delays it, as long as it likes; everybody else goes on meanwhile.
func TestUpgrade_ToVersion4WaitsForReadersOfQueuesAndBlocksNobody(t *testing.T) {
	pool := newPool(t, at(t, 3).Config().ConnString(), func(config *pgxpool.Config) { config.MaxConns = 12 })
	old := startFleet(t, pool, 3, 4, 2)
	defer func() {
		old.end()
		old.check(t, pool, longestWait)
	}()
	waitFor(t, pool, "the fleet to work", `(SELECT count(*) > 50 FROM pgqueue.history)`)
	release := blocker(t, pool, `SELECT count(*) FROM pgqueue.queues`)
	logs := &waitLog{seen: make(chan struct{})}
	migrated := make(chan error, 1)
	go func() { migrated <- migrations.Up(testContext(t), pool, "", migrations.WithLogger(slog.New(logs))) }()
	select {
	case <-logs.seen: // it has given up its place once
	case err := <-migrated:
		t.Fatalf("up beside a reader of queues: %v", err)
	}
	old.goOn(t, 40)
	select {
	case err := <-migrated:
		t.Fatalf("up beside a reader of queues that stays: %v", err)
	default:
	}
	if state := status(t, pool, ""); state.Version != 3 || state.Dirty {
		t.Errorf("while the reader stays: %+v", state)
	}
	release()
	if err := <-migrated; err != nil {
		t.Fatalf("up after the reader has gone: %v", err)
	}
	requireNoDrift(t, pool, "")
	old.goOn(t, 40)
}

// C94: a step that must ALTER the table of jobs, behind a reader. It gives up its place in the queue of the lock again and again, so that
// enqueues and claims get through, and succeeds when the reader has gone.
func TestC94_AMigrationBehindALongTransactionBlocksNobody(t *testing.T) {
	pool := newPool(t, newDatabase(t), func(config *pgxpool.Config) { config.MaxConns = 12 })
	mustUp(t, pool, "")
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	client, err := pgqueue.NewClient(pool, pgqueue.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close(context.Background()) }()
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[ping]) error { return nil })
	worker, err := client.NewWorker(mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"q": {Workers: 4}}})
	if err != nil {
		t.Fatal(err)
	}
	workerOver := make(chan error, 1)
	go func() { workerOver <- worker.Run(ctx) }()

	var latencies []time.Duration
	enough, produced := make(chan struct{}), make(chan error, 1)
	go func() {
		produced <- func() error {
			for {
				select {
				case <-enough:
					return nil
				default:
				}
				start := time.Now()
				if _, err := client.Enqueue(ctx, pool, ping{}, pgqueue.OnQueue("q")); err != nil {
					return err
				}
				latencies = append(latencies, time.Since(start))
			}
		}()
	}()
	waitFor(t, pool, "the worker to work", `EXISTS (SELECT FROM pgqueue.history)`)
	release := blocker(t, pool, `SELECT 1 FROM pgqueue.jobs LIMIT 1`)
	source := oneMore(t, `ALTER TABLE pgqueue.jobs ADD COLUMN extra int; CREATE TABLE pgqueue.more (id int);`)

	// One Up has a deadline, and ends with it.
	short, cancelShort := context.WithTimeout(ctx, 1500*time.Millisecond)
	defer cancelShort()
	if err := migrations.UpWith(short, pool, "", source); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("up behind a reader that stays: %v", err)
	}
	if state := status(t, pool, ""); state.Version != migrations.Latest || state.Dirty {
		t.Errorf("after giving up: %+v", state)
	}
	// Another one waits for as long as the reader stays.
	migrated := make(chan error, 1)
	go func() { migrated <- migrations.UpWith(ctx, pool, "", source) }()
	hold := time.NewTimer(time.Duration(size(5, 30)) * time.Second)
	<-hold.C
	select {
	case err := <-migrated:
		t.Errorf("up beside the reader: %v", err)
		migrated <- err
	default:
	}
	release()
	if err := <-migrated; err != nil {
		t.Errorf("up after the reader has gone: %v", err)
	}
	if state := status(t, pool, ""); state.Version != more || state.Dirty {
		t.Errorf("at the end: %+v", state)
	}
	close(enough)
	if err := <-produced; err != nil {
		t.Errorf("an enqueue: %v", err)
	}
	waitFor(t, pool, "the worker to finish", `NOT EXISTS (SELECT FROM pgqueue.jobs)`)
	if n := value[int](t, pool, `SELECT count(*) FROM pgqueue.history WHERE state = 'succeeded'`); n != len(latencies) {
		t.Errorf("%d jobs were enqueued, %d have succeeded", len(latencies), n)
	}
	cancel()
	if err := <-workerOver; err != nil {
		t.Errorf("the worker: %v", err)
	}
	slices.Sort(latencies)
	p99, longest := latencies[len(latencies)*99/100], latencies[len(latencies)-1]
	t.Logf("%d enqueues: 99 %% within %v, the longest %v", len(latencies), p99.Round(time.Millisecond), longest.Round(time.Millisecond))
	if p99 > time.Second || longest > longestWait {
		t.Errorf("enqueues waited: 99 %% within %v, the longest %v", p99, longest)
	}
}
