package pgqueue_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// A queue that was paused until a time goes on at that time, by the database's clock and without anybody's help: nobody hears, nobody
// polls, and nobody clears the pause.
func TestC27_PauseUntilEndsByItself(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[task]) error { return nil })
	pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[other]) error { return nil })
	until := func(after string) time.Time {
		return one[time.Time](t, db.Pool, `SELECT clock_timestamp() + $1::text::interval`, after)
	}
	ends := until("2 s")
	if err := client.PauseQueueUntil(testContext(t), db.Pool, "default", ends, "rate limit"); err != nil {
		t.Fatal(err)
	}
	endsKind := until("4 s")
	if err := client.PauseKind(testContext(t), db.Pool, pgqueue.KindPause{Kind: "other", Until: endsKind}); err != nil {
		t.Fatal(err)
	}
	first, second := enqueue(t, client, db.Pool, task{}).ID, enqueue(t, client, db.Pool, other{}).ID
	worker := startWorker(t, client, mux, pgqueue.WorkerConfig{
		Queues: pgqueue.Queues{"default": {Poll: 10 * time.Minute}}, DisableListener: true, HeartbeatEvery: -1,
	})
	eventually(t, "the worker knows of the pause and of its end", func() bool {
		status := worker.Status().Queues["default"]
		return !status.QueuePaused.IsZero() && !status.QueuePausedUntil.IsZero() && len(status.PausedKinds) == 1
	})
	for id, ends := range map[int64]time.Time{first: ends, second: endsKind} {
		done := awaitState(t, db.Pool, id, "succeeded")
		done.requireState(t, "succeeded", 1, 0)
		if claimed := one[time.Time](t, db.Pool, `SELECT claimed_at FROM pgqueue.history WHERE id = $1`, id); claimed.Before(ends) {
			t.Errorf("job %d was claimed %s before the end of its pause", id, ends.Sub(claimed))
		}
	}
	if n := one[int](t, db.Pool, `SELECT (SELECT count(*) FROM pgqueue.queues WHERE paused_at IS NOT NULL) + (SELECT count(*) FROM pgqueue.paused_kinds)`); n != 2 {
		t.Error("somebody has cleared the pauses: the test shows nothing")
	}
	eventually(t, "the worker knows of the end", func() bool {
		status := worker.Status().Queues["default"]
		return status.QueuePaused.IsZero() && status.QueuePausedUntil.IsZero() && len(status.PausedKinds) == 0
	})
}

// No pause shortens another: what a handler says about a minute must not end what somebody paused for the night.
func TestC27_NoPauseShortensAnother(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	at := func(d time.Duration) time.Time { return time.Now().Add(d).Truncate(time.Microsecond) }
	hour, day := at(time.Hour), at(24*time.Hour)
	pause := func(until time.Time, reason string) {
		t.Helper()
		if err := client.PauseQueueUntil(testContext(t), db.Pool, "q", until, reason); err != nil {
			t.Fatal(err)
		}
		if err := client.PauseKind(testContext(t), db.Pool, pgqueue.KindPause{Kind: "k", Queue: "q", Until: until, Reason: reason}); err != nil {
			t.Fatal(err)
		}
	}
	check := func(until time.Time, reason string) {
		t.Helper()
		stats, err := client.Stats(testContext(t), "q")
		if err != nil || stats[0].PausedAt.IsZero() == (reason != "") || !stats[0].PausedUntil.Equal(until) || stats[0].PausedReason != reason {
			t.Fatalf("the queue: %+v, %v, want until %s: %s", stats, err, until, reason)
		}
		kinds, err := client.PausedKinds(testContext(t))
		switch {
		case err != nil || len(kinds) > 1 || len(kinds) == 0 && reason != "":
			t.Fatalf("the kind: %+v, %v", kinds, err)
		case len(kinds) == 1 && (kinds[0].Kind != "k" || kinds[0].Queue != "q" || !kinds[0].Until.Equal(until) || kinds[0].Reason != reason || kinds[0].Since.IsZero()):
			t.Fatalf("the kind: %+v, want until %s: %s", kinds, until, reason)
		}
	}
	pause(at(-time.Minute), "too late")
	check(time.Time{}, "")
	pause(hour, "first")
	check(hour, "first")
	pause(at(time.Minute), "shorter")
	check(hour, "first")
	pause(day, "longer")
	check(day, "longer")
	for range 2 { // the second stays unlimited
		if err := client.PauseQueue(testContext(t), db.Pool, "q", "unlimited"); err != nil {
			t.Fatal(err)
		}
		if err := client.PauseKind(testContext(t), db.Pool, pgqueue.KindPause{Kind: "k", Queue: "q", Reason: "unlimited"}); err != nil {
			t.Fatal(err)
		}
		check(time.Time{}, "unlimited")
		pause(day, "shorter again")
		check(time.Time{}, "unlimited")
	}
	resume := func() {
		t.Helper()
		if err := errors.Join(client.ResumeQueue(testContext(t), db.Pool, "q"), client.ResumeKind(testContext(t), db.Pool, "k", "q")); err != nil {
			t.Fatal(err)
		}
	}
	resume()
	check(time.Time{}, "")
	pause(hour, "anew")
	resume()
	check(time.Time{}, "")
	if one[bool](t, db.Pool, `SELECT paused_until IS NOT NULL FROM pgqueue.queues`) {
		t.Error("resume left the end of the pause")
	}
	// What has ended and was not cleared is none: a new pause begins anew.
	exec(t, db.Pool, `UPDATE pgqueue.queues SET paused_at = '2020-01-01', paused_until = '2020-01-02', paused_reason = 'old'`)
	exec(t, db.Pool, `INSERT INTO pgqueue.paused_kinds (kind, queue, paused_at, paused_until, reason) VALUES ('k', 'q', '2020-01-01', '2020-01-02', 'old')`)
	pause(hour, "anew")
	check(hour, "anew")
	if n := one[int](t, db.Pool, `SELECT count(*) FROM (SELECT paused_at FROM pgqueue.queues UNION ALL SELECT paused_at FROM pgqueue.paused_kinds) p WHERE paused_at < now() - interval '1 h'`); n != 0 {
		t.Error("the new pause is as old as the one that had ended")
	}
}

// A pause of a kind is in the database: it is heeded by a worker that cannot hear, covers what was claimed ahead, outlasts restarts and
// the reaper, and concerns no other kind.
func TestC27_PauseOfAKindIsDurable(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	var started, others atomic.Int64
	release := make(chan struct{})
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(_ context.Context, job *pgqueue.Job[task]) error {
		started.Add(1)
		if job.Args.Do == "wait" {
			<-release
		}
		return nil
	}, pgqueue.KindWorkers(2))
	pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[other]) error {
		others.Add(1)
		return nil
	})
	seen := &looks{}
	config := pgqueue.WorkerConfig{
		Queues: pgqueue.Queues{"default": {Workers: 3, Batch: 60, Poll: 300 * time.Millisecond}}, ReapInterval: 100 * time.Millisecond,
		StopTimeout: patience, Observer: seen, DisableListener: true,
	}
	worker := startWorker(t, client, mux, config)
	t.Cleanup(func() {
		select {
		case <-release:
		default:
			close(release)
		}
	})
	batch := make([]pgqueue.NewJob, 60) // quick ones first: a worker claims ahead only once it knows that handlers are quick
	for i := range batch {
		batch[i] = pgqueue.NewJob{Args: task{N: i}}
		if i >= 20 {
			batch[i].Args = task{N: i, Do: "wait"}
		}
	}
	if _, err := client.EnqueueMany(testContext(t), db.Pool, batch); err != nil {
		t.Fatal(err)
	}
	eventually(t, "jobs are claimed ahead", func() bool { return started.Load() == 22 && worker.Status().Queues["default"].Buffered > 0 })
	if err := client.PauseKind(testContext(t), db.Pool, pgqueue.KindPause{Kind: "task", Reason: "the provider is down"}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "what was claimed ahead is given back", func() bool {
		status := worker.Status().Queues["default"]
		return status.Buffered == 0 && status.QueuePaused.IsZero() && len(status.PausedKinds) == 1 && status.PausedKinds[0].Kind == "task" &&
			one[int](t, db.Pool, `SELECT count(*) FROM pgqueue.jobs WHERE state = 'running'`) == 2
	})
	if n := one[int](t, db.Pool, `SELECT count(*) FROM pgqueue.jobs WHERE failures > 0 OR state = 'pending' AND claimed_at IS NOT NULL`); n != 0 {
		t.Errorf("%d jobs paid for the pause", n)
	}
	close(release)
	eventually(t, "what was running has finished", func() bool { return worker.Status().Queues["default"].Outcomes.Succeeded == 22 })
	enqueue(t, client, db.Pool, other{})
	eventually(t, "the other kind goes on", func() bool { return others.Load() == 1 })
	seen.await(t, 3)
	if err := worker.end(t); err != nil {
		t.Fatal(err)
	}

	worker = startWorker(t, client, mux, config)
	stale := one[int64](t, db.Pool, `SELECT min(id) FROM pgqueue.jobs`)
	abandon(t, db.Pool, stale)
	awaitState(t, db.Pool, stale, "pending").requireState(t, "pending", job(t, db.Pool, stale).Attempt, 1)
	seen.await(t, 3)
	if n := started.Load(); n != 22 {
		t.Fatalf("%d jobs of a paused kind were started", n-22)
	}
	if n := drain(t, client, mux, pgqueue.WorkerConfig{}).Claimed; n != 0 {
		t.Errorf("a drain claimed %d jobs of a paused kind", n)
	}
	exec(t, db.Pool, `SELECT pgqueue.resume_kind('task')`)
	eventually(t, "everything has run", func() bool { return one[int](t, db.Pool, `SELECT count(*) FROM pgqueue.jobs`) == 0 })
	if status := worker.Status().Queues["default"]; len(status.PausedKinds) != 0 || status.LastClaimError != "" {
		t.Errorf("after the pause: %+v", status)
	}
}

// A pause of a kind is heard at once where the listener lives, in every queue where it holds and in no other; here nobody polls.
func TestC27_PauseOfAKindIsHeard(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	ran := make(chan int, 10)
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(_ context.Context, job *pgqueue.Job[task]) error {
		ran <- job.Args.N
		return nil
	})
	exec(t, db.Pool, `INSERT INTO pgqueue.queues (name) VALUES ('first'), ('second')`)
	worker := startWorker(t, client, mux, pgqueue.WorkerConfig{
		Queues: pgqueue.Queues{"first": {Poll: 10 * time.Minute}, "second": {Poll: 10 * time.Minute}},
	})
	eventually(t, "the listener hears", func() bool { return worker.Status().Listener.Connected })
	paused := func(first, second bool) {
		t.Helper()
		eventually(t, "the worker knows", func() bool {
			queues := worker.Status().Queues
			return (len(queues["first"].PausedKinds) == 1) == first && (len(queues["second"].PausedKinds) == 1) == second
		})
	}
	exec(t, db.Pool, `SELECT pgqueue.pause_kind('task', reason => 'from psql')`)
	paused(true, true)
	exec(t, db.Pool, `SELECT pgqueue.pause_kind('task', 'second'), pgqueue.resume_kind('task')`)
	paused(false, true)
	enqueue(t, client, db.Pool, task{N: 2}, pgqueue.OnQueue("second"))
	enqueue(t, client, db.Pool, task{N: 1}, pgqueue.OnQueue("first"))
	if n := receive(t, ran, "the job"); n != 1 {
		t.Errorf("job %d ran", n)
	}
	exec(t, db.Pool, `SELECT pgqueue.resume_kind('task', 'second')`)
	if n := receive(t, ran, "the job"); n != 2 {
		t.Errorf("job %d ran", n)
	}
	paused(false, false)
}

// Pauses in a transaction count from its COMMIT, and bad input sends no SQL.
func TestPausesInATransaction(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[task]) error { return nil })
	tx := begin(t, db.Pool, pgx.TxOptions{})
	pause := pgqueue.KindPause{Kind: "task", Queue: "default"}
	if err := client.PauseKind(testContext(t), tx, pause); err != nil {
		t.Fatal(err)
	}
	enqueue(t, client, db.Pool, task{})
	if n := drain(t, client, mux, pgqueue.WorkerConfig{}).Claimed; n != 1 {
		t.Errorf("%d jobs ran before the pause was committed, want 1", n)
	}
	enqueue(t, client, tx, task{})
	if result, err := client.DrainTx(testContext(t), tx, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {}}}); err != nil || result.Claimed != 0 {
		t.Errorf("a drain in the transaction: %+v, %v", result, err)
	}
	if err := tx.Rollback(testContext(t)); err != nil {
		t.Fatal(err)
	}
	counter := &statementCounter{}
	counted := quietClient(t, poolLike(t, db.Pool, func(c *pgxpool.Config) { c.ConnConfig.Tracer = counter }))
	later := time.Now().Add(time.Hour)
	requireInvalid(t, counted.PauseQueueUntil(testContext(t), db.Pool, "", later, ""), "queue")
	requireInvalid(t, counted.PauseQueueUntil(testContext(t), db.Pool, "q", time.Time{}, ""), "until")
	requireInvalid(t, counted.PauseQueueUntil(testContext(t), db.Pool, "q", later.AddDate(9000, 0, 0), ""), "until")
	requireInvalid(t, counted.PauseQueueUntil(testContext(t), db.Pool, "q", later, "\x00"), "reason")
	requireInvalid(t, counted.PauseKind(testContext(t), db.Pool, pgqueue.KindPause{}), "kind")
	requireInvalid(t, counted.PauseKind(testContext(t), db.Pool, pgqueue.KindPause{Kind: "k", Queue: "\xff"}), "queue")
	requireInvalid(t, counted.ResumeKind(testContext(t), nil, "k", ""), "querier")
	if n := counter.n.Load(); n != 0 {
		t.Errorf("%d statements were sent", n)
	}
	for _, sql := range []string{
		`pause_until('', now())`, `pause_until('q', NULL)`, `pause_until('q', now(), repeat('x', 1025))`, `pause_kind('')`, `pause_kind(NULL)`,
		`pause_kind('k', repeat('q', 129))`, `pause_kind('k', reason => repeat('x', 1025))`, `resume_kind(NULL)`,
	} {
		if _, err := db.Pool.Exec(testContext(t), `SELECT pgqueue.`+sql); !isCode(err, "22023") {
			t.Errorf("%s: %v", sql, err)
		}
	}
	if got := one[string](t, db.Pool, `SELECT concat_ws(' ', pgqueue.pause_until('q', 'infinity'), pgqueue.pause_until('q', now() + interval '1 h'), pgqueue.pause_kind('k', until => 'infinity'),
		coalesce(pgqueue.pause_until('r', now())::text, 'none'), coalesce(pgqueue.pause_kind('l', until => now())::text, 'none'))`); got != "infinity infinity infinity none none" {
		t.Errorf("the functions answer %s", got)
	}
}
