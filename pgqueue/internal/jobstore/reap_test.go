package jobstore_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueue/internal/jobstore"
	"github.com/pgqueue/pgqueue/reaper"
	"github.com/pgqueue/pgqueue/runner"
)

// C39: each lapse is counted by one reaper. C36: the boundary of the budget is death, not another run.
func TestC39_ReapersDoNotCountTwice(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.insert(500)
	f.claim(500)
	f.exec(`UPDATE %s.jobs SET max_attempts = CASE WHEN id %% 2 = 0 THEN 1 ELSE 2 END`)
	f.expire()
	var mu sync.Mutex
	var sum reaper.Recovered
	start := make(chan struct{})
	var group sync.WaitGroup
	for range 8 {
		queue := f.newQueue()
		group.Go(func() {
			<-start
			for {
				got, err := queue.Recover(f.ctx, 20)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				sum.Dead += got.Dead
				sum.Requeued += got.Requeued
				mu.Unlock()
				if got.Total() == 0 {
					return
				}
			}
		})
	}
	close(start)
	group.Wait()
	// A pass may come up empty while others hold what is left.
	last := must(f.queue.Recover(f.ctx, 500))(t)
	if sum.Dead+last.Dead != 250 || sum.Requeued+last.Requeued != 250 {
		t.Fatalf("recovered %+v and %+v, want 250 dead and 250 requeued", sum, last)
	}
	if got := query1[int](f, `SELECT count(*) FROM (SELECT errors, attempt, failures, error_count FROM %[1]s.jobs UNION ALL SELECT errors, attempt, failures, error_count FROM %[1]s.history) x
		WHERE jsonb_array_length(errors) = 1 AND errors->0->>'code' = 'lease_expired' AND failures = 1 AND attempt = 1 AND error_count = 1`); got != 500 {
		t.Fatalf("%d of 500 jobs have exactly one lapse", got)
	}
	if got := query1[int](f, `SELECT count(*) FROM %s.jobs WHERE run_at > created_at`); got != 250 {
		t.Fatalf("%d of 250 were put in line again", got)
	}
}

// C41: living leases in front do not fill the page.
func TestC41_ReaperSeesPastTheLiving(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.insert(160)
	f.claim(150)
	f.claim(10)
	f.exec(`UPDATE %s.jobs SET lease_expires_at = now() - interval '1 s' WHERE id > (SELECT max(id) - 10 FROM %[1]s.jobs)`)
	if got := must(f.queue.Recover(f.ctx, 100))(t); got.Requeued != 10 {
		t.Fatalf("Recover said %+v", got)
	}
}

// C34: what the reaper reads and what it writes is one statement, so nothing can come between.
func TestReapIsOneStatement(t *testing.T) {
	t.Parallel()
	log := &statementLog{}
	f := open(t, traced(log))
	f.insert(5)
	tasks := f.claim(5)
	f.expire()
	f.report([]verdict{succeed(tasks[0].Payload)}, runner.Succeeded)
	log.take()
	must(f.queue.Recover(f.ctx, 10))(t)
	var writes []string
	for _, statement := range log.take() {
		if strings.Contains(statement, "UPDATE") || strings.Contains(statement, "DELETE") {
			writes = append(writes, statement)
		}
	}
	if len(writes) != 1 || !strings.Contains(writes[0], "SKIP LOCKED") {
		t.Fatalf("a pass wrote with %d statements: %q", len(writes), writes)
	}
	if f.state(tasks[0].Payload.ID) != "succeeded" {
		t.Fatal("a finished job was put back")
	}
	// And a success that comes after the reaper wins until somebody claims again.
	f.report([]verdict{succeed(tasks[1].Payload), fail(tasks[2].Payload, runner.Retry)}, runner.Succeeded, runner.Lost)
	f.claim(10)
	f.report([]verdict{succeed(tasks[3].Payload)}, runner.Lost)
}

// statementLog notes what is sent.
type statementLog struct {
	mu   sync.Mutex
	sent []string
}

func (l *statementLog) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent = append(l.sent, data.SQL)
	return ctx
}

func (l *statementLog) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (l *statementLog) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	sent := l.sent
	l.sent = nil
	return sent
}

// The next pass starts where the oldest open claim was, a minute back, and a full page does not move it.
func TestReapStartMark(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.insert(3)
	f.claim(3)
	f.exec(`UPDATE %s.jobs SET claimed_at = now() - interval '1 h'`)
	f.expire()
	must(f.queue.Recover(f.ctx, 2))(t)
	if got := f.queue.ReapFrom(); got != "-infinity" {
		t.Fatalf("after a full page the start is %s", got)
	}
	if got := must(f.queue.Recover(f.ctx, 2))(t); got.Total() != 1 {
		t.Fatalf("Recover said %+v", got)
	}
	from := must(time.Parse(time.RFC3339Nano, f.queue.ReapFrom()))(t)
	if back := query1[time.Time](f, `SELECT now() -- %s`).Sub(from); back < time.Minute || back > 10*time.Minute {
		t.Fatalf("the start is %v back", back)
	}
}

// One question for several queues: each answer is that queue's own, and where nothing has run out the next pass starts later.
func TestLapsedTellsWhichQueue(t *testing.T) {
	t.Parallel()
	f := open(t)
	elsewhere := f.newQueue(func(_ *pgxpool.Config, queue *jobstore.QueueConfig) { queue.Name = "elsewhere" })
	queues := []*jobstore.Queue{f.queue, elsewhere}
	expect := func(what string, want ...bool) {
		t.Helper()
		if got := must(jobstore.Lapsed(f.ctx, queues))(t); !slices.Equal(got, want) {
			t.Fatalf("%s: %v, want %v", what, got, want)
		}
	}
	expect("nothing runs", false, false)
	f.claim1()
	expect("a lease runs", false, false)
	f.exec(`UPDATE %s.jobs SET claimed_at = now() - interval '1 hour', lease_expires_at = now() + interval '1 hour'`)
	f.exec(`INSERT INTO %s.jobs (queue, kind, state, attempt, claimed_generation, claimed_at, lease_expires_at)
		VALUES ('elsewhere', 'k', 'running', 1, 1, now() - interval '1 minute', now() - interval '1 second')`)
	f.queue.ReapFromStart()
	elsewhere.ReapFromStart()
	expect("one has run out", false, true)
	if recovered := must(elsewhere.Recover(f.ctx, 10))(t); recovered.Requeued != 1 {
		t.Fatalf("recovered %+v", recovered)
	}
	expect("it was put back", false, false)
	oldest := query1[time.Time](f, `SELECT min(claimed_at) FROM %s.jobs WHERE state = 'running'`)
	if from := must(time.Parse(time.RFC3339Nano, f.queue.ReapFrom()))(t); !from.Equal(oldest) {
		t.Errorf("the next pass starts at %s, the oldest open claim is of %s", from, oldest)
	}
	if from := must(time.Parse(time.RFC3339Nano, elsewhere.ReapFrom()))(t); time.Since(from) < 30*time.Second {
		t.Errorf("the next pass starts at %s, and may miss a claim that has not committed", from)
	}
	// What is set back by hand is found when the passes begin anew.
	f.exec(`UPDATE %s.jobs SET claimed_at = now() - interval '2 hours', lease_expires_at = now() - interval '1 second' WHERE state = 'running'`)
	f.queue.ReapFromStart()
	expect("set back by hand", true, false)
}

// On a server that has been demoted nothing can be written. A worker learns it from its reap, so the question must not keep it from that.
func TestLapsedWhereNothingCanBeWritten(t *testing.T) {
	t.Parallel()
	f := open(t, setting("default_transaction_read_only", "on"))
	if got := must(jobstore.Lapsed(f.ctx, []*jobstore.Queue{f.queue}))(t); !got[0] {
		t.Error("the worker would not try to write")
	}
}

func TestMaintain(t *testing.T) {
	t.Parallel()
	f := open(t)
	days := func() int {
		return query1[int](f, `SELECT count(*) FROM pg_inherits WHERE inhparent = '%s.history'::regclass`)
	}
	before := days()
	ok, old := f.claim1(), f.claim1()
	f.report([]verdict{fail(ok, runner.Fail), fail(old, runner.Fail)}, runner.Failed, runner.Failed)
	f.exec(`UPDATE %s.history SET finished_at = now() - interval '91 days' WHERE id = $1`, old.ID)
	f.exec(`CREATE TABLE %[1]s.history_20010101 PARTITION OF %[1]s.history FOR VALUES FROM ('2001-01-01') TO ('2001-01-02')`)
	f.exec(`CREATE TABLE %[1]s.history_20010102 PARTITION OF %[1]s.history FOR VALUES FROM ('2001-01-02') TO ('2001-01-03')`)
	for range 2 {
		if err := f.queue.Maintain(f.ctx); err != nil {
			t.Fatal(err)
		}
		if got := days(); got != before {
			t.Fatalf("%d partitions, want %d", got, before)
		}
	}
	if f.state(ok.ID) != "failed" || f.state(old.ID) != "absent" {
		t.Fatalf("failed jobs: new is %s, old is %s", f.state(ok.ID), f.state(old.ID))
	}
	if err := f.queue.Ping(f.ctx); err != nil {
		t.Fatal(err)
	}
}

// fillfactor leaves room on the page and the lease is in no index, so renewals are HOT.
func TestRenewalsAreHot(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.insert(50)
	var tokens []runner.Token
	for _, task := range f.claim(10) {
		tokens = append(tokens, task.Token)
	}
	updates := func() (all, hot int) {
		if err := f.pool.QueryRow(f.ctx, f.sql(`SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relid = '%s.jobs'::regclass`)).Scan(&all, &hot); err != nil {
			t.Fatal(err)
		}
		return all, hot
	}
	for range 100 {
		for i, got := range must(f.queue.Renew(f.ctx, tokens, time.Minute))(t) {
			if got != runner.Renewed {
				t.Fatalf("renewal %d: %v", i, got)
			}
		}
	}
	all, hot := updates()
	for all < 10*100 && f.ctx.Err() == nil { // the counters arrive late
		must(f.queue.Renew(f.ctx, tokens[:1], time.Minute))(t)
		all, hot = updates()
	}
	if hot < all*6/10 { // at fillfactor 100 it would be next to none
		t.Fatalf("%d of %d updates were HOT", hot, all)
	}
}

// C45: a lease that is written after a wait for the table is a whole lease.
func TestC45_LeaseIsNotBornOld(t *testing.T) {
	t.Parallel()
	f := open(t, mode(pgx.QueryExecModeExec)) // one message: the wait is the statement's own
	row := f.claim1()
	renew := func() { must(f.queue.Renew(f.ctx, []runner.Token{row}, time.Second))(t) }
	tx := must(f.pool.Begin(f.ctx))(t)
	must(tx.Exec(f.ctx, f.sql(`LOCK TABLE %s.jobs IN ACCESS EXCLUSIVE MODE`)))(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		renew()
	}()
	f.waitForLock()
	must(tx.Exec(f.ctx, `SELECT pg_sleep(1.5)`))(t)
	if err := tx.Commit(f.ctx); err != nil {
		t.Fatal(err)
	}
	<-done
	if left := query1[float64](f, `SELECT extract(epoch FROM lease_expires_at - clock_timestamp())::float8 FROM %s.jobs`); left < 0 {
		t.Fatalf("the lease ended %v s ago", -left)
	}
}
