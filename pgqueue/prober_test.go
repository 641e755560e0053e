package pgqueue_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
	"github.com/pgqueue/pgqueue/runner"
)

const (
	probeText = "next_due"                          // in every probe and in nothing else
	claimText = "claimed_generation = j.generation" // in every claim and in nothing else
)

// An idle worker sends one statement a poll for all of its queues, and claims where that finds something.
func TestAnIdleWorkerProbesOnceForAllQueues(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	sent := &statements{}
	traced := poolLike(t, db.Pool, func(config *pgxpool.Config) { config.ConnConfig.Tracer = sent })
	ran := make(chan string, 10)
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(_ context.Context, job *pgqueue.Job[task]) error {
		ran <- job.Queue
		return nil
	})
	const poll = 300 * time.Millisecond
	queues := pgqueue.Queues{}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		queues[name] = pgqueue.QueueConfig{Poll: poll}
	}
	worker := startWorker(t, client, mux, pgqueue.WorkerConfig{Queues: queues, Pool: traced, DisableListener: true})

	// At the start each queue claims, finds nothing, and asks once by itself when it should look again.
	eventually(t, "every queue has claimed and asked", func() bool { return sent.with(claimText) >= 5 && sent.with(probeText) >= 6 })
	claims, probes, since := sent.with(claimText), sent.with(probeText), time.Now()
	eventually(t, "it has probed eight times more", func() bool { return sent.with(probeText) >= probes+8 })
	got, took := sent.with(probeText)-probes, time.Since(since)
	if most := int(took/(poll*9/10)) + 2; got > most {
		t.Errorf("%d probes in %s of a poll of %s for five queues, want at most %d", got, took, poll, most)
	}
	if n := sent.with(claimText) - claims; n != 0 {
		t.Errorf("an idle worker claimed %d times", n)
	}

	// What no hint announces is found, and only its queue claims: once for the job, and once in vain.
	enqueue(t, client, db.Pool, task{}, pgqueue.OnQueue("c"))
	if queue := receive(t, ran, "the job"); queue != "c" {
		t.Errorf("a job of queue %s ran", queue)
	}
	probes = sent.with(probeText)
	eventually(t, "it is idle again", func() bool { return sent.with(probeText) >= probes+3 })
	if n := sent.with(claimText) - claims; n < 1 || n > 3 {
		t.Errorf("%d claims for one job", n)
	}
	for name, status := range worker.Status().Queues {
		if name != "c" && status.Claimed != 0 {
			t.Errorf("queue %s: %+v", name, status)
		}
	}

	// A scheduled job starts when it is due and not at the next poll: the wake says so.
	enqueue(t, client, db.Pool, task{}, pgqueue.OnQueue("d"), pgqueue.WithDelay(2*poll+poll/2))
	receive(t, ran, "the scheduled job")
	if status := worker.Status().Queues["d"]; status.DueWakes == 0 {
		t.Errorf("it was not woken for the due time: %+v", status)
	}
}

// A queue with a long poll interval is not asked about at the pace of its neighbour.
func TestProbesKeepEachQueuesPoll(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[task]) error { return nil })
	fast, slow := make(chan struct{}, 100), make(chan struct{}, 100)
	startWorker(t, client, mux, pgqueue.WorkerConfig{
		Queues: pgqueue.Queues{"fast": {Poll: 50 * time.Millisecond}, "slow": {Poll: 10 * time.Minute}}, DisableListener: true,
		Observer: &hooks{wake: func(e runner.WakeEvent) {
			select {
			case map[string]chan struct{}{"fast": fast, "slow": slow}[e.Queue] <- struct{}{}:
			default:
			}
		}},
	})
	for range 10 {
		receive(t, fast, "a look at the fast queue")
	}
	if len(slow) != 0 {
		t.Errorf("the slow queue was looked at %d times", len(slow))
	}
}

// timeArgs looks at the arguments of statements for times.
type timeArgs struct {
	t          *testing.T
	statements statements
}

func (a *timeArgs) TraceQueryStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	a.look(data.SQL, data.Args)
	return a.statements.TraceQueryStart(ctx, conn, data)
}
func (a *timeArgs) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
func (a *timeArgs) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}
func (a *timeArgs) TraceBatchQuery(ctx context.Context, conn *pgx.Conn, data pgx.TraceBatchQueryData) {
	a.look(data.SQL, data.Args)
	a.statements.TraceBatchQuery(ctx, conn, data)
}
func (a *timeArgs) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// look refuses every time that a Go clock can have made. The marks of claims and of the reaper are echoes of the
// database's own times, which count in microseconds; a Go clock counts in nanoseconds.
func (a *timeArgs) look(sql string, args []any) {
	echo := func(at pgtype.Timestamptz) bool {
		return at.InfinityModifier != pgtype.Finite || at.Time.Nanosecond()%1000 == 0
	}
	for i, arg := range args {
		fine := true
		switch arg := arg.(type) {
		case time.Time, []time.Time:
			fine = false
		case *time.Time: // run_at of an enqueue; this test gives none
			fine = arg == nil
		case []*time.Time:
			for _, at := range arg {
				fine = fine && at == nil
			}
		case pgtype.Timestamptz:
			fine = echo(arg)
		case []pgtype.Timestamptz:
			for _, at := range arg {
				fine = fine && echo(at)
			}
		}
		if !fine {
			a.t.Errorf("argument %d is a time of this process: %v\n%s", i+1, arg, sql)
		}
	}
}

// A worker's clock decides nothing: no statement of a whole run carries a time that it made.
func TestC37_NoStatementTakesATimeOfThisProcess(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	args := &timeArgs{t: t}
	traced := poolLike(t, db.Pool, func(config *pgxpool.Config) { config.ConnConfig.Tracer = args })
	client := quietClient(t, traced)
	mux := pgqueue.NewMux()
	failed := make(chan struct{}, 100)
	pgqueue.Handle(mux, func(_ context.Context, job *pgqueue.Job[task]) error {
		switch {
		case job.Attempt > 1:
		case job.Args.Do == "retry":
			failed <- struct{}{}
			return pgqueue.RetryAfter(100*time.Millisecond, nil)
		case job.Args.Do == "snooze":
			return pgqueue.Snooze(50 * time.Millisecond)
		}
		return nil
	})
	pgqueue.HandleTx(mux, func(ctx context.Context, tx pgx.Tx, _ *pgqueue.Job[other]) error {
		_, err := tx.Exec(ctx, `SELECT pg_sleep(0.3)`) // long enough for renewals
		return err
	})
	stale := enqueue(t, client, traced, task{Do: "stale"}).ID
	abandon(t, db.Pool, stale)
	var ids []int64
	for i := range 60 {
		do := []string{"", "retry", "snooze"}[i%3]
		ids = append(ids, enqueue(t, client, traced, task{N: i, Do: do}, pgqueue.WithDelay(time.Duration(i%2)*100*time.Millisecond)).ID)
	}
	ids = append(ids, enqueue(t, client, traced, other{}, pgqueue.WithKey("k")).ID, stale)
	worker := startWorker(t, client, mux, pgqueue.WorkerConfig{
		Queues: pgqueue.Queues{"default": {Workers: 4, Batch: 7, Poll: 100 * time.Millisecond}}, Lease: 9 * time.Second,
		RenewEvery: 50 * time.Millisecond, ReapInterval: 100 * time.Millisecond,
	})
	for _, id := range ids {
		awaitState(t, db.Pool, id, "succeeded")
	}
	if err := worker.end(t); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{claimText, probeText, "lease_expires_at < now()", "cancel_requested_at IS NOT NULL AS cancel", "l.due IS NULL", "ensure_history", "'succeeded'"} {
		if args.statements.with(text) == 0 {
			t.Errorf("the run sent no statement with %q", text)
		}
	}
}
