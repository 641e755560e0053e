package pgqueue_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
	"github.com/pgqueue/pgqueue/runner"
)

// enqueueTasks enqueues n jobs and returns their ids.
func enqueueTasks(t testing.TB, client *pgqueue.Client, q pgqueue.Querier, n int) []int64 {
	t.Helper()
	jobs := make([]pgqueue.NewJob, n)
	for i := range jobs {
		jobs[i].Args = task{N: i}
	}
	placed, err := client.EnqueueMany(testContext(t), q, jobs)
	if err != nil {
		t.Fatal(err)
	}
	ids := make([]int64, n)
	for i := range placed {
		ids[i] = placed[i].ID
	}
	return ids
}

// sizes remembers how many jobs each batch had.
type sizes struct {
	mutex sync.Mutex
	all   []int
}

func (s *sizes) add(n int) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.all = append(s.all, n)
}

func (s *sizes) sorted() []int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return slices.Sorted(slices.Values(s.all))
}

func TestHandleBatch(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	mux := pgqueue.NewMux()
	var seen sizes
	pgqueue.HandleBatch(mux, func(_ context.Context, jobs []*pgqueue.Job[task]) []error {
		seen.add(len(jobs))
		return nil
	}, pgqueue.KindBatch(50), pgqueue.KindCollect(20*time.Second))
	ids := enqueueTasks(t, client, db.Pool, 120)
	result := drain(t, client, mux, pgqueue.WorkerConfig{}) // waits for no window
	if result.Outcomes.Succeeded != 120 || fmt.Sprint(seen.sorted()) != "[20 50 50]" {
		t.Errorf("%+v in batches of %v, want 120 in two of 50 and one of 20", result.Outcomes, seen.sorted())
	}
	s := job(t, db.Pool, ids[119])
	s.requireState(t, "succeeded", 1, 0)
}

// A batch that is not full runs at the end of its window; each job of a batch ends in its own way.
func TestHandleBatchOutcomes(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	mux := pgqueue.NewMux()
	batch := make(chan []string, 10)
	broken := errors.New("broken")
	pgqueue.HandleBatch(mux, func(_ context.Context, jobs []*pgqueue.Job[task]) []error {
		errs := make([]error, len(jobs))
		var done []string
		for i, job := range jobs {
			done = append(done, job.Args.Do)
			switch job.Args.Do {
			case "fail":
				errs[i] = pgqueue.Permanent(broken)
			case "retry":
				errs[i] = pgqueue.RetryAfter(time.Hour, broken)
			case "snooze":
				errs[i] = pgqueue.Snooze(time.Hour)
			case "cancel":
				errs[i] = pgqueue.Cancel(nil)
			}
		}
		clear(jobs) // the slice is the handler's
		batch <- done
		return errs
	}, pgqueue.KindBatch(100), pgqueue.KindCollect(200*time.Millisecond))
	ids := map[string]int64{}
	var jobs []pgqueue.NewJob
	kinds := []string{"succeed", "fail", "retry", "snooze", "cancel"}
	for _, do := range kinds {
		jobs = append(jobs, pgqueue.NewJob{Args: task{Do: do}})
	}
	jobs = append(jobs, pgqueue.NewJob{Args: pgqueue.Raw{Name: "task", Payload: json.RawMessage(`{"n": "no number"}`)}})
	placed, err := client.EnqueueMany(testContext(t), db.Pool, jobs)
	if err != nil {
		t.Fatal(err)
	}
	for i, do := range append(kinds, "undecodable") {
		ids[do] = placed[i].ID
	}
	startWorker(t, client, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {Backoff: runner.Exponential{Base: time.Hour, Max: time.Hour}}}})
	if got := receive(t, batch, "the batch"); !slices.Equal(got, kinds) {
		t.Errorf("the batch was %v, want %v: the handler must not see what cannot be decoded", got, kinds)
	}
	for do, want := range map[string]struct {
		state    string
		failures int
		code     string
	}{
		"succeed": {"succeeded", 0, ""}, "fail": {"failed", 1, "error"}, "retry": {"pending", 1, "error"},
		"snooze": {"pending", 0, ""}, "cancel": {"cancelled", 0, ""}, "undecodable": {"pending", 1, "undecodable"},
	} {
		s := awaitState(t, db.Pool, ids[do], want.state)
		s.requireState(t, want.state, 1, want.failures)
		code := ""
		if len(s.Errors) > 0 {
			code = s.Errors[0].Code
		}
		if code != want.code {
			t.Errorf("%s: code %q, want %q", do, code, want.code)
		}
	}
}

func TestHandleBatchWithAWrongNumberOfErrors(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	for name, test := range map[string]struct {
		run  func(jobs []*pgqueue.Job[task]) []error
		code string
	}{
		"empty":     {func([]*pgqueue.Job[task]) []error { return []error{} }, runner.CodeNoResult},
		"too short": {func(jobs []*pgqueue.Job[task]) []error { return make([]error, len(jobs)-1) }, runner.CodeNoResult},
		"too long":  {func(jobs []*pgqueue.Job[task]) []error { return make([]error, len(jobs)+1) }, runner.CodeNoResult},
		"panic":     {func([]*pgqueue.Job[task]) []error { panic("no") }, runner.CodePanic},
	} {
		mux := pgqueue.NewMux()
		pgqueue.HandleBatch(mux, func(_ context.Context, jobs []*pgqueue.Job[task]) []error { return test.run(jobs) },
			pgqueue.KindBackoff(runner.Exponential{Base: time.Hour, Max: time.Hour}))
		var ids []int64
		for range 3 {
			ids = append(ids, enqueue(t, client, db.Pool, task{}, pgqueue.OnQueue(name)).ID)
		}
		drain(t, client, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{name: {}}})
		for _, id := range ids {
			s := job(t, db.Pool, id)
			s.requireState(t, "pending", 1, 1)
			if len(s.Errors) != 1 || s.Errors[0].Code != test.code {
				t.Errorf("%s: errors %+v, want one with code %s", name, s.Errors, test.code)
			}
		}
	}
}

type contextKey struct{}

// Middleware sees each job of a batch with its own error, may turn one away, and reaches the handler through the job's
// context. It is made once, not once for each job.
func TestMiddlewareSeesEachJobOfABatch(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	mux := pgqueue.NewMux()
	var mutex sync.Mutex
	made, outcomes := 0, map[string]string{}
	mux.Use(func(next pgqueue.Handler) pgqueue.Handler {
		made++
		return pgqueue.HandlerFunc(func(ctx context.Context, job *pgqueue.AnyJob) error {
			err := next.HandleJob(context.WithValue(ctx, contextKey{}, job.ID), job)
			mutex.Lock()
			defer mutex.Unlock()
			var args task
			_ = json.Unmarshal(job.Args, &args)
			outcomes[args.Do] = fmt.Sprint(err)
			return err
		})
	}, func(next pgqueue.Handler) pgqueue.Handler {
		return pgqueue.HandlerFunc(func(ctx context.Context, job *pgqueue.AnyJob) error {
			if string(job.Args) == `{"n": 0, "do": "turned away"}` {
				return pgqueue.Cancel(errors.New("turned away"))
			}
			_ = next.HandleJob(ctx, job)
			return next.HandleJob(ctx, job) // the same answer, and no second run
		})
	})
	var seen sizes
	pgqueue.HandleBatch(mux, func(ctx context.Context, jobs []*pgqueue.Job[task]) []error {
		seen.add(len(jobs))
		errs := make([]error, len(jobs))
		for i, job := range jobs {
			if job.Context().Value(contextKey{}) != job.ID {
				t.Errorf("the context of job %d carries %v", job.ID, job.Context().Value(contextKey{}))
			}
			if ctx.Value(contextKey{}) != nil {
				t.Error("the batch's context carries the value of one job")
			}
			if job.Args.Do == "fail" {
				errs[i] = pgqueue.Permanent(errors.New("broken"))
			}
		}
		return errs
	})
	ids := map[string]int64{}
	for _, do := range []string{"first", "turned away", "fail", "last"} {
		ids[do] = enqueue(t, client, db.Pool, task{Do: do}).ID
	}
	drain(t, client, mux, pgqueue.WorkerConfig{})
	want := map[string]string{"first": "<nil>", "turned away": "cancel: turned away", "fail": "permanent: broken", "last": "<nil>"}
	if fmt.Sprint(outcomes) != fmt.Sprint(want) {
		t.Errorf("middleware saw %v, want %v", outcomes, want)
	}
	if fmt.Sprint(seen.sorted()) != "[3]" || made != 1 {
		t.Errorf("batches of %v, middleware made %d times; want one of 3, once", seen.sorted(), made)
	}
	for do, state := range map[string]string{"first": "succeeded", "turned away": "cancelled", "fail": "failed", "last": "succeeded"} {
		if s := job(t, db.Pool, ids[do]); s.State != state {
			t.Errorf("%s: %s, want %s", do, s.State, state)
		}
	}
}

// Middleware that recovers a panic of the handler around one job does not make the others successes.
func TestARecoveredPanicOfABatch(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	mux := pgqueue.NewMux()
	mux.Use(func(next pgqueue.Handler) pgqueue.Handler {
		return pgqueue.HandlerFunc(func(ctx context.Context, job *pgqueue.AnyJob) (err error) {
			defer func() {
				if v := recover(); v != nil {
					err = fmt.Errorf("recovered %v", v)
				}
			}()
			return next.HandleJob(ctx, job)
		})
	})
	pgqueue.HandleBatch(mux, func(context.Context, []*pgqueue.Job[task]) []error { panic("no") },
		pgqueue.KindBackoff(runner.Exponential{Base: time.Hour, Max: time.Hour}))
	ids := enqueueTasks(t, client, db.Pool, 4)
	drain(t, client, mux, pgqueue.WorkerConfig{})
	for _, id := range ids {
		s := job(t, db.Pool, id)
		s.requireState(t, "pending", 1, 1)
	}
}

// Both names of a renamed kind go into one batch.
func TestBatchesOfARenamedKind(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	mux := pgqueue.NewMux()
	var seen sizes
	pgqueue.HandleBatch(mux, func(_ context.Context, jobs []*pgqueue.Job[task]) []error {
		seen.add(len(jobs))
		return nil
	}, pgqueue.KindAliases("old_task"))
	enqueue(t, client, db.Pool, task{})
	enqueue(t, client, db.Pool, pgqueue.Raw{Name: "old_task"})
	result := drain(t, client, mux, pgqueue.WorkerConfig{})
	if result.Outcomes.Succeeded != 2 || fmt.Sprint(seen.sorted()) != "[2]" {
		t.Errorf("%+v in batches of %v, want one of both", result.Outcomes, seen.sorted())
	}
}

func TestDrainTxRunsBatchesOfOne(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	mux := pgqueue.NewMux()
	var seen sizes
	pgqueue.HandleBatch(mux, func(_ context.Context, jobs []*pgqueue.Job[task]) []error {
		seen.add(len(jobs))
		return nil
	}, pgqueue.KindCollect(time.Hour))
	tx, err := db.Pool.Begin(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	enqueueTasks(t, client, tx, 3)
	result, err := client.DrainTx(testContext(t), tx, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {}}})
	if err != nil || result.Outcomes.Succeeded != 3 || fmt.Sprint(seen.sorted()) != "[1 1 1]" {
		t.Errorf("%+v, %v, batches of %v", result, err, seen.sorted())
	}
}

func TestBatchOptionsAreChecked(t *testing.T) {
	t.Parallel()
	batch := func(context.Context, []*pgqueue.Job[task]) []error { return nil }
	for field, register := range map[string]func(*pgqueue.Mux){
		"batch": func(mux *pgqueue.Mux) {
			pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[task]) error { return nil }, pgqueue.KindBatch(2))
		},
		"collect": func(mux *pgqueue.Mux) {
			pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[task]) error { return nil }, pgqueue.KindCollect(time.Second))
		},
		"handler":                func(mux *pgqueue.Mux) { pgqueue.HandleBatch[task](mux, nil) },
		`batch `:                 func(mux *pgqueue.Mux) { pgqueue.HandleBatch(mux, batch, pgqueue.KindBatch(-1)) },
		`Handle["task"].Collect`: func(mux *pgqueue.Mux) { pgqueue.HandleBatch(mux, batch, pgqueue.KindCollect(time.Hour)) },
		`Handle["task"].BatchSize`: func(mux *pgqueue.Mux) {
			pgqueue.HandleBatch(mux, batch, pgqueue.KindBatch(runner.MaxBatch+1))
		},
	} {
		mux := pgqueue.NewMux()
		register(mux)
		client := quietClient(t, pgqueuetest.New(t).Pool)
		_, err := client.NewWorker(mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {}}})
		var invalid *pgqueue.ValidationError
		if !errors.As(err, &invalid) || !strings.HasSuffix(invalid.Field, strings.TrimSpace(field)) {
			t.Errorf("%v, want a ValidationError of %s", err, field)
		}
	}
}
