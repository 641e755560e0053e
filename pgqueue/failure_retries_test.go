package pgqueue_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
	"github.com/pgqueue/pgqueue/runner"
)

// backoffFunc is a policy of the application's.
type backoffFunc func(failures int) time.Duration

func (f backoffFunc) Delay(failures int) time.Duration { return f(failures) }

// immediately is as close to no delay as a policy can be: zero counts as nonsense.
func immediately() runner.Backoff { return backoffFunc(func(int) time.Duration { return 1 }) }

// C24: a job of the lowest priority runs although there is always fresh work.
func TestC24_LowPrioritiesRun(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	mux := pgqueue.NewMux()
	var mutex sync.Mutex
	fresh, low := 0, -1
	ran := make(chan struct{})
	pgqueue.Handle(mux, func(ctx context.Context, job *pgqueue.Job[task]) error {
		mutex.Lock()
		defer mutex.Unlock()
		if job.Priority == pgqueue.PriorityCatchUp {
			low = fresh
			close(ran)
			return nil
		}
		fresh++
		if low < 0 { // each fresh job is followed by another, so there are always as many
			if _, err := client.Enqueue(ctx, db.Pool, task{}); err != nil {
				return err
			}
		}
		return nil
	})
	enqueueTasks(t, client, db.Pool, 20)
	exec(t, db.Pool, "UPDATE pgqueue.jobs SET run_at = run_at - interval '1 hour'") // and they are older
	id := enqueue(t, client, db.Pool, task{}, pgqueue.WithPriority(pgqueue.PriorityCatchUp)).ID
	const batch = 8
	startWorker(t, client, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {Workers: 1, Batch: batch}}})
	receive(t, ran, "the job of low priority")
	awaitState(t, db.Pool, id, "succeeded")
	mutex.Lock()
	defer mutex.Unlock()
	// The fifth claim prefers it, and before that at most four batches and what was fetched ahead can have run.
	if low > 6*batch {
		t.Errorf("%d fresh jobs ran first, want at most %d", low, 6*batch)
	}
}

// C25: jobs that always fail do not keep the others from being reached: a retry goes to the end of the line.
func TestC25_RetriedJobsDoNotHogTheHead(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	mux := pgqueue.NewMux()
	var mutex sync.Mutex
	bad, good, badBefore := 0, 0, 0
	done := make(chan struct{})
	pgqueue.Handle(mux, func(_ context.Context, job *pgqueue.Job[task]) error {
		mutex.Lock()
		defer mutex.Unlock()
		if job.Args.Do == "fail" {
			bad++
			return errors.New("always")
		}
		if good++; good == 50 {
			badBefore = bad
			close(done)
		}
		return nil
	}, pgqueue.KindBackoff(immediately()))
	jobs := make([]pgqueue.NewJob, 250)
	for i := range jobs {
		jobs[i] = pgqueue.NewJob{Args: task{N: i}}
		if i < 200 {
			jobs[i] = pgqueue.NewJob{Args: task{N: i, Do: "fail"}, Options: []pgqueue.EnqueueOption{pgqueue.WithMaxAttempts(1000)}}
		}
	}
	for _, part := range [][]pgqueue.NewJob{jobs[:200], jobs[200:]} {
		if _, err := client.EnqueueMany(testContext(t), db.Pool, part); err != nil {
			t.Fatal(err)
		}
	}
	startWorker(t, client, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {Workers: 4, Batch: 8}}})
	receive(t, done, "the good jobs")
	mutex.Lock()
	defer mutex.Unlock()
	// Each of the 200 runs once before the good ones; of their retries only those that were claimed meanwhile.
	if badBefore > 200+4*8 {
		t.Errorf("%d attempts of failing jobs before the 50 good ones were done, want about 200", badBefore)
	}
}

// C53: what a job remembers of its failures is bounded, whatever their number and size.
func TestC53_ErrorsAreBounded(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	failures := size(60, 2000)
	mux := pgqueue.NewMux()
	var attempts []int
	pgqueue.Handle(mux, func(_ context.Context, job *pgqueue.Job[task]) error {
		attempts = append(attempts, job.Attempt)
		if job.Failures < failures {
			return runner.Safe(errors.New(strings.Repeat("a long story ", 4096/13)))
		}
		return pgqueue.Permanent(errors.New("enough"))
	}, pgqueue.KindBackoff(immediately()))
	id := enqueue(t, client, db.Pool, task{}, pgqueue.WithMaxAttempts(10_000)).ID
	config := pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {Workers: 1}}, StoreErrorText: true}
	eventually(t, "the job has failed for good", func() bool {
		drain(t, client, mux, config)
		return job(t, db.Pool, id).State == "failed"
	})
	s := job(t, db.Pool, id)
	s.requireState(t, "failed", failures+1, failures+1)
	if s.ErrorCount != failures+1 || len(s.Errors) != 10 {
		t.Errorf("%d failures counted and %d kept, want %d and the last 10", s.ErrorCount, len(s.Errors), failures+1)
	}
	for i, e := range s.Errors {
		if e.Attempt != failures+1-9+i {
			t.Errorf("error %d is of attempt %d, want %d", i, e.Attempt, failures+1-9+i)
		}
	}
	if bytes := one[int](t, db.Pool, "SELECT pg_column_size(errors) + length(errors::text) FROM pgqueue.history WHERE id = $1", id); bytes > 256<<10 {
		t.Errorf("%d bytes of errors", bytes)
	}
	if !slices.IsSorted(attempts) {
		t.Error("attempt numbers do not rise")
	}
}

// C111: a job that has failed very often waits for the cap of its backoff, not for an overflow.
func TestC111_BackoffDoesNotOverflow(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[task]) error { return errors.New("no") },
		pgqueue.KindBackoff(runner.Exponential{Base: time.Hour, Max: 48 * time.Hour, Jitter: 0.2}))
	for _, failures := range []int{40, 62, 63, 64, 999, 32000} {
		id := enqueue(t, client, db.Pool, task{}, pgqueue.WithMaxAttempts(32767)).ID
		exec(t, db.Pool, "UPDATE pgqueue.jobs SET attempt = $2::int, failures = $2::int WHERE id = $1", id, failures)
		drain(t, client, mux, pgqueue.WorkerConfig{})
		s := job(t, db.Pool, id)
		s.requireState(t, "pending", failures+1, failures+1)
		if s.DueIn < 24*3600 || s.DueIn > 48*3600 {
			t.Errorf("after %d failures due in %.0f s, want between half of the cap and the cap", failures, s.DueIn)
		}
	}
}

// C112: whatever a policy answers, the failure is recorded and the job runs again after a sensible time.
func TestC112_APolicyReturnsNonsense(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	for name, delay := range map[string]backoffFunc{
		"zero": func(int) time.Duration { return 0 }, "negative": func(int) time.Duration { return -24 * 365 * time.Hour },
		"huge": func(int) time.Duration { return math.MaxInt64 }, "least": func(int) time.Duration { return math.MinInt64 },
		"year 2200": func(int) time.Duration { return 200 * 365 * 24 * time.Hour },
		"panic":     func(int) time.Duration { panic("no") },
	} {
		mux := pgqueue.NewMux()
		pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[task]) error { return errors.New("no") }, pgqueue.KindBackoff(delay))
		id := enqueue(t, client, db.Pool, task{}, pgqueue.OnQueue(name)).ID
		began := time.Now()
		drain(t, client, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{name: {}}})
		s := job(t, db.Pool, id)
		s.requireState(t, "pending", 1, 1)
		if least := 0.5 - time.Since(began).Seconds(); s.DueIn < least || s.DueIn > 60 || len(s.Errors) != 1 {
			t.Errorf("%s: due in %.2f s with errors %+v, want the default's second", name, s.DueIn, s.Errors)
		}
	}
}

// C113: jobs that failed together do not come back together.
func TestC113_RetriesAreSpread(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[task]) error { return errors.New("an outage") })
	enqueueTasks(t, client, db.Pool, 1000)
	exec(t, db.Pool, "UPDATE pgqueue.jobs SET failures = 4, max_attempts = 100") // 16 s, if it were not for the jitter
	drain(t, client, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {Workers: 8, Batch: 1000, Backoff: runner.DefaultBackoff()}}})
	// claimed_at is cleared, so the delay is measured from the failure that was recorded.
	delays := one[[]float64](t, db.Pool, `SELECT array_agg(extract(epoch FROM run_at - (errors->-1->>'at')::timestamptz)::float8 ORDER BY 1)
		FROM pgqueue.jobs WHERE failures = 5`)
	if len(delays) != 1000 {
		t.Fatalf("%d of 1000 jobs failed", len(delays))
	}
	slices.Sort(delays)
	if spread := delays[999] - delays[0]; spread < 1.6 || delays[0] <= 0 || delays[999] > 60 {
		t.Errorf("delays between %.2f and %.2f s, want a spread of at least a tenth", delays[0], delays[999])
	}
	for i := range delays {
		j, _ := slices.BinarySearch(delays, delays[i]+0.01*16)
		if j-i > 50 {
			t.Fatalf("%d of 1000 jobs are due within the same hundredth of the delay", j-i)
		}
	}
}

// C115: a job that snoozes very often pays nothing for it.
func TestC115_SnoozeForever(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	snoozes := size(60, 2000)
	mux := pgqueue.NewMux()
	var attempts []int
	fails := false
	pgqueue.Handle(mux, func(_ context.Context, job *pgqueue.Job[task]) error {
		attempts = append(attempts, job.Attempt)
		if fails {
			return errors.New("at last")
		}
		if len(attempts)%snoozes == 0 {
			return pgqueue.Snooze(time.Hour)
		}
		return pgqueue.Snooze(0)
	})
	id := enqueue(t, client, db.Pool, task{}).ID
	run := func() {
		exec(t, db.Pool, "UPDATE pgqueue.jobs SET run_at = now() - interval '1 s'")
		eventually(t, "the job is put off", func() bool {
			drain(t, client, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {Backoff: runner.DefaultBackoff()}}})
			return job(t, db.Pool, id).DueIn > 0.01
		})
	}
	run()
	s := job(t, db.Pool, id)
	s.requireState(t, "pending", snoozes, 0)
	// As if it had gone on for years: the fence is an int, and what it spends of the budget is nothing.
	exec(t, db.Pool, "UPDATE pgqueue.jobs SET attempt = 40000")
	attempts = attempts[:0]
	run()
	exec(t, db.Pool, "UPDATE pgqueue.jobs SET run_at = now()")
	fails = true
	attempts = attempts[:0]
	drain(t, client, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {Backoff: runner.DefaultBackoff()}}})
	s = job(t, db.Pool, id)
	s.requireState(t, "pending", 40000+snoozes+1, 1)
	if s.DueIn > 2 || s.ErrorCount != 1 {
		t.Errorf("the first real failure waits %.1f s with %d errors, want about a second and 1", s.DueIn, s.ErrorCount)
	}
	if n := one[int](t, db.Pool, "SELECT max_attempts::int FROM pgqueue.jobs"); n != 3 {
		t.Errorf("max_attempts is %d", n)
	}
	if bytes := one[int](t, db.Pool, "SELECT pg_column_size(j.*) FROM pgqueue.jobs j"); bytes > 2000 {
		t.Errorf("the row has %d bytes", bytes)
	}
	if n := one[int](t, db.Pool, "SELECT count(*)::int FROM pgqueue.history"); n != 0 {
		t.Errorf("%d rows of history", n)
	}
}

// C116: snoozes of no time, less than no time and all the time.
func TestC116_SnoozeZeroNegativeHuge(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	for name, d := range map[string]time.Duration{"zero": 0, "negative": -time.Hour, "least": math.MinInt64} {
		mux := pgqueue.NewMux()
		var order []string
		var verdicts []runner.Outcome
		var mutex sync.Mutex
		pgqueue.Handle(mux, func(_ context.Context, job *pgqueue.Job[task]) error {
			order = append(order, job.Args.Do)
			if job.Args.Do == "snooze" && len(order) < 6 {
				return pgqueue.Snooze(d)
			}
			return nil
		})
		for _, do := range []string{"snooze", "second", "third"} {
			enqueue(t, client, db.Pool, task{Do: do}, pgqueue.OnQueue(name))
		}
		eventually(t, "the jobs are done", func() bool {
			drain(t, client, mux, pgqueue.WorkerConfig{
				Queues: pgqueue.Queues{name: {Workers: 1, Batch: 1}},
				Observer: &hooks{verdict: func(e runner.VerdictEvent) {
					mutex.Lock()
					defer mutex.Unlock()
					verdicts = append(verdicts, e.Outcome)
				}},
			})
			return one[int](t, db.Pool, "SELECT count(*)::int FROM pgqueue.jobs WHERE queue = $1", name) == 0
		})
		// The others get their turn before the second run: a snooze goes behind what is due already.
		if len(order) < 4 || fmt.Sprint(order[:4]) != "[snooze second third snooze]" {
			t.Errorf("%s: the jobs ran as %v", name, order)
		}
		if !slices.Contains(verdicts, runner.Snoozed) || slices.Contains(verdicts, runner.Retrying) {
			t.Errorf("%s: outcomes %v, want snoozes and no failure", name, verdicts)
		}
	}
	for name, d := range map[string]time.Duration{"huge": 1 << 62, "largest": math.MaxInt64} {
		mux := pgqueue.NewMux()
		pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[task]) error { return pgqueue.Snooze(d) })
		id := enqueue(t, client, db.Pool, task{}, pgqueue.OnQueue(name)).ID
		drain(t, client, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{name: {}}})
		s := job(t, db.Pool, id)
		s.requireState(t, "pending", 1, 0)
		if years := s.DueIn / (365 * 24 * 3600); years < 9 || years > 11 {
			t.Errorf("%s: due in %.1f years, want the ten that a delay is cut to", name, years)
		}
	}
}
