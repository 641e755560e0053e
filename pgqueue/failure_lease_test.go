package pgqueue_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
	"github.com/pgqueue/pgqueue/runner"
)

// The reaper decides and writes in one statement.
func TestC34_TheReaperIsOneStatement(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	id := enqueue(t, client, db.Pool, task{}).ID
	abandon(t, db.Pool, id)
	sent := &statements{}
	traced := poolLike(t, db.Pool, func(config *pgxpool.Config) { config.ConnConfig.Tracer = sent })
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[other]) error { return nil }) // nothing is claimed here
	result := drain(t, client, mux, pgqueue.WorkerConfig{Pool: traced})
	if result.Recovered.Requeued != 1 {
		t.Fatalf("recovered %+v, want one job", result.Recovered)
	}
	job(t, db.Pool, id).requireState(t, "pending", 1, 1)
	sent.mutex.Lock()
	defer sent.mutex.Unlock()
	reaps := 0
	for _, sql := range sent.sent {
		switch {
		case strings.Contains(sql, "AS lapsed"): // which queues are worth a reap; decides nothing
			if strings.Contains(sql, "UPDATE") {
				t.Errorf("the question whether a lease ran out locks or writes:\n%s", sql)
			}
		case strings.Contains(sql, "lease_expires_at < now()"):
			reaps++
			if !strings.Contains(sql, "FOR UPDATE SKIP LOCKED") || !strings.Contains(sql, "UPDATE \"pgqueue\".jobs") {
				t.Errorf("the statement that looks for expired leases does not lock and write:\n%s", sql)
			}
		case strings.Contains(sql, "UPDATE \"pgqueue\".jobs") && !strings.Contains(sql, "attempt + 1"): // a claim is no reap
			t.Errorf("another statement writes jobs:\n%s", sql)
		}
	}
	if reaps != 1 {
		t.Errorf("%d statements looked for expired leases, want 1", reaps)
	}
}

// Verdicts that are being written while the reaper comes by stand.
func TestC34_TheReaperLeavesWhatIsBeingSettled(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	done, snoozed := enqueue(t, client, db.Pool, task{N: 1}).ID, enqueue(t, client, db.Pool, task{N: 2}).ID
	abandon(t, db.Pool, done)
	abandon(t, db.Pool, snoozed)

	// The verdicts of the two late workers, not committed yet.
	verdicts, err := db.Pool.Begin(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = verdicts.Rollback(context.Background()) }()
	exec(t, verdicts, `WITH d AS (DELETE FROM pgqueue.jobs WHERE id = $1 RETURNING *)
		INSERT INTO pgqueue.history (id, run_at, created_at, claimed_at, finished_at, day, attempt, generation, error_count, priority,
			failures, max_attempts, queue, kind, state, claimed_by, payload, metadata, tags)
		SELECT id, run_at, created_at, claimed_at, now(), (now() AT TIME ZONE 'UTC')::date, attempt, generation, error_count, priority,
			failures, max_attempts, queue, kind, 'succeeded', claimed_by, payload, metadata, tags FROM d`, done)
	exec(t, verdicts, `UPDATE pgqueue.jobs SET state = 'pending', claimed_at = NULL, lease_expires_at = NULL, claimed_by = NULL,
		run_at = now() + interval '1 hour' WHERE id = $1`, snoozed)

	mux := pgqueue.NewMux()
	var executions atomic.Int64
	pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[task]) error {
		executions.Add(1)
		return nil
	})
	finished := make(chan pgqueue.DrainResult, 1)
	go func() {
		result, err := client.Drain(testContext(t), mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {}}})
		if err != nil {
			t.Error(err)
		}
		finished <- result
	}()
	// The reaper does not wait for the verdicts. One that does, because it writes what it has read before, is let go on here,
	// so that what it does afterwards shows below.
	eventually(t, "the reaper has gone by, or waits", func() bool {
		return len(finished) == 1 || one[bool](t, db.Pool, "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND locktype = 'transactionid' AND database IS NULL)")
	})
	if len(finished) == 0 {
		t.Error("the reaper waits for a row lock")
	}
	if err := verdicts.Commit(testContext(t)); err != nil {
		t.Fatal(err)
	}
	result := receive(t, finished, "the drain")
	if result.Recovered.Total() != 0 || executions.Load() != 0 {
		t.Errorf("recovered %+v and ran %d jobs, want none", result.Recovered, executions.Load())
	}
	for id, state := range map[int64]string{done: "succeeded", snoozed: "pending"} {
		s := job(t, db.Pool, id)
		s.requireState(t, state, 1, 0)
		if len(s.Errors) > 0 {
			t.Errorf("the reaper added errors to the job that is %s: %+v", state, s.Errors)
		}
	}
}

// A job that runs for longer than its lease runs once, whatever its deadline says; and no deadline setting is read the
// wrong way round.
func TestC40_ALongJobWithRenewalRunsOnce(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	settings := []struct {
		name     string
		deadline time.Duration
		unset    bool
	}{{"unset", 0, true}, {"zero", 0, false}, {"none", -1, false}, {"hour", time.Hour, false}}
	mux := pgqueue.NewMux()
	release := make(chan struct{})
	var executions atomic.Int64
	queues := pgqueue.Queues{}
	for _, kind := range settings {
		var options []pgqueue.HandleOption
		if !kind.unset {
			options = append(options, pgqueue.KindDeadline(kind.deadline))
		}
		mux.HandleFunc(kind.name, func(ctx context.Context, _ *pgqueue.AnyJob) error {
			executions.Add(1)
			select {
			case <-release:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}, options...)
	}
	type cut struct {
		cause          error
		early, expired bool
	}
	cuts := make(chan cut, 10)
	mux.HandleFunc("second", func(ctx context.Context, _ *pgqueue.AnyJob) error {
		deadline, ok := ctx.Deadline()
		<-ctx.Done()
		cuts <- cut{context.Cause(ctx), !ok || time.Now().Before(deadline), errors.Is(ctx.Err(), context.DeadlineExceeded)}
		return ctx.Err()
	}, pgqueue.KindDeadline(time.Second))
	lease := 3 * time.Second
	for _, queue := range settings {
		config := pgqueue.QueueConfig{Workers: 6}
		if !queue.unset {
			config.Deadline = queue.deadline
		}
		queues[queue.name] = config
		for _, kind := range settings {
			enqueue(t, client, db.Pool, pgqueue.Raw{Name: kind.name}, pgqueue.OnQueue(queue.name))
		}
	}
	second := enqueue(t, client, db.Pool, pgqueue.Raw{Name: "second"}, pgqueue.OnQueue("none"), pgqueue.WithMaxAttempts(1)).ID
	startWorker(t, client, mux, pgqueue.WorkerConfig{Queues: queues, Lease: lease, ReapInterval: 500 * time.Millisecond})

	got := receive(t, cuts, "the deadline of a second")
	if !got.expired || got.early || !errors.Is(got.cause, runner.ErrDeadline) {
		t.Errorf("the context ended with %+v, want ErrDeadline, not before the deadline", got)
	}
	dead := awaitState(t, db.Pool, second, "dead")
	if len(dead.Errors) != 1 || dead.Errors[0].Code != runner.CodeTimeout {
		t.Errorf("errors %+v, want one with code %s", dead.Errors, runner.CodeTimeout)
	}
	leases := size(2, 15)
	eventually(t, "all jobs have run for several leases", func() bool {
		return one[int](t, db.Pool, `SELECT count(*) FROM pgqueue.jobs WHERE state = 'running' AND claimed_at < now() - $1::interval`,
			time.Duration(leases)*lease) == 16
	})
	close(release)
	eventually(t, "all jobs are done", func() bool { return one[int](t, db.Pool, "SELECT count(*) FROM pgqueue.jobs") == 0 })
	if n := one[int](t, db.Pool, "SELECT count(*) FROM pgqueue.history WHERE state = 'succeeded' AND attempt = 1 AND errors IS NULL"); n != 16 {
		t.Errorf("%d of 16 jobs succeeded at their first attempt", n)
	}
	if n := executions.Load(); n != 16 {
		t.Errorf("%d executions, want 16", n)
	}
}

// A worker whose renewals get no answer stops its handlers while their jobs are still its own.
func TestC40_ALostRenewalIsNoticedInTime(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	proxy, stalling := throughProxy(t, db.Pool)
	client := quietClient(t, db.Pool)
	began := make(chan struct{}, 10)
	type end struct {
		cause error
		left  float64
	}
	ends := make(chan end, 10)
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(ctx context.Context, job *pgqueue.Job[task]) error {
		began <- struct{}{}
		<-ctx.Done()
		left := one[float64](t, db.Pool, `SELECT extract(epoch FROM lease_expires_at - clock_timestamp())::float8
			FROM pgqueue.jobs WHERE id = $1`, job.ID)
		ends <- end{context.Cause(ctx), left}
		return ctx.Err()
	})
	lost := make(chan runner.LeaseEvent, 10)
	id := enqueue(t, client, db.Pool, task{}).ID
	worker := startWorker(t, client, mux, pgqueue.WorkerConfig{
		Pool: stalling, DisableListener: true, Queues: pgqueue.Queues{"default": {CleanUp: time.Second}},
		Lease: 6 * time.Second, StorageTimeout: time.Second, StopTimeout: time.Second,
		Observer: &hooks{lost: func(e runner.LeaseEvent) { lost <- e }},
	})
	t.Cleanup(proxy.Resume)
	receive(t, began, "the handler")
	proxy.Stall()
	got := receive(t, ends, "the end of the handler's context")
	if !errors.Is(got.cause, pgqueue.ErrLeaseLost) {
		t.Errorf("the context ended with %v, want ErrLeaseLost", got.cause)
	}
	if got.left <= 0 {
		t.Errorf("the context ended %.3f s after the lease", -got.left)
	}
	if e := receive(t, lost, "the lost lease"); e.Refused || !e.Started {
		t.Errorf("the event says %+v, want an unanswered lease of a started job", e)
	}
	proxy.Resume()
	awaitState(t, db.Pool, id, "running") // again, or still
	receive(t, began, "the next attempt")
	worker.stop()
}

// A job that is deleted or edited while it runs is lost to its worker, and nothing else is.
func TestC44_AJobIsDeletedOrEditedWhileItRuns(t *testing.T) {
	t.Parallel()
	for edit, sql := range map[string]string{
		"deleted": "DELETE FROM pgqueue.jobs WHERE NOT id = ANY ($1)",
		"edited": `UPDATE pgqueue.jobs SET state = 'pending', claimed_at = NULL, lease_expires_at = NULL, claimed_by = NULL,
			run_at = now() + interval '1 hour' WHERE NOT id = ANY ($1)`,
		"claimed by another": `UPDATE pgqueue.jobs SET attempt = attempt + 1, claimed_by = 'another', claimed_at = now(),
			lease_expires_at = now() + interval '1 hour' WHERE NOT id = ANY ($1)`,
	} {
		t.Run(edit, func(t *testing.T) {
			t.Parallel()
			db := pgqueuetest.New(t)
			client := quietClient(t, db.Pool)
			exec(t, db.Pool, "CREATE TABLE effects (name text)")
			ends := []string{"nil", "error", "permanent", "snooze", "panic", "complete"}
			const untouched = 4
			all := len(ends) + untouched
			began, release := make(chan struct{}, all), make(chan struct{})
			inTx := make(chan error, 1)
			mux := pgqueue.NewMux()
			pgqueue.Handle(mux, func(ctx context.Context, job *pgqueue.Job[task]) error {
				if job.Args.Do == "after" {
					return nil
				}
				began <- struct{}{}
				<-release
				switch job.Args.Do {
				case "error":
					return errors.New("no")
				case "permanent":
					return pgqueue.Permanent(errors.New("no"))
				case "snooze":
					return pgqueue.Snooze(time.Hour)
				case "panic":
					panic("no")
				case "complete":
					inTx <- func() error {
						tx, err := db.Pool.Begin(context.WithoutCancel(ctx))
						if err != nil {
							return err
						}
						if err := job.CompleteTx(context.WithoutCancel(ctx), tx); !errors.Is(err, pgqueue.ErrLeaseLost) {
							return fmt.Errorf("CompleteTx says %w, want ErrLeaseLost", err)
						}
						exec(t, tx, "INSERT INTO effects VALUES ('the transaction is usable')")
						return tx.Commit(context.WithoutCancel(ctx))
					}()
				}
				return nil
			})
			verdicts := make(chan runner.VerdictEvent, 10*all)
			worker := startWorker(t, client, mux, pgqueue.WorkerConfig{
				Queues:   pgqueue.Queues{"default": {Workers: all}},
				Observer: &hooks{verdict: func(e runner.VerdictEvent) { verdicts <- e }},
			})
			for _, end := range ends {
				enqueue(t, client, db.Pool, task{Do: end})
			}
			var kept []int64
			for i := range untouched {
				kept = append(kept, enqueue(t, client, db.Pool, task{N: i, Do: "nil"}).ID)
			}
			for range all {
				receive(t, began, "all handlers")
			}
			exec(t, db.Pool, sql, kept)
			close(release)
			if err := receive(t, inTx, "the transaction"); err != nil {
				t.Errorf("the handler's transaction: %v", err)
			}
			lost, succeeded := 0, 0
			for range all {
				switch e := receive(t, verdicts, "all verdicts"); e.Outcome {
				case runner.Lost:
					lost++
				case runner.Succeeded:
					succeeded++
				default:
					t.Errorf("the outcome of %s is %d", e.Token, e.Outcome)
				}
			}
			if lost != len(ends) || succeeded != untouched {
				t.Errorf("%d lost and %d succeeded, want %d and %d", lost, succeeded, len(ends), untouched)
			}
			for _, id := range kept {
				job(t, db.Pool, id).requireState(t, "succeeded", 1, 0)
			}
			left := len(ends)
			if edit == "deleted" {
				left = 0
			}
			if live := one[int](t, db.Pool, "SELECT count(*) FROM pgqueue.jobs"); live != left {
				t.Errorf("%d jobs are left, want %d", live, left)
			}
			if n := one[int](t, db.Pool, "SELECT count(*) FROM pgqueue.jobs WHERE errors IS NOT NULL OR failures > 0"); n != 0 {
				t.Errorf("%d lost jobs were written to", n)
			}
			if n := one[int](t, db.Pool, "SELECT count(*) FROM effects"); n != 1 {
				t.Error("the transaction of the lost job did not commit")
			}
			// All slots are free again.
			for i := range all {
				enqueue(t, client, db.Pool, task{N: i, Do: "after"})
			}
			for range all {
				if e := receive(t, verdicts, "the jobs afterwards"); e.Outcome != runner.Succeeded {
					t.Errorf("the outcome of %s is %d", e.Token, e.Outcome)
				}
			}
			eventually(t, "no slot is taken", func() bool { return worker.Status().Queues["default"].InFlight == 0 })
		})
	}
}
