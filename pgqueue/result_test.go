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

// answer is a result.
type answer struct {
	Text  string `json:"text"`
	Bytes []byte `json:"bytes,omitempty"`
}

// storedResult reads a result as text; "NULL" when there is none.
func storedResult(t testing.TB, q interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}, id int64) string {
	t.Helper()
	return one[string](t, q, "SELECT coalesce(result::text, 'NULL') FROM pgqueue.history WHERE id = $1", id)
}

func slowBackoff() runner.Backoff { return runner.Exponential{Base: time.Hour, Max: time.Hour} }

type unwritable struct{}

func (unwritable) MarshalJSON() ([]byte, error) { return nil, errors.New("secret") }

type bursting struct{}

func (bursting) MarshalJSON() ([]byte, error) { panic("secret") }

func TestHandleResult(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool, pgqueue.WithMaxPayload(1000))
	mux := pgqueue.NewMux()
	pgqueue.HandleResult(mux, func(_ context.Context, job *pgqueue.Job[task]) (any, error) {
		switch job.Args.Do {
		case "NUL":
			return answer{Text: "a\x00b"}, nil
		case "UTF-8":
			return answer{Text: "a\xffb"}, nil
		case "large":
			return answer{Text: strings.Repeat("x", 1000)}, nil
		case "unwritable":
			return unwritable{}, nil
		case "explosive":
			return bursting{}, nil
		case "channel":
			return make(chan int), nil
		case "number":
			return json.RawMessage("1e200000"), nil
		case "nothing":
			return nil, nil
		case "error":
			return answer{Text: "lost"}, errors.New("no")
		}
		return answer{Text: "42 😀"}, nil
	}, pgqueue.KindBackoff(slowBackoff()))
	good := map[string]string{"": `{"text": "42 😀"}`, "nothing": "null"}
	for do, want := range good {
		id := enqueue(t, client, db.Pool, task{Do: do}).ID
		drain(t, client, mux, pgqueue.WorkerConfig{})
		s := job(t, db.Pool, id)
		s.requireState(t, "succeeded", 1, 0)
		if got := storedResult(t, db.Pool, id); got != want {
			t.Errorf("%q: result %s, want %s", do, got, want)
		}
	}
	for _, do := range []string{"NUL", "UTF-8", "large", "unwritable", "explosive", "channel", "number", "error"} {
		id := enqueue(t, client, db.Pool, task{Do: do}).ID
		drain(t, client, mux, pgqueue.WorkerConfig{})
		s := job(t, db.Pool, id)
		s.requireState(t, "pending", 1, 1)
		code := pgqueue.CodeResultRejected
		if do == "error" {
			code = runner.CodeError
		}
		if len(s.Errors) != 1 || s.Errors[0].Code != code || strings.Contains(s.Errors[0].Message, "secret") {
			t.Errorf("%s: errors %+v, want one with code %s and without the value's text", do, s.Errors, code)
		}
	}
}

// The same table of jobs for every way in which a job can be completed: the result is there with the success.
func TestSetResult(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	for name, register := range map[string]func(mux *pgqueue.Mux, set func(*pgqueue.Job[task]) error){
		"handle": func(mux *pgqueue.Mux, set func(*pgqueue.Job[task]) error) {
			pgqueue.Handle(mux, func(_ context.Context, job *pgqueue.Job[task]) error { return set(job) }, pgqueue.KindBackoff(slowBackoff()))
		},
		"batch": func(mux *pgqueue.Mux, set func(*pgqueue.Job[task]) error) {
			pgqueue.HandleBatch(mux, func(_ context.Context, jobs []*pgqueue.Job[task]) []error {
				errs := make([]error, len(jobs))
				for i, job := range jobs {
					errs[i] = set(job)
				}
				return errs
			}, pgqueue.KindBackoff(slowBackoff()))
		},
		"unused tx": func(mux *pgqueue.Mux, set func(*pgqueue.Job[task]) error) {
			pgqueue.HandleTx(mux, func(_ context.Context, _ pgx.Tx, job *pgqueue.Job[task]) error { return set(job) },
				pgqueue.KindBackoff(slowBackoff()))
		},
		"tx": func(mux *pgqueue.Mux, set func(*pgqueue.Job[task]) error) {
			pgqueue.HandleTx(mux, func(ctx context.Context, tx pgx.Tx, job *pgqueue.Job[task]) error {
				if _, err := tx.Exec(ctx, "SELECT 1"); err != nil {
					return err
				}
				return set(job)
			}, pgqueue.KindBackoff(slowBackoff()))
		},
		"CompleteTx": func(mux *pgqueue.Mux, set func(*pgqueue.Job[task]) error) {
			pgqueue.Handle(mux, func(ctx context.Context, job *pgqueue.Job[task]) error {
				if err := set(job); err != nil {
					return err
				}
				return pgx.BeginFunc(ctx, db.Pool, func(tx pgx.Tx) error { return job.CompleteTx(ctx, tx) })
			}, pgqueue.KindBackoff(slowBackoff()))
		},
	} {
		kept := make(chan *pgqueue.Job[task], 10)
		mux := pgqueue.NewMux()
		register(mux, func(job *pgqueue.Job[task]) error {
			kept <- job
			switch job.Args.Do {
			case "good":
				_ = job.SetResult("a\x00b") // replaced
				return job.SetResult(answer{Text: "good"})
			case "bad":
				if err := job.SetResult("a\x00b"); !errors.Is(err, pgqueue.ErrInvalid) {
					t.Errorf("%s: SetResult of what cannot be stored: %v", name, err)
				}
			}
			return nil
		})
		queue := pgqueue.OnQueue(name)
		good := enqueue(t, client, db.Pool, task{Do: "good"}, queue).ID
		none := enqueue(t, client, db.Pool, task{Do: "none"}, queue).ID
		bad := enqueue(t, client, db.Pool, task{Do: "bad"}, queue).ID
		drain(t, client, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{name: {}}})
		if got := storedResult(t, db.Pool, good); got != `{"text": "good"}` {
			t.Errorf("%s: result %s", name, got)
		}
		if got := storedResult(t, db.Pool, none); got != "NULL" {
			t.Errorf("%s: result %s where none was set", name, got)
		}
		s := job(t, db.Pool, bad)
		s.requireState(t, "pending", 1, 1)
		if len(s.Errors) != 1 || s.Errors[0].Code != pgqueue.CodeResultRejected {
			t.Errorf("%s: errors %+v, want one with code %s", name, s.Errors, pgqueue.CodeResultRejected)
		}
		if err := receive(t, kept, "a job").SetResult(1); !errors.Is(err, pgqueue.ErrHandlerReturned) {
			t.Errorf("%s: SetResult after the end: %v", name, err)
		}
	}
}

// A result of a transaction that rolls back is not there, and neither is the success.
func TestResultOfARolledBackCompletion(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(ctx context.Context, job *pgqueue.Job[task]) error {
		for _, text := range []string{"first", "second"} { // a transaction that is tried again
			tx, err := db.Pool.Begin(ctx)
			if err != nil {
				return err
			}
			if err := errors.Join(job.SetResult(text), job.CompleteTx(ctx, tx)); err != nil {
				t.Errorf("%s: %v", text, err)
			}
			if text == "second" {
				return tx.Commit(ctx)
			}
			if err := tx.Rollback(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	id := enqueue(t, client, db.Pool, task{}).ID
	drain(t, client, mux, pgqueue.WorkerConfig{})
	if got := storedResult(t, db.Pool, id); got != `"second"` {
		t.Errorf("result %s, want the one that was committed", got)
	}
}

// A queue without history refuses handlers with results at the start of whatever would run them, and names both.
func TestResultsNeedHistory(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	ctx := testContext(t)
	if err := client.SetHistory(ctx, db.Pool, "slim", pgqueue.HistorySlim); err != nil {
		t.Fatal(err)
	}
	if err := client.SetHistory(ctx, db.Pool, "off", pgqueue.HistoryOff); err != nil {
		t.Fatal(err)
	}
	mux := pgqueue.NewMux()
	pgqueue.HandleResult(mux, func(context.Context, *pgqueue.Job[task]) (int, error) { return 42, nil })
	config := pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {}, "off": {}}, DisableListener: true}
	worker, err := client.NewWorker(mux, config)
	if err != nil {
		t.Fatal(err)
	}
	_, drained := client.Drain(ctx, mux, config)
	tx, err := db.Pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	_, drainedTx := client.DrainTx(ctx, tx, mux, config)
	for name, err := range map[string]error{"Run": worker.Run(ctx), "Drain": drained, "DrainTx": drainedTx} {
		var refused *pgqueue.ValidationError
		if !errors.As(err, &refused) || refused.Field != `Queues["off"]` || !strings.Contains(refused.Message, `"task"`) {
			t.Errorf("%s: %v, want a refusal that names the queue and the kind", name, err)
		}
	}
	// Slim history has room for results, and handlers without results work without history.
	id := enqueue(t, client, db.Pool, task{N: 7}, pgqueue.OnQueue("slim")).ID
	drain(t, client, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"slim": {}}})
	if got := storedResult(t, db.Pool, id); got != "42" {
		t.Errorf("result %s on a queue with slim history", got)
	}
	plain := pgqueue.NewMux()
	pgqueue.Handle(plain, func(context.Context, *pgqueue.Job[task]) error { return nil })
	drain(t, client, plain, config)
}

// History that is turned off while a worker runs: no result is lost without a word.
func TestHistoryTurnedOffLater(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	client := quietClient(t, db.Pool)
	mux := pgqueue.NewMux()
	ran := make(chan string, 10)
	pgqueue.HandleResult(mux, func(_ context.Context, job *pgqueue.Job[task]) (int, error) {
		ran <- job.Args.Do
		return 42, nil
	}, pgqueue.KindBackoff(slowBackoff()))
	pgqueue.Handle(mux, func(_ context.Context, job *pgqueue.Job[other]) error {
		if job.Args.N == 1 {
			if err := job.SetResult(1); !errors.Is(err, pgqueue.ErrInvalid) {
				t.Errorf("SetResult without history: %v", err)
			}
		}
		return nil
	}, pgqueue.KindBackoff(slowBackoff()))
	startWorker(t, client, mux, pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {}}})
	before := enqueue(t, client, db.Pool, task{Do: "before"}).ID
	if do := receive(t, ran, "the first job"); do != "before" {
		t.Fatal(do)
	}
	awaitState(t, db.Pool, before, "succeeded")
	if err := client.SetHistory(testContext(t), db.Pool, "default", pgqueue.HistoryOff); err != nil {
		t.Fatal(err)
	}
	after := enqueue(t, client, db.Pool, task{Do: "after"}).ID
	set := enqueue(t, client, db.Pool, other{N: 1}).ID
	for _, id := range []int64{after, set} {
		var s stored
		eventually(t, "the attempt has failed", func() bool { s = job(t, db.Pool, id); return s.Failures == 1 })
		s.requireState(t, "pending", 1, 1)
		if len(s.Errors) != 1 || s.Errors[0].Code != pgqueue.CodeResultRejected || !strings.Contains(s.Errors[0].Message, "history") {
			t.Errorf("errors %+v", s.Errors)
		}
	}
	if len(ran) > 0 {
		t.Error("the handler ran although its result could not be stored")
	}
}
