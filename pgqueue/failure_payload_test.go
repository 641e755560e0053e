package pgqueue_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
	"github.com/pgqueue/pgqueue/runner"
)

type nestedNumber struct {
	ID int64  `json:"id"`
	N  uint64 `json:"n"`
}

func (nestedNumber) Kind() string { return "number" }

// numberMap are arguments without a type of their own.
type numberMap map[string]any

func (numberMap) Kind() string { return "number map" }

// numberTx and numberBatch are for handlers of the other forms.
type (
	numberTx    map[string]any
	numberBatch struct{ numberFields }
	// numberFields has its digits in an interface inside a struct.
	numberFields struct {
		ID any `json:"id"`
		N  any `json:"n"`
	}
)

func (numberTx) Kind() string    { return "number tx" }
func (numberBatch) Kind() string { return "number batch" }

// No stage of a job's life rounds a number: whatever decodes the arguments and writes them again has all digits.
func TestC10_LongIntegers(t *testing.T) {
	t.Parallel()
	const written, want = `{"id":9007199254740993,"n":12345678901234567890}`, `{"n": 12345678901234567890, "id": 9007199254740993}`
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	texts := func(q interface {
		Query(context.Context, string, ...any) (pgx.Rows, error)
	}, stage string, n int, sql string) {
		t.Helper()
		rows, err := q.Query(testContext(t), sql)
		if err != nil {
			t.Fatal(err)
		}
		found, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		if len(found) != n {
			t.Errorf("%s: %d payloads, want %d", stage, len(found), n)
		}
		for _, text := range found {
			if text != want {
				t.Errorf("%s: stored %s, want %s", stage, text, want)
			}
		}
	}
	const live, copies = "SELECT payload::text FROM pgqueue.jobs", "SELECT payload::text FROM pgqueue.jobs WHERE queue = 'copies'"

	// Each handler enqueues what it was given again, then fails: to be tried again, for good, and not at all.
	forward := func(ctx context.Context, q pgqueue.Querier, info pgqueue.JobInfo, args pgqueue.Args) error {
		if _, err := client.Enqueue(ctx, q, args, pgqueue.OnQueue("copies")); err != nil {
			return err
		}
		return map[int]error{1: errors.New("again"), 2: runner.Permanent(errors.New("never"))}[info.Attempt]
	}
	newMux := func(q pgqueue.Querier) *pgqueue.Mux {
		mux := pgqueue.NewMux()
		mux.Use(func(next pgqueue.Handler) pgqueue.Handler {
			return pgqueue.HandlerFunc(func(ctx context.Context, job *pgqueue.AnyJob) error {
				if string(job.Args) != want {
					t.Errorf("the middleware saw %s", job.Args)
				}
				return next.HandleJob(ctx, job)
			})
		})
		pgqueue.Handle(mux, func(ctx context.Context, job *pgqueue.Job[nestedNumber]) error {
			return forward(ctx, q, job.JobInfo, job.Args)
		})
		pgqueue.HandleResult(mux, func(ctx context.Context, job *pgqueue.Job[numberMap]) (numberMap, error) {
			return job.Args, forward(ctx, q, job.JobInfo, job.Args)
		})
		pgqueue.HandleTx(mux, func(ctx context.Context, _ pgx.Tx, job *pgqueue.Job[numberTx]) error {
			return forward(ctx, q, job.JobInfo, job.Args)
		})
		pgqueue.HandleBatch(mux, func(ctx context.Context, jobs []*pgqueue.Job[numberBatch]) []error {
			errs := make([]error, len(jobs))
			for i, job := range jobs {
				errs[i] = forward(ctx, q, job.JobInfo, job.Args)
			}
			return errs
		}, pgqueue.KindCollect(-1))
		mux.HandleFunc("number raw", func(ctx context.Context, job *pgqueue.AnyJob) error {
			return forward(ctx, q, job.JobInfo, pgqueue.Raw{Name: job.Kind, Payload: job.Args})
		})
		return mux
	}
	kinds := []string{"number", "number map", "number tx", "number batch", "number raw"}
	var jobs []pgqueue.NewJob
	for _, kind := range kinds {
		jobs = append(jobs, pgqueue.NewJob{Args: pgqueue.Raw{Name: kind, Payload: json.RawMessage(written)}})
	}
	jobs[0].Args = nestedNumber{ID: 9007199254740993, N: 12345678901234567890}
	enqueued, err := client.EnqueueMany(testContext(t), db.Pool, jobs)
	if err != nil {
		t.Fatal(err)
	}
	texts(db.Pool, "enqueued", len(jobs), live)

	mux := newMux(db.Pool)
	for attempt, stage := range []string{"tried again", "failed", "retried"} {
		if stage == "retried" {
			for _, job := range enqueued {
				if err := client.Retry(testContext(t), db.Pool, job.ID); err != nil {
					t.Fatal(err)
				}
			}
		}
		rerun(t, db, client, mux, 1)
		texts(db.Pool, stage+", copies", len(jobs)*(attempt+1), copies)
		texts(db.Pool, stage, len(jobs), "SELECT payload::text FROM pgqueue.jobs WHERE queue = 'default' UNION ALL SELECT payload::text FROM pgqueue.history")
		for _, job := range enqueued {
			if got := string(get(t, client, db.Pool, job.ID).Payload); got != want {
				t.Errorf("%s: Get answers %s", stage, got)
			}
		}
	}
	texts(db.Pool, "the result", 1, "SELECT result::text FROM pgqueue.history WHERE result IS NOT NULL AND state = 'succeeded'")

	// The same through DrainTx, which hands each job to the handlers by another way.
	exec(t, db.Pool, "DELETE FROM pgqueue.jobs")
	tx := begin(t, db.Pool, pgx.TxOptions{})
	if _, err := client.EnqueueMany(testContext(t), tx, jobs); err != nil {
		t.Fatal(err)
	}
	if drained := pgqueuetest.DrainTx(t, tx, client, newMux(tx)); drained.Claimed != len(jobs) {
		t.Errorf("DrainTx: %+v", drained)
	}
	texts(tx, "DrainTx", 2*len(jobs), live)
}

// JSON that Postgres takes and encoding/json refuses, and arguments that do not fit: each attempt counts, and nobody else
// notices.
func TestC11_UndecodablePayloads(t *testing.T) {
	t.Parallel()
	const levels, neighbours, budget = 12_000, 20, 3
	deep := strings.Repeat("[", levels) + strings.Repeat("]", levels)
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	_, err := client.Enqueue(testContext(t), db.Pool, pgqueue.Raw{Name: "task", Payload: json.RawMessage(deep)})
	requireInvalid(t, err, "payload")

	insert := func(kind, payload string) int64 {
		return one[int64](t, db.Pool, "INSERT INTO pgqueue.jobs (queue, kind, payload, max_attempts) VALUES ('default', $1, $2::text::jsonb, $3) RETURNING id",
			kind, payload, budget)
	}
	bad := map[string]int64{
		"deep": insert("task", deep), "misfit": insert("task", `{"n":"x"}`), "scalar": insert("task", "7"),
		"batch": insert("other", deep), "tx": insert(numberTx{}.Kind(), deep),
	}
	raw := insert("raw", deep)
	ran := 0
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[task]) error { ran++; return nil })
	pgqueue.HandleBatch(mux, func(_ context.Context, jobs []*pgqueue.Job[other]) []error { ran += len(jobs); return nil }, pgqueue.KindCollect(-1))
	pgqueue.HandleTx(mux, func(context.Context, pgx.Tx, *pgqueue.Job[numberTx]) error { ran++; return nil })
	mux.HandleFunc("raw", func(_ context.Context, job *pgqueue.AnyJob) error {
		if string(job.Args) != deep {
			t.Errorf("a handler of JSON was given %d bytes, want %d", len(job.Args), len(deep))
		}
		return nil
	})
	for n := range neighbours {
		enqueue(t, client, db.Pool, task{N: n})
	}
	enqueue(t, client, db.Pool, other{N: 1})

	config := pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {Workers: 1, Batch: 100, Backoff: runner.Exponential{Base: time.Hour, Max: 2 * time.Hour, Factor: 2}}}}
	for attempt := 1; attempt <= budget; attempt++ {
		result := drain(t, client, mux, config)
		if attempt == 1 && (ran != neighbours+1 || result.Outcomes.Succeeded != neighbours+2) {
			t.Errorf("%d neighbours ran, want %d: %+v", ran, neighbours+1, result.Outcomes)
		}
		for name, id := range bad {
			s := get(t, client, db.Pool, id)
			state := pgqueue.JobPending
			if attempt == budget {
				state = pgqueue.JobDead
			}
			if s.State != state || s.Attempt != attempt || len(s.Failed) != attempt || s.ErrorCount != attempt {
				t.Fatalf("%s after %d attempts: %s, attempt %d, %d errors (%+v)", name, attempt, s.State, s.Attempt, s.ErrorCount, s.Failed)
			}
			if last := s.Failed[attempt-1]; last.Code != runner.CodeUndecodable || last.Message == "" {
				t.Errorf("%s: the error is %+v", name, last)
			}
			if due := job(t, db.Pool, id).DueIn; attempt < budget && due < 1800 {
				t.Errorf("%s is due again in %v s: its backoff is an hour", name, due)
			}
		}
		if again := drain(t, client, mux, config); again.Claimed != 0 {
			t.Errorf("%d jobs were claimed again at once", again.Claimed)
		}
		exec(t, db.Pool, "UPDATE pgqueue.jobs SET run_at = now() - interval '1 second'")
	}
	job(t, db.Pool, raw).requireState(t, "succeeded", 1, 0)
	if stats, err := client.Stats(testContext(t)); err != nil || len(stats) != 1 || stats[0].Dead.N != len(bad) {
		t.Errorf("stats %+v, %v", stats, err)
	}
	// A worker dies with such a job: the reaper meets the row, and the next claim too.
	if err := client.Retry(testContext(t), db.Pool, bad["deep"]); err != nil {
		t.Error(err)
	}
	abandon(t, db.Pool, bad["deep"])
	if result := drain(t, client, mux, config); result.Recovered.Requeued != 1 || result.Claimed != 1 {
		t.Errorf("after the death of its worker: %+v", result)
	}
	if s := get(t, client, db.Pool, bad["deep"]); s.Attempt != budget+2 || s.Failures != 2 || s.ErrorCount != budget+2 {
		t.Errorf("after the death of its worker: attempt %d, failures %d, %d errors", s.Attempt, s.Failures, s.ErrorCount)
	}
}
